"""Checks of the rights that a pack lists for its candidate."""

from __future__ import annotations

from collections.abc import Sequence

from faults.packs.denied_rights import denied_rights
from faults.packs.errors import PackError
from faults.packs.model import Obj
from faults.packs.rights import NAMELESS, RIGHTS_SINCE, AccessRule
from faults.packs.steps import DOCUMENT, check_namespace, schema_of


def check_rights(document: Obj) -> None:
    """Raise ``PackError`` for rights that cannot be granted; on shared clusters, because they reach others' work."""
    own = [f"${{namespace.{name}}}" for name in document["namespaces"]]
    state = [document["workspace"]["state"]] if "workspace" in document else []
    known = [*own, *document.get("existing", []), *state]
    for number, row in enumerate(document.get("rights", [])):
        denied = [row] if isinstance(row, str) else _check_rule(document, number, own, known)
        if denied and "shared" in document["requires"]["tiers"]:
            message = f"cannot be granted on shared clusters: {denied[0]}; remove shared from requires.tiers"
            raise PackError(DOCUMENT, f"rights.{number}", message)


def _check_rule(document: Obj, number: int, own: Sequence[str], known: Sequence[str]) -> list[str]:
    """Return what of a right is on the deny-list."""
    where, rule = f"rights.{number}", AccessRule.load(document["rights"][number])
    if schema_of(document) < RIGHTS_SINCE:
        raise PackError(DOCUMENT, where, f"verbs and resources need schema: {RIGHTS_SINCE}")
    if nameless := sorted(set(rule.verbs) & set(NAMELESS)) if rule.names else []:
        message = f"{' and '.join(nameless)} cannot be narrowed to names; list it in a right of its own"
        raise PackError(DOCUMENT, f"{where}.verbs", message)
    if "workspace" in document:
        _check_impersonation(rule, where)
    for namespace in rule.namespaces:
        check_namespace(f"{where}.namespaces", namespace, known)
    return list(map(str, denied_rights([rule], own)))


def _check_impersonation(rule: AccessRule, where: str) -> None:
    """Raise ``PackError`` for people whom the policy about Terraform cannot name before a variant is drawn."""
    is_of_people = "impersonate" in rule.verbs and {"users", "groups"} & set(rule.resources)
    if is_of_people and (not rule.names or any("${" in name for name in rule.names)):
        message = "beside a workspace, users and groups are impersonated by names that every variant has"
        raise PackError(DOCUMENT, f"{where}.names", message)
