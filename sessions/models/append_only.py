"""Rows that are written once. The database refuses updates too, see ``sessions.append_only``."""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn

from django.db import models


class Rewritten(Exception):
    """Somebody tried to change or delete a row of the record."""


class AppendOnlyQuerySet(models.QuerySet[Any]):
    """A query set without the ways to change rows in bulk."""

    def update(self, **kwargs: Any) -> NoReturn:
        """Refuse."""
        raise Rewritten(f"{self.model.__name__} rows are append-only.")

    def delete(self) -> NoReturn:
        """Refuse."""
        raise Rewritten(f"{self.model.__name__} rows are append-only.")


class AppendOnly(models.Model):
    """A row that can be inserted and read."""

    objects: ClassVar[models.Manager[Any]] = AppendOnlyQuerySet.as_manager()

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{type(self).__name__} {self.pk}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Insert; refuse to write over a stored row."""
        if not self._state.adding:
            raise Rewritten(f"{type(self).__name__} rows are append-only.")
        super().save(*args, **kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse."""
        raise Rewritten(f"{type(self).__name__} rows are append-only.")
