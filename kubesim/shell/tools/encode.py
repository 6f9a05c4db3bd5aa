"""Programs about bytes: base64, checksums, gzip, tar."""

from __future__ import annotations

import base64 as base64_codec
import binascii
import hashlib
import io
import re
import tarfile
import zlib
from contextlib import suppress
from datetime import UTC, datetime

from kubesim.shell.errors import FileError, Leave
from kubesim.shell.files import Directory, File, Link, Node
from kubesim.shell.handles import Handle
from kubesim.shell.machine import Process
from kubesim.shell.tools import kit, ls
from kubesim.shell.tools.users import name_of

MOST_UNPACKED = 32 << 20
PIECE = 64 << 10


async def _input(process: Process, args: list[str]) -> bytes:
    handle = await kit.opened(process, args[0] if args else "-")
    if handle is None:
        raise Leave(1)
    return await kit.everything(process, handle)


async def base64(process: Process) -> int:
    """Encode or decode base 64."""
    opts = await kit.options(process)
    if not opts.get("w", "0").isdecimal():
        return await process.fail(f"invalid wrap size: '{opts.get('w')}'")
    data = await _input(process, opts.args)
    if opts.any("dD"):
        text = b"".join(data.split())
        try:
            await process.write(base64_codec.b64decode(text, validate="i" not in opts))
        except (binascii.Error, ValueError):
            good = text[: len(text) // 4 * 4]
            with suppress(binascii.Error, ValueError):
                await process.write(base64_codec.b64decode(good, validate=True))
            return await process.fail("invalid input")
        return 0
    text = base64_codec.b64encode(data)
    wide = int(opts.get("w", "76")) if opts.get("w", "76").isdecimal() else 76
    if wide == 0:
        await process.write(text)
        return 0
    for at in range(0, len(text), wide):
        await process.write(text[at : at + wide] + b"\n")
    return 0


async def checksum(process: Process) -> int:
    """Print digests; the program's name says which."""
    opts = await kit.options(process)
    async for name, handle in kit.inputs(process, opts):
        await process.write(f"{await _digest(process, process.name.removesuffix('sum'), handle)}  {name}\n")
    return opts.status


async def _digest(process: Process, kind: str, handle: Handle) -> str:
    hashed = hashlib.new(kind, usedforsecurity=False)
    while data := await handle.read_for(process, PIECE):
        hashed.update(data)
        await process.tick(8)
    return hashed.hexdigest()


# compression


async def gzip(process: Process) -> int:
    """Compress or decompress files; the program's name says which."""
    opts = await kit.options(process)
    undo = process.name in ("gunzip", "zcat") or "d" in opts
    names = opts.args or ["-"]
    status = 0
    for name in names:
        if undo and name != "-" and process.view.find(name) is None and process.view.find(name + ".gz"):
            name += ".gz"
        handle = await kit.opened(process, name)
        if handle is None:
            status = 1
            continue
        data = await kit.everything(process, handle)
        out = await _unzipped(process, name, data) if undo else await _zipped(process, data)
        if out is None:
            status = 1
        elif name == "-" or "c" in opts or process.name == "zcat":
            await process.write(out)
        else:
            status = await _replace(process, name, out, undo=undo, keep="k" in opts) or status
    return status


async def _unzipped(process: Process, name: str, data: bytes) -> bytes | None:
    unpacker = zlib.decompressobj(wbits=31)
    out = bytearray()
    try:
        while data and not unpacker.eof and len(out) < MOST_UNPACKED:
            out += unpacker.decompress(data, 4 * PIECE)
            data = unpacker.unconsumed_tail
            await process.tick(32)
    except zlib.error:
        shown = name if name != "-" else "stdin"
        await process.fail(f"{shown}: not in gzip format")
        return None
    if not unpacker.eof:
        await process.fail(f"{name}: unexpected end of file")
        return None
    return bytes(out)


async def _zipped(process: Process, data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=31)
    out = bytearray()
    for at in range(0, len(data), PIECE):
        out += packer.compress(data[at : at + PIECE])
        await process.tick(32)
    return bytes(out + packer.flush())


async def _replace(process: Process, name: str, out: bytes, *, undo: bool, keep: bool) -> int:
    if undo and not name.endswith((".gz", ".tgz")):
        return await process.fail(f"{name}: unknown suffix -- ignored")
    new = re.sub(r"\.gz$", "", re.sub(r"\.tgz$", ".tar", name)) if undo else name + ".gz"
    try:
        process.view.write(new, out)
        if not keep:
            process.view.remove(name)
    except FileError as error:
        return await process.fail(f"{new}: {error.text}")
    return 0


# tar


async def tar(process: Process) -> int:
    """Make, list and unpack archives."""
    argv = list(process.argv[1:])
    if argv and not argv[0].startswith("-"):
        argv[0] = "-" + argv[0]
    opts = await kit.options(process, argv=argv)
    if not opts.any("cxt"):
        await process.fail("You must specify one of the '-Acdtrux', '--delete' or '--test-label' options")
        await process.error("Try 'tar --help' or 'tar --usage' for more information.\n")
        return 2
    try:
        if "c" in opts:
            return await _create(process, opts)
        return await _unpack(process, opts)
    except FileError as error:
        return await _fatal(process, f"{error.path}: Cannot open: {error.text}")


async def _fatal(process: Process, text: str) -> int:
    await process.fail(text)
    await process.fail("Error is not recoverable: exiting now")
    return 2


async def _create(process: Process, opts: kit.Options) -> int:
    view = process.view
    out = process.fds[1] if opts.get("f", "-") == "-" else process.open(opts.get("f"), "w")
    start = view.cwd
    if "C" in opts:
        view.cwd = view.place(opts.get("C")).path
    status = 0
    whole = bytearray()
    for name in opts.args:
        if view.find(name, follow=False) is None:
            status = 2
            await process.fail(f"{name}: Cannot stat: No such file or directory")
            continue
        if name.startswith("/") and "P" not in opts:
            await process.fail("Removing leading `/' from member names")
        for path, node in view.tree(name):
            await process.tick()
            header = _header(process, path, node)
            data = bytes(node.content()) if isinstance(node, File) else b""
            whole += header.tobuf(tarfile.GNU_FORMAT) + data + bytes(-len(data) % 512)
            if "v" in opts:
                await process.error(header.name + "/" * isinstance(node, Directory) + "\n")
            if len(whole) > kit.MOST_DATA:
                return await _fatal(process, "memory exhausted")
    whole += bytes(1024)
    whole += bytes(-len(whole) % 10240)
    view.cwd = start
    if status:
        await process.fail("Exiting with failure status due to previous errors")
    await out.write(await _zipped(process, bytes(whole)) if "z" in opts else bytes(whole))
    return status


def _header(process: Process, path: str, node: Node) -> tarfile.TarInfo:
    header = tarfile.TarInfo(path.lstrip("/") or "./")
    header.mode, header.mtime = node.mode, int(node.mtime)
    header.uid, header.gid = node.uid, node.gid
    header.uname, header.gname = name_of(process.view, node.uid), name_of(process.view, node.gid, "/etc/group")
    if isinstance(node, Directory):
        header.type = tarfile.DIRTYPE
    elif isinstance(node, Link):
        header.type, header.linkname = tarfile.SYMTYPE, node.target
    elif isinstance(node, File):
        header.size = len(node.content())
    return header


async def _unpack(process: Process, opts: kit.Options) -> int:
    source = process.fds[0] if opts.get("f", "-") == "-" else process.open(opts.get("f"))
    data = await kit.everything(process, source)
    if data[:2] == b"\x1f\x8b":
        unpacked = await _unzipped(process, opts.get("f", "-"), data)
        if unpacked is None:
            return await _fatal(process, "Child returned status 1")
        data = unpacked
    try:
        archive = tarfile.open(fileobj=io.BytesIO(data), mode="r:")  # noqa: SIM115
        for member in archive:
            await process.tick()
            if opts.args and not any(
                member.name == name or member.name.startswith(name.rstrip("/") + "/") for name in opts.args
            ):
                continue
            await _member(process, opts, archive, member)
    except (tarfile.TarError, EOFError, ValueError, zlib.error):
        await process.fail("This does not look like a tar archive")
        await process.fail("Exiting with failure status due to previous errors")
        return 2
    return 0


async def _member(process: Process, opts: kit.Options, archive: tarfile.TarFile, member: tarfile.TarInfo) -> None:
    name = member.name.lstrip("/")
    shown = name + "/" * member.isdir()
    if "t" in opts:
        if "v" in opts:
            at = datetime.fromtimestamp(member.mtime, UTC)
            mode = ls.mode(Directory(mode=member.mode) if member.isdir() else File(mode=member.mode))
            owner = f"{member.uname or member.uid}/{member.gname or member.gid}"
            shown = f"{mode} {owner} {member.size:9d} {at:%Y-%m-%d %H:%M} {shown}"
        await process.write(shown + "\n")
        return
    if "v" in opts:
        await process.write(shown + "\n")
    parts = name.rstrip("/").split("/")[int(opts.get("strip", "0")) :]
    if not parts or ".." in parts:
        return
    path = "/".join(filter(None, [opts.get("C").rstrip("/") or ("/" if opts.get("C") else ""), *parts])).replace(
        "//", "/"
    )
    file = archive.extractfile(member) if member.isreg() else None
    _store(process, path, member, file.read() if file else b"")


def _store(process: Process, path: str, member: tarfile.TarInfo, data: bytes) -> None:
    view = process.view
    made = "/" if path.startswith("/") else ""
    parts = [part for part in path.split("/") if part]
    for part in parts if member.isdir() else parts[:-1]:
        made = f"{made.rstrip('/')}/{part}" if made else part
        if view.find(made) is None:
            view.mkdir(made)
    if member.issym():
        if view.find(path, follow=False):
            view.remove(path)
        view.add(path, Link(target=member.linkname))
    elif member.isreg():
        view.write(path, data)
    node = view.find(path, follow=False)
    if node is not None and not isinstance(node, Link):
        node.mode, node.mtime = member.mode & 0o7777, float(member.mtime)


TOOLS = kit.named(base64, gzip, tar) | {
    "md5sum": checksum,
    "sha1sum": checksum,
    "sha256sum": checksum,
    "sha512sum": checksum,
    "gunzip": gzip,
    "zcat": gzip,
}
