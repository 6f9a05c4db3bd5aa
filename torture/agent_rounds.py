"""``python -m torture.agent_rounds``: interviews whose faults are those of nodes, broken around the agent's calls.

Each round prepares, runs, ends and releases an interview with an Xid and other faults of one node. While they are
injected, and while they are taken back, the API proxy holds one request of a chosen moment: somebody is killed or
stopped just then, and the request arrives late or never. In every eighth round everything of ours is killed, the
database is taken away, and the time is taken until the agent has ended the faults by itself. The round must end
reverted, or quarantined with a command that then helps; and kubectl's listing, the nodes' allocatable, conditions,
labels and taints, and the faults that other agents know must be as before.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from faults.session_agents import PRACTICE_IMAGE
from torture.agent_deeds import DEEDS, AgentDisturber
from torture.dump import compare, dump
from torture.held_calls import INJECTING, REVERTING, Moment
from torture.installation import Installation
from torture.node_picture import Probe, node_picture, probe
from torture.places import BINARIES, Place, kubectl, places, until
from torture.rounds import Interview, Outcome, patiently, wrong_with

GPUS = 8
DEAD_MAN_EVERY, REFUSED_EVERY = 8, 6
DEADLINE_S = 25.0
"""From the death of everything to the end of the faults."""
MAX_LATE_S = 20.0
XIDS = (79, 48, 95)
OTHERS: tuple[dict[str, Any], ...] = (
    {"kind": "driver", "part": "toolkit"},
    {"kind": "service", "service": "nvidia-fabricmanager"},
    {"kind": "pressure", "resource": "memory", "amount": "1Gi"},
    {"kind": "xid", "xid": 43, "gpu": 6},
)


@dataclass(frozen=True, slots=True)
class Plan:
    """One round: what happens at which moment of injecting and of reverting."""

    steps: tuple[dict[str, Any], ...]
    injecting: tuple[Moment, str]
    reverting: tuple[Moment, str]
    is_dead_man: bool = False
    is_refused: bool = False

    @property
    def gpus(self) -> int:
        """The GPUs that the node then has to give."""
        return GPUS - 1


def plan(number: int, seed: int) -> Plan:
    """Return the plan of a round. Every moment comes with every deed in turn, in an order that the seed draws."""
    rng = random.Random(f"{seed}:{number}")
    first = _pairs(INJECTING, seed)
    second = _pairs(REVERTING, seed + 1)
    steps = [{"kind": "xid", "xid": rng.choice(XIDS), "gpu": rng.randrange(4)}, *rng.sample(OTHERS, rng.randrange(3))]
    return Plan(
        tuple(steps),
        first[number % len(first)],
        second[number % len(second)],
        is_dead_man=number % DEAD_MAN_EVERY == 0,
        is_refused=number % REFUSED_EVERY == 1,
    )


def _pairs(moments: Sequence[Moment], seed: int) -> list[tuple[Moment, str]]:
    """Return pairs in which every moment, and every deed, comes early."""
    rng = random.Random(seed)
    deeds, shuffled = rng.sample(list(DEEDS), len(DEEDS)), rng.sample(list(moments), len(moments))
    turns = range(len(deeds) * len(shuffled))
    return [(shuffled[turn % len(shuffled)], deeds[(turn + turn // len(shuffled)) % len(deeds)]) for turn in turns]


class AgentInterview(Interview):
    """One round's interview."""

    disturber: AgentDisturber

    def play_plan(self, chosen: Plan, installation: Installation, looks: Probe) -> str:
        """Go through the interview; return how it ended."""
        if not chosen.is_dead_man:  # a node that boots would take the faults along
            self.disturber.arm(*chosen.injecting)
        patiently(lambda: self.services.prepare(session=self.session, actor=self.owner))
        self._heal_in_time(lambda: self.now().state == "ready")
        self.disturber.heal()
        if self.now().state == "ready":
            patiently(lambda: self.services.start(session=self.now(), actor=self.owner))
            self._work()
            if chosen.is_dead_man:
                self._die(installation, looks)
        else:
            self.disturber.told.append("never ready")
        if chosen.is_refused:
            self.disturber.refuse()
        else:
            self.disturber.arm(*chosen.reverting)
        patiently(lambda: self.services.end(session=self.now(), actor=self.owner))
        patiently(lambda: self.services.release(session=self.now(), actor=self.owner))
        until(lambda: self.now().released_at or self._quarantined())
        return self._end()

    def _help(self, quarantined: list[Any]) -> str:
        """Run the commands directly; the agent refuses nobody from then on."""
        told = super()._help(quarantined)
        self.disturber.heal()
        return told

    def _die(self, installation: Installation, looks: Probe) -> None:
        """Let the deadline come near, kill everything, and measure when the node's faults end by themselves."""
        from django.db import connection

        from faults import clock
        from faults.models import FaultRun

        runs = list(self.session.scenarios.values_list("run_id", flat=True))
        before = [FaultRun.objects.get(pk=pk).mirrored_deadline for pk in runs]
        deadline = clock.now() + timedelta(seconds=DEADLINE_S)
        patiently(lambda: FaultRun.objects.filter(pk__in=runs).update(deadline=deadline))
        told = until(lambda: [FaultRun.objects.get(pk=pk).mirrored_deadline for pk in runs] != before, DEADLINE_S - 5)
        assert told, "the agents were not told of the deadline"
        connection.close()
        installation.crash()
        there = looks.faults()
        gone = until(lambda: clock.now() > deadline - timedelta(seconds=1) and looks.faults() == [], 90)
        late = (clock.now() - deadline).total_seconds()
        self.disturber.told.append(
            f"everything dead with {len(there)} faults, which ended {late:+.1f} s after it was due"
        )
        if gone is None or late > MAX_LATE_S or not there:
            self.wrong.append(f"dead man's switch: {there} at {late:+.1f} s: {looks.faults()}")
        installation.start_again()


