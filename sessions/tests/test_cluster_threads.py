"""Duties of clusters side by side."""

from __future__ import annotations

import threading

import pytest

from sessions.observer.cluster_threads import ClusterThreads

pytestmark = pytest.mark.django_db


def test_a_cluster_that_hangs_holds_up_no_other_and_is_not_begun_twice():
    hanging, done, begun = threading.Event(), threading.Event(), []

    def hang():
        begun.append("hangs")
        hanging.wait(120)
        return 1

    def act():
        done.set()
        return 1

    threads = ClusterThreads()
    for _ in range(3):
        assert threads.spread(1, hang) == 0
    threads.spread(2, act)
    assert done.wait(60)
    assert begun == ["hangs"]
    hanging.set()
    threads.wait(60)
    threads.spread(1, hang)
    threads.wait(60)
    assert begun == ["hangs", "hangs"]
