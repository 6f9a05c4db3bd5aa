"""Making a session: from a plan in one step, or by picking scenarios and questions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from faults.models import ScenarioVersion
from sessions import selectors, services
from sessions.errors import SessionError
from sessions.forms import SessionForm, category_key
from sessions.models import InterviewSession, PlanVersion, QuestionBank, QuestionVersion
from sessions.typing import HttpRequest


@dataclass(frozen=True, slots=True)
class Category:
    """One category of a bank, as it is offered for picking."""

    key: str
    title: str
    questions: list[QuestionVersion]


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def session_new(request: HttpRequest) -> HttpResponse:
    """Show the plans, then the form; create the session and begin to prepare it."""
    plans = selectors.plans()
    banks = [(bank, _categories(bank)) for bank in selectors.question_banks()]
    chosen = _chosen(plans, request.POST.get("plan") or request.GET.get("plan"))
    form = SessionForm(
        request.POST if request.method == "POST" else None,
        plans=plans,
        scenarios=selectors.pickable_scenarios(),
        questions=[row for _, categories in banks for category in categories for row in category.questions],
        people=User.objects.filter(is_active=True).exclude(pk=request.user.pk).order_by("username"),
        initial=_initial(chosen),
    )
    if request.method == "POST" and (session := _create(request, form)):
        return redirect("session-detail", session.uuid)
    composing = chosen is None and ("compose" in request.GET or request.method == "POST")
    context = {"form": form, "plans": plans, "plan": chosen, "composing": composing, "banks": banks}
    context["time_zone"] = f"Time zone: {timezone.get_current_timezone_name()}."
    return render(request, "sessions/new.html", context, status=422 if form.errors else 200)


def _create(request: HttpRequest, form: SessionForm) -> InterviewSession | None:
    if not form.is_valid():
        return None
    data = form.cleaned_data
    scenarios, questions = form.picked()
    try:
        return _create_or_nothing(request, data, scenarios, questions)
    except SessionError as exc:
        form.refuse(exc)
        return None


@transaction.atomic
def _create_or_nothing(
    request: HttpRequest,
    data: dict[str, Any],
    scenarios: list[ScenarioVersion],
    questions: list[QuestionVersion],
) -> InterviewSession:
    """Create the session and begin to prepare it; what cannot be prepared is not created."""
    session = services.create_session(
        owner=request.user,
        candidate_name=data["candidate_name"],
        title=data["title"],
        plan_version=data["plan"],
        scenario_versions=scenarios,
        question_versions=questions,
        minutes=data["minutes"],
        scheduled_at=data["scheduled_at"],
        interviewers=data["interviewers"],
        cluster=data["cluster"],
        too_short=data["too_short"] or "refuse",
        close_while_paused=data["close_while_paused"],
    )
    return session if "draft" in request.POST else services.prepare(session=session, actor=request.user)


def _chosen(plans: list[PlanVersion], wanted: str | None) -> PlanVersion | None:
    return next((plan for plan in plans if str(plan.uuid) == wanted), None)


def _initial(plan: PlanVersion | None) -> dict[str, Any]:
    """Return what the form begins with: the plan's own choices."""
    closes = plan is not None and plan.close_while_paused
    return {"plan": plan.uuid if plan else None, "minutes": _minutes(plan), "close_while_paused": closes}


def _minutes(plan: PlanVersion | None) -> int | None:
    return sum(int(part["minutes"]) for part in plan.parts) if plan else None


def _categories(bank: QuestionBank) -> list[Category]:
    found: dict[str, Category] = {}
    for row in selectors.newest_question_versions(bank):
        row.question.bank = bank
        key = category_key(row)
        found.setdefault(key, Category(key, row.question.category, [])).questions.append(row)
    return list(found.values())
