"""Steps, solutions and wrong turns that belong to some variants of a pack alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from faults.packs import building
from faults.packs.errors import PackError
from faults.packs.model import Obj, Variant

DOCUMENT = "scenario.yaml"
FIELD = "variants"
LISTS = ("inject", "solutions", "wrong_turns")
MIN_SOLUTIONS = 2


def of_variant(document: Obj, variant: Variant) -> Obj:
    """Return the document of one variant: without what belongs to the others alone."""
    return document | {
        name: [row for row in document[name] if applies(row, variant)] for name in LISTS if name in document
    }


def applies(row: Obj, variant: Variant) -> bool:
    """Return whether a step or solution belongs to a variant; one that names no values belongs to all."""
    return FIELD not in row or any(_has(variant, values) for values in row[FIELD])


def check(document: Obj) -> None:
    """Raise ``PackError`` for values that no variant has, and for a variant without a step or without solutions."""
    named = list(_named(document))
    rows = building.variants(document) if named else ()
    for where, values in named:
        if not any(_has(row, values) for row in rows):
            wanted = ", ".join(f"{name}={value}" for name, value in values.items())
            raise PackError(DOCUMENT, where, f"no variant has {wanted}")
    for number, row in enumerate(rows):
        left = of_variant(document, row)
        if document["inject"] and not left["inject"]:
            raise PackError(DOCUMENT, f"{FIELD}.{number}", "has no step of inject; at least one must belong to it")
        if len(left["solutions"]) < MIN_SOLUTIONS:
            found = len(left["solutions"])
            raise PackError(
                DOCUMENT, f"{FIELD}.{number}", f"has {found} of the solutions; at least two must be its own"
            )


def _has(variant: Variant, values: Mapping[str, str]) -> bool:
    return values.items() <= variant.items()


def _named(document: Obj) -> Iterator[tuple[str, Mapping[str, str]]]:
    for name in LISTS:
        for number, row in enumerate(document.get(name, [])):
            for index, values in enumerate(row.get(FIELD, [])):
                yield f"{name}.{number}.{FIELD}.{index}", values
