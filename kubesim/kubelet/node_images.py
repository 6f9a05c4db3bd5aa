"""The images on a node's disk: their layers, and the names that lead to them."""

from __future__ import annotations

from collections.abc import Container, Iterable

from kubesim.errors import Obj
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
