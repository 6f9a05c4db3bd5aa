"""The programs of containers, by theme. ``TOOLS`` names them; which of them an image has, ``rootfs`` says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib import import_module

from kubesim.shell.machine import Tool

THEMES = (
    "sh",
    *(
        f"tools.{name}"
        for name in ("awk", "filetools", "gpus", "grep", "ls", "order", "paths", "processes", "sed", "text")
    ),
)
"""The modules of tools; the later one wins where two have the same."""


class Tools(Mapping[str, Tool]):
    """Every tool by name. Their modules are read when the first is asked for: a cluster answers before that."""

    def __getitem__(self, name: str) -> Tool:
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    @cached_property
    def _found(self) -> dict[str, Tool]:
        modules = [import_module(f"kubesim.shell.{theme}") for theme in THEMES]
        return {name: tool for module in modules for name, tool in module.TOOLS.items()}


TOOLS: Mapping[str, Tool] = Tools()
