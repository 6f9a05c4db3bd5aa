"""The parts of a pack, as plain frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Obj = dict[str, Any]
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
class Solution:
    """A route that repairs the fault; a pack has at least two.

    ``lines`` are what a person types in the toolbox, ``files`` those of the pack's files that they name, by path. The
    lines of stored versions from before there was a toolbox can be read, and not ``run``.
    """

    key: str
    title: str
    lines: tuple[str, ...]
    files: Mapping[str, str] = field(default_factory=dict)
    run: bool = True


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
    workspace: Mapping[str, str] = field(default_factory=dict)
    """The merged Terraform code, and the changes to it, by path inside the pack."""
