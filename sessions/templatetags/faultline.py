"""Icons, chips, clocks, ages and Markdown for the templates of every page."""

from __future__ import annotations

from datetime import datetime

from django import template
from django.template.context import Context
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from faults import markdown as faults_markdown
from sessions import clock, panels
from sessions.models import InterviewSession
from sessions.panels import words

TAIL, MIN_TAIL = 12, 6
register = template.Library()
_FIELD_WORDS = {"note": "Evidence", "text": "Answer", "takeaways": "Key take-aways"}
register.filter("markdown", faults_markdown.render)


@register.simple_tag
def icon(name: str) -> SafeString:
    """Return one of the symbols of ``_icons.html``, hidden from screen readers: the word beside it says the same."""
    return format_html('<svg class="icon" aria-hidden="true"><use href="#i-{}"></use></svg>', name)


@register.simple_tag
def chip(state: words.Chip) -> SafeString:
    """Return a state as shape and word."""
    return format_html('<span class="chip is-{}">{}{}</span>', state.hue, icon(state.shape), state.word)


@register.simple_tag(takes_context=True)
def panel(context: Context, name: str, **extra: object) -> SafeString:
    """Return a panel of the page's session: the observer's newest frame where the page has one, else drawn now."""
    frames: dict[str, str] = context.get("frames") or {}
    if frame := frames.get(name):
        return SafeString(frame)
    html = panels.render_for(
        context["session"],
        name,
        context["role"],
        None,
        user=context.get("viewer"),
        extra={"csrf_token": context.get("csrf_token"), **extra},
        minutes=int(context.get("minutes") or 0),
    )
    return SafeString(html)


@register.filter
def session_chip(session: InterviewSession) -> words.Chip:
    """Return how the session's state is shown."""
    return words.SESSION[InterviewSession.State(session.state)]


@register.filter
def field_word(name: str) -> str:
    """Return how a form's field is called on the page."""
    return _FIELD_WORDS.get(name, name.replace("_", " ").capitalize())


@register.filter
def head(name: str) -> str:
    """Return a name without its ``tail``: what may be cut short."""
    return name[: -len(tail(name))] if tail(name) else name


@register.filter
def tail(name: str) -> str:
    """Return the end of a name, which is what tells one replica from another; empty for a short name."""
    if len(name) > 2 * TAIL:
        return name[-TAIL:]
    return name[-MIN_TAIL:] if len(name) > 2 * MIN_TAIL else ""


@register.filter
def duration(milliseconds: int) -> str:
    """Return session time as ``mm:ss``, or ``h:mm:ss`` from an hour on; negative where the budget is overrun."""
    seconds = abs(int(milliseconds)) // 1000
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    text = f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes:02}:{rest:02}"
    return f"-{text}" if milliseconds < 0 else text


@register.simple_tag
def ago(at: datetime | None, empty: str = "never", style: str = "") -> SafeString | str:
    """Return a relative time that the browser keeps current, with the absolute one in its title.

    ``style`` is "short" for a column that is headed "Age".
    """
    if at is None:
        return empty
    text = _words_for((clock.now() - at).total_seconds())
    return format_html(
        '<time datetime="{}" title="{}" data-ago="{}">{}</time>',
        at.isoformat(),
        timezone.localtime(at).strftime("%Y-%m-%d %H:%M:%S %Z"),
        style,
        text.removesuffix(" ago") if style == "short" else text,
    )


@register.simple_tag
def age(at: datetime | None, stale_after_s: int = 15) -> SafeString:
    """Return the "as of" mark of a live tile; the browser turns it into "No data" when it grows old."""
    if at is None:
        return format_html('<span class="age stale">{}</span>', "No data yet")
    seconds = max(0, int((clock.now() - at).total_seconds()))
    return format_html(
        '<span class="age" data-age data-at="{}" data-stale-after="{}" title="{}">as of {} s ago</span>',
        int(at.timestamp() * 1000),
        stale_after_s,
        timezone.localtime(at).strftime("%Y-%m-%d %H:%M:%S %Z"),
        seconds,
    )


@register.simple_tag
def running_clock(elapsed_ms: int, budget_ms: int, running: bool, shows: str = "elapsed") -> SafeString:
    """Return a clock which the browser ticks. ``shows`` is ``elapsed`` or ``remaining``."""
    value = elapsed_ms if shows == "elapsed" else budget_ms - elapsed_ms
    return format_html(
        '<b role="timer" data-clock="{}" data-elapsed="{}" data-budget="{}" data-running="{}">{}</b>',
        shows,
        elapsed_ms,
        budget_ms,
        "yes" if running else "no",
        duration(value),
    )


@register.simple_tag
def gpu_cells(used: int, total: int) -> SafeString:
    """Return one cell for each GPU, filled where a pod holds it."""
    cells = "".join('<i class="on"></i>' if index < used else "<i></i>" for index in range(min(total, 16)))
    return format_html(
        '<span class="cells" role="img" aria-label="{} of {} GPUs in use">{}</span>', used, total, SafeString(cells)
    )


@register.inclusion_tag("parts/field.html")
def field(bound: object, label: str = "", hint: str = "", kind: str = "") -> dict[str, object]:
    """Return a form field with its label, hint, and its error right under it."""
    return {"field": bound, "label": label, "hint": hint, "kind": kind}


def _words_for(seconds: float) -> str:
    units = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
    size, unit = next((pair for pair in units if abs(seconds) >= pair[0]), units[-1])
    amount = f"{abs(seconds) // size:.0f} {unit}"
    return f"in {amount}" if seconds < 0 else f"{amount} ago"
