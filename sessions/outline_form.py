"""The outline of a plan or a session while it is put together in a form.

The form is the whole state: hidden fields ``row`` in the order of the page, ``part:<key>`` where a part begins, and
the ref of each entry after it. So moving an element of the page moves the entry, and every act is one press of a
button that works without JavaScript.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.http import QueryDict

from sessions.candidate_rights import CandidateRights, rights_of
from sessions.catalogue import QUESTION, SCENARIO, CatalogueItem
from sessions.importers.plans import BEFORE, MOST_ENTRIES, MOST_PARTS
from sessions.part_minutes import LONGEST

PART = "part"
MAX_KEY_LENGTH = 8


@dataclass
class PartDraft:
    """A part as it was typed. ``key`` names its fields and stays the same when parts change places."""

    key: str
    title: str = ""
    minutes: str = ""
    tasks: str = ""
    criteria: str = ""
    injection: str = BEFORE
    entries: list[CatalogueItem] = field(default_factory=list)

    @property
    def needed(self) -> int:
        """Return the minutes that its entries usually take."""
        return sum(entry.minutes for entry in self.entries)

    @property
    def planned(self) -> int:
        """Return the typed minutes; what the entries need where nothing sensible was typed."""
        typed = self.minutes.strip()
        return int(typed) if typed.isdecimal() and len(typed) <= 3 and 1 <= int(typed) <= LONGEST else self.needed

    @property
    def is_blank(self) -> bool:
        """Whether there is nothing in it that could get lost."""
        return not (self.title.strip() or self.minutes.strip() or self.tasks.strip() or self.entries)

    def as_part(self, number: int) -> dict[str, Any]:
        """Return the part as ``importers.plans.resolve_parts`` takes it."""
        typed = self.minutes.strip()
        return {
            "title": self.title.strip() or f"Part {number}",
            "minutes": int(typed) if typed.isdecimal() and len(typed) <= 6 else (typed or self.needed),
            "scenarios": [entry.name for entry in self.entries if entry.is_scenario],
            "questions": [entry.name for entry in self.entries if not entry.is_scenario],
            "tasks": self.tasks.strip(),
            "criteria": [line.strip() for line in self.criteria.splitlines() if line.strip()],
            "injection": self.injection if self.has_scenarios else BEFORE,
        }

    @property
    def has_scenarios(self) -> bool:
        """Whether there is anything in it that could be injected."""
        return any(entry.is_scenario for entry in self.entries)


@dataclass
class OutlineForm:
    """Parts in order, the part that new entries go to, and what the last act did."""

    parts: list[PartDraft]
    target: str = ""
    said: str = ""

    @property
    def total(self) -> int:
        """Return the planned minutes of all parts."""
        return sum(part.planned for part in self.parts)

    @property
    def chosen(self) -> dict[str, int]:
        """Return the number of the part, from 1, that each entry is in."""
        return {entry.ref: number for number, part in enumerate(self.parts, 1) for entry in part.entries}

    @property
    def rights(self) -> CandidateRights:
        """Return what its scenarios add to the candidate's rights."""
        return rights_of(entry.pack.bind() for part in self.parts for entry in part.entries if entry.pack)

    @property
    def is_blank(self) -> bool:
        """Whether nothing has been put together yet."""
        return all(part.is_blank for part in self.parts)

    def as_parts(self) -> list[dict[str, Any]]:
        """Return what was put together, without parts that were left blank."""
        kept = [part for part in self.parts if not part.is_blank]
        return [part.as_part(number) for number, part in enumerate(kept, 1)]

    def act(self, act: str, offered: Mapping[str, CatalogueItem]) -> None:
        """Do what a button says, ``<verb>:<part or entry>``, and keep a sentence about it in ``said``."""
        verb, _, name = act.partition(":")
        self.said = ""
        if verb == "part-add":
            self._add_part()
        elif verb == "add" and name in offered:
            self._add(offered[name])
        elif verb in ("part-up", "part-down", "part-drop"):
            self._change_part(verb, name)
        elif verb in ("up", "down", "drop"):
            self._change_entry(verb, name)

    def _add_part(self) -> None:
        if len(self.parts) >= MOST_PARTS:
            self.said = f"There are {MOST_PARTS} parts already; more do not fit."
            return
        used = {part.key for part in self.parts}
        key = next(name for number in range(1, MOST_PARTS + 2) if (name := f"p{number}") not in used)
        self.parts.append(PartDraft(key))
        self.target = key
        self.said = f"Part {len(self.parts)} was added at the end."

    def _add(self, item: CatalogueItem) -> None:
        if number := self.chosen.get(item.ref):
            self.said = f"“{item.title}” is in part {number} already."
            return
        if not self.parts:
            self._add_part()
        part = next((part for part in self.parts if part.key == self.target), self.parts[-1])
        same_kind = [entry for entry in part.entries if entry.is_scenario == item.is_scenario]
        if len(same_kind) >= MOST_ENTRIES:
            self.said = f"A part holds at most {MOST_ENTRIES} of a kind."
            return
        part.entries.append(item)
        self.said = f"“{item.title}” was added to part {self.parts.index(part) + 1}. {self.total} minutes in all."

    def _change_part(self, verb: str, key: str) -> None:
        place = next((index for index, part in enumerate(self.parts) if part.key == key), None)
        if place is None:
            return
        if verb == "part-drop":
            self.parts.pop(place)
            self.said = f"Part {place + 1} was removed."
            return
        other = place + (1 if verb == "part-down" else -1)
        if not 0 <= other < len(self.parts):
            self.said = "It is at the end of the outline already."
            return
        self.parts.insert(other, self.parts.pop(place))
        self.said = f"Part {place + 1} is now part {other + 1} of {len(self.parts)}."

    def _change_entry(self, verb: str, ref: str) -> None:
        found = [(part, place) for part in self.parts for place, entry in enumerate(part.entries) if entry.ref == ref]
        if not found:
            return
        part, place = found[0]
        entry = part.entries.pop(place)
        if verb == "drop":
            self.said = f"“{entry.title}” was removed. {self.total} minutes in all."
            return
        part, place = self._neighbour(part, place, 1 if verb == "down" else -1)
        part.entries.insert(place, entry)
        number = self.parts.index(part) + 1
        self.said = f"“{entry.title}” is now {place + 1} of {len(part.entries)} in part {number}."

    def _neighbour(self, part: PartDraft, place: int, by: int) -> tuple[PartDraft, int]:
        """Return where an entry goes that was just taken out: past the ends of a part into the one beside it."""
        if 0 <= place + by <= len(part.entries):
            return part, place + by
        beside = self.parts.index(part) + by
        if not 0 <= beside < len(self.parts):
            return part, place
        return self.parts[beside], 0 if by > 0 else len(self.parts[beside].entries)


