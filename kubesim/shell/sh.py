"""The programs sh, ash, dash and bash."""

from __future__ import annotations

from getopt import GetoptError, getopt

from kubesim.shell import builtins
from kubesim.shell.errors import FileError
from kubesim.shell.interp import Shell, read_line
from kubesim.shell.machine import DEFAULT_PATH, Process
from kubesim.shell.nodes import ScriptError
from kubesim.shell.parse import parse
from kubesim.shell.state import NAMED_ONLY, OPTIONS, Variable

DIALECTS = {"busybox": "ash", "dash": "dash", "bash": "bash", "ash": "ash", "gnu": "dash"}
BASH_OWN = {"BASH_VERSION": "5.2.15(1)-release", "BASH": "/bin/bash", "OSTYPE": "linux-gnu", "HOSTTYPE": "x86_64",
            "MACHTYPE": "x86_64-pc-linux-gnu"}  # fmt: skip
LONGEST_SCRIPT = 1 << 20
LONGEST_COMMAND = 1 << 16


LONG = ["login", "rcfile=", "init-file=", "norc", "noprofile", "posix", "noediting", "verbose", "restricted",
        "debugger", "version", "help"]  # fmt: skip


class Arguments:
    """A shell's command line; raises GetoptError."""

    def __init__(self, argv: list[str]) -> None:
        given, self.rest = getopt(argv[1:], f"{''.join(OPTIONS)}cilpso:", LONG)
        flags = {name[1:] for name, _ in given}
        self.options = {OPTIONS[flag] for flag in flags if flag in OPTIONS}
        self.options |= {value for name, value in given if name == "-o"}
        if wrong := self.options - {*OPTIONS.values(), *NAMED_ONLY}:
            raise GetoptError("invalid option name", wrong.pop())
        self.interactive, self.stdin = "i" in flags, "s" in flags
        if "c" in flags and not self.rest:
            raise GetoptError("option requires an argument", "c")
        self.command = self.rest.pop(0) if "c" in flags else None


async def shell(process: Process) -> int:
    """Run a script, a command string or a session."""
    dialect = DIALECTS[process.program.flavour]
    if process.program.flavour == "gnu" and process.name == "bash":
        dialect = "bash"
    try:
        arguments = Arguments(process.argv)
    except GetoptError as error:
        text = "option requires an argument" if "requires" in error.msg else "invalid option"
        return await process.fail(f"{'-' * min(len(error.opt), 2)}{error.opt}: {text}", 2)
    name = process.argv[0].lstrip("-")
    here = Shell(process, dialect, name)
    here.builtins = builtins.table()
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


def prepare(here: Shell) -> None:
    """Take over the environment and set what every shell sets."""
    state = here.state
    for name, value in here.process.env.items():
        if name and "=" not in name:  # names that no shell can expand are passed on all the same
            state.variables[name] = Variable(value, exported=True)
    state.variables.setdefault("PATH", Variable(DEFAULT_PATH))
    state.variables["PWD"] = Variable(here.process.cwd, exported=True)
    own = {"IFS": " \t\n", "OPTIND": "1"}
    if here.dialect == "bash":
        own |= BASH_OWN
    state.variables.setdefault("HOSTNAME", Variable(here.process.machine.hostname))
    state.variables |= {name: Variable(value) for name, value in own.items()}
    level = state.get("SHLVL") or "0"
    state.variables["SHLVL"] = Variable(str(int(level) + 1 if level.isdecimal() else 1), exported=True)


async def _file(here: Shell, rest: list[str]) -> int:
    process, path = here.process, rest[0]
    try:
        data = process.view.read(path)
    except FileError as error:
        status = 127 if error.code == "ENOENT" else 126
        return await process.fail(f"{error.path}: {error.text}", status)
    here.name, here.named = path, True
    here.state.variables["BASH_SOURCE"] = Variable(path)
    here.state.positional = rest[1:]
    if b"\0" in data[:256]:
        return await process.fail(f"{path}: cannot execute binary file", 126)
    return await here.finish(here.script(data.decode("utf-8", "surrogateescape")))


async def _stream(here: Shell) -> int:
    """Run what standard input says, command by command: what a command does not read, the next ones are."""
    text, status, size = "", 0, 0
    while (line := await read_line(here.process)) and size < LONGEST_SCRIPT:
        text, size = text + line, size + len(line)
        if len(text) < LONGEST_COMMAND and not line.endswith("\\\n") and _whole(here, text):
            status = await here.script(text)
            here.line_offset -= text.count("\n")
            text = ""
    return await here.script(text) if text else status


def _whole(here: Shell, text: str) -> bool:
    """Tell whether a text is whole commands."""
    try:
        parse(text, here.state.aliases if "expand_aliases" in here.state.shopt else None, more=True)
    except ScriptError:
        return False
    return True


TOOLS = {"sh": shell, "bash": shell, "ash": shell, "dash": shell}
