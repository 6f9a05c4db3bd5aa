"""Applies: the changes of a plan, in an order in which each finds what it needs."""

from __future__ import annotations

import time
from collections.abc import Callable

from kubesim.terraform.changes import Change, attempt, ignored
from kubesim.terraform.decode import Value, ignoring, planned
from kubesim.terraform.diagnostics import Failure, Problem
from kubesim.terraform.graph import check
from kubesim.terraform.host import HALTED
from kubesim.terraform.plan import Planner
from kubesim.terraform.schema import ResourceType, conformed, resource_type, settled
from kubesim.terraform.state import Held

Step = tuple[str, str]
"""What is done ("apply" or "delete"), and with which instance."""
WORDS = {
    "create": ("Creating", "Creation complete", "added"),
    "update": ("Modifying", "Modifications complete", "changed"),
    "delete": ("Destroying", "Destruction complete", "destroyed"), "read": ("Reading", "Read complete", "read"),
}  # fmt: skip


class Applier:
    """Does what a planner has planned; ``keep`` is called after each step, with the state as it is then."""

    def __init__(
        self, planner: Planner, say: Callable[[str], None], keep: Callable[[], None], halted: Callable[[], bool]
    ) -> None:
        self.planner, self.say, self.keep, self.halted = planner, say, keep, halted
        self.counts = {"added": 0, "changed": 0, "destroyed": 0, "read": 0}
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
        steps: dict[Step, set[Step]] = {}
        by_generic: dict[str, list[Change]] = {}
        for each in self.planner.changes.values():
            by_generic.setdefault(each.held.generic, []).append(each)

        def needed(held: Held) -> list[Change]:
            return [each for need in held.dependencies for each in by_generic.get(need, ())]

        for address, each in self.planner.changes.items():
            if each.action in ("delete", "replace"):
                steps["delete", address] = set()
            if each.action != "delete":
                needs = needed(each.held)
                steps["apply", address] = {("apply", other.address) for other in needs if other.action != "delete"}
            if each.action == "replace":
                first, second = (("delete", address), ("apply", address))[:: -1 if each.first_new else 1]
                steps[second].add(first)
        for address, held in self.planner.prior.instances.items():
            for other in needed(held):
                gone = ("delete", other.address)
                if gone not in steps:
                    continue
                if ("delete", address) in steps:
                    steps[gone].add(("delete", address))
                last = other.action == "delete" or (other.first_new and other.address != address)
                if ("apply", address) in steps and last:
                    steps[gone].add(("apply", address))
        return _sorted(steps)

    def _step(self, what: str, change: Change) -> None:
        action = what if what == "delete" else "create" if change.action == "replace" else change.action
        held, before = change.held, change.before or {}
        kind = resource_type(held.mode, held.type)
        assert kind is not None
        if action == "no-op":
            self.planner.settle(change, change.after)
            return
        doing, done, count = WORDS[action]
        wanted = {} if action == "delete" else self._wanted(change, kind, fresh=action != "update")
        old = f" [id={before.get('id')}]" if action in ("update", "delete") else ""
        self.say(f"\x1b[0m\x1b[1m{held.address}: {doing}...{old}\x1b[0m\x1b[0m")
        began = time.monotonic()
        if action == "delete":
            self._delete(change, kind)
        else:
            self.planner.settle(change, self._made(action, change, kind, wanted))
        self.counts[count] += 1
        end = f" [id={held.attributes.get('id')}]" if action != "delete" else ""
        self.say(f"\x1b[0m\x1b[1m{held.address}: {done} after {int(time.monotonic() - began)}s{end}\x1b[0m")
        if action == "read" and change.item is not None and change.module is not None:
            scope = change.module.scope(change.item)
            check(change.item.conditions, scope, "Resource postcondition failed", "postcondition")

    def _wanted(self, change: Change, kind: ResourceType, *, fresh: bool) -> Value:
        """Return what is wanted, now that more is known."""
        held, item, module = change.held, change.item, change.module
        assert item is not None
        assert module is not None
        bound = module.expanded(item, (held.mode, held.type, held.name), "")[held.key]
        config = self.planner.configured(kind, module, item, bound)
        prior = None if fresh else change.before
        if prior is not None:
            config = ignoring(config, prior, ignored(item))
        return self.planner.provider(held).complete(kind, planned(kind.schema, config, prior), prior)

    def _made(self, action: str, change: Change, kind: ResourceType, wanted: Value) -> Value:
        """Read, create or change an instance and return what it is then."""
        held, provider = change.held, self.planner.provider(change.held)
        if action == "read":
            return conformed(kind.schema, attempt(provider.read, held, kind, wanted))
        if action == "create":
            found = attempt(provider.create, held, kind, wanted)
            held.private = provider.private(kind)
        else:
            found = attempt(provider.update, held, kind, change.before, wanted)
        value: Value = settled(kind.schema, wanted, conformed(kind.schema, found))
        return value

    def _delete(self, change: Change, kind: ResourceType) -> None:
        attempt(self.planner.provider(change.held).delete, change.held, kind, change.before)
        if change.action == "delete":
            self.planner.settle(change, None)
        elif not change.first_new:
            self.planner.state.instances.pop(change.address, None)


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
