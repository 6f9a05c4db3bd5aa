"""Exercises without a fault: a validation task, which checks can see, or one that is only spoken about.

They leave out what a fault needs. The rest of the program reads a document in which nothing is missing.
"""

from __future__ import annotations

from faults.packs.errors import PackError
from faults.packs.model import Obj

DOCUMENT = "scenario.yaml"
EXERCISES_SINCE = 2
"""The first ``schema`` in which a pack may be without a fault."""
EVERY_TIER = ("practice", "dedicated", "shared")
OF_FAULT = ("requires", "namespaces", "inject", "symptom", "checks", "guards", "solutions")
OF_TASK = ("requires", "namespaces", "checks", "solutions")
_OF_CLUSTER = (
    "requires",
    "namespaces",
    "existing",
    "takes-away",
    "needs-free",
    "rights",
    "workspace",
    "images",
    "guards",
    "solutions",
    "wrong_turns",
)
"""Fields that mean nothing where there is no cluster to work on."""
_NOWHERE = {"tiers": list(EVERY_TIER), "nodes": 0, "gpus": 0, "agent": False}


def complete(document: Obj) -> Obj:
    """Return the document with what an exercise without a fault may leave out. Raises ``PackError``."""
    is_spoken = _is_without_fault(document) and "checks" not in document
    if is_spoken:
        _refuse(document, _OF_CLUSTER)
        return {**_nothing(), "requires": _NOWHERE, **document} | _no_variants(document)
    _require(document, OF_TASK if _is_without_fault(document) else OF_FAULT)
    return {**_nothing(), **document}


def _is_without_fault(document: Obj) -> bool:
    return document.get("schema", 1) >= EXERCISES_SINCE and "inject" not in document and "symptom" not in document


def _nothing() -> Obj:
    return {"namespaces": {}, "inject": [], "symptom": [], "checks": [], "guards": [], "solutions": []}


def _no_variants(document: Obj) -> Obj:
    return {} if "variants" in document or "parameters" in document else {"variants": [{}]}


def _require(document: Obj, names: tuple[str, ...]) -> None:
    for name in names:
        if name not in document:
            what = "a pack with a fault" if "inject" in names else "a task with checks"
            raise PackError(DOCUMENT, name, f"is needed in {what}; only exercises without a fault may lack it")


def _refuse(document: Obj, names: tuple[str, ...]) -> None:
    for name in names:
        if name in document:
            raise PackError(DOCUMENT, name, "is of no use in a spoken exercise; add checks, or inject and symptom")
