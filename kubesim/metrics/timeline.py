"""A value that changes now and then, and what it was at any moment."""

from __future__ import annotations

from bisect import bisect_right
from typing import Generic, TypeVar

T = TypeVar("T")
MOST_CHANGES = 2048


class Timeline(Generic[T]):
    """Changes of a value in order of time (seconds since the epoch). The oldest are forgotten beyond a bound."""

    __slots__ = ("_times", "_values")

    def __init__(self, at: float, value: T) -> None:
        self._times = [at]
        self._values = [value]

    def set(self, at: float, value: T) -> None:
        """Let the value be another from ``at`` on; the same again is no change."""
        if self._values[-1] == value:
            return
        if at <= self._times[-1]:
            self._values[-1] = value
            return
        self._times.append(at)
        self._values.append(value)
        if len(self._times) > MOST_CHANGES:
            del self._times[: MOST_CHANGES // 4], self._values[: MOST_CHANGES // 4]

    def at(self, moment: float) -> T | None:
        """Return the value at a moment; None before the first."""
        index = bisect_right(self._times, moment) - 1
        return self._values[index] if index >= 0 else None

    @property
    def last(self) -> T:
        """The value now."""
        return self._values[-1]

    @property
    def first(self) -> T:
        """The oldest value that is known."""
        return self._values[0]

    @property
    def changed(self) -> float:
        """Since when it has had the value of now."""
        return self._times[-1]

    def within(self, after: float, until: float) -> list[T]:
        """Return the values it had in a span, the one at its beginning included."""
        first = max(bisect_right(self._times, after) - 1, 0)
        return self._values[first : bisect_right(self._times, until)]
