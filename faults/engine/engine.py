"""Applies changes and takes them back, so that dying anywhere in between can be mended by calling again."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from faults.engine import creating, patching
from faults.engine.model import Change, Create, Patch, Record, State
from faults.engine.ports import ClusterPort, Journal, Neighbours, NoNeighbours
from faults.engine.stuck import Stuck
from faults.errors import ClusterError, JournalError, StaleEpoch

Report = Callable[[str], None]
_Creation = tuple[int, Create, Record | None]
"""A step's index, what it creates, and its record of an earlier attempt."""


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

    def apply(
        self, changes: Sequence[Change], report: Report = lambda line: None, *, mend: bool = False, first: int = 0
    ) -> None:
        """Make every change from ``first`` on that is not made yet, in order.

        Raises ClusterError; what was done stays recorded.

        A step's index is its place in ``changes``, so the same list must be handed in again. Steps that were taken
        back are made again. With ``mend`` those are, too, whose effect has gone: a cluster that comes back from a
        snapshot has forgotten the last second. Not where a candidate may have taken the effect away.
        """
        known = {record.index: record for record in self._journal.records()}
        creations: list[_Creation] = []
        for index, change in enumerate(changes[first:], first):
            record = known.get(index)
            if record is not None and record.state is State.APPLIED and not (mend and not self._holds(record)):
                continue
            if isinstance(change, Create):
                creations.append((index, change, record))
                continue
            self._create(creations, report)
            creations = []
            report(f"Changing {change.target}")
            self._change(index, change, record)
        self._create(creations, report)

    def revert(self, report: Report = lambda line: None, only: Callable[[Record], bool] | None = None) -> list[Stuck]:
        """Take every step back, namespaces first, then the last one first; return those that could not be.

        What was taken back before is looked at again, since the cluster may have come back from a snapshot. ``only``
        narrows it to some steps. An unreachable cluster raises instead: everything is worth another try. A copy of
        the journal that cannot be written keeps nothing from being taken back; it is reported once, as itself.
        """
        stuck: list[Stuck] = []
        for record in _backwards(self._journal.records()):
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

    def _create(self, creations: Sequence[_Creation], report: Report) -> None:
        """Create objects in order. Their undos are committed together, and so is what became of them: each commit is
        a write to the disk and to the cluster, and a plan of an object needs no look at the cluster."""
        records = [self._plan_creation(*creation) for creation in creations]
        planned = [record for record, (_, _, old) in zip(records, creations, strict=True) if record is not old]
        if planned:
            self._journal.save(*planned)
        done: list[Record] = []
        try:
            for record, (_, change, _) in zip(records, creations, strict=True):
                report(f"Creating {change.target}")
                self._failpoint("before-write")
                self._journal.guard()
                done.append(creating.send(self._cluster, change, record))
                self._failpoint("after-write")
        except (ClusterError, StaleEpoch):
            self._commit_or_undo(done)
            raise
        self._commit_or_undo(done)

    def _plan_creation(self, index: int, change: Create, record: Record | None) -> Record:
        """Return the undo; that of an earlier attempt which was not recorded as made still tells the truth."""
        self._failpoint("before-undo")
        is_kept = record is not None and record.state is State.RECORDED
        return record if record is not None and is_kept else creating.plan(index, change)

    def _change(self, index: int, change: Patch, record: Record | None) -> None:
        record = self._record(index, change, record)
        self._failpoint("before-write")
        self._journal.guard()
        done = patching.send(self._cluster, change, record)
        self._failpoint("after-write")
        self._commit_or_undo([done])

    def _record(self, index: int, change: Patch, record: Record | None) -> Record:
        """Commit the undo. A record of an earlier attempt is kept while it still tells the truth."""
        self._failpoint("before-undo")
        if record is not None and record.state is State.RECORDED and patching.is_true(self._cluster, record):
            return record
        planned = patching.plan(self._cluster, index, change)
        self._journal.save(planned)
        return planned

    def _commit_or_undo(self, done: Sequence[Record]) -> None:
        """Mark steps as made. A worker that was overtaken while its writes were under way takes them back, unless
        the new holder has made the steps its own."""
        if not done:
            return
        try:
            self._journal.save(*done)
        except StaleEpoch:
            newest = {record.index: record for record in self._journal.records()}
            for record in reversed(done):
                found = newest.get(record.index)
                if found is None or found.state is State.REVERTED:
                    self._undo(record)
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


def _backwards(records: Sequence[Record]) -> list[Record]:
    """Return the steps in the order in which they are taken back.

    Nothing is made any more in a namespace that is being deleted. Without its quota and its policies, and not yet
    deleted, it would get at once what they have refused so far: a Deployment's 5,000 pods, say.
    """
    return sorted(records, key=lambda record: (not _makes_namespace(record), -record.index))


def _makes_namespace(record: Record) -> bool:
    return _is_creation(record) and (record.target.api_version, record.target.kind) == ("v1", "Namespace")


def _stuck(record: Record, exc: ClusterError) -> Stuck:
    if isinstance(exc, JournalError):
        return Stuck(exc.target, exc.message, exc.command)
    command = creating.command if _is_creation(record) else patching.command
    return Stuck(str(record.target), exc.message, command(record))


def _is_creation(record: Record) -> bool:
    return bool(record.undo["action"] == "delete")
