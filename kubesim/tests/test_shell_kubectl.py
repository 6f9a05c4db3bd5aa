"""kubectl inside a container, against a server that answers what it is told to."""

from __future__ import annotations

import json

import pytest

from kubesim.shell.errors import UpgradeError
from kubesim.shell.kubectl.client import KubectlError
from kubesim.shell.kubectl.flags import parse
from kubesim.shell.kubectl.verbs import VERBS
from kubesim.tests import shell_world

PODS = {
    "kind": "Table",
    "columnDefinitions": [{"name": "Name"}, {"name": "Ready"}, {"name": "Node", "priority": 1}],
    "rows": [
        {"cells": ["web-0", "1/1", "n1"], "object": {"metadata": {"namespace": "shop", "labels": {"app": "web"}}}},
        {"cells": ["database-0", "0/1", "n2"], "object": {"metadata": {"namespace": "shop"}}},
    ],
}
CORE = {
    "metadata": {},
    "versions": [
        {
            "version": "v1",
            "resources": [
                {
                    "resource": "pods",
                    "responseKind": {"kind": "Pod"},
                    "scope": "Namespaced",
                    "singularResource": "pod",
                    "shortNames": ["po"],
                }
            ],
        }
    ],
}


class Server:
    """Answers by path; keeps what was asked."""

    server, token, namespace = "https://kubernetes.default.svc", "t", "shop"

    def __init__(self, more=None):
        self.asked = []
        self.more = more or {}

    async def request(self, method, path, *, body=b"", headers=None):
        self.asked.append((method, path))
        known = {"/api": {"items": [CORE]}, "/apis": {"items": []}, "/api/v1/namespaces/shop/pods": PODS, **self.more}
        found = known.get(path.partition("?")[0])
        if path.partition("?")[0] not in known:
            found = {"reason": "NotFound", "message": f'pods "{path.rsplit("/", 1)[-1]}" not found'}
            return 404, {}, json.dumps(found).encode()
        return 200, {}, json.dumps(found).encode()

    async def stream(self, path, *, headers=None):
        yield b"{}"

    def open(self, path, *, headers=None):
        raise UpgradeError(400, b"no")


async def says(script):
    made = shell_world.machine("toolbox")
    made.kube = Server()
    return await shell_world.run(script, made=made)


async def test_a_list_is_printed_from_the_servers_table():
    text = "NAME         READY\nweb-0        1/1\ndatabase-0   0/1\n"
    assert await says("kubectl get po") == (text, 0)


async def test_wide_output_has_the_columns_of_lower_priority():
    text, _ = await says("kubectl get pods -o wide | head -1")
    assert text.split() == ["NAME", "READY", "NODE"]


async def test_refusals_are_the_servers():
    assert await says("kubectl get pod nope") == ('Error from server (NotFound): pods "nope" not found\n', 1)


async def test_a_kind_that_is_not_served_is_named():
    assert await says("kubectl get foo") == ('error: the server doesn\'t have a resource type "foo"\n', 1)


async def test_without_an_account_there_is_no_server():
    text, status = await shell_world.run("kubectl get pods")
    assert (text.startswith("The connection to the server localhost:8080 was refused"), status) == (True, 1)


async def test_a_cell_is_one_line_and_commands_no_terminal():
    hostile = {"kind": "Table", "columnDefinitions": [{"name": "Name"}], "rows": [{"cells": ["a\x1b[2Jb\nc"]}]}
    made = shell_world.machine("toolbox")
    made.kube = Server({"/api/v1/namespaces/shop/pods": hostile})
    assert await shell_world.run("kubectl get pods", made=made) == ("NAME\na^[[2Jb...\n", 0)


@pytest.mark.parametrize("answer", [[], None, 7, {}, {"items": 7}, {"items": [None]}, {"metadata": []}])
async def test_no_answer_of_a_server_ends_it_otherwise_than_with_a_message(answer):
    for verb in VERBS:
        made = shell_world.machine("toolbox")
        made.kube = Server({"/api/v1/namespaces/shop/pods/x": answer, "/api/v1/namespaces/shop/pods": answer})
        _, status = await shell_world.run(f"timeout 1 kubectl {verb} pod x", made=made)
        assert status in (0, 1, 2, 124)
        made.stop()


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("kustomize .", "kustomize"),
        ("proxy --port=8001", "proxy"),
        ("auth reconcile -f rights.yaml", "auth reconcile"),
        ("explain pods", "explain"),
        ("cluster-info dump", "cluster-info dump"),
        ("apply -f web.yaml --prune --all", "--prune"),
        ("apply -k .", "--kustomize"),
        ("config set-credentials ann --token=t", "config set-credentials"),
        ("set selector svc/web app=other", "set selector"),
        ("get pods --template={{.kind}}", "--template"),
        ("port-forward svc/web 8080:80", "port-forward"),
        ("expose deploy web", "expose"),
        ("debug web-0 --copy-to=other --image=busybox", "--copy-to"),
        ("cp web-0:/etc/hosts .", "cp"),
        ("apply -f web.yaml --server-side", "--server-side"),
    ],
)
def test_what_only_a_candidates_own_kubectl_has_is_named(line, what):
    with pytest.raises(KubectlError, match=f"error: this kubectl was built without {what}$"):
        parse(line.split())


async def test_a_format_that_only_a_candidates_own_kubectl_has_is_named():
    text = "error: this kubectl was built without go-template\n"
    assert await says("kubectl get pods -o go-template={{.kind}}") == (text, 1)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("get pods -o jsonpath-file=form", "error: this kubectl was built without jsonpath-file"),
        ("logs web-0 --tail=x", 'error: invalid argument "x" for "--tail" flag'),
        ("wait pod/web-0 --for=jsonpath={.a}==b", "error: jsonpath wait format must be"),
    ],
)
async def test_a_wrong_option_is_refused(line, told):
    text, status = await says(f"kubectl {line}")
    assert text.startswith(told)
    assert status == 1


async def test_the_help_of_a_command_that_is_left_out_says_what_it_is_for():
    text, status = await says("kubectl cp --help")
    assert text.startswith("Copy files and directories to and from containers.\n")
    assert status == 0


async def test_what_was_applied_last_is_shown_as_it_was():
    said = '{"apiVersion":"v1","kind":"Pod","metadata":{"annotations":{},"name":"x"}}\n'
    made = shell_world.machine("toolbox")
    notes = {"kubectl.kubernetes.io/last-applied-configuration": said}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "namespace": "shop", "annotations": notes}}
    made.kube = Server({"/api/v1/namespaces/shop/pods/x": pod})
    text, status = await shell_world.run("kubectl apply view-last-applied pod/x", made=made)
    assert (text, status) == ("apiVersion: v1\nkind: Pod\nmetadata:\n  annotations: {}\n  name: x\n", 0)
    text, status = await shell_world.run("kubectl apply view-last-applied pod x -o wide", made=made)
    assert text.startswith("error: Unexpected -o output mode: wide, the flag 'output' must be one of yaml|json\n")
