"""Programs that compare or judge: diff, file, ldd."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from kubesim.gpu.preload import preloaded
from kubesim.shell.errors import FileError
from kubesim.shell.files import Device, Directory, File, Link
from kubesim.shell.machine import Process, Tool
from kubesim.shell.tools import kit
from kubesim.shell.tools.ls import when

MOST_LINES = 3000


async def diff(process: Process) -> int:
    """Show how two files or trees differ."""
    opts = await kit.options(process)
    if len(opts.args) != 2:
        await kit.usage(
            process,
            f"missing operand after '{(opts.args or ['diff'])[-1]}'"
            if len(opts.args) < 2
            else f"extra operand '{opts.args[2]}'",
        )
    old, new = opts.args
    return await _pair(process, old, new, opts, 0)


async def _pair(process: Process, old: str, new: str, opts: kit.Options, depth: int) -> int:
    first, second = (None if name == "-" else process.view.find(name) for name in (old, new))
    if isinstance(first, Directory) and isinstance(second, Directory):
        return await _trees(process, old, new, opts, depth)
    if isinstance(first, Directory):
        old = f"{old.rstrip('/')}/{new.rsplit('/', 1)[-1]}"
    elif isinstance(second, Directory):
        new = f"{new.rstrip('/')}/{old.rsplit('/', 1)[-1]}"
    texts = []
    for name in (old, new):
        try:
            handle = process.fds[0] if name == "-" else process.open(name)
            texts.append(kit.text(await kit.everything(process, handle)))
        except FileError as error:
            return await process.fail(f"{name}: {error.text}", 2)
    return await _differ(process, (old, new), texts, opts, depth)


async def _trees(process: Process, old: str, new: str, opts: kit.Options, depth: int) -> int:
    status = 0
    left, right = process.view.directory(old).names(), process.view.directory(new).names()
    for name in sorted({*left, *right}):
        await process.tick()
        paths = (f"{old.rstrip('/')}/{name}", f"{new.rstrip('/')}/{name}")
        if name not in left or name not in right:
            await process.write(f"Only in {old if name in left else new}: {name}\n")
            status = 1
        elif "r" in opts and depth < 32 or not isinstance(process.view.find(paths[0]), Directory):
            status = await _pair(process, *paths, opts, depth + 1) or status
    return status


async def _differ(process: Process, names: tuple[str, str], texts: list[str], opts: kit.Options, depth: int) -> int:
    if texts[0] == texts[1]:
        return 0
    if "q" in opts:
        await process.write(f"Files {names[0]} and {names[1]} differ\n")
        return 1
    if depth:
        switches = [word for word in process.argv[1:] if word.startswith("-") and len(word) > 1]
        await process.write(" ".join(["diff", *switches, *names]) + "\n")
    old, new = ([_ended(line) for line in text.splitlines(keepends=True)] for text in texts)
    if max(len(old), len(new)) > MOST_LINES:
        return await process.fail("memory exhausted", 2)
    if opts.any("uU"):
        nodes = [process.view.find(name) if name != "-" else None for name in names]
        times = [when(process, node.mtime if node else process.machine.now(), full=True) for node in nodes]
        context = int(opts.get("U", "3")) if opts.get("U", "3").isdecimal() else 3
        shown = difflib.unified_diff(old, new, *names, times[0], times[1], context)
    else:
        shown = _plain(old, new)
    for line in shown:
        await process.write(line)
    return 1


def _ended(line: str) -> str:
    return line if line.endswith("\n") else line + "\n\\ No newline at end of file\n"


def _plain(old: list[str], new: list[str]) -> Iterator[str]:
    for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, old, new).get_opcodes():
        if tag == "equal":
            continue
        left = f"{i1 + 1},{i2}" if i2 - i1 > 1 else str(i2 if tag != "insert" else i1)
        right = f"{j1 + 1},{j2}" if j2 - j1 > 1 else str(j2 if tag != "delete" else j1)
        yield f"{left}{ {'insert': 'a', 'delete': 'd'}.get(tag, 'c') }{right}\n"
        yield from (f"< {line}" for line in old[i1:i2])
        yield "---\n" * (tag == "replace")
        yield from (f"> {line}" for line in new[j1:j2])


async def file(process: Process) -> int:
    """Say what files are."""
    opts = await kit.options(process)
    for name in opts.args:
        node = process.view.find(name, follow="L" in opts)
        if isinstance(node, Directory):
            kind = "directory"
        elif isinstance(node, Link):
            kind = f"symbolic link to {node.target}"
        elif isinstance(node, Device):
            kind = f"character special ({node.major}/{node.minor})"
        elif isinstance(node, File):
            kind = _content(bytes(node.content()[:4096]), node)
        else:
            kind = f"cannot open `{name}' (No such file or directory)"
        await process.write((kind if "b" in opts else f"{name}: {kind}") + "\n")
    return 0


def _content(head: bytes, node: File) -> str:
    if not head:
        return "empty"
    if head.startswith(b"\x7fELF"):
        machine = "ARM aarch64" if node.platform == "arm64" else "x86-64"
        start = f"ELF 64-bit LSB pie executable, {machine}, version 1 (SYSV), dynamically linked"
        return f"{start}, interpreter /lib64/ld-linux-x86-64.so.2, stripped"
    if head.startswith(b"\x1f\x8b"):
        return "gzip compressed data, max compression"
    if head.startswith(b"#!"):
        shell = head[2:].split(b"\n")[0].decode("utf-8", "replace").strip()
        known = {"/bin/sh": "POSIX shell script", "/bin/bash": "Bourne-Again shell script"}
        return f"{known.get(shell, f'a {shell} script')}, ASCII text executable"
    if head[:1] in (b"{", b"[") and head.rstrip()[-1:] in (b"}", b"]"):
        return "JSON text data"
    if b"\0" in head:
        return "data"
    return "ASCII text" if head.isascii() else "Unicode text, UTF-8 text"


async def ldd(process: Process) -> int:
    """Show the libraries that a program needs."""
    for name in process.argv[1:]:
        node = process.view.find(name)
        if node is None:
            return await process.fail(f"{name}: No such file or directory")
        if not isinstance(node, File) or not node.program:
            await process.write("\tnot a dynamic executable\n")
            return 1
        first, newline, others = kit.told("ldd").partition("\n")
        loaded, _ = preloaded(process.env, process.view.content)
        shown = [f"\t{path} (0x00007f1d8a3e1000)\n" for path in loaded]
        await process.write("".join([first, newline, *shown, others]))
    return 0


TOOLS: dict[str, Tool] = {"diff": diff, "file": file, "ldd": ldd}
