"""What a cluster reads before it answers: nothing that only containers, metrics or terminals need."""

from __future__ import annotations

import subprocess
import sys

LATER = (
    "kubesim.metrics.promql",
    "kubesim.shell.interp",
    "kubesim.shell.session",
    "kubesim.shell.kubectl",
    "kubesim.shell.tools.jq",
    "kubesim.gpu.smi.table",
)
START = """
import asyncio, sys
from kubesim.cluster import Cluster, ClusterSpec
from kubesim.clock import RealClock
from kubesim.pki import CertificateAuthority

async def main():
    clock = RealClock()
    authority = CertificateAuthority.create(clock.now())
    cluster = await Cluster.create(ClusterSpec("x", clock.now()), clock, "https://127.0.0.1:1", authority)
    await cluster.stop()

asyncio.run(main())
print(*sys.modules)
"""


def test_an_empty_cluster_starts_without_what_containers_and_metrics_need():
    found = subprocess.run([sys.executable, "-c", START], stdout=subprocess.PIPE, check=True, text=True)
    modules = set(found.stdout.split())
    assert "kubesim.cluster" in modules
    assert [name for name in modules if name.startswith(LATER)] == []
