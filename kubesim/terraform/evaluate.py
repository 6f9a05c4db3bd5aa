"""Expressions, evaluated in a scope: what names mean there is the affair of ``Names``."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from kubesim.terraform import functions
from kubesim.terraform.diagnostics import Failure, Problem, Span, suggestion, told
from kubesim.terraform.formats import MAX_RESULT, TOO_LONG, CallError
from kubesim.terraform.mentions import described, references, spelled, type_at
from kubesim.terraform.syntax import Node, parse_template
from kubesim.terraform.values import (
    ANY,
    ConvertError,
    Map,
    Set,
    Unknown,
    common,
    convert,
    equal,
    known,
    type_name,
    type_of,
)  # fmt: skip

COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge, "+": operator.add, "-": operator.sub,
    "*": operator.mul,
}  # fmt: skip
NOT_IN = "The given key does not identify an element in this collection value"
MAX_ELEMENTS = 100_000


class Names(Protocol):
    """What the names of a module mean."""

    def lookup(self, scope: Scope, root: str, steps: list[Node], node: Node) -> tuple[Any, int]:
        """Return the value of a name, and how many of the steps after its root it has taken."""

    def read(self, path: str) -> str:
        """Return the text of a file. Raises ValueError."""


@dataclass(frozen=True)
class Scope:
    """The place of an expression: whose names, which file, in which block."""

    names: Names
    file: str
    within: str = ""
    bound: dict[str, Any] = field(default_factory=dict)
    address: str = ""

    def bind(self, **values: Any) -> Scope:
        """Return this scope with more names."""
        return replace(self, bound={**self.bound, **values})

    def problem(self, span: Span, summary: str, detail: str, node: Node | None = None) -> Failure:
        """Return a problem at a place; ``node`` is the expression whose parts are told."""
        told = sorted({*self._told(node)}) if node is not None else []
        return Failure(Problem(summary, detail, self.file, span, self.within, told, address=self.address))

    def failure(self, span: Span, key: str, /, node: Node | None = None, **values: object) -> Failure:
        """Return the problem of a key at a place."""
        return self.problem(span, *told(key, **values), node)

    def rendered(self, text: str, given: dict[str, Any], file: str) -> Any:
        """Return what a template with values of its own makes."""
        scope = Scope(NoNames("invalid_reference", self.names.read), file, bound=given)
        return evaluate(parse_template(text, file), scope)

    def _told(self, node: Node) -> Iterator[str]:
        for each in references(node):
            try:
                value = evaluate(each, self)
            except Failure:
                continue
            yield f"{spelled(each)} {described(value)}"


@dataclass(frozen=True)
class NoNames:
    """No names but those that are bound, as in templates and in values from outside; ``key`` says so."""

    key: str
    read: Callable[[str], str]

    def lookup(self, scope: Scope, root: str, steps: list[Node], node: Node) -> tuple[Any, int]:
        """Refuse every name."""
        raise scope.failure(node[1], self.key, root=root)


def evaluate(node: Node, scope: Scope) -> Any:
    """Return the value of an expression. Raises Failure."""
    return EVALUATORS[node[0]](node, scope)


def _literal(node: Node, scope: Scope) -> Any:
    return node[2]


def _paren(node: Node, scope: Scope) -> Any:
    return evaluate(node[2], scope)


def _template(node: Node, scope: Scope) -> Any:
    if len(node[2]) == 1:
        return evaluate(node[2][0], scope)
    return _joined(node[2], scope)


def _joined(parts: list[Node], scope: Scope) -> Any:
    found: list[str] = []
    open_, length = False, 0
    for part in parts:
        value = evaluate(part, scope)
        if isinstance(value, Unknown):
            open_ = True
            continue
        if value is None:
            raise scope.failure(part[1], "invalid_template_interpolation_value", part)
        try:
            found.append(convert(value, "string"))
        except ConvertError as error:
            key, it = "invalid_template_interpolation_value_2", str(error).partition(",")[0]
            raise scope.failure(part[1], key, part, it=it) from error
        length += len(found[-1])
        if length > MAX_RESULT:
            raise scope.problem(part[1], "Template too large", f"{TOO_LONG[0].upper()}{TOO_LONG[1:]}.")
    return Unknown("string") if open_ else "".join(found)


def _chain(node: Node, scope: Scope) -> Any:
    """Evaluate a name with the steps after it."""
    steps: list[Node] = []
    while node[0] in ("attr", "index"):
        steps.insert(0, node)
        node = node[2]
    taken = 0
    if node[0] != "root":
        value = evaluate(node, scope)
    elif node[2] in scope.bound:
        value = scope.bound[node[2]]
    else:
        value, taken = scope.names.lookup(scope, node[2], steps, node)
    for step in steps[taken:]:
        value = take(value, step, scope)
    return value


def take(value: Any, step: Node, scope: Scope) -> Any:
    """Return an attribute or element of a value. Raises Failure."""
    if step[0] == "attr":
        return _attribute(value, step[3], step, scope)
    return element(value, evaluate(step[3], scope), step, scope)


def _attribute(value: Any, name: str, node: Node, scope: Scope) -> Any:
    span = [*node[2][1][2:], *node[1][2:]] if node[0] == "attr" else node[1]
    if isinstance(value, Unknown):
        return Unknown(type_at(value.type, name))
    if value is None:
        raise scope.failure(span, "attempt_to_get_attribute_from", node[2])
    if isinstance(value, dict) and name in value:
        return value[name]
    if isinstance(value, Map):
        raise scope.problem(span, "Invalid index", f"{NOT_IN}.", node[2])
    if isinstance(value, dict):
        raise scope.failure(span, "unsupported_attribute", node[2], name=name, near=suggestion(name, value))
    key = "no_attributes_of_set" if isinstance(value, Set) else "no_attributes_of_list"
    key = key if isinstance(value, list) else "no_attributes_of_primitive"
    raise scope.failure(span, key, node[2], type=type_name(type_of(value)))


def element(value: Any, key: Any, node: Node, scope: Scope) -> Any:
    """Return the element of a collection under a key. Raises Failure."""
    span = [*node[2][1][2:], *node[1][2:]]
    if isinstance(key, Unknown):
        return Unknown()
    if isinstance(value, Unknown):
        return Unknown(type_at(value.type, key))
    if isinstance(value, Set):
        raise scope.failure(span, "invalid_index_2", node[2])
    if value is None:
        raise scope.failure(span, "attempt_to_index_null_value", node[2])
    try:
        if isinstance(value, dict):
            name = convert(key, "string")
            if name in value:
                return value[name]
            raise scope.problem(span, "Invalid index", f"{NOT_IN}.", [node[2], node[3]])
        if isinstance(value, list):
            at = convert(key, "number")
            if isinstance(at, int) and 0 <= at < len(value):
                return value[at]
            why = ": the given index is greater than or equal to the length of the collection"
            if not value:
                why = ": the collection has no elements"
            elif at < 0:
                why = ": a negative number is not a valid index for a sequence"
            raise scope.problem(span, "Invalid index", f"{NOT_IN}{why if hasattr(value, 'elem') else ''}.", node[2])
    except ConvertError as error:
        raise scope.problem(span, "Invalid index", f"{NOT_IN}: {error}.", node[2]) from error
    raise scope.failure(span, "invalid_index", node[2])


def _splat(node: Node, scope: Scope) -> Any:
    value = evaluate(node[2], scope)
    if isinstance(value, Unknown):
        return Unknown()
    items = [] if value is None else [*value] if isinstance(value, list) else [value]
    found = []
    for item in items:
        for kind, step in node[3]:
            item = take(item, [kind, node[1], node[2], step], scope)
        found.append(item)
    return found


def _tuple(node: Node, scope: Scope) -> Any:
    return [evaluate(each, scope) for each in node[2]]


def _object(node: Node, scope: Scope) -> Any:
    found = {}
    for key, value in node[2]:
        name = evaluate(key, scope)
        if isinstance(name, Unknown):
            return Unknown()
        try:
            found[_label(name)] = evaluate(value, scope)
        except ConvertError as error:
            raise scope.failure(key[1], "incorrect_key_type", key, error=error) from error
    return found


def _label(value: Any) -> Any:
    if value is None:
        raise ConvertError("string required, but have null")
    return convert(value, "string")


def _pairs(node: Node, scope: Scope) -> list[tuple[Any, Any]] | None:
    """Return keys and items of what is gone through; None where they are unknown."""
    value = evaluate(node, scope)
    if isinstance(value, Unknown):
        return None
    if not isinstance(value, dict | list):
        key = "iteration_over_null_value" if value is None else "iteration_over_noniterable_value"
        raise scope.failure(node[1], key, node, what=f"a {type_name(type_of(value))}")
    if len(value) > MAX_ELEMENTS:
        raise scope.failure(node[1], "too_many_elements", MAX_ELEMENTS=MAX_ELEMENTS)
    return pairs_of(value)


def pairs_of(value: Any) -> list[tuple[Any, Any]]:
    """Return keys and items of a collection, in the order in which they are gone through."""
    if isinstance(value, dict):
        return sorted(value.items())
    return [(item, item) for item in value] if isinstance(value, Set) else [*enumerate(value)]


def _for_list(node: Node, scope: Scope) -> Any:
    _, _, key, name, source, item, condition = node
    scopes = _scopes(key, name, source, condition, scope, [item])
    return Unknown() if scopes is None else [evaluate(item, inner) for inner in scopes]


def _scopes(
    key: str, name: str, source: Node, condition: Node | None, scope: Scope, results: list[Node]
) -> Iterator[Scope] | None:
    """Return the scopes of a ``for`` in which its condition holds; None where they are unknown."""

    def bound(index: Any, item: Any) -> Scope:
        return scope.bind(**{key: index, name: item})

    pairs = _pairs(source, scope)
    if pairs is None:  # the mistakes in what cannot be evaluated yet are told all the same
        for node in [*results, condition or ["lit", [], None]]:
            evaluate(node, bound(Unknown(), Unknown()))
        return None
    held = [condition is None or _truth(condition, bound(*pair)) for pair in pairs]
    return (bound(*pair) for pair, holds in zip(pairs, held, strict=True) if holds) if known(held) else None


def _for_object(node: Node, scope: Scope) -> Any:
    _, _, key, name, source, naming, item, condition, group = node
    found: dict[str, Any] = {}
    scopes = _scopes(key, name, source, condition, scope, [naming, item])
    if scopes is None:
        return Unknown()
    for inner in scopes:
        label = evaluate(naming, inner)
        if isinstance(label, Unknown):
            return Unknown()
        try:
            label = _label(label)
        except ConvertError as error:
            raise inner.failure(naming[1], "invalid_object_key", naming, error=error) from error
        value = evaluate(item, inner)
        if group:
            found.setdefault(label, []).append(value)
        elif label in found:
            raise inner.failure(naming[1], "duplicate_object_key", naming, label=label)
        else:
            found[label] = value
    return dict(sorted(found.items()))


def _truth(node: Node, scope: Scope) -> Any:
    value = evaluate(node, scope)
    if value is None:
        raise scope.failure(node[1], "null_condition", node)
    try:
        return convert(value, "bool")
    except ConvertError as error:
        raise scope.failure(node[1], "incorrect_condition_type", node) from error


def _conditional(node: Node, scope: Scope) -> Any:
    condition = evaluate(node[2], scope)
    holds = _truth(["lit", node[2][1], condition], scope)
    if isinstance(holds, Unknown):
        kinds = [type_of(each) for each in (evaluate(node[3], scope), evaluate(node[4], scope)) if each is not None]
        return Unknown(kinds[0] if kinds and all(kind == kinds[0] for kind in kinds) else ANY)
    chosen = evaluate(node[3] if holds else node[4], scope)
    try:
        other = evaluate(node[4] if holds else node[3], scope)
    except Failure:
        return chosen  # the branch that does not count may not be possible at all, as in a[0] of an empty list
    try:
        pair = common(chosen, other) if holds else common(other, chosen)[::-1]
    except ConvertError as error:
        why = f"{str(error)[0].upper()}{str(error)[1:]}"
        raise scope.failure(node[1], "inconsistent_conditional_result_types", node, why=why) from error
    return pair[0] if type(pair[0]) is not type(chosen) else chosen


def _binary(node: Node, scope: Scope) -> Any:
    _, _, sign, left, right = node
    one, other = evaluate(left, scope), evaluate(right, scope)
    if sign in ("==", "!="):
        half = None in (one, other) and not (isinstance(one, Unknown) or isinstance(other, Unknown))
        if not half and not known([one, other]):
            return Unknown("bool")
        return equal(one, other) == (sign == "==")
    kind = "bool" if sign in ("&&", "||") else "number"
    one, other = _operand(one, kind, "left", node, scope), _operand(other, kind, "right", node, scope)
    if kind == "bool" and (one is (sign == "||") or other is (sign == "||")):
        return sign == "||"
    if isinstance(one, Unknown) or isinstance(other, Unknown):
        return Unknown("bool" if kind == "bool" or sign[0] in "<>" else "number")
    if kind == "bool":
        return sign == "&&"
    if sign in "/%":
        if other == 0:
            raise scope.problem(node[1], "Division by zero", "Cannot divide by zero.", node)
        return (one // other if one % other == 0 else one / other) if sign == "/" else one - other * int(one / other)
    return COMPARE[sign](one, other)


def _operand(value: Any, kind: str, side: str, node: Node, scope: Scope) -> Any:
    try:
        if value is None:
            raise ConvertError("argument must not be null")
        return convert(value, kind)
    except ConvertError as error:
        what = "operand" if side == "only" else f"{side} operand"
        article = f"a {kind} is required" if value is not None else str(error)
        raise scope.failure(node[1], "invalid_operand", node, what=what, article=article) from error


def _unary(node: Node, scope: Scope) -> Any:
    value = evaluate(node[3], scope)
    raw = _operand(value, "bool" if node[2] == "!" else "number", "only", node, scope)
    return raw if isinstance(raw, Unknown) else (not raw if node[2] == "!" else -raw)


def _call(node: Node, scope: Scope) -> Any:
    _, span, name, given, expand = node
    name = name.removeprefix("core::")
    if name in ("try", "can"):
        return _attempt(name, given, scope, node)
    found = functions.functions().get(name)
    if found is None:
        refused = "::" in name or name in functions.table()["unsupported"]
        key, near = "unsupported_function" if refused else "unknown_function", suggestion(name, functions.functions())
        raise scope.failure([span[0], span[1], span[0], span[1] + len(name)], key, name=name, near=near)
    values = [evaluate(each, scope) for each in given]
    if expand:
        last = values.pop()
        if isinstance(last, Unknown):
            return Unknown(found.result)
        if not isinstance(last, list):
            raise scope.failure(given[-1][1], "invalid_expanding_argument", given[-1])
        values += last
    try:
        return functions.call(found, name, values, scope)
    except CallError as error:
        at = given[min(error.at, len(given) - 1)][1] if error.at is not None and given else span
        summary = "Invalid function argument" if error.at is not None else error.summary
        raise scope.problem(at, summary, error.told(name), node if summary != error.summary else None) from error


def _attempt(name: str, given: list[Node], scope: Scope, node: Node) -> Any:
    for each in given:
        try:
            value = evaluate(each, scope)
        except Failure:
            continue
        if name == "can":
            return True if known(value) else Unknown("bool")
        return value
    if name == "can":
        return False
    why = "no expression succeeded. At least one expression must produce a successful result"
    raise scope.failure(node[1], "error_in_function_call", why=why)


EVALUATORS: dict[str, Callable[[Node, Scope], Any]] = {
    "lit": _literal, "paren": _paren, "tpl": _template, "root": _chain,
    "attr": _chain, "index": _chain, "splat": _splat, "tuple": _tuple, "object": _object, "forl": _for_list,
    "foro": _for_object, "cond": _conditional, "bin": _binary, "un": _unary, "call": _call,
}  # fmt: skip
