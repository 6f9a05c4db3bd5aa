"""The scorecard's charts: the same as on the live page, there even where nobody watched, in all three forms."""

from __future__ import annotations

import json
from io import BytesIO

import jsonschema
import pytest
from pypdf import PdfReader

from faults.models import FaultRun
from sessions import services
from sessions.models import MetricSample
from sessions.scorecards import as_json, as_pdf, build_scorecard, charts_of
from sessions.scorecards.as_json import schema

HOSTILE = "ml/#panic(1) <b> $x$"


@pytest.fixture
def sampled(live, ada, time):
    """An interview that is over: the job worked after a hint."""
    FaultRun.objects.filter(pk=live.scenarios.get().run_id).update(injected_at=time())
    time.advance(300)
    services.release_hint(scenario=live.scenarios.get(), index=0, actor=ada)
    for number in range(80):
        busy = 97.0 if number > 30 else 0.0
        pods = {"ml/train-0": [busy, 700.0 * busy, busy / 20, number // 20], HOSTILE: [None, None, 0.2, 0]}
        MetricSample.objects.create(session=live, at=time(), session_ms=number * 15_000, pods=pods)
    time.advance(900)
    return services.end(session=live, actor=ada)


def test_the_document_holds_the_samples_and_what_they_are_read_against(sampled, ada):
    card = build_scorecard(session=sampled, viewer=ada)
    jsonschema.validate(json.loads(as_json(card)), schema())
    metrics = card["metrics"]
    assert metrics["columns"][0] == "session_ms"
    assert [row["pod"] for row in metrics["pods"]] == [HOSTILE, "ml/train-0"]
    assert metrics["pods"][1]["samples"][31] == [465_000, 97.0, 67_900.0, 4.85, 1]
    assert [(row["ms"], row["word"].partition(":")[0]) for row in metrics["markers"]] == [
        (0, "Fault"),
        (300_000, "Hint"),
    ]


def test_the_page_has_the_charts_of_the_live_page(sampled, ada, client):
    client.force_login(ada)
    live_page = client.get(f"/sessions/{sampled.uuid}/metrics/").content.decode()
    page = client.get(f"/sessions/{sampled.uuid}/scorecard/").content.decode()
    assert page.count('<figure class="chart">') == 4
    begin, end = live_page.index('<div class="charts">'), live_page.index("</figure>")
    assert live_page[begin:end] in page
    assert "<b> $x$" not in page


def test_the_pdf_has_the_charts_with_their_words(sampled, ada):
    reader = PdfReader(BytesIO(as_pdf(build_scorecard(session=sampled, viewer=ada))))
    text = "\n".join(page.extract_text() for page in reader.pages)
    assert "Metrics over the interview" in text
    assert "97 % at most, in train-0 at 07:45; 97 % there at last." in " ".join(text.split())
    assert "#panic(1) <b> $x$" in text


def test_an_interview_without_metrics_has_no_charts(ended, ada, client):
    card = build_scorecard(session=ended, viewer=ada)
    assert card["metrics"]["pods"] == []
    assert charts_of(card) is None
    assert b"Metrics over the interview" not in as_pdf(card)
    client.force_login(ada)
    assert "Metrics over" not in client.get(f"/sessions/{ended.uuid}/scorecard/").content.decode()
