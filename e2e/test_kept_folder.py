"""An upgrade in the middle of an interview: what an earlier version kept goes on with this one."""

from __future__ import annotations

import json
import os
import socket
from datetime import UTC, datetime

import pytest

from e2e import kept_folder
from e2e.conftest import Installation, start, stop
from e2e.people import Kubectl, kubectl_path

ASK = """
import json
from sessions.models import *
from sessions import clock
from faults.models import FaultRun
s = InterviewSession.objects.get()
told = {
    "state": s.state,
    "seconds": clock.elapsed_ms(s) // 1000,
    "notes": list(Note.objects.values_list("text", flat=True)),
    "levels": list(Rating.objects.values_list("level", flat=True)),
    "runs": sorted(FaultRun.objects.values_list("status", flat=True)),
}
print("TOLD", json.dumps(told))
"""


def is_free(port: int) -> bool:
    """Return whether nobody listens there."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((kept_folder.ADDRESS, port))
        except OSError:
            return False
    return True


@pytest.fixture(scope="module")
def installation(tmp_path_factory):
    """The kept data folder under this version's ``manage.py up``."""
    for port in (kept_folder.SITE_PORT, kept_folder.KUBESIM_PORT):
        if not is_free(port):
            pytest.skip(f"port {port}, which stored kubeconfigs name, is in use on this machine")
    folder = tmp_path_factory.mktemp("kept")
    data = kept_folder.unpack(folder, datetime.now(UTC))
    env = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    env |= {
        "DATA_DIR": str(data),
        "BIND": kept_folder.ADDRESS,
        "PORT": str(kept_folder.SITE_PORT),
        "KUBESIM_PORT": str(kept_folder.KUBESIM_PORT),
        "HOME": str(folder),
    }
    installation = start(folder, env)
    yield installation
    if installation.process.poll() is None:
        stop(installation)


def told(installation: Installation) -> dict:
    """Return what this version reads in the database."""
    answer = installation.manage("shell", "-v", "0", "-c", ASK)
    (line,) = [line for line in answer.stdout.splitlines() if line.startswith("TOLD ")]
    return json.loads(line.removeprefix("TOLD "))


def test_a_live_interview_of_an_earlier_version_goes_on(installation, tmp_path):
    found = told(installation)
    assert found["state"] == "live"
    assert found["runs"] == ["active", "active"]
    assert found["notes"] == ["Read the logs before touching anything."]
    assert found["levels"] == [3]
    assert 30 <= found["seconds"] <= 300  # what had passed before it was stopped, and since it was started again
    assert not any(", password " in line for line in installation.lines)


@pytest.mark.kubectl
def test_the_candidates_kubeconfig_of_an_earlier_version_goes_on_working(installation, tmp_path):
    if kubectl_path() is None:
        pytest.skip("needs kubectl")
    kubectl = Kubectl(installation.folder / "data" / "candidate.kubeconfig", tmp_path)
    assert kubectl("get configmap mine -o jsonpath={.data.a}").stdout == "b"
    pods = kubectl("get pods").stdout
    assert "embedding-api-" in pods
    assert "tokenizer-train-" in pods
    made = kubectl("create configmap after --from-literal=c=d")
    assert made.returncode == 0, made.stderr


def test_it_stops_in_good_order(installation):
    assert stop(installation) in (0, 130)
    assert not any("Traceback" in line for line in installation.lines), "".join(installation.lines)
