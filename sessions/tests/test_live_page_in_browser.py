"""The live page in a real browser: what stands where, patched rows, the connection lamp, and toasts.

Each opening of the page takes half a second of computing, and a browser two: one file for all, and few pages.
"""

from __future__ import annotations

import orjson
import pytest
from playwright.sync_api import expect

from sessions import clock, panels, services
from sessions.live import LiveState, NodeRow, PodRow
from sessions.models import Question, QuestionVersion
from sessions.panels.drawing import change
from sessions.tests.browser_site import WIDTHS, chromium, site  # noqa: F401 - a fixture

pytestmark = pytest.mark.browser
NODE = "gke-ml-prod-h100-pool-dc7b37a5-{}"
NAMES = ("timeline", "hints")
SHOWN_AND_WANTED = r"""([name, html]) => {
  const holder = document.createElement("div");
  holder.innerHTML = html;
  holder.firstElementChild.removeAttribute("hx-swap-oob");
  for (const row of document.querySelectorAll(".is-changed")) row.classList.remove("is-changed");
  const plain = (one) => one.outerHTML.replaceAll(' class=""', "").replace(/\s+/g, " ").replaceAll("> <", "><");
  return [document.getElementById(`panel-${name}`), holder.firstElementChild].map(plain);
}"""
WATCH = """() => {
  window.words = [];
  const words = document.querySelector("[data-words]");
  const note = () => words.textContent && window.words.push(words.textContent);
  new MutationObserver(note).observe(words, { childList: true });
}"""
GUTTER = """(rows) => Math.min(...rows.map((row) => {
  const right = (one) => one.getBoundingClientRect().right;
  return right(row) - Math.max(...[...row.querySelectorAll(":scope > .row > *:not(.opt-2)")].map(right));
}))"""
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


def test_gpus_the_broken_pod_and_the_candidate_are_seen_without_scrolling_and_all_fits_a_phone(page):
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
    resize(page, 390)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert box(page, ".who")["width"] >= 100


def test_the_model_of_the_gpus_keeps_clear_of_the_edge_of_its_cell_on_a_phone(page):
    resize(page, 390)
    wide = "(all) => { for (const one of all) one.style.inlineSize = '110px'; }"  # as eight GPUs with readings are
    page.locator(".nodes .cells").evaluate_all(wide)
    assert page.locator(".nodes > li").evaluate_all(GUTTER) >= 12


def test_the_buttons_of_the_fault_dialog_are_seen_without_scrolling(page):
    resize(page, 390)
    effects = '<h2 tabindex="-1" autofocus>Inject a fault</h2>' + "<p>An effect.</p>" * 100
    tall = f'{effects}<div class="actions"><button id="probe">Inject</button></div>'
    page.locator("#gpu-fault").evaluate("(one, html) => { one.innerHTML = html; }", tall)
    page.locator("#gpu-fault-dialog").evaluate("(dialog) => dialog.showModal()")
    expect(page.locator("#probe")).to_be_in_viewport(ratio=1)


def test_each_pod_takes_one_line_in_which_the_end_of_its_name_is_seen(page):
    for width in (1280, 1366, 1440, 1600, 1920):
        resize(page, width)
        heights = page.locator("#panel-pods tbody tr").evaluate_all("rows => rows.map((row) => row.offsetHeight)")
        assert len(heights) == 12
        assert max(heights) <= 32, width
        cut = page.locator("#panel-pods").evaluate("panel => panel.scrollWidth > panel.clientWidth")
        assert not cut, width
    long_names_are_cut_in_the_middle(page)
    the_end_of_a_short_name_is_seen_beside_its_mark(page)


def long_names_are_cut_in_the_middle(page):
    resize(page, 1280)
    tail = page.locator("#panel-pods td.name .ends > :last-child").nth(1)
    assert tail.inner_text() == "-7c9f8-00000"
    cell = page.locator("#panel-pods td.name").nth(1).bounding_box()
    assert tail.bounding_box()["x"] + tail.bounding_box()["width"] <= cell["x"] + cell["width"]


def the_end_of_a_short_name_is_seen_beside_its_mark(page):
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


