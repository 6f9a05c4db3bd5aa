"""Images: the catalogue of the registries that a cluster reaches, and what a pull from them brings.

A cluster's own images (``imagefile.py``) stand beside those of images.yaml, in the same form.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

from kubesim import data
from kubesim.errors import Obj
from kubesim.imagenames import DEFAULT_REGISTRY
from kubesim.kubelet import manifests
from kubesim.kubelet.manifests import Layer

_standard: data.Reader[Obj] = data.beside(__file__, "images.yaml")
STAND_IN_BYTES, MIN_LAYER = 40_000_000, 32
MAX_KNOWN = 4096
"""Images, and digests, that a catalogue remembers having been asked for."""
DOCKER_HUB = "registry-1.docker.io"
REGISTRY_PORT = 443
NAMESERVER = "169.254.169.254:53"
BY_DIGEST = "sha256:*"
"""The pattern of repositories that are taken to have every digest."""
NOT_INHERITED = ("tags", "newest", "platforms", "shape", "size", "versions", "from", "name", "pullSeconds")
"""The fields of an image that are not those of an image built on it."""
_VERSION = re.compile(r"v?([0-9]+(?:\.[0-9]+)*)")


@dataclass(frozen=True, slots=True)
class Reference:
    """A complete image reference, as containerd spells it: docker.io/library/python, 3.9-slim."""

    repository: str
    tag: str
    digest: str = ""

    @property
    def full(self) -> str:
        """The reference with its registry."""
        if self.digest:
            return f"{self.repository}@{self.digest}"
        return f"{self.repository}:{self.tag}"

    @property
    def whole(self) -> str:
        """The reference with tag and digest, as far as it has them."""
        return f"{self.repository}:{self.tag}@{self.digest}" if self.tag and self.digest else self.full

    @property
    def registry(self) -> str:
        """The host that serves it."""
        return self.repository.split("/", 1)[0]


@dataclass(frozen=True, slots=True)
class Image:
    """An image for one platform, as a node has it after a pull."""

    reference: Reference
    platform: str
    size: int
    """The bytes of its configuration and its compressed layers."""
    programs: dict[str, str] = field(repr=False, compare=False)
    """Path of each program, by name."""
    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()
    before_options: tuple[str, ...] = ()
    """What the script that is its entry point puts before arguments that begin with a hyphen."""
    behaviour: str = ""
    base: str = "none"
    """The distribution it is built on."""
    scripts: bool = False
    """Whether script files that a command names are taken to be in the image."""
    release: str = ""
    """The release of the distribution (``shell/releases.yaml``); empty for the one that the base is by itself."""
    env: dict[str, str] = field(default_factory=dict, repr=False, compare=False)
    """What every process of the image has in its environment."""
    workdir: str = "/"
    """Where its programs start."""
    built_on: Reference | None = None
    stands_in: bool = False
    """Whether nothing is known of it: its programs only seem to run."""
    layers: tuple[Layer, ...] = ()
    version: str = ""
    files: dict[str, str] = field(default_factory=dict, repr=False, compare=False)
    """The text of each file of its own, by path."""
    own: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """The logs, load and servers of its program (``imagefile.py``) where that is no behaviour of the catalogue."""
    pull_s: float | None = None
    """The seconds of a pull, where they do not follow from its size."""
    id: str = ""
    """The digest of its configuration, by which the runtime knows it."""
    manifest: str = ""
    """The digest of its manifest."""
    digest: str = ""
    """The digest of what its tag names: the index of its platforms, or its manifest."""

    @property
    def origin(self) -> Reference:
        """The image at the bottom of those that it is built on."""
        return self.built_on or self.reference

    @property
    def program(self) -> str:
        """The name of the program whose course its cluster has described; empty where it has none."""
        first = next(iter(self.entrypoint + self.cmd), "")
        return first.rpartition("/")[2] if "log" in self.own else ""

    @property
    def image_id(self) -> str:
        """The content address, as containerStatuses show it."""
        return f"{self.reference.repository}@{self.digest}"


class PullError(Exception):
    """A pull that failed: the text of the container runtime, with its gRPC code in front."""

    def __init__(self, code: str, reference: Reference, cause: str) -> None:
        text = f'failed to pull and unpack image "{reference.full}": {cause}'
        super().__init__(f"rpc error: code = {code} desc = {text}")


def parse_reference(text: str) -> Reference:
    """Complete a short image name: ``python`` is docker.io/library/python:latest."""
    name, _, digest = text.partition("@")
    head, _, last = name.rpartition("/")
    last, _, tag = last.partition(":")
    name = f"{head}/{last}" if head else last
    first = name.split("/", 1)[0]
    if "/" not in name or not ("." in first or ":" in first or first == "localhost"):
        name = f"{DEFAULT_REGISTRY}/{name if '/' in name else 'library/' + name}"
    return Reference(name, tag or ("" if digest else "latest"), digest)


def endpoint(text: str) -> str:
    """Return the host that a pull of an image asks."""
    registry = parse_reference(text).registry
    return DOCKER_HUB if registry == DEFAULT_REGISTRY else registry.partition(":")[0]


def unreachable(text: str, address: str) -> PullError:
    """Return what a pull says where nothing comes back from the registry's address."""
    reference = parse_reference(text)
    host, path = endpoint(text), reference.repository.split("/", 1)[1]
    url = f"https://{host}/v2/{path}/manifests/{reference.digest or reference.tag}"
    cause = f'failed to resolve reference "{reference.full}": failed to do request: Head "{url}": '
    return PullError("DeadlineExceeded", reference, f"{cause}dial tcp {address}:{REGISTRY_PORT}: i/o timeout")


