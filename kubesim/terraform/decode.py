"""Bodies of blocks, turned into the values of a schema; and what a provider makes of them beside what there is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kubesim.terraform.config import META
from kubesim.terraform.diagnostics import Failure, Problem, Span, said, suggestion
from kubesim.terraform.evaluate import Scope, evaluate, pairs_of
from kubesim.terraform.schema import Attribute, Block, empty, same, type_of_block
from kubesim.terraform.syntax import Body, Node
from kubesim.terraform.values import ConvertError, List, Set, Unknown, convert, made, type_of

RESERVED = ("lifecycle", "dynamic", "provisioner", "connection")
MOST_BLOCKS = 1000
Value = dict[str, Any]
Path = tuple[Any, ...]


def decode(block: Block, body: Body, scope: Scope, span: Span, *, top: bool = True) -> Value:
    """Return the value of a block's body. Raises Failure with everything that is wrong in it."""
    problems: list[Problem] = []
    found: Value = {}
    allowed = META if top else ()
    for name, (at, _) in body["attrs"].items():
        if name not in block.attributes and name not in allowed:
            problems += _unexpected(block, name, scope, at)
    for name, attribute in block.attributes.items():
        try:
            found[name] = _argument(attribute, body, scope, span)
        except Failure as failed:
            problems += failed.problems
    given: dict[str, list[Any]] = {}
    for kind, labels, at, below in body["blocks"]:
        name = labels[0] if kind == "dynamic" and labels else kind
        if name in block.blocks and block.blocks[name].mode != "computed":
            given.setdefault(name, []).append((kind, at, below))
        elif name not in RESERVED or (not top and name != "dynamic"):
            problems += _unexpected_block(block, name, scope, at)
    for name, inner in block.blocks.items():
        try:
            found[name] = _nested(name, inner, given.get(name, []), scope, span)
        except Failure as failed:
            problems += failed.problems
    if problems:
        raise Failure(*problems)
    return {name: found[name] for name in sorted(found)}


def _unexpected(block: Block, name: str, scope: Scope, span: Span) -> list[Problem]:
    near = suggestion(name, block.attributes)
    if name in block.blocks:
        near = f' Did you mean to define a block of type "{name}"?'
    return scope.failure(span, "unsupported_argument_2", name=name, near=near).problems


def _unexpected_block(block: Block, name: str, scope: Scope, span: Span) -> list[Problem]:
    near = suggestion(name, block.blocks)
    if name in block.attributes:
        near = said("block_for_argument", name=name)
    return scope.failure(span, "unsupported_block_type_2", kind=name, near=near).problems


def _argument(attribute: Attribute, body: Body, scope: Scope, span: Span) -> Any:
    name = attribute.name
    if name not in body["attrs"]:
        if attribute.required:
            raise scope.failure(span, "missing_required_argument_4", name=name)
        return None
    at, node = body["attrs"][name]
    if attribute.computed and not attribute.optional:
        raise scope.failure(at, "value_for_unconfigurable_attribute", name=name)
    value = evaluate(node, scope)
    try:
        value = convert(value, attribute.type)
    except ConvertError as error:
        raise scope.failure(node[1], "incorrect_attribute_value_type", node, name=name, error=error) from error
    if value is None and attribute.required:
        raise scope.failure(node[1], "missing_required_argument_4", name=name)
    return value


def _nested(name: str, block: Block, given: list[Any], scope: Scope, span: Span) -> Any:
    items: list[Any] = []
    for kind, at, body in given:
        for inner_scope, inner_body, inner_at in _expanded(name, kind, at, body, scope):
            if inner_scope is None:
                return Unknown(["list", type_of_block(block)])
            items.append(decode(block, inner_body, inner_scope, inner_at, top=False))
            if len(items) > MOST_BLOCKS:
                raise scope.failure(at, "too_many_name_blocks_2", name=name, MOST_BLOCKS=MOST_BLOCKS)
    if block.required and not items:
        raise scope.failure(span, "insufficient_name_blocks", name=name)
    if block.most and len(items) > block.most:
        raise scope.failure(given[-1][1], "too_many_name_blocks", name=name, most=block.most)
    if block.mode in ("single", "computed"):
        return items[0] if items else None
    return made(Set if block.mode == "set" else List, type_of_block(block), items)


