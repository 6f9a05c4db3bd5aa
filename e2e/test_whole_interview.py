"""One interview from the demo plan to the scorecard, as its people would do it, on another loopback address."""

from __future__ import annotations

import json
import re
import ssl

import pytest
from playwright.sync_api import expect
from pypdf import PdfReader

from e2e.conftest import ADDRESS, start, stop
from e2e.people import PATIENCE, PICTURES, SCREENSHOTS, SIZES, Kubectl, Person, kubectl_path

pytestmark = [pytest.mark.browser, pytest.mark.kubectl]
MOST_CLICKS = 6
NO_KUBECTL = "needs kubectl on PATH: https://kubernetes.io/docs/tasks/tools/"
LOOPBACKS = re.compile(r"127\.0\.0\.1|localhost")


@pytest.fixture
def ada(browser, installation):
    person = Person(browser, installation.url)
    yield person
    assert person.problems == []


@pytest.fixture
def candidate(browser, installation):
    person = Person(browser, installation.url)
    yield person
    assert person.problems == []


def sign_in(person, installation, account="interviewer"):
    person.page.goto("/")
    person.page.get_by_label("User name").fill(account)
    person.page.get_by_label("Password").fill(installation.password(account))
    person.page.get_by_role("button", name="Sign in").click()


@pytest.mark.skipif(kubectl_path() is None, reason=NO_KUBECTL)
def test_a_whole_interview(ada, candidate, installation, tmp_path):
    assert_sign_in_refuses_a_wrong_password(ada)
    sign_in(ada, installation)
    ada.see("Use plan")
    ada.picture("01-list-empty")

    link = from_the_demo_plan_to_live(ada)
    assert ada.clicks <= MOST_CLICKS

    kubectl, job = the_candidate_joins(candidate, link, tmp_path)
    ada.see(job)
    ada.see("CrashLoopBackOff")
    ada.picture("05-live")
    ada.check_access("05-live")

    the_interviewer_works(ada, candidate)
    the_page_survives_a_lost_connection(ada, candidate, kubectl)
    the_candidate_repairs_it(kubectl, job, tmp_path)
    expect(ada.page.locator("#panel-checks")).to_contain_text("3 of 3", timeout=60_000)
    candidate.picture("06-candidate-live")
    candidate.check_access("06-candidate-live")
    ada.picture("07-live-repaired")

    end_the_interview(ada, candidate, kubectl, job)
    submit_and_release(ada)
    card = the_scorecard(ada, tmp_path)
    assert card["scenarios"][0]["checks"]
    assert_no_loopback(json.dumps(card), link, installation)


STEPS = """00-sign-in 01-list-empty 02-new 03-ready 04-join 05-live 06-candidate-live 07-live-repaired
08-candidate-over 09-ended 09-review 10-released 11-scorecard"""


@pytest.mark.skipif(not PICTURES, reason="each step's pictures, looked at by axe: make e2e, or TORTURE_ROUNDS")
def test_each_step_is_kept_at_both_widths_and_in_both_colours():
    names = {f"{step}-{size}-{scheme}" for step in STEPS.split() for size in SIZES for scheme in ("light", "dark")}
    assert names - {path.stem for path in SCREENSHOTS.glob("*.png")} == set()


def assert_sign_in_refuses_a_wrong_password(person):
    person.page.goto("/")
    person.picture("00-sign-in")
    person.page.get_by_label("User name").fill("interviewer")
    person.page.get_by_label("Password").fill("wrong-password")
    person.page.get_by_role("button", name="Sign in").click()
    person.see(person.page.get_by_role("alert").first)


def from_the_demo_plan_to_live(ada):
    ada.click("Use plan", role="link")
    ada.page.get_by_label("Candidate").first.fill("Noor Haddad")
    ada.picture("02-new")
    ada.click("Create and prepare")
    ada.see(ada.page.get_by_role("button", name="Start the interview"), patience=60_000)
    ada.picture("03-ready")
    ada.click("Make the join link")
    link = ada.see(ada.page.locator("#join-url")).inner_text()
    ada.click("Start the interview")
    ada.see(ada.page.locator("#panel-checks"))
    return link


