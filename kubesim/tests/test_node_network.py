"""The network of nodes and pods from inside: interfaces, sockets, and the rules that kube-proxy writes."""

import pytest

from kubesim.errors import ApiError
from kubesim.network.chains import chain, read, rules
from kubesim.tests.containers import run
from kubesim.tests.test_rooted import chrooted, debugger
from kubesim.tests.world import container, pod, world


def service(name="web", **spec):
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"clusterIP": "10.96.7.7", **spec}}


def behind(*addresses, ready=True, name="web", port=8080):
    return {
        "metadata": {"namespace": "default", "labels": {"kubernetes.io/service-name": name}},
        "ports": [{"name": "http", "port": port}],
        "endpoints": [{"addresses": [each], "conditions": {"ready": ready}} for each in addresses],
    }


HTTP = {"name": "http", "port": 80, "protocol": "TCP"}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("kube-system/kube-dns:dnsudp", "KUBE-SVC-TCOU7JCQXEZGVUNU"),
        ("default/kubernetes:httpstcp", "KUBE-SVC-NPX46M4PTMTKRN6Y"),
    ],
)
def test_chains_have_the_names_that_kube_proxy_gives_them(text, name):
    assert chain("SVC", text) == name


def test_a_service_leads_to_each_of_its_endpoints_in_equal_shares():
    found = rules([service(ports=[HTTP])], [behind("10.64.0.5", "10.64.0.6")])
    (own,) = [rule.target for rule in found if rule.chain == "KUBE-SERVICES" and rule.to]
    shares = [rule.more[1] for rule in found if rule.chain == own and "->" in rule.comment]
    assert shares == ["statistic mode random probability 0.50000000000", ""]
    assert [rule.does[0] for rule in found if rule.target == "DNAT"] == [
        "--to-destination 10.64.0.5:8080",
        "--to-destination 10.64.0.6:8080",
    ]


def test_a_service_without_ready_endpoints_is_refused():
    found = rules([service(ports=[HTTP])], [behind("10.64.0.5", ready=False)])
    (rule,) = [rule for rule in found if rule.target == "REJECT"]
    assert (rule.table, rule.to, rule.port, rule.comment) == (
        "filter", "10.96.7.7/32", 80, "default/web:http has no endpoints",
    )  # fmt: skip


def test_a_node_port_has_a_chain_of_its_own_and_a_headless_service_has_none():
    found = rules([service(ports=[{**HTTP, "nodePort": 30080}])], [behind("10.64.0.5")])
    assert [rule.port for rule in found if rule.chain == "KUBE-NODEPORTS"] == [30080]
    assert rules([service(ports=[HTTP], clusterIP="None")], []) == rules([], [])


class Closed:
    async def list(self, resource, namespace="", **more):
        raise ApiError(403, "Forbidden", "no")


async def test_a_node_that_may_not_list_services_shows_what_is_there_without_them():
    assert await read(Closed()) == rules([], [])


async def test_the_packet_filter_of_a_node_shows_the_services_of_the_cluster():
    async with world(1) as w:
        spec = {"selector": {"app": "web"}, "ports": [{"port": 80}]}
        await w.create("services", {"metadata": {"name": "web"}, "spec": spec})
        await w.create("pods", debugger(hostNetwork=True))
        await w.tick(5)
        assert "default/web has no endpoints" in await chrooted(w, "iptables -S")
        saved = await chrooted(w, "iptables-save -t nat")
        assert saved.count("COMMIT") == 1
        assert '-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES' in saved
        listed = await chrooted(w, "iptables -t nat -L KUBE-SERVICES -n")
        assert listed.startswith("Chain KUBE-SERVICES (2 references)\ntarget     prot opt source")
        assert await chrooted(w, "iptables -t nat -L NOSUCH") == "iptables: No chain/target/match by that name.\n"
        assert "table 'nosuch' does not exist" in await chrooted(w, "iptables-save -t nosuch")
        assert "no command specified" in await chrooted(w, "iptables")
        assert "Permission denied (you must be root)" in await chrooted(w, "iptables -F")


async def test_a_node_has_an_interface_for_each_of_its_pods():
    async with world(1) as w:
        await w.create("pods", debugger(hostNetwork=True))
        await w.create("pods", pod("other", container("busybox:1.36", "sleep", "99")))
        await w.tick(5)
        address = (await w.pod("other"))["status"]["podIP"]
        node = (await w.pod("look"))["status"]["hostIP"]
        brief = await chrooted(w, "ip -br a")
        assert f"eth0             UP             {node}/24 \n" in brief
        assert brief.count("veth") == 1
        assert f"{address} dev veth" in await chrooted(w, "ip route")
        assert f"inet {address}/24" in (await run(w, "other", "ip", "addr", "show", "eth0"))[1]
        assert (await run(w, "other", "ip", "link", "show", "eth9"))[0] == 1


async def test_sockets_name_the_processes_that_ps_shows():
    async with world(1) as w:
        await w.create("pods", debugger(hostNetwork=True))
        await w.tick(5)
        pid = (await chrooted(w, "pgrep -x kubelet")).strip()
        shown = await chrooted(w, "ss -tlnp")
        (line,) = [line.split() for line in shown.splitlines() if ":10250 " in line]
        assert line[0] == "LISTEN"
        assert line[5].startswith(f'users:(("kubelet",pid={pid},')
        assert "127.0.0.1:6666" in shown
        assert f"{pid}/kubelet" in await chrooted(w, "netstat -tlnp")