def _expanded(name: str, kind: str, at: Span, body: Body, scope: Scope) -> Iterator[tuple[Scope | None, Body, Span]]:
    """Yield the bodies of a block, which a dynamic one has as many of as its collection has elements."""
    if kind != "dynamic" or name == "dynamic":
        yield scope, body, at
        return
    content = next((below for each, _, _, below in body["blocks"] if each == "content"), None)
    if content is None or "for_each" not in body["attrs"]:
        raise scope.failure(at, "missing_content_block" if content is None else "missing_for_each")
    node: Node = body["attrs"]["for_each"][1]
    value = evaluate(node, scope)
    iterator = body["attrs"]["iterator"][1][2] if "iterator" in body["attrs"] else name
    if isinstance(value, Unknown):
        yield None, content, at
        return
    if not isinstance(value, list | dict):
        key = "invalid_dynamic_foreach_value" if value is None else "invalid_dynamic_foreach_value_2"
        raise scope.failure(node[1], key, node, it=type_of(value))
    for key, item in pairs_of(value):
        yield scope.bind(**{iterator: {"key": key, "value": item}}), content, at


def planned(block: Block, config: Value, prior: Value | None) -> Value:
    """Return what a resource will be: as configured, and as it is where the configuration says nothing."""
    found = {name: _planned(attribute, config.get(name), prior) for name, attribute in block.attributes.items()}
    for name, inner in block.blocks.items():
        found[name] = _planned_block(inner, config.get(name), prior.get(name) if prior else None, fresh=prior is None)
    return {name: found[name] for name in sorted(found)}


def _planned(attribute: Attribute, wanted: Any, prior: Value | None) -> Any:
    had = prior.get(attribute.name) if prior else None
    if wanted == "" and attribute.computed and prior and not empty(had) and attribute.name != "api_group":
        return had
    if wanted is None and attribute.computed:
        return had if prior is not None else Unknown(attribute.type)
    if wanted is None:
        wanted = attribute.default
    if prior is not None and same(attribute, wanted, had):
        return had
    return wanted


def _planned_block(block: Block, wanted: Any, had: Any, *, fresh: bool) -> Any:
    if block.mode == "computed":
        return Unknown(["list", type_of_block(block)]) if fresh else had
    if block.mode == "single" or isinstance(wanted, Unknown):
        return wanted
    if not wanted and block.computed:
        return Unknown(["list", type_of_block(block)]) if fresh else had
    before = [*had] if isinstance(had, list) else []
    items = []
    for at, item in enumerate(wanted or ()):
        old = before[at] if at < len(before) and block.mode == "list" else _twin(block, item, before)
        items.append(planned(block, item, old if old is not None else None if fresh else {}))
    return made(Set if block.mode == "set" else List, type_of_block(block), items)


def _twin(block: Block, item: Value, before: list[Value]) -> Value | None:
    """Return the element of a set that is meant by a configured one."""
    if block.mode != "set":
        return None
    for old in before:
        if not [*differences(block, planned(block, item, old), old)]:
            return old
    return None


def differences(block: Block, one: Any, other: Any, at: Path = ()) -> Iterator[tuple[Path, bool]]:
    """Yield the places where two values differ, and whether a change there replaces the resource."""
    if not isinstance(one, dict) or not isinstance(other, dict):
        if one is not other and not (empty(one) and empty(other)):
            yield at, block.fixed
        return
    for name, attribute in block.attributes.items():
        if not same(attribute, one.get(name), other.get(name)):
            yield (*at, name), attribute.fixed
    for name, inner in block.blocks.items():
        if inner.mode != "single":
            yield from _block_differences(inner, one.get(name), other.get(name), (*at, name))


def _block_differences(block: Block, one: Any, other: Any, at: Path) -> Iterator[tuple[Path, bool]]:
    if isinstance(one, Unknown) or isinstance(other, Unknown):
        if not (isinstance(one, Unknown) and isinstance(other, Unknown)):
            yield at, block.fixed
        return
    left, right = [*(one or ())], [*(other or ())]
    if block.mode == "set":
        unmatched = [item for item in left if not any(not [*differences(block, item, each)] for each in right)]
        if unmatched or len(left) != len(right):
            yield at, block.fixed
        return
    if len(left) != len(right):
        yield at, block.fixed
    for index, (item, each) in enumerate(zip(left, right, strict=False)):
        yield from differences(block, item, each, (*at, index))


def ignoring(config: Value, prior: Value, paths: list[Path]) -> Value:
    """Return a configuration in which what is to be ignored is as it was."""
    for path in paths:
        config = _kept(config, prior, path)
    return config


def _kept(wanted: Any, had: Any, path: Path) -> Any:
    if not path:
        return had
    at, rest = path[0], path[1:]
    if isinstance(wanted, list) and isinstance(had, list) and isinstance(at, int) and at < min(len(wanted), len(had)):
        return made(
            type(wanted), type_of(wanted)[1], [*wanted[:at], _kept(wanted[at], had[at], rest), *wanted[at + 1 :]]
        )
    if not isinstance(wanted, dict):
        return wanted
    found, old = dict(wanted), had if isinstance(had, dict) else {}
    if rest and at in found:
        found[at] = _kept(found[at], old.get(at), rest)
    elif at in old:
        found[at] = old[at]
    elif not rest:
        found.pop(at, None)
    return found
