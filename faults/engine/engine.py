"""Applies changes and takes them back, so that dying anywhere in between can be mended by calling again."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from faults.engine import creating, patching
from faults.engine.model import Change, Create, Record, State
from faults.engine.ports import ClusterPort, Journal, Neighbours, NoNeighbours
from faults.engine.stuck import Stuck
from faults.errors import ClusterError, JournalError, StaleEpoch

Report = Callable[[str], None]


def no_failpoint(name: str) -> None:
    """The production failpoint: nothing happens at any of the named places.

    Tests hand in one that kills the process at ``before-undo``, ``before-write``, ``after-write``, and with
    ``revert-`` in front at ``before-write``, ``after-write``. ``before-status`` belongs to the services.
    """


class Engine:
    """Works on one cluster through one journal. ``apply`` and ``revert`` may be repeated at any time."""

    def __init__(
        self,
        cluster: ClusterPort,
        journal: Journal,
        *,
        neighbours: Neighbours | None = None,
        failpoint: Callable[[str], None] = no_failpoint,
    ) -> None:
        self._cluster = cluster
        self._journal = journal
        self._neighbours = neighbours or NoNeighbours()
        self._failpoint = failpoint

    def apply(self, changes: Sequence[Change], report: Report = lambda line: None, *, mend: bool = False) -> None:
        """Make every change that is not made yet, in order. Raises ClusterError; what was done stays recorded.

        A step's index is its place in ``changes``, so the same list must be handed in again. Steps that were taken
        back are made again. With ``mend`` those are, too, whose effect has gone: a cluster that comes back from a
        snapshot has forgotten the last second. Not where a candidate may have taken the effect away.
        """
        known = {record.index: record for record in self._journal.records()}
        for index, change in enumerate(changes):
            record = known.get(index)
            if record is None or record.state is not State.APPLIED or (mend and not self._holds(record)):
                report(f"{'Creating' if isinstance(change, Create) else 'Changing'} {change.target}")
                self._apply(index, change, record)

    def revert(self, report: Report = lambda line: None, only: Callable[[Record], bool] | None = None) -> list[Stuck]:
        """Take every step back, the last one first; return those that could not be.

        What was taken back before is looked at again, since the cluster may have come back from a snapshot. ``only``
        narrows it to some steps. An unreachable cluster raises instead: everything is worth another try. A copy of
        the journal that cannot be written keeps nothing from being taken back; it is reported once, as itself.
        """
        stuck: list[Stuck] = []
        for record in reversed(self._journal.records()):
            if (only is not None and not only(record)) or self._is_back(record):
                continue
            report(f"Taking back {record.target}")
            try:
                self._take_back(record)
            except ClusterError as exc:
                if exc.retryable:
                    raise
                stuck.append(_stuck(record, exc))
        return list(dict.fromkeys(stuck))

    def leftovers(self) -> list[Record]:
        """Return the reverted steps whose effect is still in the cluster; proves what ``revert`` claims."""
        reverted = [record for record in self._journal.records() if record.state is State.REVERTED]
        return [record for record in reverted if record.outcome != creating.KEPT and self._holds(record)]

    def _apply(self, index: int, change: Change, record: Record | None) -> None:
        record = self._record(index, change, record)
        self._failpoint("before-write")
        self._journal.guard()
        done = self._send(change, record)
        self._failpoint("after-write")
        self._commit_or_undo(done)

    def _record(self, index: int, change: Change, record: Record | None) -> Record:
        """Commit the undo. A record of an earlier attempt is kept while it still tells the truth."""
        self._failpoint("before-undo")
        if record is not None and record.state is State.RECORDED and self._still_true(record):
            return record
        planned = creating.plan(index, change) if isinstance(change, Create) else self._plan_patch(index, change)
        self._journal.save(planned)
        return planned

    def _plan_patch(self, index: int, change: Change) -> Record:
        assert not isinstance(change, Create)
        return patching.plan(self._cluster, index, change)

    def _still_true(self, record: Record) -> bool:
        if _is_creation(record):
            return True
        return patching.is_sent(self._cluster, record) or patching.is_current(self._cluster, record)

    def _send(self, change: Change, record: Record) -> Record:
        if isinstance(change, Create):
            return creating.send(self._cluster, change, record)
        if patching.is_sent(self._cluster, record):
            return record.applied(record.uid)
        return patching.send(self._cluster, change, record)

    def _commit_or_undo(self, done: Record) -> None:
        """Mark the step as made. A worker that was overtaken while its write was under way takes that write back,
        unless the new holder has made the step its own."""
        try:
            self._journal.save(done)
        except StaleEpoch:
            newest = {record.index: record for record in self._journal.records()}.get(done.index)
            if newest is None or newest.state is State.REVERTED:
                self._undo(done)
            raise

    def _take_back(self, record: Record) -> None:
        self._failpoint("revert-before-write")
        self._journal.guard()
        if _is_creation(record):
            record = creating.identified(self._cluster, record)
        outcome = self._undo(record)
        self._failpoint("revert-after-write")
        self._journal.save(record.reverted(outcome))

    def _undo(self, record: Record) -> str:
        if _is_creation(record):
            kept = bool(record.uid) and self._neighbours.have(record)
            return creating.KEPT if kept else creating.take_back(self._cluster, record)
        self._neighbours.inherit(record)
        return patching.take_back(self._cluster, record)

    def _is_back(self, record: Record) -> bool:
        return record.state is State.REVERTED and not self._holds(record)

    def _holds(self, record: Record) -> bool:
        holds = creating.holds if _is_creation(record) else patching.holds
        return holds(self._cluster, record)


def _stuck(record: Record, exc: ClusterError) -> Stuck:
    if isinstance(exc, JournalError):
        return Stuck(exc.target, exc.message, exc.command)
    command = creating.command if _is_creation(record) else patching.command
    return Stuck(str(record.target), exc.message, command(record))


def _is_creation(record: Record) -> bool:
    return bool(record.undo["action"] == "delete")
