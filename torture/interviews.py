"""The two people of an interview without a browser: forms that are posted, and the candidate's own kubectl."""

from __future__ import annotations

import http.client
import http.cookiejar
import json
import os
import re
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from faults.kube.client import Kube
from faults.kube.config import parse
from torture.installation import ROOT, Installation

POLL_S = 0.02
TOLD = 6000  # characters of the installation's log
PREPARE = """
import json, time
from django.contrib.auth.models import User
from sessions import selectors, services
owner = User.objects.get(username="interviewer")
versions = selectors.pickable_scenarios()[:1]
made = [
    services.create_session(owner=owner, candidate_name=f"Sam {number}", scenario_versions=versions)
    for number in range(%d)
]
for session in made:
    services.prepare(session=session, actor=owner)
for session in made:
    for _ in range(1200):
        session.refresh_from_db()
        if session.state == "ready":
            break
        time.sleep(0.1)
    session = services.start(session=session, actor=owner)
    print("LIVE", json.dumps([str(session.uuid), services.candidate_credentials(session=session).kubeconfig]))
"""
STATE = "from sessions.models import InterviewSession as S; print('STATE', S.objects.get(uuid='%s').state)"


def manage(installation: Installation, *args: str) -> str:
    """Run a management command of an installation and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "manage.py", *args],
        cwd=ROOT,
        env={**os.environ, **installation.variables},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@dataclass
class LiveInterview:
    """A session whose clock runs, and its candidate's access."""

    uuid: str
    kube: Kube
    log: Path

    def is_open(self) -> bool:
        """Whether the candidate may list the pods of the session; raises ClusterError."""
        attributes = {"verb": "list", "resource": "pods", "namespace": "ml-training"}
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
        told = self.kube.create({**review, "spec": {"resourceAttributes": attributes}})
        return bool(told["status"]["allowed"])

    def seconds_until_cut(self, pause_s: float = POLL_S, patience_s: float = 30.0) -> float:
        """Ask every ``pause_s`` until the candidate is out; return how long that took from now."""
        began = time.monotonic()
        while self.is_open():
            late = time.monotonic() - began >= patience_s
            assert not late, f"the candidate still has access: {self.log.read_text()[-TOLD:]}"
            threading.Event().wait(pause_s)
        return time.monotonic() - began


def begin(installation: Installation, count: int = 1) -> list[LiveInterview]:
    """Prepare and start so many interviews; each has a practice cluster of its own."""
    lines = manage(installation, "shell", "-c", PREPARE % count).splitlines()
    told = [json.loads(line.removeprefix("LIVE ")) for line in lines if line.startswith("LIVE ")]
    live = [LiveInterview(uuid, Kube(parse(kubeconfig)), installation.log) for uuid, kubeconfig in told]
    assert len(live) == count
    assert all(interview.is_open() for interview in live)
    return live


def state(installation: Installation, uuid: str) -> str:
    """Return the state of a session."""
    return manage(installation, "shell", "-c", STATE % uuid).rpartition("STATE ")[2].strip()


class Interviewer:
    """Somebody signed in, who presses buttons."""

    def __init__(self, installation: Installation) -> None:
        self.url = f"http://127.0.0.1:{installation.variables['PORT']}"
        self._jar = http.cookiejar.CookieJar()
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self._jar))
        self._opener.open(f"{self.url}/login/").close()
        password = re.search(r"Account interviewer, password (\S+)", installation.log.read_text())
        assert password is not None
        status, _ = self.post("/login/", username="interviewer", password=password[1])
        assert status == 200

    def get(self, path: str) -> bytes:
        """Return what is at an address."""
        with self._opener.open(self.url + path, timeout=60) as answer:
            return bytes(answer.read())

    def post(self, path: str, **fields: str) -> tuple[int, str]:
        """Send a form; return the status and the page."""
        token = next(cookie.value for cookie in self._jar if cookie.name == "csrftoken") or ""
        body = urllib.parse.urlencode({**fields, "csrfmiddlewaretoken": token}).encode()
        headers = {"Referer": f"{self.url}/"} | ({"HX-Request": "true"} if "/end/" in path else {})
        try:
            with self._opener.open(urllib.request.Request(self.url + path, body, headers), timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refusal:
            return refusal.code, refusal.read().decode()

    def end(self, interview: LiveInterview) -> threading.Thread:
        """Press "end" and do not wait for the page, which a web process that dies never sends."""
        thread = threading.Thread(target=self._press, args=(f"/sessions/{interview.uuid}/end/",))
        thread.start()
        return thread

    def _press(self, path: str) -> None:
        try:
            status, _ = self.post(path)
            print(f"the page answered {status}")
        except (OSError, http.client.HTTPException) as exc:
            print(f"no page: {exc}")
