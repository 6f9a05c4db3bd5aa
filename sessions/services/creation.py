"""Making a session: what was planned or picked is frozen into it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction

from faults import services as fault_services
from faults.models import Cluster, ScenarioVersion
from faults.plain_text import plain_line
from faults.selectors import pack_of
from sessions import clock, events, part_minutes, selectors
from sessions.errors import SessionError
from sessions.models import (
    Assessment,
    InterviewSession,
    PlanVersion,
    QuestionVersion,
    SessionQuestion,
    SessionScenario,
    StagedPart,
)
from sessions.part_minutes import LONGEST, SHORTEST
from sessions.services import clusters
from sessions.services.rows import clean_text
from sessions.subjects import part_criteria

MINUTES_PER_QUESTION = 5
NOTHING_PICKED = "Pick at least one scenario or one question."
LATE = timedelta(minutes=5)
FARTHEST = timedelta(days=366)  # a later one is a slip; at the end of the calendar no clock could be shown

Part = tuple[dict[str, Any], list[ScenarioVersion], list[QuestionVersion]]
TooShort = Literal["keep", "scale", "refuse"]


@transaction.atomic
def create_session(
    *,
    owner: User,
    candidate_name: str,
    title: str = "",
    plan_version: PlanVersion | None = None,
    scenario_versions: Sequence[ScenarioVersion] = (),
    question_versions: Sequence[QuestionVersion] = (),
    outline: Sequence[dict[str, Any]] = (),
    minutes: int | None = None,
    scheduled_at: datetime | None = None,
    interviewers: Iterable[User] = (),
    cluster: Cluster | None = None,
    too_short: TooShort = "keep",
    close_while_paused: bool | None = None,
    uuid: UUID | None = None,
    cut: int | None = None,
) -> InterviewSession:
    """Create a draft from a plan, from picks, or from a plan with picks added as a last part.

    ``outline`` has parts as ``PlanVersion.parts`` keeps them, which the newest versions are taken for.
    ``minutes`` defaults to the sum of the parts; ``cluster`` to a practice cluster of its own. The owner is always
    one of the interviewers. ``too_short`` says what happens to parts that do not fit into ``minutes``: they keep
    their minutes, they are scaled, or the session is refused. Raises SessionError naming ``candidate_name``,
    ``title``, ``scenarios``, ``minutes``, ``too_short``, ``scheduled_at``, ``cut`` or ``cluster``.

    ``close_while_paused`` closes the candidate's access in every pause; None leaves it to the plan. ``uuid`` decides
    the variants of its scenarios (``variant_seed``); one is drawn where none is given. ``cut`` names one of
    the plan's cuts by its minutes, which are then those of the interview.
    """
    candidate = clean_text(
        candidate_name, field="candidate_name", name="The candidate's name", limit=120, required=True
    )
    heading = clean_text(title, field="title", name="The title", limit=200)
    parts = _planned(plan_version, cut) + _outlined(outline) + _picked(scenario_versions, question_versions)
    _check_parts(parts)
    _check_cluster(cluster, parts, owner, scheduled_at)
    minutes = _checked_minutes(minutes, parts)
    parts = _fitted(parts, minutes, too_short)
    session = InterviewSession.objects.create(
        **({"uuid": uuid} if uuid else {}),
        owner=owner,
        candidate_name=plain_line(candidate),
        title=plain_line(heading) or _default_title(plan_version, minutes),
        plan_version=plan_version,
        parts=[outline for outline, _, _ in parts],
        minutes=minutes,
        scheduled_at=_checked_time(scheduled_at),
        created_at=clock.now(),
        cluster=cluster,
        tier=cluster.tier if cluster else Cluster.Tier.PRACTICE,
        close_while_paused=_closes(plan_version) if close_while_paused is None else close_while_paused,
    )
    _fill(session, parts)
    _invite(session, [owner, *interviewers])
    events.append(session, "session.created", actor=owner, payload=_summary(session, parts))
    return session


def _closes(plan_version: PlanVersion | None) -> bool:
    return plan_version is not None and plan_version.close_while_paused


def _planned(plan_version: PlanVersion | None, cut: int | None) -> list[Part]:
    if plan_version is None:
        return []
    scenarios = {version.scenario.slug: version for version in plan_version.scenarios.select_related("scenario")}
    return [_planned_part(outline, scenarios) for outline in _cut(plan_version, cut)]


def _cut(plan_version: PlanVersion, minutes: int | None) -> list[dict[str, Any]]:
    """Return the parts of a plan, or those of one of its cuts."""
    if minutes is None:
        return list(plan_version.parts)
    found = next((cut for cut in plan_version.cuts if cut["minutes"] == minutes), None)
    if found is None:
        raise SessionError(f"The plan has no cut of {minutes} minutes.", "cut")
    return part_minutes.cut(plan_version.parts, found["parts"])


def _outlined(outline: Sequence[dict[str, Any]]) -> list[Part]:
    if not outline:
        return []
    scenarios = {version.scenario.slug: version for version in selectors.pickable_scenarios()}
    return [_planned_part(part, scenarios) for part in outline]


def _planned_part(outline: dict[str, Any], scenarios: dict[str, ScenarioVersion]) -> Part:
    slugs, uuids = outline.get("scenarios", []), outline.get("questions", [])
    missing = [slug for slug in slugs if slug not in scenarios]
    if missing:
        raise SessionError(f"The plan names the scenario {missing[0]!r} but does not hold it.", "plan_version")
    return outline, [scenarios[slug] for slug in slugs], _newest_questions(uuids)


def _newest_questions(uuids: Sequence[str]) -> list[QuestionVersion]:
    versions = QuestionVersion.objects.filter(question__uuid__in=uuids).select_related("question").order_by("number")
    newest = {version.question.uuid: version for version in versions}
    if missing := [uuid for uuid in uuids if UUID(uuid) not in newest]:
        raise SessionError(f"The plan names the question {missing[0]}, which is not in any bank.", "plan_version")
    return [newest[UUID(uuid)] for uuid in uuids]


def _picked(scenarios: Sequence[ScenarioVersion], questions: Sequence[QuestionVersion]) -> list[Part]:
    parts: list[Part] = []
    if scenarios:
        parts.append((_outline("Scenarios", sum(s.minutes for s in scenarios), scenarios, ()), list(scenarios), []))
    if questions:
        minutes = MINUTES_PER_QUESTION * len(questions)
        parts.append((_outline("Questions", minutes, (), questions), [], list(questions)))
    return parts


def _outline(
    title: str, minutes: int, scenarios: Sequence[ScenarioVersion], questions: Sequence[QuestionVersion]
) -> dict[str, Any]:
    return {
        "title": title,
        "minutes": minutes,
        "scenarios": [version.scenario.slug for version in scenarios],
        "questions": [str(version.question.uuid) for version in questions],
    }


def _check_parts(parts: list[Part]) -> None:
    slugs = [version.scenario.slug for _, scenarios, _ in parts for version in scenarios]
    if not slugs and not any(questions or part_criteria(outline) for outline, _, questions in parts):
        raise SessionError(NOTHING_PICKED, "scenarios")
    if twice := sorted({slug for slug in slugs if slugs.count(slug) > 1}):
        raise SessionError(f"The scenario {twice[0]!r} is in here twice; pick it once.", "scenarios")


def _check_cluster(cluster: Cluster | None, parts: list[Part], owner: User, start: datetime | None) -> None:
    found = [(number, version) for number, (_, scenarios, _) in enumerate(parts) for version in scenarios]
    packs, numbers = [pack_of(version) for _, version in found], [number for number, _ in found]
    tier = cluster.tier if cluster else Cluster.Tier.PRACTICE
    why = fault_services.why_not(tier=tier, packs=packs, parts=numbers)
    if cluster is not None:
        why = why or clusters.refusal(cluster=cluster, actor=owner, start=start)
        why = why or fault_services.refusal_by_inventory(cluster=cluster, packs=packs)
    if why:
        raise SessionError(why, "cluster" if cluster else "scenarios")


def _checked_minutes(minutes: int | None, parts: list[Part]) -> int:
    if minutes is None:
        minutes = min(max(sum(int(outline["minutes"]) for outline, _, _ in parts), SHORTEST), LONGEST)
    if not SHORTEST <= minutes <= LONGEST:
        raise SessionError(f"An interview lasts from {SHORTEST} to {LONGEST} minutes.", "minutes")
    return minutes


def _fitted(parts: list[Part], minutes: int, too_short: TooShort) -> list[Part]:
    """Return the parts as they fit into the minutes, by the chosen way."""
    planned = [int(outline["minutes"]) for outline, _, _ in parts]
    if sum(planned) <= minutes or too_short == "keep":
        return parts
    if too_short == "refuse":
        titles = [str(outline["title"]) for outline, _, _ in parts]
        raise SessionError(part_minutes.misfit(titles, planned, minutes), "too_short")
    scaled = part_minutes.scale(planned, minutes)
    return [
        ({**outline, "minutes": new}, scenarios, questions)
        for (outline, scenarios, questions), new in zip(parts, scaled, strict=True)
    ]


def _checked_time(at: datetime | None) -> datetime | None:
    if at is not None and at < clock.now() - LATE:
        raise SessionError("The planned start lies in the past.", "scheduled_at")
    if at is not None and at > clock.now() + FARTHEST:
        raise SessionError("The planned start is more than a year away.", "scheduled_at")
    return at


def _default_title(plan_version: PlanVersion | None, minutes: int) -> str:
    """Return a title that says nothing of the scenarios: candidates read it before they start."""
    return plan_version.title if plan_version else f"Interview, {minutes} minutes"


def _fill(session: InterviewSession, parts: list[Part]) -> None:
    scenarios = [(number, version) for number, (_, found, _) in enumerate(parts) for version in found]
    questions = [(number, version) for number, (_, _, found) in enumerate(parts) for version in found]
    stages = {stage.number: stage for stage in _stages(session, parts)}
    StagedPart.objects.bulk_create(stages.values())
    SessionScenario.objects.bulk_create(
        SessionScenario(
            session=session, part=part, position=position, scenario_version=version, stage=stages.get(part)
        )
        for position, (part, version) in enumerate(scenarios)
    )
    SessionQuestion.objects.bulk_create(
        SessionQuestion(session=session, part=part, position=position, question_version=version)
        for position, (part, version) in enumerate(questions)
    )


def _stages(session: InterviewSession, parts: list[Part]) -> list[StagedPart]:
    """Return the parts that start during the interview."""
    return [
        StagedPart(session=session, number=number, start=outline["injection"])
        for number, (outline, scenarios, _) in enumerate(parts)
        if scenarios and outline.get("injection") in StagedPart.Start.values
    ]


def _invite(session: InterviewSession, people: list[User]) -> None:
    everyone = list(dict.fromkeys(people))
    session.interviewers.set(everyone)
    Assessment.objects.bulk_create(
        Assessment(session=session, interviewer=user, created_at=clock.now()) for user in everyone
    )


def _summary(session: InterviewSession, parts: list[Part]) -> dict[str, Any]:
    return {
        "minutes": session.minutes,
        "plan_version": str(session.plan_version.uuid) if session.plan_version else None,
        "scenarios": [
            {"slug": version.scenario.slug, "number": version.number, "digest": version.digest}
            for _, scenarios, _ in parts
            for version in scenarios
        ],
        "questions": sum(len(questions) for _, _, questions in parts),
        "interviewers": [user.username for user in session.interviewers.order_by("pk")],
    }
