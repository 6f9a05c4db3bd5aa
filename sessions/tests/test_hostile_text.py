"""Text that somebody chose to do harm, through every surface: pages, panels, frames, files and the database."""

from __future__ import annotations

import json
import re
import time as machine_time
import unicodedata
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from io import BytesIO

import pytest
from pypdf import PdfReader

from faults import packs
from faults import selectors as fault_selectors
from faults import services as fault_services
from faults.checks import Check, Condition, LogRead, ObjectRead, Outcome
from faults.models import FaultRun
from faults.plain_text import plain
from sessions import clock, frames, panels, services
from sessions.frames import Frame
from sessions.live import LiveState
from sessions.models import CheckState, QuestionVersion
from sessions.observer import checking, rows
from sessions.panels.timeline import words_for
from sessions.scorecards import as_json, as_pdf, build_scorecard, file_name
from sessions.selectors import CANDIDATE_KEY

MARKUP = '"\'><script>alert(1)</script><img src=x onerror=alert(2)><svg/onload=alert(3)>{{ 7|add:7 }}{% now "Y" %}'
ESCAPES = "\x1b[2J\x1b]0;owned\x07\x1b]8;;https://evil.example\x1b\\link\x9b31m\x08\x7f"
TURNED = "\u202egnp.exe\u2066hidden\u2069\u2028"
HEAP = "e" + "\u0301" * 10_000
HOSTILE = MARKUP + ESCAPES + TURNED + HEAP
STORABLE = MARKUP + ESCAPES + TURNED + "e" + "\u0301" * 100  # short enough for a form
FRAME_BYTES = 1_500_000