def read(post: QueryDict, offered: Mapping[str, CatalogueItem]) -> OutlineForm:
    """Return the outline of a submitted form; entries that nobody offers any more stay visible as gone."""
    parts: list[PartDraft] = []
    seen: set[str] = set()
    for row in post.getlist("row")[: MOST_PARTS * (2 * MOST_ENTRIES + 1)]:
        kind, _, name = row.partition(":")
        if row in seen or not name:
            continue
        seen.add(row)
        if kind == PART and name.isalnum() and len(name) <= MAX_KEY_LENGTH:
            if len(parts) < MOST_PARTS:
                parts.append(_part(post, name))
        elif kind in (SCENARIO, QUESTION) and parts:
            parts[-1].entries.append(offered.get(row) or _gone(row))
    return OutlineForm(parts, target=post.get("target", ""))


def of_parts(parts: Sequence[Mapping[str, Any]], offered: Mapping[str, CatalogueItem]) -> OutlineForm:
    """Return the outline of a plan's stored parts, to be changed; an empty one with a first part for none."""
    drafts = [_draft(number, part, offered) for number, part in enumerate(parts, 1)]
    return OutlineForm(drafts or [PartDraft("p1")], target=drafts[-1].key if drafts else "p1")


def _part(post: QueryDict, key: str) -> PartDraft:
    def typed(name: str) -> str:
        return str(post.get(f"{name}-{key}", ""))

    injection = typed("injection") or BEFORE
    return PartDraft(key, typed("title"), typed("minutes"), typed("tasks"), typed("criteria"), injection)


def _draft(number: int, part: Mapping[str, Any], offered: Mapping[str, CatalogueItem]) -> PartDraft:
    refs = [f"{SCENARIO}:{slug}" for slug in part["scenarios"]] + [f"{QUESTION}:{uuid}" for uuid in part["questions"]]
    return PartDraft(
        f"p{number}",
        title=part["title"],
        minutes=str(part["minutes"]),
        tasks=part.get("tasks", ""),
        criteria="\n".join(part.get("criteria", ())),
        injection=part.get("injection", BEFORE),
        entries=[offered.get(ref) or _gone(ref) for ref in refs],
    )


def _gone(ref: str) -> CatalogueItem:
    return CatalogueItem(ref, ref.partition(":")[2][:80], "", "", 0, is_gone=True)
