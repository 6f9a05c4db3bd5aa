"""What a plan of the toolbox's Terraform code would do now.

The plan is made where the candidate works and with Terraform's own account, without the state's lock and without a
file. Its output is a program's that the candidate may have led astray: only counts and addresses are taken from it,
within limits. It costs a process, so that it is made anew only where code, state, cluster or cloud have changed.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

from faults.engine.model import CommandLimits
from faults.errors import NotFound
from faults.plain_text import plain_line
from faults.terraform_state import TerraformState, read_state, secret_name
from faults.toolbox_place import CODE, NAME, NAMESPACE

Obj = dict[str, Any]
DEADLINE_S = 20.0
LIMITS = CommandLimits(seconds=DEADLINE_S + 5, output_bytes=256 * 1024)
LOOK_LIMITS = CommandLimits(seconds=10.0, output_bytes=16 * 1024)
RETRY_S = 10.0
"""Before a plan that failed is made again with nothing changed: an API may not have answered."""
UNSETTLED, NO_STATE = "the state has just changed", "there is no state"
MAX_CHANGES = 20
MAX_WORD = 200
_NOTHING, _CHANGES = 0, 2  # of -detailed-exitcode
_FILES = r"find . -type f ! -path '*/.terraform/*' ! -name '*.tfplan'"
_DIGEST = f"cd {CODE} && {{ ls -d */.terraform; {_FILES} -exec sha256sum {{}} + | sort; }} 2>/dev/null | sha256sum"
_PLAN = f"""cd {CODE}/"$1" || exit 1
TF_CLI_CONFIG_FILE=/dev/null TF_IN_AUTOMATION=1 timeout {DEADLINE_S:.0f} \
  terraform plan -lock=false -input=false -no-color -detailed-exitcode $2 2>&1"""
_REFRESH = "-refresh-only"
_SUMMARY = re.compile(
    r"^Plan: (?:\d{1,6} to import, )?(\d{1,6}) to add, (\d{1,6}) to change, (\d{1,6}) to destroy", re.M
)
_HEADER = re.compile(
    r"^  # (\S.{0,300}?) (will be created|will be destroyed|will be updated in-place|must be replaced"
    r"|will be replaced|is tainted|has changed|has been deleted)\b",
    re.M,
)
_MARKS = {
    "will be created": "+",
    "will be destroyed": "-",
    "will be updated in-place": "~",
    "must be replaced": "-/+",
    "will be replaced": "-/+",
    "is tainted": "-/+",
}
_ATTRIBUTE = re.compile(r"^ {1,40}[~+-] (\w{1,60}) += (.{0,40})", re.M)
_EMPTY = re.compile(r"(\{\}|\[\])( -> null)?")
_NUMBERS = {"resource_version", "generation", "etag", "fingerprint"}
"""Attributes that tell how often an object was written, by whomever."""
_ERROR = re.compile(r"^\W*Error: (.{1,300})", re.M)
_RBAC = "rbac.authorization.k8s.io/v1"
_KINDS = {
    "kubernetes_namespace_v1": ("v1", "Namespace"),
    "kubernetes_service_account_v1": ("v1", "ServiceAccount"),
    "kubernetes_resource_quota_v1": ("v1", "ResourceQuota"),
    "kubernetes_limit_range_v1": ("v1", "LimitRange"),
    "kubernetes_network_policy_v1": ("networking.k8s.io/v1", "NetworkPolicy"),
    "kubernetes_role_v1": (_RBAC, "Role"),
    "kubernetes_role_binding_v1": (_RBAC, "RoleBinding"),
    "kubernetes_cluster_role_v1": (_RBAC, "ClusterRole"),
    "kubernetes_cluster_role_binding_v1": (_RBAC, "ClusterRoleBinding"),
}
"""Resources of the platform's code, by their type."""
_PROJECT = re.compile(r"[a-z][a-z0-9-]{1,62}")


class Source(Protocol):
    """The verbs of a cluster client that a plan takes."""

    def list(self, api_version: str, kind: str, namespace: str = "", label_selector: str = "") -> Sequence[Obj]:
        """Return the objects of a kind."""

    def secret(self, namespace: str, name: str) -> Obj:
        """Return a Secret."""

    def cloud_assets(self, project: str) -> Sequence[Obj]:
        """Return what there is in a cloud project."""

    def run_command(
        self, namespace: str, pod: str, container: str, command: Sequence[str], limits: CommandLimits | None = None
    ) -> tuple[int, str]:
        """Return the exit code of a command in a container, and what it wrote."""


@dataclass(frozen=True, slots=True)
class PlannedChanges:
    """What an apply of a root would do. Where there is no plan, ``known`` is false and ``error`` says why.

    ``serial`` is that of the state which the plan was made from. ``changes`` and ``drift`` are addresses, those of
    changes with a mark before them; ``text`` sums it up.
    """

    known: bool = False
    serial: int = 0
    add: int = 0
    change: int = 0
    destroy: int = 0
    changes: tuple[str, ...] = ()
    drift: tuple[str, ...] = ()
    error: str = ""

    @property
    def text(self) -> str:
        """The counts in words, or why there are none."""
        if not self.known:
            return f"no plan: {self.error}"
        if not self.add + self.change + self.destroy:
            return "no changes"
        return f"{self.add} to add, {self.change} to change, {self.destroy} to destroy"

    def dump(self) -> Obj:
        """Return it as JSON."""
        lists = {"changes": [*self.changes], "drift": [*self.drift]}
        return {**asdict(self), **lists, "text": self.text}


