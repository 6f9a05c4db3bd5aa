"""Relabelling: the rules of ``relabel_configs`` over a set of labels (Prometheus' model/relabel)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import re2

from kubesim.metrics.promql.values import Labels

ACTIONS = frozenset(
    ("replace", "keep", "drop", "keepequal", "dropequal", "hashmod", "labelmap", "labeldrop", "labelkeep")
    + ("lowercase", "uppercase")
)
_REFERENCE = re.compile(r"\$(?:\{(\w+)\}|(\w+)|(\$))")
_LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


class RelabelError(Exception):
    """A rule that Prometheus would refuse; the message is worded as its own."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule, compiled."""

    action: str
    sources: tuple[str, ...]
    separator: str
    regex: Any
    modulus: int
    target: str
    replacement: str


def rules(entries: Iterable[Mapping[str, Any]] | None) -> tuple[Rule, ...]:
    """Return compiled rules. Raises RelabelError."""
    return tuple(_rule(entry) for entry in entries or ())


def _rule(entry: Mapping[str, Any]) -> Rule:
    action = str(entry.get("action", "replace")).lower()
    if action not in ACTIONS:
        raise RelabelError(f'unknown relabel action "{action}"')
    if action in ("replace", "hashmod", "lowercase", "uppercase") and not entry.get("target_label"):
        raise RelabelError(f"relabel configuration for {action} action requires 'target_label' value")
    if action == "hashmod" and not entry.get("modulus"):
        raise RelabelError("relabel configuration for hashmod requires non-zero modulus")
    try:
        regex = re2.compile(str(entry.get("regex", "(.*)")))
    except re2.error as error:
        raise RelabelError(f"error parsing regexp: {error}") from error
    return Rule(
        action,
        tuple(entry.get("source_labels") or ()),
        str(entry.get("separator", ";")),
        regex,
        int(entry.get("modulus") or 0),
        str(entry.get("target_label") or ""),
        str(entry.get("replacement", "$1")),
    )


def apply(found: Iterable[Rule], labels: Labels) -> dict[str, str] | None:
    """Return the labels after all rules; None where a rule has dropped them."""
    now: dict[str, str] | None = dict(labels)
    for rule in found:
        now = _applied(rule, now) if now is not None else None
    return now


def _applied(rule: Rule, labels: dict[str, str]) -> dict[str, str] | None:
    value = rule.separator.join(labels.get(name, "") for name in rule.sources)
    match rule.action:
        case "keep" | "drop":
            return labels if bool(rule.regex.fullmatch(value)) == (rule.action == "keep") else None
        case "keepequal" | "dropequal":
            return labels if (labels.get(rule.target, "") == value) == (rule.action == "keepequal") else None
        case "labeldrop" | "labelkeep":
            keeps = rule.action == "labelkeep"
            return {name: text for name, text in labels.items() if bool(rule.regex.fullmatch(name)) == keeps}
        case "labelmap":
            matches = [(rule.regex.fullmatch(name), text) for name, text in labels.items()]
            return labels | {_filled(rule.replacement, match): text for match, text in matches if match}
        case "hashmod":
            digest = int.from_bytes(hashlib.md5(value.encode(), usedforsecurity=False).digest()[8:], "big")
            return _with(labels, rule.target, str(digest % rule.modulus))
        case "lowercase" | "uppercase":
            return _with(labels, rule.target, value.lower() if rule.action == "lowercase" else value.upper())
    return _replaced(rule, labels, rule.regex.fullmatch(value))


def _replaced(rule: Rule, labels: dict[str, str], match: Any) -> dict[str, str]:
    if match is None:
        return labels
    target = _filled(rule.target, match)
    return _with(labels, target, _filled(rule.replacement, match)) if _LABEL_NAME.fullmatch(target) else labels


def _filled(template: str, match: Any) -> str:
    def group(found: re.Match[str]) -> str:
        if found[3]:
            return "$"
        name = found[1] or found[2]
        try:
            return match.group(int(name) if name.isdecimal() else name) or ""
        except (IndexError, KeyError):
            return ""

    return _REFERENCE.sub(group, template)


def _with(labels: dict[str, str], name: str, value: str) -> dict[str, str]:
    if value:
        return {**labels, name: value}
    return {key: text for key, text in labels.items() if key != name}
