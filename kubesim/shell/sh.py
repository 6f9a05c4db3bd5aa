"""The programs sh, ash, dash and bash."""

from __future__ import annotations

from kubesim.shell import builtins
from kubesim.shell.errors import FileError
from kubesim.shell.interp import Shell
from kubesim.shell.machine import DEFAULT_PATH, Process
from kubesim.shell.nodes import ScriptError
from kubesim.shell.parse import parse
from kubesim.shell.state import NAMED_ONLY, OPTIONS, Variable

DIALECTS = {"busybox": "ash", "dash": "dash", "bash": "bash", "ash": "ash", "gnu": "dash"}
LONGEST_SCRIPT = 1 << 20
LONGEST_COMMAND = 1 << 16


class Usage(Exception):
    """An option that there is not."""


LONG = ("--login", "--rcfile", "--init-file", "--norc", "--noprofile", "--posix", "--noediting", "--verbose",
        "--restricted", "--debugger", "--version", "--help")  # fmt: skip


class Arguments:
    """A shell's command line."""

    def __init__(self, argv: list[str]) -> None:
        self.options: set[str] = set()
        self.command: str | None = None
        self.interactive = self.login = self.stdin = False
        rest = argv[1:]
        wants = False
        while rest and rest[0][:1] in ("-", "+") and len(rest[0]) > 1:
            word = rest.pop(0)
            if word == "--":
                break
            wants = self._word(word, rest) or wants
        if wants:
            if not rest:
                raise Usage("-c")
            self.command = rest.pop(0)
        self.rest = rest

    def _word(self, word: str, rest: list[str]) -> bool:
        if word.startswith("--"):
            self.login = self.login or word == "--login"
            if word not in LONG:
                raise Usage(word)
            if word in ("--rcfile", "--init-file") and rest:
                rest.pop(0)
            return False
        for flag in word[1:]:
            if flag in "il":
                self.interactive = self.interactive or flag == "i"
                self.login = self.login or flag == "l"
            elif flag == "o" and rest and rest[0] in {*OPTIONS.values(), *NAMED_ONLY}:
                self.options.add(rest.pop(0))
            elif flag in OPTIONS:
                (self.options.add if word[0] == "-" else self.options.discard)(OPTIONS[flag])
            elif flag == "s":
                self.stdin = True
            elif flag not in "cp":
                raise Usage(f"-{flag}")
        return "c" in word and word[0] == "-"


async def shell(process: Process) -> int:
    """Run a script, a command string or a session."""
    dialect = DIALECTS[process.program.flavour]
    if process.program.flavour == "gnu" and process.name == "bash":
        dialect = "bash"
    try:
        arguments = Arguments(process.argv)
    except Usage as error:
        return await _usage(process, str(error))
    name = process.argv[0].lstrip("-")
    here = Shell(process, dialect, name)
    here.builtins = builtins.of(dialect)
    here.state.options |= arguments.options
    prepare(here)
    if arguments.command is not None:
        here.name = arguments.rest[0] if arguments.rest else name
        here.named = bool(arguments.rest)
        here.state.positional = arguments.rest[1:]
        here.command_string = True
        here.line_offset = int(dialect == "ash")
        return await here.finish(here.script(arguments.command))
    if arguments.rest and not arguments.stdin:
        return await _file(here, arguments.rest)
    here.state.positional = arguments.rest
    if arguments.interactive or process.tty(0):
        return await here.finish(process.machine.session(here))
    return await here.finish(_stream(here))


async def _usage(process: Process, option: str) -> int:
    if option == "-c":
        return await process.fail("-c: option requires an argument", 2)
    return await process.fail(f"{option}: invalid option", 2)


def prepare(here: Shell) -> None:
    """Take over the environment and set what every shell sets."""
    state = here.state
    for name, value in here.process.env.items():
        if name and "=" not in name:  # names that no shell can expand are passed on all the same
            state.variables[name] = Variable(value, exported=True)
    state.variables.setdefault("PATH", Variable(DEFAULT_PATH))
    state.variables["PWD"] = Variable(here.process.cwd, exported=True)
    state.variables["IFS"] = Variable(" \t\n")
    state.variables["OPTIND"] = Variable("1")
    if here.dialect == "bash":
        state.variables["BASH_VERSION"] = Variable("5.2.15(1)-release")
        state.variables["BASH"] = Variable("/bin/bash")
        state.variables["HOSTNAME"] = Variable(here.process.machine.hostname)
        state.variables["OSTYPE"] = Variable("linux-gnu")
        state.variables["HOSTTYPE"] = Variable("x86_64")
        level = state.get("SHLVL") or "0"
        state.variables["SHLVL"] = Variable(str(int(level) + 1 if level.isdecimal() else 1), exported=True)


async def _file(here: Shell, rest: list[str]) -> int:
    process, path = here.process, rest[0]
    try:
        data = process.view.read(path)
    except FileError as error:
        texts = {
            "bash": f"{path}: {error.text}",
            "dash": f"0: cannot open {path}: {'No such file' if error.code == 'ENOENT' else error.text}",
            "ash": f"can't open '{path}': {error.text}",
        }
        status = 127 if error.code == "ENOENT" else 126
        return await process.fail(texts[here.dialect], status if here.dialect == "bash" else 2)
    here.name, here.named = path, True
    here.state.positional = rest[1:]
    if b"\0" in data[:256]:
        return await process.fail(f"{path}: cannot execute binary file", 126)
    return await here.finish(here.script(data.decode("utf-8", "surrogateescape")))


async def _stream(here: Shell) -> int:
    """Run what standard input says, command by command: what a command does not read, the next ones are."""
    text, status, size = "", 0, 0
    while (line := await _line(here)) and size < LONGEST_SCRIPT:
        text, size = text + line, size + len(line)
        if len(text) < LONGEST_COMMAND and not line.endswith("\\\n") and _whole(here, text):
            status = await here.script(text)
            here.line_offset -= text.count("\n")
            text = ""
    return await here.script(text) if text else status


async def _line(here: Shell) -> str:
    data = bytearray()
    while not data.endswith(b"\n") and (byte := await here.process.read(1)):
        data += byte
    return data.decode("utf-8", "surrogateescape")


def _whole(here: Shell, text: str) -> bool:
    """Tell whether a text is whole commands."""
    try:
        parse(text, here.dialect, here.state.aliases if "expand_aliases" in here.state.shopt else None)
    except ScriptError:
        return False
    return True


TOOLS = {"sh": shell, "bash": shell, "ash": shell, "dash": shell}
