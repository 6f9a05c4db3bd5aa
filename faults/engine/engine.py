"""Applies changes and takes them back, so that dying anywhere in between can be mended by calling again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from faults.engine.actions import Action, Actions, Change
from faults.engine.model import KEPT, Record, State
from faults.engine.ports import ClusterPort, Journal, Neighbours, NoNeighbours
from faults.engine.stuck import Stuck
from faults.errors import ClusterError, JournalError, StaleEpoch

Report = Callable[[str], None]
_Step = tuple[int, Change, Record | None]
"""A step's index, its change, and its record of an earlier attempt."""


def no_failpoint(name: str) -> None:
    """The production failpoint: nothing happens at any of the named places.

    Tests hand in one that kills the process at ``before-undo``, ``before-write``, ``after-write``, and with
    ``revert-`` in front at ``before-write``, ``after-write``. ``before-status`` belongs to the services.
    """


class Engine:
    """Works on one cluster through one journal. ``apply`` and ``revert`` may be repeated at any time.

    It knows no kind of change: ``actions`` has one for each undo that a journal may hold.
    """

    def __init__(
        self,
        cluster: ClusterPort,
        journal: Journal,
        actions: Actions,
        *,
        neighbours: Neighbours | None = None,
        failpoint: Callable[[str], None] = no_failpoint,
    ) -> None:
        self._cluster = cluster
        self._journal = journal
        self._actions = actions
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
        blind: list[_Step] = []
        done: list[Record] = []
        for index, change in enumerate(changes[first:], first):
            record = known.get(index)
            if record is not None and record.state is State.APPLIED and not (mend and not self._holds(record)):
                continue
            if not self._actions[change.action].looks:
                blind.append((index, change, record))
                continue
            done = self._make(blind, report, done)
            blind = []
            done = self._make([(index, change, record)], report, done)
        self._commit_or_undo(self._make(blind, report, done))

    def revert(self, report: Report = lambda line: None, only: Callable[[Record], bool] | None = None) -> list[Stuck]:
        """Take every step back, namespaces first, then the last one first; return those that could not be.

        What was taken back before is looked at again, since the cluster may have come back from a snapshot. ``only``
        narrows it to some steps. An unreachable cluster raises instead: everything is worth another try. A copy of
        the journal that cannot be written keeps nothing from being taken back; it is reported once, as itself.
        """
        stuck: list[Stuck] = []
        records = {record.index: record for record in self._journal.records()}
        for index in self._backwards(records.values()):
            record = records[index]
            if (only is not None and not only(record)) or self._is_back(record):
                continue
            report(f"Taking back {record.target}")
            try:
                changed = self._take_back(record, records.values())
            except ClusterError as exc:
                if exc.retryable:
                    raise
                stuck.append(self._stuck(record, exc))
            else:
                records |= {record.index: record for record in changed}
        return list(dict.fromkeys(stuck))

    def leftovers(self) -> list[Record]:
        """Return the reverted steps whose effect is still in the cluster; proves what ``revert`` claims."""
        reverted = [record for record in self._journal.records() if record.state is State.REVERTED]
        return [record for record in reverted if record.outcome != KEPT and self._holds(record)]

    def _backwards(self, records: Iterable[Record]) -> list[int]:
        """Return the indexes of steps in the order in which they are taken back.

        Nothing is made any more in a namespace that is being deleted. Without its quota and its policies, and not yet
        deleted, it would get at once what they have refused so far: a Deployment's 5,000 pods, say.
        """
        ordered = sorted(records, key=lambda record: (not self._makes_namespace(record), -record.index))
        return [record.index for record in ordered]

    def _makes_namespace(self, record: Record) -> bool:
        is_namespace = (record.target.api_version, record.target.kind) == ("v1", "Namespace")
        return is_namespace and self._action(record).deletes

    def _make(self, steps: Sequence[_Step], report: Report, done: list[Record]) -> list[Record]:
        """Make changes in order; return those that are made and not yet marked so, which ``done`` is of earlier ones.

        Each commit is a write to the disk and to the cluster. So the undos of all are committed together, with the
        marks of what was made before. A change whose plan is a look at the cluster is alone in ``steps``.
        """
        try:
            records = [self._plan(*step) for step in steps]
            planned = [record for record, (_, _, old) in zip(records, steps, strict=True) if record is not old]
            if planned:
                marked, done = done, []
                self._commit_or_undo(marked, planned)
            for record, (_, change, _) in zip(records, steps, strict=True):
                action = self._actions[change.action]
                report(f"{action.verb} {change.target}")
                self._failpoint("before-write")
                self._journal.guard()
                done.append(action.apply(self._cluster, change, record))
                self._failpoint("after-write")
        except (ClusterError, StaleEpoch):
            self._commit_or_undo(done)
            raise
        return done

    def _plan(self, index: int, change: Change, record: Record | None) -> Record:
        """Return the undo; that of an earlier attempt is kept while it still tells the truth."""
        self._failpoint("before-undo")
        action = self._actions[change.action]
        if record is not None and record.state is State.RECORDED and action.is_true(self._cluster, record):
            return record
        return action.plan(self._cluster, index, change, self._neighbours)

    def _commit_or_undo(self, done: Sequence[Record], planned: Sequence[Record] = ()) -> None:
        """Mark steps as made, and commit the undos of the next. A worker that was overtaken while its writes were
        under way takes them back, unless the new holder has made the steps its own."""
        if not done and not planned:
            return
        try:
            self._journal.save(*done, *planned)
        except StaleEpoch:
            newest = {record.index: record for record in self._journal.records()}
            for record in reversed(done):
                found = newest.get(record.index)
                if found is None or found.state is State.REVERTED:
                    self._action(record).revert(self._cluster, record, self._neighbours)
            raise

    def _take_back(self, record: Record, others: Iterable[Record]) -> list[Record]:
        """Take a step back; return it, and the steps that follow an object to its new UID."""
        self._failpoint("revert-before-write")
        self._journal.guard()
        back = self._action(record).revert(self._cluster, record, self._neighbours)
        self._failpoint("revert-after-write")
        changed = [back]
        if record.uid and back.uid != record.uid:
            followed = [(other, self._followed(other, back, record.uid)) for other in others if other is not record]
            changed += [after for before, after in followed if after != before]
            self._neighbours.follow(back, record.uid)
        self._journal.save(*changed)
        return changed

    def _followed(self, other: Record, back: Record, old: str) -> Record:
        return self._action(other).follow(other, back.target, old, back.uid)

    def _is_back(self, record: Record) -> bool:
        return record.state is State.REVERTED and not self._holds(record)

    def _holds(self, record: Record) -> bool:
        return self._action(record).holds(self._cluster, record)

    def _action(self, record: Record) -> Action[Any]:
        return self._actions[record.undo["action"]]

    def _stuck(self, record: Record, exc: ClusterError) -> Stuck:
        if isinstance(exc, JournalError):
            return Stuck(exc.target, exc.message, exc.command)
        return Stuck(str(record.target), exc.message, self._action(record).command(self._cluster, record))
