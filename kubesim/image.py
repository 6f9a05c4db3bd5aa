"""The image of a cluster that has settled: what others like it begin with, under names, keys and ages of their own.

To plant a cluster, to validate some 500 objects and to start every pod of its addons is most of what a practice
cluster costs, and comes out the same each time. So the warmed parent does it once, on a clock that jumps.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from uuid import UUID, uuid4

import orjson

from kubesim import clusterfile
from kubesim.ages import Ages, group_of, restart_some
from kubesim.api.meta import SUFFIX_LENGTH, generated_name
from kubesim.changelog import State
from kubesim.clock import ManualClock
from kubesim.cluster import Cluster, ClusterSpec, Secrets, pools_of
from kubesim.clusterfile import ClusterFile
from kubesim.errors import Obj
from kubesim.gpu.nodes import node_name
from kubesim.holders import server_id
from kubesim.pki import CertificateAuthority
from kubesim.pools import Pool
from kubesim.saved import key

AGE_S = 20
"""How old a cluster is when its image is taken: by then every pod of its addons is ready."""
WORKLOAD_S = 10
"""For so long it runs a workload afterwards: its containers start, and one of them fails."""
ISSUER, SERVER = "https://image.invalid", "https://127.0.0.1:1"
UID = rb"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
MOMENT = rb"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{6})?(?:Z|\+00:00)"
SINCE = rb'"since":"20\d\d-\d\d-\d\d"'
VOLUME = rb"kube-api-access-[a-z0-9]{5}"
EVENTS = key("object", "events").removesuffix(b"]")
"""Begin the keys of events, which nobody has any more after an hour."""
CONTAINER = re.compile(rb'"containerd://([0-9a-f]{64})"')
NAME = "image"


@dataclass(frozen=True, slots=True)
class Birth:
    """The parts of a new cluster that differ from the image: its seed, and the delay of each group of objects."""

    seed: str
    passed: Mapping[str, timedelta]
    uids: dict[str, str] = field(default_factory=dict)

    def uid(self, uid: str) -> str:
        """Return what stands for an identifier of the image in all places."""
        return self.uids.setdefault(uid, str(uuid4()))


Make = Callable[[str, Birth, str], str]
"""Returns what another cluster has in the place of a text, in a thing of a group."""


@dataclass(frozen=True, slots=True)
class Image:
    """Everything that is kept of a cluster, line by line, and where in it stands what no two clusters have alike.

    It is one text and some numbers, since forks share the memory of what they do not touch: thousands of small texts
    are touched when they are only read.
    """

    asked: Obj
    at: datetime
    text: bytes
    own: list[tuple[str, Make, str]]
    """Texts, what makes others of them, and the group of the things in which they stand."""
    places: array[int]
    """Begin, end and number in ``own`` of each."""

    def state_of(self, spec: ClusterSpec, issuer: str) -> State:
        """Return the state of a new cluster, in which nothing tells of another one."""
        passed = timedelta(seconds=int((spec.created_at - self.at).total_seconds()))  # some times are whole seconds
        ages = Ages(spec.name)
        birth = Birth(spec.name, {group: passed - ages.of(group) for group in {group for _, _, group in self.own}})
        new = [make(part, birth, group).encode() for part, make, group in self.own]
        state = {name: value for name, _, value in (line.partition(b"\t") for line in self._lines(new))}
        restart_some(state, spec.name, spec.created_at)
        return state | {key("cluster"): orjson.dumps({"spec": spec.dump(), "secrets": Secrets.create(issuer).dump()})}

    def _lines(self, new: list[bytes]) -> Iterator[bytes]:
        """Yield line after line with ``new`` in its places: what is held for a moment stays in a fork's memory."""
        parts: list[bytes] = []
        end = 0
        for begin, after, number in zip(*[iter(self.places)] * 3, strict=True):
            while (line := self.text.find(b"\n", end, begin)) >= 0:
                yield b"".join((*parts, self.text[end:line]))
                parts, end = [], line + 1
            parts += (self.text[end:begin], new[number])
            end = after
        first, *others = self.text[end:].split(b"\n")
        yield b"".join((*parts, first))
        yield from others


