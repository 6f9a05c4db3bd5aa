"""What the names of a configuration stand for; whoever is asked for plans what it needs first."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from kubesim.terraform.config import Item, Module
from kubesim.terraform.diagnostics import Failure, Problem, said, suggestion, told
from kubesim.terraform.evaluate import Scope, evaluate
from kubesim.terraform.syntax import Body, Node
from kubesim.terraform.values import (
    ANY,
    ConvertError,
    Map,
    Sensitive,
    Set,
    Unknown,
    bare,
    convert,
    known,
    made,
    marked,
    quoted,
    type_of,
)  # fmt: skip

Key = str | int | None
MOST_INSTANCES = 500
FIRST_ATTRIBUTES = {"each": "for_each", "count": "count"}
SUITABLE = "The given value is not suitable for var.{} declared at {}:{},{}-{}: {}."


class Resources(Protocol):
    """Who knows the instances of resources, by planning or applying them."""

    root: str

    def instance(self, module: Instance, item: Item, mode: str, kind: str, key: Key, bound: dict[str, Any]) -> Any:
        """Return the value of an instance."""

    def text(self, path: str) -> str:
        """Return the text of a file. Raises ValueError."""


@dataclass
class Cache:
    """A value that was found, what it needed, and when: one with unknown parts may be known later."""

    value: Any
    needs: frozenset[str]
    version: int


@dataclass
class World:
    """What all instances of modules share."""

    resources: Resources
    workspace: str = "default"
    validating: bool = False
    version: int = 0
    needs: list[set[str]] = field(default_factory=lambda: [set()])
    """What is being evaluated has needed so far, the innermost last."""
    doing: list[str] = field(default_factory=list)

    def cached(self, held: dict[Any, Cache], key: Any, label: str, make: Callable[[], Any]) -> Any:
        """Return a value that is found once. Raises Failure where it needs itself."""
        cache = held.get(key)
        if cache is None or (cache.version != self.version and cache.version >= 0):
            if label in self.doing:
                circle = ", ".join(
                    sorted({each.partition(" (")[0] for each in self.doing[self.doing.index(label) :]})
                )
                raise Failure(Problem(f"Cycle: {circle}"))
            self.doing.append(label)
            self.needs.append(set())
            try:
                value = make()
                needs = frozenset(self.needs[-1])
            finally:
                self.doing.pop()
                self.needs.pop()
            cache = held[key] = Cache(value, needs, -1 if known(value) else self.version)
        self.needs[-1] |= cache.needs
        return cache.value


class Instance:
    """An instance of a module: the meaning of its names."""

    def __init__(
        self,
        world: World,
        module: Module,
        address: str = "",
        parent: Instance | None = None,
        call: Item | None = None,
        bound: dict[str, Any] | None = None,
    ) -> None:
        self.world, self.module, self.address = world, module, address
        self.parent, self.call, self.bound = parent, call, bound or {}
        self.given: dict[str, tuple[Any, str]] = {}
        """Variables of the root module, and where they come from."""
        self._held: dict[Any, Cache] = {}
        self._children: dict[tuple[str, Key], Instance] = {}

    def scope(self, item: Item, **bound: Any) -> Scope:
        """Return the scope of a block's expressions."""
        return Scope(self, item.file, item.within, bound)

    def place(self, rest: str) -> str:
        """Return the address of something in this module."""
        return f"{self.address}.{rest}" if self.address else rest

    # ---- names

    def lookup(self, scope: Scope, root: str, steps: list[Node], node: Node) -> tuple[Any, int]:
        """Return the value of a name, and how many of its steps that has taken."""
        names = [step[3] if step[0] == "attr" else None for step in steps[:2]] + [None, None]
        first, second = names[:2]
        if root in FIRST_ATTRIBUTES or root == "self":
            raise scope.problem(
                [*node[1][:2], *(steps[0][1][2:] if steps else node[1][2:])],
                *told("reference_to_root_in_context", root=root, it=FIRST_ATTRIBUTES.get(root, root)),
            )
        if first is None or (root == "data" and second is None):
            raise scope.problem(
                node[1],
                *told(
                    "invalid_reference_2"
                    if root not in ("var", "local", "module", "data")
                    else "invalid_reference_3",
                    root=root,
                ),
            )
        span = [*node[1][:2], *steps[0][1][2:]]
        match root:
            case "var":
                return self.variable(first, scope, span), 1
            case "local":
                return self.local(first, scope, span), 1
            case "module":
                return self._module(first, scope, span, steps)
            case "path":
                return {"module": self.module.folder, "root": ".", "cwd": self.world.resources.root}.get(first, ""), 1
            case "terraform":
                return self.world.workspace, 1
            case "data":
                return self._resource("data", first, second or "", scope, [*node[1][:2], *steps[1][1][2:]]), 2
        return self._resource("managed", root, first, scope, span), 1

    def read(self, path: str) -> str:
        """Return the text of a file that the code names."""
        return self.world.resources.text(path)

    def absolute(self, path: str) -> str:
        """Return a path from the root of the pod's files."""
        return posixpath.normpath(posixpath.join(self.world.resources.root, path))

    def variable(self, name: str, scope: Scope | None = None, span: Any = None) -> Any:
        """Return the value of an input variable. Raises Failure."""
        if name not in self.module.variables:
            assert scope is not None
            raise scope.problem(
                span,
                *told(
                    "reference_to_undeclared_input_variable",
                    name=name,
                    it=suggestion(name, self.module.variables)
                    or f" This variable can be declared with a variable {quoted(name)} {{}} block.",
                ),
            )
        label = self.place(f"var.{name}")
        return self.world.cached(self._held, ("var", name), label, lambda: self._variable(name))

    def _variable(self, name: str) -> Any:
        item = self.module.variables[name]
        given, file, at = self._given(name, item)
        nullable = item.node("nullable")
        default = item.node("default")
        if (
            given is None
            and default is not None
            and (given is _NOTHING or (nullable is not None and nullable[2] is False))
        ):
            given = evaluate(default, self.scope(item))
        if given is _NOTHING:
            given = evaluate(default, self.scope(item)) if default is not None else Unknown(item.type)
        try:
            value = convert(given, item.type)
        except ConvertError as error:
            text = SUITABLE.format(name, item.file, item.span[0], item.span[1], item.span[3], error)
            within = self.call.within if self.call else ""
            if given is not None and file == item.file:
                raise Failure(
                    Problem(
                        *told("invalid_default_value_for_variable", error=error),
                        item.file,
                        default[1] if default else item.span,
                        item.within,
                    )
                ) from error
            raise Failure(Problem("Invalid value for input variable", text, file, at, within)) from error
        sensitive = item.node("sensitive")
        if sensitive is not None and sensitive[2] is True:
            value = Sensitive(value)
        return value

    def _given(self, name: str, item: Item) -> tuple[Any, str, Any]:
        if self.call is None or self.parent is None:
            given, source = self.given.get(name, (_NOTHING, ""))
            return (given, *_place(source)) if source else (given, item.file, item.span)
        node = self.call.node(name)
        if node is None:
            return _NOTHING, item.file, item.span
        return evaluate(node, self.parent.scope(self.call, **self.bound)), self.call.file, node[1]

    def check_variables(self) -> Iterator[Problem]:
        """Yield what the validations of the variables say."""
        for name, item in self.module.variables.items():
            for _, body, span in item.conditions:
                yield from self._violations(name, item, body, span)

    def _violations(self, name: str, item: Item, body: Body, span: Any) -> Iterator[Problem]:
        scope, node = self.scope(item), body["attrs"]["condition"][1]
        try:
            holds = bare(evaluate(node, scope))
            if isinstance(holds, Unknown) or convert(holds, "bool"):
                return
            text = bare(evaluate(body["attrs"]["error_message"][1], scope))
        except Failure as failure:
            yield from failure.problems
            return
        rule = f"This was checked by the validation rule at {item.file}:{span[0]},{span[1]}-{span[3]}."
        _, file, at = self._given(name, item)
        told = scope.problem(node[1], "", "", node).problems[0].values
        within = self.call.within if self.call and file != item.file else "" if file != item.file else item.within
        at = at if file != item.file or self.call is None else item.span
        yield Problem("Invalid value for variable", f"{text}\n\n{rule}", file, at, within, told)

    def local(self, name: str, scope: Scope | None = None, span: Any = None) -> Any:
        """Return a local value. Raises Failure."""
        item = self.module.locals.get(name)
        if item is None:
            assert scope is not None
            raise scope.problem(
                span,
                *told("reference_to_undeclared_local_value", name=name, near=suggestion(name, self.module.locals)),
            )
        node = item.node("value")
        return self.world.cached(
            self._held, ("local", name), self.place(f"local.{name}"), lambda: evaluate(node or [], self.scope(item))
        )

    def output(self, name: str) -> Any:
        """Return an output value. Raises Failure."""
        item = self.module.outputs[name]
        return self.world.cached(
            self._held, ("output", name), self.place(f"output.{name}"), lambda: self._output(item)
        )

    def _output(self, item: Item) -> Any:
        scope, sensitive = self.scope(item), item.node("sensitive")
        check(item.conditions, scope, "Module output value precondition failed")
        node = item.node("value") or []
        value = evaluate(node, scope)
        if sensitive is not None and sensitive[2] is True:
            return Sensitive(value)
        if marked(value) and not self.address:
            raise scope.problem(item.span, *told("output_refers_to_sensitive_values"))
        return value

    # ---- modules

    def _module(self, name: str, scope: Scope, span: Any, steps: list[Node]) -> tuple[Any, int]:
        if name not in self.module.calls:
            raise scope.problem(
                span,
                *told(
                    "reference_to_undeclared_module",
                    it=quoted(name),
                    title=self.module.title,
                    near=suggestion(name, self.module.calls),
                ),
            )
        children = self.children(name)
        keyed = {"for_each", "count"} & self.module.calls[name].body["attrs"].keys()
        if not keyed and len(steps) > 1 and steps[1][0] == "attr":
            return self._one_output(children[None], steps[1], scope), 2
        if keyed and len(steps) > 2 and steps[1][0] == "index" and steps[2][0] == "attr":
            key = bare(evaluate(steps[1][3], scope))
            if not isinstance(key, Unknown) and key in children:
                return self._one_output(children[key], steps[2], scope), 3
        values = {key: {each: child.output(each) for each in child.module.outputs} for key, child in children.items()}
        return collected(values, self.module.calls[name]), 1

    def _one_output(self, child: Instance, step: Node, scope: Scope) -> Any:
        if step[3] not in child.module.outputs:
            raise scope.problem(
                [*step[2][1][2:], *step[1][2:]],
                *told("unsupported_attribute_2", it=step[3], near=suggestion(step[3], child.module.outputs)),
            )
        return child.output(step[3])

    def children(self, name: str) -> dict[Key, Instance]:
        """Return the instances of a module that is called."""
        item, module = self.module.calls[name], self.module.children[name]
        found = self.expanded(item, ("call", name), self.place(f"module.{name}"))
        for key, bound in found.items():
            child = self._children.get((name, key))
            if child is None:
                address = f"{self.place(f'module.{name}')}{key_text(key)}"
                self._children[name, key] = Instance(self.world, module, address, self, item, bound)
            else:
                child.bound = bound
        return {key: self._children[name, key] for key in found}

    def everything(self) -> Iterator[Instance]:
        """Yield this instance and all below it."""
        yield self
        for name in self.module.children:
            for child in self.children(name).values():
                yield from child.everything()

    def expanded(self, item: Item, key: Any, label: str) -> dict[Key, dict[str, Any]]:
        """Return the keys of a block's instances, with what ``each`` and ``count`` are there."""
        found: dict[Key, dict[str, Any]] = self.world.cached(
            self._held, ("keys", key), f"{label} (expand)", lambda: self._expand(item)
        )
        return found

    def _expand(self, item: Item) -> dict[Key, dict[str, Any]]:
        scope, count, each = self.scope(item), item.node("count"), item.node("for_each")
        if count is not None:
            return _counted(count, scope, self.world)
        if each is None:
            return {None: {}}
        return _for_each(each, scope, self.world)

    # ---- resources

    def _resource(self, mode: str, kind: str, name: str, scope: Scope, span: Any) -> Any:
        item = self.module.resources.get((mode, kind, name))
        if item is None:
            word, begin = ("managed", "") if mode == "managed" else ("data", "data.")
            near = suggestion(
                f"{begin}{kind}.{name}",
                [f"{'data.' if key[0] == 'data' else ''}{key[1]}.{key[2]}" for key in self.module.resources],
            )
            raise scope.problem(
                span,
                *told(
                    "reference_to_undeclared_resource",
                    word=word,
                    kind=kind,
                    name=name,
                    title=self.module.title,
                    near=near,
                ),
            )
        label = self.place(f"{'data.' if mode == 'data' else ''}{kind}.{name}")
        return self.world.cached(self._held, (mode, kind, name), label, lambda: self.resource(mode, kind, name))

    def resource(self, mode: str, kind: str, name: str) -> Any:
        """Return the value of a resource: of its instance, or of all of them."""
        item = self.module.resources[mode, kind, name]
        instances = self.expanded(item, (mode, kind, name), self.place(f"{kind}.{name}"))
        values = {
            key: self.world.resources.instance(self, item, mode, kind, key, bound) for key, bound in instances.items()
        }
        self.world.needs[-1].add(self.generic(mode, kind, name))
        return collected(values, item)

    def generic(self, mode: str, kind: str, name: str) -> str:
        """Return the address of a resource without the keys of instances."""
        way = "".join(f"module.{each}." for each in self.module.path)
        return f"{way}{'data.' if mode == 'data' else ''}{kind}.{name}"


