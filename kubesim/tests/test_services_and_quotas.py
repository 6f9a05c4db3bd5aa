"""The controllers that count and list: quotas, endpoints, disruption budgets."""

from kubesim.addresses import Addresses
from kubesim.api.operations import Operations
from kubesim.clock import ManualClock
from kubesim.store import Store
from kubesim.tests.world import container, deployment, pod, world

SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "web", "labels": {"team": "ml"}},
    "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}]},
}
QUOTA = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "gpus"},
    "spec": {"hard": {"requests.nvidia.com/gpu": "8", "pods": "4", "count/jobs.batch": "2"}},
}
BUDGET = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "web"},
    "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}},
}


def named_port(name="web"):
    return pod(name, container("nginx:1.27", ports=[{"containerPort": 8080, "name": "http"}]))


async def test_a_service_lists_its_ready_pods():
    async with world() as w:
        await w.create("services", SERVICE)
        await w.create("pods", named_port())
        await w.tick(10)
        (endpoints,) = [obj for obj in await w.items("endpoints") if obj["metadata"]["name"] == "web"]
        (subset,) = endpoints["subsets"]
        assert subset["ports"] == [{"port": 8080, "protocol": "TCP"}]
        assert [address["ip"] for address in subset["addresses"]] == [(await w.pod())["status"]["podIP"]]
        (found,) = await w.items("endpointslices.discovery.k8s.io")
        assert found["metadata"]["labels"]["kubernetes.io/service-name"] == "web"
        assert found["endpoints"][0]["conditions"] == {"ready": True, "serving": True, "terminating": False}


async def test_a_service_without_pods_has_an_empty_list_and_takes_it_along_when_it_goes():
    async with world() as w:
        await w.create("services", SERVICE)
        await w.tick(1)
        (endpoints,) = await w.items("endpoints")
        assert "subsets" not in endpoints
        await w.client.delete("services", "web", "default")
        await w.tick(1)
        assert await w.items("endpoints") == []


async def test_a_quota_tells_what_is_used():
    async with world() as w:
        await w.create("resourcequotas", QUOTA)
        main = container("nginx:1.27", resources={"limits": {"nvidia.com/gpu": "2"}})
        await w.create("pods", pod("a", main))
        await w.tick(1)
        (quota,) = await w.items("resourcequotas")
        assert quota["status"]["hard"] == QUOTA["spec"]["hard"]
        assert quota["status"]["used"] == {"requests.nvidia.com/gpu": "2", "pods": "1", "count/jobs.batch": "0"}
        await w.client.delete("pods", "a", "default", grace_seconds=0)
        await w.tick(1)
        assert (await w.items("resourcequotas"))[0]["status"]["used"]["pods"] == "0"


async def test_a_budget_tells_how_many_pods_may_go():
    async with world() as w:
        await w.create("poddisruptionbudgets.policy", BUDGET)
        await w.tick(1)
        assert await w.messages("NoPods") == ["No matching pods found"]
        await w.create("deployments.apps", deployment("web", replicas=3))
        await w.tick(20)
        status = (await w.items("poddisruptionbudgets.policy"))[0]["status"]
        counted = {name: status[name] for name in ("currentHealthy", "desiredHealthy", "disruptionsAllowed")}
        assert counted == {"currentHealthy": 3, "desiredHealthy": 2, "disruptionsAllowed": 1}
        assert status["conditions"][0]["reason"] == "SufficientPods"


def test_an_address_is_an_object_as_long_as_its_service_has_it():
    clock = ManualClock()
    operations = Operations(Store(clock), clock)
    Addresses(operations).plant()
    registry = operations.registry
    services, addresses = registry.by_resource("services"), registry.by_resource("ipaddresses.networking.k8s.io")
    operations.create(registry.by_resource("namespaces"), "", {"metadata": {"name": "ml"}})
    made = operations.create(services, "ml", {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}})
    operations.create(
        services, "ml", {"metadata": {"name": "bare"}, "spec": {"clusterIP": "None", "ports": [{"port": 80}]}}
    )
    (found,) = operations.list(addresses).items
    assert found["metadata"]["name"] == made["spec"]["clusterIP"]
    assert found["spec"]["parentRef"] == {"resource": "services", "namespace": "ml", "name": "web"}
    operations.delete(services, "ml", "web")
    assert operations.list(addresses).items == []
    (span,) = operations.list(registry.by_resource("servicecidrs.networking.k8s.io")).items
    assert span["spec"] == {"cidrs": ["10.96.0.0/16"]}
    assert span["status"]["conditions"][0]["message"] == "Kubernetes Service CIDR is ready"


def test_a_service_that_asks_for_no_address_gets_none_of_those_that_are_asked_for():
    clock = ManualClock()
    operations = Operations(Store(clock), clock)
    services = operations.registry.by_resource("services")
    operations.create(operations.registry.by_resource("namespaces"), "", {"metadata": {"name": "ml"}})
    made = [
        operations.create(services, "ml", {"metadata": {"name": f"web-{n}"}, "spec": {"ports": [{"port": 80}]}})
        for n in range(20)
    ]
    addresses = {service["spec"]["clusterIP"] for service in made}
    assert len(addresses) == 20
    assert not any(address.startswith("10.96.0.") for address in addresses)
