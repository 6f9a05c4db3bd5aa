"""What tests of kubesim begin with, and what holds after every module of them."""

from __future__ import annotations

import orjson
import pytest

from kubesim import sharing
from kubesim.api.operations import Operations
from kubesim.clock import ManualClock
from kubesim.store import Store
from kubesim.terraform.tool import workers
from kubesim.tests.live import serving
from kubesim.tests.operations import NAMESPACES


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def ops(clock):
    """The requests of a cluster with one namespace, ml."""
    operations = Operations(Store(clock), clock)
    operations.create(NAMESPACES, "", {"metadata": {"name": "ml"}})
    return operations


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    """A cluster of one node for all tests of a module."""
    with serving(tmp_path_factory.mktemp("live"), nodes=1) as live:
        yield live


@pytest.fixture(scope="session", autouse=True)
def _no_worker_of_terraform_outlives_the_tests():
    yield
    workers.close()


@pytest.fixture(scope="module", autouse=True)
def _nobody_changes_what_is_shared():
    """What a store holds may be a part of many objects, of other clusters, too: looked at after each module."""
    yield
    changeable = ((raw, value) for raw, value in _shared() if isinstance(value, dict | list))
    assert [raw for raw, value in changeable if orjson.dumps(value) != raw] == []


def _shared() -> list[tuple[bytes, object]]:
    while True:
        try:
            return [*sharing._seen.items()]
        except RuntimeError:  # the thread of a server has just added one
            continue
