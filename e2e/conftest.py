"""A whole installation on another loopback address, and a browser."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

from conftest import ROOT, free_port

ADDRESS = "127.0.0.2"
SCREENSHOTS = ROOT / "e2e" / "screenshots"
PLAYWRIGHT_LEAVES_OUT = (
    *("AimEnabled", "AvoidCorsURLLoaderRestartOnRedirect", "AvoidUnnecessaryBeforeUnloadCheckSync"),
    *("DestroyProfileOnBrowserClose", "HttpsFirstBalancedModeAutoEnable", "HttpsUpgrades", "LensOverlay"),
    *("MediaRouter", "NetworkTimeServiceQuerying", "OptimizationHints", "PaintHolding", "PreconnectToSearch"),
    "ThirdPartyStoragePartitioning",
)
"""Chromium listens to the last ``--disable-features`` alone, so ours repeats Playwright's own."""
PRELOADED = ("WebUIOmniboxPopup", "WebUIOmniboxAimPopup", "SpareRendererForSitePerProcess")
"""Each window would start processes for an address bar that nobody sees: 0.4 s of CPU for each person of a test."""
CHROMIUM_ARGS = [
    f"--disable-features={','.join((*PLAYWRIGHT_LEAVES_OUT, *PRELOADED))}",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@dataclass
class Installation:
    """A running ``manage.py up`` and what it printed."""

    process: subprocess.Popen
    folder: Path
    env: dict[str, str]
    lines: list[str] = field(default_factory=list)
    ready: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.reader = threading.Thread(target=self.read, daemon=True)

    @property
    def url(self) -> str:
        """Return the address of the site."""
        return f"http://{ADDRESS}:{self.env['PORT']}"

    def read(self) -> None:
        """Collect the output until it ends."""
        with self.process.stdout as output:
            for line in output:
                self.lines.append(line)
                if "Ready after" in line:
                    self.ready.set()
        self.ready.set()

    def password(self, account: str) -> str:
        """Return the password that was printed for an account."""
        match = re.search(rf"Account {account}, password (\S+)", "".join(self.lines))
        assert match, "".join(self.lines)
        return match.group(1)

    def manage(self, *args: str) -> subprocess.CompletedProcess:
        """Run a management command of this installation."""
        command = [sys.executable, "-W", "ignore", "manage.py", *args]
        return subprocess.run(command, cwd=ROOT, env=self.env, capture_output=True, text=True, timeout=120)


def start(folder: Path, env: dict[str, str]) -> Installation:
    """Start an installation and wait until it says that it is ready."""
    process = subprocess.Popen(
        [sys.executable, "-u", "-W", "ignore", "manage.py", "up"],
        cwd=ROOT,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    installation = Installation(process, folder, env)
    installation.reader.start()
    installation.ready.wait(90)
    assert process.poll() is None, "".join(installation.lines)
    assert any("Ready after" in line for line in installation.lines), "".join(installation.lines)
    return installation


def stop(installation: Installation) -> int:
    """Press Ctrl-C and return the exit status."""
    installation.process.send_signal(signal.SIGINT)
    status = installation.process.wait(timeout=20)
    installation.reader.join(timeout=10)
    return status


def has_address() -> bool:
    """Return whether this machine listens on the second loopback address; macOS does when asked to."""
    try:
        free_port(ADDRESS)
    except OSError:
        return False
    return True


@pytest.fixture(scope="module")
def data_folder(tmp_path_factory, migrated) -> Path:
    """A folder with empty tables; sessions/tests/test_rehearse.py starts an installation that has no folder yet."""
    folder = tmp_path_factory.mktemp("up") / "data"
    folder.mkdir(mode=0o700)
    shutil.copy(migrated, folder)
    return folder


@pytest.fixture(scope="module")
def installation(data_folder) -> Iterator[Installation]:
    """One fresh installation for each file, reachable only at 127.0.0.2."""
    if not has_address():
        pytest.skip(f"{ADDRESS} is no address of this machine; on macOS: sudo ifconfig lo0 alias {ADDRESS} up")
    folder = data_folder.parent
    env = {name: value for name, value in os.environ.items() if name not in ("DJANGO_SETTINGS_MODULE",)}
    env |= {
        "DATA_DIR": str(data_folder),
        "BIND": ADDRESS,
        "PUBLIC_HOST": ADDRESS,
        "PORT": str(free_port(ADDRESS)),
        "KUBESIM_PORT": str(free_port(ADDRESS)),
        "HOME": str(folder),
    }
    installation = start(folder, env)
    yield installation
    if installation.process.poll() is None:
        stop(installation)


def chromium_path() -> str | None:
    """Return the machine's Chromium or Chrome; the one without windows takes two thirds of the processor time."""
    names = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next((path for name in names if (path := shutil.which(name))), None)


@pytest.fixture(scope="module")
def browser():
    """The machine's own Chromium, without a window.

    Not for the session: as long as Playwright is there, no other test of the process can run an event loop.
    """
    path = chromium_path()
    if path is None:
        pytest.skip("needs Chromium or Chrome; on Debian: sudo apt install chromium-headless-shell")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=CHROMIUM_ARGS)
        yield browser
        browser.close()
