"""The documents of registries (OCI image specification 1.1): indexes, manifests, configurations and their digests."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from kubesim.errors import Obj

if TYPE_CHECKING:
    from kubesim.kubelet.images import Image

INDEX, MANIFEST = "application/vnd.oci.image.index.v1+json", "application/vnd.oci.image.manifest.v1+json"
CONFIG, LAYER = "application/vnd.oci.image.config.v1+json", "application/vnd.oci.image.layer.v1.tar+gzip"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LATEST_BUILD = datetime(2026, 2, 10, 18, 41, 5, tzinfo=UTC)
MAX_LAYERS = 9
SMALL_BYTES = 4 << 20
"""An image of less than this adds a single layer to what it is built on."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer: the digest and size of its blob, and the digest of what is in it."""

    digest: str
    size: int
    diff: str

    @classmethod
    def of(cls, seed: str, size: int) -> Layer:
        """Return a layer that is always the same for a seed."""
        return cls(_sha(f"{seed} blob".encode()), size, _sha(f"{seed} diff".encode()))


def split(seed: str, size: int) -> tuple[Layer, ...]:
    """Return layers of so many bytes together: a large one, and smaller ones after it."""
    layers: list[Layer] = []
    while size > SMALL_BYTES and len(layers) < MAX_LAYERS - 1:
        part = size * (45 + zlib.crc32(f"{seed} {len(layers)}".encode()) % 30) // 100
        layers.append(Layer.of(f"{seed} {len(layers)}", part))
        size -= part
    return (*layers, Layer.of(f"{seed} {len(layers)}", size))


def platform(text: str) -> dict[str, str]:
    """Return a platform (os/architecture[/variant]) as the documents have it."""
    found = dict(zip(("os", "architecture", "variant"), text.split("/"), strict=False))
    return {key: found[key] for key in ("architecture", "os", "variant") if key in found}


def created(image: Image) -> str:
    """Return when an image was built."""
    age = zlib.crc32(f"{image.reference.repository} {image.version}".encode()) % (500 * 86400)
    return f"{LATEST_BUILD - timedelta(seconds=age):%Y-%m-%dT%H:%M:%SZ}"


def config(image: Image) -> Obj:
    """Return the configuration of one image."""
    inner: Obj = {"Env": [f"{key}={value}" for key, value in {"PATH": PATH, **image.env}.items()]}
    inner |= {"Entrypoint": list(image.entrypoint)} if image.entrypoint else {}
    inner |= {"Cmd": list(image.cmd)} if image.cmd else {}
    inner |= {"WorkingDir": image.workdir} if image.workdir != "/" else {}
    layers = [layer.diff for layer in image.layers]
    found = platform(image.platform) | {"config": inner, "created": created(image)}
    return found | {"rootfs": {"type": "layers", "diff_ids": layers}}


def manifest(image: Image) -> Obj:
    """Return the manifest of one image."""
    layers = [{"mediaType": LAYER, "digest": layer.digest, "size": layer.size} for layer in image.layers]
    about = {"mediaType": CONFIG, "digest": image.id, "size": len(encoded(config(image)))}
    return {"schemaVersion": 2, "mediaType": MANIFEST, "config": about, "layers": layers}


def index(images: Iterable[Image]) -> Obj:
    """Return the index of an image's platforms."""
    listed = [
        {
            "mediaType": MANIFEST,
            "digest": image.manifest,
            "size": len(encoded(manifest(image))),
            "platform": platform(image.platform),
        }
        for image in images
    ]
    return {"schemaVersion": 2, "mediaType": INDEX, "manifests": listed}


def encoded(document: Obj) -> bytes:
    """Return a document as its registry has it, whose digest is that of these bytes."""
    if "mediaType" in document:
        return json.dumps(document, indent=2).encode()
    return json.dumps(document, separators=(",", ":")).encode()


def digest(document: Obj) -> str:
    """Return the digest of a document."""
    return _sha(encoded(document))


def _sha(content: Any) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()
