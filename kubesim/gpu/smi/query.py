"""``nvidia-smi --query-gpu`` and its relatives: named properties as comma-separated values (``fields.yaml``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from kubesim import data
from kubesim.gpu.products import Product
from kubesim.gpu.readings import find
from kubesim.gpu.smi.values import CONDITIONS, FORMS, GETTERS, NOT_SUPPORTED
from kubesim.gpu.smi.view import NOT_AVAILABLE, Seen, View, chosen

STEP_MHZ = 15
"""What lies between two clocks that a device can be given."""


class UnknownField(Exception):
    """A property that nvidia-smi does not know; the message is its own."""


@dataclass(frozen=True, slots=True)
class Options:
    """What ``--format=csv,noheader,nounits`` says."""

    header: bool = True
    units: bool = True


@dataclass(frozen=True, slots=True)
class Field:
    """A property: its name, what it is, its unit, another name, and what it says where no device is asked.

    ``at``, ``form`` and ``when`` tell where a device has it, how it is told, and when it is.
    """

    name: str
    about: str
    unit: str = ""
    also: str = ""
    value: object = NOT_SUPPORTED
    at: str = ""
    form: str = ""
    when: str = ""

    def get(self, seen: Seen, view: View) -> object:
        """Return what a device says."""
        if self.name in GETTERS:
            return GETTERS[self.name](seen, view)
        if not CONDITIONS[self.when](seen):
            return NOT_SUPPORTED
        return FORMS[self.form](find(seen, self.at)) if self.at else self.value


@dataclass(frozen=True, slots=True)
class Switch:
    """One ``--query-...``: what its help begins with, and its properties by all of their names."""

    name: str
    title: str
    fields: tuple[Field, ...]

    def find(self, names: Iterable[str]) -> list[Field]:
        """Return properties by their names. Raises UnknownField."""
        known = {name: field for field in self.fields for name in (field.name, field.also) if name}
        wanted = [name.strip() for name in names]
        if missing := [name for name in wanted if name not in known]:
            raise UnknownField(f'Field "{missing[0]}" is not a valid field to query.\n')
        return [known[name] for name in wanted]

    @property
    def help(self) -> str:
        """The answer to ``--help-query-...``."""
        title = f"{self.title}\n\n" if self.title else ""
        entries = (
            f'"{field.name}"' + (f' or "{field.also}"' if field.also else "") + f"\n{field.about}\n\n"
            for field in self.fields
        )
        return (
            f'List of valid properties to query for the switch "--query-{self.name}=":\n\n{title}{"".join(entries)}\n'
        )


@cache
def switches() -> dict[str, Switch]:
    """Return every ``--query-...`` by what follows that."""
    return {name: _switch(name, entry) for name, entry in data.table(__file__, "fields.yaml").items()}


def _switch(name: str, entry: dict[str, Any]) -> Switch:
    fields = tuple(
        Field(key, **{"also" if k == "as" else k: v for k, v in more.items()})
        for key, more in entry["fields"].items()
    )
    return Switch(name, entry["title"], fields)


@cache
def properties() -> dict[str, Field]:
    """Return the properties of ``--query-gpu``, by all of their names."""
    return {name: field for field in switches()["gpu"].fields for name in (field.name, field.also) if name}


Row = Callable[[Field], object]


def answer(view: View, switch: str, names: str, options: Options, only: Iterable[str] = ()) -> str:
    """Return the answer to ``--query-<switch>=<names>``. Raises UnknownField, NoDevices."""
    fields = switches()[switch].find(names.split(","))
    seen = chosen(view, only)
    head = ", ".join(f"{each.name} [{each.unit}]" if each.unit else each.name for each in fields)
    rows = (
        ", ".join(_cell(row(each), each.unit, options) for each in fields)
        for item in seen
        for row in _ROWS[switch](view, item)
    )
    return "".join(f"{line}\n" for line in ([head] if options.header else []) + [*rows])


def _cell(value: object, unit: str, options: Options) -> str:
    plain = not unit or not options.units or str(value).startswith("[") or value == NOT_AVAILABLE
    return str(value) if plain else f"{value} {unit}"


def _device(view: View, seen: Seen) -> Iterator[Row]:
    yield lambda each: each.get(seen, view)


def _apps(view: View, seen: Seen) -> Iterator[Row]:
    for task in view.tasks(seen):
        held = seen.device.held(task, view.at)
        own = {"pid": task.pid, "process_name": task.name, "used_gpu_memory": held}
        yield lambda each, own=own: own.get(each.name) or properties()[each.name].get(seen, view)  # type: ignore[misc]


def _remapped(view: View, seen: Seen) -> Iterator[Row]:
    yield lambda each: properties()[each.name].get(seen, view)


def clocks(product: Product) -> list[tuple[int, range]]:
    """Return the clocks that a product's memory can have, each with those that its multiprocessors can have then."""
    most, idle = product.clocks["most"], product.clocks["idle"]
    found = [(most[1], range(most[0], idle[0] - 1, -STEP_MHZ))]
    return found if idle[1] == most[1] else [*found, (idle[1], range(idle[0], idle[0] - 1, -STEP_MHZ))]


_ROWS: dict[str, Callable[[View, Seen], Iterable[Row]]] = {
    "gpu": _device,
    "compute-apps": _apps,
    "remapped-rows": _remapped,
}
