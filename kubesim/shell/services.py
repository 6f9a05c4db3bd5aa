"""The services of a node as systemd keeps them: which run and since when, how the others ended, what is said of it.

States, words and statuses are those of systemd 249.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from kubesim.clock import Clock, Timer
from kubesim.times import micro, parse

MOST_LINES = 500
EXITED = "code=exited, status=0/SUCCESS"
FAILED = "code=exited, status=1/FAILURE"
NUMBERS = {"KILL": 9, "TERM": 15, "INT": 2, "HUP": 1, "ABRT": 6, "SEGV": 11, "QUIT": 3}
"""Signals of which a service ends."""
CLEAN = frozenset({"TERM", "INT", "HUP"})
"""Those of them that systemd takes for an end in order."""
Line = tuple[datetime, str, int, str]
"""When, the program's name and process, and what it said."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A service of the node; ``cpu`` is what it has used since boot, ``kind`` its type.

    ``again_s``: after so many seconds it is started again when it ends (Restart=always); None: never.
    """

    description: str
    path: str
    pid: int
    command: str
    tasks: int
    memory: str
    cpu: str
    kind: str = "simple"
    again_s: float | None = None


@dataclass
class Service:
    """Where a service stands. ``since`` and ``pid`` are None and 0 as long as nothing has happened since boot."""

    active: str = "active"
    since: datetime | None = None
    pid: int = 0
    enabled: str = "enabled"
    result: str = "success"
    ending: str = ""
    """How its main process ended."""
    restarts: int = 0
    timer: Timer | None = field(default=None, compare=False)

    @property
    def sub(self) -> str:
        """The low-level state."""
        return {"active": "running", "activating": "auto-restart", "failed": "failed"}.get(self.active, "dead")

    def dump(self) -> dict[str, Any]:
        """Return what ``load`` takes."""
        since = micro(self.since) if self.since else None
        timer, self.timer = self.timer, None
        try:
            return {**asdict(self), "since": since}
        finally:
            self.timer = timer

    @classmethod
    def load(cls, saved: dict[str, Any]) -> Service:
        """Return what ``dump`` has told, after a journey through JSON."""
        return cls(**{**saved, "since": parse(saved["since"]) if saved["since"] else None})


class Services:
    """Those of one node. Only what is not as it was at boot is held here: nothing, on most nodes."""

    def __init__(
        self, clock: Clock, known: Callable[[], dict[str, Unit]], number: Callable[[str, datetime], int]
    ) -> None:
        """``known`` returns the node's units; ``number`` gives a process number to what starts under a name."""
        self._clock = clock
        self._known = known
        self._number = number
        self._changed: dict[str, Service] = {}
        self.lines: dict[str, deque[Line]] = {}
        """What systemd and the programs themselves have said, by unit."""
        self.begins: dict[str, Callable[[int], str]] = {}
        """Called with its number when a service starts; returns the last words of one that cannot."""
        self.ends: dict[str, Callable[[], None]] = {}
        """Called when a service has ended."""
        self.noted: Callable[[], None] = lambda: None
        """Called when ``dump`` tells something else than before."""

    def of(self, name: str) -> Service:
        """Return where a service stands."""
        return self._changed.get(name) or Service()

    def runs(self, name: str) -> bool:
        """Whether a service runs."""
        return name not in self._changed or self._changed[name].active == "active"

    def pid(self, name: str) -> int:
        """Return the number of a service's main process."""
        return self.of(name).pid or self._known()[name].pid

    def boot(self) -> None:
        """Start what is enabled: the machine was turned off and on again."""
        for name, service in [*self._changed.items()]:
            self._rest(service)
            self.lines.pop(name, None)
            if service.enabled == "enabled":
                del self._changed[name]
            else:
                self._changed[name] = Service("inactive", self._clock.now(), enabled=service.enabled)
                self.ends.get(name, _nothing)()
        for name, begin in self.begins.items():
            if self.runs(name) and (why := begin(self.pid(name))):
                unit = self._known()[name]
                self._say(name, f"{'Started' if unit.kind == 'simple' else 'Starting'} {unit.description}...")
                self._end(name, FAILED, why)
                if unit.kind != "simple":
                    self._say(name, f"Failed to start {unit.description}.")
        self.noted()

    def start(self, name: str) -> bool:
        """Start a service; returns whether that has worked, as far as systemd waits for it."""
        service = self._hold(name)
        if service.active == "active":
            return True
        self._rest(service)
        service.restarts = 0
        return self._begin(name) or self._known()[name].kind == "simple"

    def stop(self, name: str) -> None:
        """Stop a service."""
        service, unit = self._hold(name), self._known()[name]
        self._rest(service)
        ran, service.restarts = service.active == "active", 0
        if ran:
            self._say(name, f"Stopping {unit.description}...")
        if service.active in ("active", "activating"):
            service.active, service.since, service.result, service.ending = (
                "inactive", self._clock.now(), "success", EXITED
            )  # fmt: skip
        if ran:
            self.ends.get(name, _nothing)()
            self._say(name, f"{name}.service: Deactivated successfully.", f"Stopped {unit.description}.")
        self.noted()

    def strike(self, name: str, signal: str) -> None:
        """Let a signal reach a service's main process."""
        if signal in NUMBERS and self.runs(name):
            self._hold(name)
            self._end(name, f"code=killed, {{}}={NUMBERS[signal]}/{signal}" if signal not in CLEAN else EXITED)

    def enable(self, name: str, how: str) -> None:
        """Let a service be started at boot, or not: ``enabled``, ``disabled``, ``masked``."""
        self._hold(name).enabled = how
        self.noted()

    def forgive(self, name: str = "") -> None:
        """Forget that services have failed."""
        for each, service in self._changed.items():
            if service.active == "failed" and name in ("", each):
                service.active, service.result = "inactive", "success"

    def dump(self) -> dict[str, Any]:
        """Return what ``restore`` takes."""
        return {name: service.dump() for name, service in self._changed.items()}

    def restore(self, saved: dict[str, Any]) -> None:
        """Bring the services to what ``dump`` has told of them."""
        for name, each in saved.items():
            service = self._changed[name] = Service.load(each)
            if service.active == "activating":
                self._plan(name, service)
            if service.active != "active":
                self.ends.get(name, _nothing)()

    def _hold(self, name: str) -> Service:
        return self._changed.setdefault(name, Service())

    def _begin(self, name: str) -> bool:
        service, unit, now = self._hold(name), self._known()[name], self._clock.now()
        service.pid, service.since = self._number(name, now), now
        if unit.kind != "simple":
            self._say(name, f"Starting {unit.description}...")
        why = self.begins.get(name, _ready)(service.pid)
        if why and unit.kind != "simple":
            self._end(name, FAILED, why)
            self._say(name, f"Failed to start {unit.description}.")
            return False
        service.active, service.result, service.ending = "active", "success", ""
        self._say(name, f"Started {unit.description}.")
        if why:
            self._end(name, FAILED, why)
        self.noted()
        return not why

    def _end(self, name: str, ending: str, why: str = "") -> None:
        """Note that a main process has ended by itself."""
        service, unit, now = self._hold(name), self._known()[name], self._clock.now()
        service.pid = service.pid or unit.pid
        if why:
            program = unit.command.split()[0].rpartition("/")[2].rstrip(":")
            self.lines.setdefault(name, deque(maxlen=MOST_LINES)).append((now, program, service.pid, why))
        clean, signal = ending == EXITED, "killed" in ending
        service.ending, service.since = ending.format("signal"), now
        service.result = "success" if clean else "signal" if signal else "exit-code"
        service.active = "inactive" if clean else "failed"
        if not clean:
            said = ending.format("status")
            self._say(name, f"{name}.service: Main process exited, {said}")
            self._say(name, f"{name}.service: Failed with result '{service.result}'.")
        else:
            self._say(name, f"{name}.service: Deactivated successfully.")
        self.ends.get(name, _nothing)()
        if unit.again_s is not None:
            service.active = "activating"
            self._plan(name, service)
        self.noted()

    def _plan(self, name: str, service: Service) -> None:
        service.timer = self._clock.call_later(self._known()[name].again_s or 0.0, lambda: self._again(name))

    def _again(self, name: str) -> None:
        service, unit = self._hold(name), self._known()[name]
        service.timer = None
        service.restarts += 1
        text = f"{name}.service: Scheduled restart job, restart counter is at {service.restarts}."
        self._say(name, text, f"Stopped {unit.description}.")
        self._begin(name)

    def _rest(self, service: Service) -> None:
        if service.timer is not None:
            service.timer.cancel()
            service.timer = None

    def close(self) -> None:
        """Start nothing any more."""
        for service in self._changed.values():
            self._rest(service)

    def _say(self, name: str, *texts: str) -> None:
        kept = self.lines.setdefault(name, deque(maxlen=MOST_LINES))
        kept.extend((self._clock.now(), "systemd", 1, text) for text in texts)


def _nothing() -> None:
    """Do nothing: most services matter to nobody else."""


def _ready(pid: int) -> str:
    """Start without fail."""
    return ""
