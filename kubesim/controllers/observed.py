"""Kinds whose controllers only say that they have seen them: admission policies and flow schemas."""

from __future__ import annotations

from kubesim.admission.expressions import warnings
from kubesim.controllers.base import Context, Controller
from kubesim.errors import Obj
from kubesim.times import stamp

POLICIES = "validatingadmissionpolicies.admissionregistration.k8s.io"
SCHEMAS = "flowschemas.flowcontrol.apiserver.k8s.io"
LEVELS = "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io"


class PolicyStatusController(Controller):
    """Marks admission policies as seen, and their types as checked."""

    source = "validatingadmissionpolicy-status-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.policies = self.informers[POLICIES]

    def listen(self) -> None:
        """Watch policies."""
        self.watch_own(self.policies)

    async def sync(self, namespace: str, name: str) -> None:
        """Note the generation of one policy."""
        policy = self.policies.get("", name)
        if policy is not None:
            found = warnings(policy)
            checking: Obj = {"expressionWarnings": found} if found else {}
            seen = {"observedGeneration": policy["metadata"].get("generation", 1), "typeChecking": checking}
            await self.write_status(self.policies, policy, {**policy.get("status", {}), **seen})


class FlowSchemaController(Controller):
    """Says of each flow schema whether its priority level is there."""

    source = "api-priority-and-fairness-config-consumer-v1"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.schemas = self.informers[SCHEMAS]
        self.levels = self.informers[LEVELS]

    def listen(self) -> None:
        """Watch flow schemas and priority levels."""
        self.watch_own(self.schemas)
        self.levels.add_handler(self._level_changed)

    def _level_changed(self, old: Obj | None, new: Obj | None) -> None:
        if old is None or new is None:
            for schema in self.schemas.items():
                self.queue.add(f"/{schema['metadata']['name']}")

    async def sync(self, namespace: str, name: str) -> None:
        """Set the condition of one flow schema."""
        schema = self.schemas.get("", name)
        if schema is None:
            return
        level = schema["spec"]["priorityLevelConfiguration"]["name"]
        about = f'This FlowSchema references the PriorityLevelConfiguration object named "{level}"'
        found = self.levels.get("", level) is not None
        truth, reason = ("False", "Found") if found else ("True", "NotFound")
        old: Obj = next(iter(schema.get("status", {}).get("conditions") or ()), {})
        kept = old.get("lastTransitionTime") if old.get("status") == truth else None
        since = kept or stamp(self.clock.now())
        text = f"{about} and it exists" if found else f"{about} but there is no such object"
        condition = {"type": "Dangling", "status": truth, "lastTransitionTime": since}
        condition |= {"reason": reason, "message": text}
        await self.write_status(self.schemas, schema, {"conditions": [condition]})
