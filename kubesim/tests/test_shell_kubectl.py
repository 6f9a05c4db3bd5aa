"""kubectl inside a container, against a server that answers what it is told to."""

from __future__ import annotations

import json

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

    def __init__(self):
        self.asked = []

    async def request(self, method, path, *, body=b"", headers=None):
        self.asked.append((method, path))
        known = {"/api": {"items": [CORE]}, "/apis": {"items": []}, "/api/v1/namespaces/shop/pods": PODS}
        found = known.get(path)
        if found is None:
            found = {"reason": "NotFound", "message": f'pods "{path.rsplit("/", 1)[-1]}" not found'}
            return 404, {}, json.dumps(found).encode()
        return 200, {}, json.dumps(found).encode()


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
