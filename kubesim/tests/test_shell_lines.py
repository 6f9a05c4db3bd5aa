"""What people type at a shell does there what the host's bash and tools do with it, in folders of their own."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from kubesim.tests import shell_world

LINES = [line for line in Path(__file__).with_name("shell_lines.txt").read_text().splitlines() if line[:1] != "#"]
TOOLS = ("bash", "jq")


def _missing():
    """Say what this host lacks of the tools that the shell is to be like."""
    absent = [name for name in TOOLS if shutil.which(name) is None]
    if not absent:
        versions = ["bash", "--version"], ["ls", "--version"]
        told = [subprocess.run(words, capture_output=True, text=True, check=False).stdout for words in versions]
        absent += [] if "version 5.2" in told[0] else ["bash 5.2"]
        absent += [] if "(GNU coreutils)" in told[1] else ["GNU coreutils"]
    return absent


MISSING = _missing()


def _on_the_host(line, folder):
    """Return what the host's bash prints, output and errors together, and its status."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "LC_ALL": "C", "TZ": "UTC"}
    words = ["env", "--default-signal=INT", "bash", "-c", line]  # what is ignored at first cannot be trapped
    done = subprocess.run(
        words, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    return (done.stdout + done.stderr).decode("utf-8", "replace"), done.returncode


async def _emulated(line):
    made = shell_world.machine("toolbox")
    out, err = shell_world.Screen(), shell_world.Screen()
    stdio = shell_world.Stdio(None, out, err)
    env = {"HOME": shell_world.FOLDER, "LC_ALL": "C", "TZ": "UTC"}
    process = shell_world.spawn(made, ["bash", "-c", line], cwd=shell_world.FOLDER, env=env, stdio=stdio)
    try:
        return out, err, await asyncio.wait_for(process.wait(), 20)
    finally:
        made.stop()


@pytest.mark.skipif(bool(MISSING), reason=f"no {' and no '.join(MISSING)} here to compare with")
@pytest.mark.parametrize("line", LINES, ids=[f"{at}-{line[:30]}" for at, line in enumerate(LINES)])
def test_a_line_does_what_it_does_on_the_host(line, tmp_path):
    wanted = _on_the_host(line, tmp_path)
    out, err, status = asyncio.run(_emulated(line))
    shown = (out.text + err.text, status)
    assert tuple(map(str, shown)) == tuple(map(str, wanted))