def take(
    asked: Obj, authority: CertificateAuthority, images: list[Image], workload: ClusterFile | None = None
) -> Iterator[None]:
    """Make a cluster as it is ``asked`` for, and add its image once it has settled.

    Then the cluster runs a ``workload``: what that computes for the first time, forks of this process have computed.

    In steps of a tenth of a second of work at most, as a chore has to be: whoever waits for a process meanwhile gets
    a cluster that is made in the common way.
    """
    clock = ManualClock(datetime.now(UTC) - timedelta(seconds=AGE_S))
    spec = ClusterSpec(NAME, clock.now(), nodes=asked["nodes"], gpus=asked["gpus"])
    content = clusterfile.with_addons(asked["addons"], clusterfile.of(asked["file"]) if "file" in asked else None)
    wanted = pools_of(spec, content, practice=True)
    with asyncio.Runner() as runner:
        cluster = runner.run(Cluster.create(spec, clock, SERVER, authority, content, keep=True, issuer=ISSUER))
        for _ in range(AGE_S):
            yield
            runner.run(clock.advance(1.0))
        kept = cluster.changes.take().items()
        state = {name: value for name, value in kept if value and not name.startswith(EVENTS)}
        images.append(Image(asked, clock.now(), *_taken_apart(state, wanted)))
        if workload is not None:
            workload.create(cluster.operations)
            for _ in range(WORKLOAD_S):
                yield
                runner.run(clock.advance(1.0))
        runner.run(cluster.stop())


def image_of(asked: Obj, authority: CertificateAuthority) -> Image:
    """Return the image of a cluster as it is ``asked`` for, at once."""
    images: list[Image] = []
    for _ in take(asked, authority, images):
        pass
    return images[0]


def _taken_apart(state: State, wanted: Sequence[Pool]) -> tuple[bytes, list[tuple[str, Make, str]], array[int]]:
    """Return all lines as one text, what in it is the cluster's own, and where that stands."""
    objects = {name: orjson.loads(value) for name, value in state.items() if name.startswith(b'["object"')}
    on = {obj["metadata"]["uid"]: obj["spec"].get("nodeName", "") for obj in objects.values() if obj["kind"] == "Pod"}
    kinds = _own(state, [*objects.values()], wanted)
    pattern = re.compile(b"|".join(kinds))
    numbers: dict[tuple[bytes, str], int] = {}
    places: array[int] = array("L")
    text = bytearray()
    for name, value in state.items():
        group = group_of(orjson.loads(name), objects.get(name, {}), on)
        start = len(text) + bool(text)
        text += (b"\n" if text else b"") + name + b"\t" + value
        for found in pattern.finditer(text, start):
            same = group if re.fullmatch(MOMENT + b"|" + SINCE, found[0]) else ""
            places.extend((*found.span(), numbers.setdefault((found[0], same), len(numbers))))
    return bytes(text), [(part.decode(), _make_of(part, kinds), group) for part, group in numbers], places


def _own(state: State, objects: list[Obj], wanted: Sequence[Pool]) -> dict[bytes, Make]:
    """Return what each cluster has of its own, as patterns, and how another one gets its."""
    names = {obj["metadata"]["name"] for obj in objects if obj["metadata"].get("generateName")}
    containers = {found for value in state.values() for found in CONTAINER.findall(value)}
    machines = {obj["status"]["nodeInfo"]["machineID"] for obj in objects if obj["kind"] == "Node"}
    host = f"{NAME}-control-plane"
    return {
        UID: lambda uid, birth, group: birth.uid(uid),
        MOMENT: _later,
        SINCE: lambda text, birth, group: f'{text[:9]}{_later(f"{text[9:-1]}T00:00:00Z", birth, group)[:10]}"',
        VOLUME: _renamed,
        **{re.escape(name).encode(): make for name, make in _nodes(wanted).items()},
        **{re.escape(name).encode(): _renamed for name in names},
        **{machine.encode(): lambda text, birth, group: birth.uid(str(UUID(text))).replace("-", "")
           for machine in machines},
        **{found: lambda found, birth, group: secrets.token_hex(32) for found in containers},
        server_id(host).encode(): lambda text, birth, group: server_id(f"{birth.seed}-control-plane"),
        host.encode(): lambda text, birth, group: f"{birth.seed}-control-plane",
    }  # fmt: skip


def _nodes(wanted: Sequence[Pool]) -> dict[str, Make]:
    """Return the names of the image's nodes, and what makes those of another cluster. Given names stay."""
    machines = [pool.machine for pool in wanted for _ in range(pool.count)]
    names = [partial(node_name, machine, at) for at, machine in enumerate(machines)]
    return {name(NAME): lambda text, birth, group, name=name: name(birth.seed) for name in names}  # type: ignore[misc]


def _make_of(part: bytes, kinds: dict[bytes, Make]) -> Make:
    return next(make for pattern, make in kinds.items() if re.fullmatch(pattern, part))


def _renamed(name: str, birth: Birth, group: str) -> str:
    return generated_name(name[:-SUFFIX_LENGTH])


def _later(moment: str, birth: Birth, group: str) -> str:
    """Return a time in the form that the first has."""
    text = (datetime.fromisoformat(moment) + birth.passed[group]).isoformat(
        timespec="microseconds" if "." in moment else "seconds"
    )
    return text.replace("+00:00", "Z") if moment.endswith("Z") else text
