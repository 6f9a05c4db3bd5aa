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
from datetime import UTC, datetime
from pathlib import Path

from faults.engine import Engine, Stuck, settle
from faults.errors import ClusterError, KubeconfigRefused
from faults.kube.client import Kube
from faults.kube.config import parse
from faults.kube.mirror import Mirror, MirrorJournal, stored

Say = Callable[[str], None]


def sweep(kube: Kube, now: datetime, *, say: Say = print, wait: Callable[[float], None] | None = None) -> list[Stuck]:
    """Revert every mirrored run whose deadline has passed; return the steps that a person must revert.

    Faults go before the environments they live in. Raises a retryable ClusterError where the cluster is in the way.
    """
    overdue = [mirror for mirror in stored(kube) if mirror.deadline is not None and mirror.deadline <= now]
    stuck: list[Stuck] = []
    for mirror in sorted(overdue, key=_makes_namespaces):
        stuck += _revert(kube, mirror, say, wait or _pause)
    return stuck


def _revert(kube: Kube, mirror: Mirror, say: Say, wait: Callable[[float], None]) -> list[Stuck]:
    journal = MirrorJournal(kube, mirror)
    stuck = Engine(kube, journal).revert(say)
    for entry in stuck:
        say(f"{entry.record.target}: {entry.error}. Run: {entry.command}")
    if not stuck:
        settle(kube, journal.records(), wait=wait, guard=journal.guard)
        journal.close()
    return stuck


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
        return 1 if sweep(kube, datetime.now(UTC)) else 0
    except ClusterError as exc:
        print(exc, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