def stand_in(text: str, architecture: str) -> Image:
    """Return an image of which nothing is known but that it is there."""
    bare = Image(parse_reference(text), f"linux/{architecture}", STAND_IN_BYTES, {}, ("/agent",), stands_in=True)
    return _addressed(replace(bare, layers=(Layer.of(bare.reference.full, STAND_IN_BYTES),)))


class Catalogue:
    """Every image that the registries of a cluster serve; ``own`` are those of its cluster file, which come first."""

    def __init__(self, own: Iterable[Obj] = ()) -> None:
        self._entries: dict[str, list[Obj]] = {}
        for entry in own:
            self._entries.setdefault(parse_reference(entry["name"]).repository, []).append(entry)
        self.own_registries = {name.split("/", 1)[0] for name in self._entries} - {*_standard()["registries"]}
        """The hosts that only this cluster knows."""
        self._registries = {*_standard()["registries"], *self.own_registries}
        self._digests: dict[tuple[str, str], tuple[str, str]] = {}
        """Repository and digest -> tag and platform (empty: all) of what was looked up."""
        self._made: dict[Reference, dict[str, Image]] = {}
        """The images of each platform, by reference: every one of them has a part in the digest of the others."""

    def known(self, text: str) -> bool:
        """Tell whether the registries have the repository of an image."""
        return bool(self._of(parse_reference(text).repository))

    def pull(self, text: str, architecture: str) -> Image:
        """Return what a node of ``architecture`` gets for an image reference. Raises ``PullError``."""
        return self._pull(parse_reference(text), architecture)

    def _pull(self, reference: Reference, architecture: str) -> Image:
        reference, platform = self._resolve(reference)
        entry = self._find(reference)
        offered: list[str] = entry["platforms"]
        if platform or entry.get("shape") == "manifest":
            return self._image(reference, entry, platform or offered[0])
        for each in offered:
            if each.split("/")[1] == architecture:
                return self._image(reference, entry, each)
        raise PullError("NotFound", reference, "no match for platform in manifest: not found")

    def platforms(self, text: str) -> tuple[str, list[str]]:
        """Return the shape (``index`` or ``manifest``) of what a reference names, and its platforms.

        Raises ``PullError``.
        """
        reference, platform = self._resolve(parse_reference(text))
        entry = self._find(reference)
        return ("manifest", [platform]) if platform else (entry.get("shape", "index"), list(entry["platforms"]))

    def offered(self, text: str) -> tuple[bool, list[Image]]:
        """Return whether a reference names an index, and the images of its platforms. Raises ``PullError``."""
        shape, offered = self.platforms(text)
        if shape != "index":
            return False, [self.pull(text, offered[0].split("/")[1])]
        reference, _ = self._resolve(parse_reference(text))
        entry = self._find(reference)
        return True, [self._image(reference, entry, each) for each in dict.fromkeys(offered)]

    def config(self, repository: str, digest: str) -> Obj | None:
        """Return the configuration of an image that was looked up, by its digest."""
        known = {tag for (name, _), (tag, _) in self._digests.items() if name == repository}
        found = (image for tag in known for image in self.offered(f"{repository}:{tag}")[1])
        return next((manifests.config(image) for image in found if image.id == digest), None)

    def tags(self, reference: Reference) -> list[str]:
        """Return the tags of a repository that have names of their own. Raises ``PullError``."""
        entries = self._of(reference.repository)
        if not entries:
            raise self._unknown(reference)
        patterns = {tag for entry in entries for tag in entry["tags"] if tag != BY_DIGEST}
        named = {tag.rstrip("*").rstrip(".-") for tag in patterns if "[" not in tag and not tag.startswith("*")}
        return sorted(named.union(*({*entry.get("versions", ()), *entry.get("known", ())} for entry in entries)))

    def _of(self, repository: str) -> list[Obj]:
        return [*self._entries.get(repository, ()), *_standard()["images"].get(repository, ())]

    def _resolve(self, reference: Reference) -> tuple[Reference, str]:
        """Return a reference with the tag that its digest belongs to, and the platform that it means alone."""
        if not reference.digest:
            return reference, ""
        key = reference.repository, reference.digest
        if key not in self._digests:
            for tag in [reference.tag] if reference.tag else self.tags(reference):
                self._look_up(Reference(reference.repository, tag))
        tag, platform = self._digests.get(key, (reference.tag, ""))
        if key not in self._digests and not any(BY_DIGEST in entry["tags"] for entry in self._of(key[0])):
            raise _not_found(reference)
        return replace(reference, tag=tag), platform

    def _look_up(self, reference: Reference) -> None:
        """Learn the digests of a tag, if there is such a tag."""
        try:
            entry = self._find(reference)
        except PullError:
            return
        self._image(reference, entry, entry["platforms"][0])

    def _find(self, reference: Reference) -> Obj:
        """Return the entry of a reference with what it has from the image that it is built on."""
        entries = self._of(reference.repository)
        if not entries:
            raise self._unknown(reference)
        wanted = reference.tag or reference.digest
        for entry in entries:
            if any(fnmatchcase(wanted, pattern) for pattern in entry["tags"]) and _is_out(wanted, entry):
                return self._built(entry)
        raise _not_found(reference)

    def _built(self, entry: Obj) -> Obj:
        if "from" not in entry:
            return entry
        reference = parse_reference(entry["from"])
        below = self._find(reference)
        kept = {name: value for name, value in below.items() if name not in NOT_INHERITED}
        if "entrypoint" in entry:
            kept.pop("cmd", None)
        merged = {**kept, **entry, "on": reference, "origin": below.get("origin", reference)}
        merged["platforms"] = entry.get("platforms") or below["platforms"]
        merged["release"] = entry.get("release") or _chosen(reference.tag, below.get("release", ""))
        merged["env"] = _variables(below, reference.tag) | entry.get("env", {})
        merged["files"] = below.get("files", {}) | entry.get("files", {})
        merged["extra"] = [*_folders(below), *_folders(entry)]
        return merged

    def _image(self, reference: Reference, entry: Obj, platform: str) -> Image:
        """Return the image of a platform, its digests those of the documents that its registry has."""
        if platform not in self._made.get(reference, ()):
            if len(self._digests) > MAX_KNOWN:
                self._digests.clear()
                self._made.clear()
            self._made[reference] = self._make(reference, entry, platform)
        return self._made[reference][platform]

    def _make(self, reference: Reference, entry: Obj, platform: str) -> dict[str, Image]:
        index = entry.get("shape") != "manifest"
        platforms = dict.fromkeys([*(entry["platforms"] if index else ()), platform])
        made = {each: self._make_one(reference, entry, each) for each in platforms}
        whole = manifests.digest(manifests.index(made.values())) if index else made[platform].manifest
        for each in made.values():
            self._digests[reference.repository, each.manifest] = reference.tag, each.platform if index else ""
        self._digests[reference.repository, whole] = reference.tag, ""
        return {name: replace(each, digest=reference.digest or whole) for name, each in made.items()}

    def _make_one(self, reference: Reference, entry: Obj, platform: str) -> Image:
        programs = {name: f"{folder}/{name}" for folder, names in _bases(entry) for name in names}
        for folder, names in _folders(entry):
            programs |= {name: f"{folder.rstrip('/')}/{name}" for name in names}
        bare = Image(
            reference=reference,
            platform=platform,
            size=0,
            programs=programs,
            entrypoint=tuple(entry.get("entrypoint", ())),
            cmd=tuple(entry.get("cmd", ())),
            before_options=tuple(entry.get("before_options", ())),
            behaviour=entry.get("behaviour", ""),
            base=entry.get("base", "none"),
            scripts=entry.get("scripts", False),
            release=_chosen(reference.tag, entry.get("release", "")),
            workdir=entry.get("workdir", "/"),
            env=_variables(entry, reference.tag),
            version=_short(entry, reference.tag),
            files=entry.get("files", {}),
            own=entry.get("own", {}),
            pull_s=entry.get("pullSeconds"),
            built_on=entry.get("origin"),
        )
        return _addressed(replace(bare, layers=self._layers(bare, entry)))

    def _layers(self, image: Image, entry: Obj) -> tuple[Layer, ...]:
        """Return the layers of an image: those that it is built on, and its own."""
        architecture = image.platform.split("/")[1]
        size = int(_chosen(image.reference.tag, entry.get("size") or 0))
        below: tuple[Layer, ...] = ()
        if "on" in entry:
            below = self._pull(entry["on"], architecture).layers
        elif (first := _standard()["distributions"].get(image.release, 0)) and first < size:
            below = (Layer.of(f"{image.release} {architecture}", first),)
        rest = max(size - sum(layer.size for layer in below), sum(map(len, image.files.values())))
        seed = f"{image.reference.repository} {image.version} {image.platform}"
        if image.files or image.own:  # other contents have other digests
            seed += json.dumps([image.files, image.own], sort_keys=True)
        own = manifests.split(seed, rest)
        about = len(manifests.encoded(manifests.config(replace(image, layers=below + own))))
        last = replace(own[-1], size=max(own[-1].size - about, MIN_LAYER))  # the size counts the configuration too
        return (*below, *own[:-1], last)

    def _unknown(self, reference: Reference) -> PullError:
        resolve = f'failed to resolve reference "{reference.full}": '
        if reference.registry in self._registries:
            return PullError(
                "Unknown",
                reference,
                resolve + "pull access denied, repository does not exist or may require authorization: "
                "server message: insufficient_scope: authorization failed",
            )
        host = reference.registry.split(":")[0]
        path = reference.repository.split("/", 1)[1]
        url = f"https://{reference.registry}/v2/{path}/manifests/{reference.digest or reference.tag}"
        cause = f'failed to do request: Head "{url}": dial tcp: lookup {host} on {NAMESERVER}: no such host'
        return PullError("Unknown", reference, resolve + cause)


