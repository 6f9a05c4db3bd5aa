"""Records that a kubelet keeps of a pod's containers beyond what the API shows; they go through JSON and back."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from typing import Any

from kubesim.errors import Obj
from kubesim.gpu.access import Found
from kubesim.kubelet.logfile import LogFile
from kubesim.kubelet.timings import BACKOFF_CAP_S, BACKOFF_FIRST_S, BACKOFF_RESET_S
from kubesim.times import parse


@dataclass
class Backoff:
    """The wait between the tries of one container or one image: ``delay`` seconds, last used at ``used_at``."""

    delay: float = 0.0
    used_at: datetime | None = None

    def remaining(self, failed_at: datetime, now: datetime) -> float:
        """Return how many seconds a thing that failed at ``failed_at`` has still to wait; 0 for a first failure."""
        if self._forgotten(failed_at):
            return 0.0
        return max(0.0, self.delay - (now - failed_at).total_seconds())

    def next(self, failed_at: datetime, now: datetime) -> None:
        """Note that another try begins: a failure after it waits longer."""
        if self._forgotten(failed_at):
            self.delay = BACKOFF_FIRST_S
        else:
            self.delay = min(self.delay * 2, BACKOFF_CAP_S)
        self.used_at = now

    def _forgotten(self, failed_at: datetime) -> bool:
        return self.used_at is None or (failed_at - self.used_at).total_seconds() > BACKOFF_RESET_S

    def dump(self) -> dict[str, Any]:
        """Return what ``load`` takes."""
        return asdict(self)

    @classmethod
    def load(cls, data: dict[str, Any]) -> Backoff:
        """Rebuild from ``dump``, after a journey through JSON."""
        return cls(data["delay"], parse(data["used_at"]) if data["used_at"] else None)


@dataclass
class Instance:
    """One start of a container. A started one that has not ended has no ``finished_at``."""

    id: str
    started_at: datetime
    finished_at: datetime | None = None
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    image: str = ""
    """What it was started from: the pod may ask for another by now."""
    found: Found | None = None
    """The GPUs that a computed process has found when it started; None: nobody has looked."""
    cut: tuple[float, str, int] | None = None
    """(seconds after the start, what is printed, exit code) where a fault ends a computed process."""
    course: list[tuple[float, str]] = field(default_factory=list)
    """(seconds after the start, behaviour) with which a computed process has gone on."""
    oom_at: float | None = None
    """Seconds after the start when a program that somebody has started inside filled its memory."""
    notes: list[tuple[float, str]] = field(default_factory=list)
    """(seconds after the start, line) of what a computed process says of what it has met."""
    log: LogFile | None = None
    """What a process that really runs has printed; a computed one's log is computed."""

    def end(self, at: datetime, code: int, reason: str = "", message: str = "") -> None:
        """Note how it ended."""
        self.finished_at = at
        self.exit_code = code
        self.reason = reason or ("Completed" if code == 0 else "Error")
        self.message = message

    def dump(self) -> dict[str, Any]:
        """Return what ``load`` takes. A process that still runs prints its log again when it is run again."""
        kept = self.log.dump() if self.log is not None and self.finished_at is not None else None
        return {**vars(self), "log": kept, "found": self.found.dump() if self.found else None}

    @classmethod
    def load(cls, data: dict[str, Any] | None) -> Instance | None:
        """Rebuild from ``dump``, after a journey through JSON."""
        if data is None:
            return None
        times: dict[str, Any] = {
            name: parse(data[name]) if data[name] else None for name in ("started_at", "finished_at")
        }
        kept, cut = data.get("log"), data.get("cut")
        times["cut"] = (cut[0], str(cut[1]), cut[2] if len(cut) > 2 else 1) if cut else None
        times["found"] = Found.load(data.get("found"))
        times["course"] = [(at, str(name)) for at, name in data.get("course") or ()]
        return cls(**{**data, **times, "log": None if kept is None else LogFile.load(kept)})


