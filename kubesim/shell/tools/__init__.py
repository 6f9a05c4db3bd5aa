"""The programs of containers, by theme. ``TOOLS`` names them; which of them an image has, ``rootfs`` says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib import import_module
from pkgutil import iter_modules

from kubesim.shell.machine import Tool


class Tools(Mapping[str, Tool]):
    """Every tool by name: the ``TOOLS`` of every module of this package, and the shells.

    The modules are read when the first tool is asked for: a cluster answers before that. A new module needs no entry.
    """

    def __init__(self) -> None:
        self.added: set[str] = set()

    def __getitem__(self, name: str) -> Tool:
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    @cached_property
    def _found(self) -> dict[str, Tool]:
        own = [f"{__name__}.{module.name}" for module in iter_modules(__path__)]
        names = [
            "kubesim.shell.sh",
            "kubesim.python.tool",
            "kubesim.terraform.tool",
            "kubesim.shell.kubectl.verbs",
            *own,
        ]
        themes = [getattr(import_module(name), "TOOLS", {}) for name in names]
        kit = import_module(f"{__name__}.kit")  # which needs machines
        kit.phrases()
        return {name: kit.strict(name, tool) for tools in themes for name, tool in tools.items()}

    def add(self, name: str, tool: Tool) -> None:
        """Add the program of an image that is no part of the product, as a test suite's own."""
        self.added.add(name)
        self._found[name] = tool


TOOLS = Tools()
