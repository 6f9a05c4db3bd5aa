"""The GPU operator's MIG manager: cuts a node's GPUs as its label ``nvidia.com/mig.config`` asks for.

Steps, labels and log lines are those of nvidia-mig-manager v0.13: what uses GPUs on the operator's behalf is sent
away by its node selector first, and called back in the end; who else uses one keeps it from being changed.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from kubesim.errors import ApiError, Obj
from kubesim.gpu.partition import NOT_APPLIED, Failed, Partition, select
from kubesim.informer import Informer
from kubesim.kubelet.duties import Post
from kubesim.times import stamp

CONFIG, STATE = "nvidia.com/mig.config", "nvidia.com/mig.config.state"
DEPLOY = "nvidia.com/gpu.deploy."
CLIENTS = ("device-plugin", "gpu-feature-discovery", "dcgm-exporter", "dcgm", "nvsm")
PAUSED = "paused-for-mig-change"
WAITED = (
    ("nvidia-device-plugin-daemonset", "device-plugin"),
    ("gpu-feature-discovery", "gpu-feature-discovery"),
    ("nvidia-dcgm-exporter", "dcgm-exporter"),
    ("nvidia-dcgm", "dcgm"),
)
"""Label ``app`` of the pods that have to be gone, and what they are called."""
VALIDATORS = ("nvidia-cuda-validator", "nvidia-device-plugin-validator")
SELECTORS = "component-specific nodeSelector labels"
PATIENCE_S, POLL_S, RETRY_S, WORK_S = 300, 1.0, 5.0, 2.0
DEFAULT_FILE = "/mig-parted-config/config.yaml"


class Stopped(Exception):
    """A reconfiguration that has failed; the message is the manager's."""


