"""Composing an interview in a real browser, running it, and rating it blind by two people."""

from __future__ import annotations

import pytest
from django.test import Client
from playwright.sync_api import expect

from faults.models import Cluster, FaultRun, Scenario, ScenarioVersion
from sessions import clock, services
from sessions.models import InterviewSession, Question, QuestionVersion
from sessions.tests.browser_site import chromium, site  # noqa: F401 - a fixture

pytestmark = pytest.mark.browser
MAX_CLICKS = 20
GRACES = "Grace heard half of it"
PATIENCE = 60_000  # milliseconds that a busy machine may take; nothing is waited for that long


@pytest.fixture(autouse=True)
def patience():
    """Let the machine take its time."""
    expect.set_options(timeout=PATIENCE)
    yield
    expect.set_options(timeout=5_000)


@pytest.fixture
def catalogue(scenario_version, question_version):
    """Three scenarios of 20 minutes, and six questions besides the one that there is."""
    for number in (2, 3):
        ScenarioVersion.objects.create(
            scenario=Scenario.objects.create(slug=f"twin-{number}"),
            number=1,
            digest=f"twin-{number}",
            files={
                name: text.replace("slug: architecture-mismatch", f"slug: twin-{number}").replace(
                    "ml-training", f"ml-twin-{number}"
                )
                for name, text in scenario_version.files.items()
            },
            title=f"Twin {number}",
            category="Workload execution",
            difficulty="hard",
            minutes=20,
        )
    for number in range(6):
        question = Question.objects.create(
            bank=question_version.question.bank, key=f"q{number}", category="GPUs", kind="bare", tags=["mig"]
        )
        QuestionVersion.objects.create(question=question, number=1, digest=f"q{number}", title=f"Question {number}?")


@pytest.fixture
def screen(chromium, client, ada):  # noqa: F811
    client.force_login(ada)
    with site(chromium, client) as found:
        yield found


class Hand:
    """A hand that counts its clicks."""

    def __init__(self, page):
        self.page, self.clicks = page, 0

    def click(self, locator):
        """Click, and wait for what it does."""
        self.clicks += 1
        locator.click()

    def add(self, title):
        """Add what has this title, and see it in the outline."""
        self.click(self.page.get_by_role("button", name=f"Add {title}"))
        expect(self.page.locator("#outline")).to_contain_text(title)


def compose(screen) -> Hand:
    """Compose 90 minutes of three scenarios and six questions, with grace beside ada."""
    hand = Hand(screen.open("/sessions/new/"))
    page = hand.page
    hand.click(page.get_by_role("link", name="Compose"))
    page.get_by_label("Candidate's name").fill("Noor Haddad")
    hand.click(page.get_by_label("grace"))
    for title in ("A training job that never starts", "Twin 2", "Twin 3"):
        hand.add(title)
    hand.click(page.get_by_role("button", name="Add a part"))
    expect(page.get_by_label("Title of part 2")).to_be_visible()
    page.get_by_label("Search").fill("mig")
    expect(page.locator("#results [role=status]")).to_have_text("6 of 10")
    for number in range(6):
        hand.add(f"Question {number}?")
    expect(page.locator("#total")).to_have_text("90 min in 2 parts")
    return hand


def test_ninety_minutes_are_composed_in_under_twenty_clicks_and_rated_blind(
    screen,
    chromium,  # noqa: F811
    catalogue,
    ada,
    grace,
    time,
):
    hand = compose(screen)
    hand.click(hand.page.get_by_role("button", name="Save as a draft"))
    expect(hand.page.get_by_role("heading", name="Noor Haddad")).to_be_visible()
    assert hand.clicks < MAX_CLICKS
    session = InterviewSession.objects.get()
    assert (session.minutes, session.scenarios.count(), session.questions.count()) == (90, 3, 6)
    begin(session, ada)
    her_client = Client()
    her_client.force_login(grace)
    with site(chromium, her_client) as hers:
        pages = {user: one.open(f"/sessions/{session.uuid}/") for user, one in ((ada, screen), (grace, hers))}
        record(pages[grace], GRACES, "2")
        record(pages[ada], "Ada heard all of it", "4")
        screen.refresh(pages[ada])
        assert GRACES not in pages[ada].content()
        services.end(session=InterviewSession.objects.get(), actor=ada)
        for user, one in ((ada, screen), (grace, hers)):
            page = one.open(f"/sessions/{session.uuid}/scorecard/")
            assert (GRACES in page.content()) is (user == grace)
            submit(one.open(f"/sessions/{session.uuid}/"))
        for one in (screen, hers):
            content = one.open(f"/sessions/{session.uuid}/scorecard/").content()
            assert GRACES in content
            assert "Ada heard all of it" in content


