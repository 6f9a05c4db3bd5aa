"""Xid 79 from end to end: NVSentinel finds it, takes the node out of service, repairs it and puts it back.

Needs NVSentinel. The workers crash as on real hardware and serve again at the end.
"""

from __future__ import annotations

import sys

from gpu_test import DEPLOYMENT, PATIENCE, Bench, done, require, run, step
from helpers.observing import (
    has_nvsentinel,
    is_drained,
    is_in_service,
    is_quarantined,
    is_remediated,
    sees_xid,
    wait_for_node,
)

STAGES = (
    ("detected: a health monitor tells of the Xid", sees_xid, 120),
    ("quarantined: the node is cordoned", is_quarantined, 180),
    ("drained: the workers have left", is_drained, 300),
    ("remediated: the node was restarted", is_remediated, 600),
    ("back in service: the node is uncordoned", is_in_service, 300),
)


def test_xid79_nvsentinel_automated() -> None:
    """Inject, follow every stage, clean up, and require that inference resumes."""
    bench = Bench()
    require(has_nvsentinel(bench.kube), "NVSentinel is not deployed: there is no syslog-health-monitor.")
    step("[1/4] Before: the model answers")
    bench.model.wait_until(True, 120 * PATIENCE)
    done(f"the fault will be on {bench.node}")
    fault = None
    try:
        step(f"[2/4] CUDA calls of the workers fail on {bench.node}, and its kernel log tells of Xid 79")
        bench.inject_cuda(79)  # first: once the node is cordoned, no pod that is pinned to it starts
        crashed = bench.injector.wait_for_pods_to_crash(DEPLOYMENT, bench.namespace, 420 * PATIENCE)
        require(bool(crashed), "No worker crashed: do they use CUDA?")
        done(f"{len(crashed)} pods crashed")
        fault = bench.api.inject_xid_error(bench.node, xid_type=79, gpu_id=0)
        done(f"{fault.fault_id} injected")
        step("[3/4] NVSentinel at work")
        for what, is_done, seconds in STAGES:
            wait_for_node(bench.kube, bench.node, is_done, what.partition(":")[0], seconds * PATIENCE)
            done(what)
    finally:
        step("[4/4] Clean-up")
        try:
            bench.clean_cuda()
        finally:
            if fault is not None:
                bench.api.delete_fault(fault.fault_id)
    wait_for_node(bench.kube, bench.node, is_in_service, "back in service", 300 * PATIENCE)
    bench.require_recovery()


if __name__ == "__main__":
    sys.exit(run(test_xid79_nvsentinel_automated))
