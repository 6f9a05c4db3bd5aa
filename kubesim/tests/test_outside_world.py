"""The world outside of a cluster and the tools that look at it: hosts, the metadata server, echo requests, scans."""

from __future__ import annotations

import asyncio

import pytest

from kubesim.tests.containers import run
from kubesim.tests.test_network import patient, policy
from kubesim.tests.world import container, pod, world

NETSHOOT = "nicolaka/netshoot:v0.13"
POLICIES = "networkpolicies.networking.k8s.io"
FLAVOUR = ("-H", "Metadata-Flavor: Google")


@pytest.fixture
async def w():
    async with world(count=2) as made:
        await made.create("pods", pod("client", container(NETSHOOT, "sleep", "inf"), nodeName=made.node_names[0]))
        await made.create("pods", pod("web", container("nginx:1.27"), nodeName=made.node_names[1]))
        await made.tick(60)
        yield made


async def out(w, *command, seconds=200.0):
    return (await patient(w, "client", *command, seconds=seconds))[1]


async def address(w, name):
    return (await w.pod(name))["status"]["podIP"]


async def test_each_host_outside_answers_as_itself(w):
    assert "301 Moved" in await out(w, "curl", "-s", "https://google.com")
    assert await out(w, "curl", "-s", "https://api.github.com/zen") == "Keep it logically awesome."
    assert "<title>Simple index</title>" in await out(w, "curl", "-s", "https://pypi.org/simple/")
    codes = {}
    for url in (
        "http://github.com",
        "https://github.com/no/such",
        "https://huggingface.co/api/whoami-v2",
        "https://nvcr.io/v2/",
    ):
        codes[url] = await out(w, "curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", url)
    assert [*codes.values()] == ["301", "404", "401", "401"]
    assert "<title>Hugging Face" in await out(w, "curl", "-s", "https://huggingface.co")
    asked = await out(w, "curl", "-sI", "https://registry-1.docker.io/v2/")
    assert 'Bearer realm="https://auth.docker.io/token",service="registry.docker.io"' in asked


async def test_a_name_that_nobody_has_and_a_port_that_nobody_opened_fail(w):
    status, _, said = await patient(w, "client", "curl", "-sS", "https://no-such-host.example.org")
    assert (status, said) == (6, "curl: (6) Could not resolve host: no-such-host.example.org\n")
    assert (await patient(w, "client", "curl", "-sS", "-m", "3", "http://github.com:8080"))[0] == 28
    assert (await patient(w, "client", "curl", "-sS", "http://archive.ubuntu.com:443"))[0] == 7
    status, said, _ = await patient(w, "client", "sh", "-c", "echo | nc -w 2 github.com 22")
    assert said.startswith("SSH-2.0-")


async def test_the_metadata_server_tells_a_machine_of_itself(w):
    root = "http://metadata.google.internal/computeMetadata/v1"
    refused = await out(w, "curl", "-s", f"{root}/instance/name")
    assert "Missing Metadata-Flavor:Google header." in refused
    assert await out(w, "curl", "-s", *FLAVOUR, f"{root}/instance/name") == w.node_names[0]
    assert (await out(w, "curl", "-s", *FLAVOUR, f"{root}/instance/zone")).endswith("/zones/us-central1-a")
    assert await out(w, "curl", "-s", *FLAVOUR, f"{root}/project/project-id") == "ml-prod"
    assert await out(w, "curl", "-s", *FLAVOUR, f"{root}/") == "instance/\nproject/\n"
    assert '"machineType":' in await out(w, "curl", "-s", *FLAVOUR, f"{root}/instance/?recursive=true")
    head = await out(w, "curl", "-si", *FLAVOUR, "http://169.254.169.254/computeMetadata/v1/instance/nothing")
    assert head.startswith("HTTP/1.1 404")
    assert "Metadata-Flavor: Google" in head


async def test_ping_tells_who_answers_and_how_far_away_they_are(w):
    status, said, _ = await patient(w, "client", "ping", "-c", "3", "8.8.8.8")
    lines = said.splitlines()
    assert lines[0] == "PING 8.8.8.8 (8.8.8.8) 56(84) bytes of data."
    assert lines[1].startswith("64 bytes from 8.8.8.8: icmp_seq=1 ttl=1")
    assert lines[-2].startswith("3 packets transmitted, 3 received, 0% packet loss, time 20")
    assert lines[-1].startswith("rtt min/avg/max/mdev = 1.")
    assert status == 0
    near = await out(w, "ping", "-c", "1", await address(w, "web"))
    assert " 0% packet loss" in near
    assert "ttl=62" in near
    status, said, _ = await patient(w, "client", "ping", "-c", "2", "-W", "1", "nvcr.io")
    assert (status, "2 packets transmitted, 0 received, 100% packet loss" in said) == (1, True)
    assert (await patient(w, "client", "ping", "-c", "1", "no.such.host"))[2] == (
        "ping: no.such.host: Name or service not known\n"
    )


async def test_a_policy_holds_for_echo_requests(w):
    closed = policy("closed", {"matchLabels": {"app": "client"}}, policyTypes=["Egress"], egress=[])
    await w.create(POLICIES, closed)
    assert (await patient(w, "client", "ping", "-c", "1", "-W", "2", "8.8.8.8"))[0] == 1


async def test_nc_takes_what_another_sends(w):
    await w.create("pods", pod("ear", container(NETSHOOT, "sh", "-c", "nc -l 9000; sleep inf")))
    await w.tick(60)
    await out(w, "sh", "-c", f"echo hello | nc -N {await address(w, 'ear')} 9000")
    await w.tick(2)
    assert w.kubelets.logs("default", "ear", "main") == b"hello\n"


async def test_ping_goes_on_until_it_is_interrupted(w):
    task = asyncio.ensure_future(run(w, "client", "timeout", "-s", "INT", "3", "ping", "8.8.8.8"))
    await w.tick(10)
    assert "3 packets transmitted, 3 received" in (await task)[1]
