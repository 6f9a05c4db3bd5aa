"""What containers use: within their limits, and the same whether asked for at a moment or as a counter."""

from __future__ import annotations

import pytest

from kubesim.kubelet.usage import MIB, usage


@pytest.mark.parametrize("workload", ["training", "inference", "nginx", "nobody-knows"])
def test_a_counter_grows_by_what_is_used(workload):
    found = usage(workload, "a")
    for at in range(0, 300, 7):
        slope = (found.cpu_seconds(at + 0.01) - found.cpu_seconds(at)) / 0.01
        assert slope == pytest.approx(found.cpu(at + 0.005), rel=1e-3)
        assert found.cpu(at) > 0


def test_limits_hold():
    found = usage("training", "a", cpu_limit=2, memory_limit=512 * MIB)
    assert all(found.cpu(at) <= 2 for at in range(200))
    assert found.memory(600) < 512 * MIB


def test_memory_fills_while_a_process_warms_up():
    found = usage("inference", "a")
    assert found.memory(0) < found.memory(6) < found.memory(60) == pytest.approx(found.memory(600), rel=0.01)


def test_two_containers_of_one_kind_do_not_hold_the_same_memory():
    assert usage("training", "a").memory(600) != pytest.approx(usage("training", "b").memory(600), rel=1e-4)
    assert usage("training", "a").memory(600) == pytest.approx(usage("training", "b").memory(600), rel=0.1)


def test_two_containers_do_not_swing_as_one():
    assert usage("training", "a").cpu(10) != usage("training", "b").cpu(10)


def test_programs_of_addons_have_sizes_of_their_own():
    """``kubectl top`` that shows one number in every line is believed by nobody."""
    programs = ["coredns", "kube-proxy", "metrics-server", "node_exporter", "mpi-operator", "janitor", "nobody-knows"]
    assert len({usage(name, "a").memory(600) for name in programs}) == len(programs)
