"""``docs/catalogue.md``: every pack and variant, with what the last proof of each has measured."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from faults.catalog_check.variant import VariantProof
from faults.packs import Pack, Solution

PATH = Path(__file__).resolve().parents[2] / "docs" / "catalogue.md"
HEAD = """# Catalogue

Every scenario pack and its variants. `make catalog-check` writes this file: it proves each variant on a practice
cluster. A fresh cluster is not solved; the symptom shows in time; every solution runs with the candidate's
credentials, passes, holds and breaks no guard; wrong turns do not pass; taking the fault back restores the cluster;
and nothing that the candidate can read gives it away.

Seconds are those of the cluster's clock, without what computing takes: from the last change to the symptom, and from
a solution's first step until every check passes, for the slowest solution. A dash: not proven since the variant has
changed.
"""
COLUMNS = ("variant", "values", "solutions", "wrong turns", "symptom", "repaired")
NOT_MEASURED = ("-", "-")
"""The last two columns are measured; all others follow from the pack."""
Measured = Mapping[tuple[str, str], tuple[str, str]]
"""The measured columns of each row, by the row's pack and its other columns."""
_ROW = re.compile(r"\| (\d.*) \| ([^|]*) \| ([^|]*) \|")


def render(packs: Iterable[Pack], measured: Measured) -> str:
    """Return the whole file."""
    return "\n".join([HEAD, *(_section(pack, measured) for pack in sorted(packs, key=lambda pack: pack.slug))])


def read(text: str) -> dict[tuple[str, str], tuple[str, str]]:
    """Return what a file has measured, of rows that are still as they were."""
    found: dict[tuple[str, str], tuple[str, str]] = {}
    slug = ""
    for line in text.splitlines():
        if line.startswith("## "):
            slug = line.split("`")[1]
        elif row := _ROW.fullmatch(line):
            found[slug, row[1]] = (row[2], row[3])
    return found


def measure(packs: Sequence[Pack], proofs: Iterable[VariantProof]) -> dict[tuple[str, str], tuple[str, str]]:
    """Return what proofs that came out well have measured."""
    by_slug = {pack.slug: pack for pack in packs}
    return {
        (proof.slug, _row(by_slug[proof.slug], proof.number)): (
            f"{proof.symptom_s:.1f} s" if by_slug[proof.slug].symptom else "none",
            f"{max(proof.fixed_s.values(), default=0):.1f} s",
        )
        for proof in proofs
        if proof.ok
    }


def without_measures(text: str) -> str:
    """Return the file without its measured columns, which differ from one machine to another."""
    return "\n".join(
        f"| {row[1]} |" if (row := _ROW.fullmatch(line)) else line for line in text.splitlines()
    ).rstrip()


def _section(pack: Pack, measured: Measured) -> str:
    bound = pack.bind()
    rows = [_row(pack, number) for number in range(1, len(pack.variants) + 1)]
    tiers = ", ".join(pack.requires.tiers)
    about = f"{pack.category}, {pack.difficulty}, {pack.minutes} minutes, clusters: {tiers}."
    head = [f"## {bound.title} (`{pack.slug}`)", ""]
    if pack.is_spoken:
        return "\n".join(
            [*head, f"{pack.category}, {pack.difficulty}, {pack.minutes} minutes. Only spoken about.", ""]
        )
    lines = [
        *head,
        f"{about} Its symptom shows within {pack.symptom_seconds:g} s." if pack.symptom else about,
        "",
        *_table(COLUMNS),
        *(f"| {row} | {' | '.join(measured.get((pack.slug, row), NOT_MEASURED))} |" for row in rows),
        "",
    ]
    return "\n".join(lines)


def _table(columns: Sequence[str]) -> list[str]:
    return [f"| {' | '.join(columns)} |", f"|{' --- |' * len(columns)}"]


def _row(pack: Pack, number: int) -> str:
    """Return a variant's columns that are not measured."""
    values = pack.variants[number - 1]
    bound = pack.bind(parameters=values)
    listed = ", ".join(f"{name}: `{value}`" for name, value in values.items())
    return f"{number} | {listed} | {_keys(bound.solutions)} | {_keys([turn.route for turn in bound.wrong_turns])}"


def _keys(routes: Sequence[Solution]) -> str:
    return ", ".join(route.key for route in routes) or "none"
