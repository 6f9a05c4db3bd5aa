"""Promises of pages beyond the plain walk: the keyboard alone, a network that fails, people who come and go."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess

import pytest
from playwright.sync_api import TimeoutError as PlaywrightTimeout
from playwright.sync_api import expect

from e2e.conftest import ADDRESS, CHROMIUM_ARGS, chromium_path
from e2e.people import PATIENCE, Person, kubectl_path
from e2e.relay import Relay
from e2e.test_whole_interview import NO_KUBECTL, from_the_demo_plan_to_live, sign_in, the_candidate_joins

pytestmark = [pytest.mark.browser, pytest.mark.kubectl]
MOST_REQUESTS = 12
MOST_BYTES = 80_000
# What a browser says by itself when the network or the server is away on purpose.
OUTAGE = re.compile(r"ERR_|WebSocket|htmx:(sendError|afterRequest|sendAbort)|409|422")
GRACE_AND_A_LIVE_SESSION = """
from django.contrib.auth.models import User
from sessions.models import InterviewSession
User.objects.create_user("grace", password="a-long-password")
ada = User.objects.get(username="interviewer")
found = InterviewSession.objects.create(owner=ada, candidate_name="Sam", title="t", minutes=60, state="live")
print(found.uuid)
"""


@pytest.fixture
def ada(browser, installation):
    person = Person(browser, installation.url)
    sign_in(person, installation)
    yield person
    assert [problem for problem in person.problems if not OUTAGE.search(problem)] == []


@pytest.fixture
def candidate(browser, installation):
    person = Person(browser, installation.url)
    yield person
    assert [problem for problem in person.problems if not OUTAGE.search(problem)] == []


@pytest.fixture(scope="module")
def live_session(installation):
    """A live session that no cluster was made for; and grace, a second interviewer."""
    made = installation.manage("shell", "-v0", "-c", GRACE_AND_A_LIVE_SESSION)
    assert made.returncode == 0, made.stderr
    return made.stdout.strip()


@pytest.fixture
def grace(browser, installation, live_session):
    """A second interviewer, who exists only here."""
    person = Person(browser, installation.url)
    person.page.goto("/")
    person.page.get_by_label("User name").fill("grace")
    person.page.get_by_label("Password").fill("a-long-password")
    person.page.get_by_role("button", name="Sign in").click()
    return person


def in_sync(person):
    expect(person.page.locator("[data-words]")).to_have_text("In sync", timeout=30_000)


def focus(person) -> str:
    return person.page.evaluate("document.activeElement.id || document.activeElement.tagName")


def press(person, *keys):
    for key in keys:
        person.page.keyboard.press(key)


@pytest.mark.skipif(kubectl_path() is None, reason=NO_KUBECTL)
def test_people_quiet_time_credit_and_outages(ada, candidate, grace, installation, tmp_path):
    ada.click("New session", role="link")
    link = from_the_demo_plan_to_live(ada)
    assert "Live: Noor Haddad" in ada.page.title()
    expect(ada.page.locator("#join-link")).to_contain_text("Not joined yet")
    kubectl, job = the_candidate_joins(candidate, link, tmp_path)
    the_card_and_the_watchers_follow(ada, candidate, grace, link)
    the_workloads_are_shown(ada, job)
    quiet_time_hides_the_cluster(ada, candidate, job)
    lost_time_is_credited(ada)
    the_time_line_leads_to_its_entries(ada)
    the_clock_warns_aloud(ada)
    nothing_typed_is_lost(ada)
    the_page_recovers_when_the_web_process_dies(ada, candidate, kubectl, installation)
    a_page_is_small(ada)


def the_card_and_the_watchers_follow(ada, candidate, grace, link):
    card = ada.page.locator("#join-link")
    expect(card).to_contain_text("On the page.", timeout=PATIENCE)
    expect(ada.page.locator("#join-url")).to_be_hidden()
    watchers = candidate.page.locator("#panel-watchers")
    expect(watchers).to_contain_text("interviewer is watching now", timeout=PATIENCE)
    assert grace.page.goto(ada.page.url).status == 404
    ada.page.goto("about:blank")
    expect(watchers).to_contain_text("Nobody is watching right now", timeout=PATIENCE)
    ada.page.go_back()
    in_sync(ada)
    expect(watchers).to_contain_text("interviewer is watching now", timeout=PATIENCE)


def the_workloads_are_shown(ada, job):
    row = ada.page.locator("#panel-workloads tr", has_text=job)
    expect(row).to_contain_text("0/1 completions", timeout=PATIENCE)


def open_the_menu(person):
    """Open it where it is closed: a header that was pushed meanwhile may have kept it open."""
    if not person.page.locator("#more-actions").evaluate("menu => menu.open"):
        person.page.locator("#more-actions > summary").click()


def quiet_time_hides_the_cluster(ada, candidate, job):
    menu = ada.page.locator("#more-actions > summary")
    menu.focus()
    press(ada, "Enter", "Tab", "Enter")
    expect(ada.page.locator("#panel-pods")).to_contain_text("Not shown in quiet time", timeout=PATIENCE)
    expect(ada.page.locator(".middle")).not_to_contain_text(job)
    expect(candidate.page.locator("#panel-watchers")).to_contain_text("Nobody sees the cluster", timeout=PATIENCE)
    assert focus(ada) != "BODY"
    ada.picture("20-quiet")
    ada.check_access("20-quiet")
    candidate.picture("21-candidate-quiet")
    open_the_menu(ada)
    ada.click("End quiet time")
    expect(ada.page.locator("#panel-pods")).to_contain_text(job, timeout=PATIENCE)


def lost_time_is_credited(ada):
    before = int(ada.page.locator("[data-clock=remaining]").get_attribute("data-budget"))
    open_the_menu(ada)
    ada.click("Credit lost time")
    ada.click("Credit the time")
    ada.see("Say how many minutes.")
    ada.picture("22-credit")
    ada.page.get_by_label("Minutes", exact=True).fill("4")
    ada.page.get_by_label("What failed").fill("The cluster did not answer")
    ada.click("Credit the time")
    expect(ada.page.locator("#credit-dialog")).to_be_hidden()
    clock = ada.page.locator("[data-clock=remaining]")
    expect(clock).to_have_attribute("data-budget", str(before + 240_000), timeout=PATIENCE)


def the_time_line_leads_to_its_entries(ada):
    expect(ada.page.locator("#panel-timeline")).to_contain_text("Time credited: 4 min", timeout=PATIENCE)
    ada.page.locator("svg [data-moment]").last.locator(".target").click()
    expect(ada.page.locator("#all-moments tr:focus")).to_contain_text("Time credited", timeout=PATIENCE)
    ada.picture("23-moments")
    ada.page.locator("#all-moments > summary").click()


NEARLY_OVER = """() => {
  const clock = document.querySelector("[data-clock=remaining]");
  const left = clock.textContent.split(":").map(Number).reduce((sum, part) => sum * 60 + part, 0) * 1000;
  clock.dataset.budget = String(Number(clock.dataset.budget) - left + 5 * 60000 + 900);
}"""
WARNED = """() => document.querySelector(".clock.low")
  && [...document.querySelectorAll("[role=status]")].some((each) => each.textContent.includes("5 minutes left."))"""


def the_clock_warns_aloud(ada):
    """The clock's own numbers are moved: nobody waits three quarters of an hour for a test.

    A frame from the server puts them right again, at any moment; then they are moved once more.
    """
    for _ in range(5):
        ada.page.evaluate(NEARLY_OVER)
        with contextlib.suppress(PlaywrightTimeout):
            ada.page.wait_for_function(WARNED, timeout=4000)
            break
    else:
        pytest.fail("the clock never warned")
    ada.page.reload()
    in_sync(ada)


def nothing_typed_is_lost(ada):
    page = ada.page
    form = page.locator("form.criterion").first
    press(ada, "j", "3")
    expect(form.get_by_role("radio").nth(2)).to_be_checked()
    expect(page.locator("#rated")).to_contain_text("1 without evidence", timeout=PATIENCE)
    ada.context.set_offline(True)
    form.get_by_role("textbox").fill("Read the log while the network was away")
    expect(form.locator(".saved")).to_contain_text("Not saved yet: no connection", timeout=PATIENCE)
    ada.context.set_offline(False)
    expect(form.locator(".saved")).to_have_text(re.compile("Saved"), timeout=PATIENCE)
    another_tab_saves_first(ada, form)
    page.get_by_role("tab", name="Questions").click()
    question = page.locator("details.question").first
    question.locator("summary").first.click()
    question.get_by_role("textbox").fill("Device plugin")
    question.get_by_role("button", name="Mark as asked").click()
    expect(question.locator(".chip")).to_be_visible(timeout=PATIENCE)
    expect(question.get_by_role("textbox")).to_have_value("Device plugin")
    page.reload()
    in_sync(ada)
    expect(page.locator("details.question").first.locator("textarea")).to_have_value("Device plugin")


def another_tab_saves_first(ada, form):
    elsewhere = ada.context.browser.new_context(storage_state=ada.context.storage_state())  # tabs here would follow
    tab = elsewhere.new_page()
    tab.goto(ada.page.url)
    other = tab.locator("form.criterion").first
    other.get_by_role("textbox").fill("From the other tab")
    expect(other.locator(".saved")).to_have_text(re.compile("Saved"), timeout=PATIENCE)
    elsewhere.close()
    form.get_by_role("textbox").fill("Mine")
    expect(form.locator(".saved")).to_contain_text("From the other tab", timeout=PATIENCE)
    assert form.get_by_role("textbox").input_value() == "Mine"
    form.get_by_role("button", name="Save mine").click()
    expect(form.locator(".saved")).to_have_text(re.compile("Saved"), timeout=PATIENCE)


def the_page_recovers_when_the_web_process_dies(ada, candidate, kubectl, installation):
    os.kill(web_process(installation), signal.SIGKILL)
    expect(ada.page.locator("[data-words]")).not_to_have_text("In sync", timeout=PATIENCE)
    assert kubectl("run while-away --image=python:3.9-slim --command -- sleep 3600").returncode == 0
    in_sync(ada)
    expect(ada.page.locator("#panel-pods")).to_contain_text("while-away", timeout=PATIENCE)
    expect(candidate.page.locator("#panel-watchers")).to_contain_text("is watching now", timeout=PATIENCE)


def web_process(installation) -> int:
    """Return the process id of the installation's web server."""
    found = subprocess.run(
        ["pgrep", "-f", f"uvicorn.*--port {installation.env['PORT']}"], capture_output=True, text=True, check=True
    )
    return int(found.stdout.split()[0])


