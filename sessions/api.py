"""The sessions over HTTP as JSON, for the signed-in user: one thin function for each service.

Mounted by ``interview_site.urls``. Refusals are ``{"message": sentence, "field": name}`` with 422 (409 where an edit
was stale); an unknown or foreign session is 404.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import wraps
from typing import Any
from uuid import UUID

import orjson
from django.contrib.auth.models import User
from django.http import Http404, HttpResponse
from django.http import HttpRequest as DjangoHttpRequest
from ninja import NinjaAPI, Router, Schema, Status
from ninja.errors import HttpError, ValidationError
from ninja.parser import Parser
from ninja.security import django_auth
from ninja.types import DictStrAny
from pydantic import AwareDatetime

from faults.api import router as faults_router
from faults.models import ScenarioVersion
from sessions import clock, limits, selectors, services
from sessions.errors import SessionError, StaleEdit, TooOften
from sessions.models import InterviewSession, PlanVersion, QuestionVersion
from sessions.typing import HttpRequest

router = Router(auth=django_auth, tags=["sessions"])


class Problem(Schema):
    """Reason of a refusal."""

    message: str
    field: str = ""


class NewSession(Schema):
    """Parts of a session: a plan, picks, or both."""

    candidate_name: str
    title: str = ""
    plan_version: UUID | None = None
    scenarios: list[UUID] = []
    questions: list[UUID] = []
    interviewers: list[str] = []
    minutes: int | None = None
    scheduled_at: AwareDatetime | None = None
    close_while_paused: bool | None = None
    cut: int | None = None


class Extension(Schema):
    """Length of an extension."""

    minutes: int


class PhaseOut(Schema):
    """One phase of preparing or releasing."""

    key: str
    title: str
    status: str
    detail: str
    error: str


class SessionOut(Schema):
    """A session as its interviewers see it. Times are in seconds unless the name says otherwise."""

    uuid: UUID
    title: str
    candidate_name: str
    state: str
    minutes: int
    elapsed_ms: int
    remaining_s: int
    planned_end: datetime
    scenarios: list[str]
    phases: list[PhaseOut]
    released_at: datetime | None
    residue: list[Any] | None

    @staticmethod
    def resolve_elapsed_ms(session: InterviewSession) -> int:
        """Return the session time."""
        return clock.elapsed_ms(session)

    @staticmethod
    def resolve_remaining_s(session: InterviewSession) -> int:
        """Return what is left of the budget."""
        return clock.remaining_s(session)

    @staticmethod
    def resolve_planned_end(session: InterviewSession) -> datetime:
        """Return when it ends if nothing else happens."""
        return clock.planned_end(session)

    @staticmethod
    def resolve_scenarios(session: InterviewSession) -> list[str]:
        """Return the slugs of its scenarios."""
        return [scenario.scenario_version.scenario.slug for scenario in session.scenarios.all()]

    @staticmethod
    def resolve_phases(session: InterviewSession) -> list[Any]:
        """Return its phases in order."""
        return list(session.phases.all())


class StrictParser(Parser):
    """Reads JSON as RFC 8259 has it: no NaN, no half characters, no nesting without end."""

    def parse_body(self, request: DjangoHttpRequest) -> DictStrAny:
        """Return the body; ninja answers 400 for a ValueError."""
        body: DictStrAny = orjson.loads(request.body)
        return body


REFUSED = {409: Problem, 422: Problem, 429: Problem}


@router.get("", response=list[SessionOut])
def list_sessions(request: HttpRequest) -> Any:
    """Return the sessions that the user may see, newest first."""
    return selectors.sessions_for(request.user).prefetch_related("phases", "scenarios__scenario_version__scenario")


@router.post("", response={201: SessionOut, **REFUSED})
def create_session(request: HttpRequest, body: NewSession) -> Any:
    """Create a draft."""
    session = services.create_session(
        owner=request.user,
        candidate_name=body.candidate_name,
        title=body.title,
        plan_version=_plan(body.plan_version),
        scenario_versions=_found(ScenarioVersion, body.scenarios, "scenarios"),
        question_versions=_found(QuestionVersion, body.questions, "questions"),
        minutes=body.minutes,
        scheduled_at=body.scheduled_at,
        interviewers=_people(body.interviewers),
        close_while_paused=body.close_while_paused,
        cut=body.cut,
    )
    return Status(201, session)


@router.get("/{uuid}", response=SessionOut)
def get_session(request: HttpRequest, uuid: UUID) -> Any:
    """Return one session."""
    return selectors.session_for(request.user, uuid)


@router.post("/{uuid}/extend", response={200: SessionOut, **REFUSED})
def extend_session(request: HttpRequest, uuid: UUID, body: Extension) -> Any:
    """Give the interview more time."""
    session = selectors.session_for(request.user, uuid)
    return services.extend(session=session, minutes=body.minutes, actor=request.user)


ACTIONS = {
    "prepare": services.prepare,
    "retry": services.retry_preparation,
    "start": services.start,
    "pause": services.pause,
    "resume": services.resume,
    "end": services.end_now,
    "reopen": services.reopen,
    "release": services.release,
}


@router.post("/{uuid}/{action}", response={200: SessionOut, **REFUSED})
def change_session(request: HttpRequest, uuid: UUID, action: str) -> Any:
    """Move a session: prepare, retry, start, pause, resume, end, reopen or release."""
    session = selectors.session_for(request.user, uuid)
    if action not in ACTIONS:
        raise SessionError(f"There is no action {action!r}. There are: {', '.join(ACTIONS)}, extend.", "action")
    if action in limits.INJECTING:
        limits.require(limits.INJECTIONS, str(session.uuid))
    return ACTIONS[action](session=session, actor=request.user)


def _for_staff(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Let staff alone read the API's description; a program is told so in JSON instead of a sign-in page."""

    @wraps(view)
    def guarded(request: DjangoHttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        user = request.user
        if not user.is_authenticated:
            return _problem(request, "Unauthorized", 401)
        if not (user.is_active and user.is_staff):
            return _problem(request, "Only staff may read the API's description.", 403)
        return view(request, *args, **kwargs)

    return guarded


def make_api() -> NinjaAPI:
    """Return the API with its refusals in one shape."""
    # Without the page of the documentation, which loads from a CDN.
    api = NinjaAPI(
        title="Faultline",
        version="1",
        urls_namespace="api",
        docs_url=None,
        parser=StrictParser(),
        docs_decorator=_for_staff,
    )
    api.add_router("/sessions", router)
    api.add_router("/faults", faults_router)
    api.add_exception_handler(SessionError, _refused)
    api.add_exception_handler(ValidationError, _invalid)
    api.add_exception_handler(HttpError, _http_error)
    api.add_exception_handler(Http404, lambda request, exc: _problem(request, "There is no such thing.", 404))
    return api


def _http_error(request: DjangoHttpRequest, exc: Any) -> HttpResponse:
    return _problem(request, str(exc), exc.status_code)


def _problem(request: DjangoHttpRequest, message: str, status: int) -> HttpResponse:
    return api.create_response(request, {"message": message, "field": ""}, status=status)


def _refused(request: DjangoHttpRequest, exc: Any) -> HttpResponse:
    body = {"message": exc.message, "field": exc.field}
    response = api.create_response(request, body, status=_status_of(exc))
    if isinstance(exc, TooOften):
        response.headers["Retry-After"] = str(exc.retry_after)
    return response


def _status_of(exc: SessionError) -> int:
    if isinstance(exc, TooOften):
        return 429
    return 409 if isinstance(exc, StaleEdit) else 422


def _invalid(request: DjangoHttpRequest, exc: Any) -> HttpResponse:
    first = exc.errors[0]
    field = ".".join(str(part) for part in first["loc"][1:] if part != "body")
    return api.create_response(request, {"message": f"{field}: {first['msg']}", "field": field}, status=422)


def _plan(uuid: UUID | None) -> PlanVersion | None:
    return None if uuid is None else _found(PlanVersion, [uuid], "plan_version")[0]


def _found(model: Any, uuids: list[UUID], field: str) -> list[Any]:
    rows = {row.uuid: row for row in model.objects.filter(uuid__in=uuids)}
    if missing := [uuid for uuid in uuids if uuid not in rows]:
        raise SessionError(f"There is none with the id {missing[0]}.", field)
    return [rows[uuid] for uuid in uuids]


def _people(names: list[str]) -> list[User]:
    possible = [name for name in names if "\x00" not in name]  # which not every database can be asked for
    people = {user.username: user for user in User.objects.filter(username__in=possible, is_active=True)}
    if missing := [name for name in names if name not in people]:
        raise SessionError(f"There is no user {missing[0]!r}.", "interviewers")
    return [people[name] for name in names]


api = make_api()
