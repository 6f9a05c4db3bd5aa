"""A proof does again what had no answer, as a worker does, and nothing else."""

from __future__ import annotations

import pytest

from faults.catalog_check.stage import MAX_TRIES, with_patience
from faults.errors import Invalid, JournalError, Unreachable


class Service:
    """Fails as told, and counts how often it is called."""

    def __init__(self, *failures):
        self.failures, self.calls = list(failures), 0

    def __call__(self):
        self.calls += 1
        if self.failures:
            raise self.failures.pop(0)
        return "done"


def test_what_had_no_answer_is_done_again():
    lost = JournalError("configmap", Unreachable("read timeout"), "kubectl delete configmap")
    service = Service(Unreachable("busy"), lost)
    assert (with_patience(service), service.calls) == ("done", 3)


def test_time_passes_before_each_further_try():
    service, passed = Service(Unreachable("not ready"), Unreachable("not ready")), []
    assert with_patience(service, pause=lambda: passed.append(service.calls)) == "done"
    assert passed == [1, 2]


def test_what_the_cluster_refuses_is_not():
    service = Service(Invalid("no such field"), Unreachable("busy"))
    with pytest.raises(Invalid):
        with_patience(service)
    assert service.calls == 1


def test_a_cluster_that_never_answers_is_told_of():
    service = Service(*[Unreachable("busy")] * MAX_TRIES)
    with pytest.raises(Unreachable):
        with_patience(service)
    assert service.calls == MAX_TRIES