def begin(session, ada):
    """Bring a draft to where its faults are active, in a cluster that nobody built, and start the clock."""
    session = services.prepare(session=session, actor=ada)
    session.cluster = Cluster.objects.create(name="gpu-test", tier="practice")
    active = {"cluster": session.cluster, "status": FaultRun.Status.ACTIVE, "symptom_at": clock.now()}
    for row in session.scenarios.all():
        row.run = FaultRun.objects.create(scenario_version=row.scenario_version, **active)
        row.save()
    session.environment = FaultRun.objects.create(purpose=FaultRun.Purpose.ENVIRONMENT, **active)
    session.state = InterviewSession.State.READY
    session.save()
    services.start(session=session, actor=ada)


def record(page, answer, level):
    """Ask the first question, note the answer and rate it; rate the safety of the whole interview."""
    page.get_by_role("tab", name="Questions").click()
    question = page.locator("details.question").first
    question.locator("summary").first.click()
    question.get_by_role("button", name="Mark as asked").click()
    expect(page.locator("#asked")).to_contain_text("1 of 6 asked by me")
    question.get_by_label("Answer, as I heard it").fill(answer)
    question.get_by_text("Rate the answer").click()
    question.locator(f'input[name="level"][value="{level}"]').check()
    expect(page.locator("#asked")).to_contain_text("1 rated")
    expect(question.locator(".saved")).to_contain_text("Saved")
    page.get_by_role("tab", name="Score").click()
    safety = page.locator("#criterion-interview-safety")
    safety.locator(f'input[name="level"][value="{level}"]').check()
    expect(page.locator("#rated")).to_contain_text("1 of 22 criteria rated")


def submit(page):
    page.get_by_text("Yes", exact=True).first.click()
    page.locator("#do-submit").click()
    page.get_by_label("I submit with").check()
    page.locator("#do-confirm").click()
    expect(page.locator("#assessment")).to_contain_text("Submitted")


def rows_of(page) -> list[str]:
    """Return what the form would send as its outline."""
    return page.locator('#outline [name="row"]').evaluate_all("all => all.map((one) => one.value)")


def test_entries_and_parts_are_dragged_and_moved_by_keyboard(screen, catalogue):
    page = screen.open("/sessions/new/?compose")
    hand = Hand(page)
    for title in ("Twin 2", "Twin 3"):
        hand.add(title)
    page.get_by_role("button", name="Add a part").click()
    expect(page.locator("[data-part]")).to_have_count(2)
    page.locator("#entry-s-twin-2 [data-grip]").drag_to(page.locator("#part-p2 [data-entries]"))
    expect(page.locator("#part-p2")).to_contain_text("Twin 2")
    assert rows_of(page) == ["part:p1", "s:twin-3", "part:p2", "s:twin-2"]
    page.locator("#part-p2 > .strip [data-grip]").first.drag_to(
        page.locator("#part-p1 > .strip").first, target_position={"x": 60, "y": 2}
    )
    expect(page.locator("[data-part]").first).to_contain_text("Twin 2")
    assert rows_of(page) == ["part:p2", "s:twin-2", "part:p1", "s:twin-3"]

    page.locator("#down-s-twin-2").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#said")).to_contain_text("is now 1 of 2 in part 2")
    assert rows_of(page) == ["part:p2", "part:p1", "s:twin-2", "s:twin-3"]
    expect(page.locator("#down-s-twin-2")).to_be_focused()
    page.locator("#minutes-p1").fill("30")
    expect(page.locator("#total")).to_contain_text("30")
    expect(page.locator("#part-p1 [data-sum]")).to_have_text(
        "40 min of scenarios and questions, 10 more than the part has"
    )


def test_what_is_pressed_and_typed_before_an_answer_has_come_counts(screen, catalogue):
    page = screen.open("/sessions/new/?compose")
    page.evaluate("""() => {
      for (const slug of ["twin-2", "twin-3"]) document.querySelector(`#found-s-${slug} [name="do"]`).click();
      document.getElementById("part-add").click();
      document.getElementById("title-p1").value = "Warm up";
    }""")
    expect(page.get_by_label("Title of part 2")).to_be_visible()
    assert rows_of(page) == ["part:p1", "s:twin-2", "s:twin-3", "part:p2"]
    expect(page.get_by_label("Title of part 1")).to_have_value("Warm up")


def test_whoever_adds_by_keyboard_goes_on_with_the_next_one_where_the_list_was(screen, catalogue):
    page = screen.open("/sessions/new/?compose")
    add = page.get_by_role("button", name="Add Question 3?")
    add.scroll_into_view_if_needed()
    far = page.locator(".results").evaluate("list => list.scrollTop")
    assert far > 0
    add.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#outline")).to_contain_text("Question 3?")
    expect(page.get_by_role("button", name="Add Question 4?")).to_be_focused()
    assert page.locator(".results").evaluate("list => list.scrollTop") == pytest.approx(far, abs=40)
    page.keyboard.press("Enter")
    expect(page.locator("#outline")).to_contain_text("Question 4?")


def test_a_question_is_read_in_place(screen, catalogue):
    QuestionVersion.objects.update(expected_answer="A **majority**.")
    page = screen.open("/sessions/new/?compose")
    page.locator("#results summary", has_text="Question 0?").click()
    expect(page.locator("#results .preview strong")).to_have_text("majority")
    expect(page.locator("#outline [data-part]")).to_have_count(1)
