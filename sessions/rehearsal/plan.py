"""One rehearsal of a whole plan, part by part: what starts during an interview is started as an interviewer would."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any

from faults.clock import RealClock
from sessions import events, selectors, services, subjects
from sessions.models import InterviewSession, PlanVersion, SessionScenario
from sessions.rehearsal.run import Print, Rehearsal, RehearsalError, Report, rehearser

START_SECONDS = 120.0
SCENARIO_DURATIONS = ("symptom_s", "fixed_s", "held_s")
NO_SCENARIO = "The plan has no scenario, so that there is nothing to play."

Tell = Callable[[dict[str, Any]], None]


class PlanRehearsal(Rehearsal):
    """Plays the parts of a plan in their order; ``tell`` is given one object for each as soon as it is done."""

    def __init__(
        self,
        plan: PlanVersion,
        output: Path,
        say: Print,
        tell: Tell,
        interrupted: Callable[[], bool] = lambda: False,
        kubeconfig: str = "",
    ) -> None:
        """``kubeconfig``: as for ``Rehearsal``."""
        self.plan, self.output, self.say, self.tell, self.interrupted = plan, output, say, tell, interrupted
        self.kubeconfig = kubeconfig
        self.report = Report(plan.plan.slug, "")
        self.clock = RealClock()
        self.session: InterviewSession | None = None
        self.row: SessionScenario | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the last line: what came of the whole."""
        report = self.report
        why = {"error": report.error} if report.error else {}
        told = {"plan": report.scenario, "ok": report.ok, "residue": report.residue, **why}
        return {**told, "run_by_hand": report.run_by_hand, "scorecard": report.scorecard, **report.durations}

    def _walk(self) -> None:
        with self._timed("create a session"):
            self.session = self._create()
        self._step("prepare the cluster and what is there from the start", self._prepare)
        self._step("start the interview", self._start)
        for number in range(len(self.session.parts)):
            self._play(number)
        self._step("end the interview", self._end)
        self._step("submit, and release the cluster", self._release)
        self._step("prove that nothing is left", self._prove)
        self._step("export the scorecard", self._export)

    def _step(self, title: str, act: Callable[[InterviewSession], None]) -> None:
        if self.interrupted():
            raise RehearsalError("Interrupted.")
        assert self.session is not None
        with self._timed(title):
            act(self.session)
            self.session.refresh_from_db()

    def _create(self) -> InterviewSession:
        session = services.create_session(
            owner=rehearser(),
            cluster=self._lent(),
            candidate_name="Nobody (rehearsal)",
            title=f"Rehearsal: {self.plan.title}"[:200],
            plan_version=self.plan,
        )
        self.row = session.scenarios.first()
        if self.row is None:
            raise RehearsalError(NO_SCENARIO)
        return session

    def _play(self, number: int) -> None:
        """Start a part where it waits for that, and do all that is in it; tell of it whatever comes."""
        assert self.session is not None
        session, began = self.session, monotonic()
        part: dict[str, Any] = session.parts[number]
        told: dict[str, Any] = {"part": number + 1, "title": part["title"], "ok": False, "scenarios": []}
        before = session.events.count()
        try:
            if session.staged_parts.filter(number=number).exists():
                self._step(f"part {number + 1}: inject, and prove", lambda _: self._begin(number))
                told["started_s"] = round(monotonic() - began, 3)
            for row in session.scenarios.filter(part=number):
                self.row = row
                told["scenarios"].append(self._play_scenario(session))
            self._step(f"part {number + 1}: ask and rate", lambda _: self._talk(session, number))
            told["ok"] = True
        finally:
            applied = session.events.filter(kind=events.APPLIED, seq__gt=before).order_by("seq")
            self.tell(told | {"applies": [event.payload["text"] for event in applied]})

    def _begin(self, number: int) -> None:
        assert self.session is not None
        session = self.session
        services.start_part(session=session, number=number, actor=session.owner)
        begun = session.staged_parts.filter(number=number, began_at__isnull=False)
        self._until(lambda: begun.exists() or self._failed_phase(), START_SECONDS, "for the part to begin")
        self._raise_failed_phase()

    def _play_scenario(self, session: InterviewSession) -> dict[str, Any]:
        pack = selectors.pack_for(self._scenario(session))
        self.report.durations.clear()
        if not pack.is_spoken:
            self._confirm(session)
            self.solution = pack.solutions[0]
            self._step(f"{pack.slug}: do what the solution says", self._solve)
            self._step(f"{pack.slug}: wait until the checks hold", self._hold)
        self._step(f"{pack.slug}: rate", self._rate)
        times = {name: self.report.durations.get(name) for name in SCENARIO_DURATIONS}
        self.report.durations.clear()
        return {"slug": pack.slug, "exercise": pack.exercise, **times}

    def _talk(self, session: InterviewSession, number: int) -> None:
        for question in session.questions.filter(part=number):
            services.mark_asked(question=question, actor=session.owner)
        subject = subjects.of_part(session, number)
        for criterion in subject.criteria if subject else ():
            assert subject is not None  # it has the criterion
            services.save_subject_rating(
                session=session,
                subject=subject,
                criterion=criterion.key,
                level=3,
                note="Rated by the rehearsal.",
                version=0,
                actor=session.owner,
            )

    def _prove(self, session: InterviewSession) -> None:
        self.report.residue = session.residue
        if session.release_outcome != InterviewSession.ReleaseOutcome.REVERTED:
            raise RehearsalError("The faults were not reverted, but dropped with their cluster.")
        if session.residue:
            raise RehearsalError(f"{len(session.residue)} difference(s) were left in the cluster: {session.residue}")
        if broken := events.verify_chain(session):
            raise RehearsalError(f"The session's time line does not fit together at event {broken}.")

    def _scenario(self, session: InterviewSession) -> SessionScenario:
        """Return the scenario that is being played."""
        assert self.row is not None  # a plan without one is refused
        return session.scenarios.select_related("run", "scenario_version", "stage").get(pk=self.row.pk)
