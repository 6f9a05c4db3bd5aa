import pytest

from kubesim.tests.contract.tools import Kubectl, oldest_and_newest
from kubesim.tests.live import serving


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    """One cluster for a whole file of tests; each test works in a namespace of its own."""
    with serving(tmp_path_factory.mktemp("live"), nodes=2) as live:
        yield live


@pytest.fixture(
    scope="module", params=oldest_and_newest() or [""], ids=lambda path: path.rpartition("/")[2] or "none"
)
def kubectl(request, live, tmp_path_factory):
    """Each kubectl that is to be had: the oldest and the newest."""
    if not request.param:
        pytest.skip("no kubectl on PATH or in KUBECTL")
    home = tmp_path_factory.mktemp("home")
    return Kubectl(request.param, home, live.kubeconfig)