class Page(HTMLParser):
    """Reads a page as a browser does, and remembers its tags."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))


def assert_harmless(text: str) -> None:
    """Nothing in the text runs, points to a script, or acts on a terminal or on the direction of writing."""
    tags = Page(text).tags
    assert [
        at for tag, at in tags if tag == "script" and "src" not in at and at.get("type") != "application/json"
    ] == []
    assert [name for _, at in tags for name in at if name.startswith("on")] == []
    links = [at[name] or "" for _, at in tags for name in ("href", "src", "action") if name in at]
    assert [link for link in links if re.match(r"\s*(javascript|data|vbscript):", link, re.IGNORECASE)] == []
    assert [at for tag, at in tags if tag == "img"] == []
    assert unseen(text) == set()
    assert "\u0301" * 7 not in text


def unseen(text: str) -> set[str]:
    """Return the characters that act instead of showing."""
    acting = {char for char in text if unicodedata.category(char) in ("Cc", "Cs")} - set("\n\r\t")
    return acting | (set(text) & set("\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"))


def hostile_state(text: str) -> LiveState:
    """Return a cluster as the observer reads it whose every free text is hostile."""
    waiting = {"reason": text, "message": text * 3}
    pod = {
        "metadata": {"name": "p", "namespace": "ml-training", "uid": "1", "annotations": {"a": text}},
        "spec": {"nodeName": text, "containers": [{"name": "c", "image": text}]},
        "status": {"phase": "Pending", "containerStatuses": [{"name": "c", "state": {"waiting": waiting}}]},
    }
    event = {
        "metadata": {"name": "e", "namespace": "ml-training"},
        "involvedObject": {"kind": text, "name": text},
        "type": text,
        "reason": text,
        "message": text,
    }
    node = {"metadata": {"name": "n", "labels": {"kubernetes.io/arch": text, "nvidia.com/gpu.product": text}}}
    now = clock.now()
    return LiveState(
        pods=[rows.pod_row(pod, True)] * 300,
        events=[rows.event_row(event)] * 300,
        nodes=rows.node_rows([node], [pod]),
        workloads=[rows.workload_row(pod | {"kind": text})],
        synced_at=now,
        stale_since=now,
    )


@pytest.fixture
def haunted(live, scenario, question, ada, time):
    """A live session in which everything that can be free text is hostile, put there the way it gets there."""
    pack = packs.parse(scenario.scenario_version.files)
    looked = {row.key: Outcome("fail", plain(HOSTILE, 1000)) for row in (*pack.checks, *pack.guards)}
    row = live.scenarios.select_related("run", "scenario_version").get()
    for verdict in ("pass", "fail", "pass", "fail"):
        outcomes = {key: Outcome(verdict, outcome.finding) for key, outcome in looked.items()}
        checking.record(row, pack, outcomes, time.advance(1))
    services.add_note(session=live, text=STORABLE, actor=ada)
    services.save_question_record(question=question, answer=STORABLE, version=0, actor=ada)
    services.credit(session=live, seconds=30, reason=(MARKUP + ESCAPES + TURNED)[:300])
    criterion = pack.rubric[0].key
    services.save_rating(scenario=scenario, criterion=criterion, level=2, note=STORABLE, version=0, actor=ada)
    links = "[x](javascript:alert(1)) [y](data:text/html,x) <script>alert(4)</script> " + STORABLE
    QuestionVersion.objects.update(title=MARKUP[:100], prompt=links, expected_answer=links, hints=[links])
    live.phases.update(detail=HOSTILE, error=HOSTILE)
    type(live).objects.filter(pk=live.pk).update(candidate_name=MARKUP[:120], title=(TURNED + ESCAPES + MARKUP)[:200])
    live.refresh_from_db()
    return live


@pytest.mark.parametrize("name", panels.names_for(panels.INTERVIEWER))
def test_every_panel_of_the_interviewer_and_its_frame(haunted, name):
    html = panels.render(haunted, name, panels.INTERVIEWER, hostile_state(HOSTILE), seq=1)
    assert_harmless(html)
    assert len(html.encode()) < FRAME_BYTES
    assert html.count('id="panel-') == 1
    data = frames.encode(str(haunted.uuid), panels.INTERVIEWER, Frame(1, clock.now(), {name: html}, {name: html}))
    assert json.loads(frames.decode(data)[3])["panels"] == {name: html}


@pytest.mark.parametrize("name", panels.names_for(panels.CANDIDATE))
def test_every_panel_of_the_candidate(haunted, name):
    assert_harmless(panels.render(haunted, name, panels.CANDIDATE, None, seq=1))


@pytest.mark.parametrize("name", ["questions", "rubric", "notes"])
def test_every_panel_with_a_form(haunted, name, ada):
    html = panels.render_for(haunted, name, panels.INTERVIEWER, None, user=ada)
    assert_harmless(html)
    assert "&lt;script&gt;alert" in html


def test_every_page_of_the_interviewer(haunted, client, ada):
    client.force_login(ada)
    root = f"/sessions/{haunted.uuid}/"
    for address in ("/", "/sessions/new/", root, f"{root}panels/all/", f"{root}scorecard/"):
        response = client.get(address)
        assert response.status_code == 200, address
        assert_harmless(response.content.decode())
    services.end(session=haunted, actor=ada)
    assert_harmless(client.get(root).content.decode())


def test_every_page_of_the_candidate(haunted, client):
    cookies = client.session
    cookies[CANDIDATE_KEY] = str(haunted.uuid)
    cookies.save()
    for address in (f"/c/{haunted.uuid}/", f"/c/{haunted.uuid}/panels/all/"):
        response = client.get(address)
        assert response.status_code == 200, address
        assert_harmless(response.content.decode())


def test_the_scorecard_as_json_and_as_pdf(haunted, ada):
    services.end(session=haunted, actor=ada)
    card = build_scorecard(session=haunted, viewer=ada)
    text = as_json(card).decode()
    assert unseen(text) == set()
    assert unseen("".join(re.findall(r"\\u([0-9a-f]{4})", text))) == set()
    assert not re.search(r"\\u00[01][0-9a-f]", text)
    assert json.loads(text)["candidate"]["name"] == card["candidate"]["name"]
    reader = PdfReader(BytesIO(as_pdf(card)))
    printed = "".join(page.extract_text() for page in reader.pages)
    assert "<script>" in printed.replace("\n", "")
    assert "\x1b" not in printed
    assert not any("/A" in (note.get_object() or {}) for page in reader.pages for note in page.get("/Annots", []))


def test_a_download_cannot_be_named_by_the_candidate(haunted, client, ada):
    type(haunted).objects.filter(pk=haunted.pk).update(
        candidate_name='a"; filename="x.exe\r\nSet-Cookie: a=b\u202e' * 2
    )
    client.force_login(ada)
    for ending in ("json", "pdf"):
        header = client.get(f"/sessions/{haunted.uuid}/scorecard.{ending}")["Content-Disposition"]
        assert re.fullmatch(
            rf'attachment; filename="scorecard-[a-z0-9_-]{{1,60}}-\d{{4}}-\d\d-\d\d\.{ending}"', header
        )
    card = build_scorecard(session=haunted, viewer=ada)
    for name in ("\u202e" * 120, "...", "王", "CON", "x" * 120, "-rf"):
        assert re.fullmatch(
            r"scorecard-[a-z0-9_-]{1,60}-[0-9-]{10}\.pdf", file_name(card | {"candidate": {"name": name}}, "pdf")
        )


def test_names_and_titles_are_one_line_in_sight(ada, scenario_version, time):
    session = services.create_session(
        owner=ada,
        candidate_name=f"Sam\n{TURNED}{ESCAPES}",
        title=f"GPU\t{ESCAPES}",
        scenario_versions=[scenario_version],
    )
    assert unseen(session.candidate_name + session.title) == set()
    assert "\n" not in session.candidate_name + session.title


def test_what_a_moment_says_is_bounded(haunted):
    assert max(len(words_for(event)) for event in haunted.events.all()) < 400


def test_what_is_kept_of_a_check_is_bounded_and_can_be_stored_everywhere(haunted):
    findings = list(CheckState.objects.values_list("finding", flat=True))
    payloads = [
        json.dumps(payload, ensure_ascii=False) for payload in haunted.events.values_list("payload", flat=True)
    ]
    assert findings
    assert max(map(len, findings)) <= 1000
    assert max(map(len, payloads)) < 8000
    assert set().union(*map(unseen, findings + payloads)) == set()


# A candidate on a practice cluster

ECHOED = (MARKUP + ESCAPES + TURNED).translate(dict.fromkeys(map(ord, "'\\")))


def pod(name: str, image: str, command: list[str]):
    container = {"name": "c", "image": image, "command": command}
    meta = {"name": name, "namespace": "default", "annotations": {"note": HOSTILE}}
    spec = {"restartPolicy": "Never", "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


@pytest.fixture
def kube(practice, db):
    cluster = fault_services.ensure_practice_cluster(name="hostile", deadline=datetime.now(UTC) + timedelta(hours=1))
    yield fault_selectors.kube_for(cluster)
    fault_services.release_cluster(cluster=cluster)


def until(found):
    """Look until it is there, for ten seconds at most."""
    for _ in range(200):
        if result := found():
            return result
        machine_time.sleep(0.05)
    raise AssertionError("it did not come to pass")


def test_what_a_candidate_runs_and_names_reaches_the_page_in_sight(kube, haunted):
    kube.create(pod("named", f"evil/{MARKUP.replace(' ', '')}\x00{ESCAPES}{TURNED}{HEAP}", ["true"]))
    kube.create(pod("shouts", "busybox:1.36", ["sh", "-c", f"echo '{ECHOED}{'x' * 100_000}'"]))
    kube.create(pod("prints", "python:3.12-slim", ["python3", "-c", f'print("{HEAP}")']))

    def ran():
        found = {obj["metadata"]["name"]: obj for obj in kube.list("v1", "Pod", "default")}
        over = all(found[name]["status"]["phase"] in ("Succeeded", "Failed") for name in ("shouts", "prints"))
        waits = rows.pod_row(found["named"], False).message
        return found if over and waits else None

    found = until(ran)
    assert "<script>" in kube.logs("default", "shouts")
    assert len(kube.logs("default", "shouts")) > 10_000
    state = LiveState(
        pods=[rows.pod_row(obj, True) for obj in found.values()],
        events=[rows.event_row(event) for event in kube.list("v1", "Event", "default")],
        synced_at=clock.now(),
    )
    assert state.events
    for name in ("pods", "events"):
        html = panels.render(haunted, name, panels.INTERVIEWER, state)
        assert_harmless(html)
        assert len(html) < 100_000

    reads = {"pods": ObjectRead("v1", "Pod", "default"), "logs": LogRead("pods")}
    condition = Condition(reads, "size(logs) > 9", "join(logs, ' ') + join(images(pods[0]), ' ')")
    outcome = checking.checks.evaluate(condition, kube)
    assert outcome.verdict == "fail"
    assert len(outcome.finding) <= 1000
    assert unseen(outcome.finding) == set()
    row = haunted.scenarios.select_related("run", "scenario_version").get()
    check = Check("hostile", "Hostile", 1, (), 0, condition)
    state = CheckState.objects.create(scenario=row, key=check.key, finding=outcome.finding)
    assert state.finding == CheckState.objects.get(pk=state.pk).finding


# A revert that cannot succeed


COMMAND = "kubectl delete job nightly-train -n ml-training"


def test_a_quarantined_run_tells_its_command_on_the_page(ended, client, ada):
    services.release(session=ended, actor=ada)
    FaultRun.objects.update(
        status=FaultRun.Status.QUARANTINED, error=plain(HOSTILE, 2000), manual_command=COMMAND, residue=["Job left"]
    )
    client.force_login(ada)
    page = client.get(f"/sessions/{ended.uuid}/").content.decode()
    assert f">{COMMAND}</pre>" in page
    assert "This one needs a person." in page
    assert_harmless(page)