_NOTHING: Any = type("Nothing", (), {"__repr__": lambda self: "nothing"})()


def _place(source: str) -> tuple[str, Any]:
    file, _, line = source.rpartition(":")
    return (file, [int(line), 1, int(line), 1]) if file else ("", None)


def collected(values: dict[Key, Any], item: Item) -> Any:
    """Return the value of a block: one, a list or a map of its instances' values."""
    if "count" in item.body["attrs"]:
        return [values[key] for key in values]
    if "for_each" in item.body["attrs"]:
        return (
            {str(key): value for key, value in values.items()}
            if not any(isinstance(key, Unknown) for key in values)
            else Unknown()
        )
    return values[None]


def key_text(key: Key) -> str:
    """Return the key of an instance as addresses show it."""
    return "" if key is None else f"[{key}]" if isinstance(key, int) else f"[{quoted(key)}]"


def _counted(node: Node, scope: Scope, world: World) -> dict[Key, dict[str, Any]]:
    value = bare(evaluate(node, scope))
    if isinstance(value, Unknown):
        if world.validating:
            return {0: {"count": {"index": Unknown("number")}}}
        raise scope.problem(node[1], *told("invalid_count_argument"))
    try:
        count = convert(value, "number")
    except ConvertError as error:
        raise scope.problem(node[1], *told("invalid_count_argument_2", error=error), node) from error
    if not isinstance(count, int) or count < 0:
        why = (
            'The given "count" argument value is null. An integer is required.'
            if count is None
            else 'The given "count" argument value is unsuitable: must be greater than or equal to zero.'
            if isinstance(count, int)
            else 'The given "count" argument value is unsuitable: a whole number is required.'
        )
        raise scope.problem(node[1], "Invalid count argument", why, node)
    _check_many(count, node, scope)
    return {at: {"count": {"index": at}} for at in range(count)}


