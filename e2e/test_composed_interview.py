"""Ninety minutes of three scenarios and six questions: composed, run in a cluster, and rated blind by two people."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import expect

from e2e.people import PATIENCE, Person
from e2e.test_whole_interview import sign_in

pytestmark = [pytest.mark.browser, pytest.mark.torture]  # sessions/tests/test_compose_in_browser.py has no cluster
MAX_CLICKS = 20
SCENARIOS = ("A training job that never starts", "Two training jobs that make no progress")
STAGED = "A training job that takes weeks instead of hours"
ANSWERS = {"interviewer": "Heard about half of it", "admin": "Heard all of it, and the follow-up as well"}
LEVELS = {"interviewer": "2", "admin": "4"}


@pytest.fixture
def people(browser, installation):
    """Both interviewers at their screens, by account."""
    found = {account: Person(browser, installation.url) for account in ANSWERS}
    for account, person in found.items():
        sign_in(person, installation, account)
    yield found
    assert [problem for person in found.values() for problem in person.problems] == []


@pytest.fixture
def candidate(browser, installation):
    person = Person(browser, installation.url)
    yield person
    assert person.problems == []


def test_three_scenarios_and_six_questions_are_composed_run_and_rated_blind(people, candidate, tmp_path):
    ada = people["interviewer"]
    compose(ada)
    ada.click("Create and prepare")
    assert ada.clicks < MAX_CLICKS
    ada.see(ada.page.get_by_role("button", name="Start the interview"), patience=2 * PATIENCE)
    briefs = read_briefs(ada)
    ada.picture("20-composed-ready")
    ada.click("Make the join link")
    candidate.page.goto(ada.see(ada.page.locator("#join-url")).inner_text())
    candidate.click("Join the interview")
    candidate.see("has not started yet")
    assert not any(title in candidate.page.content() for title in (*SCENARIOS, STAGED))
    ada.click("Start the interview")
    address = ada.see(ada.page.locator("#panel-checks")).page.url
    the_staged_part_begins(ada, candidate, briefs)
    both_record_the_first_question(people, address)
    end(ada)
    card = both_submit(people, address, tmp_path)
    assert (len(card["scenarios"]), len(card["questions"])) == (3, 6)
    assert [row["level"] for row in card["questions"][0]["records"]] == [2, 4]


def compose(ada):
    """Put three parts together as a person would, the third scenario to be injected by a button."""
    ada.click("New session", role="link")
    ada.click("Compose", role="link")
    page = ada.page
    page.get_by_label("Candidate's name").fill("Noor Haddad")
    ada.clicks += 1
    page.get_by_label("admin").check()
    for title in SCENARIOS:
        add(ada, title)
    ada.click("Add a part")
    expect(page.get_by_label("Title of part 2")).to_be_visible()
    add(ada, STAGED)
    ada.clicks += 1
    page.get_by_label("Inject its faults").nth(1).select_option("button")
    ada.click("Add a part")
    expect(page.get_by_label("Title of part 3")).to_be_visible()
    ada.clicks += 1
    page.get_by_label("Duration").select_option("5")
    expect(page.locator("#results [role=status]")).to_contain_text("6 of")
    for number in range(1, 7):
        ada.clicks += 1
        page.locator("#results button", has_text="Add").first.click()
        expect(page.locator("#part-p3 [data-entry]")).to_have_count(number)
    page.get_by_label("Minutes of part 3").fill("25")
    expect(page.locator("#total")).to_have_text("90 min in 3 parts")


def add(ada, title):
    ada.click(f"Add {title}")
    expect(ada.page.locator("#outline")).to_contain_text(title)


def read_briefs(ada) -> list[str]:
    """Return the briefs of all three scenarios, as they stand before the start."""
    briefs = ada.page.locator("#panel-key details[id^=brief] .prose")
    expect(briefs).to_have_count(3)
    return briefs.evaluate_all("all => all.map((one) => one.textContent)")


def the_staged_part_begins(ada, candidate, briefs):
    candidate.see(SCENARIOS[1])
    assert STAGED not in candidate.page.content()
    ada.click("Key", role="tab")
    expect(ada.page.locator("#panel-key details[id^=brief]")).to_have_count(3)
    with ada.page.expect_response("**/key/", timeout=2 * PATIENCE):  # a part that has begun brings its names
        ada.click("Start this part")
    candidate.see(STAGED, patience=2 * PATIENCE)
    ada.picture("21-composed-live")
    candidate.picture("21-composed-candidate")
    assert read_briefs(ada) == briefs


def both_record_the_first_question(people, address):
    for account, person in people.items():
        person.page.goto(address)
        person.click("Questions", role="tab")
        question = person.page.locator("details.question").first
        question.locator("summary").first.click()
        question.get_by_role("button", name="Mark as asked").click()
        expect(person.page.locator("#asked")).to_contain_text("1 of 6 asked by me", timeout=PATIENCE)
        question.get_by_label("Answer, as I heard it").fill(ANSWERS[account])
        question.get_by_text("Rate the answer").click()
        question.locator(f'input[name="level"][value="{LEVELS[account]}"]').check()
        expect(question.locator(".saved")).to_contain_text("Saved", timeout=PATIENCE)
    assert ANSWERS["interviewer"] not in people["admin"].page.content()


def end(ada):
    ada.click("End", exact=True)
    ada.page.locator("#do-end").click()
    ada.see("My assessment")


def both_submit(people, address, folder) -> dict:
    """Submit one after the other; each sees the other's record afterwards alone. Return the scorecard."""
    for account, person in people.items():
        page = person.page
        page.goto(f"{address}scorecard/")
        others = [text for name, text in ANSWERS.items() if name != account]
        assert not any(text in page.content() for text in others)
        page.goto(address)
        page.get_by_text("Yes", exact=True).first.click()
        page.get_by_label("Take-aways").first.fill("Works from evidence.")
        page.locator("#do-submit").click()
        page.get_by_label("I submit with").check()
        page.locator("#do-confirm").click()
        person.see("Submitted")
    page.goto(f"{address}scorecard/")
    assert all(text in page.content() for text in ANSWERS.values())
    person.picture("22-composed-scorecard")
    with page.expect_download() as download:
        page.get_by_role("link", name="JSON").first.click()
    download.value.save_as(folder / "scorecard.json")
    return json.loads((folder / "scorecard.json").read_text())
