"""The parts of a page that change by themselves, each drawn by one function for one role.

A panel is drawn the same for the first page, for a push and for a poll. What is drawn for the candidate has its own
builders and templates, so that nothing of the interviewer's can slip in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from django.contrib.auth.models import User
from django.template.loader import render_to_string

from faults.plain_text import plain
from sessions import clock
from sessions.models import InterviewSession
from sessions.panels import cluster, metrics, notices, people, progress, questions, scoring, timeline
from sessions.panels.drawing import PARTS_KEY, Drawing, Parts
from sessions.panels.subject import CANDIDATE, INTERVIEWER, MIRROR, Context, Subject

if TYPE_CHECKING:
    from sessions.live import LiveState

__all__ = ["CANDIDATE", "INTERVIEWER", "PANELS", "Panel", "draw", "names_for", "render", "render_for"]


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel's name, who may see it, whether it is pushed, and where its contents come from."""

    name: str
    roles: frozenset[str]
    pushed: bool
    build: Callable[[Subject], Context]


def _panel(name: str, role: str, build: Callable[[Subject], Context], *, pushed: bool = True) -> tuple[str, Panel]:
    return name, Panel(name, frozenset({role}), pushed, build)


PANELS: Final[dict[str, Panel]] = dict(
    [
        _panel("header", INTERVIEWER, progress.header),
        _panel("notices", INTERVIEWER, notices.notices),
        _panel("run", INTERVIEWER, progress.run_of_show),
        _panel("phases", INTERVIEWER, progress.phases),
        _panel("link", INTERVIEWER, people.link),
        _panel("workloads", INTERVIEWER, cluster.workloads),
        _panel("pods", INTERVIEWER, cluster.pods),
        _panel("nodes", INTERVIEWER, cluster.nodes),
        _panel("events", INTERVIEWER, cluster.events),
        _panel("checks", INTERVIEWER, progress.checks),
        _panel("hints", INTERVIEWER, progress.hints),
        _panel("outcome", INTERVIEWER, people.outcome),
        _panel("timeline", INTERVIEWER, timeline.timeline),
        _panel("metrics", INTERVIEWER, metrics.metrics, pushed=False),
        _panel("questions", INTERVIEWER, questions.questions, pushed=False),
        _panel("rubric", INTERVIEWER, scoring.rubric, pushed=False),
        _panel("notes", INTERVIEWER, scoring.notes, pushed=False),
        _panel("statement", CANDIDATE, progress.statement),
        _panel("clock", CANDIDATE, progress.candidate_clock),
        _panel("connection", CANDIDATE, progress.connection),
        _panel("watchers", CANDIDATE, people.watchers),
    ]
)


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
    context = {"session": subject.session, "role": subject.role, "user": subject.user, "now": subject.now, **extra}
    if panel.name in MIRROR and subject.session.is_quiet(subject.now):
        return render_to_string("panels/_quiet.html", {**context, "name": panel.name, "title": MIRROR[panel.name]})
    return plain(render_to_string(f"panels/{panel.name}.html", {**context, **panel.build(subject), **extra}))
