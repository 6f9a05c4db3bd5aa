"""Xid 79 in the CUDA calls of the workers: they crash, the model stops answering, and serves again after clean-up."""

from __future__ import annotations

import sys

from gpu_test import DEPLOYMENT, PATIENCE, Bench, done, require, run, step


def test_xid79_cuda_fault() -> None:
    """Let all workers crash, and require that nothing of it is left afterwards."""
    bench = Bench()
    step("[1/4] Before: the model answers")
    bench.model.wait_until(True, 120 * PATIENCE)
    try:
        step(f"[2/4] CUDA calls of the workers fail on {bench.node}, as after Xid 79")
        bench.inject_cuda(79)
        crashed = bench.injector.wait_for_pods_to_crash(DEPLOYMENT, bench.namespace, 420 * PATIENCE)
        require(bool(crashed), "No worker crashed: do they use CUDA?")
        done(f"{len(crashed)} pods crashed")
        step("[3/4] Users notice")
        bench.model.wait_until(False, 120 * PATIENCE)
        done("the model no longer answers")
    finally:
        step("[4/4] Clean-up")
        bench.clean_cuda()
    left = bench.injector.check_if_cuda_library_deployed(DEPLOYMENT, bench.namespace)
    require(not left, "The workers still get the fault library.")
    bench.require_recovery()


if __name__ == "__main__":
    sys.exit(run(test_xid79_cuda_fault))