class Connection:
    """The WebSocket of one page, whose messages the test sends."""

    def __init__(self, context) -> None:
        self.socket = None
        context.route_web_socket(lambda url: True, self._accept)

    def _accept(self, socket):
        self.socket = socket

    def send(self, seq, **message):
        self.socket.send(orjson.dumps({"seq": seq, **message}, option=orjson.OPT_NON_STR_KEYS).decode())


def drawn(session):
    fresh = type(session).objects.get(pk=session.pk)
    return {name: panels.draw(fresh, name, panels.INTERVIEWER, None) for name in NAMES}


def test_a_page_whose_rows_were_patched_shows_what_a_fresh_one_shows(ada_at_her_screen, ada, live, time):
    before = drawn(live)
    time.advance(10)
    services.release_hint(scenario=live.scenarios.get(), index=0, actor=ada)
    services.add_note(session=live, text="Reads the events first", actor=ada)
    after = drawn(live)
    changes = {name: change(before[name], after[name]) for name in NAMES}
    whole = [name for name, found in changes.items() if not isinstance(found, dict)]
    assert not whole, f"panels went whole: {whole}"
    connection = Connection(ada_at_her_screen.context)
    page = ada_at_her_screen.open(f"/sessions/{live.uuid}/")
    page.wait_for_function("document.querySelector('[data-live]') !== null")
    connection.send(1, all="".join(drawing.html() for drawing in before.values()))
    connection.send(2, panels=changes)
    page.wait_for_function("document.getElementById('panel-timeline').textContent.includes('Note taken')")
    for name in NAMES:
        shown, wanted = page.evaluate(SHOWN_AND_WANTED, [name, after[name].html()])
        assert shown == wanted, name


def test_the_lamp_says_for_how_long_there_was_no_connection_and_does_not_waver(ada_at_her_screen, live):
    page = ada_at_her_screen.context.new_page()
    page.clock.install()
    page.goto(f"/sessions/{live.uuid}/")
    page.evaluate(WATCH)
    page.clock.run_for(6_000)
    expect(page.locator("[data-words]")).to_have_text("Polling every 5 s")
    page.evaluate("window.words.length = 0; window.fetch = () => Promise.reject(new TypeError('no network')); 0")
    for _ in range(75):
        page.clock.run_for(1_000)
    told = page.evaluate("window.words")
    assert told == ["Not connected for 10 s", "Not connected for 20 s", "Not connected for 30 s"] + [
        "Not connected for 40 s", "Not connected for 50 s", "Not connected for 1 min"
    ]  # fmt: skip


def test_an_error_stays_until_something_has_gone_through_or_it_is_dismissed(ada_at_her_screen, live, ada):
    page = ada_at_her_screen.open(f"/sessions/{live.uuid}/")
    refused = page.locator("#toasts .toast[data-error]")
    button = page.get_by_role("button", name="+5 min")
    page.evaluate("document.querySelector('#do-extend').form.elements.minutes.value = 0")
    button.click()
    expect(refused).to_have_count(1)
    refused.get_by_role("button", name="Dismiss").click()
    expect(refused).to_have_count(0)
    page.evaluate("document.querySelector('#do-extend').form.elements.minutes.value = 0")
    button.click()
    expect(refused).to_have_count(1)
    page.evaluate("document.querySelector('#do-extend').form.elements.minutes.value = 5")
    button.click()
    expect(refused).to_have_count(0)
    assert live.clock_entries.filter(kind="extend").count() == 1


def test_what_is_told_to_have_gone_well_is_gone_after_some_seconds(ada_at_her_screen, ended, ada):
    own = services.save_assessment(session=ended, actor=ada, version=0, overall="yes", takeaways="Calm")
    page = ada_at_her_screen.context.new_page()
    page.clock.install()
    page.goto(f"/sessions/{ended.uuid}/assessment/review/")
    page.get_by_label("I submit with").check()
    page.locator("#do-confirm").click()
    told = page.locator("#toasts .toast")
    expect(told).to_have_text("Your assessment is submitted.")
    page.clock.run_for(9_000)
    expect(told).to_have_count(0)
    own.refresh_from_db()
    assert own.submitted_at is not None
