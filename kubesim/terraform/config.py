"""A configuration: the blocks of a module's files, and the modules that it calls."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, field
from typing import Any, Protocol

from kubesim.terraform import schema
from kubesim.terraform.diagnostics import Failure, Problem, Span, failure, located, suggestion, told
from kubesim.terraform.syntax import Body, Node
from kubesim.terraform.values import ANY, Type

MOST_MODULES, MOST_DEPTH, MOST_FILES = 50, 8, 200
REFUSED = {
    "provisioner": "Provisioners", "connection": "Connections", "cloud": "HCP Terraform", "check": "Check blocks",
    "removed": "Removed blocks", "import": "Import blocks", "ephemeral": "Ephemeral resources",
    "provider_meta": "Provider metadata",
}  # fmt: skip
ON_PRACTICE = "{} are not supported on practice clusters."
VARIABLE = ("type", "default", "description", "sensitive", "nullable", "ephemeral")
OUTPUT = ("value", "description", "sensitive", "depends_on", "ephemeral")
LIFECYCLE = ("prevent_destroy", "ignore_changes", "create_before_destroy")
META = ("count", "for_each", "depends_on")
TYPE_WORDS = ("string", "number", "bool", "any")


class Folder(Protocol):
    """The files that a configuration is read from."""

    def names(self, path: str) -> list[str] | None:
        """Return the names of the files in a folder; None where there is none."""

    def body(self, path: str) -> Body:
        """Return a file, parsed. Raises Failure."""


@dataclass
class Item:
    """A block of the code: where it is, how messages name it, and what it says."""

    name: str
    file: str
    span: Span
    within: str
    body: Body
    type: Type = ANY
    lifecycle: dict[str, Any] = field(default_factory=dict)
    conditions: list[tuple[str, Body, Span]] = field(default_factory=list)
    """Validations, preconditions and postconditions."""

    def node(self, name: str) -> Node | None:
        """Return the expression of an argument."""
        found = self.body["attrs"].get(name)
        return found[1] if found else None


@dataclass
class Module:
    """One module of the configuration, by the calls that lead to it."""

    path: tuple[str, ...]
    folder: str
    source: str = ""
    variables: dict[str, Item] = field(default_factory=dict)
    locals: dict[str, Item] = field(default_factory=dict)
    outputs: dict[str, Item] = field(default_factory=dict)
    resources: dict[tuple[str, str, str], Item] = field(default_factory=dict)
    calls: dict[str, Item] = field(default_factory=dict)
    children: dict[str, Module] = field(default_factory=dict)
    providers: dict[str, Item] = field(default_factory=dict)
    required: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Providers: their source and the versions that will do."""
    backend: Item | None = None
    moved: list[Item] = field(default_factory=list)
    files: list[str] = field(default_factory=list)

    @property
    def title(self) -> str:
        """How messages name it."""
        return "the root module" if not self.path else ".".join(f"module.{name}" for name in self.path)

    def everything(self) -> list[Module]:
        """Return this module and all below it."""
        return [self, *(each for child in self.children.values() for each in child.everything())]


def load(files: Folder, folder: str = ".") -> Module:
    """Return the configuration of a root folder. Raises Failure."""
    return _Loader(files).module((), folder, "")


