"""The parts of a page that change by themselves, each drawn by one function for one role.

A panel is drawn the same for the first page, for a push and for a poll. What is drawn for the candidate has its own
builders and templates, so that nothing of the interviewer's can slip in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from django.contrib.auth.models import User
from django.template.loader import render_to_string

from faults.plain_text import plain
from sessions import clock
from sessions.kinds import DEPLOYMENT, EVENT, JOB, METRICS, NODE, POD, Kind
from sessions.models import InterviewSession
from sessions.panels import (
    applies,
    cluster,
    gpu_faults,
    key,
    metrics,
    milestones,
    notices,
    people,
    plans_of_code,
    progress,
    questions,
    scoring,
    sentinel,
    stages,
    timeline,
)
from sessions.panels.drawing import PARTS_KEY, Drawing, Parts
from sessions.panels.panel import Panel
from sessions.panels.subject import CANDIDATE, INTERVIEWER, Context, Subject

if TYPE_CHECKING:
    from sessions.live import LiveState

__all__ = [
    "CANDIDATE",
    "CENTRE",
    "INTERVIEWER",
    "PANELS",
    "Panel",
    "draw",
    "kept",
    "names_for",
    "observed",
    "placed",
    "readers_of",
    "render",
    "render_for",
    "watched_kinds",
]


INTERVIEWERS: Final = frozenset({INTERVIEWER})
CANDIDATES: Final = frozenset({CANDIDATE})
CENTRE: Final = "centre"  # of the live page, in the order of the declarations
PANELS: Final[dict[str, Panel]] = {
    panel.name: panel
    for panel in (
        Panel("header", "", INTERVIEWERS, progress.header),
        Panel("notices", "", INTERVIEWERS, notices.notices, kept=True),
        Panel("run", "", INTERVIEWERS, progress.run_of_show, kept=True),
        Panel("stages", "", INTERVIEWERS, stages.stages),
        Panel("milestones", "", INTERVIEWERS, milestones.milestones),
        Panel("phases", "", INTERVIEWERS, progress.phases),
        Panel("link", "", INTERVIEWERS, people.link),
        Panel(
            *("nodes", "Nodes and GPUs", INTERVIEWERS, cluster.nodes),
            reads=(POD, NODE, METRICS),
            all_namespaces=True,  # pods of any namespace hold GPUs
            mirrors=True,
            place=CENTRE,
        ),
        Panel("gpu-faults", "GPU faults", INTERVIEWERS, gpu_faults.gpu_faults, place=CENTRE),
        Panel(
            *("sentinel", "NVSentinel", INTERVIEWERS, sentinel.sentinel),
            reads=(NODE,),
            mirrors=True,
            place=CENTRE,
        ),
        Panel("pods", "Pods", INTERVIEWERS, cluster.pods, reads=(POD,), mirrors=True, place=CENTRE),
        Panel("checks", "Checks and guards", INTERVIEWERS, progress.checks, mirrors=True, kept=True, place=CENTRE),
        Panel(
            *("workloads", "Workloads", INTERVIEWERS, cluster.workloads),
            reads=(JOB, DEPLOYMENT),
            mirrors=True,
            place=CENTRE,
        ),
        Panel(
            *("metrics", "Over the interview", INTERVIEWERS, metrics.metrics),
            mirrors=True,
            pushed=False,
            place=CENTRE,
            fetched="session-metrics",
        ),
        Panel("terraform", "Terraform", INTERVIEWERS, applies.applies, mirrors=True, kept=True, place=CENTRE),
        Panel(
            *("plans", "What a plan would do now", INTERVIEWERS, plans_of_code.plans_of_code),
            mirrors=True,
            kept=True,
            place=CENTRE,
        ),
        Panel("events", "Cluster events", INTERVIEWERS, cluster.events, reads=(EVENT,), mirrors=True, place=CENTRE),
        Panel("hints", "", INTERVIEWERS, progress.hints),
        Panel("outcome", "", INTERVIEWERS, people.outcome),
        Panel("timeline", "", INTERVIEWERS, timeline.timeline, kept=True),
        Panel("questions", "", INTERVIEWERS, questions.questions, pushed=False),
        Panel("rubric", "", INTERVIEWERS, scoring.rubric, pushed=False),
        Panel("notes", "", INTERVIEWERS, scoring.notes, pushed=False),
        Panel("key", "", INTERVIEWERS, key.key, pushed=False),
        Panel("statement", "", CANDIDATES, progress.statement),
        Panel("clock", "", CANDIDATES, progress.candidate_clock),
        Panel("connection", "", CANDIDATES, progress.connection),
        Panel("watchers", "", CANDIDATES, people.watchers),
    )
}
"""All panels. To add one: an entry here, its template, and the function that returns its content."""


def observed() -> frozenset[str]:
    """Return the panels of what only the cluster knows; the rest stands in the database."""
    return frozenset(panel.name for panel in PANELS.values() if panel.reads)


def kept() -> frozenset[str]:
    """Return the panels without forms that stand in the database."""
    return frozenset(panel.name for panel in PANELS.values() if panel.kept)


def placed(place: str) -> list[Panel]:
    """Return the panels of a place of the live page, in order."""
    return [panel for panel in PANELS.values() if panel.place == place]


def readers_of(kind: Kind, *, all_namespaces: bool = False) -> frozenset[str]:
    """Return the panels that show a kind; ``all_namespaces`` leaves those that look beyond a session's own."""
    found = (panel for panel in PANELS.values() if kind in panel.reads)
    return frozenset(panel.name for panel in found if panel.all_namespaces or not all_namespaces)


