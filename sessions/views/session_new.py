"""Making a session: from a plan in one step, or by composing an outline of scenarios, questions and tasks."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from faults.packs import Pack
from faults.selectors import pack_of
from sessions import catalogue, outline_form, selectors, services
from sessions.candidate_rights import rights_of
from sessions.errors import SessionError
from sessions.forms import SessionForm
from sessions.importers import plans as plan_files
from sessions.importers.plans import Part, PlanProblem
from sessions.models import InterviewSession, PlanVersion
from sessions.outline_form import OutlineForm
from sessions.services.creation import NOTHING_PICKED
from sessions.typing import HttpRequest
from sessions.views.builder import builder_context


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def session_new(request: HttpRequest) -> HttpResponse:
    """Show the plans, then the form; create the session and begin to prepare it."""
    plans = selectors.plans()
    chosen = _chosen(plans, request.POST.get("plan") or request.GET.get("plan"))
    composing = chosen is None and ("compose" in request.GET or request.method == "POST")
    if composing:
        return _compose(request, plans)
    form = _form(request, plans, request.POST if request.method == "POST" else None, _initial(chosen))
    if request.method == "POST" and (session := _create(request, form, [])):
        return redirect("session-detail", session.uuid)
    rights = rights_of(_packs(chosen)) if chosen else None
    context = {"form": form, "plans": plans, "plan": chosen, "rights": rights, "composing": False, **_words()}
    return render(request, "sessions/new.html", context, status=422 if form.errors else 200)


def _compose(request: HttpRequest, plans: list[PlanVersion]) -> HttpResponse:
    """Show the builder; a press of one of its buttons changes the outline, any other creates the session."""
    offered = catalogue.offered()
    act = request.POST.get("do")
    if request.method == "POST" and not act:
        form = _form(request, plans, request.POST)
        outline = outline_form.read(request.POST, offered)
        if session := _create(request, form, _parts(form, outline)):
            return redirect("session-detail", session.uuid)
    else:
        form = _form(request, plans, None, _typed(request))
        outline = outline_form.read(request.POST, offered) if act else outline_form.of_parts((), offered)
        outline.act(act or "", offered)
    context = {"form": form, "plans": plans, "plan": None, "composing": True, **_words()}
    context |= {"address": f"{request.path}?compose", **builder_context(request, outline, offered)}
    template = "sessions/_builder.html" if request.htmx else "sessions/new.html"
    return render(request, template, context, status=422 if form.is_bound and form.errors else 200)


def _form(
    request: HttpRequest, plans: list[PlanVersion], data: Any, initial: dict[str, Any] | None = None
) -> SessionForm:
    people = User.objects.filter(is_active=True).exclude(pk=request.user.pk).order_by("username")
    return SessionForm(data, plans=plans, people=people, initial=initial)


def _parts(form: SessionForm, outline: OutlineForm) -> list[Part]:
    """Return the composed parts; what is wrong with them is said above the form."""
    if outline.is_blank:
        form.add_error(None, NOTHING_PICKED)
        return []
    try:
        return plan_files.resolve_parts(outline.as_parts())
    except PlanProblem as exc:
        form.add_error(None, str(exc))
        return []


def _typed(request: HttpRequest) -> dict[str, Any]:
    """Return what stands in the form's fields while its outline is being changed."""
    return {**request.POST.dict(), "interviewers": request.POST.getlist("interviewers")}


def _create(request: HttpRequest, form: SessionForm, outline: list[Part]) -> InterviewSession | None:
    if not form.is_valid():
        return None
    try:
        return _create_or_nothing(request, form.cleaned_data, outline)
    except SessionError as exc:
        form.refuse(exc)
        return None


@transaction.atomic
def _create_or_nothing(request: HttpRequest, data: dict[str, Any], outline: list[Part]) -> InterviewSession:
    """Create the session and begin to prepare it; what cannot be prepared is not created."""
    session = services.create_session(
        owner=request.user,
        candidate_name=data["candidate_name"],
        title=data["title"],
        plan_version=data["plan"],
        outline=outline,
        minutes=data["minutes"],
        scheduled_at=data["scheduled_at"],
        interviewers=data["interviewers"],
        cluster=data["cluster"],
        too_short=data["too_short"] or "refuse",
        close_while_paused=data["close_while_paused"],
        cut=data["cut"],
    )
    return session if "draft" in request.POST else services.prepare(session=session, actor=request.user)


def _chosen(plans: list[PlanVersion], wanted: str | None) -> PlanVersion | None:
    return next((plan for plan in plans if str(plan.uuid) == wanted), None)


def _packs(plan: PlanVersion) -> list[Pack]:
    """Return the packs of a plan's scenarios as a session would get them."""
    wanted = {slug for part in plan.parts for slug in part.get("scenarios", ())}
    return [pack_of(row).bind() for row in selectors.pickable_scenarios() if row.scenario.slug in wanted]


def _initial(plan: PlanVersion | None) -> dict[str, Any]:
    """Return what the form begins with: the plan's own choices."""
    closes = plan is not None and plan.close_while_paused
    return {
        "plan": plan.uuid if plan else None,
        "minutes": plan.minutes if plan and not plan.cuts else None,  # the chosen form has its own
        "close_while_paused": closes,
    }


def _words() -> dict[str, str]:
    return {"time_zone": f"Time zone: {timezone.get_current_timezone_name()}."}
