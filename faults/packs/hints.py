"""Lint of hints: tier 1 never names the cause, and no hint contains a line of a solution."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from faults.packs import building, shell_lines
from faults.packs.errors import PackError
from faults.packs.model import Obj, Source, Variant
from faults.packs.pack import CLUSTER
from faults.packs.placeholders import substitute
from faults.packs.requires import build_values
from faults.packs.steps import schema_of

DOCUMENT = "scenario.yaml"
LINTED_SINCE = 2
"""The first ``schema`` whose packs are held to this; stored versions of before stay readable."""
MIN_VALUE, MIN_LINE = 4, 8
"""Characters of a variant's value, and of a solution's line, below which it says nothing by itself."""


def check(source: Source, files: Mapping[str, str]) -> None:
    """Raise ``PackError`` for a hint that gives too much away in one of the variants."""
    document = source.document
    if schema_of(document) < LINTED_SINCE or not document["hints"]:
        return
    if "cause" not in document:
        raise PackError(DOCUMENT, "cause", "is needed: the words that name the cause, which no hint of tier 1 says")
    read = {key: document[key] for key in ("title", "cause", "hints", "solutions")}
    fixed = {f"namespace.{name}": value for name, value in document["namespaces"].items()}
    fixed |= {CLUSTER + name: value.undecided(name) for name, value in build_values(document).items()}
    for variant in building.variants(document):
        names = {**fixed, **{f"parameter.{name}": value for name, value in variant.items()}}
        texts = substitute({name: text for name, text in files.items() if name != DOCUMENT}, names)
        _check_variant(substitute(read, names), texts, variant)


def says(text: str, word: str) -> bool:
    """Return whether a text has a word or phrase, in whatever case, also in the plural."""
    return bool(re.search(rf"(?<!\w){re.escape(word)}(?:e?s)?(?!\w)", text, re.IGNORECASE))


def _check_variant(document: Obj, texts: Mapping[str, str], variant: Variant) -> None:
    named = [*document["cause"], *_telling_values(variant, f"{document['title']} {texts['statement.md']}")]
    solution = list(_solution_lines(document, texts))
    for number, hint in enumerate(document["hints"]):
        where, text = f"hints.{number}.text", _plain(hint["text"])
        if hint["tier"] == 1 and (word := next((word for word in named if says(text, word)), "")):
            raise PackError(DOCUMENT, where, f"is of tier 1 and names the cause: {word!r}; say where to look instead")
        if line := next((line for line in solution if line in text), ""):
            raise PackError(DOCUMENT, where, f"contains a line of a solution: {line!r}; describe it in words")


def _telling_values(variant: Variant, told: str) -> list[str]:
    """Return the names and numbers of a variant that the candidate is not told anyway; plain words say nothing."""
    values = [value for value in variant.values() if len(value) >= MIN_VALUE and not value.isalpha()]
    return [value for value in values if value not in told]


def _solution_lines(document: Obj, texts: Mapping[str, str]) -> Iterator[str]:
    for solution in document["solutions"]:
        for command in shell_lines.commands(solution):
            yield from _lines(command)
    for name in sorted(texts):
        if name.startswith("solutions/"):
            yield from _lines(texts[name])


def _lines(text: str) -> list[str]:
    """Return the lines that say something, without what YAML and Markdown have around them."""
    lines = (_plain(line).removeprefix("- ") for line in text.splitlines())
    return [line for line in lines if len(line) >= MIN_LINE and not line.startswith("#")]


def _plain(text: str) -> str:
    return " ".join(text.replace("`", "").split())
