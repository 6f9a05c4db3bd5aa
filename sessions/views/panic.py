"""The panic stop: everything is taken back now, and nothing is injected until it is lifted. For staff."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import partial

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.db import connections, transaction
from django.db.models import Count, Q
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from faults import services as fault_services
from faults.models import Cluster, FaultRun, Panic
from sessions import services
from sessions.typing import HttpRequest

OVER = (FaultRun.Status.REVERTED, FaultRun.Status.PLANNED)


@dataclass(frozen=True, slots=True)
class ClusterRow:
    """A cluster as the page shows it: what is still in it, and whether injection is stopped."""

    cluster: Cluster
    active: int
    stuck: int
    panic: Panic | None


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@login_required
def panic_page(request: HttpRequest) -> HttpResponse:
    """Show what would be taken back; engage or lift the stop."""
    if not request.user.is_staff:
        raise PermissionDenied
    if request.method == "POST":
        return _act(request)
    panics = list(fault_services.engaged_panics())
    rows = _rows(panics)
    context = {
        "everywhere": next((panic for panic in panics if panic.cluster_id is None), None),
        "rows": rows,
        "active": sum(row.active for row in rows),
        "under_way": bool(panics) and fault_services.runs_to_stop().exists(),
    }
    template = "sessions/_panic_clusters.html" if request.htmx else "sessions/panic.html"
    return render(request, template, context)


def _act(request: HttpRequest) -> HttpResponse:
    wanted = request.POST.get("cluster", "")
    cluster = get_object_or_404(Cluster, name=wanted) if wanted else None
    if "lift" in request.POST:
        services.lift_panic(cluster=cluster, actor=request.user)
    elif "confirm" in request.POST:
        services.engage_panic(cluster=cluster, actor=request.user)
        transaction.on_commit(partial(threading.Thread(target=_revert, name="panic", daemon=True).start))
    else:
        messages.error(request, "Nothing was done: tick the box to confirm.")
    return redirect("panic")


def _revert() -> None:
    """Take everything back beside the request. Should this process end, the observer goes on."""
    try:
        fault_services.revert_engaged()
    finally:
        connections.close_all()


def _rows(panics: list[Panic]) -> list[ClusterRow]:
    engaged = {panic.cluster_id: panic for panic in panics}
    active = Count("runs", filter=~Q(runs__status__in=OVER))
    stuck = Count("runs", filter=Q(runs__status=FaultRun.Status.QUARANTINED))
    clusters = Cluster.objects.annotate(active=active, stuck=stuck).order_by("name")
    shown = clusters.filter(Q(active__gt=0) | Q(kept=True, archived=False) | Q(pk__in=[pk for pk in engaged if pk]))
    return [ClusterRow(row, row.active, row.stuck, engaged.get(row.pk)) for row in shown]
