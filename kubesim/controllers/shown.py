"""Objects as Go prints them in messages."""

from __future__ import annotations

from kubesim.errors import Obj


def selector_text(selector: Obj) -> str:
    """Return a label selector as Go prints it."""
    labels = "".join(f"{key}: {value}," for key, value in sorted((selector.get("matchLabels") or {}).items()))
    rules = "".join(_rule(rule) for rule in selector.get("matchExpressions") or ())
    parts = f"MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{rules}}}"
    return f"&LabelSelector{{{parts},}}"


def _rule(rule: Obj) -> str:
    values = " ".join(rule.get("values") or ())
    return f"LabelSelectorRequirement{{Key:{rule['key']},Operator:{rule['operator']},Values:[{values}],}},"
