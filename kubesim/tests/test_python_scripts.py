"""Training and inference scripts, written by somebody who did not write the libraries, log what their heads expect.

A head says ``expect`` and ``error`` (lines of standard output and error that there are), ``absent``, ``exit``,
``file`` (a path and what is in it), and where they differ ``image``, ``gpus`` and ``argv``.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from kubesim.tests.containers import log, state
from kubesim.tests.test_gpu_containers import PYTORCH
from kubesim.tests.world import container, pod, world

FOLDER = Path(__file__).parent / "python" / "scripts"
SCRIPTS = sorted(FOLDER.glob("*.py"))
MAX_S = 120


def head(text):
    """Return what a script's first comments say, by key."""
    found: dict[str, list[str]] = {}
    for key, value in re.findall(r"^# (\w+): (.*)$", text, re.MULTILINE):
        found.setdefault(key, []).append(value)
    return found


async def played(text, name, wanted):
    """Return the log of a script in a GPU pod, how it ended, and the files that the head names."""
    image, gpus = wanted.get("image", [PYTORCH])[0], wanted.get("gpus", ["1"])[0]
    argv = wanted.get("argv", ["python -u {script}"])[0].format(script=f"/scripts/{name}").split()
    files = [each.partition(": ")[0] for each in wanted.get("file", ())]
    if files:  # what a container leaves is gone with it
        argv = ["sh", "-c", f"{' '.join(argv)}; status=$?; cat {' '.join(files)} >/dev/termination-log; exit $status"]
    async with world(count=1, present=(image,)) as w:
        await w.create("configmaps", {"metadata": {"name": "scripts"}, "data": {name: text}})
        limits = {"limits": {"nvidia.com/gpu": gpus}} if gpus != "0" else {}
        main = container(image, *argv, resources=limits, volumeMounts=[{"name": "scripts", "mountPath": "/scripts"}])
        volumes = [{"name": "scripts", "configMap": {"name": "scripts"}}]
        await w.create("pods", pod("play", main, volumes=volumes, restartPolicy="Never"))
        async with asyncio.timeout(MAX_S):  # what computes for long in its thread outlasts any number of ticks
            while "terminated" not in (now := state(await w.pod("play"))["state"]):
                await w.tick(2)
                await asyncio.sleep(0.005)
        return log(w, "play"), now["terminated"]


@pytest.mark.parametrize("path", SCRIPTS, ids=[each.stem for each in SCRIPTS])
async def test_a_script_logs_what_its_author_expects(path):
    text = path.read_text("utf-8")
    wanted = head(text)
    shown, ended = await played(text, path.name, wanted)
    lines = shown.splitlines()
    missing = [each for key in ("expect", "error") for each in wanted.get(key, ()) if not any(
        re.search(each, line) for line in lines)]  # fmt: skip
    missing += [f"in {each}" for each in wanted.get("file", ()) if not re.search(
        each.partition(": ")[2], ended.get("message", ""))]  # fmt: skip
    surplus = [line for each in wanted.get("absent", ()) for line in lines if re.search(each, line)]
    assert (missing, surplus, ended["exitCode"]) == ([], [], int(wanted.get("exit", ["0"])[0])), shown


def test_every_script_expects_something():
    assert len(SCRIPTS) == 20
    assert all(head(path.read_text("utf-8")).keys() & {"expect", "error"} for path in SCRIPTS)
