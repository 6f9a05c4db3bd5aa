"""The charts on the live page: for the session's people, over the range that each chose, from the database alone."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest
from django.contrib.staticfiles import finders
from playwright.sync_api import expect

from sessions import services
from sessions.models import MetricSample
from sessions.tests.browser_site import chromium, site, visible_text  # noqa: F401 - a fixture

MAX_QUERIES = 12
MAX_REQUESTS = 12
MAX_LIVE_BYTES = 80_000
"""Of the live page with all that it loads, compressed."""


@pytest.fixture
def sampled(live, ada, time):
    """A live session after forty minutes of a job that began to work after a hint."""
    time.advance(600)
    services.release_hint(scenario=live.scenarios.get(), index=0, actor=ada)
    rows = []
    for number in range(160):
        busy = 97.0 if number > 60 else 0.0
        pods = {"ml/train-0": [busy, 700.0 * busy, busy / 20, min(number // 12, 5)], "ml/api-0": [None, None, 0.2, 0]}
        rows.append(MetricSample(session=live, at=time(), session_ms=number * 15_000, pods=pods))
    MetricSample.objects.bulk_create(rows)
    time.advance(1800)
    return live


@pytest.fixture
def get(client, ada, sampled):
    """Fetch the charts as ada."""

    def go(query=""):
        client.force_login(ada)
        answer = client.get(f"/sessions/{sampled.uuid}/metrics/{query}")
        assert answer.status_code == 200
        return answer.content.decode()

    return go


def test_the_charts_have_a_line_for_each_pod_marks_words_and_numbers(get):
    html = get()
    assert html.count('<figure class="chart">') == 4
    assert html.count('class="line s2" d="M0 ') == 5  # one is the legend's
    assert "97 % at most, in train-0 at" in html
    assert 'aria-label="GPU utilisation: 97 % at most' in html
    assert html.count("<title>Hint</title>") == 4
    assert '<td class="wrap mono small">api-0</td>' in html


def test_a_range_shows_what_was_within_it(get):
    assert "<title>Hint</title>" in get("?minutes=0")
    html = get("?minutes=10")
    assert "<title>Hint</title>" not in html
    assert 'value="10" checked' in html
    assert "30 min</text>" in html
    assert get("?minutes=banana") == get("")


def test_the_charts_ask_little(get, django_assert_max_num_queries):
    get()
    with django_assert_max_num_queries(MAX_QUERIES):
        get()


def test_in_quiet_time_there_are_no_charts(get, sampled, ada):
    services.begin_quiet(session=sampled, actor=ada)
    html = get()
    assert "Not shown in quiet time" in html
    assert "train-0" not in html


def test_names_of_pods_are_text(get, sampled):
    MetricSample.objects.create(
        session=sampled, at=sampled.created_at, session_ms=1, pods={'ml/<img src=x onerror="x">': [1, 1, 1, 0]}
    )
    assert "<img" not in get()


def test_before_the_first_sample_the_page_says_so(client, ada, live):
    client.force_login(ada)
    assert "told nothing" in client.get(f"/sessions/{live.uuid}/metrics/").content.decode()


def test_without_javascript_the_page_has_the_charts_and_the_range(client, ada, sampled):
    client.force_login(ada)
    html = client.get(f"/sessions/{sampled.uuid}/?whole&minutes=30").content.decode()
    assert html.count('<figure class="chart">') == 4
    assert 'value="30" checked' in html


def test_it_hides_other_peoples_sessions_asks_strangers_to_sign_in_and_rejects_post(client, ada, mallory, live):
    url = f"/sessions/{live.uuid}/metrics/"
    assert client.get(url).status_code == 302
    client.force_login(mallory)
    assert client.get(url).status_code == 404
    client.force_login(ada)
    assert client.post(url).status_code == 405


def test_candidates_have_no_metrics(client, sampled):
    answer = client.get(f"/c/{sampled.uuid}/panels/metrics/")
    assert answer.status_code == 404


def test_the_live_page_with_all_that_it_loads_is_light(get, client, sampled):
    charts = get()
    page = client.get(f"/sessions/{sampled.uuid}/").content
    loaded = re.findall(r'(?:src|href)="/static/([^"?]+\.(?:js|css))', page.decode())
    assert "charts.css" in loaded
    files = [Path(str(finders.find(name))).read_bytes() for name in loaded]
    tools = client.get(f"/sessions/{sampled.uuid}/tools/").content
    parts = [page, charts.encode(), tools, *files]
    assert sum(len(gzip.compress(part)) for part in parts) <= MAX_LIVE_BYTES
    later = ("tools", "metrics", "favicon")
    assert len(["page", *loaded, *later]) <= MAX_REQUESTS


# In a browser.


@pytest.fixture
def her_browser(chromium, client, ada):  # noqa: F811
    client.force_login(ada)
    with site(chromium, client) as found:
        yield found


@pytest.fixture
def page(her_browser, sampled):
    page = her_browser.open(f"/sessions/{sampled.uuid}/")
    page.wait_for_selector(".chart")
    return page


@pytest.mark.browser
def test_a_range_is_chosen_by_keyboard_and_folds_stay_open_when_charts_are_renewed(page):
    page.locator("#chart-cpu-numbers > summary").click()
    page.locator("[name=minutes][value='0']").focus()
    with page.expect_response(lambda answer: "minutes=30" in answer.url):
        page.keyboard.press("ArrowRight")
    page.wait_for_function("document.querySelector('.chart text').textContent !== '0'")
    assert page.locator("#chart-cpu-numbers").get_attribute("open") is not None
    assert page.evaluate("document.activeElement.value") == "30"


@pytest.mark.browser
def test_charts_fit_into_every_width(page):
    inside = "panel => [...panel.querySelectorAll('.chart')].every((one) => one.scrollWidth <= one.clientWidth + 1)"
    for width in (390, 1024, 1280, 1920):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.locator("#panel-metrics").evaluate(inside), width


@pytest.mark.browser
def test_quiet_time_hides_the_charts_as_soon_as_it_hides_the_cluster(page, sampled, ada, her_browser):
    services.begin_quiet(session=sampled, actor=ada)
    her_browser.refresh(page)
    page.wait_for_selector("#panel-nodes[data-quiet]")
    expect(page.locator(".middle")).not_to_contain_text("train-0", timeout=10_000)
    expect(page.locator("#panel-metrics")).to_contain_text("Not shown in quiet time")


@pytest.mark.browser
def test_presenting_hides_the_charts(page):
    assert "train-0" in visible_text(page)
    page.keyboard.press("p")
    page.wait_for_selector(".presenting-bar:visible")
    assert "train-0" not in visible_text(page)
    assert "GPU utilisation" not in visible_text(page)