def _check_many(count: int, node: Node, scope: Scope) -> None:
    if count > MOST_INSTANCES:
        raise scope.problem(
            node[1],
            *told("too_many_instances", count=count, MOST_INSTANCES=MOST_INSTANCES),
        )


def _for_each(node: Node, scope: Scope, world: World) -> dict[Key, dict[str, Any]]:
    value = evaluate(node, scope)
    if isinstance(value, Sensitive):
        raise scope.problem(node[1], *told("invalid_foreach_argument"))
    if isinstance(value, Unknown):
        if world.validating:
            inner = value.type[1] if isinstance(value.type, list) and isinstance(value.type[1], str | list) else ANY
            return {"": {"each": {"key": Unknown("string"), "value": Unknown(inner)}}}
        raise scope.problem(
            node[1],
            *told(
                "invalid_foreach_argument_2",
                it="set" if isinstance(value.type, list) and value.type[0] == "set" else "map",
            ),
            node,
        )
    if isinstance(value, Set) and all(isinstance(item, str) for item in value):
        pairs: list[tuple[str, Any]] = [(item, item) for item in value]
    elif isinstance(value, dict):
        pairs = sorted(value.items())
    else:
        what = "null" if value is None else "of type " + _kind(value)
        why = (
            said("the_given_foreach_argument_value")
            if value is None
            else said("the_given_foreach_argument_value_2", it=_kind(value))
        )
        raise scope.problem(
            node[1],
            "Invalid for_each argument" if not isinstance(value, Set) else "Invalid for_each set argument",
            why if what else why,
            node,
        )
    _check_many(len(pairs), node, scope)
    return {key: {"each": {"key": key, "value": item}} for key, item in pairs}


def _kind(value: Any) -> str:
    found = type_of(value)
    return (
        found
        if isinstance(found, str)
        else found[0]
        if found[0] in ("tuple", "object")
        else f"{found[0]} of {found[1] if isinstance(found[1], str) else found[1][0]}"
    )


def check(conditions: list[tuple[str, Body, Any]], scope: Scope, summary: str, kind: str = "precondition") -> None:
    """Raise Failure where a precondition does not hold."""
    for each, body, _ in conditions:
        if each != kind:
            continue
        node = body["attrs"]["condition"][1]
        holds = bare(evaluate(node, scope))
        if not isinstance(holds, Unknown) and not convert(holds, "bool"):
            text = bare(evaluate(body["attrs"]["error_message"][1], scope))
            raise scope.problem(node[1], summary, str(text), node)


__all__ = ["Instance", "Map", "World", "check", "key_text", "made"]
