"""The script that starts a real control plane, with programs of paper in its place: what it starts, it stops."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

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


def alive(pid):
    """Tell whether a process runs; one that has ended may still be listed, because nobody has asked how."""
    noted = Path(f"/proc/{pid}/cmdline")
    return noted.exists() and bool(noted.read_text())


def test_what_a_killed_start_has_left_running_is_stopped(tmp_path, binaries):
    folder = tmp_path / "cluster"
    start = subprocess.Popen(command(folder, "up", "--bin", str(binaries)))
    noted = folder / "kube-apiserver.pid"
    eventually(lambda: noted.exists() and noted.read_text(), "the API server's start")
    start.send_signal(signal.SIGKILL)
    start.wait()
    pids = [int((folder / f"{name}.pid").read_text()) for name in PROGRAMS[:2]]
    assert all(map(alive, pids))
    assert run(folder, "down").returncode == 0
    assert not any(map(alive, pids))
    assert run(folder, "status").returncode == 1


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
