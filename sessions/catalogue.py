"""The catalogue for planning: every scenario and question that can be picked, and the filters to find them by."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from faults.models import ScenarioVersion
from faults.packs import Pack
from faults.selectors import pack_of
from sessions import selectors
from sessions.models import Question, QuestionVersion

SCENARIO, QUESTION = "s", "q"
LENGTHS = (5, 10, 15, 20, 30)  # minutes to filter by


@dataclass(frozen=True, slots=True)
class CatalogueItem:
    """A scenario or a question as it is offered. ``ref`` names it in a form: ``s:<slug>`` or ``q:<uuid>``."""

    ref: str
    title: str
    category: str
    difficulty: str
    minutes: int
    tags: tuple[str, ...] = ()
    if_time_left: bool = False
    is_gone: bool = False
    pack: Pack | None = None

    @property
    def exercise(self) -> str:
        """Return what an exercise without a fault is, task or spoken; empty for all others."""
        return self.pack.exercise if self.pack and not self.pack.has_fault else ""

    @property
    def is_scenario(self) -> bool:
        """Whether this is a scenario."""
        return self.ref.startswith(f"{SCENARIO}:")

    @property
    def name(self) -> str:
        """Return the slug or the UUID."""
        return self.ref.partition(":")[2]

    @property
    def id(self) -> str:
        """Return the ref as an id of a page."""
        return self.ref.replace(":", "-")

    @property
    def words(self) -> str:
        """Return all that a search looks at."""
        return " ".join((self.title, self.category, self.difficulty, self.exercise, *self.tags)).lower()


@dataclass(frozen=True, slots=True)
class Filter:
    """A search in the catalogue; empty fields let everything through."""

    find: str = ""
    kind: str = ""
    tag: str = ""
    difficulty: str = ""
    longest: int | None = None

    @classmethod
    def of(cls, typed: Mapping[str, str]) -> Filter:
        """Return the filter of a form; what makes no sense filters nothing."""
        longest = typed.get("longest", "")
        return cls(
            find=typed.get("find", "")[:200],
            kind=typed.get("kind", ""),
            tag=typed.get("tag", ""),
            difficulty=typed.get("difficulty", ""),
            longest=int(longest) if longest.isdecimal() and int(longest) in LENGTHS else None,
        )

    def admits(self, item: CatalogueItem) -> bool:
        """Return whether an item is found."""
        return (
            all(word in item.words for word in self.find.lower().split())
            and self.kind in ("", item.ref[0])
            and self.tag in ("", *item.tags)
            and self.difficulty in ("", item.difficulty)
            and (self.longest is None or item.minutes <= self.longest)
        )


def offered() -> dict[str, CatalogueItem]:
    """Return everything that can be picked by its ref: scenarios by title, then questions bank by bank."""
    scenarios = [_scenario(row) for row in selectors.pickable_scenarios()]
    versions = (row for bank in selectors.question_banks() for row in selectors.newest_question_versions(bank))
    return {item.ref: item for item in (*scenarios, *map(_question, versions))}


def tags_of(items: Iterable[CatalogueItem]) -> list[str]:
    """Return every tag once, in order."""
    return sorted({tag for item in items for tag in item.tags})


def _scenario(row: ScenarioVersion) -> CatalogueItem:
    ref = f"{SCENARIO}:{row.scenario.slug}"
    pack = pack_of(row)
    return CatalogueItem(ref, row.title, row.category, row.difficulty, row.minutes, tuple(pack.tags), pack=pack)


def _question(row: QuestionVersion) -> CatalogueItem:
    question: Question = row.question
    return CatalogueItem(
        f"{QUESTION}:{question.uuid}",
        row.title,
        question.category,
        question.difficulty,
        question.minutes,
        tuple(question.tags),
        question.if_time_left,
    )
