"""An outage of the practice clusters is nobody's fault: no verdict is spoiled, and its time is given back once."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from torture.installation import Installation
from torture.interviews import Interviewer, begin, manage

pytestmark = pytest.mark.torture
SETTLE_S = 40.0
FACTS = """
import json
from sessions.models import InterviewSession, CheckState
session = InterviewSession.objects.get(uuid='%s')
outages = session.outages.order_by("began_at")
print("FACTS", json.dumps({
    "outages": [[(o.ended_at - o.began_at).total_seconds() if o.ended_at else None, o.credited_s] for o in outages],
    "credits": [entry.seconds for entry in session.clock_entries.filter(kind="credit")],
    "broken": [[s.key, s.broken_finding] for s in CheckState.objects.filter(
        scenario__session=session, broken_at__isnull=False)],
    "verdicts": {s.key: s.verdict for s in CheckState.objects.filter(scenario__session=session)},
    "held": [s.key for s in CheckState.objects.filter(scenario__session=session, guard=False, held_at__isnull=False)],
    "events": [[e.kind, e.payload] for e in session.events.order_by("seq")],
}, default=str))
"""


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """One installation for every test of the file."""
    with Installation(tmp_path_factory.mktemp("outages")) as installation:
        yield installation


def stop_for(installation: Installation, seconds: float) -> None:
    """Freeze the practice clusters, as a machine does that has run out of memory or a debugger that is attached."""
    assert installation.send("kubesim", signal.SIGSTOP)
    threading.Event().wait(seconds)
    installation.send("kubesim", signal.SIGCONT)


def kill_for(installation: Installation, seconds: float) -> None:
    """Kill the practice clusters' processes again whenever the supervisor has started them."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        installation.send("kubesim", signal.SIGKILL)
        threading.Event().wait(0.2)


@pytest.mark.parametrize(
    ("disturb", "seconds"),
    [(stop_for, 17.0), (stop_for, 60.0), (kill_for, 17.0)],
    ids=["stopped", "stopped for a minute", "killed"],
)
def test_an_outage_spoils_no_verdict_and_is_credited_once(
    installation: Installation, disturb: Callable[[Installation, float], None], seconds: float, tmp_path: Path
) -> None:
    interviewer, interview = Interviewer(installation), begin(installation)[0]
    threading.Event().wait(10)  # so that every guard has passed
    disturb(installation, seconds)
    facts = settled(installation, interview.uuid)

    assert facts["broken"] == []
    assert not [event for event in facts["events"] if event[0] == "guard.changed" and event[1]["verdict"] == "fail"]
    ((took, credited),) = facts["outages"]
    print(f"{disturb.__name__} {seconds:.0f} s: outage of {took:.1f} s, {credited} s credited, {facts['verdicts']}")
    assert facts["credits"] == [credited]
    assert seconds - 5 <= credited <= took + 1 < seconds + SETTLE_S
    told = pages(interviewer, interview.uuid, tmp_path)
    for name, text in told.items():
        assert "the cluster did not answer" in " ".join(text.split()), name
        assert not re.search(r"(?<!not )(was )?broken (at )?\d\d:\d\d", text), name


def settled(installation: Installation, uuid: str) -> dict[str, Any]:
    """Return the facts of a session some time after its outage has ended."""
    end = time.monotonic() + 90
    while time.monotonic() < end:
        facts = facts_of(installation, uuid)
        if facts["outages"] and facts["outages"][-1][0] is not None:
            threading.Event().wait(12)  # in which a guard that counted as failed would be told
            return facts_of(installation, uuid)
        threading.Event().wait(1)
    raise AssertionError(f"the outage has no end: {facts}")


def facts_of(installation: Installation, uuid: str) -> dict[str, Any]:
    """Return what the database says of a session now."""
    facts: dict[str, Any] = json.loads(manage(installation, "shell", "-c", FACTS % uuid).rpartition("FACTS ")[2])
    return facts


def pages(interviewer: Interviewer, uuid: str, folder: Path) -> dict[str, str]:
    """Return the visible words of everything that tells of the session."""
    told = {"live page": interviewer.get(f"/sessions/{uuid}/panels/checks/").decode()}
    for name in ("/", ".json", ".pdf"):
        told[name] = words(interviewer.get(f"/sessions/{uuid}/scorecard{name}"), name, folder)
    return told


def words(data: bytes, name: str, folder: Path) -> str:
    """Return a file as text."""
    if name != ".pdf":
        return data.decode()
    if shutil.which("pdftotext") is None:
        pytest.skip("needs pdftotext; on Debian: sudo apt install poppler-utils")
    path = folder / "scorecard.pdf"
    path.write_bytes(data)
    return subprocess.run(["pdftotext", str(path), "-"], capture_output=True, text=True, check=True).stdout