def the_candidate_joins(candidate, link, folder):
    candidate.page.goto(link)
    candidate.picture("04-join")
    candidate.click("Join the interview")
    candidate.see("A training job that never starts")
    with candidate.page.expect_download() as download:
        candidate.click("Download kubeconfig", role="link")
    path = folder / "kubeconfig.yaml"
    download.value.save_as(path)
    assert not LOOPBACKS.search(path.read_text())
    kubectl = Kubectl(path, folder)
    assert "CrashLoopBackOff" in wait_for(kubectl, "get pods", "CrashLoopBackOff")
    job = candidate.page.locator("#panel-statement code").first.inner_text()
    assert "exec format error" in kubectl(f"logs job/{job}").stdout
    expect(candidate.page.locator("#panel-connection")).to_be_hidden()  # no cluster tells of a first request
    return kubectl, job


def wait_for(kubectl, command, text, times=40):
    """Run a command until its output has the text. A job's pod is between two states for a moment."""
    for _ in range(times):
        answer = kubectl(command)
        if text in answer.stdout:
            return answer.stdout
    raise AssertionError(answer.stdout + answer.stderr)


def the_interviewer_works(ada, candidate):
    page = ada.page
    first = page.locator("form.criterion").first
    first.get_by_role("radio").nth(2).check()
    expect(first.locator(".saved")).to_contain_text(re.compile("saved", re.IGNORECASE), timeout=PATIENCE)
    ada.click("Notes", role="tab")
    page.locator("#id_note_text").fill("Reads the log before theorising. <script>alert(1)</script>")
    ada.click("Add note")
    ada.see("Reads the log before theorising.")
    ada.click("Hints", role="tab")
    page.locator("#panel-hints summary").first.click()
    ada.click("Release to the candidate")
    expect(candidate.page.locator("#panel-statement")).to_contain_text(
        "What did the program itself", timeout=PATIENCE
    )
    ada.click("Questions", role="tab")
    page.locator("#panel-questions summary").first.click()
    page.get_by_role("button", name="Mark as asked").first.click()
    expect(page.locator("#panel-questions")).to_contain_text("sked", timeout=PATIENCE)
    ada.click("Score", role="tab", exact=True)


def the_page_survives_a_lost_connection(ada, candidate, kubectl):
    ada.context.set_offline(True)
    assert kubectl("run while-away --image=python:3.9-slim --command -- sleep 3600").returncode == 0
    ada.context.set_offline(False)
    expect(ada.page.locator("#panel-pods")).to_contain_text("while-away", timeout=PATIENCE)
    assert kubectl("delete pod while-away --wait=false --grace-period=0 --force").returncode == 0
    expect(ada.page.locator("#panel-pods")).not_to_contain_text("while-away", timeout=PATIENCE)


def the_candidate_repairs_it(kubectl, job, folder):
    manifest = kubectl(f"apply view-last-applied job {job}").stdout
    assert "image: " in manifest
    (folder / "job.yaml").write_text(re.sub(r"image: .*", "image: python:3.9-slim", manifest))
    refused = kubectl("apply -f job.yaml")
    assert "field is immutable" in refused.stderr
    replaced = kubectl("replace --force -f job.yaml")
    assert replaced.returncode == 0, replaced.stderr
    waited = kubectl(f"wait --for=condition=complete job/{job} --timeout=60s")
    assert waited.returncode == 0, waited.stderr


def end_the_interview(ada, candidate, kubectl, job):
    ada.click("End", exact=True)
    ada.page.locator("#do-end").click()
    ada.see("My assessment")
    candidate.see("The interview has ended")
    candidate.picture("08-candidate-over")
    for _ in range(40):
        answer = kubectl("get pods")
        if answer.returncode:
            break
    assert answer.returncode != 0
    assert job not in answer.stdout


