"""Web servers of known images: they serve the files of their container."""

from __future__ import annotations

import asyncio

from kubesim.network.fabric import Request
from kubesim.shell.machine import Stdio
from kubesim.tests.world import container, pod, world

PROBE = {"httpGet": {"path": "/index.html", "port": 80}, "periodSeconds": 1, "failureThreshold": 1}


async def ready(w, name="web"):
    conditions = (await w.pod(name))["status"]["conditions"]
    return next(condition["status"] for condition in conditions if condition["type"] == "Ready")


class Sink:
    """Keeps what is written to it."""

    def __init__(self):
        self.data = b""

    async def write(self, data):
        self.data += data


async def run(w, name, *command):
    """Run a command in a pod's container and return what it prints."""
    found, out = await w.pod(name), Sink()
    running = asyncio.ensure_future(w.kubelets.containers.exec(found, "main", command)(Stdio(None, out, out)))
    await w.tick(2)
    assert await running == 0
    return out.data


async def test_a_page_that_is_moved_away_is_missed_by_the_probe_until_it_is_back():
    async with world() as w:
        image = "registry.k8s.io/e2e-test-images/httpd:2.4.38-4"
        await w.create("pods", pod("web", container(image, readinessProbe=PROBE)))
        await w.tick(5)
        assert await ready(w) == "True"
        page = "/usr/local/apache2/htdocs/index.html"
        await run(w, "web", "mv", page, "/tmp/index.html")
        await w.tick(3)
        assert await ready(w) == "False"
        assert "Readiness probe failed: HTTP probe failed with statuscode: 404" in await w.messages("Unhealthy")
        await run(w, "web", "mv", "/tmp/index.html", page)
        await w.tick(3)
        assert await ready(w) == "True"


async def test_a_mounted_folder_is_served():
    async with world() as w:
        metadata = {"name": "site"}
        await w.create("configmaps", {"metadata": metadata, "data": {"index.html": "hello\n"}})
        mount = {"name": "site", "mountPath": "/usr/share/nginx/html"}
        volume = {"name": "site", "configMap": metadata}
        main = container("nginx:1.27", readinessProbe=PROBE, volumeMounts=[mount])
        await w.create("pods", pod("web", main, volumes=[volume]))
        await w.tick(5)
        assert await ready(w) == "True"
        address = (await w.pod("web"))["status"]["podIP"]
        answer = await w.kubelets.fabric.find(address, 80).respond(Request("GET", "/"))
        assert (answer.status, answer.body) == (200, b"hello\n")
