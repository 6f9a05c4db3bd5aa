"""Three crash rounds; ``make torture`` plays 200, on a real control plane as well."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from conftest import ROOT

# Chosen for their length: together they kill, freeze, flush, lock and fill, and nothing for longer than 8 s.
ROUNDS = ["--seed", "51", "--first", "2", "--rounds", "3"]


@pytest.mark.slow
def test_crash_rounds_leave_nothing_and_lose_nothing(migrated: Path) -> None:
    program = [sys.executable, "-m", "torture.rounds", "--places", "practice,lent", "--tables", str(migrated)]
    played = subprocess.run([*program, *ROUNDS], cwd=ROOT, capture_output=True, text=True)
    print(played.stdout)
    assert "3 rounds, 0 wrong" in played.stdout, played.stdout + played.stderr[-2000:]
    assert played.returncode == 0
