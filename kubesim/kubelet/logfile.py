"""The log of a process: lines with their times, as its logger has them, cut off by size as a kubelet rotates files.

A logger is known by the form of its lines: klog (``I file.go:1] ...``), Go's slog and Prometheus' (``level=``),
zap and slog in JSON, nginx, Apache httpd, vLLM, Triton, Rust's tracing, Grafana.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from kubesim.times import nano, parse

ROTATE_BYTES = 4 << 20
"""A kubelet's limit is 10 MiB; ours live in memory."""
LONGEST_LINE = 16 * 1024
"""Where the container runtime breaks a line."""
KEPT_BYTES = 64 * 1024
"""How much of an ended process's log outlives a restart."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line and when it was printed; ``end`` is empty where no newline followed."""

    at: datetime
    text: str
    stream: str = "stdout"
    end: str = "\n"


@dataclass
class LogFile:
    """The lines of one process. ``first`` is the number of the oldest that is left."""

    entries: list[Entry] = field(default_factory=list)
    first: int = 0
    size: int = 0
    _partial: dict[str, bytes] = field(default_factory=dict)

    @property
    def end(self) -> int:
        """The number of the next line."""
        return self.first + len(self.entries)

    def since(self, number: int) -> list[Entry]:
        """Return the lines from a number on, as far as they are left."""
        return self.entries[max(number - self.first, 0) :]

    def write(self, data: bytes, at: datetime, stream: str) -> None:
        """Add output; what ends in no newline waits for the rest of its line."""
        *lines, rest = (self._partial.pop(stream, b"") + data).split(b"\n")
        for line in lines:
            self._add(line, at, stream)
        while len(rest) >= LONGEST_LINE:
            self._add(rest[:LONGEST_LINE], at, stream, "")
            rest = rest[LONGEST_LINE:]
        if rest:
            self._partial[stream] = rest

    def finish(self, at: datetime) -> None:
        """Add what was printed without a newline: the process has ended."""
        for stream, rest in [*self._partial.items()]:
            self._add(rest, at, stream, "")
        self._partial.clear()

    def _add(self, line: bytes, at: datetime, stream: str, end: str = "\n") -> None:
        if self.size > ROTATE_BYTES:
            self.first += len(self.entries)
            self.entries, self.size = [], 0
        self.size += len(line) + 64
        self.entries.append(Entry(at, line.decode("utf-8", "replace"), stream, end))

    def dump(self) -> list[list[str]]:
        """Return the newest lines for ``load``."""
        kept: list[list[str]] = []
        size = 0
        for entry in reversed(self.entries):
            size += len(entry.text) + 64
            if size > KEPT_BYTES:
                break
            kept.append([nano(entry.at), entry.text, entry.stream, entry.end])
        return kept[::-1]

    @classmethod
    def load(cls, lines: list[Any]) -> LogFile:
        """Rebuild from ``dump``."""
        return cls([Entry(parse(at), *rest) for at, *rest in lines])


_MILLI = "{at:%Y-%m-%dT%H:%M:%S}.{ms:03d}Z"
FORMS = (
    (re.compile(r"([IWEF]) (?=\w+\.cc:\d+\] )"), "{0}{at:%m%d %H:%M:%S.%f} 1 "),
    (re.compile(r"(?= INFO )"), "{at:%Y-%m-%dT%H:%M:%S.%f}Z "),
    (re.compile(r"([IWEF]) (?=\S+:\d+\] )"), "{0}{at:%m%d %H:%M:%S.%f}       1 "),
    (re.compile(r"(logger=\S+ )(?=level=)"), f"{{0}}t={_MILLI} "),
    (re.compile(r"(?=level=[A-Z])"), f"time={_MILLI} "),
    (re.compile(r"(?=level=[a-z])"), f"ts={_MILLI} "),
    (re.compile(r'{(?="level":"[A-Z])'), '{{"time":"{at:%Y-%m-%dT%H:%M:%S.%f}Z",'),
    (re.compile(r'{("level":"[a-z]+",)'), '{{{0}"ts":"{at:%Y-%m-%dT%H:%M:%SZ}",'),
    (re.compile(r'{("severity":"[a-z]+",)'), f'{{{{{{0}}"timestamp":"{_MILLI}",'),
    (re.compile(r"(?=\[[a-z]+\] \d+#\d+: )"), "{at:%Y/%m/%d %H:%M:%S} "),
    (re.compile(r"(?=\[[a-z_]+:[a-z]+\] )"), "[{at:%a %b %d %H:%M:%S.%f %Y}] "),
    (re.compile(r"(INFO|WARNING|ERROR) (?=\[|\w+\.py:\d+\] )"), "{0} {at:%m-%d %H:%M:%S} "),
)
"""The beginning of a line, and what stands there instead; {0} is its first group."""


def stamped(text: str, at: datetime) -> str:
    """Return a line of a known program with the moment at which it was printed (UTC)."""
    for beginning, template in FORMS:
        found = beginning.match(text)
        if found:
            groups = found.groups() or ("",)
            stamp = template.format(groups[0], at=at, ms=at.microsecond // 1000)
            return stamp + text[found.end() :]
    return text
