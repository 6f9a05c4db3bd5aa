"""Label and field selectors: parsing, matching, and upstream's texts for those that make no sense."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kubesim.api.status import TEXTS, bad_request, show
from kubesim.errors import ApiError, Obj
from kubesim.schema.registry import Kind
from kubesim.store import value_at

IDENTIFIERS = "in, notin, =, ==, !=, gt, lt"
_TOKEN = re.compile(r"\s*(==|!=|[=!(),<>]|[^\s=!(),<>]+|$)")
_OPERATORS = {"=": "in", "==": "in", "!=": "notin", "in": "in", "notin": "notin", ">": ">", "<": "<"}
NO_TERMS = ("", "=", "==")
"""Parts of a field selector that choose everything."""
SIGNS = frozenset("=!<>(") | {"==", "!="}
"""What is no value."""
_STRUCT_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}
_LABEL_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
NAME_RULE = TEXTS["label name"]
VALUE_RULE = TEXTS["label value"]
SUBDOMAIN_RULE = TEXTS["subdomain"]


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on a label: operator ``in``, ``notin``, ``exists``, ``!``, ``>`` or ``<``."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether a set of labels fulfils it; ``notin`` is fulfilled by a missing label too."""
        value = labels.get(self.key)
        match self.operator:
            case "in":
                return value is not None and value in self.values
            case "notin":
                return value is None or value not in self.values
            case "exists":
                return value is not None
            case "!":
                return value is None
            case _:
                return self._compares(value)

    def _compares(self, value: str | None) -> bool:
        (bound,) = self.values
        if value is None or not re.fullmatch(r"-?\d+", value):
            return False
        return int(value) > int(bound) if self.operator == ">" else int(value) < int(bound)


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All requirements together. Without any it matches everything, unless ``nothing``."""

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        """Tell whether an object with these labels is selected."""
        return not self.nothing and all(requirement.matches(labels or {}) for requirement in self.requirements)

    def selects(self, obj: Obj) -> bool:
        """Tell whether an object is selected by its own labels."""
        return not self.requirements or self.matches(obj["metadata"].get("labels"))


def parse_labels(text: str) -> LabelSelector:
    """Parse ``a=b,c in (d,e),!f``. Raises 400 ``unable to parse requirement: ...``."""
    return LabelSelector(tuple(_LabelParser(text).parse())) if text.strip() else LabelSelector()


def from_struct(selector: Obj | None) -> LabelSelector:
    """Return the selector of a meta/v1 LabelSelector: none selects nothing, an empty one everything.

    Raises ``ValueError`` for an operator that does not exist.
    """
    if selector is None:
        return LabelSelector(nothing=True)
    labels = selector.get("matchLabels") or {}
    found = [Requirement(key, "in", frozenset((value,))) for key, value in sorted(labels.items())]
    for entry in selector.get("matchExpressions") or ():
        operator = _STRUCT_OPERATORS.get(entry.get("operator", ""))
        if operator is None:
            raise ValueError(f'"{entry.get("operator", "")}" is not a valid label selector operator')
        found.append(Requirement(entry["key"], operator, frozenset(entry.get("values") or ())))
    return LabelSelector(tuple(found))


def format_struct(selector: Obj | None) -> str:
    """Return a meta/v1 LabelSelector as text (``status.selector`` of a Scale)."""
    shown = []
    for requirement in sorted(from_struct(selector or {}).requirements, key=lambda found: found.key):
        values = sorted(requirement.values)
        match requirement.operator:
            case "in" if len(values) == 1:
                shown.append(f"{requirement.key}={values[0]}")
            case "in" | "notin":
                shown.append(f"{requirement.key} {requirement.operator} ({','.join(values)})")
            case "!":
                shown.append(f"!{requirement.key}")
            case _:
                shown.append(requirement.key)
    return ",".join(shown)


def key_errors(key: str) -> list[str]:
    """Return what is wrong with a label key, in upstream's words."""
    prefix, slash, name = key.rpartition("/")
    errors = []
    if slash:
        if not prefix:
            errors.append("prefix part must be non-empty")
        elif len(prefix) > 253:
            errors.append("prefix part must be no more than 253 characters")
        elif not _PREFIX.fullmatch(prefix):
            errors.append(f"prefix part {SUBDOMAIN_RULE}")
    if prefix.count("/"):
        rule = f"a qualified name must consist of {NAME_RULE.removeprefix('name part must consist of ')}"
        return [f"{rule} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"]
    if not name:
        errors.append("name part must be non-empty")
    elif len(name) > 63:
        errors.append("name part must be no more than 63 characters")
    if not _LABEL_NAME.fullmatch(name):
        errors.append(NAME_RULE)
    return errors


def value_errors(value: str) -> list[str]:
    """Return what is wrong with a label value, in upstream's words."""
    errors = ["must be no more than 63 characters"] if len(value) > 63 else []
    return errors if not value or _LABEL_NAME.fullmatch(value) else [*errors, VALUE_RULE]


