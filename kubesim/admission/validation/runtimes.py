"""The rules of runtime classes that are more than a line of the tables in ``rules/``."""

from __future__ import annotations

from collections.abc import Iterator

from kubesim.admission.validation.checks import repeated
from kubesim.admission.validation.resources import resources
from kubesim.admission.validation.rules import Place, check, errors_of
from kubesim.api.status import FieldError, duplicate
from kubesim.errors import Obj
from kubesim.schema.internal import internal

LISTED = ("key", "operator", "value", "effect")


@check
def overhead(quantities: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """What a runtime needs for itself; upstream takes it for a container's limits."""
    yield from resources({"limits": quantities}, "overhead", place)


@check
def scheduling(value: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """The tolerations of a runtime, each once; upstream names their place twice."""
    for at, toleration in enumerate(value.get("tolerations", [])):
        yield from errors_of(
            "types", "Toleration", Place(toleration, f"{where}.tolerations.tolerations[{at}]", place)
        )
    tolerations = value.get("tolerations", [])
    for at in sorted(repeated([toleration.get(name) for name in LISTED] for toleration in tolerations)):
        yield duplicate(f"{where}.tolerations[{at}]", internal("Toleration", tolerations[at]))