@dataclass
class Container:
    """One container of a pod over all its starts. ``state`` is the name of the stage that waits to be left."""

    name: str
    init: bool
    since: datetime
    state: str = "waiting"
    ephemeral: bool = False
    restarts: int = 0
    instance: Instance | None = None
    previous: Instance | None = None
    backoff: Backoff = field(default_factory=Backoff)
    pull_backoff: Backoff = field(default_factory=Backoff)
    pull_error: str = ""
    refusal: str = ""
    """The reason for which its image is not even asked for."""
    failed_at: datetime | None = None
    told_at: datetime | None = None
    """When the back-off event was last recorded."""
    config_error: str = ""
    startup_done: bool = True
    ready: bool = True
    """What the probes have found; without a probe always true."""
    replaced: bool = False
    """Whether it was stopped only to be started as its pod asks for by now."""

    @property
    def running(self) -> bool:
        """Whether a process runs."""
        return self.state == "running"

    @property
    def done(self) -> bool:
        """Whether it has ended for good."""
        return self.state == "done"

    @property
    def succeeded(self) -> bool:
        """Whether it has ended for good and well."""
        return self.done and self.instance is not None and self.instance.exit_code == 0

    def enter(self, state: str, now: datetime) -> None:
        """Go to another stage."""
        self.state = state
        self.since = now

    def dump(self) -> dict[str, Any]:
        """Return what ``load`` takes."""
        data = dict(vars(self))
        for name in ("instance", "previous", "backoff", "pull_backoff"):
            data[name] = data[name].dump() if data[name] is not None else None
        return data

    @classmethod
    def load(cls, data: dict[str, Any]) -> Container:
        """Rebuild from ``dump``, after a journey through JSON; data of older versions may hold more fields."""
        times = {name: parse(data[name]) if data[name] else None for name in ("since", "failed_at", "told_at")}
        instances = {name: Instance.load(data[name]) for name in ("instance", "previous")}
        backoffs = {name: Backoff.load(data[name]) for name in ("backoff", "pull_backoff")}
        known = {name: data[name] for name in data.keys() & {each.name for each in fields(cls)}}
        return cls(**{**known, **times, **instances, **backoffs})


def container_id(pod_uid: str, name: str, number: int) -> str:
    """Return the id of the ``number``-th start of a container."""
    return hashlib.sha256(f"{pod_uid}/{name}/{number}".encode()).hexdigest()


def from_status(name: str, init: bool, status: Obj | None, pod_uid: str, now: datetime) -> Container:
    """Rebuild a container from what the API shows of it; the back-off is inferred from its restarts."""
    container = Container(name, init, now)
    if status is None:
        return container
    container.restarts = status.get("restartCount", 0)
    state, last = status.get("state", {}), status.get("lastState", {}).get("terminated")
    ended = state.get("terminated")
    if "running" in state:
        started = parse(state["running"]["startedAt"])
        container.instance = Instance(container_id(pod_uid, name, container.restarts), started)
        container.previous = _ended(last)
        container.enter("running", started)
    elif ended is not None:
        container.instance, container.previous = _ended(ended), _ended(last)
        container.enter("exited", now)
    elif last is not None:
        container.instance = _ended(last)
        container.enter("exited", now)
    _infer_backoff(container)
    return container


def _ended(status: Obj | None) -> Instance | None:
    if status is None:
        return None
    began = "finishedAt" if status.get("reason") == "StartError" else "startedAt"
    instance = Instance(status.get("containerID", "").rpartition("/")[2], parse(status[began]))
    instance.end(parse(status["finishedAt"]), status["exitCode"], status.get("reason", ""), status.get("message", ""))
    return instance


def _infer_backoff(container: Container) -> None:
    if container.restarts and container.instance is not None:
        delay = min(BACKOFF_FIRST_S * 2 ** min(container.restarts - 1, 10), BACKOFF_CAP_S)
        container.backoff = Backoff(delay, container.instance.started_at)


def containers_of(pod: Obj, specs: str, statuses: str, now: Any) -> list[Container]:
    """Rebuild the containers of one kind (``specs``, with their ``statuses``) from what the API shows of a pod."""
    shown = {item["name"]: item for item in pod.get("status", {}).get(statuses, ())}
    init = specs == "initContainers"
    uid = pod["metadata"]["uid"]
    found = [
        from_status(spec["name"], init, shown.get(spec["name"]), uid, now) for spec in pod["spec"].get(specs, ())
    ]
    for container in found:
        container.ephemeral = specs == "ephemeralContainers"
    return found
