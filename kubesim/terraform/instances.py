"""The instances of a block, by count and for_each."""

from __future__ import annotations

from typing import Any

from kubesim.terraform.diagnostics import said
from kubesim.terraform.evaluate import Scope, evaluate
from kubesim.terraform.syntax import Node
from kubesim.terraform.values import ANY, ConvertError, Set, Unknown, convert, type_name, type_of

Key = str | int | None


class Open(str):
    """The key of the one instance that stands for all while nobody knows how many there are."""


MOST_INSTANCES = 500


def counted(node: Node, scope: Scope, *, validating: bool) -> dict[Key, dict[str, Any]]:
    value = evaluate(node, scope)
    if isinstance(value, Unknown):
        if validating:
            return {Open(): {"count": {"index": Unknown("number")}}}
        raise scope.failure(node[1], "invalid_count_argument")
    try:
        count = convert(value, "number")
    except ConvertError as error:
        raise scope.failure(node[1], "invalid_count_argument_2", node, error=error) from error
    if not isinstance(count, int) or count < 0:
        why = "must be greater than or equal to zero" if isinstance(count, int) else "a whole number is required"
        why = f"unsuitable: {why}." if count is not None else "null. An integer is required."
        raise scope.problem(node[1], "Invalid count argument", f'The given "count" argument value is {why}', node)
    _check_many(count, node, scope)
    return {at: {"count": {"index": at}} for at in range(count)}


def _check_many(count: int, node: Node, scope: Scope) -> None:
    if count > MOST_INSTANCES:
        raise scope.failure(node[1], "too_many_instances", count=count, MOST_INSTANCES=MOST_INSTANCES)


def each_of(node: Node, scope: Scope, *, validating: bool) -> dict[Key, dict[str, Any]]:
    value = evaluate(node, scope)
    if isinstance(value, Unknown):
        if validating:
            inner = value.type[1] if isinstance(value.type, list) and isinstance(value.type[1], str | list) else ANY
            return {Open(): {"each": {"key": Unknown("string"), "value": Unknown(inner)}}}
        it = "set" if isinstance(value.type, list) and value.type[0] == "set" else "map"
        raise scope.failure(node[1], "invalid_foreach_argument_2", node, it=it)
    if isinstance(value, Set) and all(isinstance(item, str) for item in value):
        pairs: list[tuple[str, Any]] = [(item, item) for item in value]
    elif isinstance(value, dict):
        pairs = sorted(value.items())
    else:
        key = "the_given_foreach_argument_value" if value is None else "the_given_foreach_argument_value_2"
        title = "Invalid for_each set argument" if isinstance(value, Set) else "Invalid for_each argument"
        raise scope.problem(node[1], title, said(key, it=type_name(type_of(value))), node)
    _check_many(len(pairs), node, scope)
    return {key: {"each": {"key": key, "value": item}} for key, item in pairs}
