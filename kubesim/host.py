"""The clusters of a host: makes, keeps, restores, watches and drops them, each in a process of its own."""

from __future__ import annotations

import asyncio
import logging
import re
import shutil
import signal
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import orjson

from kubesim.api.durations import parse_time
from kubesim.boot_clock import dump_deadline, load_deadline
from kubesim.clock import Clock, Timer
from kubesim.current_unit import NOTHING
from kubesim.errors import Obj
from kubesim.pki import write_private
from kubesim.processes import HostError, Process, Processes, ProcessGone
from kubesim.times import micro
from kubesim.watchdog import RestartPauses, Verdict, Watchdog

NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
ISSUER = "https://container.googleapis.com/v1/projects/ml-prod/locations/us-central1-a/clusters/"
"""Before a cluster's name: who issues the tokens of its service accounts, in the form that GKE has."""
NOTES = "host.json"
CRASHES = frozenset({1, -signal.SIGSEGV, -signal.SIGABRT, -signal.SIGBUS})
"""How a process ends that its own work has ended; anybody may kill one."""
ANSWER_S, SKIP_S, START_S = 5.0, 60.0, 5.0
STOP_S, DROP_S = 4.0, 1.0
"""From asking a process to end to killing it; what is dropped has nothing left to write."""
log = logging.getLogger("kubesim.host")


@dataclass
class Tenant:
    """A cluster of the host, whether its process runs or is being started again."""

    name: str
    job: Obj
    described: asyncio.Future[Obj]
    """What its process told when it was ready for the first time; HostError where it could not be made."""
    deadline: datetime | None = None
    process: Process | None = None
    timer: Timer | None = None
    restarts: int = 0
    removed: list[Obj] = field(default_factory=list)
    """What it was started again without: ``at``, ``resource``, ``namespace`` and ``name`` of each object."""
    pauses: RestartPauses = field(default_factory=RestartPauses)
    task: asyncio.Task[None] | None = None

    @property
    def ready(self) -> bool:
        """Whether it was ever ready."""
        return self.described.done() and not self.described.cancelled() and self.described.exception() is None

    def shown(self) -> Obj:
        """Return it as the control API shows it; it has to be ready."""
        told = self.described.result()
        return {
            "name": self.name,
            **{key: told[key] for key in ("server", "kubeconfig", "createdAt", "nodes", "gpus")},
            "deadline": micro(self.deadline) if self.deadline else None,
            "restarts": self.restarts,
            "removed": self.removed,
        }


