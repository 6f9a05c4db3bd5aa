"""Scenarios that cannot be in one interview: both change the same object or the same field of one, or one takes away
by what the other is judged, or what it needs.

Which variant a session will have is not known when it is planned; so all variants are compared. A name that the
cluster decides may be any name.

Two packs of Terraform make the same objects, so that they cannot be in one interview either, unless the later one
says that it goes on with the code of the other (``workspace.after``).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import combinations
from typing import Any

from faults.injectors import Create, NodeFault, PatchObject
from faults.injectors import changes as changes_of
from faults.injectors.call import CallProgram
from faults.injectors.delete import DeleteObject
from faults.injectors.terraform import Apply, Reserve
from faults.packs import Pack, workspaces

ANY = "*"
CLASH = "“{one}” and “{other}” cannot be in one interview: both {act} {what}. Leave one of them out."
MIXED = (
    "“{one}” and “{other}” cannot be in one interview: the first {act} {what}, which the second {other_act}. "
    "Leave one of them out."
)
METRICS = (
    "“{one}” and “{other}” cannot be in one interview: until it is repaired, the first takes the GPU metrics away by "
    "which the second is judged. Leave one of them out."
)
GPUS = (
    "“{one}” and “{other}” cannot be in one interview: the first needs free GPUs on every node, and the second has "
    "GPU nodes of its own, with fewer of them or with all of them in use. Leave one of them out."
)
ORDER = "“{one}” builds on the Terraform code of “{other}”, and so has to come after it. Move it behind."
STATES = (
    "“{one}” and “{other}” cannot be in one interview: their Terraform code has two states. Leave one of them out."
)
FILES = (
    "“{one}” and “{other}” cannot be in one part: both change {what} of the Terraform code. Put the second into a "
    "later part."
)
IMAGE = "“{one}” and “{other}” cannot be in one interview: each brings another image {what}. Leave one of them out."
VERBS = {"create": "creates", "delete": "deletes", "change": "changes", "call": "calls", "break": "breaks"}
_KEYS = ("key", "name", "containerPort", "mountPath", "port", "ip", "type", "topologyKey")
"""The fields by which Kubernetes tells the entries of a list from each other."""

MAX_KEPT = 64
"""Packs whose changes are remembered."""

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Touch:
    """One change of an object: of the field at ``path``, which is empty for the whole object."""

    act: str
    kind: str
    namespace: str
    name: str
    path: Path = ()
    by_terraform: bool = False

    def meets(self, other: Touch) -> bool:
        """Return whether both can be about the same object, and the same field of it."""
        same_kind = (self.kind, self.namespace) == (other.kind, other.namespace)
        return same_kind and _may_be_one(self.name, other.name) and _overlap(self.path, other.path)

    def __str__(self) -> str:
        """Return it for people."""
        place = f" in the namespace {self.namespace}" if self.namespace else ""
        name = "a node that the cluster decides" if ANY in self.name else f"{self.kind} {self.name}{place}"
        return f"{'.'.join(self.path)} of {name}" if self.path else name


def clash(packs: Sequence[Pack], parts: Sequence[int] = ()) -> str:
    """Return, in a sentence, why two of these packs cannot be in one interview; empty where all can.

    They are in the order of the interview; ``parts`` has the number of the part that each is in, and without it each
    is in a part of its own.
    """
    for one, other in combinations(zip(packs, parts or range(len(packs)), strict=True), 2):
        if why := _of_code(one[0], other[0], same_part=one[1] == other[1]):
            return why
    pairs = combinations(packs, 2)
    return next((why for one, other in pairs if (why := _between(one, other))), "")


def touches(pack: Pack) -> set[Touch]:
    """Return every change that any variant of a pack makes."""
    steps = (step for variant in pack.variants for step in pack.steps_of(variant, ANY))
    return {touch for step in steps for change in changes_of([step]) for touch in _touches(change)}


def builds_on(pack: Pack, before: Pack) -> bool:
    """Return whether a pack builds on the Terraform code of another one."""
    return pack.workspace is not None and before.slug in pack.workspace.after


def _of_code(one: Pack, other: Pack, *, same_part: bool) -> str:
    if one.workspace and other.workspace and one.workspace.state != other.workspace.state:
        return STATES.format(one=one.title, other=other.title)
    if builds_on(one, other) and not builds_on(other, one):
        return ORDER.format(one=one.title, other=other.title)
    if not same_part or not builds_on(other, one):
        return ""
    both = sorted(_changed_files(one) & _changed_files(other))
    return FILES.format(one=one.title, other=other.title, what=both[0]) if both else ""


def _changed_files(pack: Pack) -> set[str]:
    return {path.removeprefix(workspaces.FOLDER) for path in workspaces.changes_in(pack.template.workspace)}


class _Same:
    """A pack by its identity: what holds mappings has no hash of its own."""

    def __init__(self, pack: Pack) -> None:
        self.pack = pack

    def __hash__(self) -> int:
        return id(self.pack)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.pack is other.pack


@lru_cache(maxsize=MAX_KEPT)
def _sorted_touches(same: _Same) -> Sequence[Touch]:
    """Return ``touches`` in one order; each look at a plan would fill in all variants of all its packs anew."""
    return sorted(touches(same.pack), key=str)


def _between(one: Pack, other: Pack) -> str:
    names = {"one": one.title, "other": other.title}
    for taker, judged in ((one, other), (other, one)):
        if "gpu-metrics" in taker.takes_away and judged.is_judged_by_gpu_metrics:
            return METRICS.format(one=taker.title, other=judged.title)
    for needing, taking in ((one, other), (other, one)):
        if "gpus" in needing.needs_free and any(pool.gpus for pool in taking.requires.pools):
            return GPUS.format(one=needing.title, other=taking.title)
    images = {image["name"]: image for image in one.images}
    for image in other.images:
        if image["name"] in images and images[image["name"]] != image:
            return IMAGE.format(**names, what=image["name"])
    joined = builds_on(other, one)
    for touch in _sorted_touches(_Same(one)):
        for met in _sorted_touches(_Same(other)):
            if touch.meets(met) and not (joined and touch.by_terraform and met.by_terraform):
                what = max(touch, met, key=lambda found: len(found.path))
                same = touch.act == met.act
                form, act = (CLASH, touch.act) if same else (MIXED, VERBS[touch.act])
                return form.format(**names, act=act, what=what, other_act=VERBS[met.act])
    return ""


def _touches(change: Any) -> Iterator[Touch]:
    target = change.target
    place = (f"{target.kind}", target.namespace, target.name)
    match change:
        case Reserve() | Apply():
            yield Touch("create", *place, by_terraform=True)
        case Create():
            yield Touch("create", *place)
        case DeleteObject():
            yield Touch("delete", *place)
        case NodeFault():
            yield Touch("break", *place, change.part)
        case CallProgram():
            yield Touch("call", *place, (change.request.path,))
        case PatchObject(patch_type="json"):
            for path in _operation_paths(change.patch):
                yield Touch("change", *place, path)
        case PatchObject():
            for path in _paths(change.patch, (), merges_lists=change.patch_type == "strategic"):
                yield Touch("change", *place, path)


def _paths(value: Any, path: Path, *, merges_lists: bool) -> Iterator[Path]:
    """Yield the path of each field that a patch sets."""
    if isinstance(value, Mapping) and value:
        for name, item in value.items():
            yield from _paths(item, (*path, str(name)), merges_lists=merges_lists)
    elif isinstance(value, list) and merges_lists:
        for item in value:
            yield (*path, _entry(item))
    else:
        yield path


def _operation_paths(operations: Any) -> Iterator[Path]:
    """Yield the paths of a JSON patch; an entry of a list is known where it is added, else it may be any."""
    for operation in operations:
        for place in ("path", "from"):
            names = [part.replace("~1", "/").replace("~0", "~") for part in operation.get(place, "").split("/")[1:]]
            if not names or operation["op"] == "test" or (place == "from" and operation["op"] == "copy"):
                continue
            if names[-1] == "-":
                yield (*names[:-1], _entry(operation.get("value")))
            else:
                index = next((at for at, name in enumerate(names) if name.isdecimal()), len(names))
                yield tuple(names[:index])


def _entry(value: Any) -> str:
    """Return what tells an entry of a list from the others."""
    if isinstance(value, Mapping):
        key = next((key for key in _KEYS if key in value), "")
        if key:
            return f"[{key}={value[key]}]"
    return f"[{json.dumps(value, sort_keys=True)}]"


def _may_be_one(one: str, other: str) -> bool:
    return fnmatchcase(one, other) or fnmatchcase(other, one)


def _overlap(one: Path, other: Path) -> bool:
    return all(left == right for left, right in zip(one, other, strict=False))
