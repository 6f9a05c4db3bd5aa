"""What the names of a configuration stand for; whoever is asked for plans what it needs first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from kubesim.terraform.config import Item, Module
from kubesim.terraform.diagnostics import Failure, Problem, failure, located, suggestion
from kubesim.terraform.evaluate import Scope, evaluate
from kubesim.terraform.instances import Key, Open, counted, each_of
from kubesim.terraform.syntax import Body, Node
from kubesim.terraform.values import ConvertError, Unknown, convert, known, quoted

FIRST_ATTRIBUTES = {"each": "for_each", "count": "count"}


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
    validating: bool = False
    version: int = 0
    needs: list[set[str]] = field(default_factory=lambda: [set()])
    """What is being evaluated has needed so far, the innermost last."""
    doing: list[str] = field(default_factory=list)

    def cached(self, held: dict[Any, Cache], key: Any, label: str, make: Callable[[], Any]) -> Any:
        """Return a value that is found once. Raises Failure where it needs itself."""
        cache = held.get(key)
        if cache is None or (cache.version != self.version and cache.version >= 0):
            value, needs = self.made(label, make)
            cache = held[key] = Cache(value, needs, -1 if known(value) else self.version)
        self.needs[-1] |= cache.needs
        return cache.value

    def made(self, label: str, make: Callable[[], Any]) -> tuple[Any, frozenset[str]]:
        """Return what is made, and what that needed. Raises Failure where it needs itself."""
        if label in self.doing:
            circle = ", ".join(sorted({_vertex(each) for each in self.doing[self.doing.index(label) :]}))
            raise Failure(Problem(f"Cycle: {circle}"))
        self.doing.append(label)
        self.needs.append(set())
        try:
            return make(), frozenset(self.needs[-1])
        finally:
            self.doing.pop()
            self.needs.pop()


def _vertex(label: str) -> str:
    """Return what is being evaluated as Terraform's graph names it."""
    label = label.partition(" (")[0]
    return f"{label} (expand)" if label.rpartition(".")[0].endswith(("local", "var", "output")) else label


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
        self._checking = False
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
            key, it = "reference_to_root_in_context", FIRST_ATTRIBUTES.get(root, root)
            raise scope.failure([*node[1][:2], *(steps or [node])[0][1][2:]], key, root=root, it=it)
        if first is None or (root == "data" and second is None):
            key = "invalid_reference_3" if root in ("var", "local", "module", "data") else "invalid_reference_2"
            raise scope.failure(node[1], key, root=root)
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
                return "default", 1
            case "data":
                return self._resource("data", first, second or "", scope, [*node[1][:2], *steps[1][1][2:]]), 2
        return self._resource("managed", root, first, scope, span), 1

    def read(self, path: str) -> str:
        """Return the text of a file that the code names."""
        return self.world.resources.text(path)

    def variable(self, name: str, scope: Scope | None = None, span: Any = None) -> Any:
        """Return the value of an input variable. Raises Failure."""
        if name not in self.module.variables:
            assert scope is not None
            near = suggestion(name, self.module.variables)
            near = near or f" This variable can be declared with a variable {quoted(name)} {{}} block."
            raise scope.failure(span, "reference_to_undeclared_input_variable", name=name, near=near)
        label = self.place(f"var.{name}")
        value = self.world.cached(self._held, ("var", name), label, lambda: self._variable(name))
        if not self._checking:
            self.world.cached(self._held, ("checked", name), f"{label} (validation)", lambda: self._checked(name))
        return value

    def _checked(self, name: str) -> bool:
        """Raise Failure where the validations of a variable do not hold."""
        self._checking = True
        item = self.module.variables[name]
        try:
            problems = [each for _, body, at in item.conditions for each in self._violations(name, item, body, at)]
        finally:
            self._checking = False
        if problems:
            raise Failure(*problems)
        return True

    def _variable(self, name: str) -> Any:
        item = self.module.variables[name]
        given, file, at = self._given(name, item)
        nullable, default = item.node("nullable"), item.node("default")
        if given is _NOTHING or (given is None and default is not None and nullable is not None and not nullable[2]):
            given = evaluate(default, self.scope(item)) if default is not None else Unknown(item.type)
        try:
            value = convert(given, item.type)
        except ConvertError as error:
            key, place = "invalid_value_for_input_variable", (file, at, self.call.within if self.call else "")
            if given is not None and file == item.file:
                key, place = "invalid_default_value_for_variable", (file, default[1] if default else at, item.within)
            raise failure(key, *place, name=name, place=located(item.file, item.span), error=error) from error
        return value

    def _given(self, name: str, item: Item) -> tuple[Any, str, Any]:
        if self.call is None or self.parent is None:
            given, source = self.given.get(name, (_NOTHING, ""))
            return (given, *_place(source)) if source else (given, item.file, item.span)
        node = self.call.node(name)
        if node is None:
            return _NOTHING, item.file, item.span
        return evaluate(node, self.parent.scope(self.call, **self.bound)), self.call.file, node[1]

    def _violations(self, name: str, item: Item, body: Body, span: Any) -> Iterator[Problem]:
        scope, node = self.scope(item), body["attrs"]["condition"][1]
        try:
            holds = evaluate(node, scope)
            if isinstance(holds, Unknown) or convert(holds, "bool"):
                return
            text = evaluate(body["attrs"]["error_message"][1], scope)
        except Failure as failed:
            yield from failed.problems
            return
        rule = f"This was checked by the validation rule at {located(item.file, span)}."
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
            near = suggestion(name, self.module.locals)
            raise scope.failure(span, "reference_to_undeclared_local_value", name=name, near=near)
        label, node = self.place(f"local.{name}"), item.node("value") or []
        return self.world.cached(self._held, ("local", name), label, lambda: evaluate(node, self.scope(item)))

    def output(self, name: str) -> Any:
        """Return an output value. Raises Failure."""
        item, label = self.module.outputs[name], self.place(f"output.{name}")
        return self.world.cached(self._held, ("output", name), label, lambda: self._output(item))

    def _output(self, item: Item) -> Any:
        scope = self.scope(item)
        check(item.conditions, scope, "Module output value precondition failed")
        return evaluate(item.node("value") or [], scope)

    # ---- modules

    def _module(self, name: str, scope: Scope, span: Any, steps: list[Node]) -> tuple[Any, int]:
        if name not in self.module.calls:
            near = suggestion(name, self.module.calls)
            key = "reference_to_undeclared_module"
            raise scope.failure(span, key, it=quoted(name), title=self.module.title, near=near)
        children = self.children(name)
        keyed = {"for_each", "count"} & self.module.calls[name].body["attrs"].keys()
        if not keyed and len(steps) > 1 and steps[1][0] == "attr":
            return self._one_output(children[None], steps[1], scope), 2
        if keyed and len(steps) > 2 and steps[1][0] == "index" and steps[2][0] == "attr":
            key = evaluate(steps[1][3], scope)
            if not isinstance(key, Unknown) and key in children:
                return self._one_output(children[key], steps[2], scope), 3
        values = {key: {each: child.output(each) for each in child.module.outputs} for key, child in children.items()}
        return collected(values, self.module.calls[name]), 1

    def _one_output(self, child: Instance, step: Node, scope: Scope) -> Any:
        if step[3] not in child.module.outputs:
            span, near = [*step[2][1][2:], *step[1][2:]], suggestion(step[3], child.module.outputs)
            raise scope.failure(span, "unsupported_attribute_2", it=step[3], near=near)
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
            return counted(count, scope, validating=self.world.validating)
        if each is None:
            return {None: {}}
        return each_of(each, scope, validating=self.world.validating)

    # ---- resources

    def _resource(self, mode: str, kind: str, name: str, scope: Scope, span: Any) -> Any:
        item = self.module.resources.get((mode, kind, name))
        if item is None:
            near = suggestion(written(mode, kind, name), [written(*key) for key in self.module.resources])
            title, key = self.module.title, "reference_to_undeclared_resource"
            raise scope.failure(span, key, word=mode, kind=kind, name=name, title=title, near=near)
        label = self.place(written(mode, kind, name))
        return self.world.cached(self._held, (mode, kind, name), label, lambda: self.resource(mode, kind, name))

    def resource(self, mode: str, kind: str, name: str) -> Any:
        """Return the value of a resource: of its instance, or of all of them."""
        item = self.module.resources[mode, kind, name]
        instances, look = self.instances(mode, kind, name), self.world.resources.instance
        values = {key: look(self, item, mode, kind, key, bound) for key, bound in instances.items()}
        self.world.needs[-1].add(self.generic(mode, kind, name))
        return collected(values, item)

    def instances(self, mode: str, kind: str, name: str) -> dict[Key, dict[str, Any]]:
        """Return the keys of a resource's instances, with what ``each`` and ``count`` are there."""
        key = (mode, kind, name)
        return self.expanded(self.module.resources[key], key, self.place(f"{kind}.{name}"))

    def generic(self, mode: str, kind: str, name: str) -> str:
        """Return the address of a resource without the keys of instances."""
        way = "".join(f"module.{each}." for each in self.module.path)
        return f"{way}{written(mode, kind, name)}"