class Host:
    """Every cluster by name."""

    def __init__(self, data: Path, clock: Clock, processes: Processes, server: str) -> None:
        self._data = data / "clusters"
        self._clock = clock
        self._processes = processes
        self._server = server
        self._tenants: dict[str, Tenant] = {}
        self._keys: dict[str, str] = {}
        self.stopping = False
        """Whether every process is to end, so that none is started again."""

    @property
    def clusters(self) -> list[Tenant]:
        """Return the clusters that are ready, by name."""
        return [tenant for _, tenant in sorted(self._tenants.items()) if tenant.ready]

    def get(self, name: str) -> Tenant:
        """Return a cluster that is ready; raises HostError 404."""
        tenant = self._tenants.get(name)
        if tenant is None or not tenant.ready:
            raise HostError(404, f"There is no cluster named {name!r}; list them with GET /control/clusters.")
        return tenant

    def find(self, *, issuer: str = "", key_id: str = "", name: str = "") -> Tenant | None:
        """Return the cluster whose tokens have an issuer or are signed with a key, or that has a name; else None."""
        if issuer.startswith(ISSUER):
            return self._tenants.get(issuer.removeprefix(ISSUER))
        return self._tenants.get(name or self._keys.get(key_id, ""))

    async def start(self) -> None:
        """Bring back every cluster that was kept; one that cannot be read is reported and left where it is."""
        self._data.mkdir(parents=True, exist_ok=True)
        folders = sorted(path for path in self._data.iterdir() if path.is_dir())
        found = [self._take_up(folder) for folder in folders if any(folder.glob("changes*.log"))]
        for tenant in found:
            tenant.described.add_done_callback(_report)
        if found:  # one that hangs must not keep the others waiting
            await asyncio.wait([tenant.described for tenant in found], timeout=START_S)

    def _take_up(self, folder: Path) -> Tenant:
        """Begin to run a cluster that was kept, with what the host has noted of it."""
        noted: Obj = {}
        with suppress(OSError, orjson.JSONDecodeError):
            noted = orjson.loads((folder / NOTES).read_bytes())
        known = {"deadline": _text(load_deadline(noted, self._clock.now()))} if "deadline" in noted else {}
        tenant = self._launch(folder.name, known)
        tenant.restarts, tenant.removed = noted.get("restarts", 0), noted.get("removed", [])
        return tenant

    async def stop(self) -> None:
        """End every process; each writes its last changes."""
        self.stopping = True
        await asyncio.gather(*(self._end(tenant, STOP_S) for tenant in [*self._tenants.values()]))

    async def create(self, name: str, deadline: datetime | None, asked: Obj) -> tuple[Tenant, bool]:
        """Return the cluster of this name and whether it is new, then as asked; raises HostError 422 and 507."""
        self._check(name, deadline)
        tenant, new = self._tenants.get(name), False
        if tenant is None:
            job = {"fresh": True, "deadline": _text(deadline), "create": asked, "skips": asked.get("skips", False)}
            tenant, new = self._launch(name, job), True
        await asyncio.shield(tenant.described)
        return tenant, new

    def deadline_in(self, seconds: int) -> datetime:
        """Return the deadline of a cluster that may live for so long."""
        return self._clock.now() + timedelta(seconds=seconds)

    async def set_deadline(self, name: str, deadline: datetime | None) -> Tenant:
        """Move a cluster's deadline; raises HostError 404 and 422. It holds whether its process answers or not."""
        tenant = self.get(name)
        if deadline is not None and deadline <= self._clock.now():
            raise HostError(422, "deadline: give a time in the future, or delete the cluster.")
        tenant.deadline = deadline
        tenant.job["deadline"] = _text(deadline)
        self._arm(tenant)
        self._note(tenant)
        try:
            if tenant.process is None:
                raise ProcessGone
            await tenant.process.call("deadline", _text(deadline), seconds=ANSWER_S)
        except (HostError, ProcessGone):
            log.warning("%s will learn of its deadline when it is started again", name)
        return tenant

    async def ask(self, name: str, call: str, *arguments: Any) -> Any:
        """Have a cluster's process do something; raises HostError 404, 409 and 503."""
        process = self.get(name).process
        try:
            if process is None:
                raise ProcessGone
            return await process.call(call, *arguments, seconds=SKIP_S)
        except ProcessGone as error:
            raise HostError(503, f"The process of {name} is being started again.") from error

    async def drop(self, name: str) -> None:
        """End a cluster's process and forget the cluster; raises HostError 404."""
        await self._drop(self.get(name))

    async def _drop(self, tenant: Tenant) -> None:
        if self._tenants.pop(tenant.name, None) is None:
            return
        if tenant.ready:
            self._keys.pop(tenant.described.result()["keyId"], None)
        await self._end(tenant, DROP_S)
        shutil.rmtree(self._data / tenant.name, ignore_errors=True)

    def _check(self, name: str, deadline: datetime | None) -> None:
        """Raise HostError 422 for a name or a deadline that no cluster can have."""
        if not NAME.fullmatch(name):
            raise HostError(422, "name: use at most 63 lower-case letters, digits and inner hyphens.")
        if deadline is not None and deadline <= self._clock.now():
            raise HostError(422, "deadline: give a time in the future.")

    def _launch(self, name: str, job: Obj) -> Tenant:
        """Begin to run a cluster."""
        told = {"name": name, "folder": str(self._data / name), "server": self._server, "issuer": ISSUER + name}
        described: asyncio.Future[Obj] = asyncio.get_running_loop().create_future()
        tenant = Tenant(name, {**told, **job}, described)
        tenant.deadline = parse_time(job.get("deadline"))
        self._tenants[name] = tenant
        self._arm(tenant)
        tenant.task = asyncio.create_task(self._keep_running(tenant), name=f"run {name}")
        return tenant

    async def _keep_running(self, tenant: Tenant) -> None:
        """Run a cluster's process, and another one after it, until the cluster is dropped."""
        while True:
            process = tenant.process = self._processes.fork(tenant.job)  # known at once to who ends the cluster
            dog = Watchdog(tenant.name, process)
            watch = asyncio.create_task(dog.watch(), name=f"watch {tenant.name}")
            try:
                if not await self._describe(tenant, process):
                    return
                status = await asyncio.shield(process.ended)
                if self.stopping:
                    return
            finally:
                watch.cancel()
                tenant.process = None
            await asyncio.sleep(self._ended(tenant, status, dog.verdict))

    def _ended(self, tenant: Tenant, status: int, verdict: Verdict | None) -> float:
        """Take note of the end of a process; returns the seconds until the next is to be started."""
        pause, again = tenant.pauses.next(asyncio.get_running_loop().time())
        log.error("the process of %s ended with %s; starting it again in %s s", tenant.name, status, pause)
        blamed = verdict.unit if verdict is not None and verdict.to_blame else NOTHING
        if again and (status in CRASHES or (verdict is not None and verdict.to_blame)):
            tenant.job["remove"] = blamed
        tenant.restarts += 1
        self._note(tenant)
        return pause

    def _note(self, tenant: Tenant) -> None:
        """Write what a restart of the host has to know of a cluster before its process can tell."""
        deadline = dump_deadline(tenant.deadline, self._clock.now())
        noted = {**deadline, "restarts": tenant.restarts, "removed": tenant.removed}
        folder = self._data / tenant.name
        try:
            if folder.is_dir():
                write_private(folder / NOTES, orjson.dumps(noted))
        except OSError as error:
            log.error("%s cannot be written: %s; free some space", folder / NOTES, error)

    async def _describe(self, tenant: Tenant, process: Process) -> bool:
        """Learn what a process has made; False where it could not be made at all."""
        try:
            told = await process.call("describe")
        except ProcessGone:
            return True
        except HostError as error:
            process.signal(signal.SIGKILL)
            if tenant.described.done():
                log.error("%s cannot be started again: %s", tenant.name, error.message)
                return True
            self._tenants.pop(tenant.name, None)
            self._disarm(tenant)
            tenant.described.set_exception(error)
            return False
        self._note_removed(tenant, told["removed"])
        if not tenant.described.done():
            if "deadline" not in tenant.job:
                tenant.deadline = parse_time(told["deadline"])
                self._arm(tenant)
            self._keys[told["keyId"]] = tenant.name
            tenant.job["fresh"] = False
            tenant.described.set_result(told)
            self._note(tenant)
        return True

    def _note_removed(self, tenant: Tenant, removed: Obj | None) -> None:
        if "remove" not in tenant.job:
            return
        unit = tenant.job.pop("remove")
        if removed is None:
            log.error("%s hung again, but nothing that is kept of it is to blame (%s)", tenant.name, unit)
            return
        log.error("%s goes on without %s %s/%s, over which it hung again", tenant.name, *[*removed.values()][1:])
        tenant.removed.append(removed)
        self._note(tenant)

    async def _end(self, tenant: Tenant, seconds: float) -> None:
        """End a process for good."""
        self._disarm(tenant)
        process = tenant.process
        if tenant.task is not None:
            tenant.task.cancel()
        if not tenant.described.done():
            tenant.described.set_exception(HostError(404, f"{tenant.name} was dropped before it was ready."))
            tenant.described.exception()
        if process is None or process.ended.done():
            return
        process.signal(signal.SIGTERM)
        await asyncio.wait([process.ended], timeout=seconds)
        process.signal(signal.SIGKILL)
        await asyncio.wait([process.ended], timeout=seconds)

    def _arm(self, tenant: Tenant) -> None:
        """Set the timer of a deadline."""
        self._disarm(tenant)
        if tenant.deadline is not None:
            seconds = (tenant.deadline - self._clock.now()).total_seconds()
            tenant.timer = self._clock.call_later(seconds, lambda: asyncio.ensure_future(self._drop(tenant)))

    def _disarm(self, tenant: Tenant) -> None:
        """Drop the timer of a deadline."""
        if tenant.timer is not None:
            tenant.timer.cancel()
            tenant.timer = None


def _report(described: asyncio.Future[Obj]) -> None:
    """Log why a kept cluster could not be restored."""
    error = None if described.cancelled() else described.exception()
    if error is not None:
        log.error("%s", error)


def _text(moment: datetime | None) -> str | None:
    return micro(moment) if moment else None
