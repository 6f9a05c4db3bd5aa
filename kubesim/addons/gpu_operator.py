"""The GPU operator: labels nodes whose GPUs MIG can cut, so that they get a MIG manager, and its first task."""

from __future__ import annotations

import orjson

from kubesim.addons.mig_manager import CONFIG, DEPLOY
from kubesim.addons.operator import Operator
from kubesim.controllers.base import Context, Controller
from kubesim.errors import tolerating
from kubesim.kubelet.duties import Post

CAPABLE, MANAGER, FIRST = "nvidia.com/mig.capable", f"{DEPLOY}mig-manager", "all-disabled"


class Labeller(Controller):
    """Labels nodes."""

    source = "gpu-operator"

    def __init__(self, context: Context, post: Post) -> None:
        super().__init__(context)
        self._post = post
        self._nodes = self.informers["nodes"]

    def listen(self) -> None:
        """Watch the nodes."""
        self.watch_own(self._nodes)

    async def sync(self, namespace: str, name: str) -> None:
        """Give one node the labels that it lacks."""
        node = self._nodes.get("", name)
        labels = (node["metadata"].get("labels") or {}) if node is not None else {}
        if labels.get(CAPABLE) != "true":
            return
        lacking = {key: value for key, value in ((MANAGER, "true"), (CONFIG, FIRST)) if not labels.get(key)}
        for key, value in lacking.items():
            self._say("Setting node label", name, key, value)
        if lacking:
            with tolerating(404):
                await self._nodes.patch({"metadata": {"name": name}}, {"metadata": {"labels": lacking}})

    def _say(self, message: str, node: str, label: str, value: str) -> None:
        line = {"level": "info", "logger": "controllers.ClusterPolicy", "msg": message, "NodeName": node}
        self._post.say(orjson.dumps({**line, "Label": label, "Value": value}).decode())


def begin(post: Post) -> Operator:
    """Begin to label."""
    return Operator(post, Labeller)
