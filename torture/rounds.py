"""``python -m torture.rounds``: whole interviews on an installation that is being broken, and what became of them.

Each round prepares, runs, ends and releases an interview of three faults: one of the catalogue, one that patches a
node and one that patches cluster-scoped objects (``torture.packs``). It must end reverted, dropped with its practice
cluster, or quarantined with a command that then helps; every note and rating that was taken must be there; and
kubectl's own listing of everything must be as before. In every fifth round on a lent cluster a finalizer holds an
object of the fault, so that it has to end in quarantine. The seed is printed and repeats the choices, though not the
machine's timing.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import UUID, uuid4

from kubesim import pools
from kubesim.gpu.nodes import node_name
from kubesim.hosting import STANDARD
from torture.disturbances import Disturber
from torture.dump import compare, dump
from torture.installation import Installation
from torture.places import BINARIES, Place, kubectl, places, until
from torture.postgres import Postgres, private_postgres, why_not

HEAL_AFTER_S = 12.0
HELD_SHARE = 0.2  # of the rounds on lent clusters: an object that was injected is held by a finalizer
FINALIZER = "torture.example.com/hold"


Versions = Callable[[Place, UUID], list[Any]]
"""(where, whose session) -> the versions of the packs for it."""


@dataclass
class Outcome:
    """Outcome of a round."""

    number: int
    place: str
    seconds: float = 0.0
    end: str = "?"
    told: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def line(self) -> str:
        """Return it as one line."""
        verdict = "WRONG " + "; ".join(self.wrong) if self.wrong else "ok"
        return (
            f"{self.number:>4} {self.place:<9}{self.seconds:6.1f} s  {self.end:<24} {', '.join(self.told)}: {verdict}"
        )


def patiently(act: Any) -> Any:
    """Return what ``act`` returns once the database has answered, as a person does who presses again."""
    found = until(lambda: [act()])
    assert found is not None, "the database did not answer"
    return found[0]


class Interview:
    """One round's interview, conducted through the services."""

    def __init__(
        self, owner: Any, versions: Versions, place: Place, disturber: Disturber, rng: random.Random
    ) -> None:
        from faults import services as fault_services
        from sessions import services
        from sessions.models import InterviewSession

        self.services, self.model, self.owner = services, InterviewSession, owner
        self.disturber, self.rng = disturber, rng
        self.notes: list[str] = []
        self.ratings: dict[tuple[int, str], int] = {}
        self.kubeconfig = place.kubeconfig
        self.held = place.kubeconfig is not None and rng.random() < HELD_SHARE
        self.wrong: list[str] = []
        self.proxy = place.proxy
        cluster = None
        if place.proxy is not None:
            name = f"lent-{rng.getrandbits(40):010x}"
            cluster = fault_services.lend_cluster(name=name, kubeconfig=place.proxy.kubeconfig)
        # A practice cluster is named by its session, and its nodes by the cluster; a pack names one of them.
        uuid = uuid4()
        packs = versions(place, uuid)
        with patch.object(InterviewSession._meta.get_field("uuid"), "_get_default", lambda: uuid):
            self.session = services.create_session(
                owner=owner, candidate_name="Nobody", scenario_versions=packs, minutes=60, cluster=cluster
            )

    def now(self) -> Any:
        """Return the session as it is."""
        return patiently(lambda: self.model.objects.get(pk=self.session.pk))

    def play(self) -> str:
        """Go through the interview; return how it ended."""
        self.disturber.disturb()
        patiently(lambda: self.services.prepare(session=self.session, actor=self.owner))
        self._heal_in_time(lambda: self.now().state == "ready")
        if self.now().state != "ready":
            self.held = False
            phases = self.session.phases.exclude(status="done").values_list("key", "status", "error", "detail")
            self.wrong.append(f"never ready: {list(phases)[:3]}")
        else:
            self.disturber.disturb()
            patiently(lambda: self.services.start(session=self.now(), actor=self.owner))
            self._work()
            if self.held:
                self._hold()
        self.disturber.disturb()
        patiently(lambda: self.services.end(session=self.now(), actor=self.owner))
        patiently(lambda: self.services.release(session=self.now(), actor=self.owner))
        self._heal_in_time(lambda: self.now().released_at)
        self.disturber.heal()
        return self._end()

    def _work(self) -> None:
        for number in range(3):
            text = f"note {number} of {self.session.pk}"
            patiently(lambda text=text: self.services.add_note(session=self.now(), text=text, actor=self.owner))
            self.notes.append(text)
            patiently(self._rate)
            time.sleep(self.rng.uniform(0.1, 0.8))

    def _rate(self) -> None:
        """Save a rating of any criterion, on the version that is stored now, as the page does after a conflict."""
        from sessions import selectors
        from sessions.models import Rating

        scenario = self.rng.choice(list(self.session.scenarios.all()))
        criterion = self.rng.choice(selectors.pack_for(scenario).rubric).key
        stored = Rating.objects.filter(scenario=scenario, criterion=criterion).first()
        level, version = self.rng.randint(1, 4), stored.version if stored else 0
        self.services.save_rating(
            scenario=scenario, criterion=criterion, level=level, version=version, actor=self.owner
        )
        self.ratings[scenario.pk, criterion] = level

    def _hold(self) -> None:
        """Put a finalizer that nobody serves on a fault's object: the revert takes it off when the deletion hangs."""
        from faults.models import Step

        assert self.kubeconfig is not None
        runs = self.session.scenarios.values_list("run_id", flat=True)
        step = Step.objects.filter(run_id__in=list(runs), kind="manifest").first()
        assert step is not None, "a pack of the catalogue creates objects"
        patch = json.dumps({"metadata": {"finalizers": [FINALIZER]}})
        name = f"{step.target['kind']}/{step.target['name']}"
        kubectl(self.kubeconfig, "patch", name, "-n", step.target["namespace"], "--type=merge", "-p", patch)
        self.disturber.told.append(f"finalizer on {name}")

    def _heal_in_time(self, done: Any) -> None:
        if not until(done, HEAL_AFTER_S):
            self.disturber.heal()
            until(lambda: done() or self._quarantined())

    def _quarantined(self) -> list[Any]:
        from faults.models import FaultRun

        session = self.now()
        ids = [*session.scenarios.values_list("run_id", flat=True), session.environment_id]
        return list(FaultRun.objects.filter(pk__in=[pk for pk in ids if pk], status="quarantined"))

    def _end(self) -> str:
        """Return how it ended, after having run the commands of what was quarantined."""
        quarantined = until(lambda: self.now().released_at and ["-"] or self._quarantined()) or []
        if quarantined and quarantined != ["-"]:
            return self._help(quarantined)
        session = self.now()
        return session.release_outcome if session.released_at else "unfinished"

    def _help(self, quarantined: list[Any]) -> str:
        """Run the commands that were printed, as a person does, and see that the rest then happens by itself."""
        commands = [run.manual_command for run in quarantined]
        if not all(commands):
            self.wrong.append("quarantined without a command")
        if self.kubeconfig is None:
            self.wrong.append(f"quarantined on a practice cluster: {commands}")
            return "quarantined"
        for command in "\n".join(commands).splitlines():
            self._run_command(command)
        if until(lambda: self.now().released_at) is None:
            self.wrong.append(f"still quarantined after its command: {commands}")
            return "quarantined"
        return "quarantined, then helped"

    def _run_command(self, command: str) -> None:
        done = subprocess.run(
            ["bash", "-c", command],
            env={**os.environ, "KUBECONFIG": str(self.kubeconfig)},
            capture_output=True,
            text=True,
            timeout=60,
        )
        if done.returncode and "NotFound" not in done.stderr:
            self.wrong.append(f"{command!r} fails: {done.stderr.strip()[:200]}")


