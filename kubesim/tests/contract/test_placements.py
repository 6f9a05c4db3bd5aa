"""The scheduler places pods, refuses them and makes room for them as the real one does, and says so in its words."""

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from kubesim.tests.contract import placements
from kubesim.tests.contract.conftest import CLUSTERS
from kubesim.tests.live import serving

PROGRAM = Path(__file__).parents[3] / "deploy/testcluster/testcluster.py"
PLAYS = {"kubesim": 1, "real": 3}
BINARIES = Path(os.environ.get("TESTCLUSTER_BIN", Path.home() / ".cache/faultline/testcluster-bin"))


@contextmanager
def real_cluster(folder):
    """Run a real control plane of our own: these nodes must have no kubelet, and there must be no others."""

    def run(command):
        arguments = [sys.executable, PROGRAM, command, "--folder", folder, "--bin", BINARIES]
        return subprocess.run(arguments, check=True, stdout=subprocess.PIPE).stdout

    run("up")
    try:
        os.kill(json.loads(run("status"))["kwok"], signal.SIGTERM)
        yield folder / "admin.kubeconfig"
    finally:
        run("down")


def asked(name, kubeconfig):
    cluster = placements.Steady(name, kubeconfig)
    yield cluster
    cluster.close()


@pytest.fixture(scope="module", params=CLUSTERS)
def empty(request, tmp_path_factory):
    """A cluster without nodes."""
    folder = tmp_path_factory.mktemp("empty")
    if request.param == "kubesim":
        with serving(folder, nodes=0) as live:
            yield from asked("kubesim", live.kubeconfig)
    else:
        with real_cluster(folder / "testcluster") as kubeconfig:
            yield from asked("real", kubeconfig)


@pytest.mark.parametrize("name", placements.cases())
def test_a_pod_fares_as_on_the_real_cluster(empty, name):
    """Kubesim must do it at the first play. The real one's controllers race with one another: it gets three."""
    case, wanted = placements.cases()[name], placements.answers()[name]
    for _ in range(PLAYS[empty.name] - 1):
        if placements.play(case, empty) == wanted:
            return
    assert placements.play(case, empty) == wanted
