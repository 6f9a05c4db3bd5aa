"""The Xids that the driver logs, and what each means in every layer: ``native/xids.yaml`` (``make xids``)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

TABLE = Path(__file__).with_name("xids.json")


@dataclass(frozen=True, slots=True)
class Sentinel:
    """NVSentinel's path: its action, whether the node is quarantined and drained, and what repairs it then."""

    action: str
    cordons: bool
    repair: str


@dataclass(frozen=True, slots=True)
class Xid:
    """One kind of event. ``running`` and ``new`` are CUDA's errors for processes of before and after it, ``preload``
    that of the preloaded fault library; ``err_code`` and ``err_msg`` the labels of DCGM's metric; ``lines`` the
    driver's words, each with its microseconds after the first; ``follow`` the events that come with it, ``recovery``
    the action that Xid 154 names then. ``victims``: which processes on the GPU die (all, one, none); ``process``: the
    driver's line names the one that has caused it."""

    code: int
    name: str
    severity: str
    catalog: str
    running: int
    new: int
    preload: int
    nvml: int
    err_code: int
    err_msg: str
    health: str
    sentinel: Sentinel
    lines: tuple[tuple[int, str], ...]
    follow: tuple[int, ...]
    recovery: int
    victims: str
    process: bool
    sources: tuple[str, ...]

    def refusal(self, layers: str) -> str:
        """Return why the event cannot happen in these layers alone; empty where it can."""
        if layers != "cuda" or self.running or self.new:
            return ""
        return f"Xid {self.code} ({self.name}) gives no CUDA error: in CUDA alone nothing would be seen of it."


@cache
def xids() -> Mapping[int, Xid]:
    """Return every Xid by its code."""
    return {int(code): _xid(int(code), row) for code, row in _table()["xids"].items()}


def recovery_action(number: int) -> str:
    """Return the words of Xid 154 for an action."""
    return str(_table()["recovery_actions"][number])


@cache
def cuda_errors() -> Mapping[int, Mapping[str, str]]:
    """Return CUDA's errors by number: the names of the ``runtime`` and ``driver`` API, and the ``text``."""
    return {int(code): row for code, row in _table()["cuda_errors"].items()}


def _xid(code: int, row: dict[str, Any]) -> Xid:
    return Xid(
        code,
        row["name"],
        row["severity"],
        row["catalog"],
        row["cuda"]["running"],
        row["cuda"]["new"],
        row["preload"],
        row["nvml"],
        **row["dcgm"],
        sentinel=Sentinel(**row["nvsentinel"]),
        lines=tuple((after, text) for after, text in row["lines"]),
        follow=tuple(row["follow"]),
        recovery=row["recovery"],
        victims=row["victims"],
        process=row["process"],
        sources=tuple(row["sources"]),
    )


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))
    return table
