from __future__ import annotations

import socket
import ssl

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from faults import crypto
from faults.code_archive import MAX_ZIP_BYTES, make_zip
from faults.errors import FaultError, Forbidden, Unreachable
from faults.kube.config import render
from sessions import services
from sessions.models import InterviewSession
from sessions.selectors import CANDIDATE_KEY, pack_for


@pytest.fixture
def candidate(client, ready):
    """A browser that has joined the session, and is signed in as nobody."""
    session = client.session
    session[CANDIDATE_KEY] = str(ready.uuid)
    session.save()
    return client


def url(session) -> str:
    return f"/c/{session.uuid}/"


def test_the_lobby_tells_nothing_of_the_task(candidate, ready, scenario):
    page = candidate.get(url(ready)).content.decode()
    assert "has not started yet" in page
    assert pack_for(scenario).title not in page


def test_the_live_page_has_statement_clock_and_watchers(candidate, live, django_assert_max_num_queries):
    with django_assert_max_num_queries(12):
        page = candidate.get(url(live)).content.decode()
    assert "Your task" in page
    assert "ages and times in it may be shorter than the task tells" in page
    assert 'role="timer"' in page
    assert "ada, grace can see the cluster" in page
    assert f"{url(live)}kubeconfig/" in page


@pytest.mark.parametrize(("closes", "words"), [(False, "stays open"), (True, "is closed meanwhile")])
def test_a_pause_says_whether_the_access_stays_open(candidate, live, ada, closes, words):
    InterviewSession.objects.update(close_while_paused=closes)
    services.pause(session=live, actor=ada)
    page = candidate.get(url(live)).content.decode()
    assert f"Your access to the cluster {words}" in page
    assert ("Access is closed while the interview is paused." in page) is closes
    services.resume(session=live, actor=ada)
    assert "Access is closed" not in candidate.get(url(live)).content.decode()


def test_the_live_page_holds_nothing_of_the_interviewers(candidate, live, scenario):
    page = candidate.get(url(live)).content.decode()
    pack = pack_for(scenario)
    secrets = [hint.text for hint in pack.hints] + [row.title for row in pack.rubric]
    secrets += [check.title for check in (*pack.checks, *pack.guards)] + [way.title for way in pack.solutions]
    assert [secret for secret in secrets if secret[:40] in page] == []
    assert "/sessions/" not in page.replace("/ws/", "")


def test_after_the_end_there_is_only_a_farewell(candidate, ended):
    page = candidate.get(url(ended)).content.decode()
    assert "The interview has ended" in page
    assert "kubeconfig/" not in page


def test_no_kubeconfig_before_the_start(candidate, ready):
    assert candidate.get(f"{url(ready)}kubeconfig/").status_code == 409


def test_no_kubeconfig_after_the_end(candidate, ended):
    assert candidate.get(f"{url(ended)}kubeconfig/").status_code == 409


def test_an_interviewer_is_no_candidate(client, ada, live):
    client.force_login(ada)
    assert client.get(url(live)).status_code == 404
    assert client.get(f"{url(live)}kubeconfig/").status_code == 404


def test_the_candidate_of_one_session_sees_no_other(candidate, scenario_version, ada):
    other = services.create_session(owner=ada, candidate_name="B", scenario_versions=[scenario_version], minutes=60)
    assert candidate.get(url(other)).status_code == 404


def test_the_candidate_may_not_open_the_interviewers_page(candidate, live):
    assert candidate.get(f"/sessions/{live.uuid}/").status_code == 302


def test_a_browser_that_has_not_joined_sees_nothing(client, live):
    assert client.get(url(live)).status_code == 404


def test_it_rejects_post(candidate, live):
    assert candidate.post(url(live)).status_code == 405
    assert candidate.post(f"{url(live)}kubeconfig/").status_code == 405


def test_the_tab_names_the_state_and_never_the_task(candidate, live, ada):
    assert "<title>Live: " in candidate.get(url(live)).content.decode()
    services.pause(session=live, actor=ada)
    page = candidate.get(url(live)).content.decode()
    assert "<title>Paused: " in page
    assert "favicon-paused.svg" in page


@pytest.fixture
def hanging_host(settings, monkeypatch):
    """A host of practice clusters that takes connections and never answers."""
    monkeypatch.setattr("faults.kube.client.TIMEOUT", (0.1, 0.1))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        settings.KUBESIM_URL = f"https://127.0.0.1:{listener.getsockname()[1]}"
        yield settings.KUBESIM_URL


