"""Names in pods: what nslookup and getent print, and what happens where the name server is out of reach.

The expected texts were printed by busybox 1.35, BIND 9.18 and glibc, asked for the same names of a real server.
"""

import pytest

from kubesim import clusterfile
from kubesim.network.dns import ClusterNames
from kubesim.tests.containers import run
from kubesim.tests.world import container, pod, world

SERVICES = (
    {"metadata": {"name": "web"}, "spec": {"clusterIP": "10.96.20.71", "ports": [{"name": "http", "port": 80}]}},
    {"metadata": {"name": "ext"}, "spec": {"type": "ExternalName", "externalName": "github.com"}},
    {"metadata": {"name": "empty"}, "spec": {"clusterIP": "None", "selector": {"app": "nobody"}}},
    {"metadata": {"name": "peers"}, "spec": {"clusterIP": "None", "selector": {"app": "peers"}}},
)
SERVER = "Server:\t\t10.96.0.10\nAddress:\t10.96.0.10{}53\n\n"
DNS = {
    "metadata": {"name": "kube-dns", "namespace": "kube-system"},
    "spec": {
        "clusterIP": "10.96.0.10",
        "selector": {"k8s-app": "kube-dns"},
        "ports": [{"name": "dns", "port": 53, "protocol": "UDP"}],
    },
}


async def cluster(w):
    """Services to look up, one pod behind ``peers``, a pod of busybox and one of Debian to look from."""
    for service in SERVICES:
        await w.create("services", {"apiVersion": "v1", "kind": "Service", **service})
    peer = pod("peer-0", container("nginx:1.27"), hostname="peer-0", subdomain="peers")
    peer["metadata"]["labels"] = {"app": "peers"}
    await w.create("pods", peer)
    await w.create("pods", pod("box", container("busybox:1.36", "sleep", "3600")))
    await w.create("pods", pod("tools", container("buildpack-deps:bookworm", "sleep", "3600")))
    await w.tick(15)


BIND = [
    ("nslookup web", 0, SERVER.format("#") + "Name:\tweb.default.svc.cluster.local\nAddress: 10.96.20.71\n\n"),
    (
        "nslookup web.default",
        0,
        SERVER.format("#") + "Name:\tweb.default.svc.cluster.local\nAddress: 10.96.20.71\n\n",
    ),
    ("nslookup nope", 1, SERVER.format("#") + "** server can't find nope: NXDOMAIN\n\n"),
    ("nslookup empty", 1, SERVER.format("#") + "** server can't find empty: NXDOMAIN\n\n"),
    ("nslookup 10.96.20.71", 0, "71.20.96.10.in-addr.arpa\tname = web.default.svc.cluster.local.\n\n"),
    (
        "nslookup ext",
        0,
        SERVER.format("#") + "ext.default.svc.cluster.local\tcanonical name = github.com.\n"
        "Name:\tgithub.com\nAddress: 140.82.112.3\n\n",
    ),
    (
        "nslookup -type=srv _http._tcp.web.default.svc.cluster.local",
        0,
        SERVER.format("#") + "_http._tcp.web.default.svc.cluster.local\t"
        "service = 0 100 80 web.default.svc.cluster.local.\n\n",
    ),
    (
        "nslookup -type=AAAA web.default.svc.cluster.local",
        0,
        SERVER.format("#") + "*** Can't find web.default.svc.cluster.local: No answer\n\n",
    ),
    ("getent hosts web", 0, "10.96.20.71     web.default.svc.cluster.local\n"),
    ("getent hosts nope", 2, ""),
]


@pytest.mark.parametrize(("line", "status", "text"), BIND)
async def test_the_tools_of_the_name_server_say_what_they_find(line, status, text):
    async with world() as w:
        await cluster(w)
        assert await run(w, "tools", *line.split()) == (status, text, "")


async def test_pods_behind_a_headless_service_have_names_of_their_own():
    async with world() as w:
        await cluster(w)
        address = (await w.pod("peer-0"))["status"]["podIP"]
        for name in ("peers", "peer-0.peers", f"{address.replace('.', '-')}.default.pod.cluster.local"):
            assert (await run(w, "tools", "getent", "hosts", name))[1].split()[0] == address


