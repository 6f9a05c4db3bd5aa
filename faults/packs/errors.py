"""Errors of packs."""

from __future__ import annotations


class PackError(Exception):
    """A pack cannot be used. Says in which file, at which place, and what to change."""

    def __init__(self, file: str, where: str, message: str) -> None:
        place = f"{file}, {where}" if where else file
        super().__init__(f"{place}: {message}")
        self.file = file
        self.where = where
        self.message = message
