"""The command that proves the catalogue: what it refuses at once, and one whole run."""

from __future__ import annotations

import subprocess
import sys

import pytest
from django.conf import settings as site
from django.core.management import CommandError, call_command


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--scenario", "nonsense"], "There is no scenario 'nonsense'. There are: answers-time-out, "),
        (["--scenario", "gpu-requests", "--variant", "99"], "There is no variant 99; they are numbered from 1 to 6."),
        (["--variant", "-1"], "There is no variant -1"),
        (["--jobs", "0"], "--jobs 0: at least 1 is needed."),
    ],
)
def test_it_names_what_there_is(args, message):
    with pytest.raises(CommandError, match=message):
        call_command("catalog_check", *args)


@pytest.mark.torture
def test_it_proves_a_variant_and_writes_what_it_has_measured(tmp_path):
    command = [sys.executable, "-W", "ignore", str(site.BASE_DIR / "manage.py"), "catalog_check"]
    output = tmp_path / "catalogue.md"
    args = ["--scenario", "architecture-mismatch", "--variant", "2", "--output", str(output)]
    done = subprocess.run([*command, *args], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "architecture-mismatch 2: symptom after " in done.stdout
    rows = [line for line in output.read_text().splitlines() if line.startswith("| 2 | job:")]
    assert len(rows) == 1
    assert rows[0].endswith(" s |")
