"""Attributes of a question in a bank's file: tags, difficulty, minutes, and the flag "only if time is left"."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from django.utils.text import slugify

from sessions.models import Question

MAX_TAGS, MAX_TAG_LENGTH = 12, 30
MIN_MINUTES, MAX_MINUTES = 1, 120
LABELS = {
    **dict.fromkeys(["tags", "tag"], "tags"),
    "difficulty": "difficulty",
    **dict.fromkeys(["minutes", "duration"], "minutes"),
    **dict.fromkeys(["only if time is left", "if time is left", "only if time permits"], "if_time_left"),
}
_YES, _NO = ("", "yes", "true"), ("no", "false")


@dataclass
class Attributes:
    """Attributes stated in a file; the rest is None or empty, and an import leaves it as the bank has it."""

    tags: list[str] = field(default_factory=list)
    difficulty: str = ""
    minutes: int | None = None
    if_time_left: bool | None = None

    def stated(self) -> dict[str, Any]:
        """Return the columns of ``Question`` that the file states."""
        found = {
            "tags": self.tags or None,
            "difficulty": self.difficulty or None,
            "minutes": self.minutes,
            "if_time_left": self.if_time_left,
        }
        return {name: value for name, value in found.items() if value is not None}

    def take(self, name: str, text: str) -> str:
        """Read an attribute's text; return what is wrong with it, or nothing."""
        text = text.strip().strip("*_`. ")
        if name == "tags":
            tags, problem = read_tags(",".join([*self.tags, text]))
            self.tags = tags or self.tags
            return problem
        return {"difficulty": self._difficulty, "minutes": self._minutes, "if_time_left": self._flag}[name](text)

    def _difficulty(self, text: str) -> str:
        if text.lower() not in Question.Difficulty.values:
            return f"not a difficulty: write {', '.join(Question.Difficulty.values)}"
        self.difficulty = text.lower()
        return ""

    def _minutes(self, text: str) -> str:
        number = text.split(" ", 1)[0]
        if not number.isdecimal() or not MIN_MINUTES <= int(number) <= MAX_MINUTES:
            return f"no number of minutes: write a whole number from {MIN_MINUTES} to {MAX_MINUTES}"
        self.minutes = int(number)
        return ""

    def _flag(self, text: str) -> str:
        if text.lower() not in (*_YES, *_NO):
            return "neither yes nor no"
        self.if_time_left = text.lower() in _YES
        return ""


def read_tags(text: str) -> tuple[list[str], str]:
    """Return the tags of a list with commas, in small letters with hyphens, and what is wrong with it."""
    words = [slugify(word, allow_unicode=True) for word in text.replace("\n", ",").split(",")]
    tags = list(dict.fromkeys(word for word in words if word))
    if any(len(tag) > MAX_TAG_LENGTH for tag in tags):
        return [], f"a tag of more than {MAX_TAG_LENGTH} characters"
    if len(tags) > MAX_TAGS:
        return tags[:MAX_TAGS], f"more than {MAX_TAGS} tags: the rest was left out"
    return tags, ""
