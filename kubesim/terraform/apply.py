"""Applies: the changes of a plan, in an order in which each finds what it needs."""

from __future__ import annotations

import time
from collections.abc import Callable

from kubesim.terraform.changes import Change, attempt, ignored
from kubesim.terraform.decode import ignoring, planned
from kubesim.terraform.diagnostics import Failure, Problem
from kubesim.terraform.graph import check
from kubesim.terraform.host import HALTED
from kubesim.terraform.plan import Planner
from kubesim.terraform.schema import conformed, resource_type, settled

Step = tuple[str, str]
"""What is done ("apply" or "delete"), and with which instance."""


class Applier:
    """Does what a planner has planned; ``keep`` is called after each step, with the state as it is then."""

    def __init__(
        self, planner: Planner, say: Callable[[str], None], keep: Callable[[], None], halted: Callable[[], bool]
    ) -> None:
        self.planner, self.say, self.keep, self.halted = planner, say, keep, halted
        self.counts = {"imported": 0, "added": 0, "changed": 0, "destroyed": 0}
        self.problems: list[Problem] = []
        self._failed: set[str] = set()

    def run(self) -> None:
        """Do everything; what depends on a step that failed is left out."""
        for held, value in self.planner.drift.values():
            if value is None and held.address not in self.planner.changes:
                self.planner.state.instances.pop(held.address, None)
        for what, address in self._order():
            if self.halted():
                self.problems.append(Problem(HALTED))
                return
            change = self.planner.changes[address]
            if {*change.held.dependencies} & self._failed and what == "apply":
                self._failed.add(change.held.generic)
                continue
            try:
                self._step(what, change)
            except Failure as failed:
                self.problems += failed.problems
                self._failed.add(change.held.generic)
            self.keep()

    def _order(self) -> list[Step]:
        changes = {address: each for address, each in self.planner.changes.items() if each.action not in ("forget",)}
        steps: dict[Step, set[Step]] = {}
        by_generic: dict[str, list[Change]] = {}
        for each in changes.values():
            by_generic.setdefault(each.held.generic, []).append(each)
        old = {address: {*held.dependencies} for address, held in self.planner.prior.instances.items()}
        for address, each in changes.items():
            if each.action in ("delete", "replace"):
                steps[("delete", address)] = set()
            if each.action != "delete":
                steps[("apply", address)] = {
                    ("apply", other.address)
                    for need in each.held.dependencies
                    for other in by_generic.get(need, ())
                    if other.action != "delete"
                }
            if each.action == "replace":
                first, second = (("delete", address), ("apply", address))[:: -1 if each.first_new else 1]
                steps[second].add(first)
        for address, needs in old.items():
            for other in (
                other for need in needs for other in by_generic.get(need, ()) if ("delete", other.address) in steps
            ):
                for what in ("delete", "apply"):
                    if (what, address) in steps and (
                        what == "delete" or other.action == "delete" or (other.first_new and other.address != address)
                    ):
                        steps[("delete", other.address)].add((what, address))
        return _sorted(steps)

    def _step(self, what: str, change: Change) -> None:
        if what == "delete":
            self._delete(change)
        elif change.action in ("create", "replace"):
            self._create(change)
        elif change.action == "update":
            self._update(change)
        elif change.action == "read":
            self._read(change)
        else:
            if change.importing:
                self._tell(change, "Import complete", f" [id={change.importing}]", began=None)
                self.counts["imported"] += 1
            self.planner.settle(change, change.after)

    def _wanted(self, change: Change, *, fresh: bool) -> dict[str, object]:
        """Return what is wanted, now that more is known."""
        kind, held = resource_type(change.held.mode, change.held.type), change.held
        assert kind is not None
        assert change.item is not None
        assert change.module is not None
        config = self.planner.configured(
            kind,
            change.module,
            change.item,
            change.module.expanded(change.item, (held.mode, held.type, held.name), "")[held.key],
        )
        prior = None if fresh else change.before
        if prior is not None:
            config = ignoring(config, prior, ignored(change.item))
        return self.planner.provider(held).complete(kind, planned(kind.schema, config, prior), prior)

    def _create(self, change: Change) -> None:
        kind, held = resource_type(change.held.mode, change.held.type), change.held
        assert kind is not None
        wanted = self._wanted(change, fresh=True)
        self.say(f"\x1b[0m\x1b[1m{held.address}: Creating...\x1b[0m\x1b[0m")
        began, provider = time.monotonic(), self.planner.provider(held)
        value = settled(kind.schema, wanted, conformed(kind.schema, attempt(provider.create, held, kind, wanted)))
        held.private = provider.private(kind)
        self.planner.settle(change, value)
        self.counts["added"] += 1
        self._tell(change, "Creation complete", f" [id={value.get('id')}]", began)

    def _update(self, change: Change) -> None:
        kind, held = resource_type(change.held.mode, change.held.type), change.held
        assert kind is not None
        assert change.before is not None
        wanted = self._wanted(change, fresh=False)
        if change.importing:
            self.counts["imported"] += 1
        self.say(f"\x1b[0m\x1b[1m{held.address}: Modifying... [id={change.before.get('id')}]\x1b[0m\x1b[0m")
        began = time.monotonic()
        value = settled(
            kind.schema,
            wanted,
            conformed(kind.schema, attempt(self.planner.provider(held).update, held, kind, change.before, wanted)),
        )
        self.planner.settle(change, value)
        self.counts["changed"] += 1
        self._tell(change, "Modifications complete", f" [id={value.get('id')}]", began)

    def _delete(self, change: Change) -> None:
        kind, held = resource_type(change.held.mode, change.held.type), change.held
        assert kind is not None
        assert change.before is not None
        self.say(f"\x1b[0m\x1b[1m{held.address}: Destroying... [id={change.before.get('id')}]\x1b[0m\x1b[0m")
        began = time.monotonic()
        attempt(self.planner.provider(held).delete, held, kind, change.before)
        if change.action == "delete":
            self.planner.settle(change, None)
        elif not change.first_new:
            self.planner.state.instances.pop(held.address, None)
        self.counts["destroyed"] += 1
        self._tell(change, "Destruction complete", "", began)

    def _read(self, change: Change) -> None:
        kind, held = resource_type(change.held.mode, change.held.type), change.held
        assert kind is not None
        self.say(f"\x1b[0m\x1b[1m{held.address}: Reading...\x1b[0m\x1b[0m")
        began = time.monotonic()
        wanted = self._wanted(change, fresh=True)
        value = attempt(self.planner.provider(held).read, held, kind, wanted)
        self.planner.settle(change, conformed(kind.schema, value))
        self._tell(change, "Read complete", f" [id={change.held.attributes.get('id')}]", began)
        if change.item is not None and change.module is not None:
            check(
                change.item.conditions,
                change.module.scope(change.item),
                "Resource postcondition failed",
                "postcondition",
            )

    def _tell(self, change: Change, what: str, end: str, began: float | None) -> None:
        after = "" if began is None else f" after {int(time.monotonic() - began)}s"
        self.say(f"\x1b[0m\x1b[1m{change.address}: {what}{after}{end}\x1b[0m")


def _sorted(steps: dict[Step, set[Step]]) -> list[Step]:
    """Return the steps so that each comes after those that it waits for."""
    done: dict[Step, None] = {}

    def visit(step: Step, way: frozenset[Step]) -> None:
        if step in done or step in way or step not in steps:
            return
        for other in sorted(steps[step]):
            visit(other, way | {step})
        done[step] = None

    for step in steps:
        visit(step, frozenset())
    return [*done]
