"""The network between pods: names, services, policies, a firewall, and how what is closed looks from inside."""

from __future__ import annotations

import asyncio

import pytest

from kubesim.network import firewall
from kubesim.network.firewall import Firewall
from kubesim.tests.containers import run, state
from kubesim.tests.world import container, pod, world

OPEN = "<title>Welcome to nginx!</title>"
POLICIES = "networkpolicies.networking.k8s.io"


async def patient(w, name, *command, seconds=200.0):
    """Run a command that waits for the network: let time pass until it is through."""
    task = asyncio.ensure_future(run(w, name, *command))
    for _ in range(int(seconds)):
        await w.tick(1)
        if task.done():
            break
    return await asyncio.wait_for(task, 60)


async def curl(w, url, *options, source="client"):
    return await patient(w, source, "curl", "-s", "-S", *options, url)


def service(name, app="web", **spec):
    ports = [{"name": "http", "port": 80, "targetPort": 80}]
    return {"metadata": {"name": name}, "spec": {"selector": {"app": app}, "ports": ports, **spec}}


def policy(name, selector=None, **spec):
    return {"metadata": {"name": name}, "spec": {"podSelector": selector or {}, **spec}}


async def furnish(w):
    """A web server behind a service, and a client with curl."""
    await w.create("pods", pod("web", container("nginx:1.27", ports=[{"name": "http", "containerPort": 80}])))
    await w.create("pods", pod("client", container("nvcr.io/nvidia/pytorch:25.03-py3", "sleep", "inf")))
    await w.create("services", service("web"))
    await w.tick(10)


async def test_a_service_leads_to_its_pods():
    async with world(count=1) as w:
        await furnish(w)
        for name in (
            "web",
            "web.default",
            "web.default.svc",
            "web.default.svc.cluster.local",
            "web.default.svc.cluster.local.",
        ):
            status, out, _ = await curl(w, f"http://{name}")
            assert status == 0, name
            assert OPEN in out


async def test_a_service_without_endpoints_refuses():
    async with world(count=1) as w:
        await furnish(w)
        await w.create("services", service("empty", "nobody"))
        assert await curl(w, "http://empty") == (
            7, "", "curl: (7) Failed to connect to empty port 80 after 0 ms: Couldn't connect to server\n",
        )  # fmt: skip


async def test_a_port_that_a_service_does_not_have_answers_nothing():
    async with world(count=1) as w:
        await furnish(w)
        status, _, errors = await curl(w, "http://web:81", "--connect-timeout", "5")
        assert (status, errors) == (28, "curl: (28) Connection timed out after 5000 milliseconds\n")


async def test_a_name_that_is_unknown_is_not_resolved():
    async with world(count=1) as w:
        await furnish(w)
        assert await curl(w, "http://wep") == (6, "", "curl: (6) Could not resolve host: wep\n")


async def test_an_external_name_stands_for_another_service():
    async with world(count=1) as w:
        await furnish(w)
        alias = {"type": "ExternalName", "externalName": "web.default.svc.cluster.local"}
        await w.create("services", {"metadata": {"name": "alias"}, "spec": alias})
        assert OPEN in (await curl(w, "http://alias"))[1]


async def test_a_node_port_leads_to_the_pods_from_every_node():
    async with world(count=2) as w:
        await furnish(w)
        made = await w.create("services", service("outer", type="NodePort"))
        port = made["spec"]["ports"][0]["nodePort"]
        await w.tick(2)
        for node in await w.items("nodes", ""):
            address = next(a["address"] for a in node["status"]["addresses"] if a["type"] == "InternalIP")
            assert OPEN in (await curl(w, f"http://{address}:{port}"))[1]


async def test_a_headless_service_names_its_pods():
    async with world(count=1) as w:
        await furnish(w)
        spec = {"hostname": "one", "subdomain": "group"}
        await w.create("pods", pod("one", container("nginx:1.27"), **spec))
        await w.create("services", service("group", "one", clusterIP="None"))
        await w.tick(5)
        address = (await w.pod("one"))["status"]["podIP"]
        for name in ("group", "one.group", "one.group.default.svc.cluster.local"):
            out = (await run(w, "client", "getent", "hosts", name))[1]
            assert out.split()[0] == address


