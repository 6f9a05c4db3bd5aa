"""Checks of a pack's inject steps: their kinds and fields, and the namespaces that they may touch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from faults.checks.model import AccessRead, CommandRead, ObjectRead, PageRead, PlanRead, StateRead
from faults.engine.model import Target
from faults.injectors import KINDS, Kind, StepError
from faults.packs import building
from faults.packs.errors import PackError
from faults.packs.model import Obj, Source

DOCUMENT = "scenario.yaml"
COMMON = {"kind", "variants"}
"""The fields of every step, whatever its kind."""
NAMESPACES_SINCE = 2
"""The first ``schema`` in which a pack names all namespaces that it reads or changes."""


def schema_of(document: Obj) -> int:
    """Return the number of the form that a pack is written in; the first one had no number yet."""
    return int(document.get("schema", 1))


def check_forms(document: Obj) -> None:
    """Raise ``PackError`` for steps of unknown kinds, and for unknown, missing and malformed fields."""
    for number, step in enumerate(document["inject"]):
        where = f"inject.{number}"
        known = sorted(name for name, kind in KINDS.items() if kind.since <= schema_of(document))
        if step["kind"] not in known:
            raise PackError(DOCUMENT, f"{where}.kind", _unknown_kind(step["kind"], known))
        kind = KINDS[step["kind"]]
        for field in sorted(step.keys() - kind.fields.keys() - COMMON):
            valid = ", ".join(sorted(COMMON | kind.fields.keys()))
            raise PackError(DOCUMENT, f"{where}.{field}", f"{kind.name} has no such field; valid are: {valid}")
        if error := best_match(_validator(kind.name).iter_errors(step)):
            place = ".".join([where, *(str(part) for part in error.absolute_path)])
            raise PackError(DOCUMENT, place, error.message[:500])


def check_contents(source: Source) -> None:
    """Raise ``PackError`` for what the forms cannot refuse. The files of the steps are known to be there."""
    if schema_of(source.document) < NAMESPACES_SINCE:  # stored versions were not checked either
        return
    for where, kind, spec in _steps(source):
        if kind.needs_agent and not source.document["requires"]["agent"]:
            raise PackError(
                DOCUMENT, f"{where}.kind", f"{kind.name} is done by the node's agent: say requires.agent: true"
            )
        try:
            kind.check(spec)
        except StepError as exc:
            raise PackError(DOCUMENT, f"{where}.{exc.where}", str(exc)) from exc


def check_namespaces(source: Source) -> None:
    """Raise ``PackError`` where a step or read is outside of the namespaces that the pack names.

    Existing namespaces and objects of the whole cluster are others' as well, where a cluster is shared.
    """
    document = source.document
    is_shared = "shared" in document["requires"]["tiers"]
    if is_shared and document.get("existing"):
        raise PackError(DOCUMENT, "existing", "cannot be had on shared clusters; remove shared from requires.tiers")
    if schema_of(document) < NAMESPACES_SINCE:
        return
    own = [f"${{namespace.{name}}}" for name in document["namespaces"]]
    made = workspace_namespaces(document)
    known = [*own, *document.get("existing", []), *_parameters_for_existing(document), *made]
    for where, target in _targets(source):
        if target.kind == "Namespace" and target.name not in [*own, *made]:
            raise PackError(DOCUMENT, where, f"changes the namespace {target.name} itself; it is not the session's")
        if not target.namespace and is_shared and target.name not in own:
            raise PackError(DOCUMENT, where, f"{target.kind} has no namespace; remove shared from requires.tiers")
        check_namespace(where, target.namespace, known)
    for where, kind, spec in _steps(source):
        for namespace in kind.read_namespaces(spec):
            check_namespace(where, namespace, known)
    for where, namespace in _read_namespaces(document):
        check_namespace(where, namespace, known)


def workspace_namespaces(document: Obj) -> list[str]:
    """Return the namespaces of the state and of what Terraform makes."""
    row = document.get("workspace", {})
    return [row["state"], *row.get("namespaces", [])] if row else []


def _parameters_for_existing(document: Obj) -> list[str]:
    """Return the parameters that stand for one of the existing namespaces, whatever the variant."""
    existing = document.get("existing", [])
    rows = building.variants(document) if existing else [{}]
    return [f"${{parameter.{name}}}" for name in rows[0] if all(row[name] in existing for row in rows)]


def _unknown_kind(name: str, known: Sequence[str]) -> str:
    later = f" in this schema; it needs schema: {KINDS[name].since}" if name in KINDS else ""
    return f"{name} is no kind of step{later}; valid are: {', '.join(known)}"


@lru_cache(maxsize=len(KINDS))
def _validator(kind: str) -> Draft202012Validator:
    return Draft202012Validator(KINDS[kind].schema())


def _steps(source: Source) -> Iterator[tuple[str, Kind[Any], Obj]]:
    own = [f"${{namespace.{name}}}" for name in source.document["namespaces"]]
    for number, step in enumerate(source.document["inject"]):
        spec = building.inject_step(step, source, own).spec
        yield f"inject.{number}", KINDS[step["kind"]], spec


def _targets(source: Source) -> Iterator[tuple[str, Target]]:
    for where, kind, spec in _steps(source):
        for change in kind.changes(spec):
            yield where, change.target


def _read_namespaces(document: Obj) -> Iterator[tuple[str, str]]:
    for part in ("symptom", "checks", "guards"):
        for number, row in enumerate(document[part]):
            reads = {name: building.read(entry) for name, entry in row["reads"].items()}
            for name, found in reads.items():
                where = f"{part}.{number}.reads.{name}"
                if isinstance(found, ObjectRead | AccessRead | PageRead | StateRead | PlanRead):
                    yield where, found.namespace
                elif isinstance(found, CommandRead) and not getattr(reads.get(found.pods), "namespace", ""):
                    message = f"runs in pods of every namespace; give the read {found.pods} a namespace"
                    raise PackError(DOCUMENT, where, message)


def check_namespace(where: str, namespace: str, known: Sequence[str]) -> None:
    """Raise ``PackError`` for a namespace that is not one of these; none at all means the whole cluster."""
    if namespace and namespace not in known:
        message = f"the namespace {namespace} is neither the session's nor named in existing; valid are: "
        raise PackError(DOCUMENT, where, message + ", ".join(known))
