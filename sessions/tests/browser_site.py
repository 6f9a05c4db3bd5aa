"""Our pages in the machine's Chromium, answered by Django's test client: real scripts and styles, no server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import copy_context
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.contrib.staticfiles import finders
from django.test import Client
from django.utils.html import escape
from playwright.sync_api import Browser, BrowserContext, Page, Route, WebSocketRoute, sync_playwright

from e2e.conftest import CHROMIUM_ARGS, chromium_path

HOST = "faultline.test"
NOT_FOUND = 4404  # how our own consumers close the socket of a stranger
WIDTHS = {390: 844, 1024: 768, 1280: 800, 1366: 768, 1440: 900, 1600: 900, 1920: 1080}
TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
ANSWERED = ("Cache-Control", "Content-Type", "Content-Security-Policy", "HX-Redirect", "Location")
# Playwright asks nobody who answers the second request of a redirect: the browser would look for the host's name. (A
# whole Chromium loads the page of that error again after a second, and gets there.)
MOVED = '<meta http-equiv="refresh" content="0; url={}">'

# Everything that a person can read: drawn text, tooltips and labels of what is drawn, and the browser's tab.
VISIBLE_TEXT = """() => {
  const labelled = document.querySelectorAll("[title], [aria-label], input:not([type=hidden]), textarea");
  const drawn = [...labelled].filter((one) => one.checkVisibility());
  const words = drawn.flatMap((one) => [one.title, one.getAttribute("aria-label"), one.value]);
  return [document.body.innerText, document.title, document.getElementById("favicon").href, ...words].join("\\n");
}"""


class Site:
    """One person's browser.

    It has no WebSockets: pages poll, and ``refresh`` makes one do so at once. A test that puts panels in place by
    itself turns ``sends_snapshots`` off.
    """

    def __init__(self, context: BrowserContext, client: Client) -> None:
        self.context, self.client = context, client
        self.sends_snapshots = True
        self.context_of_test = copy_context()  # holds the test's database connection, unlike Playwright's own
        context.route(lambda url: True, self._answer)
        context.route_web_socket(lambda url: True, self._refuse)

    def open(self, path: str, width: int = 1280) -> Page:
        """Open a page in a new tab."""
        page = self.context.new_page()
        page.set_viewport_size({"width": width, "height": WIDTHS[width]})
        page.goto(path)
        return page

    def refresh(self, page: Page) -> None:
        """Have a page fetch all its panels, as it does when its tab is looked at again."""
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")

    def _refuse(self, socket: WebSocketRoute) -> None:
        socket.close(code=NOT_FOUND)

    def _answer(self, route: Route) -> None:
        request, address = route.request, urlsplit(route.request.url)
        if address.path.startswith("/static/"):
            path = Path(str(finders.find(address.path.removeprefix("/static/"))))
            route.fulfill(body=path.read_bytes(), content_type=TYPES.get(path.suffix, "text/plain"))
            return
        if address.path.endswith("/panels/all/") and not self.sends_snapshots:
            route.fulfill(status=200, body="")
            return
        response = self.context_of_test.run(
            self.client.generic,
            request.method,
            f"{address.path}?{address.query}",
            request.post_data_buffer or b"",
            content_type=request.headers.get("content-type", "text/html"),
            headers={name: value for name, value in request.headers.items() if name.startswith(("hx-", "x-"))},
        )
        headers = {name: response[name] for name in ANSWERED if name in response}
        if request.is_navigation_request() and "Location" in headers:
            route.fulfill(content_type="text/html", body=MOVED.format(escape(headers["Location"])))
            return
        route.fulfill(status=response.status_code, headers=headers, body=response.content)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """The machine's Chromium, in a thread that Playwright's event loop and Django's database share."""
    path = chromium_path()
    if path is None:
        pytest.skip("needs Chromium or Chrome; on Debian: sudo apt install chromium-headless-shell")
    with pytest.MonkeyPatch.context() as patch, sync_playwright() as playwright:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        browser = playwright.chromium.launch(executable_path=path, args=CHROMIUM_ARGS)
        yield browser
        browser.close()


@contextmanager
def site(browser: Browser, client: Client) -> Iterator[Site]:
    """Open a browser profile for the person whom ``client`` has signed in."""
    context = browser.new_context(base_url=f"http://{HOST}", reduced_motion="reduce")
    context.set_default_timeout(10_000)
    yield Site(context, client)
    context.close()


def visible_text(page: Page) -> str:
    """Return everything that a person can read on the page and on its tab."""
    return str(page.evaluate(VISIBLE_TEXT))
