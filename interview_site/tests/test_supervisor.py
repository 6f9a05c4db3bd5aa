"""A process that dies is started again; one that is asked to stop ends in good order; nothing is left behind."""

import fcntl
import io
import os
import queue
import signal
import subprocess
import sys
import termios
import threading

import pytest

from conftest import wait_until
from interview_site import supervisor
from interview_site.commands import Command
from interview_site.supervisor import Outlet, RestartingProcess, Supervisor


def run(script, pauses=(0.0, 0.0), stopping=None):
    process = RestartingProcess(
        f"exec {sys.executable} -c '{script}'", name="p", stopping=stopping or threading.Event(), pauses=pauses
    )
    events = queue.Queue()
    process.run(events)
    return [(message.type, message.data) for message in events.queue]


@pytest.mark.parametrize("code", [0, 1, 137])
def test_a_process_that_ends_by_itself_is_started_again_and_in_the_end_given_up(code):
    seen = run(f"raise SystemExit({code})")
    assert seen == [("line", f"ended with {code}; starting it again\n".encode())] * 2 + [
        ("stop", {"returncode": code})
    ]


def test_a_process_that_once_stayed_up_is_never_given_up(monkeypatch):
    monkeypatch.setattr(supervisor, "STAYED_UP_S", -1.0)
    stopping = threading.Event()
    process = RestartingProcess("exit 1", name="p", stopping=stopping, pauses=(0.0,))
    events = queue.Queue()
    thread = threading.Thread(target=process.run, args=(events,))
    thread.start()
    starts = [events.get(timeout=60).type for _ in range(10)]
    stopping.set()
    thread.join(timeout=60)
    assert starts == ["line"] * 10
    assert not thread.is_alive()


def test_nothing_is_started_after_the_end():
    stopping = threading.Event()
    stopping.set()
    assert run("print(1)", stopping=stopping) == [("stop", {"returncode": 0})]


def test_a_closed_terminal_stops_no_output():
    class Closed(io.StringIO):
        def write(self, text):
            raise OSError(5, "Input/output error")

    outlet = Outlet(Closed())
    print("line", file=outlet, flush=True)


def test_lines_are_written_in_one_piece():
    class Counting(io.StringIO):
        writes = 0

        def write(self, text):
            self.writes += 1
            return super().write(text)

    stream = Counting()
    print("a line", file=Outlet(stream), flush=True)
    assert (stream.getvalue(), stream.writes) == ("a line\n", 1)


PROGRAM = """
import sys
from interview_site.commands import Command
from interview_site.supervisor import Supervisor

sleeper = "import os, signal; print(os.getpid(), flush=True); signal.pause()"
commands = [Command(name, [sys.executable, "-c", sleeper]) for name in ("redis", "web")]
supervisor = Supervisor(commands, ".")
supervisor.loop()
sys.exit(supervisor.returncode)
"""


@pytest.fixture
def program():
    """A supervisor with two processes; ends it where a test has not."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # also where the tests run under nohup
    )
    yield process
    if process.poll() is None:
        process.kill()
    process.communicate()


def pids_of(process):
    return [int(process.stdout.readline().split("|")[1]) for _ in range(2)]


def gone(pids):
    return not any(os.path.exists(f"/proc/{pid}") for pid in pids)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_every_way_to_ask_ends_it_all(program, number):
    pids = pids_of(program)
    program.send_signal(number)
    rest, _ = program.communicate(timeout=60)
    assert program.returncode == 0
    assert rest == "Stopping everything ...\n"
    assert gone(pids) or not sys.platform.startswith("linux")


LEADER = """
import signal, subprocess, sys

signal.signal(signal.SIGHUP, lambda *_: None)  # as make, which waits for its children
subprocess.call([sys.executable, "-c", sys.argv[1]])
"""


def test_a_closed_terminal_ends_it_all(tmp_path):
    terminal, ours = os.openpty()
    with (tmp_path / "out").open("w") as out:
        leader = subprocess.Popen(
            [sys.executable, "-c", LEADER, PROGRAM],
            stdin=ours,
            stdout=out,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
    os.close(ours)
    wait_until(lambda: (tmp_path / "out").read_text().count("|") == 2, leader)
    os.close(terminal)
    assert leader.wait(timeout=60) == 0
    assert (tmp_path / "out").read_text().endswith("Stopping everything ...\n")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux ends the children of a killed process")
def test_a_killed_supervisor_leaves_no_orphan(program):
    pids = pids_of(program)
    program.kill()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as bystander:
        wait_until(lambda: gone(pids), bystander, seconds=20)
        bystander.communicate()


def test_a_killed_process_is_started_again(program):
    first, _ = pids_of(program)
    os.kill(first, signal.SIGKILL)
    lines = [program.stdout.readline() for _ in range(2)]
    assert "ended with -9; starting it again" in lines[0]
    assert int(lines[1].split("|")[1]) != first


def test_one_that_does_not_stay_up_ends_all(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(supervisor, "PAUSES", ())
    monkeypatch.setattr(supervisor, "ASKS_TO_STOP", ())
    commands = [
        Command("redis", [sys.executable, "-c", "import signal; signal.pause()"]),
        Command("web", [sys.executable, "-c", "raise SystemExit('port taken')"]),
    ]
    found = Supervisor(commands, str(tmp_path))
    found._processes["web"]["obj"].pauses = ()
    found.loop()
    out = capsys.readouterr().out
    assert found.returncode == 1
    assert "web      | port taken" in out or "port taken" in out
    assert "web does not stay up; its last lines say why." in out