def a_page_is_small(ada):
    sizes, requests = [], []
    page = ada.context.new_page()
    network = ada.context.new_cdp_session(page)
    network.send("Network.enable")
    network.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"]))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(ada.page.url)
    expect(page.locator("[data-words]")).to_have_text("In sync", timeout=PATIENCE)
    page.wait_for_load_state("networkidle")
    assert len(requests) <= MOST_REQUESTS, requests
    assert sum(sizes) <= MOST_BYTES
    page.close()


def test_the_lamp_and_the_buttons_tell_of_a_network_that_swallows_everything(browser, installation, live_session):
    port = int(installation.env["PORT"])
    relay = Relay(ADDRESS, port)
    mapped = [*CHROMIUM_ARGS, f"--host-resolver-rules=MAP {ADDRESS}:{port} {ADDRESS}:{relay.port}"]
    with browser.browser_type.launch(executable_path=chromium_path(), args=mapped) as other:
        person = Person(other, installation.url)
        sign_in(person, installation)
        person.page.goto(f"/sessions/{live_session}/")
        in_sync(person)
        relay.swallow.set()
        expect(person.page.locator("[data-words]")).to_have_text(re.compile("^Not connected"), timeout=PATIENCE)
        person.click("Pause")
        person.see("Not connected: this waits for the server")
        relay.swallow.clear()
        in_sync(person)
    relay.close()


