"""One rehearsal against the running installation: every step goes the way that people's steps go."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from time import monotonic
from typing import Any
from uuid import UUID, uuid4

from django.contrib.auth.models import User
from django.db.models import QuerySet

from faults import selectors as fault_selectors
from faults import services as fault_services
from faults.clock import RealClock
from faults.errors import ClusterError, FaultError
from faults.models import Cluster, FaultRun, ScenarioVersion
from faults.packs import Pack, Solution
from sessions import events, selectors, services
from sessions.candidate_rights import rights_of
from sessions.errors import SessionError
from sessions.models import Assessment, InterviewSession, PreparationPhase, SessionScenario
from sessions.scorecards.as_json import as_json
from sessions.scorecards.as_pdf import as_pdf
from sessions.scorecards.build import build_scorecard, file_name
from sessions.variants import variant_seed

REHEARSER = "rehearsal"
MINUTES = 30
LINE_DURATIONS = ("symptom_s", "fixed_s", "reverted_s")
PREPARE_SECONDS = 120.0
FIX_SECONDS = 180.0
END_SECONDS = 10.0
RELEASE_SECONDS = 120.0
POLL_SECONDS = 0.05

Print = Callable[[str], None]


class RehearsalError(Exception):
    """A step did not come out as it must; the message is for people."""


@dataclass
class Report:
    """Findings of a rehearsal. Durations are in seconds."""

    scenario: str
    solution: str
    variant: int = 0
    ok: bool = False
    error: str = ""
    residue: list[Any] | None = None
    rights: list[str] = field(default_factory=list)
    run_by_hand: list[str] = field(default_factory=list)
    scorecard: dict[str, str] = field(default_factory=dict)
    durations: dict[str, float] = field(default_factory=dict)
    steps: list[dict[str, Any]] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Return one flat object for ``--json``."""
        return {
            "ok": self.ok,
            "error": self.error,
            "scenario": self.scenario,
            "variant": self.variant,
            "solution": self.solution,
            "residue": self.residue,
            "rights": self.rights,
            "run_by_hand": self.run_by_hand,
            "scorecard": self.scorecard,
            **self.durations,
            "steps": self.steps,
        }

    def as_line(self) -> dict[str, Any]:
        """Return what is told of one of many."""
        told = {name: self.durations.get(name) for name in LINE_DURATIONS}
        why = {"error": self.error} if self.error else {}
        return {
            "slug": self.scenario,
            "variant": self.variant,
            "ok": self.ok,
            **told,
            "residue": self.residue,
            **why,
        }


def rehearser() -> User:
    """Return the account that owns rehearsals, with which nobody can sign in."""
    owner, created = User.objects.get_or_create(username=REHEARSER, defaults={"is_active": False})
    if created:
        owner.set_unusable_password()
        owner.save(update_fields=["password"])
    return owner


