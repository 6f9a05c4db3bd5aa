"""The account of a node's images: what they take, which of them nobody uses, and what goes when space is short."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from kubesim.kubelet.node_images import NodeImages
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
    """The account of one node's images: what they take, and which of them nobody uses."""

    def __init__(self, images: NodeImages, workers: Callable[[], Iterable[PodWorker]]) -> None:
        self.images = images
        self._workers = workers
        self._seen: dict[str, Seen] = {}

    @property
    def total(self) -> int:
        """The bytes of all images."""
        return sum(layer.size for layer in self.images.layers().values())

    def detect(self, now: datetime) -> None:
        """Note which images are there, and which are in use."""
        using, there = self._in_use(dead=True), self.images.every()
        for ident in there:
            seen = self._seen.setdefault(ident, Seen(now, now))
            seen.used = now if ident in using else seen.used
        for ident in self._seen.keys() - there.keys():
            del self._seen[ident]

    def _in_use(self, *, dead: bool) -> set[str]:
        """Return the images of containers; those that are over have some only while nobody reclaims space."""
        found = (
            self.images.find(worker.record.spec(container)["image"])
            for worker in self._workers()
            for container in worker.record.containers
            if dead or not (container.done or worker.gone)
        )
        return {image.id for image in found if image is not None}

    def free(self, wanted: int | None, now: datetime, least_age_s: float, *, dead: bool = True) -> int:
        """Remove images that nobody uses, the longest unused first, until so many bytes are free (None: all of them).

        Returns the bytes that are. One that is younger than ``least_age_s`` stays; ``dead``: whether containers that
        are over keep theirs.
        """
        self.detect(now)
        before, freed = self.total, 0
        unused = self.images.every().keys() - self._in_use(dead=dead)
        for ident in sorted(unused, key=lambda each: (self._seen[each].used, self._seen[each].since)):
            if (now - self._seen[ident].since).total_seconds() < least_age_s:
                continue
            self.images.remove(ident)
            freed = before - self.total
            if wanted is not None and freed >= wanted:
                break
        return freed
