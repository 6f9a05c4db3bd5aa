"""Requests to programs in a cluster: what is sent, what counts as their answer, and what they cannot do to us."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from types import SimpleNamespace

import pytest
import urllib3

from faults import errors
from faults.engine.model import Reply, Request
from faults.kube import port_forward, proxy
from faults.kube.client import Kube
from faults.kube.proxy import MAX_REPLY_BYTES
from faults.tests.scripted import ScriptedServer
from torture.api_proxy import write_certificate

GET = Request("GET", "/settings?all=1")


def refusal(code, reason, message):
    body = {"kind": "Status", "apiVersion": "v1", "code": code, "reason": reason, "message": message}
    return code, {}, [json.dumps(body).encode()]


def ask(answer, request=GET, server="services/settings:80"):
    with ScriptedServer(lambda *said: answer, discovery=False) as script:
        return script.kube.call("lab", server, request), script.requests, script.bodies


def test_it_goes_through_the_proxy_of_the_pod_or_service():
    reply, requests, bodies = ask((200, {}, [b"yes"]), Request("PUT", "/a/b%2Fc", {"seconds": 5}), "pods/app:8080")
    assert reply == Reply(200, b"yes")
    assert requests == [("PUT", "/api/v1/namespaces/lab/pods/app:8080/proxy/a/b%2Fc", {})]
    assert json.loads(bodies[0]) == {"seconds": 5}
    assert ask((200, {}, []))[1] == [
        ("GET", "/api/v1/namespaces/lab/services/settings:80/proxy/settings", {"all": "1"})
    ]


def test_a_name_cannot_lead_elsewhere():
    path = proxy.proxy_path("lab/../kube-system", "pods/../secrets/x:1", "/")
    assert path == "/api/v1/namespaces/lab%2F..%2Fkube-system/pods/..%2Fsecrets%2Fx:1/proxy/"


@pytest.mark.parametrize("code", [200, 302, 404, 500, 503])
def test_whatever_a_program_answers_is_its_reply_and_no_redirect_is_followed(code):
    reply, requests, _ = ask((code, {"Location": "http://127.0.0.1:1/steal"}, [b"words"]))
    assert reply == Reply(code, b"words")
    assert len(requests) == 1


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (refusal(503, "ServiceUnavailable", 'no endpoints available for service "settings"'), errors.Unanswered),
        (refusal(503, "ServiceUnavailable", "error trying to reach service: connection refused"), errors.Unanswered),
        (refusal(404, "NotFound", 'services "settings" not found'), errors.NotFound),
        (refusal(403, "Forbidden", "no"), errors.Forbidden),
    ],
)
def test_a_refusal_of_the_api_server_is_no_reply(answer, error):
    with pytest.raises(errors.ClusterError) as caught:
        ask(answer)
    assert type(caught.value) is error


def test_only_what_changes_nothing_is_asked_again():
    busy = refusal(503, "ServiceUnavailable", "the server is starting")
    for request, tries in ((GET, 5), (Request("POST", "/x"), 1)):
        with ScriptedServer(lambda *said: busy, discovery=False) as script, pytest.raises(errors.Unreachable):
            script.kube.call("lab", "pods/app:1", request)
        assert len(script.requests) == tries


READY = {"conditions": [{"type": "Ready", "status": "True"}]}
SERVICE = {"spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}]}}
CONTAINERS = [{"name": "web", "ports": [{"name": "http", "containerPort": 8080}]}]


def out_of_reach(method, path, query):
    """Answer as an API server that has no way to the network of pods."""
    if "/proxy/" in path:
        return refusal(
            503, "ServiceUnavailable", "error trying to reach service: dial tcp 10.1.2.3:8080: i/o timeout"
        )
    if path == "/api/v1":
        names = {"pods": "Pod", "services": "Service"}
        rows = [{"name": name, "kind": kind, "namespaced": True, "verbs": ["get"]} for name, kind in names.items()]
        return 200, {}, [json.dumps({"resources": rows}).encode()]
    pod = {"metadata": {"name": "web-1"}, "spec": {"containers": CONTAINERS}, "status": READY}
    found = {"items": [pod, {**pod, "metadata": {"name": "web-0"}, "status": {}}]}
    return 200, {}, [json.dumps(SERVICE if path.endswith("/services/settings") else found).encode()]


def test_where_no_proxy_reaches_pods_the_kubelet_of_a_ready_one_is_asked():
    with ScriptedServer(out_of_reach, discovery=False) as script:
        with pytest.raises(errors.Unanswered, match="i/o timeout; nor does a kubelet"):  # the script speaks no TLS
            script.kube.call("lab", "services/settings:80", GET)
        found = port_forward.find_port(script.kube, "lab", "services/settings:80")
    assert found == port_forward.PodPort("web-1", 8080)
    assert port_forward.find_port(script.kube, "lab", "pods/https:web:8443") == port_forward.PodPort(
        "web", 8443, True
    )


def test_what_changes_something_is_not_sent_a_second_way_before_it_is_known_that_the_first_leads_nowhere():
    with ScriptedServer(out_of_reach, discovery=False) as script:
        with pytest.raises(errors.Unanswered, match="i/o timeout"):
            script.kube.call("lab", "services/settings:80", Request("POST", "/x"))
        assert [method for method, path, _ in script.requests if "/proxy/" in path] == ["POST"]


def test_a_service_that_selects_no_pods_is_left_to_the_proxy():
    def answer(method, path, query):
        return (200, {}, [b'{"spec": {"ports": [{"port": 80}]}}']) if path.endswith("/services/s") else out(path)

    def out(path):
        return out_of_reach("GET", path, {})

    with ScriptedServer(answer, discovery=False) as script:
        assert port_forward.find_port(script.kube, "lab", "services/s:80") is None
        with pytest.raises(errors.Unanswered, match="i/o timeout"):
            script.kube.call("lab", "services/s:80", GET)


def test_a_forwarded_program_may_speak_tls_with_whatever_certificate(tmp_path):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(write_certificate(tmp_path))
    ours, theirs = socket.socketpair()

    def serve():
        with context.wrap_socket(theirs, server_side=True) as secured:
            secured.recv(4096)
            secured.sendall(b"HTTP/1.1 418 Teapot\r\nContent-Length: 3\r\n\r\ntea")

    thread = threading.Thread(target=serve)
    thread.start()
    port = SimpleNamespace(socket=ours, refusal="", close=ours.close)
    reply = port_forward.ask(port, port_forward.PodPort("web", 8443, True), GET, urllib3.Timeout(5))
    thread.join()
    assert reply == Reply(418, b"tea")


def test_a_reply_is_cut_off_where_it_is_too_large():
    reply, _, _ = ask((200, {}, [b"x" * 30_000] * 10))
    assert len(reply.body) == MAX_REPLY_BYTES


def test_a_reply_that_drips_is_given_up(monkeypatch):
    monkeypatch.setattr(proxy, "MAX_REPLY_S", -1.0)  # no time at all, so that the test needs none
    with pytest.raises(errors.Unanswered, match="was not complete"):
        ask((200, {}, [b"a", b"b"]))


def test_a_program_that_never_answers_is_no_outage_of_the_cluster():
    ended = threading.Event()

    def never(*said):
        ended.wait()
        return 200, {}, []

    with ScriptedServer(never, discovery=False) as script:
        kube = Kube(script.kube.access, timeout=(30.0, 0.05), max_repeat_s=0)
        try:
            with pytest.raises(errors.Unanswered, match="did not answer in time"):
                kube.call("lab", "pods/app:1", GET)
        finally:
            ended.set()
            kube.close()