class TerraformPlans:
    """The newest plan of each root of one cluster. For any thread: one plan is made at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], tuple[str, float, PlannedChanges]] = {}

    def newest(self, source: Source, namespace: str, root: str) -> PlannedChanges:
        """Return the plan of a root whose state is in a namespace. Raises ClusterError."""
        with self._lock:
            state = _state(source, namespace, root)
            if not state[0].serial:
                return PlannedChanges(error=NO_STATE)
            code = _digest_of_code(source)
            if code is None:
                return PlannedChanges(serial=state[0].serial, error="the code cannot be read")
            mark, now = _fingerprint(source, state, code), time.monotonic()
            known = self._known.get((namespace, root))
            if known and known[0] == mark and (known[2].known or now - known[1] < RETRY_S):
                return known[2]
            found = make_plan(source, root)
            if _state(source, namespace, root)[1] != state[1]:
                return PlannedChanges(error=UNSETTLED)
            found = replace(found, serial=state[0].serial)
            self._known[namespace, root] = mark, now, found
            return found


def make_plan(source: Source, root: str) -> PlannedChanges:
    """Plan a root in the toolbox, and look for drift, which that names in part only. Raises ClusterError."""
    try:
        found = read_plan(*_run(source, root, ""))
        return replace(found, drift=read_drift(*_run(source, root, _REFRESH))) if found.known else found
    except NotFound:
        return PlannedChanges(error="the toolbox does not run")


def _run(source: Source, root: str, option: str) -> tuple[int, str]:
    return source.run_command(NAMESPACE, NAME, NAME, ("bash", "-c", _PLAN, NAME, root, option), LIMITS)


def read_plan(code: int, output: str) -> PlannedChanges:
    """Return what ``terraform plan -detailed-exitcode`` has written, and believe no more of it than its exit code."""
    if code not in (_NOTHING, _CHANGES):
        return PlannedChanges(error=_why(code, output))
    if code == _NOTHING:
        return PlannedChanges(known=True)
    changes = [f"{_MARKS[what]} {address}" for address, what in _HEADER.findall(output) if what in _MARKS]
    # Text of an attribute may look like a summary: the worst one counts.
    summaries = [tuple(map(int, row)) for row in _SUMMARY.findall(output)] or [(0, 0, 0)]
    add, change, destroy = map(max, zip(*summaries, strict=True))
    return PlannedChanges(True, 0, add, change, destroy, _shown(changes))


def read_drift(code: int, output: str) -> tuple[str, ...]:
    """Return the addresses that ``terraform plan -refresh-only`` names; none where it fails.

    What the API writes by itself is left out, and so is nothing where there was nothing.
    """
    if code not in (_NOTHING, _CHANGES):
        return ()
    parts = [*_HEADER.finditer(output)]
    ends = [part.start() for part in parts[1:]] + [len(output)]
    drift = [
        part[1]
        for part, end in zip(parts, ends, strict=False)
        if part[2] not in _MARKS and not _is_noise(output[part.end() : end])
    ]
    return _shown(drift)


def _is_noise(body: str) -> bool:
    changed = _ATTRIBUTE.findall(body)
    return bool(changed) and all(name in _NUMBERS or _EMPTY.fullmatch(value) for name, value in changed)


def _why(code: int, output: str) -> str:
    if code == 124:
        return f"it takes more than {DEADLINE_S:.0f} seconds"
    found = _ERROR.search(output)
    return plain_line(found[1].strip(), MAX_WORD) if found else f"terraform ended with exit code {code}"


def _shown(addresses: Iterable[str]) -> tuple[str, ...]:
    return tuple(plain_line(address, MAX_WORD) for address in list(addresses)[:MAX_CHANGES])


def _state(source: Source, namespace: str, root: str) -> tuple[TerraformState, str]:
    """Return the state, and the text that it was read from."""
    try:
        secret = source.secret(namespace, secret_name(root))
    except NotFound:
        return TerraformState(), ""
    return read_state(secret), str((secret.get("data") or {}).get("tfstate"))


def _digest_of_code(source: Source) -> str | None:
    try:
        code, output = source.run_command(NAMESPACE, NAME, NAME, ("bash", "-c", _DIGEST), LOOK_LIMITS)
    except NotFound:
        return None
    return output if code == 0 else None


def _fingerprint(source: Source, state: tuple[TerraformState, str], code: str) -> str:
    """Return a word that differs where code, state, or anything that the state knows has changed."""
    seen = [code, state[1], *_objects(source, state[0]), *_assets(source, state[0])]
    return hashlib.sha256(json.dumps(seen, sort_keys=True, default=str).encode()).hexdigest()


def _objects(source: Source, state: TerraformState) -> Iterator[Any]:
    wanted: dict[tuple[str, str], set[str]] = {}
    for row in state.resources:
        if kind := _KINDS.get(row["type"]):
            wanted.setdefault(kind, set()).add(str(row["attributes"].get("id")))
    for kind, names in sorted(wanted.items()):
        for found in source.list(*kind):
            meta = found["metadata"]
            if "/".join(filter(None, (meta.get("namespace"), meta["name"]))) in names:
                yield _content(found)


def _content(found: Obj) -> Obj:
    kept = {key: meta for key, meta in found["metadata"].items() if key not in ("managedFields", "resourceVersion")}
    return {key: value for key, value in found.items() if key != "status"} | {"metadata": kept}


def _assets(source: Source, state: TerraformState) -> Iterator[Any]:
    named = {str(row["attributes"].get("project")) for row in state.resources if row["type"].startswith("google_")}
    for project in sorted(named)[:1]:
        if _PROJECT.fullmatch(project):
            yield from source.cloud_assets(project)
