"""The parts of a condition, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ObjectRead:
    """Objects of one kind; the expression sees them as a list. An empty namespace means every namespace."""

    api_version: str
    kind: str
    namespace: str = ""
    label_selector: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class LogRead:
    """Logs of the pods of another read; the expression sees a list of texts, one for each container that has a log.

    Without ``container`` all containers of a pod are read, init containers left out.
    """

    pods: str
    container: str = ""
    previous: bool = False


Read = ObjectRead | LogRead


@dataclass(frozen=True, slots=True)
class Condition:
    """What must be true of the cluster.

    ``expr`` is CEL and gives true or false; ``found`` is CEL and tells a person what was seen.
    """

    reads: Mapping[str, Read]
    expr: str
    found: str
    title: str = ""

    @property
    def reads_logs(self) -> bool:
        """Whether evaluating it asks the cluster for logs, which no watch delivers."""
        return any(isinstance(read, LogRead) for read in self.reads.values())


@dataclass(frozen=True, slots=True)
class Check:
    """A condition with a name and points; it counts once it has passed for ``hold`` seconds without a break."""

    key: str
    title: str
    points: int
    needs: tuple[str, ...]
    hold: float
    condition: Condition
