"""What a plan is asked for, and what it finds that has to be done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from kubesim.terraform import schema
from kubesim.terraform.config import Item
from kubesim.terraform.decode import Path, Value
from kubesim.terraform.diagnostics import Failure, Problem, ProviderError
from kubesim.terraform.google import Google
from kubesim.terraform.graph import Instance
from kubesim.terraform.kubernetes import Kubernetes
from kubesim.terraform.state import Held

Provider = Google | Kubernetes


@dataclass
class Options:
    """What a plan is asked for."""

    targets: list[str] = field(default_factory=list)
    replace: list[str] = field(default_factory=list)
    refresh: bool = True
    refresh_only: bool = False
    destroy: bool = False


@dataclass
class Change:
    """What is done with one instance: no-op, create, read, update, replace or delete."""

    held: Held
    action: str
    before: Value | None
    after: Value | None
    paths: list[Path] = field(default_factory=list)
    """What is changed and forces replacement."""
    reason: str = ""
    moved: str = ""
    item: Item | None = None
    module: Instance | None = None
    bound: dict[str, Any] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """The address of the instance."""
        return self.held.address

    @property
    def first_new(self) -> bool:
        """Whether a replacement is there before the old one goes."""
        return self.held.before_destroy


def attempt(work: Callable[..., Any], held: Held, *given: Any) -> Any:
    """Return what a provider does; raises Failure with its message."""
    try:
        return work(*given)
    except ProviderError as error:
        summary, _, detail = str(error).partition("\n")
        raise Failure(Problem(summary, detail, address=held.address)) from error


@contextmanager
def collecting(problems: list[Problem]) -> Iterator[None]:
    """Add what goes wrong to the problems, each once."""
    try:
        yield
    except Failure as failed:
        problems += [each for each in failed.problems if each not in problems]


def flag(item: Item, name: str) -> bool:
    """Tell whether a setting of the block's life cycle is on."""
    node = item.lifecycle.get(name)
    return node is not None and node[0] == "lit" and node[2] is True


def ignored(item: Item) -> list[Path]:
    """Return the paths that ``ignore_changes`` names."""
    node = item.lifecycle.get("ignore_changes")
    if node is None:
        return []
    if node[0] == "root" and node[2] == "all":
        kind = schema.resource_type("managed", item.within.split('"')[1])
        return [(name,) for name in kind.schema.names] if kind else []
    return [_path(each) for each in node[2]] if node[0] == "tuple" else []


def _path(node: Any) -> Path:
    if node[0] == "attr":
        return (*_path(node[2]), node[3])
    if node[0] == "index":
        return (*_path(node[2]), node[3][2])
    return (node[2],)


def within(address: str, target: str) -> bool:
    """Tell whether an address is, or is inside of, another."""
    return address == target or address.startswith((f"{target}.", f"{target}["))
