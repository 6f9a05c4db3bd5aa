"""``python3`` in containers: its command line, and the sandboxed CPython that runs the program."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field
from typing import Any

from kubesim.kubelet import python_serving
from kubesim.python import execution
from kubesim.python.engine import Unavailable
from kubesim.shell.errors import FileError
from kubesim.shell.files import Directory
from kubesim.shell.machine import Process, Tool
from kubesim.shell.tools import pips

VERSION = "3.11.2"
BUILD = "(main, Nov 30 2024, 22:22:12) [GCC 12.2.0]"
MAX_MEMORY, MIN_MEMORY = 256 << 20, 48 << 20
"""Bytes that an instance may have of this machine, whatever the container's limit is."""
MAX_ARGUMENT = "Argument expected for the -{} option\n"
USAGE = "usage: {0} [option] ... [-c cmd | -m mod | file | -] [arg] ...\nTry `python -h' for more information.\n"
SWITCHES = "bBdEhiIOPqsSuvxV?"


@dataclass
class CommandLine:
    """The parsed command line of ``python3``."""

    way: str = "input"
    value: str = ""
    rest: list[str] = field(default_factory=list)
    switches: str = ""
    warnings: list[str] = field(default_factory=list)
    error: str = ""


def parsed(words: list[str]) -> CommandLine:
    """Read a command line as CPython does."""
    found = CommandLine()
    while words and words[0][:1] == "-" and words[0] != "-":
        word = words.pop(0)
        if word == "--":
            break
        if word.startswith("--"):
            found.switches += {"--version": "V", "--help": "h"}.get(word, "")
            if word not in ("--version", "--help", "--check-hash-based-pycs"):
                found.error = f"unknown option {word}\n" + USAGE
            continue
        if _letters(word[1:], words, found):
            return found
    if words and words[0] != "-":
        found.way, found.value = "file", words.pop(0)
    elif words:
        words.pop(0)
        found.value = "-"
    found.rest = words
    return found


def _letters(letters: str, words: list[str], found: CommandLine) -> bool:
    """Read the letters of one word; True where the program is named, or they are wrong."""
    for at, letter in enumerate(letters):
        if letter in "cmWX":
            value = letters[at + 1 :] or (words.pop(0) if words else None)
            if value is None:
                found.error = MAX_ARGUMENT.format(letter) + USAGE
                return True
            if letter == "W":
                found.warnings.append(value)
            if letter in "cm":
                found.way, found.value, found.rest = {"c": "command", "m": "module"}[letter], value, words
            return letter in "cm"
        if letter not in SWITCHES:
            found.error = f"Unknown option: -{letter}\n" + USAGE
            return True
        found.switches += letter
    return False


async def python3(process: Process) -> int:
    """Run a program, or the prompt."""
    line = parsed(process.argv[1:])
    if line.error:
        await process.error(line.error.format(process.argv[0]))
        return 2
    if "V" in line.switches:
        version = _version(process)
        await process.write(f"Python {version}{' ' + BUILD if line.switches.count('V') > 1 else ''}\n")
        return 0
    if "h" in line.switches or "?" in line.switches:
        await process.write(USAGE.format(process.argv[0]))
        return 0
    if line.way == "file" and (error := _unreadable(process, line.value)):
        await process.error(f"{process.argv[0]}: can't open file '{_whole(process, line.value)}': {error}\n")
        return 2
    if line.way == "module" and line.value == "pip":
        process.argv = ["pip", *line.rest]
        return await pips.pip(process)
    if line.way == "module" and line.value == "http.server":  # what most servers of packs are, for 13 MB less each
        told = "u" in line.switches or bool(process.env.get("PYTHONUNBUFFERED")) or process.tty(1) is not None
        version = _version(process)
        return await python_serving.http_server(process, line.rest, version, told=told)
    limit = process.machine.memory_limit or process.machine.memory
    running = execution.Execution(process, max(min(limit, MAX_MEMORY), MIN_MEMORY))
    process.handlers["INT"] = running.signal
    process.handlers["PIPE"] = None
    try:
        return await running.run(_start(process, line))
    except Unavailable as error:
        return await process.fail(f"Python in containers is not available here: {error}", 1)


def _version(process: Process) -> str:
    return process.env.get("PYTHON_VERSION") or process.machine.libraries.get("python", VERSION)


def _whole(process: Process, path: str) -> str:
    return posixpath.join(process.cwd, path)


def _unreadable(process: Process, path: str) -> str:
    try:
        node = process.view.node(path)
        if not process.view.may(node, 4):
            raise FileError("EACCES", path)
    except FileError as error:
        return f"[Errno {13 if error.code == 'EACCES' else 2}] {error.text}"
    return ""


def _start(process: Process, line: CommandLine) -> dict[str, Any]:
    """Return what a program knows of itself when it starts."""
    terminals = [process.tty(fd) is not None for fd in range(3)]
    way = "prompt" if line.way == "input" and (terminals[0] or "i" in line.switches) else line.way
    argv = {"command": "-c", "module": "-m", "file": line.value}.get(line.way, line.value)
    version = _version(process)
    prefix, sites = _places(process, version)
    return {
        "way": way,
        "source": line.value if way == "command" else "",
        "module": line.value if way == "module" else "",
        "argv": [argv, *line.rest],
        "words": process.argv,
        "quiet": "q" in line.switches,
        "folder": None if line.switches.count("I") else _folder(process, line),
        "inspect": "i" in line.switches,
        "optimize": min(line.switches.count("O"), 2),
        "warnings": [*filter(None, process.env.get("PYTHONWARNINGS", "").split(",")), *line.warnings],
        "unbuffered": "u" in line.switches or bool(process.env.get("PYTHONUNBUFFERED")),
        "terminals": terminals,
        "env": process.env,
        "pid": process.pid,
        "uid": process.view.uid,
        "gid": process.view.gid,
        "cpus": process.machine.cpus,
        "uname": ["Linux", process.machine.hostname, process.machine.kernel, "#1 SMP", "x86_64"],
        "booted": process.machine.up_since,
        "version": version,
        "build": BUILD,
        "executable": process.program.path or "/usr/bin/python3",
        "prefix": prefix,
        "library": f"{prefix}/lib/python{version.rpartition('.')[0]}",
        "sites": sites,
        "site": sites[0],
        "packages": _packages(process, sites),
        "libraries": dict(process.machine.libraries),
    }


def _folder(process: Process, line: CommandLine) -> str:
    """Return the first entry of sys.path."""
    if line.way == "file":
        return posixpath.dirname(_whole(process, line.value))
    return process.cwd if line.way == "module" else ""


def _places(process: Process, version: str) -> tuple[str, list[str]]:
    """Return the prefix of the installation, and where packages are."""
    short = version.rpartition(".")[0]
    local, system = f"/usr/local/lib/python{short}", "/usr/lib/python3/dist-packages"
    if folder := process.machine.libraries.get("packages"):
        prefix = folder.partition("/lib/python")[0]
        return "/usr" if folder.endswith("dist-packages") else prefix, [folder]
    if process.view.find(f"{local}/site-packages") is not None or process.program.path.startswith("/usr/local/"):
        return "/usr/local", [f"{local}/site-packages"]
    return "/usr", [f"{local}/dist-packages", system]


def _packages(process: Process, sites: list[str]) -> list[str]:
    """Return the names of the packages that the image has."""
    folders = [process.view.find(path) for path in sites]
    return [name for node in folders if isinstance(node, Directory) for name in node.names()]


TOOLS: dict[str, Tool] = {"python3": python3, "python": python3}
