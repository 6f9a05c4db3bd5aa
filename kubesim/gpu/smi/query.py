"""``nvidia-smi --query-gpu`` and its relatives: named properties as comma-separated values (``fields.yaml``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from kubesim import data
from kubesim.gpu.devices import Task
from kubesim.gpu.products import Product
from kubesim.gpu.smi.values import GETTERS, NOT_SUPPORTED
from kubesim.gpu.smi.view import NONE_FOUND, NOT_AVAILABLE, Seen, View

_FILE = Path(__file__).with_name("fields.yaml")
STEP_MHZ = 15
"""What lies between two clocks that a device can be given."""


class UnknownField(Exception):
    """A property that nvidia-smi does not know; the message is its own."""


class NoDevices(Exception):
    """``-i`` names no device that is there."""

    def __init__(self) -> None:
        super().__init__(NONE_FOUND)


@dataclass(frozen=True, slots=True)
class Options:
    """What ``--format=csv,noheader,nounits`` says."""

    header: bool = True
    units: bool = True


@dataclass(frozen=True, slots=True)
class Field:
    """A property: its name, what it is, its unit, another name, and what it says where no device is asked."""

    name: str
    about: str
    unit: str = ""
    also: str = ""
    value: object = NOT_SUPPORTED

    def get(self, seen: Seen, view: View) -> object:
        """Return what a device says."""
        getter = GETTERS.get(self.name)
        return self.value if getter is None else getter(seen, view)


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
    return {name: _switch(name, entry) for name, entry in data.read(_FILE).items()}


def _switch(name: str, entry: dict[str, Any]) -> Switch:
    fields = tuple(
        Field(key, **{"also" if k == "as" else k: v for k, v in more.items()})
        for key, more in entry["fields"].items()
    )
    return Switch(name, entry["title"], fields)


@cache
def field(name: str) -> Field:
    """Return a property of ``--query-gpu``."""
    return switches()["gpu"].find([name])[0]


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


def chosen(view: View, only: Iterable[str]) -> list[Seen]:
    """Return the devices that ``-i`` names by number, address or UUID; all where it names none. Raises NoDevices."""
    wanted = {word.strip().lower() for word in only}
    seen = [item for item in view.present() if not wanted or wanted & item.names]
    if wanted and not seen:
        raise NoDevices
    return seen


def _cell(value: object, unit: str, options: Options) -> str:
    plain = not unit or not options.units or str(value).startswith("[") or value == NOT_AVAILABLE
    return str(value) if plain else f"{value} {unit}"


def _device(view: View, seen: Seen) -> Iterator[Row]:
    yield lambda each: each.get(seen, view)


def _whose(view: View, seen: Seen, own: dict[str, object]) -> Row:
    """Return a row about something of a device; ``own``: what is not of the device itself."""

    def get(each: Field) -> object:
        known = own.get(each.name)
        return (
            known
            if known is not None
            else field(each.name).get(seen, view)
            if each.name in _SHARED
            else NOT_SUPPORTED
        )

    return get


def _apps(view: View, seen: Seen) -> Iterator[Row]:
    for task in view.tasks(seen):
        yield _whose(view, seen, _app(view, seen, task))


def _app(view: View, seen: Seen, task: Task) -> dict[str, object]:
    return {"pid": task.pid, "process_name": task.name, "used_gpu_memory": seen.device.held(task, view.at)}


def _retired(view: View, seen: Seen) -> Iterator[Row]:
    """Pages are retired by products that remap no rows; others say for each cause that they have none."""
    remap, turing = seen.device.state.remap, seen.device.product.family == "turing"
    for cause, count in (("Single Bit ECC", remap.corrected), ("Double Bit ECC", remap.uncorrected)):
        for number in range(count) if turing else (-1,):
            own: dict[str, object] = {"retired_pages.cause": cause}
            if number >= 0:
                own["retired_pages.address"] = f"0x{0x1C2A4C + number * 0x1000:016x}"
            yield _whose(view, seen, own)


def _remapped(view: View, seen: Seen) -> Iterator[Row]:
    yield _whose(view, seen, {})


def _clocks(view: View, seen: Seen) -> Iterator[Row]:
    for memory, graphics in clocks(seen.device.product):
        for clock in graphics:
            yield _whose(view, seen, {"memory": memory, "graphics": clock})


def clocks(product: Product) -> list[tuple[int, range]]:
    """Return the clocks that a product's memory can have, each with those that its multiprocessors can have then."""
    most, idle = product.clocks["most"], product.clocks["idle"]
    found = [(most[1], range(most[0], idle[0] - 1, -STEP_MHZ))]
    return found if idle[1] == most[1] else [*found, (idle[1], range(idle[0], idle[0] - 1, -STEP_MHZ))]


_SHARED = {
    "timestamp", "gpu_name", "gpu_bus_id", "gpu_serial", "gpu_uuid", "remapped_rows.correctable",
    "remapped_rows.uncorrectable", "remapped_rows.pending", "remapped_rows.failure",
    *(f"remapped_rows.histogram.{name}" for name in ("max", "high", "partial", "low", "none")),
}  # fmt: skip
"""What other switches tell as ``--query-gpu`` does."""
_ROWS: dict[str, Callable[[View, Seen], Iterable[Row]]] = {
    "gpu": _device,
    "compute-apps": _apps,
    "accounted-apps": lambda view, seen: (),
    "retired-pages": _retired,
    "remapped-rows": _remapped,
    "supported-clocks": _clocks,
}
