"""Starting a program as the container runtime does."""

from __future__ import annotations

from collections.abc import Mapping

from kubesim.shell.files import View
from kubesim.shell.handles import Stdio
from kubesim.shell.machine import DEFAULT_PATH, Machine, Process
from kubesim.shell.programs import find
from kubesim.shell.terminal import Terminal
from kubesim.shell.tools.users import home_of, name_of


def spawn(
    machine: Machine,
    argv: list[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: str = "/",
    stdio: Stdio | None = None,
) -> Process:
    """Start a program as the container runtime does; the first of a machine is its PID 1.

    Raises StartError with the runtime's words where there is no such program, it may not run or is for another
    platform.
    """
    stdio = stdio or Stdio()
    whole = {"PATH": DEFAULT_PATH, "HOSTNAME": machine.hostname, **machine.env, **(env or {})}
    if stdio.tty:
        whole.setdefault("TERM", "xterm")
    view = View(machine.files, machine.now, cwd, machine.uid, machine.gid)
    whole.setdefault("HOME", home_of(view, name_of(view, machine.uid)) if machine.uid else "/root")
    program = find(view, argv, whole["PATH"], runtime=True)
    terminal = Terminal(stdio) if stdio.tty else None
    process = Process(machine, program, whole, view, stdio.handles(terminal))
    if terminal:
        process.terminal = terminal
        terminal.attach(machine, process)
    return process.start(machine.tools[program.tool])
