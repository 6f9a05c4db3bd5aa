"""Presenting, in a real browser: nothing of what gives the interview away can be read."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from faults.metrics import GpuReading
from sessions import clock, panels, selectors, services
from sessions.live import EventRow, LiveState, NodeRow, PodRow
from sessions.models import CheckState, Question, QuestionVersion
from sessions.tests.browser_site import chromium, site, visible_text  # noqa: F401 - a fixture

pytestmark = pytest.mark.browser
NOTE = "Zweifelhaft: guessed the kernel module"
FINDING = "image quay.io/arm64v8/python:3.7; pods: CrashLoopBackOff"
MESSAGE = "exec /usr/bin/python: exec format error"


@pytest.fixture
def at_work(live, scenario, question, ada):
    """A live session with findings, a note, a rating, a released hint and an answer."""
    pack = selectors.pack_for(live.scenarios.get())
    for check in (*pack.checks, *pack.guards):
        CheckState.objects.create(
            scenario=scenario, key=check.key, verdict="fail", finding=FINDING, checked_at=clock.now()
        )
    type(question.question_version).objects.update(expected_answer="A majority survives a partition.")
    services.release_hint(scenario=live.scenarios.get(), index=0, actor=ada)
    services.add_note(session=live, text=NOTE, actor=ada)
    key = pack.rubric[0].key
    services.save_rating(scenario=scenario, criterion=key, level=2, note=NOTE, version=0, actor=ada)
    services.mark_asked(question=question, actor=ada)
    return live


@pytest.fixture
def ada_at_her_screen(chromium, client, ada):  # noqa: F811
    client.force_login(ada)
    with site(chromium, client) as found:
        yield found


def cluster_of(session) -> LiveState:
    """Return a cluster in which the fault shows everywhere."""
    job = session.scenarios.get().run.parameters.get("job", "train")
    pod = PodRow("ml", f"{job}-x2lp4", "0/1", "CrashLoopBackOff", 3, "n1", clock.now(), MESSAGE, 1, True, True)
    event = EventRow(clock.now(), "Warning", "BackOff", f"Pod/{pod.name}", MESSAGE, 2, "ml")
    gpu = GpuReading("n1", "0", util=0, used_mib=0, free_mib=1, temperature=91, xid=79, pod=f"ml/{pod.name}")
    node = NodeRow("n1", True, True, "amd64", "NVIDIA-H100", 8, 1, "", "", (gpu,))
    return LiveState(pods=[pod], events=[event], nodes=[node], synced_at=clock.now())


def push(page, session):
    """Put the cluster's panels in place as a frame does."""
    for name in ("pods", "events", "nodes"):
        html = panels.render(session, name, panels.INTERVIEWER, cluster_of(session))
        page.evaluate("([id, html]) => { document.getElementById(id).outerHTML = html; }", [f"panel-{name}", html])


def words(text: str) -> set[str]:
    return {word.lower() for word in re.findall(r"[A-Za-z][\w/:.-]{3,}\w", text)}


def secrets(session) -> set[str]:
    """Return the words that only those who know the pack can say."""
    pack = selectors.pack_for(session.scenarios.get())
    told = [pack.title, pack.brief, NOTE, FINDING, MESSAGE, "injected", "amd64", "busy average"]
    told += [part for row in pack.rubric for part in (row.title, *row.anchors.values())]
    told += [check.title for check in (*pack.checks, *pack.guards)]
    told += [hint.text for hint in pack.hints]
    told += [part for one in pack.solutions for part in (one.title, *one.lines)]
    for row in session.questions.select_related("question_version"):
        told += [row.question_version.title, row.question_version.expected_answer]
    return words("\n".join(told))


def public(session, *pages: str) -> set[str]:
    """Return the words of the candidate's own page, of what kubectl lists, and of our pages without any scenario."""
    pack = selectors.pack_for(session.scenarios.get())
    objects = " ".join(str(value) for value in session.scenarios.get().run.parameters.values())
    listed = "CrashLoopBackOff BackOff Warning NVIDIA-H100 Pod/ Ready Status Restarts Reason Object and message"
    return words("\n".join([pack.statement, session.title, session.candidate_name, objects, listed, *pages]))