def written(mode: str, kind: str, name: str) -> str:
    """Return the address of a resource in its module."""
    return f"{'data.' if mode == 'data' else ''}{kind}.{name}"


_NOTHING: Any = type("Nothing", (), {"__repr__": lambda self: "nothing"})()


def _place(source: str) -> tuple[str, Any]:
    file, _, lines = source.rpartition(":")
    first, _, last = lines.partition("-")
    return (file, [int(first), 1, int(last), 1 << 20]) if file else ("", None)


def collected(values: dict[Key, Any], item: Item) -> Any:
    """Return the value of a block: one, a list or a map of its instances' values."""
    if any(isinstance(key, Open) for key in values):
        return Unknown()
    if "count" in item.body["attrs"]:
        return [values[key] for key in values]
    if "for_each" in item.body["attrs"]:
        return {str(key): value for key, value in values.items()}
    return values[None]


def key_text(key: Key) -> str:
    """Return the key of an instance as addresses show it."""
    return "" if key is None else f"[{key}]" if isinstance(key, int) else f"[{quoted(key)}]"


def check(conditions: list[tuple[str, Body, Any]], scope: Scope, summary: str, kind: str = "precondition") -> None:
    """Raise Failure where a precondition does not hold."""
    for each, body, _ in conditions:
        if each != kind:
            continue
        node = body["attrs"]["condition"][1]
        holds = evaluate(node, scope)
        if not isinstance(holds, Unknown) and not convert(holds, "bool"):
            text = evaluate(body["attrs"]["error_message"][1], scope)
            raise scope.problem(node[1], summary, str(text), node)
