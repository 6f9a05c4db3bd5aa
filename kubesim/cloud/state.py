"""Resources of a cloud project, by their paths below the API's version: ``projects/ml-prod/global/firewalls/web``."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kubesim.errors import Obj

GONE: Obj = {}
"""Kept in the place of a resource that was there from the start and has been deleted."""


class CloudState:
    """All resources by path. ``changed`` is called after each change, with the path."""

    def __init__(self, seed: Mapping[str, Obj]) -> None:
        """``seed``: what a fresh project has; only what differs from it is kept."""
        self._seed = seed
        self._items: dict[str, Obj] = {**seed}
        self._dirty: set[str] = set()
        self.changed: Callable[[str], None] = lambda path: None

    def restore(self, saved: Mapping[str, Obj]) -> None:
        """Take up what ``changes`` returned."""
        self._items |= saved

    def get(self, path: str) -> Obj | None:
        """Return a resource, or None."""
        return self._items.get(path) or None

    def below(self, folder: str) -> list[Obj]:
        """Return what lies directly in a folder, by name."""
        begin = f"{folder}/"
        paths = [path for path, item in self._items.items() if item and path.startswith(begin)]
        return [self._items[path] for path in sorted(paths) if "/" not in path[len(begin) :]]

    def put(self, path: str, item: Obj) -> None:
        """Create or replace a resource."""
        self._items[path] = item
        self._note(path)

    def drop(self, path: str) -> None:
        """Delete a resource."""
        self._items[path] = GONE
        if path not in self._seed:
            del self._items[path]
        self._note(path)

    def changes(self) -> Obj:
        """Return what has changed since the last call, by path; None for what is gone without a trace."""
        dirty, self._dirty = self._dirty, set()
        return {path: self._items.get(path) for path in dirty}

    def _note(self, path: str) -> None:
        self._dirty.add(path)
        self.changed(path)
