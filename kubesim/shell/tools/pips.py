"""pip: what the image has installed (``pips.yaml``, the machine's libraries), and nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from kubesim import data
from kubesim.shell.machine import Process, Tool
from kubesim.shell.tools import kit

_table: data.Reader[dict[str, dict[str, dict[str, Any]]]] = data.beside(__file__, "pips.yaml")
VERSION = "3.11.2"
FOLDER = "/usr/local/lib/python{}/site-packages"


def installed(process: Process) -> dict[str, dict[str, Any]]:
    """Return the packages of the image by name, each with its version, in pip's order."""
    libraries = process.machine.libraries
    rows = {**_table()["plain"], **(_table()["machine_learning"] if libraries else {})}
    found = {name: {"version": libraries.get(name), **row} for name, row in rows.items()}
    return {name: found[name] for name in sorted(found, key=str.lower) if found[name]["version"]}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _python(process: Process) -> str:
    return process.env.get("PYTHON_VERSION") or process.machine.libraries.get("python", VERSION)


def _folder(process: Process) -> str:
    short = ".".join(_python(process).split(".")[:2])
    return process.machine.libraries.get("packages") or FOLDER.format(short)


async def pip(process: Process) -> int:
    """Run a command of pip."""
    words = [word for word in process.argv[1:] if word not in ("-q", "--quiet", "--disable-pip-version-check")]
    if not words or words[0] in ("-h", "--help", "help"):
        await process.write(kit.told("pips_usage"))
        return 0
    if words[0] in ("-V", "--version"):
        short = ".".join(_python(process).split(".")[:2])
        version = installed(process)["pip"]["version"]
        await process.write(f"pip {version} from {_folder(process)}/pip (python {short})\n")
        return 0
    command = COMMANDS.get(words[0])
    if command is None:
        if re.search(rf"^  {re.escape(words[0])} ", kit.told("pips_usage"), re.MULTILINE):
            return await _fail(process, f"Cannot run pip {words[0]}: the index is not reachable")
        return await _fail(process, f'unknown command "{words[0]}"')
    return await command(process, words[1:])


async def _fail(process: Process, text: str) -> int:
    await process.error(f"ERROR: {text}\n")
    return 1


async def _list(process: Process, words: list[str]) -> int:
    rows = [(name, str(row["version"])) for name, row in installed(process).items()]
    form = next((word.partition("=")[2] for word in words if word.startswith("--format=")), "columns")
    if form == "json":
        await process.write(json.dumps([{"name": name, "version": version} for name, version in rows]) + "\n")
    elif form == "freeze":
        return await _freeze(process, [])
    else:
        left = max(len(name) for name, _ in [("Package", ""), *rows])
        right = max(len(version) for _, version in [("", "Version"), *rows])
        lines = [("Package", "Version"), ("-" * left, "-" * right), *rows]
        await process.write("".join(f"{name:<{left}} {version}".rstrip() + "\n" for name, version in lines))
    return 0


async def _freeze(process: Process, words: list[str]) -> int:
    for name, row in installed(process).items():
        if name not in ("pip", "setuptools", "wheel"):
            await process.write(f"{name}=={row['version']}\n")
    return 0


async def _show(process: Process, words: list[str]) -> int:
    names = [word for word in words if not word.startswith("-")]
    if not names:
        await process.error("WARNING: ERROR: Please provide a package name or names.\n")
        return 1
    found = {_normal(name): (name, row) for name, row in installed(process).items()}
    missing = [name for name in names if _normal(name) not in found]
    if missing:
        await process.error(f"WARNING: Package(s) not found: {', '.join(sorted(missing))}\n")
    shown = [found[_normal(name)] for name in names if _normal(name) in found]
    await process.write("---\n".join(_described(process, name, row) for name, row in shown))
    return 0 if shown else 1


def _described(process: Process, name: str, row: dict[str, Any]) -> str:
    needed = list(row.get("requires", ()))
    users = [other for other, its in installed(process).items() if name in its.get("requires", ())]
    values = {"home": "", "author": "", "license": "", **row, "name": name, "location": _folder(process)}
    text = kit.told("pip_show", **values | {"requires": ", ".join(needed), "users": ", ".join(users)})
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


async def _install(process: Process, words: list[str], *, fresh: bool = False) -> int:
    """Say what is there already, unless it is wanted ``fresh``; all else is in no index."""
    wanted = [word for at, word in enumerate(words) if word[:1] != "-" and words[at - 1 : at] != ["-r"]]
    if "-r" in words or "--requirement" in words:
        wanted += _required(process, words)
    if not wanted:
        return await _fail(process, 'You must give at least one requirement to install (see "pip help install")')
    found = {} if fresh else {_normal(name): (name, row) for name, row in installed(process).items()}
    for word in wanted:
        name, _, version = word.partition("==")
        name = re.split(r"[<>=!~\[; ]", name)[0]
        own = found.get(_normal(name))
        if own is not None and version in ("", str(own[1]["version"])) and not {"-U", "--upgrade"} & {*words}:
            text = f"Requirement already satisfied: {word} in {_folder(process)} ({own[1]['version']})\n"
            await process.write(text)
            continue
        await process.error(
            f"ERROR: Could not find a version that satisfies the requirement {word} (from versions: none)\n"
        )
        return await _fail(process, f"No matching distribution found for {word}")
    return 0


def _required(process: Process, words: list[str]) -> list[str]:
    at = next(number for number, word in enumerate(words) if word in ("-r", "--requirement"))
    text = bytes(process.view.read(words[at + 1])).decode("utf-8", "replace") if len(words) > at + 1 else ""
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("-")]


COMMANDS: dict[str, Callable[[Process, list[str]], Awaitable[int]]] = {
    "list": _list,
    "freeze": _freeze,
    "show": _show,
    "install": _install,
    "download": partial(_install, fresh=True),
}
TOOLS: dict[str, Tool] = {"pip": pip, "pip3": pip}