class _Loader:
    """Reads the modules; each mistake is told, as far as one can go on after it."""

    def __init__(self, files: Folder) -> None:
        self.files = files
        self.problems: list[Problem] = []
        self.count = 0

    def module(self, path: tuple[str, ...], folder: str, source: str) -> Module:
        self.count += 1
        found = Module(path, folder, source)
        names = [name for name in self.files.names(folder) or () if name.endswith(".tf") and not name.startswith(".")]
        if len(names) > MOST_FILES:
            raise failure("too_many_files", MOST_FILES=MOST_FILES)
        for name in sorted(names):
            found.files.append(file := posixpath.normpath(posixpath.join(folder, name)))
            try:
                body = self.files.body(file)
            except Failure as failed:
                self.problems += failed.problems
                continue
            _Reader(found, file, self.problems).read(body)
        if self.problems:
            raise Failure(*self.problems)
        self._children(found)
        if not path and self.problems:
            raise Failure(*self.problems)
        return found

    def _children(self, module: Module) -> None:
        for name, item in module.calls.items():
            node = item.node("source")
            if node is None:
                self._tell(item, "missing_required_argument_4", name="source")
                continue
            if node[0] != "lit" or not isinstance(node[2], str) or not re.match(r"\.\.?(/|$)", node[2]):
                self._tell(item, "unsupported_module_source", node[1])
                continue
            folder = posixpath.normpath(posixpath.join(module.folder, node[2]))
            if len(module.path) >= MOST_DEPTH or self.count >= MOST_MODULES:
                limits = {"MOST_DEPTH": MOST_DEPTH, "MOST_MODULES": MOST_MODULES}
                raise failure("too_many_module_calls", item.file, item.span, item.within, **limits)
            if self.files.names(folder) is None:
                self._tell(item, "unreadable_module_directory", folder=folder)
                continue
            child = module.children[name] = self.module((*module.path, name), folder, node[2])
            self._check_call(item, child)

    def _check_call(self, item: Item, child: Module) -> None:
        known = {"source", "version", *META, *child.variables}
        for name, (span, _) in item.body["attrs"].items():
            if name not in known:
                self._tell(item, "unsupported_argument_2", span, name=name, near=suggestion(name, child.variables))
        for name, variable in child.variables.items():
            if name not in item.body["attrs"] and "default" not in variable.body["attrs"]:
                self._tell(item, "missing_required_argument_4", name=name)

    def _tell(self, item: Item, key: str, span: Span | None = None, /, **values: object) -> None:
        self.problems.append(Problem(*told(key, **values), item.file, span or item.span, item.within))


