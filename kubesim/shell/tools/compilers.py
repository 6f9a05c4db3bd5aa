"""gcc: it makes a shared library of a C source with a table of faults, and of nothing else."""

from __future__ import annotations

from kubesim.gpu.fault_table import CompileError, pack, read_table
from kubesim.shell.errors import FileError
from kubesim.shell.files import File
from kubesim.shell.machine import Process, Tool
from kubesim.shell.tools import kit
from kubesim.shell.tools.answers import answer

VALUED = ("-o", "-I", "-L", "-D", "-U", "-l", "-x", "-include", "-isystem")
"""The options whose value may be the word that follows."""
STOPPED = "compilation terminated.\n"


def _command(words: list[str]) -> tuple[list[str], str]:
    """Return the sources of a command line, and where the library goes."""
    sources, output, rest = [], "a.out", [*words]
    while rest:
        word = rest.pop(0)
        if word.startswith("-o"):
            output = word[2:] or "".join(rest[:1])
        if word in VALUED:
            rest = rest[1:]
        elif not word.startswith("-"):
            sources.append(word)
    return sources, output


async def gcc(process: Process) -> int:
    """Compile a fault library; whatever else it is asked, it says why that cannot be done here."""
    sources, output = _command(process.argv[1:])
    if "-shared" not in process.argv or "-c" in process.argv or [name[-2:] for name in sources] != [".c"]:
        return await answer(process)
    text = process.view.content(sources[0])
    if text is None:
        await process.error(f"cc1: fatal error: {sources[0]}: No such file or directory\n{STOPPED}")
        return 1
    try:
        rows = read_table(kit.text(text), sources[0])
    except CompileError as error:
        await process.error(str(error))
        return 1
    if not rows:
        return await answer(process)
    return await _link(process, output, pack(rows))


async def _link(process: Process, output: str, library: bytes) -> int:
    try:
        process.view.write(output, library)
    except FileError as error:
        await process.error(f"/usr/bin/ld: cannot open output file {output}: {error.text}\n")
        await process.error("collect2: error: ld returned 1 exit status\n")
        return 1
    made = process.view.node(output)
    if isinstance(made, File):
        made.mode = 0o777 & ~process.view.umask
    return 0


TOOLS: dict[str, Tool] = {"gcc": gcc, "g++": gcc}
