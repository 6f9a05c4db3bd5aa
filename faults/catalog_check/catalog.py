"""The proof of many variants, some at a time, and their processor time."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from pathlib import Path

import django
from django.db import connection

from faults import selectors
from faults.catalog_check.stage import Stages
from faults.catalog_check.variant import FAILURES, VariantProof, prove
from faults.models import ScenarioVersion

MAX_CPU_S = 3.0
"""Of all processes, for a variant on average, on a machine that does nothing else."""
ROUTES_OF_NODES = 2
"""A route whose fault breaks nodes has to wait for their boots: it costs as much as so many others."""
Case = tuple[ScenarioVersion, int]
Report = Callable[[VariantProof], object]


def cases(versions: Iterable[ScenarioVersion], variant: int = 0) -> list[Case]:
    """Return every variant of every version, or the one of a number; nothing proves what is only spoken about."""
    return [
        (version, number)
        for version in versions
        for number in range(1, len(selectors.pack_of(version).variants) + 1)
        if variant in (0, number) and not selectors.pack_of(version).is_spoken
    ]


def prove_all(found: Sequence[Case], *, jobs: int, report: Report) -> list[VariantProof]:
    """Prove each, ``jobs`` at a time; ``report`` is told of each as it ends. Returned are they in the order given.

    Each job is a process: threads would wait for each other's turn at every answer of their clusters. So ``report``,
    which is called there, has to be a function of a module.
    """
    shares = _shares(found, jobs)
    proven = _prove_share(0, shares[0], report) if len(shares) == 1 else _prove_shares(shares, jobs, report)
    proofs = {(proof.slug, proof.number): proof for proof in proven}
    return [proofs[selectors.pack_of(version).slug, number] for version, number in found]


def _prove_shares(shares: Sequence[Sequence[Case]], jobs: int, report: Report) -> list[VariantProof]:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=django.setup) as pool:
        running = [pool.submit(_prove_share, place, share, report) for place, share in enumerate(shares)]
        return [proof for share in running for proof in share.result()]


def _shares(found: Sequence[Case], jobs: int) -> list[list[Case]]:
    """Return the variants of each pack, the most work first, so that no long list is begun when all others end.

    A pack has several lists only where there are fewer packs than ``jobs``.
    A stage is for one pack, and kept while it is played; to make one costs as much as to prove a variant.
    """
    versions = dict.fromkeys(version for version, _ in found)
    parts = -(-jobs // max(len(versions), 1))
    cases_of = {version: [case for case in found if case[0] == version] for version in versions}
    shares = [rows[first::parts] for rows in cases_of.values() for first in range(parts)]
    return sorted(filter(None, shares), key=lambda share: sum(map(_work, share)), reverse=True)


def _work(case: Case) -> int:
    """Return about how much work a proof is, in routes."""
    version, number = case
    pack = selectors.pack_of(version)
    bound = pack.bind(parameters=pack.variants[number - 1])
    return len(bound.solutions + bound.wrong_turns) * (ROUTES_OF_NODES if pack.requires.agent else 1)


def _prove_share(place: int, share: Sequence[Case], report: Report) -> list[VariantProof]:
    proofs: list[VariantProof] = []
    stages = Stages(f"proof-{place}")
    try:
        for at, case in enumerate(share, 1):
            proof = prove(*case, stages=stages)
            if at == len(share):
                _end(stages, proof)
            report(proof)
            proofs.append(proof)
        return proofs
    finally:
        stages.discard()
        connection.close()


def _end(stages: Stages, last: VariantProof) -> None:
    """End the last session; what it leaves is told with the last proof."""
    try:
        stages.close()
    except FAILURES as exc:
        last.error = last.error or str(exc)


def processor_s() -> float:
    """Return the processor time of this process and everything below it, those included that have ended."""
    times = time.process_time() + sum(_ended_children())
    return times + sum(_seconds_of(pid) for pid in _descendants(os.getpid()))


def _ended_children() -> tuple[float, float]:
    spent = os.times()
    return spent.children_user, spent.children_system


def _descendants(pid: int) -> Iterator[int]:
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (task / "children").read_text(encoding="ascii").split()):
                yield child
                yield from _descendants(child)


def _seconds_of(pid: int) -> float:
    """Return a process' time and that of its ended children; 0 where the system does not tell."""
    with suppress(OSError):
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        return sum(map(int, stat[11:15])) / os.sysconf("SC_CLK_TCK")
    return 0.0
