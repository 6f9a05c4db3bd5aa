"""Plans put together on a page: the builder for those who may change plans, and previews of what can be picked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db import transaction
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from faults.selectors import pack_of
from sessions import catalogue, outline_form, selectors
from sessions.candidate_rights import rights_of
from sessions.catalogue import CatalogueItem, Filter
from sessions.forms import PlanBuilderForm
from sessions.importers import plans
from sessions.importers.cuts import format_cuts
from sessions.importers.plans import PlanProblem
from sessions.models import Plan, PlanVersion, Question
from sessions.outline_form import OutlineForm
from sessions.typing import HttpRequest

MAX_FOUND = 100  # entries on the page; who has more of them searches


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@login_required
def plan_new(request: HttpRequest) -> HttpResponse:
    """Put a new plan together."""
    _require_permission(request, "add")
    return _build(request, None)


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@login_required
def plan_edit(request: HttpRequest, uuid: UUID) -> HttpResponse:
    """Change a plan: what is saved is a new version, and sessions of older ones stay as they are."""
    _require_permission(request, "change")
    return _build(request, get_object_or_404(Plan, uuid=uuid))


@require_safe
@login_required
def preview(request: HttpRequest, ref: str) -> HttpResponse:
    """Show a scenario or a question as its interviewer will read it."""
    kind, _, name = ref.partition("-")
    find = {catalogue.SCENARIO: _scenario, catalogue.QUESTION: _question}.get(kind)
    context = find(name) if find else None
    if context is None:
        raise Http404("There is nothing of this name in the catalogue.")
    template = "sessions/_preview.html" if request.htmx else "sessions/preview.html"
    return render(request, template, context)


def builder_context(
    request: HttpRequest, outline: OutlineForm, offered: Mapping[str, CatalogueItem]
) -> dict[str, Any]:
    """Return what the template of the builder shows, with the catalogue as the request filters it."""
    wanted = Filter.of(request.POST.dict())
    chosen = outline.chosen
    found = [(item, chosen.get(item.ref)) for item in offered.values() if wanted.admits(item)]
    return {
        "outline": outline,
        "refusal": _refusal_together(outline),
        "filter": wanted,
        "found": found[:MAX_FOUND],
        "found_count": len(found),
        "offered": len(offered),
        "tags": catalogue.tags_of(offered.values()),
        "difficulties": Question.Difficulty.choices,
        "lengths": catalogue.LENGTHS,
    }


def _refusal_together(outline: OutlineForm) -> str:
    """Return why the chosen scenarios cannot be in one interview; told while the outline is put together."""
    parts = enumerate(outline.parts, 1)
    wanted = [(number, entry.name) for number, part in parts for entry in part.entries if entry.is_scenario]
    if len(wanted) < 2:
        return ""
    return plans.refusal_together(wanted, plans.newest_scenarios(slug for _, slug in wanted))


def _build(request: HttpRequest, plan: Plan | None) -> HttpResponse:
    newest = plan.versions.first() if plan else None
    offered = catalogue.offered()
    if request.method != "POST":
        outline = outline_form.of_parts(newest.parts if newest else (), offered)
        return _page(request, plan, PlanBuilderForm(initial=_initial(newest)), outline, offered)
    outline = outline_form.read(request.POST, offered)
    if act := request.POST.get("do"):
        outline.act(act, offered)
        form = PlanBuilderForm(initial=request.POST.dict())
        return _page(request, plan, form, outline, offered)
    form = PlanBuilderForm(request.POST)
    if version := _save(request, plan, form, outline):
        messages.success(request, f"“{version.title}” was kept as version {version.number}.")
        return redirect("session-new")
    return _page(request, plan, form, outline, offered, status=422)


def _page(
    request: HttpRequest,
    plan: Plan | None,
    form: PlanBuilderForm,
    outline: OutlineForm,
    offered: Any,
    status: int = 200,
) -> HttpResponse:
    context = {"form": form, "plan": plan, "address": request.path, **builder_context(request, outline, offered)}
    template = "sessions/_builder.html" if request.htmx else "sessions/plan.html"
    return render(request, template, context, status=status)


@transaction.atomic
def _save(request: HttpRequest, plan: Plan | None, form: PlanBuilderForm, outline: OutlineForm) -> PlanVersion | None:
    """Freeze the plan; None where something is wrong, which the form then says."""
    try:
        parts = plans.resolve_parts(outline.as_parts())
    except PlanProblem as exc:
        form.add_error(None, str(exc))
        return None
    if not form.is_valid():
        return None
    data = form.cleaned_data
    try:
        data["cuts"] = plans.resolve_cuts(data["cuts"].splitlines(), parts)
    except PlanProblem as exc:
        form.add_error("cuts", str(exc))
        return None
    plan = plan or Plan.objects.create(slug=form.free_slug())
    version = plans.save_plan(plan, parts=parts, **data)
    return version or plan.versions.first()


def _initial(newest: PlanVersion | None) -> dict[str, Any]:
    if newest is None:
        return {}
    found = {name: getattr(newest, name) for name in ("title", "summary", "close_while_paused")}
    return found | {"cuts": "\n".join(format_cuts(newest.cuts))}


def _require_permission(request: HttpRequest, verb: str) -> None:
    if not request.user.has_perm(f"interview_sessions.{verb}_plan"):
        raise Http404("Plans are put together by those who may change them in the admin.")


def _scenario(slug: str) -> dict[str, Any] | None:
    row = next((row for row in selectors.pickable_scenarios() if row.scenario.slug == slug), None)
    if row is None:
        return None
    pack = pack_of(row).bind()
    return {"title": pack.title, "version": row, "pack": pack, "rights": rights_of([pack])}


def _question(uuid: str) -> dict[str, Any] | None:
    try:
        question = Question.objects.filter(uuid=UUID(uuid), archived=False).select_related("bank").first()
    except ValueError:
        return None
    wording = question.versions.first() if question else None
    return {"title": wording.title, "question": question, "wording": wording} if wording else None
