"""Controllers of policy: roles that are made of others, and kinds that are only noted as seen.

An aggregated role has the rules of every role that its selectors choose. Admission policies and flow schemas are
told that they have been seen.
"""

from __future__ import annotations

from kubesim.api.selectors import from_struct
from kubesim.conditions import condition_of, renewed
from kubesim.controllers.base import Context, Keeper, is_ending
from kubesim.errors import Obj

LEVELS = "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io"


class AggregationController(Keeper):
    """Keeps the rules of aggregated roles."""

    source = "clusterrole-aggregation-controller"
    resource = "clusterroles.rbac.authorization.k8s.io"

    def listen(self) -> None:
        """Any change of a role may change the roles that are made of it."""
        self.own.add_index("aggregated", lambda role: ["yes"] if role.get("aggregationRule") else [])
        self.own.add_handler(self._changed)

    def _changed(self, old: Obj | None, new: Obj | None) -> None:
        for role in self.own.by("aggregated", "yes"):
            self.queue.add(f"/{role['metadata']['name']}")

    async def look_after(self, role: Obj) -> None:
        """Put one role together."""
        if is_ending(role) or not role.get("aggregationRule"):
            return
        rules = self._rules(role)
        if rules != (role.get("rules") or []):
            await self.own.patch(role, {"rules": rules or None})

    def _rules(self, role: Obj) -> list[Obj]:
        found: list[Obj] = []
        name = role["metadata"]["name"]
        named = {str(other["metadata"]["name"]): other for other in self.own.items()}
        others = [named[each] for each in sorted(named) if each != name]
        for selector in role["aggregationRule"].get("clusterRoleSelectors") or ():
            wanted = from_struct(selector)
            for other in others:
                if wanted.selects(other):
                    found += [rule for rule in other.get("rules") or () if rule not in found]
        return found


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
