"""How a kubelet lets its containers be entered, with its refusals."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kubesim.errors import Obj
from kubesim.kubelet.agents import RUNTIME
from kubesim.kubelet.pod import PodWorker
from kubesim.kubelet.records import Container
from kubesim.shell.journals import NO_SOCKET
from kubesim.streaming.seam import Forward, Refused, Run

WORKER = Callable[[str], PodWorker | None]


class Access:
    """Exec, attach and port-forward on the pods of a kubelet; ``worker`` finds a pod's by ``namespace/name``."""

    def __init__(self, worker: WORKER) -> None:
        self._worker = worker

    def exec(self, pod: Obj, container: str, command: Sequence[str]) -> Run:
        """Return what runs a command in a container. Raises ``Refused``."""
        worker, found = self._running(pod, container)
        if worker is None or found is None:
            raise Refused(500, f'container not found ("{container}")')
        return lambda stdio: worker.sandbox.exec(found, command, stdio)

    def attach(self, pod: Obj, container: str) -> Run:
        """Return what joins a container's own process. Raises ``Refused``."""
        worker, found = self._running(pod, container)
        if worker is None or found is None or worker.sandbox.over(found):
            raise Refused(500, f"container {container} not found in pod {_full_name(pod)}")
        return lambda stdio: worker.sandbox.attach(found, stdio)

    def forward(self, pod: Obj) -> Forward:
        """Return what reaches a pod's ports. Raises ``Refused``."""
        worker = self._of(pod)
        if worker is None:
            raise Refused(404, "pod does not exist")
        _ask_runtime(worker)
        if not any(container.running for container in worker.record.containers):
            raise Refused(500, f'pod not found ("{_full_name(pod)}")')
        return worker.sandbox.forward

    def _of(self, pod: Obj) -> PodWorker | None:
        metadata = pod["metadata"]
        worker = self._worker(f"{metadata['namespace']}/{metadata['name']}")
        return worker if worker is not None and worker.record.uid == metadata["uid"] else None

    def _running(self, pod: Obj, name: str) -> tuple[PodWorker | None, Container | None]:
        worker = self._of(pod)
        if worker is None:
            raise Refused(404, "pod does not exist")
        _ask_runtime(worker)
        return worker, next((c for c in worker.record.containers if c.name == name and c.running), None)


def _ask_runtime(worker: PodWorker) -> None:
    """Raise ``Refused`` where the container runtime of a pod's node does not run."""
    if not worker.node.agents.services.runs(RUNTIME):
        raise Refused(500, NO_SOCKET)


def _full_name(pod: Obj) -> str:
    return f"{pod['metadata']['name']}_{pod['metadata']['namespace']}"
