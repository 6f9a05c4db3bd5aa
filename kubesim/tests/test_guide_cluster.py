"""The guide's cluster: Dynamo's graph with its workers, and NVSentinel's events as objects."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from kubesim.addons.dynamo import deployment_of
from kubesim.custom.definitions import Definitions
from kubesim.tests.containers import run
from kubesim.tests.installed import install
from kubesim.tests.test_sentinel import strike
from kubesim.tests.world import container, pod, world

CLUSTER = yaml.safe_load(Path("faults/guide/cluster.yaml").read_text())
GRAPHS, EVENTS = "dynamographdeployments.nvidia.com", "healthevents.healthevents.dgxc.nvidia.com"
NAME, SPACE = "vllm-v1-disagg-router", "dynamo-oviya"
DECODE = f"{NAME}-vllmdecodeworker"
CHAT = ("curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-d", "{}")
CHAT = (*CHAT, f"http://{NAME}-frontend.{SPACE}:8000/v1/chat/completions")


async def plant(w, word):
    """Create what the guide's cluster has of a theme."""
    for obj in CLUSTER["manifests"]:
        if word in obj["metadata"]["name"] or obj["kind"] == "DynamoGraphDeployment" and word == "dynamo":
            template = obj.get("spec", {}).get("template", {}).get("spec", {})
            template.pop("nodeSelector", None)
            for service in obj.get("spec", {}).get("services", {}).values():
                service["extraPodSpec"].pop("nodeSelector", None)
            kind = w.client.operations.registry.by_kind(obj["apiVersion"], obj["kind"])
            await w.client.create(kind.resource, obj, namespace=obj["metadata"].get("namespace", ""))
            await w.tick(0)


async def dynamo(w):
    """Run the guide's graph, and a pod that asks it."""
    Definitions(w.client.operations)
    for name in (SPACE, "dynamo-system"):
        await w.client.create("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    await plant(w, "dynamo")
    await w.create("pods", pod("load", container("curlimages/curl:8.10.1", "sleep", "99999")))
    await w.tick(40)


async def workers(w):
    found = [pod for pod in await w.items("pods", SPACE) if pod["metadata"]["name"].startswith(DECODE)]
    return sorted(found, key=lambda pod: pod["metadata"]["creationTimestamp"])


async def patch(w, **service):
    services = {"services": {"VllmDecodeWorker": service}}
    await w.client.patch(GRAPHS, NAME, SPACE, {"spec": {**services, **service.pop("spec", {})}})


async def test_a_graph_serves_and_rolls_its_workers_as_its_strategy_says():
    async with world(2, present=CLUSTER["present"]) as w:
        await dynamo(w)
        before = await workers(w)
        assert (await run(w, "load", *CHAT))[1] == "200"
        assert before[0]["metadata"]["labels"] == {
            "nvidia.com/dynamo-component": "VllmDecodeWorker",
            "nvidia.com/dynamo-component-type": "worker",
            "nvidia.com/dynamo-sub-component-type": "decode",
            "nvidia.com/dynamo-graph-deployment-name": NAME,
            "pod-template-hash": before[0]["metadata"]["labels"]["pod-template-hash"],
        }
        at_once = {"updateStrategy": {"rollingUpdate": {"maxUnavailable": "100%", "maxSurge": 0}}}
        main = {"mainContainer": {"env": [{"name": "CUDA_XID_TYPE", "value": "79"}]}}
        await patch(w, extraPodSpec=main, spec=at_once)
        await w.tick(3)
        assert (await run(w, "load", *CHAT))[1] == "503"
        assert (await w.client.get(GRAPHS, NAME, SPACE))["status"]["state"] == "pending"
        await w.tick(30)
        after = await workers(w)
        assert [pod["spec"]["containers"][0]["env"] for pod in after] == [main["mainContainer"]["env"]] * 2
        assert not {pod["metadata"]["name"] for pod in before} & {pod["metadata"]["name"] for pod in after}
        assert (await run(w, "load", *CHAT))[1] == "200"
        assert (await w.client.get(GRAPHS, NAME, SPACE))["status"]["state"] == "successful"


@pytest.mark.parametrize(
    ("notes", "strategy"),
    [
        ({}, {"type": "RollingUpdate"}),
        ({"nvidia.com/deployment-strategy": "Recreate"}, {"type": "Recreate"}),
        (
            {
                "nvidia.com/deployment-rolling-update-max-unavailable": "100%",
                "nvidia.com/deployment-rolling-update-max-surge": "0",
            },
            {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "100%", "maxSurge": 0}},
        ),
    ],
)
def test_a_services_annotations_choose_how_its_pods_are_replaced(notes, strategy):
    graph = {"apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoGraphDeployment"}
    graph |= {
        "metadata": {"name": "g", "namespace": "n", "uid": "u"},
        "spec": {"services": {"W": {"annotations": notes}}},
    }
    assert deployment_of(graph, "W")["spec"]["strategy"] == strategy


async def test_a_graph_takes_away_what_it_no_longer_asks_for():
    async with world(2, present=CLUSTER["present"]) as w:
        await dynamo(w)
        await w.client.patch(GRAPHS, NAME, SPACE, {"spec": {"services": {"VllmDecodeWorker": None}}})
        await w.tick(40)
        names = [obj["metadata"]["name"] for obj in await w.items("deployments.apps", SPACE)]
        assert names == [f"{NAME}-frontend", f"{NAME}-vllmprefillworker"]
        assert (await run(w, "load", *CHAT))[1] == "503"
        await w.client.delete(GRAPHS, NAME, SPACE)
        await w.tick(40)
        assert await w.items("pods", SPACE) == []


async def events(w):
    found = [event["spec"] | event.get("status", {}) for event in await w.items(EVENTS, "nvsentinel")]
    return [
        (e["errorCode"], e["recommendedAction"], e["isFatal"], e["isHealthy"], e.get("nodeQuarantined"))
        for e in found
    ]


async def test_events_are_objects_in_the_guides_cluster_and_nowhere_else():
    async with world(3) as w:
        await install(w, "nvsentinel")
        await plant(w, "healthevents")
        strike(w, 94)
        await w.tick(60)
        assert await events(w) == []
        w.kubelets.fabric.guide = "127.0.0.1:8080"
        strike(w, 43, gpu=1)
        strike(w, 79)
        await w.tick(60)
        assert sorted(await events(w)) == [
            (["43"], "NONE", False, False, None),
            (["79"], "RESTART_BM", True, False, "Quarantined"),
        ]
        await w.tick(300)
        assert (["79"], "RESTART_BM", True, False, "UnQuarantined") in await events(w)
        (fatal,) = [e for e in await w.items(EVENTS, "nvsentinel") if e["spec"]["isFatal"]]
        assert (fatal["status"]["userPodsEvictionStatus"], fatal["status"]["faultRemediated"]) == ("Succeeded", True)
        assert ([], "NONE", False, True, None) in await events(w)