@dataclass
class MigManager:
    """The manager of one node."""

    post: Post
    wanted: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    """The node's, when the reconfiguration began, with what was written since."""

    def __post_init__(self) -> None:
        self._api, self._clock = self.post.api, self.post.clock
        self._board = self.post.machines.gpus(self.post.node).board
        self._nodes = Informer(self._api, self._clock, "nodes", f"metadata.name={self.post.node}")
        self._changed = asyncio.Event()
        self._task = asyncio.ensure_future(self._run())

    def stop(self) -> None:
        """Leave everything as it is."""
        self._task.cancel()

    def say(self, level: str, message: str) -> None:
        """Log something, as logrus writes it where nobody watches."""
        text = message.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        self.post.say(f'time="{stamp(self._clock.now())}" level={level} msg="{text}"')

    async def _run(self) -> None:
        self._nodes.add_handler(self._look)
        try:
            await self._begin()
            while True:
                self.say("info", f"Waiting for change to '{CONFIG}' label")
                await self._changed.wait()
                self._changed.clear()
                await self._update(self.wanted)
        finally:
            await self._nodes.stop()

    async def _begin(self) -> None:
        while True:
            try:
                await self._nodes.start()
            except (ApiError, ConnectionError):
                await self._clock.sleep(RETRY_S)
            else:
                return

    def _look(self, old: Obj | None, new: Obj | None) -> None:
        value = ((new or {}).get("metadata", {}).get("labels") or {}).get(CONFIG, "")
        if value != self.wanted:
            self.wanted = value
            if value:
                self._changed.set()

    async def _update(self, name: str) -> None:
        self.say("info", f"Updating to MIG config: {name}")
        try:
            await self._reconfigure(name)
        except (Stopped, ApiError, ConnectionError) as error:
            self.say("error", f"Error: {error}")
        else:
            self.say("info", f"Successfully updated to MIG config: {name}")

    async def _reconfigure(self, name: str) -> None:
        self.labels = (await self._api.get("nodes", self.post.node))["metadata"].get("labels") or {}
        self.say("info", "Asserting that the requested configuration is present in the configuration file")
        partition = await self._selected(name)
        self.say("info", "Checking if the selected MIG config is currently applied or not")
        if partition.is_applied():
            self.say("info", "Selected MIG config is already applied")
            await self._end("success")
            return
        self._fatal(NOT_APPLIED)
        await self._label({STATE: "pending"})
        await self._send_away()
        await self._clock.sleep(WORK_S)
        await self._apply(await self._selected(name))
        self.say("info", "Restarting validator pod to re-run all validations")
        await self._delete("nvidia-operator-validator")
        await self._end("success", "all")

    async def _selected(self, name: str) -> Partition:
        path = self.post.env.get("CONFIG_FILE") or DEFAULT_FILE
        try:
            parts = select(await self._file(path), path, name)
        except Failed as error:
            self._fatal(str(error))
            await self._end("failed")
            raise Stopped("failed to validate MIG configuration: exit status 1") from error
        return Partition(self._board, parts, self._clock.now(), self.say)

    async def _file(self, path: str) -> str | None:
        """Return what is mounted at a path from a config map, as its kubelet has it."""
        folder, _, key = path.rpartition("/")
        spec = self.post.pod["spec"]
        mounts = [item for one in spec["containers"] for item in one.get("volumeMounts") or ()]
        volume = next((item["name"] for item in mounts if item["mountPath"].rstrip("/") == folder), "")
        source = next((item.get("configMap") for item in spec.get("volumes") or () if item["name"] == volume), None)
        if source is None:
            return None
        try:
            found = await self.post.client.get("configmaps", source["name"], self.post.pod["metadata"]["namespace"])
        except ApiError:
            return None
        text: str | None = (found.get("data") or {}).get(key)
        return text

    async def _send_away(self) -> None:
        self.say("info", f"Shutting down all GPU clients in Kubernetes by disabling their {SELECTORS}")
        await self._label({DEPLOY + client: self._unless_off(client, PAUSED) for client in CLIENTS})
        for app, name in WAITED:
            self.say("info", f"Waiting for {'the ' if name == 'device-plugin' else ''}{name} to shutdown")
            await self._gone(app, name)
        for app in VALIDATORS:
            await self._delete(app)

    async def _gone(self, app: str, name: str) -> None:
        for _ in range(round(PATIENCE_S / POLL_S)):
            await self._clock.sleep(POLL_S)
            if not await self._pods(app):
                return
        raise Stopped(
            f"failed to wait for pods to be deleted: {name} pod did not shutdown: context deadline exceeded"
        )

    async def _pods(self, app: str) -> list[Obj]:
        namespace = self.post.pod["metadata"]["namespace"]
        fields = f"spec.nodeName={self.post.node}"
        found = await self._api.list("pods", namespace, label_selector=f"app={app}", field_selector=fields)
        return found.items

    async def _delete(self, app: str) -> None:
        for pod in await self._pods(app):
            await self._api.delete("pods", pod["metadata"]["name"], pod["metadata"]["namespace"])

    async def _apply(self, partition: Partition) -> None:
        self.say("info", "Applying the selected MIG config to the node")
        try:
            partition.apply()
        except Failed as error:
            self._fatal(f"error applying MIG configuration with hooks: {error}")
            await self._end("failed")
            raise Stopped("failed to apply MIG configuration: exit status 1") from error
        self.post.say("MIG configuration applied successfully")

    async def _end(self, state: str, which: str = "any") -> None:
        text = f"Restarting {which} GPU clients previously shutdown in Kubernetes by reenabling their {SELECTORS}"
        self.say("info", text)
        await self._label({DEPLOY + client: self._unless_off(client, "true") for client in CLIENTS})
        self.say("info", f"Changing the '{STATE}' node label to '{state}'\n")
        await self._label({STATE: state})

    def _unless_off(self, client: str, value: str) -> str:
        return "false" if self.labels.get(DEPLOY + client) == "false" else value

    def _fatal(self, message: str) -> None:
        self.say("fatal", message[0].upper() + message[1:])

    async def _label(self, labels: dict[str, str]) -> None:
        changed = {name: value for name, value in labels.items() if self.labels.get(name) != value}
        if changed:
            await self._api.patch("nodes", self.post.node, "", {"metadata": {"labels": changed}})
            self.labels = self.labels | changed


def begin(post: Post) -> MigManager:
    """Watch the node's label."""
    return MigManager(post)
