"""Every part of the look once, for the people who build pages. Only in DEBUG."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from faults.metrics import GpuReading
from sessions import charts
from sessions.charts import Marker, Sample
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


NODE = "gke-ml-prod-h100-pool-rxqt"
GPUS = tuple(
    GpuReading(NODE, str(number), 14.0 * number, 11_000.0 * number, 81_000.0 - 11_000 * number, 0, 29.0 + 9 * number)
    for number in range(7)
)
SAMPLES = [
    Sample(15_000 * number, {"ml/train-0": [97.0 * (number > 50), 700.0 * number, number / 20, number // 40]})
    for number in range(160)
]
MARKERS = [Marker(0, "Fault", "triangle", "amber"), Marker(600_000, "Hint", "bulb", "violet")]


@require_safe
def styleguide(request: HttpRequest) -> HttpResponse:
    """Show the parts."""
    drawn = charts.build(SAMPLES, MARKERS, 0, SAMPLES[-1].ms)
    parts = {"states": STATES, "icons": ICONS, "hues": HUES, "gpus": GPUS, "charts": drawn}
    return render(request, "styleguide.html", parts)
