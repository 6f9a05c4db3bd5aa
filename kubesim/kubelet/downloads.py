"""The pulls of one node: so many at a time, each as long as the layers take that are not there yet.

A kubelet pulls one image after the other (serializeImagePulls), or some in parallel (maxParallelImagePulls).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from heapq import heappop, heappush

from kubesim.kubelet import timings
from kubesim.kubelet.images import Image
from kubesim.kubelet.node_images import NodeImages


@dataclass(slots=True)
class Download:
    """One pull for a container: of an image, or one that fails after some seconds."""

    owner: object
    container: str
    text: str
    """The image as its pod names it."""
    image: Image | None
    fails_after: float
    asked: datetime
    wake: Callable[[], None]
    begins: datetime
    ends: datetime

    @property
    def took(self) -> float:
        """The seconds that it takes by itself."""
        return (self.ends - self.begins).total_seconds()

    @property
    def waited(self) -> float:
        """The seconds that it takes with the time in which others were pulled."""
        return (self.ends - self.asked).total_seconds()


class Downloads:
    """Pulls of a node, under way or waiting; ``most`` returns how many it pulls at once (0: any)."""

    def __init__(self, images: NodeImages, most: Callable[[], int]) -> None:
        self._images = images
        self._most = most
        self._owned: dict[int, list[Download]] = {}
        self._slots: list[datetime] = []
        """The moments at which the pulls that are under way end."""
        self._coming: dict[str, datetime] = {}
        """Layer -> when it is there."""
        self._until: datetime | None = None

    def begin(
        self,
        owner: object,
        container: str,
        text: str,
        image: Image | None,
        fails_after: float,
        now: datetime,
        wake: Callable[[], None],
    ) -> Download:
        """Ask for an image; ``image`` is None for a pull that fails."""
        if self._until is not None and self._until <= now:
            self._reset()
        asked = Download(owner, container, text, image, fails_after, now, wake, now, now)
        self._plan(asked, now)
        self._owned.setdefault(id(owner), []).append(asked)
        return asked

    def cancel(self, owner: object, now: datetime) -> None:
        """Forget the pulls of somebody who is gone: those behind them come sooner."""
        if all(each.ends <= now for each in self._owned.pop(id(owner), ())):
            return
        kept = sorted((each for found in self._owned.values() for each in found), key=lambda each: each.begins)
        self._reset()
        for each in kept:
            self._plan(each, now)
            self._owned.setdefault(id(each.owner), []).append(each)
            each.wake()

    def _reset(self) -> None:
        self._owned, self._slots, self._coming, self._until = {}, [], {}, None

    def _plan(self, download: Download, now: datetime) -> None:
        """Say when a pull begins and ends behind those before it; one that has begun stays as it is."""
        most = self._most()
        free = heappop(self._slots) if most and len(self._slots) >= most else download.asked
        if download.begins >= now:
            download.begins = max(free, download.asked, now)
            download.ends = download.begins + timedelta(seconds=self._seconds(download))
        heappush(self._slots, download.ends)
        self._until = max(self._until or download.ends, download.ends)
        there = self._images.layers()
        for layer in download.image.layers if download.image is not None else ():
            if layer.digest not in there:
                self._coming.setdefault(layer.digest, download.ends)

    def _seconds(self, download: Download) -> float:
        image = download.image
        if image is None:
            return download.fails_after
        own = timings.pull_s(self._images.missing(image, self._coming), image.pull_s)
        there = self._images.layers()
        waits = (layer.digest for layer in image.layers if layer.digest not in there)
        shared = [self._coming[digest] for digest in waits if digest in self._coming]
        return max([own, *((ends - download.begins).total_seconds() for ends in shared)])
