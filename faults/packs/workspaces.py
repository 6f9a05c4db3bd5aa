"""The Terraform workspace of a pack: the platform's code with the pack's own files laid over it, and changes to it.

What is stored is the merged code, so that a version stays what it was when the platform's code goes on. The code
is not filled in like other texts: HCL has ``${...}`` of its own, so only namespaces and parameters are.

A pack that is played alone, or first of its interview, begins with all of it. One that comes after another with the
same state finds code that the candidate has worked on, and lays nothing but its changes over that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from faults.packs.errors import PackError
from faults.packs.model import Obj
from faults.packs.rights import AccessRule, merge

DOCUMENT = "scenario.yaml"
FOLDER, CHANGES = "workspace/", "changes/"
BASE = Path(__file__).resolve().parents[2] / "deploy" / "terraform"
"""The platform's code, over which a pack lays its files."""
MAX_FILES, MAX_BYTES = 100, 256 * 1024
"""Of a merged workspace, all files together."""
STEP = "terraform"
_FILE = re.compile(r"(workspace|changes)/([a-z][a-z0-9_-]*/){0,3}([A-Za-z0-9_-]+\.(tf|tfvars|md)|terraform\.tfvars)")
_PLACEHOLDER = re.compile(r"\$\{((?:namespace|parameter|cluster)\.[a-z0-9-]+)\}")
FORM = "a .tf, .tfvars or .md file in workspace/ or changes/, at most three folders deep"


@dataclass(frozen=True, slots=True)
class Workspace:
    """All that a pack says of Terraform beside its code.

    ``state`` is the namespace of the state, made for the session. ``namespaces``, and ``objects`` (kind and name) of
    none or of the state's, are what Terraform may make. ``rights`` are those of its account in the cluster,
    ``cloud_roles`` those in the cloud's project. ``after`` are the packs, by slug, on whose code it can go on.
    ``impersonated`` are the users and groups that the session's candidate may impersonate.
    """

    state: str
    namespaces: tuple[str, ...]
    objects: tuple[tuple[str, str], ...] = ()
    rights: tuple[AccessRule, ...] = ()
    cloud_roles: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    impersonated: tuple[str, ...] = ()

    @classmethod
    def load(cls, row: Obj) -> Workspace:
        """Read a pack's ``workspace``, or what ``dump`` wrote."""
        return cls(
            row["state"],
            tuple(row.get("namespaces", ())),
            tuple((entry["kind"], entry["name"]) for entry in row.get("objects", ())),
            tuple(map(AccessRule.load, row.get("rights", ()))),
            tuple(row.get("cloud-roles", ())),
            tuple(row.get("after", ())),
            tuple(row.get("impersonated", ())),
        )

    def dump(self) -> Obj:
        """Return it as JSON."""
        return {
            "state": self.state,
            "namespaces": [*self.namespaces],
            "objects": [{"kind": kind, "name": name} for kind, name in self.objects],
            "rights": [rule.dump() for rule in self.rights],
            "cloud-roles": [*self.cloud_roles],
            "after": [*self.after],
            "impersonated": [*self.impersonated],
        }


def is_workspace(name: str) -> bool:
    """Return whether a file of a pack is code: of its workspace, or a change to it."""
    return name.startswith((FOLDER, CHANGES))


def changes_in(code: Mapping[str, str]) -> dict[str, str]:
    """Return the changes of a pack's code, by the paths of the files that they take the place of."""
    found = {name.removeprefix(CHANGES): text for name, text in code.items() if name.startswith(CHANGES)}
    return {f"{FOLDER}{path}": text for path, text in found.items()}


def whole(code: Mapping[str, str]) -> dict[str, str]:
    """Return the code of a pack that is played alone: its workspace with its changes laid over it."""
    return {name: text for name, text in code.items() if name.startswith(FOLDER)} | changes_in(code)


def merged(files: Mapping[str, str]) -> dict[str, str]:
    """Return a pack's files with the platform's code below those of its workspace; without one, as they are."""
    if not any(map(is_workspace, files)):
        return dict(files)
    return {f"{FOLDER}{name}": text for name, text in _platform().items()} | dict(files)


