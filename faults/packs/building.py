"""Builds a pack's parts from its document, which has passed the schema."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from faults.checks.model import (
    AccessRead,
    Check,
    CloudRead,
    CommandRead,
    Condition,
    LogRead,
    MetricRead,
    ObjectRead,
    PageRead,
    PlanRead,
    Read,
    StateRead,
)
from faults.injectors.call import server_of
from faults.injectors.network import TENANTS, Network
from faults.packs import shell_lines, workspaces
from faults.packs.model import (
    Criterion,
    InjectStep,
    Obj,
    Solution,
    Source,
    Variant,
    WrongTurn,
)
from faults.packs.placeholders import names_in, substitute
from faults.packs.rights import RIGHTS_SINCE, AccessRule, former_rules, merge

Manifests = Mapping[str, list[Obj]]


def words(document: Obj) -> tuple[str, ...]:
    """Return the rights that are words."""
    return tuple(row for row in document.get("rights", []) if isinstance(row, str))


def access(document: Obj, namespaces: Iterable[str]) -> tuple[AccessRule, ...]:
    """Return the rights by verb and resource; older packs have those that everybody had."""
    if document.get("schema", 1) < RIGHTS_SINCE:
        return former_rules(namespaces)
    return merge(map(AccessRule.load, _access_rows(document)))


def access_of_every_variant(document: Obj, namespaces: Mapping[str, str]) -> tuple[AccessRule, ...]:
    """Return those rights that are the same whatever variant is drawn, with the names of namespaces filled in."""
    names = {f"namespace.{name}": real for name, real in namespaces.items()}
    rows = [row for row in _access_rows(document) if names.keys() >= set(names_in(row))]
    return access({**document, "rights": substitute(rows, names)}, namespaces.values())


def _access_rows(document: Obj) -> list[Obj]:
    return [row for row in document.get("rights", []) if not isinstance(row, str)]


def variants(document: Obj) -> tuple[Variant, ...]:
    """Return the variants. Older packs have parameters that are drawn one by one: each combination is a variant, and
    the first consists of the defaults."""
    if "variants" in document:
        return tuple(dict(row) for row in document["variants"])
    rows = document["parameters"]
    choices = [dict.fromkeys([row["default"], *row["choices"]]) for row in rows.values()]
    return tuple(dict(zip(rows, values, strict=True)) for values in itertools.product(*choices))


def read(row: Obj) -> Read:
    """Return a read: of objects, or of what its one other key names."""
    if "logs" in row:
        logs = row["logs"]
        return LogRead(**logs)
    if "promql" in row:
        return MetricRead(row["promql"].strip())
    if "access" in row:
        return AccessRead(**row["access"])
    if "page" in row:
        page = row["page"]
        return PageRead(page["namespace"], server_of(page), page["path"])
    if "command" in row:
        command = row["command"]
        return CommandRead(command["pods"], tuple(command["run"]), command.get("container", ""))
    if "state" in row:
        return StateRead(**row["state"])
    if "plan" in row:
        return PlanRead(**row["plan"])
    if "cloud" in row:
        return CloudRead(**row["cloud"])
    return ObjectRead(
        row["apiVersion"], row["kind"], row.get("namespace", ""), row.get("labelSelector", ""), row.get("name", "")
    )


def condition(row: Obj) -> Condition:
    """Return a condition."""
    reads = {name: read(entry) for name, entry in row["reads"].items()}
    return Condition(reads, row["expr"].strip(), row["found"].strip(), row["title"])


def check(row: Obj) -> Check:
    """Return a check or guard."""
    return Check(
        key=row["key"],
        title=row["title"],
        points=row.get("points", 0),
        needs=tuple(row.get("needs", [])),
        hold=float(row.get("hold", 0)),
        condition=condition(row),
    )


def criterion(row: Obj) -> Criterion:
    """Return a rubric row."""
    anchors = {int(level): text.strip() for level, text in row["anchors"].items()}
    return Criterion(row["key"], row["title"], row["weight"], row["source"], anchors, row.get("kind", ""))


def inject_step(row: Obj, source: Source, own: Sequence[str]) -> InjectStep:
    """Return one change, with the objects of its file, or with the workspace; ``own`` are the pack's namespaces."""
    spec = _with_objects(row, source.manifests, leave_out=("kind", "variants"))
    if row["kind"] == workspaces.STEP:
        code = {"code": workspaces.whole(source.workspace), "changes": workspaces.changes_in(source.workspace)}
        spec |= {"workspace": source.document["workspace"], **code}
    if row["kind"] == Network.name and row["namespace"] in own:
        spec |= {TENANTS: list(own)}
    return InjectStep(row["kind"], spec)


def solution(row: Obj, source: Source) -> Solution:
    """Return a reference solution."""
    lines, files = tuple(shell_lines.commands(row)), shell_lines.files_of(row, source.texts)
    return Solution(row["key"], row["title"], lines, files, run="lines" in row)


def wrong_turn(row: Obj, source: Source) -> WrongTurn:
    """Return an act that repairs nothing, or not all of it."""
    return WrongTurn(
        route=solution(row, source),
        why=row["why"].strip(),
        refused=row.get("refused", ""),
        fails=dict(row.get("fails", {})),
        passes=tuple(row.get("passes", [])),
        breaks=dict(row.get("breaks", {})),
    )


def _with_objects(row: Obj, manifests: Manifests, leave_out: tuple[str, ...]) -> Obj:
    spec: dict[str, Any] = {key: value for key, value in row.items() if key not in leave_out}
    if "file" in spec:
        spec["objects"] = manifests[spec["file"]]
    return spec
