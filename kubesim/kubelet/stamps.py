"""When a line was printed, as the loggers of known programs put it into the line itself.

A logger is known by the form of its lines: klog (``I file.go:1] ...``), Go's slog and Prometheus' (``level=``),
zap and slog in JSON, nginx, Apache httpd, vLLM, Triton, Rust's tracing, Grafana.
"""

from __future__ import annotations

import re
from datetime import datetime

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
