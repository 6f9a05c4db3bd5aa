"""Forms and tables as people use them, in a real browser; and whether everybody can use them."""

from __future__ import annotations

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from e2e.people import AXE_OPTIONS
from sessions import selectors, services
from sessions.models import Note, QuestionVersion
from sessions.services.notes import LONGEST_NOTE
from sessions.tests.browser_site import chromium, site  # noqa: F401 - a fixture

pytestmark = pytest.mark.browser
PASTE = """field => {
  field.value = "x".repeat(200_000);
  field.dispatchEvent(new Event("input", { bubbles: true }));
}"""
RIGHT_EDGES = "all => all.map((one) => one.getBoundingClientRect().right)"


@pytest.fixture
def ada_at_her_screen(chromium, client, ada):  # noqa: F811
    client.force_login(ada)
    with site(chromium, client) as found:
        yield found


def test_a_note_that_is_too_long_is_refused_with_words_and_stays(ada_at_her_screen, live):
    page = ada_at_her_screen.open(f"/sessions/{live.uuid}/")
    page.keyboard.press("n")
    field = page.locator("#id_note_text")
    field.evaluate(PASTE)
    expect(page.locator("#panel-notes .count")).to_contain_text("200,000 characters; at most 4,000 fit")
    page.get_by_role("button", name="Add note").click()
    expect(page.locator("#note-error")).to_have_text("The note has 200000 characters; at most 4000 fit.")
    assert len(field.input_value()) == 200_000
    field.fill("y" * (LONGEST_NOTE - 10))
    expect(page.locator("#panel-notes .count")).to_have_text("3,990 of 4,000 characters")
    page.get_by_role("button", name="Add note").click()
    expect(page.locator("#panel-notes .note")).to_have_count(1)
    assert len(Note.objects.get().text) == LONGEST_NOTE - 10


def test_no_field_for_long_text_cuts_what_is_pasted(ada_at_her_screen, ended):
    for state in ("live", "ended"):
        type(ended).objects.filter(pk=ended.pk).update(state=state)
        page = ada_at_her_screen.open(f"/sessions/{ended.uuid}/")
        limits = page.locator("textarea").evaluate_all("all => all.map((one) => [one.maxLength, one.dataset.limit])")
        assert limits
        assert all(cut == -1 and int(limit) >= 4000 for cut, limit in limits)


def test_a_second_tab_follows_a_rating(ada_at_her_screen, live, scenario):
    first, second = (ada_at_her_screen.open(f"/sessions/{live.uuid}/") for _ in range(2))
    first.locator("form.criterion").first.get_by_role("radio").nth(2).check()
    expect(second.locator("form.criterion").first.get_by_role("radio").nth(2)).to_be_checked()
    expect(second.locator("#rated")).to_contain_text("1 of 10 criteria rated")
    second.locator("form.criterion").first.get_by_role("textbox").fill("Read the log.")
    expect(second.locator("form.criterion").first.locator(".saved")).to_have_text(re.compile(r"Saved\s*$"))
    expect(first.locator("form.criterion").first.get_by_role("textbox")).to_have_value("Read the log.")
    assert scenario.ratings.get().level == 3


def test_the_counter_of_asked_questions_is_right_at_once(ada_at_her_screen, live):
    page = ada_at_her_screen.open(f"/sessions/{live.uuid}/")
    page.get_by_role("tab", name="Questions").click()
    expect(page.locator("#asked")).to_have_text("0 of 1 asked by me, 0 rated")
    page.locator("details.question > summary").click()
    page.get_by_role("button", name="Mark as asked").click()
    expect(page.locator("#asked")).to_have_text("1 of 1 asked by me, 0 rated")


def test_a_record_is_saved_as_it_is_made_and_marks_the_run_of_show_for_its_writer_alone(
    ada_at_her_screen, live, question, ada
):
    QuestionVersion.objects.update(follow_ups=["And with two?", "Why odd?"])
    page, other = (ada_at_her_screen.open(f"/sessions/{live.uuid}/") for _ in range(2))
    page.get_by_role("tab", name="Questions").click()
    page.locator("details.question > summary").click()
    page.get_by_role("button", name="Mark as asked").click()
    expect(page.locator("#panel-run [data-asked-time]")).to_have_text("00:00")
    page.get_by_text("Follow-ups (2)").click()
    page.get_by_label("Why odd?").check()
    page.get_by_label("Answer, as I heard it").fill("A majority.")
    page.get_by_text("Rate the answer").click()
    page.locator(".record").get_by_role("radio").nth(2).focus()
    page.keyboard.press("3")
    expect(page.locator("#asked")).to_have_text("1 of 1 asked by me, 1 rated")
    expect(page.locator(f"#saved-q{question.pk}")).to_have_text(re.compile(r"Saved\s*$"))
    expect(other.locator(".record textarea")).to_have_value("A majority.")
    record = question.records.get()
    assert (record.answer, record.follow_ups, record.assessment.interviewer) == ("A majority.", [1], ada)
    assert question.ratings.get().level == 3
    ada_at_her_screen.refresh(page)  # a panel that is drawn for everybody keeps what is only mine
    expect(page.locator("#panel-run [data-asked-time]")).to_have_text("00:00")


def test_a_record_that_was_saved_elsewhere_first_is_chosen_between(ada_at_her_screen, live, question, ada):
    page = ada_at_her_screen.open(f"/sessions/{live.uuid}/")
    page.get_by_role("tab", name="Questions").click()
    page.locator("details.question > summary").click()
    services.save_question_record(question=question, answer="From the phone.", version=0, actor=ada)
    page.get_by_label("Answer, as I heard it").fill("From the desk.")
    expect(page.locator(".conflict")).to_contain_text("From the phone.")
    page.get_by_role("button", name="Save mine").click()
    expect(page.locator(f"#saved-q{question.pk}")).to_have_text(re.compile(r"Saved\s*$"))
    assert question.records.get().answer == "From the desk."


