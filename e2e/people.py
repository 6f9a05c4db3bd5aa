"""The two people of an interview, each with a browser of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Locator, Page, expect

from conftest import ROOT

SCREENSHOTS = ROOT / "e2e" / "screenshots"
SIZES = {"wide": {"width": 1280, "height": 900}, "phone": {"width": 390, "height": 844}}
AXE = Axe()
AXE_OPTIONS = {
    "resultTypes": ["violations"],
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
}
# Four pictures and two looks of axe at each step take half a minute of computing. `make test` has axe look at each
# page once, in the process (sessions/tests/test_forms_in_browser.py), and here at what a running cluster fills.
PICTURES = "E2E_PICTURES" in os.environ or "TORTURE_ROUNDS" in os.environ
MOTION = "no-preference" if PICTURES else "reduce"  # no GPU draws the frames of what turns while one waits
PATIENCE = 60_000  # milliseconds for what involves jobs and clusters


class Person:
    """Somebody at a browser. Clicks are counted; errors of the page fail the test."""

    def __init__(self, browser: Browser, url: str) -> None:
        self.context = browser.new_context(
            viewport=SIZES["wide"], base_url=url, accept_downloads=True, reduced_motion=MOTION
        )
        self.page: Page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.clicks = 0
        self.problems: list[str] = []
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("console", lambda message: self._console(message.type, message.text))

    def _console(self, kind: str, text: str) -> None:
        # Losing the network on purpose is the only error that a page may report.
        if kind == "error" and "ERR_INTERNET_DISCONNECTED" not in text:
            self.problems.append(text)

    def click(self, name: str, role: str = "button", exact: bool = False) -> None:
        """Click what a person would call ``name``."""
        self.clicks += 1
        self.page.get_by_role(role, name=name, exact=exact).first.click()

    def see(self, what: str | Locator, patience: int = PATIENCE) -> Locator:
        """Wait until it is visible."""
        locator = self.page.get_by_text(what).locator("visible=true").first if isinstance(what, str) else what
        expect(locator).to_be_visible(timeout=patience)
        return locator

    def picture(self, name: str) -> None:
        """Prove that the page fits both widths; for `make e2e` also keep it, and prove that anybody can use it."""
        for size, viewport in SIZES.items():
            self.page.set_viewport_size(viewport)
            width = self.page.evaluate("document.documentElement.scrollWidth")
            assert width <= viewport["width"], f"{name} is {width} px wide on a {size} screen"
            if PICTURES:
                self._keep(f"{name}-{size}")
                self.check_access(f"{name}-{size}")
        self.page.emulate_media(color_scheme="light", reduced_motion=MOTION)
        self.page.set_viewport_size(SIZES["wide"])

    def _keep(self, name: str) -> None:
        """Write down the page in both colours; it stays in the dark one."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        for scheme in ("light", "dark"):
            self.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            self.page.screenshot(path=SCREENSHOTS / f"{name}-{scheme}.png")

    def check_access(self, name: str) -> None:
        """Prove with axe that nothing serious or critical keeps anybody from using the page."""
        found = AXE.run(self.page, options=AXE_OPTIONS).response["violations"]
        grave = [
            f"{rule['id']}: {node['html'][:160]} ({node['failureSummary']})"
            for rule in found
            if rule["impact"] in ("serious", "critical")
            for node in rule["nodes"]
        ]
        assert grave == [], f"{name}: " + "\n".join(grave)


class Kubectl:
    """The candidate's own kubectl with the downloaded kubeconfig."""

    def __init__(self, kubeconfig: Path, home: Path) -> None:
        self.env = {"PATH": os.environ["PATH"], "HOME": str(home), "KUBECONFIG": str(kubeconfig)}
        self.folder = home

    def __call__(self, command: str, stdin: str | None = None) -> subprocess.CompletedProcess:
        """Run ``kubectl`` with arguments as typed."""
        argv = [kubectl_path() or "kubectl", *command.split()]
        return subprocess.run(
            argv, input=stdin, env=self.env, cwd=self.folder, capture_output=True, text=True, timeout=60
        )


def kubectl_path() -> str | None:
    """Return the machine's kubectl."""
    return shutil.which("kubectl")
