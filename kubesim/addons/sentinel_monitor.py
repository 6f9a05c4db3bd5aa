"""NVSentinel's syslog-health-monitor: reads a node's kernel log and says on the node which errors its GPUs have had.

Checks, words and the actions that follow are those of NVSentinel; a healthy sign is a reboot, or a reset's line.
"""

from __future__ import annotations

import asyncio
import logging
import re
from dataclasses import dataclass, field

import orjson

from kubesim.addons import health_events
from kubesim.errors import ApiError, Obj, tolerating
from kubesim.gpu.xids import KernelLog, xids
from kubesim.kubelet.duties import Post
from kubesim.recorder import Recorder
from kubesim.times import stamp

CHECK = "SysLogsXIDError"
POLL_S = 30.0
LONGEST = 1024
HEALTHY = "No Health Failures"
XID = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]+)(?: GPU-[^)]*)?\): (\d+)")
RESET = re.compile(r"GPU reset executed: (GPU-[0-9a-f-]+), success: true")
TOLD, UUID = re.compile(r"ErrorCode:.*?Recommended Action=\w+;"), re.compile(r"GPU_UUID:(GPU-[0-9a-f-]+)")
IGNORED = frozenset({45, 154})
PEOPLE = "CONTACT_SUPPORT"
"""The action for what the table does not know."""


log = logging.getLogger(__name__)


@dataclass
class Monitor:
    """The monitor of one node: its errors by GPU, each with the line that told of it."""

    post: Post
    errors: dict[str, list[str]] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    """Lines that are told once only, until the GPU is well again."""

    def __post_init__(self) -> None:
        post = self.post
        self._api = post.api
        self._board = post.machines.gpus(post.node).board
        self._recorder = Recorder(self._api, post.clock, "nvsentinel-platform-connectors", post.node)
        self._log: KernelLog | None = None
        self._task = asyncio.ensure_future(self._run())

    def stop(self) -> None:
        """Read no more."""
        self._task.cancel()

    async def _run(self) -> None:
        while True:
            try:
                await self._look()
            except (ApiError, ConnectionError) as error:
                log.info("the monitor of %s could not tell: %s", self.post.node, error)
            await self.post.clock.sleep(POLL_S)

    async def _look(self) -> None:
        """Take in what the log has since the last look, of this monitor or of one before it."""
        if self._log is not self._board.log:
            self._log = self._board.log
            await self._begin(self._log)
        for record in self._log.after(self._log.positions[CHECK]):
            self._log.positions[CHECK] = record.sequence + 1
            await self._read(record.text)

    async def _begin(self, fresh: KernelLog) -> None:
        """Take up what the node says already; after a boot it is well again."""
        node = await self._api.get("nodes", self.post.node)
        known = [item for item in node["status"].get("conditions") or () if item["type"] == CHECK]
        marked = next((item["message"] for item in known if item["status"] == "True"), "")
        goes_on = self.post.resumed or CHECK in fresh.positions
        fresh.positions.setdefault(CHECK, 0)
        self.errors, self.seen = {}, set()
        for text in TOLD.findall(marked) if goes_on else ():
            gpu = UUID.search(text)
            self.errors.setdefault(gpu[1] if gpu else "", []).append(text)
        if marked and not goes_on:
            await self._recover("")
        if not known or (marked and not goes_on):
            await self._tell()

    async def _read(self, line: str) -> None:
        if (reset := RESET.search(line)) and self.errors.pop(reset[1], None) is not None:
            self.seen.clear()
            await self._recover(reset[1])
            await self._tell()
        match = XID.search(line)
        if match is None or int(match[2]) in IGNORED or line in self.seen:
            return
        self.seen.add(line)
        bus, code = match[1].removesuffix(".0").lower(), int(match[2])
        device = next((item for item in self._board.devices if item.bus.lower() == bus), None)
        known = xids().get(code)
        action = known.sentinel if known else PEOPLE
        gpu = f" GPU_UUID:{device.uuid}" if device else ""
        text = f"ErrorCode:{code} PCI:{bus}{gpu} {line} Recommended Action={action};"
        self.post.say(
            orjson.dumps({"level": "INFO", "msg": "XID error detected", "xid": code, "event": text}).decode()
        )
        uuid = device.uuid if device else ""
        await health_events.record(self.post, CHECK, text, code=code, action=action, uuid=uuid, bus=bus)
        if action == "NONE":
            node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": self.post.node, "uid": self.post.node}}
            await self._recorder.warning(node, f"{CHECK}IsNotHealthy", text)
            return
        self.errors.setdefault(device.uuid if device else bus, []).append(text)
        await self._tell()

    async def _recover(self, uuid: str) -> None:
        """Say that a GPU is healthy again, or all are."""
        await health_events.record(self.post, CHECK, HEALTHY, code=0, action="NONE", uuid=uuid, bus="")

    async def _tell(self) -> None:
        """Write the node's condition: True where something is wrong."""
        texts = [text for found in self.errors.values() for text in found]
        message = " ".join(texts) or HEALTHY
        now = stamp(self.post.clock.now())
        condition: Obj = {
            "type": CHECK,
            "status": "True" if texts else "False",
            "reason": f"{CHECK}IsNotHealthy" if texts else f"{CHECK}IsHealthy",
            "message": message if len(message) <= LONGEST else message[:LONGEST] + "...",
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }
        patch = {"status": {"conditions": [condition]}}
        with tolerating(404):
            await self._api.patch("nodes", self.post.node, "", patch, patch_type="strategic", subresource="status")


def begin(post: Post) -> Monitor:
    """Begin to read."""
    return Monitor(post)
