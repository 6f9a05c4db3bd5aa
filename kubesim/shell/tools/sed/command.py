"""sed's command line: where a script and its input come from."""

from __future__ import annotations

from kubesim.shell import regexes
from kubesim.shell.errors import FileError, Leave
from kubesim.shell.machine import Process, Tool
from kubesim.shell.tools import kit
from kubesim.shell.tools.sed.edit import Editor
from kubesim.shell.tools.sed.parse import Command, Parser, SedError


async def sed(process: Process) -> int:
    """Edit lines by a script."""
    opts = await kit.options(process)
    script = await _script(process, opts)
    try:
        commands = Parser(script, extended=opts.any("Er")).parse()
    except SedError as error:
        return await process.fail(f"-e expression #1, char {len(script)}: {error}")
    try:
        return await _edit(process, commands, opts)
    except regexes.RegexError as error:
        return await process.fail(str(error), 4)


async def _script(process: Process, opts: kit.Options) -> str:
    pieces = opts.all("e")
    for name in opts.all("f"):
        handle = await kit.opened(process, name)
        if handle is None:
            raise Leave(1)
        pieces.append(kit.text(await kit.everything(process, handle)).removesuffix("\n"))
    if pieces:
        return "\n".join(pieces)
    if not opts.args:
        await process.error("Usage: sed [OPTION]... {script-only-if-no-other-script} [input-file]...\n")
        raise Leave(1)
    return opts.args.pop(0)


async def _edit(process: Process, commands: list[Command], opts: kit.Options) -> int:
    status = 0
    editor = Editor(process, commands, opts)
    whole: list[str] = []
    ended = True
    for name in opts.args or ["-"]:
        if "i" in opts and name != "-" and process.view.find(name) is None:
            status = await kit.complain(process, name, FileError("ENOENT", name), 4)
            continue
        handle = await kit.opened(process, name)
        if handle is None:
            status = 2
            continue
        text = kit.text(await kit.everything(process, handle))
        ended = text.endswith("\n") or not text
        lines = text.removesuffix("\n").split("\n") if text else []
        if opts.any("is"):
            editor.line = 0
            editor.out = [] if "i" in opts else None
            await editor.run(lines, ended=ended)
            if editor.out is not None:
                process.view.write(name, kit.data("".join(editor.out)))
                if opts.get("i"):
                    process.view.write(name + opts.get("i"), kit.data(text))
        else:
            whole += lines
    if not opts.any("is"):
        await editor.run(whole, ended=ended)
    return editor.status if editor.status is not None else status


TOOLS: dict[str, Tool] = {"sed": sed}
