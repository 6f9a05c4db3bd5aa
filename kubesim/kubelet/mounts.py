"""Whether a pod's volumes are there, and what its kubelet says as long as they are not."""

from __future__ import annotations

from datetime import datetime, timedelta

from kubesim.kubelet import timings
from kubesim.kubelet.sandbox import Sandbox
from kubesim.kubelet.volumes import MountError
from kubesim.recorder import Recorder


class Mounts:
    """The volumes of one pod: tried at once, then again after doubling waits."""

    __slots__ = ("_delay", "_recorder", "_sandbox", "done", "retry_at")

    def __init__(self, sandbox: Sandbox, recorder: Recorder) -> None:
        self.done = False
        self.retry_at: datetime | None = None
        self._sandbox = sandbox
        self._recorder = recorder
        self._delay = timings.MOUNT_FIRST_S

    async def sync(self) -> None:
        """Try to mount them, if that is due."""
        now = self._sandbox.host.clock.now()
        if self.done or (self.retry_at is not None and now < self.retry_at):
            return
        try:
            await self._sandbox.check_volumes()
        except MountError as error:
            await self._recorder.warning(self._sandbox.worker.record.pod, "FailedMount", str(error))
            self.retry_at = now + timedelta(seconds=self._delay)
            self._delay = min(self._delay * 2, timings.MOUNT_CAP_S)
            return
        self.done, self.retry_at = True, None
