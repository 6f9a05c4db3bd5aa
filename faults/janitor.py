"""Reverts overdue faults with cluster access only, from the copy of the journal inside the cluster.

For the day on which everything else of ours is dead: ``python -m faults.janitor --kubeconfig FILE``. It knows no
Django and no database.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path

from faults import clock
from faults.engine import Engine, Neighbours, Record, State, Stuck, held, settle, strip_finalizers
from faults.engine.ports import NoNeighbours
from faults.errors import ClusterError, JournalError, KubeconfigRefused
from faults.injectors import ACTIONS
from faults.kube.client import Kube
from faults.kube.config import parse
from faults.kube.mirror import NAMESPACE, Mirror, MirrorJournal, stored

Say = Callable[[str], None]
PATIENCE_S = 60.0  # until a deletion counts as hanging


def sweep(
    kube: Kube, now: datetime | None = None, *, say: Say = print, wait: Callable[[float], None] | None = None
) -> list[Stuck]:
    """Revert every mirrored run whose deadline has passed; return what a person must take back.

    What was made last goes first, and faults before the environments they live in. Without ``now`` the time is that
    of whoever wrote the deadline, where that was this machine since its boot: setting its clock moves no deadline.
    Raises a retryable ClusterError where the cluster is in the way.
    """
    mirrors = stored(kube)
    overdue = [mirror for mirror in mirrors if _is_overdue(mirror, now)]
    stuck: list[Stuck] = []
    for mirror in sorted(overdue, key=lambda mirror: (_makes_namespaces(mirror), -mirror.sequence)):
        others = _Others([other for other in mirrors if other not in overdue])
        stuck += _revert(kube, mirror, others, say, wait or _pause)
    return stuck


def _is_overdue(mirror: Mirror, now: datetime | None) -> bool:
    return mirror.deadline is not None and mirror.deadline <= (now or mirror.now() or clock.now())


def _revert(kube: Kube, mirror: Mirror, others: Neighbours, say: Say, wait: Callable[[float], None]) -> list[Stuck]:
    journal = MirrorJournal(kube, mirror)
    stuck = Engine(kube, journal, ACTIONS, neighbours=others).revert(say)
    if not stuck and not _let_go(kube, journal, say, wait):
        stuck = held(kube, journal.records(), ACTIONS)
    elif not stuck:
        stuck = _close(journal)
    for entry in stuck:
        say(f"{entry.target}: {entry.reason}. Run: {entry.command}")
    return stuck


def _let_go(kube: Kube, journal: MirrorJournal, say: Say, wait: Callable[[float], None]) -> bool:
    """Wait until the cluster has let go; what hangs in namespaces that the run made is freed of its finalizers."""
    settled = partial(settle, kube, journal.records(), ACTIONS, wait=wait, guard=journal.guard, patience_s=PATIENCE_S)
    if not settled():
        return True
    own = {record.target.name for record in journal.records() if record.target.kind == "Namespace"} - {NAMESPACE}
    lines = strip_finalizers(kube, journal.records(), ACTIONS, own)
    for line in lines:
        say(line)
    return bool(lines) and not settled()


def _close(journal: MirrorJournal) -> list[Stuck]:
    try:
        journal.close()
    except JournalError as exc:
        if exc.retryable:
            raise
        return [Stuck(exc.target, exc.message, exc.command)]
    return []


class _Others(NoNeighbours):
    """The mirrored runs that are not due."""

    def __init__(self, mirrors: Sequence[Mirror]) -> None:
        self._records = [record for mirror in mirrors for record in mirror.records]

    def have(self, record: Record) -> bool:
        """Return whether one of them has the same object for its own."""
        same = (record.target, record.uid)
        return any((other.target, other.uid) == same and other.state is State.APPLIED for other in self._records)


def _makes_namespaces(mirror: Mirror) -> bool:
    return any(record.target.kind == "Namespace" for record in mirror.records)


def _pause(seconds: float) -> None:
    threading.Event().wait(seconds)


def main(arguments: Sequence[str] | None = None) -> int:
    """Sweep once, or every so many seconds until SIGTERM; 1 where something is left."""
    parser = argparse.ArgumentParser(prog="python -m faults.janitor", description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True, help="credentials of the cluster")
    parser.add_argument("--every", type=float, default=0, metavar="SECONDS", help="go on for ever")
    options = parser.parse_args(arguments)
    try:
        kube = Kube(parse(options.kubeconfig.read_text(encoding="utf-8")))
    except (KubeconfigRefused, OSError, UnicodeDecodeError) as exc:
        print(exc, file=sys.stderr)
        return 2
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    code = _sweep_once(kube)
    while options.every > 0 and not stop.wait(options.every):
        code = _sweep_once(kube)
    kube.close()
    return code


def _sweep_once(kube: Kube) -> int:
    try:
        return 1 if sweep(kube) else 0
    except ClusterError as exc:
        print(exc, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
