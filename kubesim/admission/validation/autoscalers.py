"""The rules of autoscalers that are more than a line of the tables in ``rules/``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kubesim.admission.validation.resources import container_name_errors
from kubesim.admission.validation.rules import Place, check
from kubesim.api.quantity import parse
from kubesim.api.status import FieldError, forbidden_field, invalid_value
from kubesim.errors import Obj

SOURCES = ("object", "external", "pods", "resource", "containerResource")


@check
def at_least_the_minimum(most: int, where: str, place: Place) -> Iterator[FieldError]:
    """The bounds of an autoscaler make sense."""
    if most < place.value["spec"].get("minReplicas", 1):
        yield invalid_value(where, most, "must be greater than or equal to `minReplicas`")


@check
def one_source(metric: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """A metric of several sources has all but that of its type in vain."""
    present = [name for name in SOURCES if metric.get(name) is not None]
    kind = metric.get("type", "")
    for name in present if len(present) > 1 else ():
        if name != kind[:1].lower() + kind[1:]:
            yield forbidden_field(f"{where}.{name}", "must populate the given metric source only")


@check
def positive(value: str, where: str, place: Place) -> Iterable[FieldError]:
    """A quantity above nothing."""
    return () if parse(value) > 0 else (invalid_value(where, value, "must be positive"),)


@check
def group_version(version: str, where: str, place: Place) -> Iterable[FieldError]:
    """An apiVersion that can be read."""
    wrong = version.count("/") > 1
    return (invalid_value(where, version, f"unexpected GroupVersion string: {version}"),) if wrong else ()


@check
def container_resource(name: str, where: str, place: Place) -> Iterator[FieldError]:
    """A resource that containers have."""
    return container_name_errors(name, where)
