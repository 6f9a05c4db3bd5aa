"""Every Xid of the user guide in turn: injected, reported by the API, ended, and nothing of it left."""

from __future__ import annotations

import sys

from gpu_test import PATIENCE, Bench, done, require, run, step
from helpers.observing import is_in_service, wait_for_node

XIDS = (79, 48, 94, 95, 43, 74)


def test_all_xid_errors() -> None:
    """Inject and end each, and require a node in service and a model that answers at the end."""
    bench = Bench()
    for at, xid in enumerate(XIDS, 1):
        step(f"[{at}/{len(XIDS)}] Xid {xid} on {bench.node}")
        with bench.api.gpu_fault(bench.node, xid_type=xid) as fault:
            status = bench.api.get_fault(fault.fault_id)["status"]
            require(status in ("injected", "active"), f"Xid {xid} is {status} right after its injection.")
            done(f"{fault.fault_id} is in the kernel log")
        ended = bench.api.get_fault(fault.fault_id)["status"]
        require(ended == "recovered", f"Xid {xid} is {ended} after it was deleted.")
        done("recovered")
    active = bench.api.list_faults(active_only=True)
    left = [row["id"] for row in active if row["target"].startswith(f"{bench.node}/")]
    require(not left, f"Faults are still active on {bench.node}: {', '.join(left)}")
    step("After: the node is in service and the model answers")
    wait_for_node(bench.kube, bench.node, is_in_service, "back in service", 600 * PATIENCE)
    bench.require_recovery()


if __name__ == "__main__":
    sys.exit(run(test_all_xid_errors))
