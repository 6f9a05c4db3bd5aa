"""The GPU operator: tells in its ClusterPolicy whether all its parts run."""

from __future__ import annotations

import orjson

from kubesim.addons.operator import Discovery, Operator
from kubesim.controllers.base import Context, Controller, queue_key
from kubesim.errors import Obj, tolerating
from kubesim.kubelet.duties import Post
from kubesim.times import stamp

POLICIES = "clusterpolicies.nvidia.com"


class Policy(Controller):
    """Keeps the status of the ClusterPolicy: ready once every pod of every daemon set is."""

    source = "gpu-operator"

    def __init__(self, context: Context, post: Post) -> None:
        super().__init__(context)
        self._post = post
        self._sets, self._policies = self.informers["daemonsets.apps"], self.informers[POLICIES]

    def listen(self) -> None:
        """Watch the policy, and the daemon sets that it stands for."""
        self.watch_own(self._policies)
        self._sets.add_handler(lambda old, new: self._look_again())

    def _look_again(self) -> None:
        for policy in self._policies.items():
            self.queue.add(queue_key(policy))

    async def sync(self, namespace: str, name: str) -> None:
        """Write the status of one policy where it is another by now."""
        policy = self._policies.get("", name)
        if policy is None:
            return
        space = self._post.pod["metadata"]["namespace"]
        late = sorted(each["metadata"]["name"] for each in self._sets.items() if _is_late(each, space))
        state = "notReady" if late else "ready"
        if policy.get("status", {}).get("state") == state:
            return
        states = " ".join(map(_state, late))
        why = f"ClusterPolicy is not ready, states not ready: [{states}]" if late else "ClusterPolicy is ready."
        self._post.say(orjson.dumps({"level": "info", "logger": "controllers.ClusterPolicy", "msg": why}).decode())
        ready = {"type": "Ready", "status": "False" if late else "True", "message": why if late else ""}
        failed = {"type": "Error", "status": "True" if late else "False", "message": why if late else ""}
        ready["reason"], failed["reason"] = ("Error", "OperandNotReady") if late else ("Reconciled", "Ready")
        now = stamp(self._post.clock.now())
        conditions = [{**each, "lastTransitionTime": now} for each in (ready, failed)]
        status = {"state": state, "namespace": space, "conditions": conditions}
        with tolerating(404):
            await self._post.api.patch(POLICIES, name, "", {"status": status}, subresource="status")


def _is_late(found: Obj, namespace: str) -> bool:
    """Tell whether pods of a daemon set of the operator are not ready."""
    status, meta = found.get("status") or {}, found["metadata"]
    return bool(
        meta["namespace"] == namespace and status.get("numberReady", 0) < status.get("desiredNumberScheduled", 0)
    )


def _state(name: str) -> str:
    """Return what the operator calls the state that a daemon set belongs to."""
    return "state-" + name.removeprefix("nvidia-").removesuffix("-daemonset")


def begin(post: Post) -> Operator:
    """Begin to tell."""
    return Operator(post, Policy)


CHECK_S = 0.1
FAILED = 'level=info msg="Error: error validating driver installation: {}"'


class Validator(Discovery):
    """The operator's validator: it ends where the driver of its node does not work, and is started again."""

    moment_s = CHECK_S

    async def tell(self) -> None:
        """Check the driver."""
        if why := self.post.machines.gpus(self.post.node).nvml_error:
            self.post.die(FAILED.format(why))