def test_a_cluster_that_hangs_is_a_clear_page(candidate, live, hanging_host):
    ca_pem = ssl.DER_cert_to_PEM_cert(ssl.create_default_context().get_ca_certs(binary_form=True)[0])
    names = {"namespace": "training", "user": "sam", "cluster": "gpu-test"}
    live.cluster.kubeconfig = crypto.seal(render(server=hanging_host, ca_pem=ca_pem, token="x", **names))
    live.cluster.save()
    live.environment.namespaces = {"home": "training"}
    live.environment.save()
    candidate.raise_request_exception = False
    answer = candidate.get(f"{url(live)}kubeconfig/")
    assert answer.status_code == 503
    assert "The cluster does not answer right now." in answer.content.decode()


@pytest.mark.parametrize("error", [Unreachable("no answer"), Forbidden("no"), FaultError("lease")])
@pytest.mark.parametrize("headers", [{}, {"HX-Request": "true"}])
def test_whatever_view_asks_a_cluster_answers_503_where_it_fails(candidate, live, monkeypatch, error, headers):
    def fails(*args, **kwargs):
        raise error

    monkeypatch.setattr("sessions.views.candidate.progress.candidate_screen", fails)
    answer = candidate.get(url(live), headers=headers)
    assert (answer.status_code, answer["Retry-After"]) == (503, "5")
    assert "The cluster does not answer right now" in answer.content.decode()


def test_the_live_page_tells_how_to_enter_the_toolbox_to_be_copied(candidate, live):
    assert "kubectl exec" not in candidate.get(url(live)).content.decode()
    live.environment.parameters = {"toolbox": {"namespace": "toolbox-a1", "image": "x"}}
    live.environment.save()
    page = candidate.get(url(live)).content.decode()
    assert '<code id="cmd-toolbox">kubectl exec -it toolbox -n toolbox-a1 -- bash</code>' in page
    assert 'data-copy="cmd-toolbox"' in page
    assert "has kubectl, crane, curl, jq and python3, with your own rights" in page
    live.environment.parameters["toolbox"]["gpu"] = True
    live.environment.save()
    assert "has kubectl, crane, curl, jq, python3 and nvidia-smi, with" in candidate.get(url(live)).content.decode()


@pytest.fixture
def coding(live):
    """A session whose toolbox has Terraform; its cluster is another's, which does not answer."""
    run = live.environment
    workspace = {"state": "platform", "namespaces": [], "objects": [], "rights": [], "cloud-roles": []}
    run.parameters |= {"toolbox": {"namespace": "toolbox", "image": "none", "terraform": workspace}}
    run.save(update_fields=["parameters"])
    return live


def test_code_is_offered_where_there_is_some(candidate, coding):
    page = candidate.get(url(coding)).content.decode()
    assert f'action="{url(coding)}code/"' in page
    assert "terraform" in page


def test_there_is_no_code_without_a_scenario_of_terraform(candidate, live):
    assert "Download code" not in candidate.get(url(live)).content.decode()
    assert candidate.get(f"{url(live)}code/").status_code == 404


def upload(candidate, session, data):
    file = SimpleUploadedFile("code.zip", data, content_type="application/zip")
    return candidate.post(f"{url(session)}code/", {"code": file})


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"nothing", "This is no zip file."),
        (b"x" * (MAX_ZIP_BYTES + 1), "The zip is larger than 256 KiB."),
        (make_zip({"run.sh": "x"}), "run.sh&#x27; is not taken"),
    ],
)
def test_a_zip_that_is_not_taken_is_refused_on_the_page(candidate, coding, data, words):
    answer = upload(candidate, coding, data)
    assert answer.status_code == 422
    assert words in answer.content.decode()


def test_an_upload_without_a_file_is_refused_on_the_page(candidate, coding):
    answer = candidate.post(f"{url(coding)}code/")
    assert (answer.status_code, "Choose a zip file first." in answer.content.decode()) == (422, True)


def test_code_is_closed_while_the_access_is(candidate, coding, ada):
    InterviewSession.objects.update(close_while_paused=True)
    services.pause(session=coding, actor=ada)
    assert candidate.get(f"{url(coding)}code/").status_code == 409
    assert upload(candidate, coding, make_zip({"x.tf": ""})).status_code == 409


def test_only_the_candidate_gets_at_the_code(client, ada, coding):
    client.force_login(ada)
    assert client.get(f"{url(coding)}code/").status_code == 404
    assert upload(client, coding, b"x").status_code == 404
