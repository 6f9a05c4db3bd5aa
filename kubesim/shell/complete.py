"""Completion: commands, files, variables, and kubectl's words, as bash has them with kubectl's script sourced."""

from __future__ import annotations

import asyncio
import re
import shlex

from kubesim.shell.errors import FileError, StartError
from kubesim.shell.files import Device, Directory, File
from kubesim.shell.handles import Capture, Handle, OpenFile
from kubesim.shell.interp import Shell
from kubesim.shell.lineedit import Completion
from kubesim.shell.machine import Process

WAIT_S = 3.0
"""After so long an answer is not waited for."""
MOST_BYTES = 1 << 20
NO_SPACE, NO_FILES, BY_ENDING = 2, 4, 8
"""Directives of https://pkg.go.dev/github.com/spf13/cobra#ShellCompDirective."""
FUNCTION = "__start_kubectl"
BREAK = re.compile(r"(?<!\\)[\s;&|()<>`]")


async def complete(shell: Shell, text: str) -> Completion:
    """Return the word before the cursor and what it may become."""
    start = max((match.end() for match in BREAK.finditer(text)), default=0)
    word = text[start:]
    before = text[:start].rstrip()
    if word.startswith("$") and "/" not in word:
        return Completion(word, sorted("$" + name for name in shell.state.variables if name.startswith(word[1:])))
    if (not before or before[-1] in ";&|(`" or before.endswith((" sudo", "xargs"))) and "/" not in word:
        return Completion(word, _commands(shell, word))
    words = _simple(text[:start])
    if before[-1:] not in ("<", ">") and words and (line := _kubectl_line(shell, words)):
        return await _kubectl(shell, line, word)
    return _files(shell, word, folders=words[:1] in (["cd"], ["rmdir"]))


def _simple(text: str) -> list[str]:
    """Return the words of the command that the end of a line belongs to, without assignments before it."""
    piece = re.split(r"(?<!\\)(?:[;&|(`\n]|\$\()", text)[-1]
    try:
        words = shlex.split(piece)
    except ValueError:
        words = piece.split()
    while words and re.match(r"\w+=", words[0]):
        words.pop(0)
    return words[1:] if words[:1] in (["sudo"], ["xargs"], ["time"], ["then"], ["do"]) else words


def _kubectl_line(shell: Shell, words: list[str]) -> list[str]:
    """Return a command line as kubectl's, be its name an alias or one of ``complete -F``; empty where it is none."""
    seen: set[str] = set()
    while words and words[0] in shell.state.aliases and words[0] not in seen:
        seen.add(words[0])
        words = [*_simple(shell.state.aliases[words[0]]), *words[1:]]
    name = words[0].rpartition("/")[2] if words else ""
    if name != "kubectl" and f"-F {FUNCTION} " not in shell.completed.get(name, ""):
        return []
    values = shell.state
    return [
        "kubectl",
        *(re.sub(r"\$\{?(\w+)\}?", lambda match: values.get(match[1]) or "", word) for word in words[1:]),
    ]


def _commands(shell: Shell, word: str) -> list[str]:
    found = {*shell.builtins.table, *shell.state.functions, *shell.state.aliases}
    for folder in (shell.state.get("PATH") or "").split(":"):
        node = shell.process.view.find(folder)
        if isinstance(node, Directory):
            found.update(node.names())
    return sorted(name for name in found if name.startswith(word) and (word or name.isalnum()))


def _files(shell: Shell, word: str, *, folders: bool = False, endings: tuple[str, ...] = ()) -> Completion:
    head, slash, tail = word.rpartition("/")
    plain = (head + slash).replace("\\", "")
    folder = plain or "."
    if folder.startswith("~"):
        folder = (shell.state.get("HOME") or "/") + folder[1:]
    try:
        names = shell.process.view.directory(folder).names()
    except FileError:
        return Completion(word, [])
    found = []
    for name in names:
        if name.startswith(tail.replace("\\", "")) and (tail or not name.startswith(".")):
            node = shell.process.view.find(f"{folder.rstrip('/')}/{name}" if folder != "." else name)
            if isinstance(node, Directory):
                found.append(head + slash + _escaped(name) + "/")
            elif not isinstance(node, File) or not folders and (not endings or name.lower().endswith(endings)):
                found.append(head + slash + _escaped(name))
    if endings and not found:
        return _files(shell, word)
    return Completion(word, found, files=True)


def _escaped(name: str) -> str:
    return re.sub(r"([\s'\"\\$&*()\[\]{};<>|?!`])", r"\\\1", name)


async def _kubectl(shell: Shell, words: list[str], word: str) -> Completion:
    """Ask kubectl itself, as its script does, with the rights that whoever types has."""
    answer = await _asked(shell, [words[0], "__complete", *words[1:], word.replace("\\", "")])
    *lines, last = answer.rstrip("\n").split("\n")
    directive = int(last[1:]) if last[:1] == ":" and last[1:].isdecimal() else 0
    value = word.partition("=")[2] if re.match(r"-.*=", word) else word
    if directive & BY_ENDING:
        return _files(shell, value, endings=tuple(f".{each}" for each in lines))
    found = sorted(line for line in lines if _escaped(line.partition("\t")[0]).startswith(value))
    if not found:
        return Completion(value, []) if directive & NO_FILES else _files(shell, value)
    return Completion(
        value,
        [_escaped(line.partition("\t")[0]) for line in found],
        shown=_described(found, _columns(shell)),
        spaced=not directive & NO_SPACE,
    )


def _columns(shell: Shell) -> int:
    return shell.process.terminal.size[1] if shell.process.terminal else 80


def _described(found: list[str], columns: int) -> list[str]:
    """Return choices as they are listed, those with descriptions in two columns."""
    longest = max(len(line.partition("\t")[0]) for line in found)
    shown = []
    for line in found:
        name, tab, about = line.partition("\t")
        room = columns - longest - 4
        if room > 8:
            name = name.ljust(longest) if tab else name
        else:
            room = columns - len(name) - 4
        if len(about) > room > 0:
            about = about[: room - 1] + "…"
        shown.append(f"{name}  ({about})" if tab and room > 0 else name)
    return shown


async def _asked(shell: Shell, argv: list[str]) -> str:
    """Return what a program prints, if it does so in time; its errors are nobody's."""
    told = Capture(MOST_BYTES)
    silent = OpenFile(
        shell.process.view, Device(kind="null"), "/dev/null", readable=True, writable=True, append=False
    )
    fds: dict[int, Handle] = {0: silent, 1: told, 2: silent}
    try:
        process = shell.process.run(argv, env=shell.state.environment(), fds=fds)
    except (StartError, FileError):
        return ""
    await _within(process, WAIT_S)
    return told.data.decode("utf-8", "replace")


async def _within(process: Process, limit: float) -> None:
    """Wait for a process, but no longer than ``limit`` seconds of the clock: then it is killed."""
    clock = asyncio.ensure_future(process.machine.clock.sleep(limit))
    ended = asyncio.ensure_future(process.wait())
    try:
        await asyncio.wait({clock, ended}, return_when=asyncio.FIRST_COMPLETED)
        if not ended.done():
            process.signal("KILL")
    finally:
        clock.cancel()
        ended.cancel()