def test_extending_still_works_once_the_header_was_drawn_again(ada_at_her_screen, live):
    """The first page's forms hold a CSRF token; those of later frames, which everybody shares, hold none."""
    page = ada_at_her_screen.open(f"/sessions/{live.uuid}/")
    services.pause(session=live, actor=live.interviewers.first())
    ada_at_her_screen.refresh(page)
    expect(page.locator("#panel-header")).to_contain_text("Paused")
    with page.expect_response("**/extend/") as extended:
        page.get_by_role("button", name="+5 min").click()
    assert extended.value.status == 200
    assert [entry.seconds for entry in live.clock_entries.filter(kind="extend")] == [300]


def test_an_open_key_tab_names_no_solution_until_it_is_unfolded(ada_at_her_screen, live, scenario):
    page = ada_at_her_screen.open(f"/sessions/{live.uuid}/")
    page.get_by_role("tab", name="Key").click()
    pane = page.locator("#pane-key")
    titles = [solution.title for solution in selectors.pack_for(scenario).solutions]
    assert [title for title in titles if title in pane.inner_text()] == []
    pane.get_by_text("Solution 1").click()
    expect(pane).to_contain_text(titles[0])


def test_a_toast_that_is_still_shown_is_not_shown_twice(ada_at_her_screen, live):
    """Without a connection every repeated request would add another one."""
    page = ada_at_her_screen.open(f"/sessions/{live.uuid}/")
    shown = page.evaluate(
        """() => {
            document.getElementById("toasts").replaceChildren()  // a slow page says things of its own
            for (const words of ["Not connected.", "Saved.", "Not connected."]) faultline.say(words)
            return [...document.querySelectorAll("#toasts .toast > p")].map((one) => one.innerText)
        }"""
    )
    assert shown == ["Not connected.", "Saved."]


@pytest.mark.parametrize("path", ["/", "/panic/", "/sessions/new/"])
def test_the_pages_of_staff_fit_a_phone(chromium, client, root, live, path):  # noqa: F811
    client.force_login(root)
    with site(chromium, client) as found:
        page = found.open(path, width=390)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert page.get_by_role("button", name="Sign out").bounding_box()["height"] <= 32


def test_tables_of_the_scorecard_fit_a_phone(ada_at_her_screen, ended, scenario, ada):
    key = selectors.pack_for(scenario).rubric[0].key
    fields = {"level": 3, "note": "Read the events. " * 20, "version": 0, "actor": ada}
    services.save_rating(scenario=scenario, criterion=key, **fields)
    page = ada_at_her_screen.open(f"/sessions/{ended.uuid}/scorecard/", width=390)
    edges = page.locator(".sheet .table td").evaluate_all(
        "all => all.map((one) => one.getBoundingClientRect().right)"
    )
    assert edges
    assert max(edges) <= 390
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


QUESTIONS = "/admin/interview_sessions/question/"


def grave(page, name) -> list[str]:
    """Return what axe calls serious or critical."""
    found = Axe().run(page, options=AXE_OPTIONS).response["violations"]
    rules = [rule for rule in found if rule["impact"] in ("serious", "critical")]
    return [f"{name}: {rule['id']}: {node['html'][:200]}" for rule in rules for node in rule["nodes"]]


def test_axe_finds_nothing_serious_on_an_interviewers_pages(ada_at_her_screen, live, ada, client):
    link = services.issue_join_link(session=live, actor=ada)
    found = []
    for width in (1280, 390):
        page = ada_at_her_screen.open(f"/sessions/{live.uuid}/", width)
        page.evaluate("document.querySelector('#rejoin')?.setAttribute('open', '')")
        page.locator("#do-join-link").evaluate("button => button.click()")
        expect(page.locator("#join-url")).to_have_count(1)
        found += grave(page, f"live {width}")
        for path in ("/", "/sessions/new/?compose", "/sessions/new/", link) if width == 390 else ():
            page.goto(path)  # which `make e2e` has axe look at on a wide screen
            found += grave(page, f"{path} {width}")
        page.close()
    services.end(session=live, actor=ada)
    own = selectors.assessment_for(live, ada)
    services.save_assessment(session=live, actor=ada, version=own.version, overall="no")
    page = ada_at_her_screen.open("/", 390)
    for path in ("", "assessment/review/", "scorecard/", "notes/"):
        page.goto(f"/sessions/{live.uuid}/{path}")
        found += grave(page, path)
    assert found == []


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.torture)], ids=["one list", "all"])
def test_axe_finds_nothing_serious_in_the_admin(chromium, client, root, live, question_version, every):  # noqa: F811
    """All lists are drawn by the same templates: `make test` looks at the one of questions, on a phone."""
    client.force_login(root)
    with site(chromium, client) as screen:
        page = screen.open("/admin/")
        found = grave(page, "index")
        addresses = page.locator("#content-main th a").evaluate_all("all => all.map((one) => one.pathname)")
        assert QUESTIONS in addresses
        for address in addresses if every else [QUESTIONS]:
            if "django_rq" in address:  # that one needs Redis
                continue
            for width in (1280, 390) if every else (390,):
                page.set_viewport_size({"width": width, "height": 800})
                page.goto(address)
                found += grave(page, f"{address} {width}")
            row = page.locator("#result_list th a").first
            if row.count():
                page.goto(row.get_attribute("href"))
                found += grave(page, f"a row of {address}")
    assert found == []