def check_files(files: Mapping[str, str]) -> None:
    """Raise ``PackError`` for names that no workspace has, and for too many or too large files."""
    found = {name: text for name, text in files.items() if is_workspace(name)}
    for name in found:
        if not _FILE.fullmatch(name):
            raise PackError(name, "", f"is not {FORM}")
    if len(found) > MAX_FILES:
        raise PackError(FOLDER, "", f"has {len(found)} files; at most {MAX_FILES} are allowed")
    if (size := sum(len(text.encode()) for text in found.values())) > MAX_BYTES:
        raise PackError(FOLDER, "", f"has {size} bytes in all; at most {MAX_BYTES // 1024} KiB are allowed")


def check(document: Obj, workspace: Mapping[str, str], placeholders: Iterable[str]) -> None:
    """Raise ``PackError`` where files, ``workspace`` and the step ``terraform`` do not belong together."""
    steps = [number for number, row in enumerate(document["inject"]) if row["kind"] == STEP]
    if "workspace" not in document:
        if workspace:
            raise PackError(DOCUMENT, "workspace", f"is needed beside {min(workspace)}: what Terraform may make")
        if steps:
            raise PackError(DOCUMENT, f"inject.{steps[0]}", "needs a workspace, which the pack does not have")
        return
    _check_section(document)
    if not workspace:
        raise PackError(DOCUMENT, "workspace", "has no code: the pack lacks files in workspace/ and changes/")
    known = set(placeholders)
    for name, text in workspace.items():
        for found in _PLACEHOLDER.findall(text):
            if found not in known:
                raise PackError(name, f"${{{found}}}", f"no such placeholder; known are: {', '.join(sorted(known))}")
    for number in steps:
        _check_step(document, number, workspace)


def filled(workspace: Mapping[str, str], names: Mapping[str, str]) -> dict[str, str]:
    """Return the code with namespaces and parameters filled in; whatever else looks like that is HCL's own."""
    return {path: _PLACEHOLDER.sub(lambda found: names[found[1]], text) for path, text in workspace.items()}


def _platform() -> dict[str, str]:
    """Return the platform's code; its README is for those who develop it, and a pack brings its own."""
    found = sorted(path for kind in ("*.tf", "*.tfvars") for path in BASE.rglob(kind))
    own = (path for path in found if ".terraform" not in path.parts)
    return {path.relative_to(BASE).as_posix(): path.read_text(encoding="utf-8") for path in own}


def _check_section(document: Obj) -> None:
    row = document["workspace"]
    if "shared" in document["requires"]["tiers"]:
        message = "needs a cluster of the session's own; remove shared from requires.tiers"
        raise PackError(DOCUMENT, "workspace", message)
    if "cloud-roles" in row and document["requires"]["tiers"] != ["practice"]:
        message = "only practice clusters have a cloud; leave the others out of requires.tiers"
        raise PackError(DOCUMENT, "workspace.cloud-roles", message)
    taken = {*document["namespaces"].values(), *document.get("existing", [])}
    for number, name in enumerate([row["state"], *row.get("namespaces", [])]):
        where = f"workspace.namespaces.{number - 1}" if number else "workspace.state"
        if name in taken:
            raise PackError(DOCUMENT, where, f"{name} is in namespaces or existing, or there twice")
        taken.add(name)
    for number, rule in enumerate(map(AccessRule.load, row.get("rights", []))):
        if set(rule.namespaces) - {row["state"]}:
            message = f"only the namespace {row['state']} is there when rights are given; name it, or none"
            raise PackError(DOCUMENT, f"workspace.rights.{number}.namespaces", message)


def _check_step(document: Obj, number: int, workspace: Mapping[str, str]) -> None:
    for index, root in enumerate(document["inject"][number]["roots"]):
        if not any(name.startswith(f"{FOLDER}{root}/") and name.endswith(".tf") for name in whole(workspace)):
            where = f"inject.{number}.roots.{index}"
            raise PackError(DOCUMENT, where, f"the workspace has no folder {root} with code")


def together(found: Iterable[Workspace]) -> Workspace | None:
    """Return what the workspaces of one session say together; None without any. Raises ``PackError``."""
    union: Workspace | None = None
    for each in found:
        if union is not None and union.state != each.state:
            raise PackError(DOCUMENT, "workspace.state", f"{each.state} and {union.state} cannot be in one session")
        union = each if union is None else _union(union, each)
    return union


def _union(one: Workspace, other: Workspace) -> Workspace:
    return Workspace(
        one.state,
        tuple(dict.fromkeys([*one.namespaces, *other.namespaces])),
        tuple(dict.fromkeys([*one.objects, *other.objects])),
        merge([*one.rights, *other.rights]),
        tuple(dict.fromkeys([*one.cloud_roles, *other.cloud_roles])),
    )
