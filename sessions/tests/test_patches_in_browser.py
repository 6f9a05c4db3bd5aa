"""Changes of panels as a browser applies them: it then shows what it would show had it loaded the page anew."""

from __future__ import annotations

import orjson
import pytest

from sessions import panels, services
from sessions.panels.drawing import change
from sessions.tests.browser_site import chromium, site  # noqa: F401 - a fixture

pytestmark = pytest.mark.browser
NAMES = ("timeline", "hints")
SHOWN_AND_WANTED = r"""([name, html]) => {
  const holder = document.createElement("div");
  holder.innerHTML = html;
  holder.firstElementChild.removeAttribute("hx-swap-oob");
  for (const row of document.querySelectorAll(".is-changed")) row.classList.remove("is-changed");
  const plain = (one) => one.outerHTML.replaceAll(' class=""', "").replace(/\s+/g, " ").replaceAll("> <", "><");
  return [document.getElementById(`panel-${name}`), holder.firstElementChild].map(plain);
}"""


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


def test_a_page_whose_rows_were_patched_shows_what_a_fresh_one_shows(chromium, client, ada, live, time):  # noqa: F811
    client.force_login(ada)
    before = drawn(live)
    time.advance(10)
    services.release_hint(scenario=live.scenarios.get(), index=0, actor=ada)
    services.add_note(session=live, text="Reads the events first", actor=ada)
    after = drawn(live)
    changes = {name: change(before[name], after[name]) for name in NAMES}
    whole = [name for name, found in changes.items() if not isinstance(found, dict)]
    assert not whole, f"panels went whole: {whole}"
    with site(chromium, client) as browser:
        connection = Connection(browser.context)
        page = browser.open(f"/sessions/{live.uuid}/")
        page.wait_for_function("document.querySelector('[data-live]') !== null")
        connection.send(1, all="".join(drawing.html() for drawing in before.values()))
        connection.send(2, panels=changes)
        page.wait_for_function("document.getElementById('panel-timeline').textContent.includes('Note taken')")
        for name in NAMES:
            shown, wanted = page.evaluate(SHOWN_AND_WANTED, [name, after[name].html()])
            assert shown == wanted, name
