"""Looking back: ``kubesim history``, ``replay`` and ``fork`` on the folder of a cluster that kept its history.

The folder is that of ``serve``, or one of the ``clusters`` of a host. Where it has a folder ``history``, every batch
of changes is kept (see ``changelog.py``), a quarter of a second each: files that were written anew stay as
``history/000000.log`` and so on. Each begins with a whole state.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import orjson

from kubesim import garbage, kubeconfig
from kubesim.changelog import ChangeLog, ChangeLogError, State, batches
from kubesim.clock import RealClock, StoppedClock
from kubesim.cluster import Cluster
from kubesim.kubeconfig import server_url
from kubesim.pki import CertificateAuthority
from kubesim.serve import Address, ServeError, listen, reachable, stop_signal, taken, tls_context
from kubesim.times import micro, stamp

AUTHORITY_FILES = ("ca.crt", "ca.key")


@dataclass(frozen=True, slots=True)
class Span:
    """The first and the last moment that a history knows, and how many batches of changes lie between them."""

    first: datetime
    last: datetime
    batches: int


class History:
    """The past of the cluster that is kept in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def files(self) -> list[Path]:
        """Return its files, the oldest first."""
        newest = self._folder / "changes.log"
        return [*sorted((self._folder / "history").glob("*.log")), *([newest] if newest.exists() else [])]

    def moments(self) -> Iterator[tuple[datetime, State]]:
        """Yield every batch of changes with its time; a whole state that only repeats what was is left out."""
        for number, path in enumerate(self.files()):
            for place, (at, changes, _) in enumerate(batches(path)):
                if place or not number:
                    yield at, changes

    def span(self) -> Span:
        """Return how far it reaches; raises ChangeLogError where there is none."""
        times = [at for at, _ in self.moments()]
        if not times:
            raise ChangeLogError(f"{self._folder} holds no cluster; name the folder that --data named")
        return Span(times[0], times[-1], len(times))

    def at(self, moment: datetime | None = None) -> State:
        """Return the state at a moment (None: the last one), by key; raises ChangeLogError for one before the first.

        Only the newest file that begins before the moment is read: it begins with all that was before.
        """
        for path in reversed(self.files()):
            state: State = {}
            for at, changes, _ in batches(path):
                if moment is not None and at > moment:
                    break
                state.update(changes)
            if state:
                return {key: value for key, value in state.items() if value}
        first = self.span().first
        raise ChangeLogError(f"the history begins at {micro(first)}; name a later moment with --at")


def _folders(data: Path) -> tuple[Path, Path]:
    """Return where a cluster is kept, and where its authority."""
    return (data, data.parent.parent) if (data / "changes.log").exists() else (data / "cluster", data)


@asynccontextmanager
async def recording(data: Path, moment: datetime | None, address: Address) -> AsyncIterator[Cluster]:
    """Serve a cluster as it was at a moment (None: the last one), for reading only; raises ChangeLogError.

    The folder may be in use: nothing is written to it.
    """
    folder, keys = _folders(data)
    history = History(folder)
    state = history.at(moment)
    real, stopped = RealClock(), StoppedClock(moment or history.span().last)
    authority = CertificateAuthority.at(keys, real.now())
    sock = listen(address)
    async with AsyncExitStack() as stack:
        stack.callback(sock.close)
        server = server_url(address.host, sock.getsockname()[1])
        cluster = await Cluster.restore(state, stopped, server, authority, recording=True)
        stack.push_async_callback(cluster.stop)
        await stack.enter_async_context(reachable(cluster, sock, tls_context(authority, address.host, real)))
        yield cluster


async def run_recording(data: Path, moment: datetime | None, address: Address, file: Path) -> None:
    """``kubesim replay``: run until SIGTERM or SIGINT."""
    stop = stop_signal()
    garbage.spare_the_old()
    async with recording(data, moment, address) as cluster:
        cluster.spec.name += "-recording"
        kubeconfig.write(file, cluster.admin_kubeconfig())
        at = stamp(cluster.clock.now())
        print(f"{cluster.spec.name} shows {at} at {cluster.server}; export KUBECONFIG={file}", flush=True)
        await stop.wait()


def fork(data: Path, moment: datetime | None, to: Path) -> None:
    """``kubesim fork``: make ``to`` the folder of a cluster that goes on from a moment of another.

    Its certificates are of the same authority; its tokens are its own. Raises ChangeLogError and ServeError.
    """
    if to.exists() and any(to.iterdir()):
        raise ServeError(f"{to} holds other things; name an empty or a new folder with --to")
    folder, keys = _folders(data)
    history = History(folder)
    state = Cluster.forked(history.at(moment))
    with taken(to):
        for name in AUTHORITY_FILES:
            shutil.copy2(keys / name, to / name)
        ChangeLog(to / "cluster").append(state, moment or history.span().last)


def report(data: Path, *, each: bool) -> Iterator[str]:
    """Yield the lines of ``kubesim history``: how far it reaches, and with ``each`` what changed when."""
    folder, _ = _folders(data)
    history = History(folder)
    span = history.span()
    if each:
        for at, changes in history.moments():
            yield f"{micro(at)}  {_summary(changes)}"
        return
    yield f"from {micro(span.first)} to {micro(span.last)}: {span.batches} times something was written"
    if not (folder / "history").is_dir():
        yield "older changes may be gone: serve keeps them with --history"


def _summary(changes: State) -> str:
    """Return what a batch is about: objects by name, or how many of each resource where they are many."""
    objects = [(parts[1], "/".join(filter(None, parts[2:])), bool(value)) for parts, value in _objects(changes)]
    if len(objects) > 8:
        counted = Counter(table for table, _, _ in objects)
        return ", ".join(f"{number} {table}" for table, number in sorted(counted.items()))
    return ", ".join(f"{table} {name}{'' if there else ' (deleted)'}" for table, name, there in sorted(objects))


def _objects(changes: State) -> Iterator[tuple[list[str], bytes]]:
    for line, value in changes.items():
        parts = orjson.loads(line)
        if parts[0] == "object":
            yield parts, value