def play(
    number: int, place: Place, installation: Installation, looks: Probe, owner: Any, seed: int, folder: Path
) -> Outcome:
    """Play one round."""
    assert place.kubeconfig is not None
    rng, chosen, node = random.Random(f"{seed}:{number}"), plan(number, seed), _node(place)
    outcome, began = Outcome(number, place.name), time.monotonic()
    before, nodes = dump(place.kubeconfig), node_picture(place.kubeconfig)
    disturber = AgentDisturber(installation, place, looks, node, rng, folder)
    packs = _packs(number, node, chosen)
    interview = AgentInterview(owner, lambda place, uuid: packs, place, disturber, rng)
    interview.held = False  # a finalizer is what the other rounds have
    try:
        outcome.end = interview.play_plan(chosen, installation, looks)
    finally:
        disturber.heal()
        disturber.close()
    outcome.told, outcome.seconds = disturber.told, time.monotonic() - began
    outcome.wrong = [*wrong_with(interview, outcome, place, before), *_left(place.kubeconfig, nodes, looks)]
    return outcome


def _left(kubeconfig: Path, before: dict[str, str], looks: Probe) -> Iterator[str]:
    """Yield what is left on the nodes: one that boots is waited for."""
    until(lambda: node_picture(kubeconfig) == before and looks.faults() == [], 120)
    yield from compare(before, node_picture(kubeconfig))
    yield from (f"fault left: {fault}" for fault in looks.faults())


def _packs(number: int, node: str, chosen: Plan) -> list[Any]:
    from faults.services import seed_catalog
    from torture import packs

    with tempfile.TemporaryDirectory() as folder:
        packs.write_node_faults(Path(folder), f"node-breaks-{number}", node, list(chosen.steps), gpus=chosen.gpus)
        return list(seed_catalog(folder=Path(folder)))


def _node(place: Place) -> str:
    assert place.kubeconfig is not None
    return kubectl(place.kubeconfig, "get", "nodes", "-o", "name").split()[0].removeprefix("node/")


def run(count: int, seed: int, names: list[str], seconds: float, first: int) -> int:
    """Play so many rounds, or as many as so many seconds allow; print a line for each and a summary."""
    print(f"seed {seed}", flush=True)
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory(prefix="fl-agents-") as name:
        installation = Installation(Path(name))
        installation.variables["NODE_AGENT_IMAGE"] = PRACTICE_IMAGE
        with installation, ExitStack() as stack:
            owner = _set_up(installation)
            found = stack.enter_context(places(Path(name), random.Random(seed), names))
            probes = [stack.enter_context(probe(place)) for place in found]
            began = time.monotonic()
            for number in range(first, first + count):
                if time.monotonic() - began > seconds:
                    break
                turn = number % len(found)
                outcomes.append(play(number, found[turn], installation, probes[turn], owner, seed, Path(name)))
                print(outcomes[-1].line(), flush=True)
            if any(outcome.wrong for outcome in outcomes):
                print(installation.log.read_text()[-6000:])
    ends = Counter((outcome.place, outcome.end) for outcome in outcomes)
    wrong = sum(bool(outcome.wrong) for outcome in outcomes)
    told = ", ".join(f"{place} {end}: {n}" for (place, end), n in ends.items())
    print(f"{len(outcomes)} rounds, {wrong} wrong; {told}")
    return 1 if wrong else 0


def _set_up(installation: Installation) -> Any:
    """Set Django up on the installation's folder; return an owner of sessions."""
    os.environ.update(installation.variables)
    os.environ["DJANGO_SETTINGS_MODULE"] = "interview_site.settings"
    import django

    django.setup()
    from django.contrib.auth.models import User

    return User.objects.create(username="torture")


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no round after so many")
    parser.add_argument("--first", type=int, default=1, help="number of the first round, to repeat one of a seed")
    parser.add_argument("--places", default="lent,real")
    options = parser.parse_args()
    names = options.places.split(",")
    if "real" in names and not (BINARIES / "kube-apiserver").exists():
        print(f"skipped: rounds on a real control plane (none in {BINARIES}; run: make testcluster)")
        names.remove("real")
    return run(options.rounds, options.seed, names, options.seconds, options.first)


if __name__ == "__main__":
    sys.exit(main())
