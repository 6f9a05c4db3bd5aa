"""crane: what the registries say of images, in their manifests and configurations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kubesim.kubelet import images, manifests
from kubesim.kubelet.images import Catalogue, Image, PullError, Reference
from kubesim.shell.errors import REASONS, NetworkError
from kubesim.shell.machine import Process, Tool
from kubesim.shell.sockets import network, resolve
from kubesim.shell.tools import kit

PORT = 443
LOST_S = 30.0
CRANE_HUB = "index.docker.io"


@dataclass(frozen=True, slots=True)
class Found:
    """An image at its registry: an index of one image for each platform, or one image alone."""

    reference: Reference
    index: bool
    images: tuple[Image, ...]

    def of(self, platform: str) -> Image | None:
        """Return the image for a platform (os/architecture[/variant])."""
        wanted = platform.split("/")
        return next((each for each in self.images if each.platform.split("/")[: len(wanted)] == wanted), None)

    @property
    def digest(self) -> str:
        """The digest of what the tag names."""
        return self.images[0].digest

    def document(self) -> dict[str, Any]:
        """Return the index, or the only manifest."""
        return manifests.index(self.images) if self.index else manifests.manifest(self.images[0])


class Unreachable(Exception):
    """A registry that cannot be reached, in Go's words."""


def _catalogue(process: Process) -> Catalogue:
    """Return what the registries have that a process reaches."""
    return process.machine.catalogue or images.STANDARD


async def look_up(process: Process, text: str) -> Found:
    """Ask a registry for an image. Raises ``PullError`` for one that it does not have, and ``Unreachable``."""
    reference = images.parse_reference(text)
    await _reach(process, text, reference)
    index, found = _catalogue(process).offered(text)
    return Found(reference, index=index, images=tuple(found))


async def _reach(process: Process, text: str, reference: Reference) -> None:
    if reference.registry in _catalogue(process).own_registries:
        return
    host = images.endpoint(text)
    shown = CRANE_HUB if reference.registry == "docker.io" else reference.registry
    url = f'Get "https://{shown}/v2/": dial tcp'
    address = ""
    try:
        address = (await resolve(process, host))[0]
        await network(process).connect(address, PORT)
    except NetworkError as error:
        if error.kind in ("nxdomain", "again"):
            why = "no such host" if error.kind == "nxdomain" else "i/o timeout"
            raise Unreachable(f"{url}: lookup {shown.partition(':')[0]} on 10.96.0.10:53: {why}") from error
        if error.kind == "timeout":
            await process.sleep(LOST_S)
        why = REASONS.get(error.kind, REASONS["unreachable"])
        raise Unreachable(f"{url} {address}:{PORT}: {why}") from error


def _crane_name(reference: Reference) -> str:
    name = reference.repository.replace("docker.io/", f"{CRANE_HUB}/", 1)
    return f"{name}@{reference.digest}" if reference.digest else f"{name}:{reference.tag}"


def _crane_error(error: PullError, reference: Reference) -> str:
    host, path = _crane_name(reference).split("/", 1)
    path = path.partition("@")[0].rpartition(":")[0] or path.partition("@")[0]
    wanted = reference.digest or reference.tag
    text = str(error)
    if "no such host" in text:
        return f'Get "https://{host}/v2/": dial tcp: lookup {host.partition(":")[0]} on 10.96.0.10:53: no such host'
    if "insufficient_scope" in text:
        return (
            f"GET https://{host}/v2/{path}/manifests/{wanted}: UNAUTHORIZED: authentication required; "
            f"[map[Action:pull Class: Name:{path} Type:repository]]"
        )
    return (
        f"GET https://{host}/v2/{path}/manifests/{wanted}: MANIFEST_UNKNOWN: manifest unknown; unknown tag={wanted}"
    )


async def crane(process: Process) -> int:
    """Ask registries as crane does."""
    opts = await kit.options(process)
    if not opts.args:
        await process.write(kit.told("registries_crane_help"))
        return 0
    verb, names = opts.args[0], opts.args[1:]
    if verb == "version":
        await process.write("0.20.6\n")
        return 0
    known: dict[str, Callable[[Found, str], str]] = {"digest": _digest, "manifest": _manifest, "config": _config}
    if verb not in (*known, "ls"):
        await process.error(f'Error: unknown command "{verb}" for "crane"\nRun \'crane --help\' for usage.\n')
        return 1
    if len(names) != 1:
        await process.error(f"Error: accepts 1 arg(s), received {len(names)}\n")
        return 1
    if verb == "ls":
        return await _list(process, names[0])
    doing = {
        "digest": "computing digest",
        "manifest": f"fetching manifest {names[0]}",
        "config": f"fetching config {names[0]}",
    }
    reference = images.parse_reference(names[0])
    try:
        found = await look_up(process, names[0])
        await process.write(known[verb](found, opts.get("p")))
        return 0
    except PullError as error:
        text = _crane_error(error, reference)
    except (Unreachable, LookupError) as error:
        text = str(error.args[0])
    await process.error(f"Error: {doing[verb]}: {text}\n" if verb != "digest" else f"Error: {text}\n")
    return 1


def _chosen(found: Found, platform: str, *, default: str = "") -> Image | None:
    """Return the image of a platform, None for all of them. Raises LookupError where an index has none."""
    wanted = (platform if platform not in ("", "all") else default) if found.index else ""
    if not wanted:
        return None if found.index else found.images[0]
    image = found.of(wanted)
    if image is None:
        raise LookupError(f"no child with platform {wanted} in index {_crane_name(found.reference)}")
    return image


def _digest(found: Found, platform: str) -> str:
    image = _chosen(found, platform)
    if image is None:
        return found.digest + "\n"
    return image.manifest + "\n"


def _manifest(found: Found, platform: str) -> str:
    image = _chosen(found, platform)
    return manifests.encoded(found.document() if image is None else manifests.manifest(image)).decode()


def _config(found: Found, platform: str) -> str:
    image = _chosen(found, platform, default="linux/amd64") or found.images[0]
    return manifests.encoded(manifests.config(image)).decode()


async def _list(process: Process, text: str) -> int:
    reference = images.parse_reference(text)
    try:
        await _reach(process, text, reference)
        tags = _catalogue(process).tags(reference)
    except Unreachable as error:
        await process.error(f"Error: reading tags for {reference.repository}: {error.args[0]}\n")
        return 1
    except PullError as error:
        url = _crane_error(error, reference).replace("/manifests/" + reference.tag, "/tags/list?n=1000")
        await process.error(f"Error: reading tags for {reference.repository}: {url}\n")
        return 1
    await process.write("".join(f"{tag}\n" for tag in tags))
    return 0


TOOLS: dict[str, Tool] = {"crane": crane}