def play(number: int, place: Place, installation: Installation, versions: Versions, owner: Any, seed: int) -> Outcome:
    """Play one round."""
    rng = random.Random(f"{seed}:{number}")
    outcome, began = Outcome(number, place.name), time.monotonic()
    before = dump(place.kubeconfig) if place.kubeconfig else {}
    disturber = Disturber(installation, place.proxy, rng)
    interview = Interview(owner, versions, place, disturber, rng)
    try:
        outcome.end = interview.play()
    finally:
        disturber.heal()
    outcome.told, outcome.seconds = disturber.told, time.monotonic() - began
    outcome.wrong = list(wrong_with(interview, outcome, place, before))
    return outcome


def wrong_with(interview: Interview, outcome: Outcome, place: Place, before: dict[str, str]) -> Iterator[str]:
    from faults import practice
    from sessions import events

    session = interview.now()
    yield from interview.wrong
    if outcome.end == "unfinished":
        phases = session.phases.exclude(status="done").values_list("key", "status", "error", "detail")
        yield f"not released: {list(phases)}"
    if interview.held and outcome.end == "reverted":
        yield "an object that a finalizer holds was called reverted"
    if session.residue:
        yield f"residue {session.residue}"
    kept = set(session.notes.values_list("text", flat=True))
    yield from (f"lost: {note}" for note in interview.notes if note not in kept)
    stored = {(rating.scenario_id, rating.criterion): rating.level for rating in _ratings(session)}
    yield from (f"lost: rating {key}" for key, level in interview.ratings.items() if stored.get(key) != level)
    if broken := events.verify_chain(session):
        yield f"the time line is broken at {broken}"
    if place.kubeconfig is None:
        name = session.cluster.name if session.cluster else ""
        if name and outcome.end != "unfinished" and until(lambda: practice.exists(name) is False, 20) is None:
            yield f"the cluster {name} is still there"
    elif outcome.end in ("reverted", "quarantined, then helped"):
        until(lambda: not compare(before, dump(place.kubeconfig)), 15)
        yield from compare(before, dump(place.kubeconfig))


