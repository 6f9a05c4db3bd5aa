"""A panel is declared in one place: adding one touches its entry, its template and its content function."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings

from sessions import panels

TEMPLATE = """{% load live_parts %}
<section class="panel" id="panel-quotas" data-seq="{{ seq|default:0 }}" aria-labelledby="quotas-title">
  <header><h2 id="quotas-title">{{ heading }}</h2></header>
  <ul>{% for name in quotas %}<li>{{ name }}</li>{% endfor %}</ul>
</section>
"""
# What a developer writes: the entry and the content function; the rest looks at what has become of them.
PROGRAM = """
import json, os, sys
from datetime import UTC, datetime
os.environ["DJANGO_SETTINGS_MODULE"] = "interview_site.settings"
from django.conf import settings
settings.TEMPLATES[0]["DIRS"] = [sys.argv[1], *settings.TEMPLATES[0]["DIRS"]]
import django
django.setup()
from sessions import panels

QUOTA = ("v1", "ResourceQuota")

def quotas(subject):
    return {"quotas": [quota["metadata"]["name"] for quota in subject.objects(QUOTA)]}

panels.PANELS["quotas"] = panels.Panel(
    "quotas", "Quotas", panels.INTERVIEWERS, quotas, reads=(QUOTA,), mirrors=True, place=panels.CENTRE
)

from sessions.models import InterviewSession
from sessions.observer import cluster, rows, screens
from sessions.observer.cache import Cache
now = lambda: datetime(2026, 5, 4, tzinfo=UTC)
cache = Cache([*cluster.PANEL_KINDS], now, lambda kind, namespace: None)
for space in ("ml", "others"):
    meta = {"name": f"gpus-of-{space}", "namespace": space, "uid": space}
    cache.put(QUOTA, "ADDED", {"kind": "ResourceQuota", "metadata": meta})
state = rows.live_state(cache, {"ml"}, lambda pod: False, {"quotas"})
session = InterviewSession(pk=1, title="t", candidate_name="c")
open_now = panels.render(session, "quotas", panels.INTERVIEWER, state)
session.quiet_until = datetime(2999, 1, 1, tzinfo=UTC)
print(json.dumps({
    "watched": QUOTA in cluster.PANEL_KINDS,
    "drawn by": sorted(panels.readers_of(QUOTA)),
    "observed": "quotas" in screens.CLUSTER_PANELS and "quotas" in screens.EVERY_PANEL,
    "shown": [panel.name for panel in panels.placed(panels.CENTRE)][-1],
    "html": open_now,
    "quiet": panels.render(session, "quotas", panels.INTERVIEWER, state),
    "candidates": panels.names_for(panels.CANDIDATE),
}))
"""


@pytest.fixture(scope="module")
def quotas(tmp_path_factory):
    """All that follows from a new panel, in a process that begins with it."""
    folder = tmp_path_factory.mktemp("templates")
    (folder / "panels").mkdir()
    (folder / "panels" / "quotas.html").write_text(TEMPLATE)
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder)],
        cwd=settings.BASE_DIR,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout.splitlines()[-1])


def test_its_kind_is_watched_and_a_change_of_it_draws_the_panel(quotas):
    assert quotas["watched"]
    assert quotas["observed"]
    assert quotas["drawn by"] == ["quotas"]


def test_it_shows_the_sessions_own_objects_under_its_title(quotas):
    assert '<h2 id="quotas-title">Quotas</h2>' in quotas["html"]
    assert "<li>gpus-of-ml</li>" in quotas["html"]
    assert "others" not in quotas["html"]


def test_the_live_page_has_it_and_the_candidate_has_not(quotas):
    assert quotas["shown"] == "quotas"
    assert "quotas" not in quotas["candidates"]


def test_quiet_time_hides_it(quotas):
    assert "Not shown in quiet time" in quotas["quiet"]
    assert "Quotas" in quotas["quiet"]
    assert "gpus-of-ml" not in quotas["quiet"]


def test_every_panel_has_its_template_and_the_live_page_names_none_of_the_centre():
    page = (Path(settings.BASE_DIR) / "templates" / "sessions" / "live.html").read_text()
    for panel in panels.PANELS.values():
        assert (Path(settings.BASE_DIR) / "templates" / panel.template).is_file()
        assert not (panel.place and f'"{panel.name}"' in page), panel.name
