"""The official Python client works, and accepts every object that the cluster shows."""

import pytest
from kubernetes import client, config, watch

GPU_POD = {
    "metadata": {"name": "trainer", "labels": {"app": "trainer"}},
    "spec": {
        "containers": [
            {"name": "main", "image": "nginx:1.27", "resources": {"limits": {"nvidia.com/gpu": "1", "cpu": "2"}}}
        ]
    },
}


@pytest.fixture(scope="module")
def api(live):
    with config.new_client_from_config(str(live.kubeconfig)) as api:
        yield api


def test_nodes_are_complete(api):
    nodes = client.CoreV1Api(api).list_node().items
    assert len(nodes) == 2
    assert nodes[0].status.capacity["nvidia.com/gpu"] == "8"
    assert nodes[0].status.node_info.boot_id


def test_it_creates_watches_reads_logs_and_deletes(api):
    core = client.CoreV1Api(api)
    core.create_namespaced_pod("default", GPU_POD)
    phases = []
    for event in watch.Watch().stream(core.list_namespaced_pod, "default", timeout_seconds=15):
        phases.append(event["object"].status.phase)
        if phases[-1] == "Running":
            break
    assert phases[-1] == "Running"
    pod = core.read_namespaced_pod("trainer", "default")
    assert pod.spec.containers[0].resources.requests["cpu"] == "2"
    assert isinstance(core.read_namespaced_pod_log("trainer", "default"), str)
    core.patch_namespaced_pod("trainer", "default", {"metadata": {"labels": {"tier": "gpu"}}})
    assert core.list_namespaced_pod("default", label_selector="tier=gpu").items[0].metadata.name == "trainer"
    core.delete_namespaced_pod("trainer", "default", grace_period_seconds=0)


def test_it_accepts_deployments_replica_sets_jobs_and_events(api):
    apps, batch, core = client.AppsV1Api(api), client.BatchV1Api(api), client.CoreV1Api(api)
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "nginx:1.27"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    apps.create_namespaced_deployment("default", {"metadata": {"name": "d"}, "spec": spec})
    job = {"template": {"spec": {**template["spec"], "restartPolicy": "Never"}}}
    batch.create_namespaced_job("default", {"metadata": {"name": "j"}, "spec": job})
    for _ in watch.Watch().stream(core.list_namespaced_event, "default", timeout_seconds=1):
        pass
    assert apps.read_namespaced_deployment("d", "default").metadata.uid
    assert apps.list_namespaced_replica_set("default").items
    assert batch.list_namespaced_job("default").items
    assert core.list_namespaced_event("default").items


def test_a_missing_object_is_an_api_exception_with_a_status(api):
    with pytest.raises(client.ApiException) as caught:
        client.CoreV1Api(api).read_namespaced_pod("none", "default")
    assert caught.value.status == 404
    assert 'pods \\"none\\" not found' in caught.value.body
