"""What tests of kubesim begin with, and what holds after every one."""

from __future__ import annotations

import orjson
import pytest

from kubesim import sharing
from kubesim.api.operations import Operations
from kubesim.clock import ManualClock
from kubesim.store import Store
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


@pytest.fixture(autouse=True)
def _nobody_changes_what_is_shared():
    """What a store holds may be a part of many objects, of other clusters, too."""
    yield
    assert [raw for raw, value in _shared() if orjson.dumps(value) != raw] == []


def _shared() -> list[tuple[bytes, object]]:
    while True:
        try:
            return [*sharing._seen.items()]
        except RuntimeError:  # the thread of a server has just added one
            continue
