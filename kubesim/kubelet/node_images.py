"""The images on a node's disk, by layers and names, and the pulls that bring them: so many at a time.

A kubelet pulls one image after the other (serializeImagePulls), or some in parallel (maxParallelImagePulls).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from heapq import heappop, heappush

from kubesim.errors import Obj
from kubesim.kubelet import timings
from kubesim.kubelet.images import STANDARD, Catalogue, Image, PullError, parse_reference, stand_in
from kubesim.kubelet.manifests import Layer

MAX_REPORTED, MAX_NAMES = 50, 5
"""Images that a node's status lists, and names of one of them (nodeStatusMaxImages, maxNamesPerImageInNodeStatus)."""


class NodeImages:
    """The images that a node has, each under every name by which it was pulled."""

    def __init__(self, architecture: str, catalogue: Catalogue = STANDARD, names: Iterable[str] = ()) -> None:
        """``names`` are the references of what is there already."""
        self.architecture = architecture
        self.catalogue = catalogue
        self.changed = self.unsaved = True
        """Tell whether the node's status tells of other images, and whether others are kept for a restart."""
        self._by_name: dict[str, Image] = {}
        self._layers: dict[str, Layer] | None = None
        for name in names:
            self.add(self.look_up(name))

    def __contains__(self, text: str) -> bool:
        return self.find(text) is not None

    def find(self, text: str) -> Image | None:
        """Return an image that is there by any of its references."""
        return self._by_name.get(parse_reference(text).full)

    def fetch(self, text: str, *, lenient: bool = False) -> Image:
        """Return what a pull brings. Raises ``PullError``.

        ``lenient``: what the registries do not know is taken to be there, as a real cluster's own agents are.
        """
        if lenient and not self.catalogue.known(text):
            return stand_in(text, self.architecture)
        return self.catalogue.pull(text, self.architecture)

    def look_up(self, text: str) -> Image:
        """Return an image that was pulled in the past, whatever the registries have by now."""
        try:
            return self.fetch(text)
        except PullError:
            return stand_in(text, self.architecture)

    def add(self, image: Image) -> None:
        """Note an image that is there now."""
        if self._by_name.get(image.reference.full) != image:
            self._by_name[image.reference.full] = image
            self.changed, self.unsaved, self._layers = True, True, None

    def remove(self, ident: str) -> None:
        """Remove an image with all its names."""
        self._by_name = {name: image for name, image in self._by_name.items() if image.id != ident}
        self.changed, self.unsaved, self._layers = True, True, None

    def every(self) -> dict[str, list[Image]]:
        """Return the images by id, each as often as it has names."""
        found: dict[str, list[Image]] = {}
        for _, image in sorted(self._by_name.items()):
            found.setdefault(image.id, []).append(image)
        return found

    def layers(self) -> dict[str, Layer]:
        """Return the layers that are there, by digest: what images share is there once."""
        if self._layers is None:
            self._layers = {layer.digest: layer for image in self._by_name.values() for layer in image.layers}
        return self._layers

    def missing(self, image: Image, coming: Container[str] = ()) -> int:
        """Return the bytes of an image's layers that are not there, nor ``coming`` with others."""
        there = self.layers()
        return sum(each.size for each in image.layers if each.digest not in there and each.digest not in coming)

    def status(self) -> list[Obj]:
        """Return what the node's status lists: the largest images, each with its names."""
        largest = sorted(self.every().values(), key=lambda found: -found[0].size)[:MAX_REPORTED]
        return [{"names": _names(found)[:MAX_NAMES], "sizeBytes": found[0].size} for found in largest]

    def dump(self) -> list[str]:
        """Return the references that ``names`` takes."""
        return sorted(image.reference.whole for image in self._by_name.values())


def _names(images: list[Image]) -> list[str]:
    """Return the digests and tags of an image, digests first, as the kubelet lists them."""
    tags = [image.reference.full for image in images if not image.reference.digest]
    return [*dict.fromkeys(image.image_id for image in images), *tags]


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
