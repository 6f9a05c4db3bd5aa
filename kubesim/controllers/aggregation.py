"""ClusterRoles that are made of others: their rules are those of every role that their selectors choose."""

from __future__ import annotations

from kubesim.api.selectors import from_struct
from kubesim.controllers.base import Keeper, is_ending
from kubesim.errors import Obj


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
