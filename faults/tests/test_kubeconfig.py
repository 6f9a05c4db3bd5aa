"""The kubeconfig reader: an allow-list that opens nothing, starts nothing and connects to nothing."""

from __future__ import annotations

import base64
import gc
import sys
import threading
from contextlib import contextmanager

import pytest
import yaml

from faults.errors import KubeconfigRefused
from faults.kube.config import parse, render

PEM = base64.b64encode(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").decode()
FORBIDDEN_EVENTS = ("open", "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "socket.connect", "os.fork")
_watched: dict[int, list[str]] = {}


def _audit(event, args):
    if _watched and event.startswith(FORBIDDEN_EVENTS) and (seen := _watched.get(threading.get_ident())) is not None:
        seen.append(f"{event} {args}")


sys.addaudithook(_audit)


@contextmanager
def watched():
    """Collect what this thread opens, starts or connects to; nothing of other tests is finalized meanwhile."""
    gc.disable()
    _watched[threading.get_ident()] = seen = []
    try:
        yield seen
    finally:
        del _watched[threading.get_ident()]
        gc.enable()


def config(cluster=None, user=None, context=None, **top):
    """Return a kubeconfig's YAML with some parts replaced."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "c",
                "cluster": {"server": "https://k:6443", "certificate-authority-data": PEM} | (cluster or {}),
            }
        ],
        "users": [{"name": "u", "user": {"token": "t"} if user is None else user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"} | (context or {})}],
        "current-context": "x",
    }
    return yaml.safe_dump(document | top)


def without(text, *path):
    """Return the YAML without one field."""
    document = inner = yaml.safe_load(text)
    for key in path[:-1]:
        inner = inner[key]
    del inner[path[-1]]
    return yaml.safe_dump(document)


HOSTILE = {
    "exec": config(user={"exec": {"command": "/bin/sh", "args": ["-c", "id"]}}),
    "exec beside a token": config(user={"token": "t", "exec": {"command": "id"}}),
    "auth-provider": config(user={"auth-provider": {"name": "gcp", "config": {"cmd-path": "/bin/sh"}}}),
    "tokenFile": config(user={"tokenFile": "/etc/shadow"}),
    "client certificate file": config(user={"client-certificate": "/etc/passwd", "client-key": "/etc/shadow"}),
    "client key file": config(user={"client-certificate-data": PEM, "client-key": "/etc/shadow"}),
    "half a certificate": config(user={"client-certificate-data": PEM}),
    "password": config(user={"username": "a", "password": "b"}),
    "impersonation": config(user={"token": "t", "as": "system:admin"}),
    "impersonated groups": config(user={"token": "t", "as-groups": ["system:masters"]}),
    "no credentials": config(user={}),
    "empty token": config(user={"token": ""}),
    "token that is a number": config(user={"token": 5}),
    "token that is a list": config(user={"token": ["t"]}),
    "token with a line break": config(user={"token": "t\r\nX-Injected: 1"}),
    "token and certificate": config(user={"token": "t", "client-certificate-data": PEM, "client-key-data": PEM}),
    "ca file": config(cluster={"certificate-authority": "/etc/passwd"}),
    "proxy": config(cluster={"proxy-url": "http://169.254.169.254"}),
    "insecure": config(cluster={"insecure-skip-tls-verify": True}),
    "insecure as text": config(cluster={"insecure-skip-tls-verify": "false"}),
    "cluster extensions": config(cluster={"extensions": []}),
    "disable compression": config(cluster={"disable-compression": True}),
    "unknown field": config(cluster={"surprise": 1}),
    "plain http": config(cluster={"server": "http://k:6443"}),
    "file url": config(cluster={"server": "file:///etc/passwd"}),
    "gopher": config(cluster={"server": "gopher://k:70"}),
    "no scheme": config(cluster={"server": "k:6443"}),
    "no host": config(cluster={"server": "https://"}),
    "user in the url": config(cluster={"server": "https://a:b@k"}),
    "query in the url": config(cluster={"server": "https://k/?x=1"}),
    "fragment in the url": config(cluster={"server": "https://k/#x"}),
    "line break in the url": config(cluster={"server": "https://k\r\nHost: x"}),
    "space in the url": config(cluster={"server": "https://k /x"}),
    "bad port": config(cluster={"server": "https://k:99999999"}),
    "port that is a word": config(cluster={"server": "https://k:ssh"}),
    "bad brackets": config(cluster={"server": "https://[::1"}),
    "ca that is not base64": config(cluster={"certificate-authority-data": "%%%"}),
    "ca that is not PEM": config(cluster={"certificate-authority-data": base64.b64encode(b"/etc/passwd").decode()}),
    "no ca": without(config(), "clusters", 0, "cluster", "certificate-authority-data"),
    "no server": without(config(), "clusters", 0, "cluster", "server"),
    "no current context": without(config(), "current-context"),
    "no users": without(config(), "users"),
    "unknown context": config(**{"current-context": "y"}),
    "unknown cluster": config(context={"cluster": "other"}),
    "unknown user": config(context={"user": "other"}),
    "context extensions": config(context={"extensions": []}),
    "clusters that are a map": config(clusters={"c": {}}),
    "clusters of texts": config(clusters=["c"]),
    "two clusters of one name": config(clusters=[{"name": "c", "cluster": {}}] * 2),
    "users with a stray field": config(users=[{"name": "u", "user": {"token": "t"}, "exec": {}}]),
    "unknown top field": config(plugins=["/tmp/x.so"]),
    "two documents": config() + "---\n" + config(),
    "a list": "- a\n- b\n",
    "a text": "hello",
    "empty": "",
    "a python object": "!!python/object/apply:os.system ['id']",
    "aliases": "a: &a [x]\nb: *a\n",
    "merge keys": "base: &b {token: t}\nusers:\n- name: u\n  user:\n    <<: *b\n",
    "duplicate keys": config() + "users: []\n",
    "not YAML": "a: [",
    "a tab": "\t\t\tx",
    "NUL": "a: \x00",
    "deep nesting": "[" * 5000,
    "too large": "# " + "x" * 70_000,
    "unhashable key": "? [a, b]\n: c\n",
    "lone surrogate": "a: \ud800",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_it_refuses_with_a_sentence_and_touches_nothing(text):
    with watched() as seen, pytest.raises(KubeconfigRefused) as refusal:
        parse(text)
    assert str(refusal.value)[0] in "T“"
    assert str(refusal.value).endswith(".") or "readable YAML" in str(refusal.value)
    assert seen == []


@pytest.mark.parametrize("text", ["[" * 20_000, "{a: " * 16_000, "- " * 21 + "a"])
def test_nesting_is_refused_before_it_is_built(text):
    with pytest.raises(KubeconfigRefused, match="nested deeper than 20 levels"):
        parse(text)


def test_it_reads_a_token():
    access = parse(config(context={"namespace": "lab"}, cluster={"tls-server-name": "k8s"}))
    assert (access.server, access.token, access.namespace) == ("https://k:6443", "t", "lab")
    assert access.tls_server_name == "k8s"
    assert access.ca_pem.startswith("-----BEGIN CERTIFICATE")
    assert "t'" not in repr(access)


def test_it_reads_a_client_certificate():
    access = parse(config(user={"client-certificate-data": PEM, "client-key-data": PEM}))
    assert access.client_key_pem.startswith("-----BEGIN ")
    assert access.token == ""


def test_it_keeps_the_path_of_a_practice_cluster():
    assert parse(config(cluster={"server": "https://h:8443/clusters/a/"})).server == "https://h:8443/clusters/a"


def test_what_it_writes_it_can_read():
    text = render(server="https://h/clusters/a", ca_pem="-----BEGIN X", token="s3", namespace="lab", user="u")
    access = parse(text)
    assert (access.server, access.token, access.namespace) == ("https://h/clusters/a", "s3", "lab")
