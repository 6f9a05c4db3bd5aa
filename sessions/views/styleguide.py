"""Every part of the look once, for the people who build pages. Only in DEBUG."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from sessions.panels import words

HUES = ("grey", "blue", "amber", "violet", "teal", "green", "orange", "red")
ICONS = (
    *("logo", "hollow", "half", "triangle", "lens", "ring", "tick", "back", "octagon", "dashed", "dot", "square"),
    *(
        "pause",
        "play",
        "copy",
        "plus",
        "close",
        "bulb",
        "speech",
        "eye",
        "eye-off",
        "more",
        "link",
        "down",
        "help",
        "theme",
    ),
    *("list", "cluster", "score", "clock"),
)
STATES = (
    words.Chip("hollow", "Queued", "grey"),
    words.Chip("half", "Injecting", "blue"),
    words.Chip("triangle", "Active", "amber"),
    words.Chip("lens", "Diagnosed", "violet"),
    words.Chip("ring", "Holding 40/60 s", "teal"),
    words.Chip("tick", "Resolved", "green"),
    words.Chip("back", "Regressed", "orange"),
    words.Chip("octagon", "Needs you", "red"),
    words.Chip("dashed", "No data 25 s", "grey"),
)


@require_safe
def styleguide(request: HttpRequest) -> HttpResponse:
    """Show the parts."""
    return render(request, "styleguide.html", {"states": STATES, "icons": ICONS, "hues": HUES})
