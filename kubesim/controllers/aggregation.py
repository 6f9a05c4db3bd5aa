"""ClusterRoles that are made of others: their rules are those of every role that their selectors choose."""

from __future__ import annotations

from kubesim.api.selectors import from_struct
from kubesim.controllers.base import Context, Controller, is_ending
from kubesim.errors import Obj

ROLES = "clusterroles.rbac.authorization.k8s.io"


class AggregationController(Controller):
    """Keeps the rules of aggregated roles."""

    source = "clusterrole-aggregation-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.roles = self.informers[ROLES]

    def listen(self) -> None:
        """Any change of a role may change the roles that are made of it."""
        self.roles.add_index("aggregated", lambda role: ["yes"] if role.get("aggregationRule") else [])
        self.roles.add_handler(self._changed)

    def _changed(self, old: Obj | None, new: Obj | None) -> None:
        for role in self.roles.by("aggregated", "yes"):
            self.queue.add(f"/{role['metadata']['name']}")

    async def sync(self, namespace: str, name: str) -> None:
        """Put one role together."""
        role = self.roles.get("", name)
        if role is None or is_ending(role) or not role.get("aggregationRule"):
            return
        rules = self._rules(role)
        if rules != (role.get("rules") or []):
            await self.roles.patch(role, {"rules": rules or None})

    def _rules(self, role: Obj) -> list[Obj]:
        found: list[Obj] = []
        name = role["metadata"]["name"]
        named = {str(other["metadata"]["name"]): other for other in self.roles.items()}
        others = [named[each] for each in sorted(named) if each != name]
        for selector in role["aggregationRule"].get("clusterRoleSelectors") or ():
            wanted = from_struct(selector)
            for other in others:
                if wanted.selects(other):
                    found += [rule for rule in other.get("rules") or () if rule not in found]
        return found