class _Reader:
    """Reads the blocks of one file."""

    def __init__(self, module: Module, file: str, problems: list[Problem]) -> None:
        self.module, self.file, self.problems = module, file, problems

    def tell(self, summary: str, detail: str, span: Span, within: str = "") -> None:
        self.problems.append(Problem(summary, detail, self.file, span, within))

    def mistake(self, key: str, span: Span, within: str = "", /, **values: object) -> None:
        self.tell(*told(key, **values), span, within)

    def read(self, body: Body) -> None:
        for name, (span, _) in body["attrs"].items():
            self.mistake("unsupported_argument", span, name=name)
        for kind, labels, span, below in body["blocks"]:
            method = getattr(self, f"_{kind}", None)
            if kind in REFUSED:
                self.tell("Unsupported block type", ON_PRACTICE.format(REFUSED[kind]), span)
            elif method is None:
                self.mistake("unsupported_block_type_2", span, kind=kind, near=suggestion(kind, KINDS))
            elif len(labels) != KINDS[kind]:
                self._labels(kind, labels, span)
            else:
                method(labels, span, below)

    def _labels(self, kind: str, labels: list[str], span: Span) -> None:
        wanted = KINDS[kind]
        it = "name" if wanted == 1 else "type, name"
        if len(labels) > wanted:
            words = ("No", "Only 1", "Only 2")[wanted]
            self.mistake("extraneous_label_for_kind", span, kind=kind, words=words, it=it)
        else:
            missing = ("type", "name")[2 - wanted :][len(labels)]
            self.mistake("missing_missing_for_kind", span, missing=missing, kind=kind, wanted=wanted, it=it)

    def _item(self, held: dict[Any, Item], key: Any, within: str, word: str, span: Span, body: Body) -> Item:
        item = Item(key if isinstance(key, str) else key[-1], self.file, span, within, body)
        if key in held:
            old, values = held[key], {"name": item.name, "kind": key[1] if isinstance(key, tuple) else ""}
            self.mistake(f"duplicate_{word}", span, place=located(old.file, old.span), **values)
        held[key] = item
        return item

    def _only(self, item: Item, names: tuple[str, ...], blocks: tuple[str, ...] = ()) -> None:
        for name, (span, node) in item.body["attrs"].items():
            if name == "sensitive" and node[2] is not False:
                self.tell("Unsupported argument", ON_PRACTICE.format("Sensitive values"), span, item.within)
            if name not in names:
                self.mistake("unsupported_argument_2", span, item.within, name=name, near=suggestion(name, names))
        for kind, _, span, body in item.body["blocks"]:
            if kind not in blocks:
                self.mistake("unsupported_block_type", span, item.within, kind=kind)
                continue
            item.conditions.append((kind, body, span))
            for name in sorted({"condition", "error_message"} - body["attrs"].keys()):
                self.mistake("missing_required_argument_4", span, item.within, name=name)

    def _variable(self, labels: list[str], span: Span, body: Body) -> None:
        item = self._item(self.module.variables, labels[0], f'variable "{labels[0]}"', "variable", span, body)
        self._only(item, VARIABLE, ("validation",))
        if (node := item.node("type")) is not None:
            try:
                item.type = type_of_node(node, self.file, item.within)
            except Failure as failed:
                self.problems += failed.problems

    def _locals(self, labels: list[str], span: Span, body: Body) -> None:
        for name, (at, node) in body["attrs"].items():
            value = {"attrs": {"value": [at, node]}, "blocks": []}
            self._item(self.module.locals, name, "locals", "local_value", at, value)

    def _output(self, labels: list[str], span: Span, body: Body) -> None:
        item = self._item(self.module.outputs, labels[0], f'output "{labels[0]}"', "output", span, body)
        self._only(item, OUTPUT, ("precondition",))
        if item.node("value") is None:
            self.mistake("missing_required_argument_4", span, item.within, name="value")

    def _module(self, labels: list[str], span: Span, body: Body) -> None:
        item = self._item(self.module.calls, labels[0], f'module "{labels[0]}"', "module_call", span, body)
        for kind, _, at, _ in body["blocks"]:
            self.mistake("unsupported_block_type", at, item.within, kind=kind)

    def _data(self, labels: list[str], span: Span, body: Body) -> None:
        self._resource(labels, span, body, "data", "data")

    def _resource(
        self, labels: list[str], span: Span, body: Body, mode: str = "managed", word: str = "resource"
    ) -> None:
        kind, name = labels
        within = f'{word} "{kind}" "{name}"'
        item = self._item(self.module.resources, (mode, kind, name), within, "resource", span, body)
        if schema.resource_type(mode, kind) is None:
            what = "resource type" if mode == "managed" else "data source"
            self.mistake("unsupported_what", span, item.within, what=what, kind=kind)
        for kind, _, at, below in body["blocks"]:
            if kind in REFUSED:
                self.tell("Unsupported block type", ON_PRACTICE.format(REFUSED[kind]), at, item.within)
            elif kind == "lifecycle":
                item.lifecycle = {key: node for key, (_, node) in below["attrs"].items()}
                inner = Item("", self.file, at, item.within, below)
                self._only(inner, LIFECYCLE, ("precondition", "postcondition"))
                item.conditions = inner.conditions

    def _provider(self, labels: list[str], span: Span, body: Body) -> None:
        if alias := body["attrs"].get("alias"):
            self.tell("Unsupported argument", ON_PRACTICE.format("Aliases of providers"), alias[0])
        if schema.provider_schema(labels[0]) is None:
            self.mistake("unsupported_provider", span, it=labels[0])
            return
        self._item(self.module.providers, labels[0], f'provider "{labels[0]}"', "provider", span, body)

    def _terraform(self, labels: list[str], span: Span, body: Body) -> None:
        for kind, names, at, below in body["blocks"]:
            if kind == "backend":
                self.module.backend = Item(names[0] if names else "", self.file, at, "terraform", below)
            elif kind == "required_providers":
                self._required(below)
            else:
                what = REFUSED.get(kind, f'Blocks of type "{kind}"')
                self.tell("Unsupported block type", ON_PRACTICE.format(what), at)
        if version := body["attrs"].get("required_version"):
            kind, at, wanted = version[1][:3]
            if kind == "lit" and not allows(str(wanted), "1.11.4"):
                self.mistake("unsupported_terraform_core_version", at)

    def _required(self, body: Body) -> None:
        for name, (span, node) in body["attrs"].items():
            pairs = {"version": node[2]}
            if node[0] == "object":
                pairs = {key[2]: value[2] for key, value in node[2] if value[0] == "lit"}
            source, known = pairs.get("source", f"hashicorp/{name}"), schema.provider_schema(name)
            if known is None or source.removeprefix("registry.terraform.io/") != f"hashicorp/{name}":
                self.mistake("unsupported_provider_2", span, source=source)
                continue
            self.module.required[name] = (source, pairs.get("version", ""))

    def _moved(self, labels: list[str], span: Span, body: Body) -> None:
        self.module.moved.append(Item("", self.file, span, "moved", body))


