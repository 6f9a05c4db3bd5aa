"""Small programs and sessions at the prompt print in a container what CPython prints on the host."""

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from kubesim.shell.files import Directory, View
from kubesim.shell.handles import Bytes, Outside
from kubesim.shell.machine import Process
from kubesim.shell.programs import find
from kubesim.tests import shell_world

FOLDER = Path(__file__).parent / "python"
RUNNER = FOLDER / "on_the_host.py"
VERSION = ".".join(map(str, sys.version_info[:3]))
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": "/root", "LANG": "C.UTF-8"}
EVERY = 1 if "TORTURE_ROUNDS" in os.environ else 3
"""`make test` runs every third program, `make torture` all of them."""
THEMES = ("strings", "files", "exceptions", "objects", "processes")
WORDS = yaml.safe_load((FOLDER / "differences.yaml").read_text("utf-8"))
PLACE = r"(?:<frozen |[^\"\n]*/(?:python3\.|on_the_host))[^\"\n]*"
LIBRARY = re.compile(rf'^( *[|+ ]*)  File "{PLACE}", line .*\n(?:\1    .*\n)*', re.M)
COMPREHENSION = re.compile(r'^  File ".*", line \d+, in <(?:list|dict|set)comp>\n(?:    .*\n)*', re.M)


def programs(theme):
    return yaml.safe_load((FOLDER / f"{theme}.yaml").read_text("utf-8"))


def compared(text):
    """Return what of a text does not depend on the version, the machine or the moment."""
    text = COMPREHENSION.sub("", LIBRARY.sub("", text))
    text = re.sub(r"\b0x[0-9a-f]{5,}", "0x", text).replace(sys.executable, "/usr/bin/python3")
    text = re.sub(r"[^ (\"']*/python3\.\d+/", "/usr/lib/python3/", text)
    text = re.sub(r"repeated \d+ more times", "repeated", text)
    for before, now in WORDS:
        for each in sorted((before, now), key=len, reverse=True):
            text = text.replace(each, f"<{hash(now)}>")
    return text


async def ran(made, words, given=b"", *, together=False):
    """Return what a program prints on both streams, and its status."""
    made.files.walk("/tmp").node.put("w", Directory())
    out = shell_world.Screen()
    err = out if together else shell_world.Screen()
    view = View(made.files, made.now, "/tmp/w")
    fds = {0: Bytes(given), 1: Outside(writer=out), 2: Outside(writer=err)}
    environment = {**ENVIRONMENT, "PYTHON_VERSION": VERSION}
    process = Process(made, find(view, ["python3", *words], "/usr/bin"), environment, view, fds)
    process.start(made.tools[process.program.tool])
    status = await asyncio.wait_for(process.wait(), 60)
    return [compared(out.text), compared(err.text), status]


def on_the_host(sources):
    words = [sys.executable, "-I", str(RUNNER)]
    done = subprocess.run(
        words, input=json.dumps(sources), capture_output=True, text=True, check=True, env=ENVIRONMENT
    )
    return [[compared(out), compared(err), status] for out, err, status in json.loads(done.stdout)]


def told(result):
    """Return what is compared with this host's Python: the wording of errors is that of 3.11."""
    return result if VERSION.startswith("3.11.") else [result[0], result[2]]


@pytest.mark.parametrize("theme", [pytest.param(theme, id=f"{theme}, one of {EVERY}") for theme in THEMES])
async def test_programs_print_what_cpython_prints_on_the_host(theme):
    made, different, sources = shell_world.machine("toolbox"), [], programs(theme)[::EVERY]
    for source, expected in zip(sources, on_the_host(sources), strict=True):
        if told(got := await ran(made, ["-c", source])) != told(expected):
            different.append((source, expected, got))
    assert different == []


async def test_sessions_at_the_prompt_print_what_cpython_prints_on_the_host(tmp_path):
    made, different = shell_world.machine("toolbox"), []
    words = [sys.executable, "-I", "-q", "-i"]
    for at, session in enumerate(programs("prompt")[::EVERY]):
        place = tmp_path / str(at)
        place.mkdir()
        host = subprocess.run(
            words,
            input=session,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=place,
            env=ENVIRONMENT,
        )
        got = await ran(made, ["-q", "-i"], session.encode(), together=True)
        expected = [compared(host.stdout), "", host.returncode]
        if VERSION.startswith("3.11.") and [got[0], "", got[2]] != expected or got[2] != host.returncode:
            different.append((session, expected, got))
    assert different == []


def test_there_are_three_hundred_different_programs():
    sources = [each for theme in (*THEMES, "prompt") for each in programs(theme)]
    assert len(set(sources)) == len(sources) >= 300
