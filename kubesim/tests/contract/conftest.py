"""The clusters that the contract holds for: kubesim, and whatever ``CONTRACT_KUBECONFIG`` names.

``CONTRACT_CLUSTERS=real`` leaves out kubesim, where that is tested anyway.
"""

import os
import random
from pathlib import Path

import pytest

from kubesim.tests.contract import nodes
from kubesim.tests.contract.checked import Checked
from kubesim.tests.contract.exchanges import LETTERS, make_namespace
from kubesim.tests.contract.plain import Plain
from kubesim.tests.contract.tools import Kubectl, oldest_and_newest
from kubesim.tests.live import serving

REAL = os.environ.get("CONTRACT_KUBECONFIG", "")
CLUSTERS = os.environ.get("CONTRACT_CLUSTERS", "kubesim real" if REAL else "kubesim").split()
OF_REAL = {"cluster", "real", "empty"}
"""Fixtures that stand for each of the clusters; what uses none of them is about kubesim alone."""


def pytest_collection_modifyitems(config, items):
    """Leave what is about kubesim alone to `make test` and `make torture`, where kubesim is left out."""
    if "kubesim" in CLUSTERS:
        return
    elsewhere = [item for item in items if Path(__file__).parent in item.path.parents and not _is_of_real(item)]
    items[:] = [item for item in items if item not in elsewhere]
    config.hook.pytest_deselected(items=elsewhere)


def _is_of_real(item):
    """Return whether a test is about a real control plane, or about its programs."""
    return bool(OF_REAL & set(item.fixturenames)) or item.path.stem == "test_real_programs"


@pytest.fixture(scope="session")
def live(tmp_path_factory):
    """One kubesim for all tests of a process; each test works in a namespace of its own."""
    with serving(tmp_path_factory.mktemp("live"), nodes=2) as live:
        yield live


@pytest.fixture(scope="session")
def simulated(live):
    """Plain requests to kubesim."""
    return Checked("kubesim", live.kubeconfig)


@pytest.fixture(scope="package")
def real(tmp_path_factory):
    """Plain requests to the real control plane, which has two nodes while the tests of this folder last.

    Its administrator is known by a token, as kubesim's is: a certificate would go before any token that a test tries.
    """
    if not REAL:
        pytest.skip("no real control plane in CONTRACT_KUBECONFIG; run: make contract-real")
    owner = Plain("real", Path(REAL))
    with nodes.registered(owner), nodes.administrator(owner, tmp_path_factory.mktemp("real")) as kubeconfig:
        yield Plain("real", kubeconfig)


@pytest.fixture(scope="package", params=CLUSTERS)
def cluster(request):
    """Plain requests to each cluster that the contract is checked on."""
    return request.getfixturevalue("simulated" if request.param == "kubesim" else "real")


@pytest.fixture
def namespace(cluster):
    """Return a fresh namespace, which goes with the test."""
    name = f"contract-{''.join(random.choices(LETTERS, k=8))}"
    make_namespace(cluster, name)
    yield name
    cluster("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture
def containers(cluster):
    """Skip where no program runs in a container: the nodes of the real control plane are made of paper."""
    if cluster.name != "kubesim":
        pytest.skip("needs containers that run; kwok's do not")


*OLDEST, NEWEST = oldest_and_newest() or ("",)


@pytest.fixture(
    scope="package",
    params=[NEWEST, *(pytest.param(path, marks=pytest.mark.torture) for path in OLDEST)],
    ids=lambda path: path.rpartition("/")[2] or "none",
)
def kubectl(request, cluster, tmp_path_factory):
    """Each kubectl that is to be had: the newest, and for `make torture` and `make contract-real` the oldest."""
    if not request.param:
        pytest.skip("no kubectl on PATH or in KUBECTL")
    return Kubectl(request.param, tmp_path_factory.mktemp("home"), cluster.kubeconfig)
