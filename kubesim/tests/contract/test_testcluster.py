"""The script that starts a real control plane, with programs of paper in its place: what it starts, it stops."""

import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.testcluster import testcluster
from kubesim.tests.contract.test_real_programs import eventually

SCRIPT = Path(__file__).parents[3] / "deploy" / "testcluster" / "testcluster.py"
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")


pytestmark = pytest.mark.skipif(not Path("/proc/self").exists(), reason="reads /proc to see what runs")


@pytest.fixture
def binaries(tmp_path):
    """A folder of programs that do nothing but stay."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in PROGRAMS:
        (folder / name).write_text(f"#!{sys.executable}\nimport signal\nsignal.pause()\n")
        (folder / name).chmod(0o755)
    return folder


def command(folder, *arguments):
    return [sys.executable, str(SCRIPT), *arguments, "--folder", str(folder)]


def run(folder, *arguments):
    return subprocess.run(command(folder, *arguments), capture_output=True, text=True, timeout=30, check=False)


def running(folder):
    """Return the numbers of the programs that run for a folder, by name."""
    return testcluster.Testcluster(folder, Path()).running()


@pytest.fixture
def started(tmp_path, binaries):
    """A cluster whose start waits for an API server that never answers, and the process that starts it."""
    folder = tmp_path / "cluster"
    with subprocess.Popen(command(folder, "up", "--bin", str(binaries)), stderr=subprocess.PIPE) as start:
        eventually(lambda: len(running(folder)) == 2, "the API server's start")
        yield folder, start
        start.kill()
    testcluster.Testcluster(folder, Path()).down()


def test_what_a_killed_start_has_left_running_is_stopped(started):
    folder, start = started
    start.send_signal(signal.SIGKILL)
    start.wait()
    assert list(running(folder)) == ["etcd", "kube-apiserver"]
    assert run(folder, "down").returncode == 0
    assert running(folder) == {}


def test_a_start_that_is_asked_to_end_stops_what_it_has_started(started):
    folder, start = started
    start.terminate()
    assert start.wait(60) == 130
    assert running(folder) == {}


def test_what_runs_is_found_when_its_folder_is_gone(started):
    folder, start = started
    start.kill()
    start.wait()
    shutil.rmtree(folder)
    assert len(running(folder)) == 2
    assert run(folder, "down").returncode == 0
    assert running(folder) == {}


def test_stopping_waits_for_a_start_that_is_under_way(started, binaries):
    folder, start = started
    with subprocess.Popen(command(folder, "down")) as stop:
        eventually(lambda: f"lock: {stop.pid}" in waiting_for_locks(), "the wait of the stop")
        assert len(running(folder)) == 2
        start.terminate()
        assert stop.wait(60) == 0
    assert running(folder) == {}


def waiting_for_locks():
    """Return "lock: PID" for each process that waits for a lock on a file."""
    lines = Path("/proc/locks").read_text().splitlines()
    return [f"lock: {line.split()[5]}" for line in lines if "->" in line]


def test_a_program_that_does_not_heed_the_request_to_end_is_ended():
    deaf = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint(flush=True)\nsignal.pause()"
    with subprocess.Popen([sys.executable, "-c", deaf], stdout=subprocess.PIPE) as program:
        program.stdout.readline()
        testcluster.end(program.pid, seconds=0.1)
        assert program.wait(60) == -signal.SIGKILL


def test_other_programs_that_speak_of_the_folder_are_left_alone(tmp_path, binaries):
    folder = tmp_path / "cluster"
    folder.mkdir()
    (folder / "testcluster").touch()
    (folder / "etcd.log").touch()
    with subprocess.Popen(["tail", "-f", str(folder / "etcd.log")]) as reader:
        testcluster.Testcluster(folder, Path()).down()
        assert reader.poll() is None
        reader.terminate()


def test_a_program_that_ends_at_once_is_told_with_its_last_words(tmp_path, binaries):
    (binaries / "kube-apiserver").write_text("#!/bin/sh\necho this port is mine >&2\nexit 1\n")
    done = run(tmp_path / "cluster", "up", "--bin", str(binaries))
    assert done.returncode == 1
    assert "the API server did not get ready" in done.stderr
    assert "this port is mine" in done.stderr


def test_a_program_that_is_missing_is_named(tmp_path, binaries):
    (binaries / "kwok").unlink()
    done = subprocess.run(
        command(tmp_path / "cluster", "up", "--bin", str(binaries)),
        capture_output=True, text=True, env={"PATH": "/nowhere"}, timeout=30, check=False,
    )  # fmt: skip
    assert done.stderr.startswith(f"error: kwok is neither in {binaries} nor on PATH. Run: make testcluster")


def test_a_port_that_is_taken_is_told(tmp_path, binaries):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = run(tmp_path / "cluster", "up", "--bin", str(binaries), "--port", port)
    assert done.stderr == f"error: port {port}: Address already in use; choose another with --port\n"


def test_a_folder_of_somebody_else_is_left_alone(tmp_path, binaries):
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "dear").touch()
    done = run(tmp_path / "letters", "up", "--bin", str(binaries))
    assert "holds other things; choose another folder with --folder" in done.stderr
    assert (tmp_path / "letters" / "dear").exists()
    assert run(tmp_path / "letters", "kubeconfig").returncode == 1
