"""Kinds whose controllers only say that they have seen them: admission policies and flow schemas."""

from __future__ import annotations

from kubesim.conditions import condition_of, renewed
from kubesim.controllers.base import Context, Keeper
from kubesim.errors import Obj

LEVELS = "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io"


class PolicyStatusController(Keeper):
    """Marks admission policies as seen; the types of their expressions are not checked."""

    source = "validatingadmissionpolicy-status-controller"
    resource = "validatingadmissionpolicies.admissionregistration.k8s.io"

    async def look_after(self, policy: Obj) -> None:
        """Note the generation of one policy."""
        seen = {"observedGeneration": policy["metadata"].get("generation", 1), "typeChecking": {}}
        await self.write_status(self.own, policy, {**policy.get("status", {}), **seen})


class FlowSchemaController(Keeper):
    """Says of each flow schema whether its priority level is there."""

    source = "api-priority-and-fairness-config-consumer-v1"
    resource = "flowschemas.flowcontrol.apiserver.k8s.io"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.levels = self.informers[LEVELS]

    def listen(self) -> None:
        """Watch flow schemas and priority levels."""
        super().listen()
        self.levels.add_handler(self._level_changed)

    def _level_changed(self, old: Obj | None, new: Obj | None) -> None:
        if old is None or new is None:
            for schema in self.own.items():
                self.queue.add(f"/{schema['metadata']['name']}")

    async def look_after(self, schema: Obj) -> None:
        """Set the condition of one flow schema."""
        level = schema["spec"]["priorityLevelConfiguration"]["name"]
        about = f'This FlowSchema references the PriorityLevelConfiguration object named "{level}"'
        says = ("False", "Found", f"{about} and it exists")
        if self.levels.get("", level) is None:
            says = ("True", "NotFound", f"{about} but there is no such object")
        condition = renewed(condition_of(schema.get("status"), "Dangling"), "Dangling", says, self.clock.now())
        await self.write_status(self.own, schema, {"conditions": [condition]})
