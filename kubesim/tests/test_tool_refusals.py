"""Tools that are given rubbish refuse it in the words of the host's coreutils, findutils and grep."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from kubesim.tests import shell_world
from kubesim.tests.test_shell_lines import _emulated, _on_the_host

LINES = [line for line in Path(__file__).with_name("shell_refusals.txt").read_text().splitlines() if line[:1] != "#"]
VERSIONS = {"ls": "(GNU coreutils) 9.1", "xargs": "(GNU findutils) 4.9", "grep": "(GNU grep) 3.8"}


def _missing():
    """Say which of the tools, of the versions that the words are of, this host lacks."""
    absent = [name for name in VERSIONS if shutil.which(name) is None]
    for name, version in VERSIONS.items():
        if name not in absent:
            told = subprocess.run([name, "--version"], capture_output=True, text=True, check=False).stdout
            absent += [] if version in told else [f"{name} {version}"]
    return absent


MISSING = _missing()


@pytest.mark.skipif(bool(MISSING), reason=f"the host lacks {', '.join(MISSING)}")
@pytest.mark.parametrize("line", LINES)
async def test_a_tool_refuses_what_the_hosts_refuses(line, tmp_path):
    theirs = _on_the_host(line, tmp_path)
    out, err, status = await _emulated(line)
    assert (out.text + err.text, status) == theirs


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("sort -k x", "sort: invalid field specification 'x'\n"),
        ("sort -k 1,x", "sort: invalid field specification '1,x'\n"),
        ("cut -f 0", "cut: invalid field value '0'\n"),
        ("cut -c 1,,2", "cut: invalid byte or character position '1,,2'\n"),
        ("xargs -n 0", 'xargs: invalid number "0" for -n option\n'),
        ("tr '[:nosuch:]' a", "tr: invalid character class 'nosuch'\n"),
        ("dd bs=x", "dd: invalid number: 'x'\n"),
        ("grep -m x a", "grep: invalid max count\n"),
        ("awk 'BEGIN { NF = 2 ^ 1024 }'", "awk: attempt to access field inf\n"),
        ("awk 'BEGIN { getline x }'", "awk: line 1: syntax error at or near getline\n"),
        ("awk 'function f(x) { return x }'", "awk: line 1: syntax error at or near function\n"),
        ("awk 'BEGIN { print strlen(1) }'", "awk: calling undefined function strlen\n"),
        ("sed G", "sed: -e expression #1, char 1: unknown command: `G'\n"),
        ("find . -regex x", "find: unknown predicate `-regex'\n"),
        ("sort -c", "sort: invalid option -- 'c'\nTry 'sort --help' for more information.\n"),
        ("grep -A x a", "grep: x: invalid context length argument\n"),
        ("timeout -s x 1 true", "timeout: 'x': invalid signal\nTry 'timeout --help' for more information.\n"),
        ("tr z-a b", "tr: range-endpoints of 'z-a' are in reverse collating sequence order\n"),
    ],
)
async def test_a_refusal_needs_no_host_to_compare_with(line, told):
    text, status = await shell_world.run(f"{line} </dev/null")
    assert (text, status > 0) == (told, True)
