"""Parts that the example tests share: what they print, where they run, and how long they wait."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from fault_injection_client import FaultInjectionClient, FaultInjectionError
from helpers.cuda_fault_injection import CudaFaultError, CUDAFaultInjector
from helpers.kube_access import AccessError
from helpers.kube_client import KubeError
from helpers.observing import Inference, NotSeenError, node_of_a_worker
from test_helpers import Colors, get_config_from_env

DEPLOYMENT = os.environ.get("DEPLOYMENT", "vllm-v1-disagg-router")
PATIENCE = float(os.environ.get("PATIENCE", "1"))
"""Factor of every wait: a slower cluster needs more."""


class Bench:
    """What a test works with: the API, the injector, the model and the node that is to fail."""

    def __init__(self) -> None:
        config = get_config_from_env()
        self.namespace = config["app_namespace"]
        self.api = FaultInjectionClient(api_url=config["api_url"], timeout=60)
        self.injector = CUDAFaultInjector()
        self.kube = self.injector.kube
        self.model = Inference(config["frontend_url"])
        self.node = node_of_a_worker(self.kube, self.namespace, os.environ.get("TARGET_NODE", ""))

    def inject_cuda(self, xid: int) -> None:
        """Let the workers' CUDA calls fail, on the node."""
        self.injector.build_library()
        self.injector.create_configmap_with_library(self.namespace)
        self.injector.patch_deployment_for_cuda_fault(DEPLOYMENT, self.namespace, self.node, xid)

    def clean_cuda(self) -> None:
        """Give the workers everything back."""
        self.injector.cleanup_cuda_fault_injection(DEPLOYMENT, self.namespace, force_delete_pods=True)

    def require_recovery(self) -> None:
        """Wait until all workers are ready, and the model answers nine of ten requests."""
        ready = self.injector.wait_for_pods_ready(DEPLOYMENT, self.namespace, timeout_s=300 * PATIENCE)
        self.model.wait_until(True, 120 * PATIENCE)
        share = self.model.share(10)
        require(share >= 0.9, f"Only {share:.0%} of the requests were answered after the recovery.")
        done(f"inference resumes: {len(ready)} workers ready, {share:.0%} of the requests answered")


def step(text: str) -> None:
    """Say what begins."""
    print(f"{Colors.BLUE}{text}{Colors.RESET}", flush=True)


def done(text: str) -> None:
    """Say what was found."""
    print(f"  {Colors.GREEN}ok{Colors.RESET} {text}", flush=True)


def require(is_true: bool, message: str) -> None:
    """End the test where something is not as it has to be."""
    if not is_true:
        raise NotSeenError(message)


def run(test: Callable[[], None]) -> int:
    """Run a test; say how it ended, and return the exit code for it."""
    try:
        test()
    except (NotSeenError, CudaFaultError, FaultInjectionError, KubeError, AccessError, OSError) as exc:
        print(f"{Colors.RED}FAILED{Colors.RESET} {exc}", flush=True)
        return 1
    print(f"{Colors.GREEN}PASSED{Colors.RESET}", flush=True)
    return 0
