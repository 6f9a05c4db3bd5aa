"""Add-ons that work on a cluster's objects: an ingress controller, a cloud's firewall; and how they are broken."""

from __future__ import annotations

import pytest

from kubesim.network.fabric import Request
from kubesim.tests.installed import install
from kubesim.tests.test_network import OPEN, curl, furnish, policy, service
from kubesim.tests.world import container, pod, world

FIREWALLS = "computefirewalls.compute.cnrm.cloud.google.com"
INGRESSES = "ingresses.networking.k8s.io"


def ingress(name, *paths, host="shop.example", kind="Prefix", backend="web", **notes):
    rows = [
        {"path": path, "pathType": kind, "backend": {"service": {"name": backend, "port": {"number": 80}}}}
        for path in paths
    ]
    spec = {"ingressClassName": "nginx", "rules": [{"host": host, "http": {"paths": rows}}]}
    annotations = {f"nginx.ingress.kubernetes.io/{key.replace('_', '-')}": value for key, value in notes.items()}
    return {"metadata": {"name": name, "annotations": annotations}, "spec": spec}


async def ask(w, path="/", host="shop.example"):
    (found,) = [p for p in await w.items("pods", "ingress-nginx") if not p["metadata"].get("deletionTimestamp")]
    server = w.kubelets.fabric.find(found["status"]["podIP"], 80)
    answer = await server.respond(Request("GET", path, {"host": host}))
    return answer.status, answer.body.decode()


@pytest.fixture
async def fronted():
    async with world(count=1) as w:
        await install(w, "ingress-nginx")
        await furnish(w)
        await w.create(INGRESSES, ingress("shop", "/"))
        await w.tick(2)
        yield w


async def test_an_ingress_leads_to_its_service(fronted):
    status, body = await ask(fronted)
    assert (status, OPEN in body) == (200, True)
    found = await fronted.client.get(INGRESSES, "shop", "default")
    assert found["status"]["loadBalancer"]["ingress"] == [{"ip": "10.128.0.2"}]
    assert await fronted.messages("Sync") == ["Scheduled for sync"]


async def test_another_host_is_not_found(fronted):
    status, body = await ask(fronted, host="other.example")
    assert status == 404
    assert "<center><h1>404 Not Found</h1></center>\r\n<hr><center>nginx</center>" in body


async def test_a_service_without_pods_is_unavailable(fronted):
    await fronted.client.delete("pods", "web", "default", grace_seconds=0)
    await fronted.tick(5)
    status, body = await ask(fronted)
    assert status == 503
    assert "503 Service Temporarily Unavailable" in body


async def test_a_closed_port_is_a_bad_gateway(fronted):
    ports = [{"name": "http", "port": 80, "targetPort": 8081}]
    await fronted.client.patch("services", "web", "default", {"spec": {"ports": ports}})
    await fronted.tick(5)
    assert (await ask(fronted))[0] == 502


async def test_a_policy_that_drops_is_a_gateways_time_out(fronted):
    await fronted.create("networkpolicies.networking.k8s.io", policy("deny"))
    assert (await ask(fronted))[0] == 504


@pytest.mark.parametrize(
    ("kind", "path", "asked", "status"),
    [
        ("Prefix", "/shop", "/shop", 404),
        ("Prefix", "/shop", "/shop/cart", 404),
        ("Exact", "/index.html", "/index.html", 200),
        ("Exact", "/index.html", "/index.html/", 404),
    ],
)
async def test_a_path_is_matched_by_its_kind(kind, path, asked, status):
    async with world(count=1) as w:
        await install(w, "ingress-nginx")
        await furnish(w)
        await w.create(INGRESSES, ingress("shop", path, kind=kind))
        await w.tick(2)
        assert (await ask(w, asked))[0] == status
        assert (await ask(w, "/shopping"))[0] == 404


async def test_a_path_can_be_rewritten(fronted):
    await fronted.create(
        INGRESSES, ingress("cart", "/cart(/|$)(.*)", kind="ImplementationSpecific", rewrite_target="/$2")
    )
    await fronted.tick(2)
    assert (await ask(fronted, "/cart"))[0] == 200
    assert (await ask(fronted, "/cart/index.html"))[0] == 200


async def test_an_ingress_of_another_class_is_nobodys(fronted):
    wanted = ingress("other", "/", host="other.example")
    wanted["spec"]["ingressClassName"] = "traefik"
    await fronted.create(INGRESSES, wanted)
    await fronted.tick(2)
    assert (await ask(fronted, host="other.example"))[0] == 404


async def test_without_its_pod_the_controller_answers_nothing(fronted):
    address = (await fronted.items("pods", "ingress-nginx"))[0]["status"]["podIP"]
    await fronted.client.patch(
        "deployments.apps", "ingress-nginx-controller", "ingress-nginx", {"spec": {"replicas": 0}}
    )
    await fronted.tick(40)
    status, _, _ = await curl(fronted, f"http://{address}", "-m", "3")
    assert status == 28


async def test_a_firewall_rule_closes_a_way_until_it_is_deleted():
    async with world(count=1) as w:
        await install(w, "config-connector")
        await furnish(w)
        deny = [{"protocol": "tcp", "ports": ["443"]}]
        spec = {"direction": "EGRESS", "deny": deny, "destinationRanges": ["0.0.0.0/0"], "priority": 900}
        rule = {"apiVersion": "compute.cnrm.cloud.google.com/v1beta1", "kind": "ComputeFirewall"}
        await w.create(FIREWALLS, {**rule, "metadata": {"name": "deny-egress"}, "spec": spec})
        await w.tick(2)
        assert (await curl(w, "https://pypi.org", "-m", "5"))[0] == 28
        found = await w.client.get(FIREWALLS, "deny-egress", "default")
        assert found["status"]["conditions"][0]["reason"] == "UpToDate"
        await w.create("pods", pod("late", container("redis:7")))
        await w.tick(45)
        (state,) = (await w.pod("late"))["status"]["containerStatuses"]
        assert state["state"]["waiting"]["reason"] == "ImagePullBackOff"
        await w.client.delete(FIREWALLS, "deny-egress", "default")
        await w.tick(2)
        assert (await curl(w, "https://pypi.org"))[0] == 0


async def test_a_service_of_its_own_leads_to_an_ingress(fronted):
    made = await fronted.client.get("services", "ingress-nginx-controller", "ingress-nginx")
    assert made["spec"]["type"] == "NodePort"
    url = "http://ingress-nginx-controller.ingress-nginx/"
    assert OPEN in (await curl(fronted, url, "-H", "Host: shop.example"))[1]
    await fronted.create("services", service("spare"))
