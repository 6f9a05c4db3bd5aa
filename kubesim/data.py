"""YAML by the C parser where there is one, ten times as fast: the tables beside the modules, and kubeconfigs."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

import orjson
import yaml

T = TypeVar("T")
Reader = Callable[[], T]
"""Returns what a file says, which is read when it is first asked for."""
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_Base: Any = LOADER
_FAR = 1 << 40
"""As far as is counted."""


def parse(text: bytes | str) -> Any:
    """Return what a YAML document says; raises yaml.YAMLError."""
    return yaml.load(text, Loader=LOADER)  # noqa: S506 - a safe loader


class Bounded(_Base):  # type: ignore[misc]
    """A loader for what strangers send: aliases are followed, but never to where they explode."""

    def get_single_node(self) -> Any:
        """Return the one document's nodes; raises yaml.YAMLError."""
        return bounded(super().get_single_node())

    def get_node(self) -> Any:
        """Return the next document's nodes; raises yaml.YAMLError."""
        return bounded(super().get_node())


def parse_sent(text: bytes | str) -> Any:
    """Return what a stranger's YAML document says; raises yaml.YAMLError."""
    return yaml.load(text, Loader=Bounded)  # noqa: S506 - a safe loader


def bounded(root: yaml.Node | None) -> yaml.Node | None:
    """Return a document's nodes; raises yaml.YAMLError where aliases make more of them than goyaml lets them."""
    sizes: dict[int, int] = {}
    written = 0
    pending = [root] if root is not None else []
    while pending:
        node = pending[-1]
        below = _below(node)
        if id(node) not in sizes:
            sizes[id(node)] = 0
            written += _own(node)
            pending += [each for each in below if not _known(each, sizes)]
        else:
            pending.pop()
            sizes[id(node)] = sizes[id(node)] or min(_FAR, _own(node) + sum(sizes[id(each)] for each in below))
    if root is not None and _too_many(sizes[id(root)], written):
        raise yaml.YAMLError("document contains excessive aliasing")
    return root


def _known(node: yaml.Node, sizes: dict[int, int]) -> bool:
    """Return whether a node's size is known; raises yaml.YAMLError where it is being counted: it holds itself."""
    if sizes.get(id(node)) == 0:
        raise yaml.YAMLError("anchor value contains itself")
    return id(node) in sizes


def _below(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [each for pair in node.value for each in pair]
    return node.value if isinstance(node, yaml.SequenceNode) else []


def _own(node: yaml.Node) -> int:
    """Return what a node counts for by itself: a long text for as many as it has room for."""
    return 1 + (len(node.value) // 64 if isinstance(node, yaml.ScalarNode) else 0)


def _too_many(expanded: int, written: int) -> bool:
    """Return whether aliases account for too much of a document: over 99 % of a small one, 10 % of a large one."""
    large = min(max(expanded - 400_000, 0) / 3_600_000, 1)
    copied = expanded - written
    return copied > 100 and expanded > 1000 and copied / expanded > 0.99 - 0.89 * large


def read(path: Path) -> Any:
    """Return what a YAML or JSON file of ours says."""
    return orjson.loads(path.read_bytes()) if path.suffix == ".json" else parse(path.read_bytes())


def table(module: str, name: str) -> Any:
    """Return what the file of a name says that lies beside a module (its ``__file__``)."""
    return read(Path(module).with_name(name))


def beside(module: str, name: str) -> Reader[Any]:
    """Return what reads such a file when it is first asked for."""
    return cache(partial(table, module, name))


def dump(value: Any) -> str:
    """Return a value as a YAML document, its keys in their order."""
    return str(yaml.dump(value, Dumper=DUMPER, sort_keys=False))
