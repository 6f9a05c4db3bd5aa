"""The connection lamp without a connection: one word while it is true; and toasts that go with their cause."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from sessions import services
from sessions.tests.browser_site import chromium, site  # noqa: F401 - a fixture

pytestmark = pytest.mark.browser
WATCH = """() => {
  window.words = [];
  const words = document.querySelector("[data-words]");
  const note = () => words.textContent && window.words.push(words.textContent);
  new MutationObserver(note).observe(words, { childList: true });
}"""


@pytest.fixture
def ada_at_her_screen(chromium, client, ada):  # noqa: F811
    client.force_login(ada)
    with site(chromium, client) as found:
        yield found


def test_it_says_for_how_long_and_does_not_waver(ada_at_her_screen, live):
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


def test_what_went_well_is_gone_after_some_seconds(ada_at_her_screen, ended, ada):
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
