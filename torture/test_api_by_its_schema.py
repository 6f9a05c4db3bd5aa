"""Schemathesis over the fault injection API of a practice cluster: no 500, and no lie in its description."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import ROOT, free_port, wait_until

pytestmark = pytest.mark.torture
PROGRAM = ROOT / ".venv-torture" / "bin" / "schemathesis"
EXAMPLES = 4 * int(os.environ.get("TORTURE_ROUNDS", "25"))
LEFT_OUT = "positive_data_acceptance"
"""A description in OpenAPI cannot say which nodes a cluster has, nor which parameters fit together."""
START_S, LONGEST_S, END_S = 120, 1800, 60


@pytest.fixture
def api(tmp_path: Path) -> Iterator[str]:
    """The address of the API of a practice cluster."""
    port, kubeconfig = free_port(), tmp_path / "kubeconfig"
    command = [sys.executable, "-W", "ignore", str(ROOT / "manage.py"), "guide", "--kubeconfig", str(kubeconfig)]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen([*command, "--port", str(port)], stdout=log, stderr=log)
        wait_until(kubeconfig.exists, process, START_S)
        yield f"http://localhost:{port}/api/v1"
        process.send_signal(signal.SIGTERM)
        process.wait(END_S)


def test_no_request_brings_it_down_and_every_answer_is_as_described(api: str, tmp_path: Path) -> None:
    assert PROGRAM.exists(), "Schemathesis is not installed. Run: make torture"
    options = ["--max-examples", str(EXAMPLES), "--exclude-checks", LEFT_OUT, "--no-color", "--request-timeout", "60"]
    done = subprocess.run(
        [PROGRAM, "run", f"{api}/openapi.json", *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-20_000:]
