"""The leases and faults of a node, kept in a file of the node, so that they outlive the agent that took them."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from faults.agent.refusals import not_permitted

FILE = "state.json"


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault. Moments are seconds since the node's boot.

    ``is_written``: its lines are in the log; until then ``after`` is the number of the last record before them.
    """

    fault_id: str
    lease: str
    xid_type: int
    gpu_id: int
    layers: str
    writer: str
    injected_at: float
    until: float
    after: int = -1
    is_written: bool = False


@dataclass(slots=True)
class State:
    """The faults that the agent knows, and the boot of the node that they belong to."""

    boot_id: str
    leases: dict[str, float] = field(default_factory=dict)
    faults: dict[str, Fault] = field(default_factory=dict)
    announced: list[str] = field(default_factory=list)
    """Addresses of GPUs that were named in the log since the boot."""
    last: float = -1.0
    """The moment of the newest fault."""


class StateFile:
    """The file; every change is on the disk before the agent acts on it."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE

    def load(self, boot_id: str) -> State:
        """Return the state. That of an earlier boot is over: its leases counted from then, its log is gone.

        A file that cannot be read is set aside, for people.
        """
        try:
            state = _parse(json.loads(self._path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return State(boot_id)
        except (ValueError, TypeError, KeyError):
            self._path.replace(self._path.with_suffix(".unreadable"))
            return State(boot_id)
        return state if state.boot_id == boot_id else State(boot_id)

    def save(self, state: State) -> None:
        """Write the state; where there is nothing to know, nothing is left on the node.

        Raises Refusal where the node does not let it.
        """
        part = self._path.with_suffix(".part")
        try:
            if not (state.leases or state.faults):
                self._path.unlink(missing_ok=True)
                return
            with open(part, "w", encoding="utf-8", opener=_private) as file:
                json.dump(asdict(state), file)
                file.flush()
                os.fsync(file.fileno())
            part.replace(self._path)
            _sync(self._path.parent)
        except OSError as error:
            text = (
                f"{self._path.parent} cannot be written to: {error.strerror}; nothing happens that could be forgotten"
            )
            raise not_permitted(text) from error


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def _sync(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _parse(data: dict[str, Any]) -> State:
    faults = {name: Fault(**fault) for name, fault in data.pop("faults").items()}
    return State(**data, faults=faults)
