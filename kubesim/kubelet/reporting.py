"""How a pod's status comes into the API: what differs, when the kubelet has done what it does in one go."""

from __future__ import annotations

from datetime import datetime

from kubesim.client import Client
from kubesim.errors import Obj
from kubesim.kubelet.status import FIRST_STEPS, PodRecord, change, pod_status


class Reporter:
    """Tells of one pod."""

    __slots__ = ("_client", "_record", "_reported", "_version")

    def __init__(self, client: Client, record: PodRecord) -> None:
        self._client = client
        self._record = record
        self._reported: Obj = {}
        self._version: str | None = ""

    async def report(self, now: datetime) -> None:
        """Write the status if it differs from what the API has. Raises ``ApiError``."""
        record = self._record
        metadata = record.pod["metadata"]
        unchanged = not record.sandboxed and not record.resize and metadata.get("resourceVersion") == self._version
        if unchanged or any(c.replaced and c.state in FIRST_STEPS for c in record.containers):
            return
        status = pod_status(record, now)
        if status == self._reported:
            return
        if differing := change(record, status):  # not so where the kubelet was started again
            patch = {"metadata": {"uid": metadata["uid"]}, "status": differing}
            record.pod = await self._client.patch(
                "pods", metadata["name"], metadata["namespace"], patch, patch_type="strategic", subresource="status"
            )
        self._reported, self._version = status, record.pod["metadata"].get("resourceVersion")
