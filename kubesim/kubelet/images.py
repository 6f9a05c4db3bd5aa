"""Images: what a reference means, which platforms it offers, and what a pull on a node answers."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from kubesim import data
from kubesim.imagenames import DEFAULT_REGISTRY

STAND_IN_BYTES = 40_000_000
DOCKER_HUB = "registry-1.docker.io"
REGISTRY_PORT = 443
NAMESERVER = "169.254.169.254:53"
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
    def registry(self) -> str:
        """The host that serves it."""
        return self.repository.split("/", 1)[0]


@dataclass(frozen=True, slots=True)
class Image:
    """What a node has after a pull."""

    reference: Reference
    platform: str
    size: int
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
    stands_in: bool = False
    """Whether nothing is known of it: its programs only seem to run."""

    @property
    def image_id(self) -> str:
        """The content address, as containerStatuses show it."""
        return f"{self.reference.repository}@{self._digest('manifest')}"

    @property
    def names(self) -> list[str]:
        """The names under which a node's status lists it."""
        return [self.image_id, self.reference.full]

    def _digest(self, part: str) -> str:
        if self.reference.digest:
            return self.reference.digest
        return "sha256:" + hashlib.sha256(f"{self.reference.full} {self.platform} {part}".encode()).hexdigest()


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


@lru_cache(maxsize=1024)
def pull(text: str, architecture: str) -> Image:
    """Return what a node of ``architecture`` gets for an image reference, or raise ``PullError``."""
    reference = parse_reference(text)
    entry = _find(reference)
    offered: list[str] = entry["platforms"]
    if entry.get("shape") == "manifest":
        return _image(reference, entry, offered[0])
    for platform in offered:
        if platform.split("/")[1] == architecture:
            return _image(reference, entry, platform)
    raise PullError("NotFound", reference, "no match for platform in manifest: not found")


def known(text: str) -> bool:
    """Whether the simulated registries have the repository of an image."""
    return parse_reference(text).repository in _catalogue()["images"]


def stand_in(text: str, architecture: str) -> Image:
    """Return an image of which nothing is known but that it is there."""
    return Image(parse_reference(text), f"linux/{architecture}", STAND_IN_BYTES, {}, ("/agent",), stands_in=True)


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


def platforms(text: str) -> tuple[str, list[str]]:
    """Return the shape (``index`` or ``manifest``) of an image and its platforms; raises ``PullError``."""
    entry = _find(parse_reference(text))
    return entry.get("shape", "index"), list(entry["platforms"])


def tags(reference: Reference) -> list[str]:
    """Return the tags of a repository that have names of their own; raises ``PullError``."""
    catalogue = _catalogue()
    if reference.repository not in catalogue["images"]:
        raise _unknown(reference, catalogue["registries"])
    named = [tag for entry in catalogue["images"][reference.repository] for tag in entry["tags"]]
    return sorted({tag.rstrip("*").rstrip(".-") for tag in named if not tag.startswith(("sha256", "*"))})


def _find(reference: Reference) -> dict[str, Any]:
    catalogue = _catalogue()
    entries: list[dict[str, Any]] | None = catalogue["images"].get(reference.repository)
    if entries is None:
        raise _unknown(reference, catalogue["registries"])
    wanted = reference.digest or reference.tag
    for entry in entries:
        if any(fnmatchcase(wanted, pattern) for pattern in entry["tags"]) and _is_out(wanted, entry):
            return entry
    cause = f'failed to resolve reference "{reference.full}": {reference.full}: not found'
    raise PullError("NotFound", reference, cause)


def _is_out(tag: str, entry: dict[str, Any]) -> bool:
    """Whether a version has been published: none beyond the entry's ``newest`` has."""
    newest = _version(entry.get("newest", ""))
    return not newest or _version(tag)[: len(newest)] <= newest


def _version(tag: str) -> tuple[int, ...]:
    found = _VERSION.match(tag)
    return tuple(int(part) for part in found[1].split(".")) if found else ()


def _unknown(reference: Reference, registries: list[str]) -> PullError:
    resolve = f'failed to resolve reference "{reference.full}": '
    if reference.registry in registries:
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


def _image(reference: Reference, entry: dict[str, Any], platform: str) -> Image:
    folders = {**_catalogue()["bases"][entry.get("base", "none")]}
    programs = {name: f"{folder}/{name}" for folder, names in folders.items() for name in names}
    for folder, names in entry.get("extra", {}).items():
        programs |= {name: f"{folder.rstrip('/')}/{name}" for name in names}
    short = reference.tag.partition("-")[0]
    version = entry.get("versions", {}).get(short, short)
    return Image(
        reference=reference,
        platform=platform,
        size=entry["size"],
        programs=programs,
        entrypoint=tuple(entry.get("entrypoint", ())),
        cmd=tuple(entry.get("cmd", ())),
        before_options=tuple(entry.get("before_options", ())),
        behaviour=entry.get("behaviour", ""),
        base=entry.get("base", "none"),
        scripts=entry.get("scripts", False),
        release=_release(reference.tag, entry.get("release", "")),
        workdir=entry.get("workdir", "/"),
        env={name: value.format(version=version) for name, value in entry.get("env", {}).items()},
    )


def _release(tag: str, known: str | dict[str, str]) -> str:
    """Return the release that a tag is built on: the same for all, or by the first pattern that matches."""
    if isinstance(known, str):
        return known
    return next((name for pattern, name in known.items() if fnmatchcase(tag, pattern)), "")


@cache
def _catalogue() -> dict[str, Any]:
    return dict(data.read(Path(__file__).with_name("images.yaml")))