async def test_services_tell_their_ports_and_addresses_all_their_names():
    """What CoreDNS 1.14 answered of the same objects."""
    async with world() as w:
        await cluster(w)
        ports = [{"name": "http", "port": 80, "targetPort": 8080}, {"name": "https", "port": 443, "targetPort": 8443}]
        for name, more in (("ring", {"clusterIP": "None"}), ("one", {"clusterIP": "10.96.20.72"})):
            spec = {"selector": {"app": "peers"}, "ports": ports, **more}
            await w.create(
                "services", {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}
            )
        await w.tick(5)
        names = ClusterNames(w.client)
        address = (await w.pod("peer-0"))["status"]["podIP"]
        dashed, back = address.replace(".", "-"), ".".join(reversed(address.split(".")))

        async def told(name, kind):
            return sorted(record.value for record in (await names.ask(name, kind)).records)

        below = f"{dashed}.ring.default.svc.cluster.local"
        assert await told("ring.default.svc.cluster.local", "SRV") == [f"0 50 8080 {below}", f"0 50 8443 {below}"]
        assert await told("_https._tcp.ring.default.svc.cluster.local", "SRV") == [f"0 100 8443 {below}"]
        assert await told("one.default.svc.cluster.local", "SRV") == [
            "0 50 443 one.default.svc.cluster.local",
            "0 50 80 one.default.svc.cluster.local",
        ]
        assert await told(f"{back}.in-addr.arpa", "PTR") == [
            f"{host}.{service}.default.svc.cluster.local"
            for service, host in (("one", dashed), ("ring", dashed), ("peers", "peer-0"))
        ]


async def test_the_order_of_names_follows_resolv_conf():
    config = {
        "nameservers": ["10.96.0.10"],
        "searches": ["svc.cluster.local"],
        "options": [{"name": "ndots", "value": "1"}],
    }
    async with world() as w:
        await cluster(w)
        await w.create("pods", pod("own", container("debian:12", "sleep", "9"), dnsPolicy="None", dnsConfig=config))
        await w.tick(15)
        assert (await run(w, "own", "getent", "hosts", "web"))[0] == 2
        assert (await run(w, "own", "getent", "hosts", "web.default"))[1].startswith("10.96.20.71")


async def test_no_name_is_known_while_nothing_stands_behind_the_dns_service():
    async with world() as w:
        await cluster(w)
        await w.client.create("services", {"apiVersion": "v1", "kind": "Service", **DNS}, namespace="kube-system")
        await w.tick(2)
        refused = ";; communications error to 10.96.0.10#53: connection refused\n" * 3
        assert await run(w, "tools", "nslookup", "web") == (1, f"{refused};; no servers could be reached\n\n", "")
        assert await run(w, "tools", "curl", "-sS", "http://web") == (
            6,
            "",
            "curl: (6) Could not resolve host: web\n",
        )
        assert await run(w, "box", "wget", "-O-", "http://web") == (
            4,
            "",
            "wget: unable to resolve host address 'web'\n",
        )
        assert "no servers could be reached" in (await run(w, "box", "nslookup", "web"))[1]


async def test_names_are_known_as_long_as_coredns_runs():
    async with world() as w:
        clusterfile.with_addons(["coredns", "kube-proxy"]).create(w.client.operations)
        await cluster(w)
        await w.tick(20)
        running = [p for p in await w.items("pods", "kube-system") if p["status"]["phase"] == "Running"]
        assert sorted(p["metadata"]["labels"]["k8s-app"] for p in running) == ["kube-dns"] * 2 + ["kube-proxy"] * 3
        assert (await run(w, "tools", "getent", "hosts", "web"))[0] == 0
        scaled = await w.client.get("deployments.apps", "coredns", "kube-system")
        await w.client.update("deployments.apps", {**scaled, "spec": {**scaled["spec"], "replicas": 0}})
        await w.tick(40)
        assert (await run(w, "tools", "getent", "hosts", "web"))[0] == 2
