"""Faults in the CUDA calls of a workload's pods, by a library that they preload.

injector = CUDAFaultInjector()
injector.build_library()
injector.create_configmap_with_library("dynamo-oviya")
injector.patch_deployment_for_cuda_fault("vllm-v1-disagg-router", "dynamo-oviya", "worker-node-1", xid_type=79)
...
injector.cleanup_cuda_fault_injection("vllm-v1-disagg-router", "dynamo-oviya", force_delete_pods=True)
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from functools import cached_property
from pathlib import Path
from typing import Any

from helpers import jobs, pods, workloads
from helpers.kube_client import CONFIG_MAP, JOB, NODE, POD, Kube, KubeError
from helpers.pod_changes import CONFIG_MAP_NAME, HOSTNAME, SOURCE_FILE, CudaFault, carries, is_clean
from helpers.workloads import STATEFUL_SET, UnsuitableError, Workload

HERE = Path(__file__).resolve().parent
SOURCES = (HERE.parent / "cuda-fault-injection", HERE / "cuda_source")
"""Where the library's source is: beside the SDK, or in the installed package."""
COMPILE_TIMEOUT_S = 120
ROW = re.compile(r"^\s*\{\s*(\d+)\s*,\s*\w+\s*,", re.M)
Obj = dict[str, Any]


class CudaFaultError(Exception):
    """A fault that could not be put into a workload, or taken out; the message says what to do."""


