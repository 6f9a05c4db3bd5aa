"""Xid 94, a contained ECC error: one program ends, and the node stays in service. NVSentinel must not cordon it."""

from __future__ import annotations

import sys

from gpu_test import PATIENCE, Bench, done, require, run, step
from helpers.observing import has_nvsentinel, is_cordoned, node_stays

WATCHED_S = 60
"""Twice the pause between two looks of NVSentinel's monitor."""


def test_xid_94_ecc_error() -> None:
    """Inject, watch the node for as long as NVSentinel would need, and require that it goes on serving."""
    bench = Bench()
    step("[1/3] Before: the model answers")
    bench.model.wait_until(True, 120 * PATIENCE)
    step(f"[2/3] Xid 94 in the kernel log of {bench.node}")
    known = {row["code"]: row for row in bench.api.xid_types()}
    require(94 in known, "The fault injection API does not know Xid 94.")
    with bench.api.gpu_fault(bench.node, xid_type=94) as fault:
        done(f"{fault.fault_id} injected")
        node_stays(bench.kube, bench.node, is_cordoned, "cordoned", WATCHED_S * PATIENCE)
        watcher = "NVSentinel has left it in service" if has_nvsentinel(bench.kube) else "NVSentinel is not deployed"
        done(f"{bench.node} was never cordoned ({watcher})")
        require(bench.model.share(5) >= 0.9, "The model stopped answering although the error was contained.")
        done("the model answers")
    step("[3/3] After")
    bench.require_recovery()


if __name__ == "__main__":
    sys.exit(run(test_xid_94_ecc_error))
