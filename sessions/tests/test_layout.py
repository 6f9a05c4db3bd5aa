"""Positions on the screen, in a real browser."""

from __future__ import annotations

import pytest

from sessions import clock, panels
from sessions.live import LiveState, NodeRow, PodRow
from sessions.models import Question, QuestionVersion
from sessions.tests.browser_site import WIDTHS, chromium, site  # noqa: F401 - a fixture

pytestmark = pytest.mark.browser
NODE = "gke-ml-prod-h100-pool-dc7b37a5-{}"
WIDE = [width for width in WIDTHS if width >= 1024]


@pytest.fixture
def many_questions(live, question_version):
    """The live session with 25 more questions, each with a long title."""
    bank = question_version.question.bank
    for number in range(25):
        question = Question.objects.create(bank=bank, key=f"q{number}", category="Basics", kind=Question.Kind.FULL)
        version = QuestionVersion.objects.create(question=question, number=1, digest=f"q{number}", title="Why? " * 30)
        live.questions.create(question_version=version, position=number + 1, part=0)
    return live


@pytest.fixture
def ada_at_her_screen(chromium, client, ada):  # noqa: F811
    client.force_login(ada)
    with site(chromium, client) as found:
        yield found


@pytest.fixture
def page(ada_at_her_screen, many_questions):
    """The live page with three nodes and twelve pods, one of them broken."""
    ada_at_her_screen.sends_snapshots = False
    page = ada_at_her_screen.open(f"/sessions/{many_questions.uuid}/")
    names = [f"inference-gateway-shadow-traffic-7c9f8-{number:05}" for number in range(11)]
    crash = PodRow(
        *("ml", "zz-train-x2lp4", "0/1", "CrashLoopBackOff", 3, NODE.format("0"), clock.now(), "back-off " * 20, 1),
        *(True, True),
    )
    fine = [PodRow("ml", name, "1/1", "Running", 0, NODE.format("1"), clock.now(), "", 0, False) for name in names]
    nodes = [NodeRow(NODE.format(n), True, True, "amd64", "NVIDIA-H100-80GB-HBM3", 8, n, "", "") for n in range(3)]
    state = LiveState(pods=[crash, *fine], nodes=nodes, synced_at=clock.now())
    for name in ("nodes", "pods"):
        html = panels.render(many_questions, name, panels.INTERVIEWER, state)
        page.evaluate("([id, html]) => { document.getElementById(id).outerHTML = html; }", [f"panel-{name}", html])
    return page


def resize(page, width):
    page.set_viewport_size({"width": width, "height": WIDTHS[width]})


def box(page, selector):
    return page.locator(selector).first.bounding_box()


def test_gpus_the_broken_pod_and_the_candidate_are_seen_without_scrolling(page):
    for width in WIDE:
        resize(page, width)
        below = box(page, ".desk > .time")["y"]
        nodes, name, card = box(page, "#panel-nodes"), box(page, ".who"), box(page, "#join-link")
        assert nodes["y"] + nodes["height"] <= below, width
        assert name["width"] >= 100, width
        assert card["y"] + card["height"] <= below, width
        if width >= 1280:
            first = box(page, "#panel-pods tbody tr")
            assert first["y"] + first["height"] <= below, width
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_every_pod_takes_one_line(page):
    for width in (1280, 1366, 1440, 1600, 1920):
        resize(page, width)
        heights = page.locator("#panel-pods tbody tr").evaluate_all("rows => rows.map((row) => row.offsetHeight)")
        assert len(heights) == 12
        assert max(heights) <= 32, width
        cut = page.locator("#panel-pods").evaluate("panel => panel.scrollWidth > panel.clientWidth")
        assert not cut, width


def test_long_names_are_cut_in_the_middle(page):
    resize(page, 1280)
    tail = page.locator("#panel-pods td.name .ends > :last-child").nth(1)
    assert tail.inner_text() == "-7c9f8-00000"
    cell = page.locator("#panel-pods td.name").nth(1).bounding_box()
    assert tail.bounding_box()["x"] + tail.bounding_box()["width"] <= cell["x"] + cell["width"]


def test_the_end_of_a_short_name_is_seen_beside_its_mark(page):
    for width in (1280, 1366, 1440, 1600, 1920):
        resize(page, width)
        name, mark = box(page, "#panel-pods td.name .ends > :last-child"), box(page, "#panel-pods td.name .tag")
        assert page.locator("#panel-pods td.name .ends > :last-child").first.inner_text() == "-x2lp4"
        assert name["width"] > 30, width
        assert name["x"] + name["width"] <= mark["x"], width
    cell = page.locator("#panel-pods td.name").first
    assert cell.get_attribute("title") == "ml/zz-train-x2lp4"
    assert cell.locator(".sr").inner_text() == "zz-train-x2lp4"


def test_the_rubric_stays_where_it_is_while_criteria_are_rated(page):
    for width in (1024, 1280):
        resize(page, width)
        before = box(page, "#panel-rubric h3")["y"]
        page.evaluate("document.getElementById('rated').textContent = '12 of 12 criteria rated, 11 without evidence'")
        assert box(page, "#panel-rubric h3")["y"] == before
        page.evaluate("document.getElementById('rated').textContent = '0 of 5 criteria rated'")


def test_the_live_page_fits_a_phone(page):
    resize(page, 390)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert box(page, ".who")["width"] >= 100