class _LabelParser:
    """A walk over the symbols of a label selector."""

    def __init__(self, text: str) -> None:
        self.symbols = [symbol for symbol in _TOKEN.findall(text) if symbol]
        self.position = 0

    def parse(self) -> list[Requirement]:
        if not self._starts_requirement():
            raise bad_request(f"found '{self._peek()}', expected: !, identifier, or 'end of string'")
        found = [self._requirement()]
        while (symbol := self._next()) == ",":
            if not self._starts_requirement():
                raise bad_request(f"found '{self._peek()}', expected: identifier after ','")
            found.append(self._requirement())
        if symbol:
            raise bad_request(f"found '{symbol}', expected: ',' or 'end of string'")
        return found

    def _starts_requirement(self) -> bool:
        symbol = self._peek()
        return symbol == "!" or bool(symbol and symbol not in _OPERATORS and symbol not in "(),")

    def _peek(self) -> str:
        return self.symbols[self.position] if self.position < len(self.symbols) else ""

    def _next(self) -> str:
        symbol = self._peek()
        self.position += 1
        return symbol

    def _requirement(self) -> Requirement:
        absent = self._peek() == "!"
        if absent:
            self._next()
        key = self._next()
        if not key or key in _OPERATORS or key in "!(),":
            raise _unparsable(f"found '{key}', expected: identifier")
        self._check(key_errors(key), f"<nil>: Invalid value: {show(key)}")
        if absent:
            return Requirement(key, "!")
        if self._peek() in ("", ","):
            return Requirement(key, "exists")
        return self._comparison(key)

    def _comparison(self, key: str) -> Requirement:
        symbol = self._next()
        operator = _OPERATORS.get(symbol)
        if operator is None:
            raise _unparsable(f"found '{symbol}', expected: {IDENTIFIERS}")
        values = self._values() if symbol in ("in", "notin") else frozenset((self._value(),))
        for value in sorted(values):
            self._check(value_errors(value), f"values[0][{key}]: Invalid value: {show(value)}")
        if operator in "<>" and not re.fullmatch(r"-?\d+", next(iter(values))):
            where = f"values[0]: Invalid value: {show(next(iter(values)))}"
            raise _unparsable(f"{where}: for 'Gt', 'Lt' operators, the value must be an integer")
        return Requirement(key, operator, values)

    def _value(self) -> str:
        if self._peek() in ("", ","):
            return ""
        symbol = self._next()
        if symbol in SIGNS:
            raise _unparsable(f"found '{symbol}', expected: identifier")
        return symbol

    def _values(self) -> frozenset[str]:
        if (symbol := self._next()) != "(":
            raise _unparsable(f"found '{symbol}' expected: '('")
        values, expected = set(), "',', ')' or identifier"
        while (symbol := self._next()) != ")":
            if symbol == "":
                raise _unparsable(f"found '', expected: {expected}")
            expected = "',', or identifier"
            if symbol == ",":
                values.add("") if self._peek() in (",", ")") else None
                continue
            if symbol in SIGNS:
                raise _unparsable(f"found '{symbol}', expected: ',', ')' or identifier")
            values.add(symbol)
            if self._peek() not in (",", ")"):
                raise _unparsable(f"found '{self._peek()}', expected: ',' or ')'")
        return frozenset(values or {""})

    def _check(self, errors: list[str], where: str) -> None:
        if errors:
            raise _unparsable(f"{where}: {'; '.join(errors)}")


def _unparsable(why: str) -> ApiError:
    return bad_request(f"unable to parse requirement: {why}")


@dataclass(frozen=True, slots=True)
class Term:
    """One comparison of a field; ``negated`` for ``!=``."""

    label: str
    path: tuple[str, ...]
    value: str
    negated: bool
    empty: str = ""
    instead: tuple[str, ...] = ()

    def matches(self, obj: Obj) -> bool:
        """Tell whether an object fulfils it."""
        found = value_at(obj, self.path, self.empty)
        if not found and self.instead:
            found = value_at(obj, self.instead, self.empty)
        return (found == self.value) is not self.negated


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """All terms together; without any it matches everything."""

    terms: tuple[Term, ...] = ()

    def selects(self, obj: Obj) -> bool:
        """Tell whether an object is selected."""
        return all(term.matches(obj) for term in self.terms)

    def value(self, label: str) -> str:
        """Return the value that a field must equal, or "" where it is free."""
        return next((term.value for term in self.terms if term.label == label and not term.negated), "")


def parse_fields(text: str, kind: Kind) -> FieldSelector:
    """Parse ``spec.nodeName=a,status.phase!=Failed`` for a kind. Raises 400 for a field it does not select by."""
    return FieldSelector(tuple(_term(part, text, kind) for part in _split(text) if part not in NO_TERMS))


def _split(text: str) -> list[str]:
    """Split at commas that no backslash escapes."""
    return re.findall(r"(?:\\.|[^,\\]|\\$)+", text)


def _term(part: str, text: str, kind: Kind) -> Term:
    found = re.match(r"((?:\\.|[^=!\\])*?)(==|!=|=)(.*)$", part, re.S)
    if not found:
        raise bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
    label, operator, value = found.groups()
    field = kind.selectable.get(label)
    if field is None:
        raise bad_request(kind.field_error.replace("{label}", label))
    return Term(label, field.path, _unescape(value), operator == "!=", field.empty, field.instead)


def _unescape(value: str) -> str:
    for found in re.finditer(r"\\(.?)|=", value, re.S):
        if found[0] == "=":
            raise bad_request(f"invalid field selector: unescaped character in value: {ord('=')}")
        if found[1] not in ("\\", ",", "="):
            raise bad_request(f"invalid field selector: invalid escape sequence: {found[0]}")
    return re.sub(r"\\([\\,=])", r"\1", value)


def matcher(labels: LabelSelector, fields: FieldSelector) -> Any:
    """Return one predicate for both selectors."""
    return lambda obj: labels.selects(obj) and fields.selects(obj)