def submit_and_release(ada):
    ada.picture("09-ended")
    ada.page.get_by_text("Yes", exact=True).first.click()
    ada.page.get_by_label("Take-aways").first.fill("Systematic; verifies the repair.")
    ada.page.locator("#do-submit").click()
    ada.see("Review before submitting")
    ada.picture("09-review")
    ada.page.get_by_label("I submit with").check()
    ada.page.locator("#do-confirm").click()
    ada.see("Submitted")
    ada.click("Release the cluster")
    ada.see("nothing left behind", patience=60_000)
    ada.picture("10-released")


def the_scorecard(ada, folder):
    ada.click("Scorecard", role="link")
    ada.see("Noor Haddad")
    ada.picture("11-scorecard")
    with ada.page.expect_download() as download:
        ada.page.get_by_role("link", name=re.compile("PDF")).first.click()
    download.value.save_as(folder / "scorecard.pdf")
    text = "".join(page.extract_text() for page in PdfReader(folder / "scorecard.pdf").pages)
    assert "Noor Haddad" in text
    assert "exec format error" in text
    with ada.page.expect_download() as download:
        ada.page.get_by_role("link", name=re.compile("JSON")).first.click()
    download.value.save_as(folder / "scorecard.json")
    return json.loads((folder / "scorecard.json").read_text())


def assert_no_loopback(card, link, installation):
    assert not LOOPBACKS.search(card)
    assert link.startswith(installation.url)
    certificate = ssl.get_server_certificate((ADDRESS, int(installation.env["KUBESIM_PORT"])))
    decoded = ssl.PEM_cert_to_DER_cert(certificate)
    assert b"localhost" not in decoded
    assert bytes([127, 0, 0, 1]) not in decoded
    assert bytes([127, 0, 0, 2]) in decoded


@pytest.mark.torture  # make test rehearses in an installation of rehearse's own: sessions/tests/test_rehearse.py
def test_rehearse_runs_against_the_running_installation(installation):
    answer = installation.manage("rehearse", "--json")
    assert answer.returncode == 0, answer.stderr + answer.stdout
    result = json.loads(answer.stdout)
    assert result["ok"] is True
    assert result["residue"] == []


def test_admin_pages_open(browser, installation):
    admin = Person(browser, installation.url)
    admin.page.goto("/admin/")
    admin.page.get_by_label("User name").fill("admin")
    admin.page.get_by_label("Password").fill(installation.password("admin"))
    admin.page.get_by_role("button", name=re.compile("Log in|Sign in")).click()
    for path in ("faults/scenario/", "interview_sessions/question/", "interview_sessions/plan/"):
        answer = admin.page.goto(f"/admin/{path}")
        assert answer.status == 200
        admin.picture("12-admin-" + path.strip("/").replace("/", "-"))
    assert admin.problems == []


@pytest.mark.torture  # make test starts the folder of an earlier version: test_kept_folder.py
@pytest.mark.skipif(kubectl_path() is None, reason=NO_KUBECTL)
def test_a_second_start_keeps_data_and_live_clusters(ada, candidate, installation, tmp_path):
    sign_in(ada, installation)
    ada.click("New session", role="link")
    link = from_the_demo_plan_to_live(ada)
    kubectl, job = the_candidate_joins(candidate, link, tmp_path)
    assert kubectl("run kept --image=python:3.9-slim --labels=a=b --command -- sleep 3600").returncode == 0
    ada.page.goto("about:blank")
    candidate.page.goto("about:blank")

    assert stop(installation) in (0, 130)
    assert not any("Traceback" in line for line in installation.lines), "".join(installation.lines)
    again = start(installation.folder, installation.env)
    try:
        assert not any(", password " in line for line in again.lines)
        assert kubectl("get pod kept -o jsonpath={.metadata.labels.a}").stdout == "b"
        assert job in kubectl("get pods").stdout
        ada.page.goto("/")
        ada.see("Noor Haddad")
    finally:
        stop(again)
    ada.problems.clear()
    candidate.problems.clear()
