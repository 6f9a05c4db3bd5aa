"""Records that are kept of a cluster, by key: the cluster itself, its objects, and what its kubelets remember."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import orjson

from kubesim.changelog import State
from kubesim.errors import Obj
from kubesim.store import Event, key_of


@dataclass
class Saved:
    """A kept cluster as a restart wants it."""

    cluster: Obj = field(default_factory=dict)
    version: int = 0
    objects: dict[str, list[bytes]] = field(default_factory=dict)
    """JSON by table."""
    kubelets: Obj = field(default_factory=dict)
    cloud: Obj = field(default_factory=dict)

    @classmethod
    def read(cls, state: State) -> Saved:
        """Return what a change log has kept."""
        saved = cls()
        for line, value in state.items():
            match orjson.loads(line):
                case ["cluster"]:
                    saved.cluster = orjson.loads(value)
                case ["version"]:
                    saved.version = orjson.loads(value)
                case ["object", table, _, _]:
                    saved.objects.setdefault(table, []).append(value)
                case ["kubelet", name]:
                    saved.kubelets[name] = orjson.loads(value)
                case ["cloud", path]:
                    saved.cloud[path] = orjson.loads(value)
        return saved


def key(*parts: str) -> bytes:
    """Return the key under which ``Saved.read`` finds a thing."""
    return orjson.dumps(parts)


VERSION = key("version")


def key_of_object(event: Event) -> bytes:
    """Return the key of the object that an event tells of."""
    return key("object", event.kind.table, *key_of(event.object))


def lines(name: str, changes: Obj) -> State:
    """Return changes under keys that begin with ``name``; None is a thing that is gone."""
    return {key(name, what): b"" if value is None else orjson.dumps(value) for what, value in changes.items()}


def with_images(state: State, present: Sequence[str]) -> State:
    """Return a state whose nodes have some images more on their disks."""
    begin = key("kubelet", "images/").removesuffix(b'"]')
    there = {line: value for line, value in state.items() if line.startswith(begin)} if present else {}
    return state | {line: orjson.dumps([*orjson.loads(value), *present]) for line, value in there.items()}
