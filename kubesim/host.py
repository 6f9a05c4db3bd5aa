"""Many clusters in one process, each under /clusters/<name>, and the control API that makes and drops them."""

from __future__ import annotations

import asyncio
import logging
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from kubesim.changelog import ChangeLog, ChangeLogError, Saver, State
from kubesim.clock import Clock, StoppedClock, Timer
from kubesim.cluster import Cluster, ClusterSpec
from kubesim.clusterfile import ClusterFile
from kubesim.errors import ApiError
from kubesim.history import History, Span
from kubesim.kubeconfig import server_url
from kubesim.pki import CertificateAuthority

NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
log = logging.getLogger("kubesim.host")


class HostError(Exception):
    """A control request that cannot be fulfilled: the HTTP code and a sentence that says what to do."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(slots=True)
class Tenant:
    """A running cluster, its file, and the timer of its deadline."""

    cluster: Cluster
    saver: Saver | None
    """None for a recording, which is not kept."""
    timer: Timer | None = None


class Host:
    """Makes, keeps, restores and drops clusters."""

    def __init__(
        self,
        data: Path,
        clock: Clock,
        ca: CertificateAuthority,
        public_host: str,
        port: int,
        *,
        history: bool = False,
    ) -> None:
        self._data = data / "clusters"
        self._clock = clock
        self._ca = ca
        self._public_host = public_host
        self._port = port
        self._history = history
        self._tenants: dict[str, Tenant] = {}
        self._making = asyncio.Lock()
        self._overdue: Callable[[str], object] = lambda name: None
        self.on_drop: Callable[[], object] = lambda: None
        """Called when a cluster is gone."""

    @property
    def ca(self) -> str:
        """Return the CA certificate as PEM text."""
        return self._ca.pem.decode()

    @property
    def clusters(self) -> dict[str, Cluster]:
        """Return the running clusters by name."""
        return {name: tenant.cluster for name, tenant in sorted(self._tenants.items())}

    def get(self, name: str) -> Cluster:
        """Return a cluster; raises HostError 404."""
        return self._tenant(name).cluster

    def _tenant(self, name: str) -> Tenant:
        tenant = self._tenants.get(name)
        if tenant is None:
            raise HostError(404, f"There is no cluster named {name!r}; list them with GET /control/clusters.")
        return tenant

    def find(self, name: str) -> Cluster | None:
        """Return a cluster, or None."""
        tenant = self._tenants.get(name)
        return tenant.cluster if tenant else None

    def on_overdue(self, call: Callable[[str], object]) -> None:
        """Call ``call`` with the name of a cluster whose deadline has passed; it has to drop it."""
        self._overdue = call

    async def start(self) -> None:
        """Bring back every cluster that was kept; one that cannot be read is reported and left where it is."""
        self._data.mkdir(parents=True, exist_ok=True)
        for folder in sorted(path for path in self._data.iterdir() if path.is_dir()):
            try:
                await self._restore(folder)
            except (ChangeLogError, ApiError) as error:
                log.error("the cluster in %s cannot be restored: %s", folder, error)

    def end_streams(self) -> None:
        """End every open watch and log of every cluster."""
        for tenant in self._tenants.values():
            tenant.cluster.guard.stop()

    async def stop(self) -> None:
        """Stop every cluster and write its last changes."""
        for tenant in [*self._tenants.values()]:
            self._disarm(tenant)
            await _end(tenant)
        self._tenants.clear()

    async def create(self, spec: ClusterSpec, content: ClusterFile | None = None) -> tuple[Cluster, bool]:
        """Return the cluster of this name and whether it is new, then with ``content``; raises HostError 422."""
        async with self._making:
            return await self._create(spec, content)

    async def _create(self, spec: ClusterSpec, content: ClusterFile | None) -> tuple[Cluster, bool]:
        self._check(spec.name, spec.deadline)
        tenant = self._tenants.get(spec.name)
        if tenant is not None:
            return tenant.cluster, False
        if self._history:
            try:
                (self._data / spec.name / "history").mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise _full(error) from error
        cluster = await Cluster.create(spec, self._clock, self._server(spec.name), self._ca, content, keep=True)
        try:
            await self._adopt(cluster, ChangeLog(self._data / spec.name))
        except OSError as error:
            self._tenants.pop(spec.name)
            await cluster.stop()
            raise _full(error) from error
        return cluster, True

    def _check(self, name: str, deadline: datetime | None) -> None:
        """Raise HostError 422 for a name or a deadline that no cluster can have."""
        if not NAME.fullmatch(name):
            raise HostError(422, "name: use at most 63 lower-case letters, digits and inner hyphens.")
        if deadline is not None and deadline <= self._clock.now():
            raise HostError(422, "deadline: give a time in the future.")

    async def history(self, name: str) -> Span:
        """Return how far a cluster's past reaches; raises HostError 404 where there is none."""
        self.get(name)
        try:
            return await asyncio.to_thread(History(self._data / name).span)
        except ChangeLogError as error:
            raise HostError(404, f"{name} has no history.") from error

    async def look_back(
        self, name: str, source: str, moment: datetime | None, deadline: datetime | None, *, recording: bool
    ) -> Cluster:
        """Return a new cluster: another one as it was at a moment, to read (``recording``) or to go on from there.

        Raises HostError 404, 409, 422 and 507.
        """
        async with self._making:
            return await self._look_back(name, source, moment, deadline, recording=recording)

    async def _look_back(
        self, name: str, source: str, moment: datetime | None, deadline: datetime | None, *, recording: bool
    ) -> Cluster:
        self._check(name, deadline)
        if name in self._tenants:
            raise HostError(409, f"There is a cluster named {name!r} already; choose another name.")
        saver = self._tenant(source).saver
        if saver is None:
            raise HostError(422, f"from: {source} is a recording itself; name the cluster that it is of.")
        await saver.save()
        past = History(self._data / source)
        try:
            state = await asyncio.to_thread(past.at, moment)
            at = moment or (await asyncio.to_thread(past.span)).last
            state = Cluster.forked(state, name, deadline)
        except ChangeLogError as error:
            raise HostError(422, f"at: {error}") from error
        if recording:
            return await self._record(name, state, at)
        file = ChangeLog(self._data / name)
        try:
            await asyncio.to_thread(file.append, state, self._clock.now())
        except OSError as error:
            raise _full(error) from error
        cluster = await Cluster.restore(state, self._clock, self._server(name), self._ca)
        await self._adopt(cluster, file)
        return cluster

    async def _record(self, name: str, state: State, at: datetime) -> Cluster:
        """Take up a recording."""
        clock = StoppedClock(at)
        cluster = await Cluster.restore(state, clock, self._server(name), self._ca, recording=True)
        self._tenants[name] = Tenant(cluster, None)
        self._arm(self._tenants[name])
        return cluster

    def set_deadline(self, name: str, deadline: datetime | None) -> Cluster:
        """Move a cluster's deadline; raises HostError 404 and 422."""
        cluster = self.get(name)
        if deadline is not None and deadline <= self._clock.now():
            raise HostError(422, "deadline: give a time in the future, or delete the cluster.")
        cluster.set_deadline(deadline)
        self._arm(self._tenants[name])
        return cluster

    async def drop(self, name: str) -> None:
        """Stop a cluster and forget it; raises HostError 404."""
        self.get(name)
        tenant = self._tenants.pop(name)
        self._disarm(tenant)
        await _end(tenant)
        self.on_drop()
        shutil.rmtree(self._data / name, ignore_errors=True)

    def _server(self, name: str) -> str:
        """Return a cluster's address."""
        return server_url(self._public_host, self._port, f"/clusters/{name}")

    async def _restore(self, folder: Path) -> None:
        """Bring back one cluster."""
        file = ChangeLog(folder)
        saved = file.load()
        if saved is None:
            return
        cluster = await Cluster.restore(saved, self._clock, self._server(folder.name), self._ca)
        cluster.spec.name = folder.name
        await self._adopt(cluster, file)

    async def _adopt(self, cluster: Cluster, file: ChangeLog) -> None:
        """Take up a running cluster, and keep it."""
        saver = Saver(file, cluster.changes, self._clock)
        self._tenants[cluster.spec.name] = tenant = Tenant(cluster, saver)
        self._arm(tenant)
        await saver.start()

    def _arm(self, tenant: Tenant) -> None:
        """Set the timer of a deadline."""
        self._disarm(tenant)
        spec = tenant.cluster.spec
        if spec.deadline is not None:
            seconds = (spec.deadline - self._clock.now()).total_seconds()
            tenant.timer = self._clock.call_later(seconds, lambda: self._overdue(spec.name))

    def _disarm(self, tenant: Tenant) -> None:
        """Drop the timer of a deadline."""
        if tenant.timer is not None:
            tenant.timer.cancel()
            tenant.timer = None


def _full(error: OSError) -> HostError:
    return HostError(507, f"{error.filename}: {error.strerror}; free some space for it.")


async def _end(tenant: Tenant) -> None:
    """Stop a cluster and write its last changes."""
    await tenant.cluster.stop()
    if tenant.saver is not None:
        await tenant.saver.stop()
