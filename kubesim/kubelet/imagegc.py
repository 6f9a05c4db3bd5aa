"""The images on a node's disk: what they take, which of them nobody uses, and what goes when space is short."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from kubesim.kubelet.images import STAND_IN_BYTES, PullError, pull
from kubesim.kubelet.pod import PodWorker

DETECT_S = 300.0
"""How often a kubelet looks whether images fill their disk."""
INODES = 9000
"""Entries of a file system that an image takes, more or less."""
TOO_FEW = (
    "Failed to garbage collect required amount of images. Attempted to free {} bytes, but only found {} bytes "
    "eligible to free."
)


@dataclass(slots=True)
class Seen:
    """An image: since when it is there, and when it was last used."""

    since: datetime
    used: datetime


class ImageStore:
    """The images of one node; ``names`` is shared with whoever pulls them."""

    def __init__(self, names: set[str], architecture: str, workers: Callable[[], Iterable[PodWorker]]) -> None:
        self.names = names
        self._architecture = architecture
        self._workers = workers
        self._seen: dict[str, Seen] = {}
        self._total = self._counted = 0

    def size(self, name: str) -> int:
        """Return the bytes that an image takes."""
        try:
            return pull(name, self._architecture).size
        except PullError:
            return STAND_IN_BYTES

    @property
    def total(self) -> int:
        """The bytes of all images."""
        if self._counted != len(self.names):
            self._counted, self._total = len(self.names), sum(map(self.size, self.names))
        return self._total

    def detect(self, now: datetime) -> None:
        """Note which images are there, and which are in use."""
        using = self._in_use(dead=True)
        for name in self.names:
            seen = self._seen.setdefault(name, Seen(now, now))
            seen.used = now if name in using else seen.used
        for name in self._seen.keys() - self.names:
            del self._seen[name]

    def _in_use(self, *, dead: bool) -> set[str]:
        """Return the images of containers; those that are over have some only while nobody reclaims space."""
        return {
            worker.record.spec(container)["image"]
            for worker in self._workers()
            for container in worker.record.containers
            if dead or not (container.done or worker.gone)
        }

    def free(self, wanted: int | None, now: datetime, least_age_s: float, *, dead: bool = True) -> int:
        """Remove images that nobody uses, the longest unused first, until so many bytes are free (None: all of them).

        Returns the bytes that are. One that is younger than ``least_age_s`` stays; ``dead``: whether containers that
        are over keep theirs.
        """
        self.detect(now)
        using, freed = self._in_use(dead=dead), 0
        for name in sorted(self.names - using, key=lambda each: (self._seen[each].used, self._seen[each].since)):
            if (now - self._seen[name].since).total_seconds() < least_age_s:
                continue
            freed += self.size(name)
            self.names.discard(name)
            if wanted is not None and freed >= wanted:
                break
        self._counted = -1
        return freed
