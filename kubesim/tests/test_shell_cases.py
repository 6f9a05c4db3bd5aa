"""The emulated shell and its tools say what the real ones say, script by script."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from kubesim import data
from kubesim.tests import shell_world

CASES = data.read(Path(__file__).with_name("shell_cases.yaml"))
SHELLS = ("bash", "dash", "ash")
REAL = {"bash": ("bash", "5.2"), "dash": ("dash", ""), "ash": ("busybox", "v1.35")}


def expected(dialect):
    for case in CASES:
        for says in case["says"]:
            if dialect in says["shells"].split():
                yield case["script"], (says["out"], says.get("status", 0))


@pytest.mark.parametrize("dialect", SHELLS)
async def test_scripts_print_what_the_real_shell_prints(dialect):
    wrong = []
    for script, want in expected(dialect):
        got = await shell_world.run(script, dialect)
        if got != want:
            wrong.append((script, want, got))
    assert wrong == []


def applets(busybox, folder):
    """Make the programs that a BusyBox image has."""
    names = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split()
    for name in names:
        (folder / name).symlink_to(busybox)
    return str(folder)


@pytest.mark.parametrize("dialect", SHELLS)
def test_the_written_down_answers_are_the_real_shells(dialect, tmp_path):
    name, version = REAL[dialect]
    program = shutil.which(name)
    if not program:
        pytest.skip(f"no {name} on this machine")
    told = subprocess.run([program, "--version" if name == "bash" else "--help"], capture_output=True, text=True)
    if version not in told.stdout + told.stderr:
        pytest.skip(f"another version of {name} on this machine")
    (tmp_path / "bin").mkdir()
    path = applets(program, tmp_path / "bin") if dialect == "ash" else "/usr/bin:/bin"
    wrong = []
    for number, (script, want) in enumerate(expected(dialect)):
        if "sleep" in script or "awk" in script:
            continue  # slow, or another awk
        folder = Path("/tmp") / f"shell-case-{os.getpid()}-{number}"
        folder.mkdir()
        done = subprocess.run(
            ["bash" if dialect == "bash" else "sh", "-c", script],
            executable=program, cwd=folder, env={"PATH": path, "HOME": "/root"}, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60,
        )  # fmt: skip
        shutil.rmtree(folder)
        if (done.stdout.decode("utf-8", "replace"), done.returncode) != want:
            wrong.append(script)
    # Some answers depend on the machine: its user, its tools' versions. Most must be the same everywhere.
    assert len(wrong) <= 8, wrong


def test_a_case_needs_no_real_shell():
    assert asyncio.run(shell_world.run("echo hi", "ash")) == ("hi\n", 0)
