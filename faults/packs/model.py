"""The parts of a pack, as plain frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Obj = dict[str, Any]
RUN = "run"
"""The verb of a solution's line."""
PRIVILEGED_PODS = "privileged-pods"
EPHEMERAL_CONTAINERS = "ephemeral-containers"
DIRECT_PLACEMENT = "direct-placement"
RIGHTS = (PRIVILEGED_PODS, EPHEMERAL_CONTAINERS, DIRECT_PLACEMENT)
"""Rights beyond the candidate's usual ones: no Pod Security, ``kubectl debug``, pods with a ``nodeName``."""


Variant = Mapping[str, str]
"""Linked values, by name, that differ between sessions without changing how hard the scenario is."""


@dataclass(frozen=True, slots=True)
class InjectStep:
    """One change to the cluster: the name of its kind (``faults.injectors``), and the values of its fields.

    A step with a ``file`` has the objects of that file as ``objects``, too.
    """

    kind: str
    spec: Obj


@dataclass(frozen=True, slots=True)
class Hint:
    """A help the interviewer may release: tier 1 names the concept, tier 2 the exact place."""

    tier: int
    text: str


@dataclass(frozen=True, slots=True)
class Criterion:
    """A rubric row. ``source`` is quoted (from the source document) or derived; anchors are for levels 1 to 4.

    ``kind`` is diagnosis, fix or communication; empty in packs from before there were kinds.
    """

    key: str
    title: str
    weight: int
    source: str
    anchors: Mapping[int, str]
    kind: str = ""


@dataclass(frozen=True, slots=True)
class SolutionStep:
    """One act of a reference solution: the command a person types, and what it does.

    ``run``: the command is a line of a shell in the toolbox. Versions from before there were lines have API calls:
    ``delete``: ``spec = {"target": {apiVersion, kind, namespace, name}}``, waits until it is gone;
    ``create``, ``replace``: ``spec = {"file": path, "objects": [object, ...]}`` (replace = delete, then create, as
    ``kubectl replace --force``); ``patch``: ``spec = {"target": ..., "patch": object}``, a JSON merge patch.
    """

    verb: str
    spec: Obj
    command: str


@dataclass(frozen=True, slots=True)
class Solution:
    """A route that repairs the fault; a pack has at least two. ``files`` are those that its lines name, by path."""

    key: str
    title: str
    steps: tuple[SolutionStep, ...]
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def lines(self) -> tuple[str, ...]:
        """The commands that a person types."""
        return tuple(step.command for step in self.steps)

    @property
    def is_typed(self) -> bool:
        """Whether its steps are API calls, from before there were lines."""
        return any(step.verb != RUN for step in self.steps)


@dataclass(frozen=True, slots=True)
class WrongTurn:
    """An act that people try and that repairs nothing, or not all of it, and how that shows.

    ``fails`` and ``breaks`` have words of the finding, by the key of the check or guard; ``refused`` has words of the
    cluster's refusal. The checks in ``passes`` pass all the same, which makes it a partial fix.
    """

    route: Solution
    why: str
    refused: str
    fails: Mapping[str, str]
    passes: tuple[str, ...]
    breaks: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Source:
    """The pack before its placeholders are filled in: parsed YAML, and texts as they stand, by file name."""

    document: Obj
    manifests: Mapping[str, list[Obj]]
    texts: Mapping[str, str]
