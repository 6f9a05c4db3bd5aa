"""What is typed at an interactive shell looks there as at the host's bash: history, words of it, jobs."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from kubesim import data
from kubesim.clock import RealClock
from kubesim.shell.machine import Stdio
from kubesim.shell.spawn import spawn
from kubesim.tests import shell_world
from kubesim.tests.shell_world import Keys, Screen

SESSIONS = data.read(Path(__file__).with_name("shell_typed.yaml"))
PROMPT = "@@ "
LONGEST_S = 60.0


def _missing():
    told = subprocess.run(["bash", "--version"], capture_output=True, text=True, check=False).stdout
    return shutil.which("bash") is None or "version 5.2" not in told


def _read(terminal):
    """Return what comes until the next prompt."""
    text, end = "", time.monotonic() + LONGEST_S
    while not text.endswith(PROMPT) and time.monotonic() < end:
        if select.select([terminal], [], [], 0.1)[0]:
            text += os.read(terminal, 65_536).decode("utf-8", "replace")
    return text


def _on_the_host(lines, folder):
    """Type lines at the host's bash; returns what each shows."""
    ours, theirs = pty.openpty()
    environment = {
        "HOME": str(folder),
        "PATH": os.environ["PATH"],
        "PS1": PROMPT,
        "TERM": "dumb",
        "LC_ALL": "C.UTF-8",
    }
    environment |= {"HISTFILE": str(folder / "history"), "INPUTRC": os.devnull}
    shell = subprocess.Popen(
        ["setsid", "--ctty", "bash", "--norc", "--noprofile", "-i"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=folder,
        env=environment,
        start_new_session=True,
    )
    os.close(theirs)
    found = []
    try:
        _read(ours)
        for line in ["bind 'set enable-bracketed-paste off' 2>/dev/null", "history -c", *lines]:
            os.write(ours, f"{line}\r".encode())
            found.append(_read(ours))
    finally:
        shell.send_signal(signal.SIGHUP)
        shell.kill()
        shell.wait()
        os.close(ours)
    return found[2:]


async def _emulated(lines):
    keys, screen = Keys(), Screen()
    machine = shell_world.machine("toolbox", RealClock())
    environment = {"PS1": PROMPT, "HOME": "/tmp/w"}
    spawn(machine, ["bash"], cwd="/tmp/w", env=environment, stdio=Stdio(keys, screen, screen, tty=True))
    await screen.shows(PROMPT)
    found = []
    for line in ["history -c", *lines]:
        start = len(screen.text)
        keys.type(f"{line}\r")
        async with asyncio.timeout(LONGEST_S):
            while not screen.text[start:].endswith(f"\n{PROMPT}"):
                screen.grown.clear()
                await screen.grown.wait()
        found.append(screen.text[start:])
    machine.stop()
    await asyncio.sleep(0)
    return found[1:]


def _plain(text):
    """Return what a screen shows without what no two shells share: the numbers of processes."""
    text = re.sub(r"(?m)^(\[\d+\]) \d+$", r"\1 PID", text.replace("\r\n", "\n").replace("\r", ""))
    return re.sub(r"(?m)^echo (\d) \d+$", r"echo \1 PID", text)


@pytest.mark.skipif(_missing(), reason="the host has no bash 5.2 to compare with")
@pytest.mark.parametrize("name", SESSIONS)
async def test_a_session_shows_what_the_hosts_bash_shows(name, tmp_path):
    lines = SESSIONS[name]
    theirs = await asyncio.to_thread(_on_the_host, lines, tmp_path)
    ours = await _emulated(lines)
    pairs = zip(lines, map(_plain, ours), map(_plain, theirs), strict=True)
    assert [trio for trio in pairs if trio[1] != trio[2]] == []


@pytest.fixture
async def typed():
    keys, screen = Keys(), Screen()
    machine = shell_world.machine("toolbox", RealClock())
    environment = {"PS1": PROMPT, "HOME": "/tmp/w"}
    spawn(machine, ["bash"], cwd="/tmp/w", env=environment, stdio=Stdio(keys, screen, screen, tty=True))
    await screen.shows(PROMPT)

    async def does(text, shows):
        start = len(screen.text)
        keys.type(text)
        await screen.shows(shows.replace("\n", "\r\n"), start)

    yield does
    machine.stop()
    await asyncio.sleep(0)


async def test_what_has_been_stopped_takes_no_keys_from_the_shell(typed):
    await typed("cat\r", "cat\n")
    await typed("hello\r", "hello\nhello\n")
    await typed("\x1a", "^Z\n[1]+  Stopped                 cat\n@@ ")
    await typed("jobs\r", "[1]+  Stopped                 cat\n@@ ")
    await typed("fg\r", "fg\ncat\n")
    await typed("again\r", "again\nagain\n")
    await typed("\x03", "^C\n@@ ")


async def test_what_reads_the_terminal_from_the_background_is_stopped(typed):
    await typed("cat &\r", "@@ ")
    await typed("true\r", "[1]+  Stopped                 cat\n@@ ")
    await typed("kill %1; wait %1\r", "[1]+  Terminated              cat\n@@ ")


LONG = "sh -c 'echo on; sleep 1000'"


async def test_a_stopped_job_goes_on_in_the_background_and_comes_back(typed):
    await typed(f"{LONG}\r", "\non\n")
    await typed("\x1a", f"[1]+  Stopped                 {LONG}\n@@ ")
    await typed("bg\r", f"[1]+ {LONG} &\n@@ ")
    await typed("bg\r", "bash: bg: job 1 already in background\n@@ ")
    await typed("kill -STOP %1\r", "@@ ")
    await typed("true\r", f"[1]+  Stopped                 {LONG}\n@@ ")
    await typed("%1 &\r", f"[1]+ {LONG} &\n@@ ")
    await typed("kill %sh; wait\r", f"[1]+  Terminated              {LONG}\n@@ ")


async def test_a_shell_with_stopped_jobs_is_left_at_the_second_try(typed):
    await typed(f"{LONG}\r", "\non\n")
    await typed("\x1a", "@@ ")
    await typed("exit\r", "exit\nThere are stopped jobs.\n@@ ")
    await typed("echo still here\r", "still here\n@@ ")
    await typed("exit\r", "There are stopped jobs.\n@@ ")
    await typed("exit\r", "exit\nexit\n")
