"""xargs, and how a program runs another to its end."""

from __future__ import annotations

import re

from kubesim.shell.errors import FileError, Leave, StartError
from kubesim.shell.handles import Bytes
from kubesim.shell.machine import Process, Tool
from kubesim.shell.tools import kit

MOST_ARGUMENTS = 5000


async def run(process: Process, argv: list[str], stdin: bytes | None = None) -> int:
    """Run a program in front and return its status, 127 after a message where there is none."""
    await process.flush()
    try:
        fds = dict(process.fds)
        if stdin is not None:
            fds[0] = Bytes(stdin)
        return await process.run(argv, fds=fds).wait()
    except StartError as error:
        form = f"'{argv[0]}': {error.text}"
        return await process.fail(form if process.name == "find" else f"{argv[0]}: {error.text}", error.code)
    except FileError as error:
        return await process.fail(f"cannot fork: {error.text}", 1)


# xargs


async def xargs(process: Process) -> int:
    """Run programs with words of standard input as arguments."""
    opts = await kit.options(process)
    text = kit.text(await kit.everything(process, process.fds[0]))
    replace = opts.get("I")
    words = await _xargs_words(process, text, opts, lines=bool(replace))
    command = opts.args or ["echo"]
    status = 0
    for group in _groups(words, opts, replace):
        argv = [word.replace(replace, group[0]) for word in command] if replace else [*command, *group]
        if "t" in opts:
            await process.error(" ".join(argv) + "\n")
        code = await run(process, argv, b"")
        if code in (126, 127):
            return code
        if code == 255:
            await process.fail(f"{command[0]}: exited with status 255; aborting")
            return 124
        status = 123 if code else status
    return status


def _groups(words: list[str], opts: kit.Options, replace: str) -> list[list[str]]:
    size = 1 if replace else int(opts.get("n") or MOST_ARGUMENTS)
    if not words:
        return [] if "r" in opts or replace else [[]]
    size = max(size, 1)
    return [words[at : at + size] for at in range(0, len(words), size)]


async def _xargs_words(process: Process, text: str, opts: kit.Options, *, lines: bool) -> list[str]:
    if "0" in opts:
        return text.split("\0")[:-1] if text.endswith("\0") else [piece for piece in text.split("\0") if piece]
    if "d" in opts:
        delimiter = opts.get("d").replace("\\n", "\n").replace("\\t", "\t") or "\n"
        return text.removesuffix(delimiter).split(delimiter) if text else []
    if lines:
        found = [line.strip() for line in text.splitlines() if line.strip()]
        return [re.sub(r"(['\"])(.*?)\1", r"\2", line) for line in found]
    words, at = [], 0
    pattern = re.compile(r"""(?:[^\s"'\\]|\\[\s\S]|"[^"\n]*"|'[^'\n]*')+""")
    while match := pattern.search(text, at):
        if "'" in text[at : match.start()] or '"' in text[at : match.start()]:
            break
        words.append(
            re.sub(r"""\\([\s\S])|"([^"\n]*)"|'([^'\n]*)'""", lambda m: m[1] or m[2] or m[3] or "", match[0])
        )
        at = match.end()
        await process.tick()
    left = text[at:].strip()
    if left[:1] in ("'", '"') and left:
        kind = "single" if left[0] == "'" else "double"
        text = f"unmatched {kind} quote; by default quotes are special to xargs unless you use the -0 option"
        raise Leave(await process.fail(text))
    return words


TOOLS: dict[str, Tool] = {"xargs": xargs}
