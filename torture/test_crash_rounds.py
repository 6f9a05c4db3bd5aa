"""Three crash rounds; ``make torture`` plays 200, on a real control plane as well."""

from __future__ import annotations

import subprocess
import sys

import pytest

from conftest import ROOT

ROUNDS = 3
SECONDS = 25.0  # no round begins later: a busy machine plays fewer, and says so


@pytest.mark.slow
def test_crash_rounds_leave_nothing_and_lose_nothing() -> None:
    limit = ["--rounds", str(ROUNDS), "--seconds", str(SECONDS)]
    command = [sys.executable, "-m", "torture.rounds", "--places", "practice,lent", *limit]
    played = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    print(played.stdout)
    assert " rounds, 0 wrong" in played.stdout, played.stdout + played.stderr[-2000:]
    assert played.returncode == 0
