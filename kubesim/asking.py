"""Calls of the webhooks that admit an operation's object, or convert it.

Operations are synchronous, so that nothing comes between their reading and their writing. One that lacks an answer
raises ``Unanswered``; whoever began it fetches the answer and begins it again (``answered``). A ``Talk`` keeps what
was answered, and the object as it stood when it was asked about: names, times and uids stay what others have seen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

import orjson

from kubesim.client import ObjectList
from kubesim.errors import ApiError, Obj

if TYPE_CHECKING:
    from kubesim.api.options import Options

T = TypeVar("T")
Key = tuple[object, ...]
MOST_ROUNDS = 200


@dataclass(frozen=True, slots=True)
class Question:
    """A review to be posted to a webhook. ``client`` is its clientConfig, ``seconds`` how long it may take."""

    client: Obj
    review: Obj
    seconds: float


@dataclass(frozen=True, slots=True)
class Answer:
    """The review that came back; without one, why: in the words of a Go client."""

    review: Obj | None = None
    error: str = ""
    uid: str = ""
    """The uid of the request that it answers."""


Ask = Callable[[Question], Awaitable[Answer]]


class Unanswered(Exception):
    """An operation cannot go on without these answers; each goes to the function beside its question."""

    def __init__(self, pending: list[tuple[Question, Callable[[Answer], object]]]) -> None:
        super().__init__(f"{len(pending)} questions")
        self.pending = pending

    async def settle(self, ask: Ask) -> None:
        """Ask all at once."""
        answers = await asyncio.gather(*(ask(question) for question, _ in self.pending))
        for (question, take), answer in zip(self.pending, answers, strict=True):
            take(replace(answer, uid=question.review["request"]["uid"]))


@dataclass(slots=True)
class Talk:
    """What one request has asked so far."""

    answers: dict[Key, Answer] = field(default_factory=dict)
    objects: dict[Key, bytes] = field(default_factory=dict)
    selected: ObjectList | None = None
    """What a deletion of many began with."""

    def ask(self, questions: dict[Key, Question], obj: Obj | None) -> list[Answer]:
        """Return the answers, and make ``obj`` again what it was when they were asked for. Raises Unanswered."""
        first = next(iter(questions))
        if not questions.keys() <= self.answers.keys():
            if obj is not None:
                self.objects[first] = orjson.dumps(obj)
            raise Unanswered([(question, _keep(self.answers, key)) for key, question in questions.items()])
        if obj is not None:
            obj.clear()
            obj.update(orjson.loads(self.objects[first]))
        return [self.answers[key] for key in questions]


def _keep(answers: dict[Key, Answer], key: Key) -> Callable[[Answer], object]:
    return lambda answer: answers.update({key: answer})


async def answered(ask: Ask, attempt: Callable[[], T], options: Options | None = None) -> T:
    """Run an operation until it has every answer that it needs."""
    told = 0
    if options is not None:
        options.talk = options.talk or Talk()
        told = len(options.warnings)
    for _ in range(MOST_ROUNDS):
        try:
            return attempt()
        except Unanswered as waiting:
            await waiting.settle(ask)
        if options is not None:
            del options.warnings[told:]
            options.created = False
    why = "Timeout: request did not complete within requested timeout - context deadline exceeded"
    raise ApiError(504, "Timeout", why)