def watched_kinds() -> tuple[Kind, ...]:
    """Return the kinds that some panel reads of a cluster's API."""
    return tuple(sorted({kind for panel in PANELS.values() for kind in panel.reads} - {METRICS}))


def names_for(role: str) -> list[str]:
    """Return the names of the panels that are pushed to a role."""
    return [panel.name for panel in PANELS.values() if role in panel.roles and panel.pushed]


def render(session: InterviewSession, name: str, role: str, live: LiveState | None, *, seq: int = 0) -> str:
    """Return a pushed panel as an out-of-band fragment, drawn once for everybody of a role.

    Pass a freshly loaded session: rows that were fetched through it are not fetched again. ``seq`` counts the
    frames of this panel from 1; with 0 the browser takes the frame without asking what it missed.
    Raises ``KeyError`` for a panel that the role has not.
    """
    return draw(session, name, role, live, seq=seq).html()


def draw(session: InterviewSession, name: str, role: str, live: LiveState | None, *, seq: int = 0) -> Drawing:
    """Return a pushed panel in parts, so that a later drawing can be compared with it; see ``render``."""
    panel = PANELS[name]
    if role not in panel.roles or not panel.pushed:
        raise KeyError(name)
    parts = Parts()
    extra = {"seq": seq, "oob": True, PARTS_KEY: parts}
    outline = _draw(panel, Subject(session, role, live, None, clock.now()), extra)
    return Drawing(outline, parts.lists, parts.slots, parts.as_of, parts.as_of_html)


def render_for(
    session: InterviewSession,
    name: str,
    role: str,
    live: LiveState | None,
    *,
    user: User | None,
    extra: Context | None = None,
    minutes: int = 0,
) -> str:
    """Return a panel as a person's page shows it; ``extra`` brings what only a request knows, as its CSRF token.

    ``minutes`` is how far back its charts go, 0 to the start.
    """
    panel = PANELS[name]
    if role not in panel.roles:
        raise KeyError(name)
    return _draw(panel, Subject(session, role, live, user, clock.now(), minutes), extra or {})


def _draw(panel: Panel, subject: Subject, extra: Context) -> str:
    who = {"session": subject.session, "role": subject.role, "user": subject.user}
    context = {"heading": panel.title, **who, "now": subject.now, **extra}
    if panel.mirrors and subject.session.is_quiet(subject.now):
        return render_to_string("panels/_quiet.html", {**context, "name": panel.name})
    return plain(render_to_string(panel.template, {**context, **panel.content(subject), **extra}))
