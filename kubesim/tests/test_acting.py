"""Programs in pods have the rights of their accounts: without a binding they stand still and say so in their logs."""

from __future__ import annotations

from kubesim.tests.installed import install
from kubesim.tests.test_addons import ask
from kubesim.tests.test_gpu_containers import trainer
from kubesim.tests.test_mpi import JOBS, mpi_job
from kubesim.tests.world import pod, world

BINDINGS = "clusterrolebindings.rbac.authorization.k8s.io"
ROLES = "clusterroles.rbac.authorization.k8s.io"


async def log(w, namespace, prefix):
    found = [p for p in await w.items("pods", namespace) if p["metadata"]["name"].startswith(prefix)]
    spec = found[0]["spec"]["containers"][0]
    return w.kubelets.logs(namespace, found[0]["metadata"]["name"], spec["name"]).decode()


async def rebind(w, name, namespace, account):
    subjects = [{"kind": "ServiceAccount", "name": account, "namespace": namespace}]
    await w.client.patch(BINDINGS, name, "", {"subjects": subjects})


async def test_an_operator_without_its_binding_does_nothing_until_it_is_back():
    async with world(count=2) as w:
        await install(w, "mpi-operator", seconds=0)
        await rebind(w, "mpi-operator", "mpi-operator", "mpi-operater")
        await w.tick(20)
        await w.create(JOBS, mpi_job())
        await w.tick(60)
        assert await w.items("pods") == []
        assert (
            'err="failed to list *unstructured.Unstructured: mpijobs.kubeflow.org is forbidden: User '
            '\\"system:serviceaccount:mpi-operator:mpi-operator\\" cannot list resource \\"mpijobs\\" '
            'in API group \\"kubeflow.org\\" at the cluster scope"'
        ) in await log(w, "mpi-operator", "mpi-operator")
        await rebind(w, "mpi-operator", "mpi-operator", "mpi-operator")
        await w.tick(60)
        assert len(await w.items("pods")) == 3


async def test_a_binding_that_is_taken_away_stops_the_next_work():
    async with world(count=2) as w:
        await install(w, "mpi-operator")
        await w.create(JOBS, mpi_job("first", gpus=0, command=("sleep", "1000")))
        await w.tick(30)
        assert len(await w.items("pods")) == 3
        await w.client.delete(BINDINGS, "mpi-operator", "")
        await w.create(JOBS, mpi_job("second", gpus=0, command=("sleep", "1000")))
        await w.tick(60)
        assert len(await w.items("pods")) == 3
        assert "cannot list resource" in await log(w, "mpi-operator", "mpi-operator")


async def test_nvsentinel_may_not_cordon_without_the_right_to_patch_nodes():
    async with world(count=3) as w:
        await install(w, "gpu-operator", "nvsentinel")
        rules = (await w.client.get(ROLES, "nvsentinel"))["rules"]
        lesser = [{**r, "verbs": ["get", "list", "watch"]} if r["resources"] == ["nodes"] else r for r in rules]
        await w.client.patch(ROLES, "nvsentinel", "", {"rules": lesser})
        await w.create("pods", pod("train", trainer(8)))
        await w.tick(30)
        name = (await w.pod("train"))["spec"]["nodeName"]
        w.kubelets.gpus(name).board.xid(0, 79, w.clock.now())
        await w.tick(90)
        node = await w.client.get("nodes", name)
        assert not node["spec"].get("unschedulable")
        assert (
            f'nodes \\"{name}\\" is forbidden: User \\"system:serviceaccount:nvsentinel:nvsentinel\\" '
            'cannot patch resource \\"nodes\\" in API group \\"\\" at the cluster scope'
        ) in await log(w, "nvsentinel", "fault-quarantine")
        await w.client.patch(ROLES, "nvsentinel", "", {"rules": rules})
        await w.tick(900)
        assert (await w.client.get("nodes", name))["spec"].get("unschedulable")


async def test_an_addon_has_the_rights_that_it_needs():
    async with world(count=1) as w:
        await install(w, "prometheus-operator", seconds=60)
        for item in await w.items("pods", ""):
            meta, main = item["metadata"], item["spec"]["containers"][0]
            assert "is forbidden" not in w.kubelets.logs(meta["namespace"], meta["name"], main["name"]).decode()


async def test_kube_state_metrics_misses_what_it_may_not_list():
    async with world(count=1) as w:
        await install(w, "monitoring", seconds=0)
        rules = (await w.client.get(ROLES, "kube-state-metrics"))["rules"]
        await w.client.patch(ROLES, "kube-state-metrics", "", {"rules": rules[1:]})
        await w.tick(90)
        assert await ask(w, "kube_deployment_status_replicas")
        assert not await ask(w, "kube_pod_info")
        assert "failed to list *v1.Pod: pods is forbidden" in await log(w, "monitoring", "kube-state-metrics")
        await w.client.patch(ROLES, "kube-state-metrics", "", {"rules": rules})
        await w.tick(60)
        assert await ask(w, "kube_pod_info")


async def test_prometheus_finds_no_targets_among_what_it_may_not_list():
    async with world(count=1) as w:
        await install(w, "gpu-operator", "monitoring", seconds=0)
        await rebind(w, "prometheus", "default", "prometheus")
        await w.tick(90)
        assert {metric["job"] for metric, _ in await ask(w, "up")} == {"kube-state-metrics"}
        wanted = 'User \\"system:serviceaccount:monitoring:prometheus\\" cannot list resource \\"pods\\"'
        assert wanted in await log(w, "monitoring", "prometheus")
        await rebind(w, "prometheus", "monitoring", "prometheus")
        await w.tick(90)
        assert {metric["job"] for metric, _ in await ask(w, "up")} > {"kube-state-metrics"}
