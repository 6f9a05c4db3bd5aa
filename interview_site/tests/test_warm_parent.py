"""Processes forked from a warmed parent: the same to the supervisor as those it starts itself."""

from __future__ import annotations

import os
import queue
import signal
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

from conftest import ROOT, wait_until
from interview_site import env, warm_parent
from interview_site.commands import Command
from interview_site.supervisor import RestartingProcess
from interview_site.warm_children import LOST, NoWarmParent, WarmParent

pytestmark = pytest.mark.skipif(not warm_parent.is_supported(), reason="only Linux forks from a warmed parent")

PARENT = """
import os, socket, sys
import django
django.setup()
from interview_site import warm_parent
warm_parent.MODULES, warm_parent.TEMPLATES = (), ()
warm_parent.serve(socket.socket(fileno=int(sys.argv[1])))
os._exit(0)
"""
IMPORTS = """
import sys
import django
django.setup()
from interview_site import warm_parent
warm_parent._import_everything()
print(*sys.modules)
"""
NEEDED_BY_NO_PROCESS = {"prompt_toolkit", "rich", "typer", "websockets.legacy"}
NEEDED_BY_ONE_PAGE = {"typst"}
SLEEPER = "import signal, sys\nprint('up', sys.argv, flush=True)\nsignal.pause()\n"


@contextmanager
def warmed():
    """Run a warmed parent that has imported next to nothing; yield it with the channel to it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    process = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(theirs.fileno())], pass_fds=[theirs.fileno()], cwd=ROOT
    )
    theirs.close()
    process.warm = WarmParent(ours)
    yield process
    ours.shutdown(socket.SHUT_RDWR)
    process.wait(timeout=60)
    ours.close()


@pytest.fixture(scope="module")
def parent():
    """One warmed parent for all tests but those that end it."""
    with warmed() as process:
        yield process


@pytest.fixture
def doomed():
    """A warmed parent that the test may kill."""
    with warmed() as process:
        yield process


def script(folder: Path, text: str) -> list[str]:
    path = folder / "script.py"
    path.write_text(text)
    return [sys.executable, "-W", "ignore", str(path), "--flag"]


def finished(child) -> tuple[str, int]:
    with child.stdout as output:
        return output.read().decode(), child.wait()


def test_nothing_is_imported_that_no_process_needs():
    """Each megabyte of these is held four times over once the processes have changed its pages."""
    command = [sys.executable, "-W", "ignore", "-c", IMPORTS]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    assert "django" in found
    assert not (NEEDED_BY_NO_PROCESS | NEEDED_BY_ONE_PAGE).intersection(found)


@pytest.mark.parametrize(("text", "code"), [("", 0), ("raise SystemExit(3)", 3), ("raise SystemExit('no')", 1)])
def test_a_forked_process_ends_with_its_own_status(parent, tmp_path, text, code):
    assert finished(parent.warm.start(script(tmp_path, f"print('hello')\n{text}")))[1] == code


def test_a_forked_process_prints_where_its_supervisor_reads(parent, tmp_path):
    text = "import os, sys\nprint(sys.argv[1:], os.getsid(0) == os.getpid())\nprint('oops', file=sys.stderr)\n"
    assert finished(parent.warm.start(script(tmp_path, text))) == ("['--flag'] True\noops\n", 0)


def test_a_traceback_is_printed_and_the_status_is_1(parent, tmp_path):
    output, code = finished(parent.warm.start(script(tmp_path, "1 / 0\n")))
    assert "ZeroDivisionError" in output
    assert code == 1


def test_a_forked_process_can_be_asked_to_stop_and_is_listed_by_its_own_command(parent, tmp_path):
    child = parent.warm.start(script(tmp_path, SLEEPER))
    assert child.stdout.readline().startswith(b"up")
    assert "script.py --flag" in Path(f"/proc/{child.pid}/cmdline").read_bytes().decode()
    os.killpg(child.pid, signal.SIGTERM)
    assert finished(child)[1] == -signal.SIGTERM


def test_the_children_of_a_killed_parent_end_and_nobody_waits_for_their_status(doomed, tmp_path):
    child = doomed.warm.start(script(tmp_path, SLEEPER))
    child.stdout.readline()
    doomed.kill()
    assert finished(child)[1] == LOST
    with pytest.raises(NoWarmParent):
        doomed.warm.start(script(tmp_path, SLEEPER))
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as bystander:
        wait_until(lambda: not Path(f"/proc/{child.pid}").exists(), bystander, seconds=20)
        bystander.communicate()


def test_the_title_leaves_the_environment_to_the_libraries():
    code = (
        "import ctypes, os, sys\nfrom interview_site import env, warm_parent\n"
        "warm_parent.set_title(['x' * 300])\n"
        "get = ctypes.CDLL(None).getenv; get.restype = ctypes.c_char_p\n"
        "print(get(b'MARK').decode(), open('/proc/self/cmdline').read().count('x'))\n"
    )
    environment = {**dict.fromkeys(("FILLER", "MORE"), "y" * 300), "MARK": "kept", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60)
    assert done.stdout == "kept 300\n", done.stderr


def test_importing_what_processes_share_starts_no_thread_and_opens_nothing(tmp_path):
    code = (
        "import django; django.setup()\nfrom interview_site import warm_parent\nimport os\n"
        "warm_parent._import_everything()\n"
        "links = [os.readlink(f'/proc/self/fd/{n}') for n in os.listdir('/proc/self/fd') if int(n) > 2 and "
        "os.path.exists(f'/proc/self/fd/{n}')]\n"
        "print([link for link in links if 'socket' in link or 'sqlite' in link])\n"
    )
    environment = {"DJANGO_SETTINGS_MODULE": "interview_site.settings", "DATA_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "[]\n", done.stderr


def test_the_supervisor_knows_no_django():
    code = "import sys, interview_site.supervisor; print('django' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout == "False\n", done.stderr


def test_variables_are_given_to_c_unchanged(monkeypatch):
    monkeypatch.setenv("MARK", "ü")
    env.copy_for_c()
    assert os.environ["MARK"] == "ü"


def test_without_its_parent_a_process_is_started_by_the_supervisor_itself(doomed, tmp_path):
    doomed.kill()
    doomed.wait()
    command = Command("web", script(tmp_path, "print('by itself')"), forked=True)
    process = RestartingProcess(command.shell, name="web", stopping=threading.Event(), pauses=())
    process.warm = doomed.warm
    events = queue.Queue()
    process.run(events)
    assert [message.data for message in events.queue] == [b"by itself\n", {"returncode": 0}]
