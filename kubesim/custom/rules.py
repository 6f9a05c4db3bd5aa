"""CEL rules of schemas (x-kubernetes-validations): compiled once, run on every object that passed its schema."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from kubesim.api.status import FieldError
from kubesim.cel import CelError, Program, compiled
from kubesim.custom.values import ROOT, type_name
from kubesim.errors import Obj

RULES = "x-kubernetes-validations"
REASONS = {"FieldValueRequired", "FieldValueForbidden", "FieldValueDuplicate"}


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule, and what is said where it does not hold; a transition rule speaks of the value before a change."""

    program: Program
    named: str
    message: str
    message_program: Program | None
    transition: bool
    reason: str
    field: str


def has_rules(schema: Any) -> bool:
    """Tell whether a schema has any rule."""
    if isinstance(schema, dict):
        return RULES in schema or any(has_rules(value) for value in schema.values())
    return isinstance(schema, list) and any(has_rules(value) for value in schema)


def rule_errors(value: Any, old: Any, schema: Obj, path: str = "", *, changing: bool = False) -> Iterator[FieldError]:
    """Yield an error for every rule that does not hold; ``changing``: ``old`` is what the value was before."""
    for entry in schema.get(RULES, ()):
        yield from _check(_rule(entry["rule"], entry.get("message", ""), entry.get("messageExpression", ""),
                                entry.get("reason", ""), entry.get("fieldPath", "")),
                          value, old, path, changing=changing)  # fmt: skip
    if isinstance(value, dict):
        extra = schema.get("additionalProperties")
        for name, item in sorted(value.items()):
            inner = schema.get("properties", {}).get(name, extra if isinstance(extra, dict) else None)
            if inner:
                before = old.get(name) if isinstance(old, dict) else None
                known = changing and before is not None
                yield from rule_errors(item, before, inner, f"{path}.{name}" if path else name, changing=known)
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for at, item in enumerate(value):
            before = _same_entry(item, old, schema)
            known = changing and before is not None
            yield from rule_errors(item, before, schema["items"], f"{path}[{at}]", changing=known)


def _same_entry(item: Any, old: Any, schema: Obj) -> Any:
    """Return the entry of a keyed list that an entry was before."""
    keys = schema.get("x-kubernetes-list-map-keys")
    if not keys or not isinstance(old, list):
        return None
    return next((other for other in old if all(other.get(key) == item.get(key) for key in keys)), None)


@lru_cache(2048)
def _rule(text: str, message: str, expression: str, reason: str, field: str) -> Rule:
    shown = message or f"failed rule: {text.strip()}"
    return Rule(
        compiled(text), message or text.strip(), shown, compiled(expression) if expression else None,
        "oldSelf" in text, reason if reason in REASONS else "FieldValueInvalid", field,
    )  # fmt: skip


def _check(rule: Rule, value: Any, old: Any, path: str, *, changing: bool) -> Iterator[FieldError]:
    if rule.transition and not changing:
        return
    variables = {"self": value, "oldSelf": old}
    where, shown = path or ROOT, f'"{type_name(value)}"'
    try:
        if rule.program.run(variables) is True:
            return
    except CelError as error:
        yield FieldError(where, "FieldValueInvalid", f"Invalid value: {shown}: {error} evaluating rule: {rule.named}")
        return
    message = _said(rule, variables)
    text = f"Forbidden: {message}" if rule.reason == "FieldValueForbidden" else f"Invalid value: {shown}: {message}"
    yield FieldError(where + rule.field, rule.reason, text)


def _said(rule: Rule, variables: dict[str, Any]) -> str:
    """Return what is said of a rule that does not hold; a message that cannot be made is replaced."""
    if rule.message_program is None:
        return rule.message
    try:
        found = rule.message_program.run(variables)
    except CelError:
        return rule.message
    return found if isinstance(found, str) and found.strip() and "\n" not in found.strip() else rule.message