def _not_found(reference: Reference) -> PullError:
    cause = f'failed to resolve reference "{reference.full}": {reference.full}: not found'
    return PullError("NotFound", reference, cause)


def _addressed(image: Image) -> Image:
    """Return an image with its size and the digests of its own documents."""
    config = manifests.encoded(manifests.config(image))
    found = replace(image, size=len(config) + sum(layer.size for layer in image.layers))
    found = replace(found, id=manifests.digest(manifests.config(found)))
    found = replace(found, manifest=manifests.digest(manifests.manifest(found)))
    return replace(found, digest=found.manifest)


def _is_out(tag: str, entry: Obj) -> bool:
    """Whether a version has been published: none beyond the entry's ``newest`` has."""
    newest = _version(entry.get("newest", ""))
    return not newest or _version(tag)[: len(newest)] <= newest


def _version(tag: str) -> tuple[int, ...]:
    found = _VERSION.match(tag)
    return tuple(int(part) for part in found[1].split(".")) if found else ()


def _short(entry: Obj, tag: str) -> str:
    """Return the whole version that a tag stands for, with its variant."""
    short, hyphen, variant = tag.partition("-")
    return f"{entry.get('versions', {}).get(short, short)}{hyphen}{variant}"


def _variables(entry: Obj, tag: str) -> dict[str, str]:
    version = _short(entry, tag).partition("-")[0]
    return {name: value.replace("{version}", version) for name, value in entry.get("env", {}).items()}


def _bases(entry: Obj) -> Iterable[tuple[str, list[str]]]:
    folders: dict[str, list[str]] = _standard()["bases"][entry.get("base", "none")]
    return folders.items()


def _folders(entry: Obj) -> list[tuple[str, list[str]]]:
    """Return the programs that an entry adds, by folder."""
    extra = entry.get("extra", {})
    return [*extra.items()] if isinstance(extra, dict) else extra


def _chosen(tag: str, known: Any) -> Any:
    """Return what an entry says of a tag: the same for all, or by the first pattern that matches."""
    if not isinstance(known, dict):
        return known
    return next((value for pattern, value in known.items() if fnmatchcase(tag, pattern)), "")


STANDARD = Catalogue()
"""The public registries alone."""
pull = STANDARD.pull


def present(gpus: int) -> list[str]:
    """Return the images that a node with so many GPUs has from the start where nobody says which."""
    known = _standard()["present"]
    return [*known["all"], *(known["gpus"] if gpus else ())]