async def test_the_outside_answers():
    async with world(count=1) as w:
        await furnish(w)
        status, out, _ = await curl(w, "https://pypi.org/simple/", "-o", "/dev/null", "-w", "%{http_code}")
        assert (status, out) == (0, "200")


CLIENT, OTHER = ({"podSelector": {"matchLabels": {"app": app}}} for app in ("client", "other"))
LEAVING = {"podSelector": {"matchLabels": {"app": "client"}}, "policyTypes": ["Egress"]}
DNS = {"ports": [{"port": 53, "protocol": "UDP"}]}
ALLOWS = [
    ("nobody", policy("deny"), False),
    ("everybody", policy("open", ingress=[{}]), True),
    ("the client by its label", policy("a", ingress=[{"from": [CLIENT]}]), True),
    ("others by their label", policy("a", ingress=[{"from": [OTHER]}]), False),
    ("this namespace", policy("a", ingress=[{"from": [{"namespaceSelector": {
        "matchLabels": {"kubernetes.io/metadata.name": "default"}}}]}]), True),
    ("another namespace", policy("a", ingress=[{"from": [{"namespaceSelector": {
        "matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}}]}]), False),
    ("a range", policy("a", ingress=[{"from": [{"ipBlock": {"cidr": "10.64.0.0/16"}}]}]), True),
    ("a range but for a part", policy("a", ingress=[{"from": [
        {"ipBlock": {"cidr": "10.64.0.0/16", "except": ["10.64.0.0/24"]}}]}]), False),
    ("the port", policy("a", ingress=[{"ports": [{"port": 80}]}]), True),
    ("the port by its name", policy("a", ingress=[{"ports": [{"port": "http"}]}]), True),
    ("another port", policy("a", ingress=[{"ports": [{"port": 443}]}]), False),
    ("a range of ports", policy("a", ingress=[{"ports": [{"port": 79, "endPort": 90}]}]), True),
    ("the port for another protocol", policy("a", ingress=[{"ports": [{"port": 80, "protocol": "UDP"}]}]), False),
    ("other pods' visitors", policy("a", {"matchLabels": {"app": "other"}}), True),
    ("who leaves the client", policy("a", **LEAVING, egress=[{"to": [{"podSelector": {}}]}, DNS]), True),
    ("who leaves the client for elsewhere", policy("a", **LEAVING, egress=[
        {"to": [{"ipBlock": {"cidr": "192.168.0.0/16"}}]}, DNS]), False),
]  # fmt: skip


@pytest.mark.parametrize(("who", "wanted", "through"), ALLOWS, ids=[item[0] for item in ALLOWS])
async def test_a_policy_lets_in(who, wanted, through):
    async with world(count=1) as w:
        await furnish(w)
        await w.create(POLICIES, wanted)
        status, out, _ = await curl(w, "http://web", "-m", "3")
        assert (status, OPEN in out) == ((0, True) if through else (28, False))


async def test_a_connection_that_a_policy_drops_times_out_as_linux_does():
    async with world(count=1) as w:
        await furnish(w)
        await w.create(POLICIES, policy("deny"))
        status, _, errors = await curl(w, "http://web")
        assert (status, errors) == (
            28, "curl: (28) Failed to connect to web port 80 after 131072 ms: Couldn't connect to server\n",
        )  # fmt: skip


async def test_bash_opens_a_connection_as_a_device():
    async with world(count=1) as w:
        await furnish(w)

        async def bash(text):
            return await patient(w, "client", "bash", "-c", text)

        asked = "exec 3<>/dev/tcp/web/80; printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3; head -1 <&3; exec 3>&-"
        assert await bash(asked) == (0, "HTTP/1.1 200 OK\r\n", "")
        address = (await w.pod("web"))["status"]["podIP"]
        assert await bash(f"</dev/tcp/{address}/81 && echo open") == (
            1, "", f"bash: connect: Connection refused\nbash: line 1: /dev/tcp/{address}/81: Connection refused\n"
        )  # fmt: skip
        status, _, errors = await bash("echo > /dev/tcp/wep/80")
        assert (status, errors.splitlines()) == (
            1,
            ["bash: line 1: wep: Name or service not known", "bash: line 1: /dev/tcp/wep/80: Invalid argument"],
        )
        await w.create(POLICIES, policy("deny"))
        assert (await bash("timeout 3 bash -c '</dev/tcp/web/80'; echo $?"))[1] == "124\n"
        await w.create("pods", pod("small", container("busybox:1.36", "sleep", "inf")))
        await w.tick(5)
        assert await patient(w, "small", "nc", "-w", "2", "web", "80") == (1, "", "")


async def test_without_a_way_to_the_name_server_no_name_is_resolved():
    async with world(count=1) as w:
        await furnish(w)
        await w.create(POLICIES, policy("deny", {"matchLabels": {"app": "client"}}, policyTypes=["Egress"]))
        assert await curl(w, "http://web") == (6, "", "curl: (6) Could not resolve host: web\n")
        asking = pod("asking")
        asking["metadata"]["labels"] = {"app": "client"}
        await w.create("pods", asking)
        await w.tick(5)
        _, out, _ = await patient(w, "asking", "nslookup", "web")
        assert ";; no servers could be reached" in out


async def test_probes_come_through_every_policy():
    async with world(count=1) as w:
        await w.create(POLICIES, policy("deny"))
        probe = {"httpGet": {"path": "/", "port": 80}}
        await w.create("pods", pod("web", container("nginx:1.27", readinessProbe=probe)))
        await w.tick(15)
        assert state(await w.pod("web"))["ready"]


def rule(direction="EGRESS", deny="443", **more):
    ranges = "destinationRanges" if direction == "EGRESS" else "sourceRanges"
    denied = [{"IPProtocol": "tcp", "ports": [deny]}]
    return {"name": "closed", "direction": direction, "denied": denied, ranges: ["0.0.0.0/0"], **more}


async def test_a_firewall_keeps_images_away_and_says_so_after_half_a_minute():
    async with world(count=1) as w:
        w.kubelets.fabric.firewall.rules = firewall.rules([rule()])
        await w.create("pods", pod("web", container("nginx:1.27")))
        await w.tick(60)
        text = (
            "rpc error: code = DeadlineExceeded desc = failed to pull and unpack image "
            '"docker.io/library/nginx:1.27": failed to resolve reference "docker.io/library/nginx:1.27": '
            'failed to do request: Head "https://registry-1.docker.io/v2/library/nginx/manifests/1.27": '
            "dial tcp 44.208.254.194:443: i/o timeout"
        )
        waiting = state(await w.pod("web"))["state"]["waiting"]
        assert waiting == {
            "reason": "ImagePullBackOff",
            "message": f'Back-off pulling image "nginx:1.27": ErrImagePull: {text}',
        }
        assert (await w.messages("Failed"))[:2] == [
            f'Failed to pull image "nginx:1.27": {text}',
            "Error: ErrImagePull",
        ]
        w.kubelets.fabric.firewall.rules = ()
        await w.tick(120)
        assert state(await w.pod("web"))["ready"]


async def test_a_firewall_closes_the_outside_for_pods():
    async with world(count=1) as w:
        await furnish(w)
        w.kubelets.fabric.firewall.rules = firewall.rules([rule()])
        status, _, errors = await curl(w, "https://huggingface.co", "--connect-timeout", "10")
        assert (status, errors) == (28, "curl: (28) Connection timed out after 10000 milliseconds\n")
        assert OPEN in (await curl(w, "http://web"))[1]


@pytest.mark.parametrize(
    ("objects", "passes"),
    [
        ([], True),
        ([rule()], False),
        ([rule(disabled=True)], True),
        ([rule(deny="80")], True),
        ([rule(deny="400-500")], False),
        ([rule(targetTags=["h100-pool"])], False),
        ([rule(targetTags=["cpu-pool"])], True),
        ([rule(destinationRanges=["10.0.0.0/8"])], True),
        ([rule("INGRESS")], True),
        ([rule(denied=[{"IPProtocol": "6"}])], False),
        ([rule(deny=443)], False),
        ([rule(denied=[{"IPProtocol": "UDP"}])], True),
        ([rule(), rule(deny="9", allowed=[{"IPProtocol": "tcp", "ports": ["443"]}], priority=900)], True),
        ([rule(priority=100), {"direction": "EGRESS", "allowed": [{"IPProtocol": "all"}]}], False),
    ],
)  # fmt: skip
def test_the_lowest_number_decides(objects, passes):
    wall = Firewall()
    wall.rules = firewall.rules(objects)
    assert wall.passes(frozenset({"h100-pool"}), "34.1.2.3", 443) is passes