class Rehearsal:
    """Runs the steps in order, timing each."""

    def __init__(
        self,
        version: ScenarioVersion,
        solution: Solution,
        output: Path,
        say: Print,
        interrupted: Callable[[], bool] = lambda: False,
        kubeconfig: str = "",
        variant: int = 0,
    ) -> None:
        """``kubeconfig``: the text of one within the allow-list; without it, a practice cluster is made.

        ``variant`` counts from 1; 0 leaves it to the session, as for people.
        """
        self.variant = variant
        self.kubeconfig = kubeconfig
        self.version, self.solution, self.output, self.say = version, solution, output, say
        self.interrupted = interrupted
        self.report = Report(version.scenario.slug, solution.key)
        self.clock = RealClock()
        self.session: InterviewSession | None = None

    def run(self) -> Report:
        """Return the report. Whatever fails, the session is ended and its cluster let go."""
        try:
            self._walk()
        except (RehearsalError, SessionError, ClusterError, FaultError) as exc:
            self.report.error = str(exc)
        finally:
            self._clean_up()
            self.report.run_by_hand = self._commands()
        self.report.ok = not self.report.error and self.report.residue == []
        return self.report

    def _walk(self) -> None:
        steps: list[tuple[str, Callable[[InterviewSession], None]]] = [
            ("prepare the cluster and inject the fault", self._prepare),
            ("confirm the symptom", self._confirm),
            ("start the interview", self._start),
            ("apply the solution with the candidate's own credentials", self._solve),
            ("wait until the checks hold", self._hold),
            ("rate", self._rate),
            ("end the interview", self._end),
            ("submit, and release the cluster", self._release),
            ("prove that nothing is left", self._prove),
            ("export the scorecard", self._export),
        ]
        with self._timed("create a session"):
            self.session = self._create()
        for title, act in steps:
            if self.interrupted():
                raise RehearsalError("Interrupted.")
            with self._timed(title):
                act(self.session)
                self.session.refresh_from_db()

    @contextmanager
    def _timed(self, title: str) -> Iterator[None]:
        began = monotonic()
        try:
            yield
        finally:
            seconds = round(monotonic() - began, 3)
            self.report.steps.append({"step": title, "seconds": seconds})
            self.say(f"{title:<58} {seconds:8.2f} s")

    def _create(self) -> InterviewSession:
        return services.create_session(
            owner=rehearser(),
            cluster=self._lent(),
            candidate_name="Nobody (rehearsal)",
            title=f"Rehearsal: {self.version.title}"[:200],
            scenario_versions=[self.version],
            minutes=MINUTES,
            uuid=_drawing(fault_selectors.pack_of(self.version), self.variant) if self.variant else None,
        )

    def _lent(self) -> Cluster | None:
        """Return the cluster of the kubeconfig; None where a practice cluster is to be made."""
        if not self.kubeconfig:
            return None
        return fault_services.lend_cluster(name=f"lent-{uuid4().hex[:12]}", kubeconfig=self.kubeconfig)

    def _prepare(self, session: InterviewSession) -> None:
        services.prepare(session=session, actor=session.owner)
        self._until(lambda: self._now().state == "ready" or self._failed_phase(), PREPARE_SECONDS, "to be prepared")
        self._raise_failed_phase()

    def _confirm(self, session: InterviewSession) -> None:
        run = self._fault(session)
        pack = selectors.pack_for(self._scenario(session))
        self.report.variant = _number_of(pack, run)
        if not pack.symptom:
            return  # a task without a fault
        if run.symptom_at is None:
            raise RehearsalError("The session is ready, but no symptom was confirmed.")
        self._time("injected_s", run.injecting_at, run.injected_at)
        self._time("symptom_s", run.injecting_at, run.symptom_at)

    def _start(self, session: InterviewSession) -> None:
        services.start(session=session, actor=session.owner)

    def _solve(self, session: InterviewSession) -> None:
        credentials = services.candidate_credentials(session=session)
        pack = selectors.pack_for(self._scenario(session))
        self.report.rights = rights_of([pack]).lines
        for line in self.report.rights:
            self.say(f"    The candidate may also: {line}")
        ways = {solution.key: solution for solution in pack.solutions}
        solution = ways.get(self.solution.key, pack.solutions[0])  # this variant may have others
        self.report.solution = solution.key
        self.began_fixing = self.clock.now()
        fault_services.apply_solution(
            run=self._fault(session),
            solution=solution,
            kubeconfig=credentials.kubeconfig,
            report=lambda phase, detail: self.say(f"    {phase}: {detail}"),
        )

    def _hold(self, session: InterviewSession) -> None:
        self._until(lambda: self._scenario(session).held_at is not None, FIX_SECONDS, "for its checks to hold")
        row = self._scenario(session)
        self._time("fixed_s", self.began_fixing, row.fixed_at)
        self._time("held_s", self.began_fixing, row.held_at)

    def _rate(self, session: InterviewSession) -> None:
        row = self._scenario(session)
        for criterion in selectors.pack_for(row).rubric:
            services.save_rating(
                scenario=row,
                criterion=criterion.key,
                level=3,
                note="Rated by the rehearsal.",
                version=0,
                actor=session.owner,
            )

    def _end(self, session: InterviewSession) -> None:
        ended = services.end(session=session, actor=session.owner)
        self._until(
            lambda: self._now().access_revoked_at is not None, END_SECONDS, "for the candidate's access to end"
        )
        self._time("cut_off_s", ended.ended_at, self._now().access_revoked_at)

    def _release(self, session: InterviewSession) -> None:
        own = selectors.assessment_for(session, session.owner)
        assert own is not None  # the owner is one of the interviewers
        judged = {"overall": Assessment.Recommendation.YES, "takeaways": "Played by manage.py rehearse."}
        services.save_assessment(session=session, actor=session.owner, version=own.version, **judged)
        services.submit_assessment(session=session, actor=session.owner)
        services.release(session=session, actor=session.owner)
        self._until(lambda: self._now().released_at or self._failed_phase(), RELEASE_SECONDS, "to be released")
        self._raise_failed_phase()

    def _prove(self, session: InterviewSession) -> None:
        self.report.residue = session.residue
        if session.release_outcome != InterviewSession.ReleaseOutcome.REVERTED:
            left = session.events.get(kind="session.released").payload.get("left")
            raise RehearsalError(f"The faults were not reverted, but dropped with their cluster. Left over: {left}")
        runs = [self._fault(session), session.environment]
        reverting = [run.reverting_at for run in runs if run and run.reverting_at]
        reverted = [run.reverted_at for run in runs if run and run.reverted_at]
        self._time("reverted_s", min(reverting, default=None), max(reverted, default=None))
        if session.residue:
            raise RehearsalError(f"{len(session.residue)} difference(s) were left in the cluster: {session.residue}")
        if broken := events.verify_chain(session):
            raise RehearsalError(f"The session's time line does not fit together at event {broken}.")

    def _export(self, session: InterviewSession) -> None:
        card = build_scorecard(session=session, viewer=session.owner)
        self.output.mkdir(parents=True, exist_ok=True)
        for ending, render in (("json", as_json), ("pdf", as_pdf)):
            path = self.output / file_name(card, ending)
            path.write_bytes(render(card))
            self.report.scorecard[ending] = str(path)

    def _clean_up(self) -> None:
        """End and release what is left, in this process: the workers may be what failed."""
        if self.session is None or self._now().state == "draft" or self._now().released_at is not None:
            return
        failed = [phase.pk for phase in self._failed_phases()]
        try:
            services.end(session=self.session, actor=None)
            services.release(session=self.session, actor=None)
            self._until(lambda: self._released_here(failed), RELEASE_SECONDS, "to be released")
        except (RehearsalError, SessionError, ClusterError) as exc:
            self.report.error += f" Cleaning up failed too: {exc}"
        self.report.residue = self._now().residue

    def _commands(self) -> list[str]:
        """Return what a person must run for the steps that nothing here could take back."""
        if self.session is None:
            return []
        session = self._now()
        runs = [row.run for row in session.scenarios.select_related("run").order_by("position")]
        return [run.manual_command for run in (*runs, session.environment) if run and run.manual_command]

    def _released_here(self, failed: list[int]) -> bool:
        """Go on with the release; True once it is done, or a phase fails that had not ``failed`` before."""
        assert self.session is not None
        services.run_release(session_id=self.session.pk)
        return self._now().released_at is not None or self._failed_phases().exclude(pk__in=failed).exists()

    def _now(self) -> InterviewSession:
        assert self.session is not None
        return InterviewSession.objects.get(pk=self.session.pk)

    def _scenario(self, session: InterviewSession) -> SessionScenario:
        return session.scenarios.select_related("run", "scenario_version").get()

    def _fault(self, session: InterviewSession) -> FaultRun:
        run = self._scenario(session).run
        if run is None:
            raise RehearsalError("The session is ready, but it has no fault.")
        return run

    def _failed_phase(self) -> PreparationPhase | None:
        return self._failed_phases().first()

    def _failed_phases(self) -> QuerySet[PreparationPhase]:
        assert self.session is not None
        return self.session.phases.filter(status=PreparationPhase.Status.FAILED)

    def _raise_failed_phase(self) -> None:
        if phase := self._failed_phase():
            raise RehearsalError(f"{phase.title}: {phase.error}")

    def _until(self, done: Callable[[], object], seconds: float, what: str) -> None:
        end = monotonic() + seconds
        while not done():
            if self.interrupted() and not self.report.error:
                raise RehearsalError("Interrupted.")
            if monotonic() > end:
                raise RehearsalError(f"Waited {seconds:.0f} s {what}. {self._unmet()}")
            self.clock.wait(POLL_SECONDS)

    def _unmet(self) -> str:
        assert self.session is not None
        phases = [f"{phase.title} ({phase.detail})" for phase in self.session.phases.exclude(status="done")]
        checks = [
            f"{state.key} ({state.verdict}: {state.finding})"
            for state in self._scenario(self.session).check_states.exclude(verdict="pass")
        ]
        return f"Still open: {', '.join(phases + checks) or 'nothing that it reported'}."

    def _time(self, name: str, start: datetime | None, end: datetime | None) -> None:
        if start is None or end is None:
            raise RehearsalError(f"{name} cannot be told: a time was not recorded.")
        self.report.durations[name] = round((end - start).total_seconds(), 3)


def _drawing(pack: Pack, variant: int) -> UUID:
    """Return an identifier of a session that draws this variant, which then comes as it comes to people."""
    wanted = pack.variants[variant - 1]
    while fault_services.draw_variant(pack, variant_seed(found := uuid4())) != wanted:
        pass
    return found


def _number_of(pack: Pack, run: FaultRun) -> int:
    """Return the number of a run's variant, from 1."""
    return next(
        number for number, values in enumerate(pack.variants, start=1) if values.items() <= run.parameters.items()
    )