class CUDAFaultInjector:
    """Gives CUDA faults to Deployments, StatefulSets, Jobs and DynamoGraphDeployments, and takes them away again.

    Every method that changes something may be called again, also by another process after this one was killed: what
    was there before is kept with the workload itself. They raise CudaFaultError, and KubeError where the API refuses.
    """

    def __init__(
        self,
        lib_dir: str | Path | None = None,
        kube: Kube | None = None,
        compiler_image: str = "gcc:latest",
        timeout_s: float = 180,
    ) -> None:
        """``lib_dir`` holds fake_cuda_xid79.c; ``timeout_s`` is for pods to be replaced."""
        self._folder = Path(lib_dir) if lib_dir is not None else next((p for p in SOURCES if p.exists()), SOURCES[0])
        self._given = kube
        self._image = compiler_image
        self._timeout_s = timeout_s

    @cached_property
    def kube(self) -> Kube:
        """The cluster's client; looked for when it is first needed."""
        return self._given if self._given is not None else Kube()

    def build_library(self) -> bool:
        """See that the library's source is there, and compiles where this machine can tell.

        Pods compile it themselves. Nothing is kept here: a library of this machine might not fit theirs.
        """
        source = self._source()
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler and sys.platform == "linux":
            self._compile(compiler, source)
        return True

    def create_configmap_with_library(self, namespace: str) -> bool:
        """Put the library's source into the namespace, or the present source instead of an older one."""
        data = {SOURCE_FILE: self._source()}
        body: Obj = {"metadata": {"name": CONFIG_MAP_NAME, "labels": jobs.LABELS}, "data": data}
        try:
            self.kube.create(CONFIG_MAP, namespace, body)
        except KubeError as exc:
            if exc.reason != "AlreadyExists":
                raise
            self.kube.change(CONFIG_MAP, namespace, CONFIG_MAP_NAME, lambda found: {**found, "data": data})
        return True

    def patch_deployment_for_cuda_fault(
        self,
        deployment_name: str,
        namespace: str,
        target_node: str | None = None,
        xid_type: int = 79,
        passthrough: bool = False,
    ) -> bool:
        """Replace a workload's pods by ones whose CUDA calls fail, on one node if ``target_node`` names it.

        With ``passthrough`` they have the library, but their calls work. Returns when all pods have been replaced.
        """
        self._require_row(xid_type)
        if self.kube.find(CONFIG_MAP, namespace, CONFIG_MAP_NAME) is None:
            raise CudaFaultError(f"Call create_configmap_with_library({namespace!r}) first: there is no source.")
        hostname = None if target_node is None else self._hostname(target_node)
        fault = CudaFault(xid_type, hostname, not passthrough, self._image)
        workload, found = self._require(namespace, deployment_name)
        try:
            self._write(workload, found, fault)
        except UnsuitableError as exc:
            raise CudaFaultError(str(exc)) from exc
        self._await_replaced(namespace, deployment_name, lambda pod: carries(pod, fault))
        return True

    def set_cuda_fault_enabled(self, deployment_name: str, namespace: str, enabled: bool) -> bool:
        """Let the calls of pods with the library fail, or work; the pods are replaced, their node stays."""
        _, found = self._require(namespace, deployment_name)
        known = (workloads.record_of(found) or {}).get("fault")
        if known is None:
            raise CudaFaultError(f"{deployment_name} has no CUDA fault: call patch_deployment_for_cuda_fault first.")
        fault = CudaFault(known["xid"], known["hostname"], enabled, self._image)
        workload, found = self._require(namespace, deployment_name)
        self._write(workload, found, fault)
        self._await_replaced(namespace, deployment_name, lambda pod: carries(pod, fault))
        return True

    def check_if_cuda_library_deployed(self, deployment_name: str, namespace: str) -> bool:
        """Return whether the workload's pods are to have the library."""
        found = workloads.find(self.kube, namespace, deployment_name)
        return found is not None and "parts" in (workloads.record_of(found[1]) or {})

    def cleanup_cuda_fault_injection(
        self, deployment_name: str, namespace: str, force_delete_pods: bool = False
    ) -> bool:
        """Give the workload its own template and strategy back, replace its pods, delete the ConfigMap.

        ``force_delete_pods`` does not wait for pods to end by themselves. Without anything to do, nothing is done.
        """
        problem = self._restore(namespace, deployment_name, force_delete_pods)
        if not workloads.changed(self.kube, namespace):
            self.kube.delete(CONFIG_MAP, namespace, CONFIG_MAP_NAME)
        if problem is not None:
            raise problem
        return True

    def wait_for_pods_to_crash(self, deployment_name: str, namespace: str, timeout_s: float = 420) -> list[str]:
        """Return the pods whose containers ended by an error, as soon as there is one."""
        seen = self._await(namespace, deployment_name, timeout_s, lambda found: any(map(pods.has_crashed, found)))
        return [pods.name_of(pod) for pod in seen if pods.has_crashed(pod)]

    def wait_for_pods_ready(
        self, deployment_name: str, namespace: str, count: int | None = None, timeout_s: float = 420
    ) -> list[str]:
        """Return the pods that serve, as soon as ``count`` of them do; by default all that there are."""

        def enough(found: list[Obj]) -> bool:
            ready = sum(map(pods.is_ready, found))
            return ready >= count if count is not None else 0 < ready == len(found)

        seen = self._await(namespace, deployment_name, timeout_s, enough)
        return [pods.name_of(pod) for pod in seen if pods.is_ready(pod)]

    def _source(self) -> str:
        try:
            return (self._folder / SOURCE_FILE).read_text(encoding="utf-8")
        except OSError as exc:
            raise CudaFaultError(f"{self._folder / SOURCE_FILE} cannot be read ({exc}); lib_dir names it.") from exc

    def _compile(self, compiler: str, source: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            words = ["-shared", "-fPIC", "-O2", "-x", "c", "-o", f"{folder}/library.so", "-", "-ldl"]
            done = subprocess.run(  # noqa: S603 - the machine's own compiler
                [compiler, *words], input=source, capture_output=True, text=True, timeout=COMPILE_TIMEOUT_S
            )
        if done.returncode:
            raise CudaFaultError(f"{self._folder / SOURCE_FILE} does not compile:\n{done.stderr.strip()}")

    def _require_row(self, xid: int) -> None:
        known = {int(code) for code in ROW.findall(self._source())}
        if xid not in known:
            listed = ", ".join(map(str, sorted(known)))
            raise CudaFaultError(f"{SOURCE_FILE} has no row for Xid {xid}, only for {listed}. Add one to its table.")

    def _hostname(self, node: str) -> str:
        found = self.kube.find(NODE, "", node)
        if found is None:
            raise CudaFaultError(f"There is no node {node}. `kubectl get nodes` lists their names.")
        return str((found["metadata"].get("labels") or {}).get(HOSTNAME, node))

    def _require(self, namespace: str, name: str) -> tuple[Workload, Obj]:
        found = workloads.find(self.kube, namespace, name)
        if found is None:
            kinds = ", ".join(workload.kind.kind for workload in workloads.WORKLOADS)
            raise CudaFaultError(f"There is no {name} in {namespace}; looked for: {kinds}.")
        return found

    def _write(self, workload: Workload, found: Obj, fault: CudaFault) -> None:
        namespace, name = found["metadata"]["namespace"], found["metadata"]["name"]
        if workload.kind is JOB:
            jobs.begin(self.kube, workload, found, fault, self._timeout_s)
        else:
            self.kube.change(workload.kind, namespace, name, lambda now: workload.with_fault(now, fault))

    def _restore(self, namespace: str, name: str, force: bool) -> CudaFaultError | None:
        """Bring the workload back to what it was; return what did not work although everything else did."""
        if jobs.end(self.kube, namespace, name, self._timeout_s):
            return None
        found = workloads.find(self.kube, namespace, name)
        if found is None or found[0].kind is JOB:
            return None
        kind = found[0].kind
        now = self.kube.change(kind, namespace, name, found[0].without_fault)
        if (
            workloads.record_of(now) is None
            and now["metadata"]["resourceVersion"] == found[1]["metadata"]["resourceVersion"]
        ):
            return None
        problem = None
        try:
            self._await_replaced(namespace, name, is_clean, force=force)
        except CudaFaultError as exc:
            problem = exc
        self.kube.change(kind, namespace, name, found[0].with_own_strategy)
        return problem

    def _await(self, namespace: str, name: str, seconds: float, is_done: Any) -> list[Obj]:
        workload, found = self._require(namespace, name)
        return pods.await_pods(self.kube, namespace, workload.selector(found), seconds, is_done)

    def _await_replaced(self, namespace: str, name: str, is_wanted: Any, force: bool = False) -> None:
        """Wait until every pod is as wanted. Pods that nobody else replaces are deleted here."""
        workload, found = self._require(namespace, name)
        if not _wants_pods(workload, found):
            return
        deleted: set[str] = set()

        def is_done(seen: list[Obj]) -> bool:
            others = [pod for pod in seen if not is_wanted(pod) and not pods.is_over(pod)]
            for pod in others:
                if (force or workload.kind is STATEFUL_SET) and pod["metadata"]["uid"] not in deleted:
                    deleted.add(pod["metadata"]["uid"])
                    self._delete(pod, force)
            staying = [pod for pod in seen if not pods.is_leaving(pod) and not pods.is_over(pod)]
            return bool(staying) and all(map(is_wanted, staying)) and not (force and others)

        seen = pods.await_pods(self.kube, namespace, workload.selector(found), self._timeout_s, is_done)
        if not is_done(seen):
            names = ", ".join(pods.name_of(pod) for pod in seen if not is_wanted(pod)) or "none was started"
            advice = (
                "`kubectl describe pod` says what they wait for; force_delete_pods=True removes them at clean-up."
            )
            raise CudaFaultError(
                f"{name}: its pods were not replaced within {self._timeout_s:.0f} s: {names}. {advice}"
            )

    def _delete(self, pod: Obj, force: bool) -> None:
        options: Obj = {"gracePeriodSeconds": 0} if force else {}
        only = {"uid": pod["metadata"]["uid"]}
        try:
            self.kube.delete(POD, pod["metadata"]["namespace"], pods.name_of(pod), preconditions=only, **options)
        except KubeError as exc:
            if exc.status != 409:  # another pod of this name is there already
                raise


def _wants_pods(workload: Workload, found: Obj) -> bool:
    """Return whether the workload has pods at all: nobody waits for those of one that is scaled to nothing."""
    if workload.kind is workloads.GRAPH:
        return any(service.get("replicas", 1) for _, service in workloads.services_of(found))
    return bool(found["spec"].get("replicas", 1)) and not found["spec"].get("suspend", False)