def _ratings(session: Any) -> list[Any]:
    from sessions.models import Rating

    return list(Rating.objects.filter(assessment__session=session))


def _node(place: Place, uuid: UUID) -> str:
    if place.kubeconfig is None:
        return _practice_node(uuid)
    answer = subprocess.run(
        ["kubectl", "--kubeconfig", str(place.kubeconfig), "get", "nodes", "-o", "name"],
        check=True,
        capture_output=True,
        text=True,
    )
    return answer.stdout.split()[0].removeprefix("node/")


def _practice_node(uuid: UUID) -> str:
    """Return the name of the first node of a session's practice cluster."""
    pool = pools.practice(STANDARD["nodes"], STANDARD["gpus"], "H100")[0]
    return node_name(pool.machine, 0, f"gpu-{uuid.hex[:12]}")


@contextmanager
def database(kind: str) -> Iterator[Postgres | None]:
    """Yield a PostgreSQL where one is asked for; None for SQLite."""
    if kind != "postgres":
        yield None
        return
    with private_postgres() as server:
        yield server


def run(count: int, seed: int, names: list[str], seconds: float, first: int, kind: str, tables: Path | None) -> int:
    """Play so many rounds, or as many as so many seconds allow; print a line for each and a summary."""
    print(f"seed {seed}", flush=True)
    outcomes: list[Outcome] = []
    with (
        tempfile.TemporaryDirectory(prefix="fl-crash-") as name,
        database(kind) as server,
        Installation(Path(name), is_breakable=True, database=server, tables=tables) as installation,
    ):
        versions, owner = _set_up(installation)
        with places(Path(name), random.Random(seed), names) as found:
            began = time.monotonic()
            for number in range(first, first + count):
                if time.monotonic() - began > seconds:
                    break
                place = found[number % len(found)]
                outcomes.append(play(number, place, installation, versions, owner, seed))
                print(outcomes[-1].line(), flush=True)
                assert installation.is_up, installation.log.read_text()[-3000:]
        if any(outcome.wrong for outcome in outcomes):
            print(installation.log.read_text()[-6000:])
    ends = Counter((outcome.place, outcome.end) for outcome in outcomes)
    wrong = sum(bool(outcome.wrong) for outcome in outcomes)
    print(
        f"{len(outcomes)} rounds, {wrong} wrong; "
        + ", ".join(f"{place} {end}: {n}" for (place, end), n in ends.items())
    )
    return 1 if wrong else 0


def _set_up(installation: Installation) -> tuple[Versions, Any]:
    """Set Django up on the installation's folder; return what gives a place's packs, and an owner."""
    os.environ.update(installation.variables)
    os.environ["DJANGO_SETTINGS_MODULE"] = "interview_site.settings"
    import django

    django.setup()
    from django.contrib.auth.models import User

    from faults.models import ScenarioVersion
    from faults.services import seed_catalog
    from torture import packs

    owner = User.objects.create(username="torture")

    def versions(place: Place, uuid: UUID) -> list[Any]:
        with tempfile.TemporaryDirectory() as folder:
            packs.write(Path(folder), _node(place, uuid), clash=False)
            own = seed_catalog(folder=Path(folder))
        return [ScenarioVersion.objects.get(scenario__slug="architecture-mismatch"), *own]

    return versions, owner


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no round after so many")
    parser.add_argument("--first", type=int, default=1, help="number of the first round, to repeat one of a seed")
    parser.add_argument("--places", default="practice,lent,real")
    parser.add_argument("--database", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--tables", type=Path, help="a SQLite database to begin with a copy of, migrated already")
    options = parser.parse_args()
    if options.database == "postgres" and (why := why_not()):
        print(f"skipped: rounds on PostgreSQL ({why})")
        return 0
    names = options.places.split(",")
    if "real" in names and not (BINARIES / "kube-apiserver").exists():
        print(f"skipped: rounds on a real control plane (none in {BINARIES}; run: make testcluster)")
        names.remove("real")
    played = (options.rounds, options.seed, names, options.seconds, options.first)
    return run(*played, options.database, options.tables)


if __name__ == "__main__":
    sys.exit(main())
