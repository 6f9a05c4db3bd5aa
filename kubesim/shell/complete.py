"""Completion: commands, files, variables, and kubectl's words, as bash has them with kubectl's script sourced."""

from __future__ import annotations

import re
import shlex

from kubesim.clock import first
from kubesim.shell.errors import FileError, StartError
from kubesim.shell.files import Directory, File
from kubesim.shell.handles import Bytes, Capture, Handle
from kubesim.shell.interp import Shell
from kubesim.shell.kubectl.flags import NAMES
from kubesim.shell.lineedit import Completion

WAIT_S = 3.0
"""After so long an answer is not waited for."""
MOST_BYTES = 1 << 20
OF_PODS = frozenset({"exec", "logs", "attach", "port-forward"})
VALUED = frozenset({"-n", "--namespace", "--context", "-c", "-o", "-l", "-f"})
"""Flags whose values are words of their own."""
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
    found = {*shell.builtins, *shell.state.functions, *shell.state.aliases}
    for folder in (shell.state.get("PATH") or "").split(":"):
        node = shell.process.view.find(folder)
        if isinstance(node, Directory):
            found.update(node.names())
    return sorted(name for name in found if name.startswith(word) and (word or name.isalnum()))


def _files(shell: Shell, word: str, *, folders: bool = False) -> Completion:
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
            elif not isinstance(node, File) or not folders:
                found.append(head + slash + _escaped(name))
    return Completion(word, found, files=True)


def _escaped(name: str) -> str:
    return re.sub(r"([\s'\"\\$&*()\[\]{};<>|?!`])", r"\\\1", name)


async def _kubectl(shell: Shell, words: list[str], word: str) -> Completion:
    """Complete commands, kinds and names: kubectl itself lists them, with the rights that whoever types has."""
    last, scope = words[-1], _scope(words)
    said = [each for at, each in enumerate(words[1:]) if not each.startswith("-") and words[at] not in VALUED]
    if last in ("-n", "--namespace"):
        return Completion(word, await _named(shell, ["get", "namespaces"], word))
    if last in VALUED or word.startswith("-") or said[:1] in (["apply"], ["cp"]):
        return _files(shell, word)
    if not said:
        return Completion(word, sorted(name for name in NAMES if name.startswith(word) and " " not in name))
    if said[0] in OF_PODS:
        said[1:1] = ["pods"]
    if len(said) > 1:
        found = await _named(shell, ["get", said[1], *scope], word)
    elif f"{said[0]} " in "".join(NAMES):
        found = [name.split()[1] for name in NAMES if name.startswith(f"{said[0]} {word}")]
    else:
        found = [name.partition(".")[0] for name in await _named(shell, ["api-resources"], word)]
    return Completion(word, sorted(set(found))) if found else _files(shell, word)


def _scope(words: list[str]) -> list[str]:
    """Return the flags that say which namespace and which cluster is meant."""
    pairs = (words[at : at + 2] for at, word in enumerate(words) if word in ("-n", "--namespace", "--context"))
    return [word for pair in pairs for word in pair] + [word for word in words if word.startswith("--namespace=")]


async def _named(shell: Shell, asked: list[str], word: str) -> list[str]:
    names = [line.rpartition("/")[2] for line in (await _asked(shell, ["kubectl", *asked, "-o", "name"])).split()]
    return [name for name in names if name.startswith(word)]


async def _asked(shell: Shell, argv: list[str]) -> str:
    """Return what a program prints, if it does so in time; its errors are nobody's."""
    told = Capture(MOST_BYTES)
    fds: dict[int, Handle] = {0: Bytes(b""), 1: told, 2: Capture(MOST_BYTES)}
    try:
        process = shell.process.run(argv, env=shell.state.environment(), fds=fds)
    except (StartError, FileError):
        return ""
    _, ended = await first(process.machine.clock.sleep(WAIT_S), process.wait())
    if not ended.done():
        process.signal("KILL")
    return told.data.decode("utf-8", "replace")