KINDS = {
    "variable": 1, "locals": 0, "output": 1, "module": 1, "resource": 2, "data": 2, "provider": 1, "terraform": 0,
    "moved": 0,
}  # fmt: skip


def type_of_node(node: Node, file: str, within: str) -> Type:
    """Return the type that a constraint means. Raises Failure."""
    if node[0] == "root" and node[2] in TYPE_WORDS:
        return ANY if node[2] == "any" else node[2]
    if node[0] == "root" and node[2] in ("list", "set", "map"):
        return [node[2], ANY]
    if node[0] == "call" and len(node[3]) == 1:
        name, inner = node[2], node[3][0]
        if name in ("list", "set", "map"):
            return [name, type_of_node(inner, file, within)]
        if name == inner[0] == "tuple":
            return [name, [type_of_node(each, file, within) for each in inner[2]]]
        if name == inner[0] == "object":
            return _object_type(inner, file, within)
    key = "invalid_type_specification" if node[0] == "root" else "invalid_type_specification_2"
    raise failure(key, file, node[1], within, it=node[2])


def _object_type(node: Node, file: str, within: str) -> Type:
    found: dict[str, Type] = {}
    optional: dict[str, Any] = {}
    for key, value in node[2]:
        name = key[2]
        if value[0] == "call" and value[2] == "optional":
            optional[name] = constant(value[3][1]) if len(value[3]) > 1 else None
            value = value[3][0]
        found[name] = type_of_node(value, file, within)
    return ["object", found, optional]


def constant(node: Node) -> Any:
    """Return the value of an expression of literals, as defaults in types are."""
    match node[0]:
        case "tuple":
            return [constant(each) for each in node[2]]
        case "object":
            return {key[2]: constant(value) for key, value in node[2]}
        case "paren":
            return constant(node[2])
        case "un":
            return -constant(node[3])
    return node[2] if node[0] == "lit" else None


def allows(constraint: str, version: str) -> bool:
    """Tell whether a version fits a constraint such as ``>= 1.6.0, < 2``."""
    have = _numbers(version)
    for part in filter(None, (part.strip() for part in constraint.split(","))):
        sign, _, text = re.match(r"([<>=!~]*)(\s*)(.*)", part).groups()  # type: ignore[union-attr]
        want = _numbers(text)
        padded = want + (0,) * (3 - len(want))
        fits = {
            "": have == padded, "=": have == padded, "!=": have != padded, ">": have > padded, ">=": have >= padded,
            "<": have < padded, "<=": have <= padded, "~>": have >= padded and have[: len(want) - 1] == want[:-1],
        }  # fmt: skip
        if not fits.get(sign, False):
            return False
    return True


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d{1,9}", text.partition("-")[0])[:3])