@pytest.fixture
def talk(time, ada, question_version):
    """A live interview without a scenario: its pages have the words of the product alone."""
    bank = question_version.question.bank
    question = Question.objects.create(bank=bank, key="talk", category="Talk", kind=Question.Kind.FULL)
    version = QuestionVersion.objects.create(question=question, number=1, digest="d2", title="Talk")
    session = services.create_session(
        owner=ada, candidate_name="Sam Doe", question_versions=[version], scenario_versions=[], minutes=60
    )
    type(session).objects.filter(pk=session.pk).update(state="ready", prepared_at=clock.now())
    return services.start(session=type(session).objects.get(pk=session.pk), actor=ada)


def start_presenting(page):
    page.keyboard.press("p")
    expect(page.locator(".presenting-bar")).to_be_visible()


def test_nothing_revealing_can_be_read_on_any_page_and_all_of_it_before(at_work, talk, ada_at_her_screen, ada):
    ada_at_her_screen.sends_snapshots = False
    empty = ada_at_her_screen.open(f"/sessions/{talk.uuid}/")
    start_presenting(empty)
    page = ada_at_her_screen.open(f"/sessions/{at_work.uuid}/")
    push(page, at_work)
    known = secrets(at_work) - public(at_work, visible_text(empty))
    assert words(visible_text(page)) & known == set()
    page.keyboard.press("p")
    assert len(words(visible_text(page)) & known) > 60
    start_presenting(page)
    for session in (talk, at_work):
        services.end(session=session, actor=ada)
        own = selectors.assessment_for(session, ada)
        services.save_assessment(session=session, actor=ada, version=own.version, overall="no", takeaways=NOTE)
    for path in ("", "assessment/review/", "scorecard/", "../new/?compose", "../../"):
        empty.goto(f"/sessions/{talk.uuid}/{path}")
        page.goto(f"/sessions/{at_work.uuid}/{path}")
        assert words(visible_text(page)) & (known - words(visible_text(empty))) == set(), path
        assert page.title() == "Faultline"


def test_what_arrives_while_presenting_is_never_drawn(at_work, ada_at_her_screen, ada):
    page = ada_at_her_screen.open(f"/sessions/{at_work.uuid}/")
    start_presenting(page)
    page.evaluate(
        """() => {
          window.drawn = "";
          const look = () => { window.drawn += `\\n${document.body.innerText}\\n${document.title}`; };
          const all = { subtree: true, childList: true, attributes: true };
          new MutationObserver(look).observe(document.documentElement, all);
        }"""
    )
    services.release_hint(scenario=at_work.scenarios.get(), index=1, actor=ada)
    services.pause(session=at_work, actor=ada)
    ada_at_her_screen.refresh(page)
    expect(page.locator("#panel-header")).to_contain_text("Paused")
    push(page, at_work)
    drawn = page.evaluate("window.drawn")
    assert "Paused" in drawn
    for secret in (FINDING, MESSAGE, NOTE, "injected", "Hint released", "Paused: Sam Doe"):
        assert secret not in drawn
    page.keyboard.press("p")
    assert page.title() == "Paused: Sam Doe · Faultline"


def test_it_survives_a_reload_and_reaches_other_tabs_and_keys_rate_nothing(at_work, ada_at_her_screen, scenario):
    first = ada_at_her_screen.open(f"/sessions/{at_work.uuid}/")
    second = ada_at_her_screen.open(f"/sessions/{at_work.uuid}/")
    start_presenting(first)
    expect(second.locator(".presenting-bar")).to_be_visible()
    expect(second.locator("#panel-rubric")).to_be_hidden()
    first.reload()
    expect(first.locator(".presenting-bar")).to_be_visible()
    expect(first.locator("[data-presenting]")).to_have_attribute("aria-pressed", "true")
    for key in ("j", "4", "n"):
        first.keyboard.press(key)
    assert list(scenario.ratings.values_list("level", flat=True)) == [2]
    second.get_by_role("button", name="Stop presenting").click()
    expect(first.locator(".presenting-bar")).to_be_hidden()
    expect(first.locator("#panel-rubric")).to_be_visible()
