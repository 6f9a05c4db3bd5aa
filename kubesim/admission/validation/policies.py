"""What is wrong with a ValidatingAdmissionPolicy, in the order and the words of upstream's validation."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kubesim.admission.validation.metadata import dns_errors
from kubesim.api.selectors import key_errors
from kubesim.api.status import FieldError, duplicate, invalid_value, required, unsupported
from kubesim.cel import CelError, compiled
from kubesim.errors import Obj

EMPTY = "validations or auditAnnotations must contain at least one item"
FAILURES = ("Fail", "Ignore")
REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
MATCHING = ("Equivalent", "Exact")
SCOPES = ("*", "Cluster", "Namespaced")
IDENTIFIER = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")
RESERVED = frozenset((
    "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import",
    "let", "loop", "package", "namespace", "return", "var", "void", "while",
))  # fmt: skip
WILDCARDS = {"apiGroups": "API groups", "apiVersions": "API versions", "operations": "operations"}


def policy_errors(policy: Obj) -> list[FieldError]:
    """Return what is wrong with a policy: what is missing, and expressions that are none."""
    spec = policy.get("spec") or {}
    found = [*_choice("spec.failurePolicy", spec.get("failurePolicy", "Fail"), FAILURES)]
    found += _param_errors(spec["paramKind"]) if spec.get("paramKind") else ()
    found += _constraint_errors(spec.get("matchConstraints"), "spec.matchConstraints")
    for field in ("matchConditions", "variables"):
        for at, entry in enumerate(spec.get(field) or ()):
            found += _named_errors(entry, f"spec.{field}[{at}]", identifier=field == "variables")
    if not spec.get("validations") and not spec.get("auditAnnotations"):
        found += [required("spec.validations", EMPTY), required("spec.auditAnnotations", EMPTY)]
    for at, entry in enumerate(spec.get("validations") or ()):
        found += _validation_errors(entry, f"spec.validations[{at}]")
    found += _annotation_errors(spec.get("auditAnnotations") or [], policy["metadata"].get("name", ""))
    return found


def _choice(path: str, value: str | None, choices: tuple[str, ...]) -> Iterator[FieldError]:
    if value is not None and value not in choices:
        yield unsupported(path, value, choices)


def _param_errors(kind: Obj) -> Iterator[FieldError]:
    version, name = kind.get("apiVersion") or "", kind.get("kind") or ""
    if not version:
        yield required("spec.paramKind.apiVersion")
    if not name:
        yield required("spec.paramKind.kind")
    elif wrong := dns_errors(name.lower(), "dns1035"):
        why = f"may have mixed case, but should otherwise match: {','.join(wrong)}"
        yield invalid_value("spec.paramKind.kind", name, why)


def _constraint_errors(constraints: Obj | None, path: str) -> Iterator[FieldError]:
    if not constraints:
        yield required(path)
        return
    yield from _choice(f"{path}.matchPolicy", constraints.get("matchPolicy"), MATCHING)
    for field in ("resourceRules", "excludeResourceRules"):
        for at, rule in enumerate(constraints.get(field) or ()):
            yield from _rule_errors(rule, f"{path}.{field}[{at}]")
    if not constraints.get("resourceRules"):
        yield required(f"{path}.resourceRules")


def _rule_errors(rule: Obj, path: str) -> Iterator[FieldError]:
    for field, what in (*WILDCARDS.items(), ("resources", "")):
        values = rule.get(field) or []
        if not values:
            yield required(f"{path}.{field}")
        if what and len(values) > 1 and "*" in values:
            yield invalid_value(f"{path}.{field}", values, f"if '*' is present, must not specify other {what}")
    for at, value in enumerate(rule.get("operations") or ()):
        yield from _choice(f"{path}.operations[{at}]", value, OPERATIONS)
    yield from _choice(f"{path}.scope", rule.get("scope"), SCOPES)


def _named_errors(entry: Obj, path: str, *, identifier: bool) -> Iterator[FieldError]:
    """Yield what is wrong with a condition or a variable."""
    name = entry.get("name") or ""
    if not name.strip():
        yield required(f"{path}.name", "name is not specified" if identifier else "")
    elif identifier and (not IDENTIFIER.fullmatch(name) or name in RESERVED):
        yield invalid_value(f"{path}.name", name, "must be a valid CEL identifier")
    elif not identifier:
        yield from (invalid_value(f"{path}.name", name, why) for why in key_errors(name))
    yield from _expression_errors(entry.get("expression", ""), f"{path}.expression", "expression is not specified")


def _validation_errors(entry: Obj, path: str) -> Iterator[FieldError]:
    yield from _expression_errors(entry.get("expression", ""), f"{path}.expression", "expression is not specified")
    for field in ("messageExpression", "message"):
        text = entry.get(field) or ""
        if text and not text.strip():
            yield invalid_value(f"{path}.{field}", text, "must be non-empty if specified")
        elif text and field == "messageExpression":
            yield from _expression_errors(text, f"{path}.{field}", "")
        elif "\n" in text.strip():
            yield invalid_value(f"{path}.{field}", text, "must not contain line breaks")
    yield from _choice(f"{path}.reason", entry.get("reason"), REASONS)


def _annotation_errors(entries: list[Obj], policy: str) -> Iterator[FieldError]:
    keys: set[str] = set()
    for at, entry in enumerate(entries):
        path, key = f"spec.auditAnnotations[{at}]", entry.get("key") or ""
        whole = f"{policy}/{key}"
        if policy:
            yield from (invalid_value(f"{path}.key", whole, why) for why in key_errors(whole))
        else:
            yield invalid_value(f"{path}.key", key, "requires metadata.name be non-empty")
        text = entry.get("valueExpression", "")
        yield from _expression_errors(text, f"{path}.valueExpression", "valueExpression is not specified")
        if key in keys:
            yield duplicate(f"{path}.key", key)
        keys.add(key)


def _expression_errors(text: str, path: str, missing: str) -> Iterator[FieldError]:
    if not text.strip():
        yield required(path, missing)
        return
    try:
        compiled(text)
    except CelError as error:
        yield invalid_value(path, text, f"compilation failed: {error}")
