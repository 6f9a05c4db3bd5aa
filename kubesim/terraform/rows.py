"""The elements of two lists beside each other."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any


def sets(before: list[Any], after: list[Any]) -> list[tuple[Any, Any, bool]]:
    gone = [(item, None, False) for item in before if item not in after]
    rows = [(item, item, True) if item in before else (None, item, False) for item in after]
    return sorted([*gone, *rows], key=lambda row: str(row[0] if row[0] is not None else row[1]))


def sequences(before: list[Any], after: list[Any]) -> list[tuple[Any, Any, bool]]:
    """Return the elements of two lists beside each other, along their longest common part."""
    if any(isinstance(item, dict) for item in [*before, *after]) or len(before) * len(after) > 250_000:
        return [(one, other, one == other) for one, other in zip_longest(before, after)]
    table = [[0] * (len(after) + 1) for _ in range(len(before) + 1)]
    for i in range(len(before) - 1, -1, -1):
        for j in range(len(after) - 1, -1, -1):
            table[i][j] = table[i + 1][j + 1] + 1 if before[i] == after[j] else max(table[i + 1][j], table[i][j + 1])
    rows: list[tuple[Any, Any, bool]] = []
    i = j = 0
    while i < len(before) or j < len(after):
        if i < len(before) and j < len(after) and before[i] == after[j]:
            rows.append((before[i], after[j], True))
            i, j = i + 1, j + 1
        elif i < len(before) and (j == len(after) or table[i + 1][j] >= table[i][j + 1]):
            rows.append((before[i], None, False))
            i += 1
        else:
            rows.append((None, after[j], False))
            j += 1
    return rows
