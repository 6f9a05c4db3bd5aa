"""Django's admin as part of the site: its header and colours, on a phone, and while somebody presents."""

from __future__ import annotations

import re

import pytest
from django.conf import settings
from playwright.sync_api import expect

from sessions.tests.browser_site import chromium, site, visible_text  # noqa: F401 - a fixture

STATIC = settings.BASE_DIR / "static"
PAGES = (
    "/admin/",
    "/admin/interview_sessions/plan/add/",
    "/admin/interview_sessions/question/",
    "/admin/faults/cluster/add/",
)


def test_its_colours_are_those_of_every_page():
    ours = re.findall(r"--fl-([a-z-]+): ([^;]+);", (STATIC / "admin.css").read_text())
    site_wide = dict(re.findall(r"^ +--([a-z-]+): ([^;]+);", (STATIC / "app.css").read_text(), re.MULTILINE))
    assert len(ours) > 10
    assert {name: value for name, value in ours if site_wide[name] != value} == {}


@pytest.fixture
def admin(chromium, client, root, question_version):  # noqa: F811
    client.force_login(root)
    with site(chromium, client) as found:
        yield found


@pytest.mark.browser
def test_it_has_the_sites_header_and_fits_a_phone(admin):
    page = admin.open("/", width=390)
    for address in PAGES:
        page.goto(address)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, address
        header, heading = page.locator("#header").bounding_box(), page.locator("#content h1").bounding_box()
        assert header["y"] + header["height"] <= heading["y"], address
        expect(page.get_by_role("link", name="Admin", exact=True)).to_have_attribute("aria-current", "page")
    page.get_by_role("link", name="Sessions", exact=True).first.click()
    expect(page.get_by_role("heading", name="Sessions")).to_be_visible()


@pytest.mark.browser
def test_nothing_of_the_catalogue_is_drawn_while_presenting(admin, question_version):
    page = admin.open("/admin/interview_sessions/question/")
    assert question_version.title in visible_text(page)
    page.get_by_role("button", name="Presenting: hide all secrets").click()
    assert question_version.title not in visible_text(page)
    page.goto(f"/admin/interview_sessions/question/{question_version.question_id}/change/")
    assert question_version.title not in visible_text(page)
    expect(page.get_by_text("are hidden while you are presenting")).to_be_visible()
    page.get_by_role("button", name="Stop presenting").click()
    expect(page.locator("#id_title")).to_be_visible()
