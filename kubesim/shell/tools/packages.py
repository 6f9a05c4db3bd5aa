"""apt and nvcc: tools of images that people build in, on a machine where nothing can be installed or compiled."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from kubesim import data
from kubesim.shell.errors import FileError, NetworkError
from kubesim.shell.machine import Process, Tool
from kubesim.shell.sockets import resolve
from kubesim.shell.tools import kit
from kubesim.shell.tools.web import request

_table: data.Reader[dict[str, Any]] = data.beside(__file__, "packages.yaml")
READING = "Reading package lists... Done\n"
BUILDING = "Building dependency tree... Done\nReading state information... Done\n"
NOTHING = "0 upgraded, 0 newly installed, 0 to remove and 0 not upgraded.\n"
OPTION = re.compile(
    r"-[yqVdsfmuba]+|-o.*|--(yes|quiet|no-install-recommends|fix-missing|fix-broken|installed|upgradable|simulate"
    r"|reinstall|allow-.*|assume-yes|only-upgrade|purge|download-only)"
)
CONNECT_S = 30.0
AGENT = "Debian APT-HTTP/1.3 (2.6.1)"


async def apt(process: Process) -> int:
    """Run a command of apt: the lists of an image are empty, and an archive has to be asked for them."""
    words = [word for word in process.argv[1:] if not word.startswith("-")]
    odd = next((word for word in process.argv[1:] if word.startswith("-") and not OPTION.fullmatch(word)), None)
    if odd is not None:
        await process.error(f"E: Command line option {odd} is not understood in combination with the other options\n")
        return 100
    if not words:
        await process.write("apt 2.6.1 (amd64)\nUsage: apt [options] command\n")
        return 0
    name, *wanted = words
    if name in ("update", "install", "remove", "purge", "upgrade", "dist-upgrade") and process.view.uid:
        path, aim = ("/var/lib/apt/lists/lock", "lock directory /var/lib/apt/lists/")
        if name != "update":
            path, aim = "/var/lib/dpkg/lock-frontend", "acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend)"
        await process.error(kit.told("packages_locked", path=path, aim=aim))
        return 100
    if name == "update":
        return await _update(process)
    if name in ("upgrade", "dist-upgrade", "clean", "autoremove", "autoclean") or name == "install" and not wanted:
        await process.write("" if "clean" in name else READING + BUILDING + NOTHING)
        return 0
    if name in ("install", "remove", "purge", "show", "policy", "download"):
        await process.write(READING + BUILDING)
        await process.error("".join(f"E: Unable to locate package {each}\n" for each in wanted))
        return 100
    if name in ("list", "search"):
        await process.write("Listing... Done\n" if name == "list" else "Sorting... Done\nFull Text Search... Done\n")
        return 0
    await process.error(f"E: Invalid operation {name}\n")
    return 100


def _suites(process: Process) -> Iterator[tuple[str, str]]:
    """Yield the archive and suite of each list, as the image's distribution has them in sources.list."""
    try:
        text = bytes(process.view.read("/etc/os-release")).decode()
    except FileError:
        text = ""
    release = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    code = release.get("VERSION_CODENAME") or release.get("UBUNTU_CODENAME", "bookworm")
    for archive, suites in _table()["sources"]["ubuntu" if release.get("ID") == "ubuntu" else "debian"]:
        for suite in suites:
            yield archive, code + suite


async def _update(process: Process) -> int:
    failed = []
    for at, (archive, suite) in enumerate(_suites(process), 1):
        reason = await _ask(process, f"{archive}/dists/{suite}/InRelease")
        await process.write(f"Err:{at} {archive} {suite} InRelease\n  {reason}\n")
        failed.append(f"W: Failed to fetch {archive}/dists/{suite}/InRelease  {reason}\n")
    await process.write(READING)
    await process.error(
        "".join(failed)
        + "W: Some index files failed to download. They have been ignored, or old ones used instead.\n"
    )
    return 0


async def _ask(process: Process, url: str) -> str:
    """Return apt's words for an archive's answer, or for its silence."""
    host, address = urlsplit(url).hostname or "", ""
    try:
        address = (await resolve(process, host))[0]
        code, _, _ = await request(process, "GET", url, {"User-Agent": AGENT}, b"", CONNECT_S, address)
    except NetworkError as error:
        if not address:
            return f"Temporary failure resolving '{host}'" if error.kind == "again" else f"Could not resolve '{host}'"
        ends = "connection timed out" if error.kind == "timeout" else "Connection refused"
        return f"Could not connect to {host}:80 ({address}), {ends}"
    return f"{code}  Not Found [IP: {address} 80]"


async def nvcc(process: Process) -> int:
    """Tell the version of the CUDA compiler; there is nothing that it could compile for."""
    words = process.argv[1:]
    if {"--version", "-V"} & {*words}:
        cuda = process.machine.env.get("CUDA_VERSION") or process.machine.libraries.get("cuda", "12.8")
        release = ".".join(cuda.split(".")[:2])
        known = _table()["compilers"]
        year, built, version, build = known.get(release, (25, known["12.8"][1], f"{release}.61", 35404655))
        told = kit.told("packages_nvcc", year=year, built=built, release=release, version=version, build=build)
        await process.write(told)
        return 0
    files = [word for word in words if not word.startswith("-")]
    missing = next((name for name in files if process.view.find(name) is None), None)
    text = "No input files specified; use option --help for more information"
    if missing:
        text = f"Don't know what to do with '{missing}'"
    elif files:
        await process.error("gcc: No such file or directory\n")
        text = "Failed to preprocess host compiler properties."
    await process.error(f"nvcc fatal   : {text}\n")
    return 1


TOOLS: dict[str, Tool] = {"apt": apt, "apt-get": apt, "nvcc": nvcc}