def test_the_keyboard_alone_gets_through_an_interview(ada):
    page = ada.page
    page.goto("/sessions/new/")
    page.get_by_role("link", name="Use plan").first.focus()
    press(ada, "Enter")
    page.get_by_label("Candidate").first.wait_for()
    page.keyboard.type("Kim Ito")
    press(ada, "Enter")
    page.locator("#do-start").wait_for(timeout=60_000)
    tab_to(ada, "do-join-link")
    press(ada, "Enter")
    page.locator("#join-url").wait_for()
    assert focus(ada) != "BODY"
    page.locator("#do-start").focus()
    press(ada, "Enter")
    page.locator("#do-pause").wait_for()
    in_sync(ada)
    for name, other in (("do-pause", "do-resume"), ("do-resume", "do-pause")):
        tab_to(ada, name)
        press(ada, "Enter")
        page.locator(f"#{other}").wait_for()
        expect(page.locator(f"#{other}")).to_be_focused(timeout=PATIENCE)
    press(ada, "j", "2", "j", "4", "k", "1")
    expect(page.locator("#rated")).to_contain_text("2 of", timeout=PATIENCE)
    press(ada, "h")
    assert focus(ada) == "tab-hints"
    page.locator("#panel-hints summary").first.focus()
    # As on a busy machine: what had the focus before wants it back meanwhile.
    page.evaluate("htmx.config.defaultSettleDelay = 3000")
    press(ada, "Enter", "Tab", "Enter")
    expect(page.locator("#panel-hints .chip")).to_have_count(1, timeout=PATIENCE)
    expect(page.locator("#panel-hints:focus-within")).to_have_count(1, timeout=PATIENCE)
    press(ada, "n")
    page.keyboard.type("By keyboard")
    press(ada, "Control+Enter")
    ada.see("By keyboard")
    expect(page.locator("#id_note_text")).to_be_focused(timeout=PATIENCE)
    tab_to(ada, "open-end")
    press(ada, "Enter", "Enter")
    ada.see("My assessment")


def tab_to(person, wanted, most=80):
    """Press Tab until the element has the focus."""
    person.page.locator("body").press("Home")
    for _ in range(most):
        if focus(person) == wanted:
            return
        press(person, "Tab")
    raise AssertionError(f"{wanted} was not reached; the focus is on {focus(person)}")
