"""What the SDK changes in workloads: it takes back exactly that. And what it reads in kubeconfigs."""

import copy
import json
import sys
from pathlib import Path

import pytest
import yaml
from helpers import kube_access, small_yaml
from helpers.jobs import bare
from helpers.pod_changes import LIBRARY, CudaFault, carries, is_clean
from helpers.workloads import WORKLOADS, record_of

from conftest import ROOT

FAULT = CudaFault(79, "worker-node-1")
SDK = ROOT / "faults" / "sdk"
KINDS = {workload.kind.kind: workload for workload in WORKLOADS}
TEMPLATES = {
    "bare": {"containers": [{"name": "main", "image": "vllm"}]},
    "with everything of its own": {
        "containers": [
            {"name": "proxy", "image": "envoy", "env": [{"name": "LD_PRELOAD", "value": "/untouched.so"}]},
            {
                "name": "main",
                "image": "vllm",
                "resources": {"limits": {"nvidia.com/gpu": 1}},
                "env": [
                    {"name": "A", "value": "1"},
                    {"name": "LD_PRELOAD", "value": "/opt/jemalloc.so"},
                    {"name": "CUDA_XID_TYPE", "value": "theirs"},
                    {"name": "Z", "value": "26"},
                ],
                "volumeMounts": [{"name": "models", "mountPath": "/models"}],
            },
        ],
        "initContainers": [{"name": "fetch", "image": "curl"}],
        "volumes": [{"name": "models", "emptyDir": {}}],
        "affinity": {
            "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []},
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]},
                        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]},
                    ]
                }
            },
        },
    },
}


def deployment(template, **spec):
    return {"kind": "Deployment", "metadata": {"name": "w"}, "spec": {"template": {"spec": template}, **spec}}


def graph(template):
    """A graph whose one worker has the template as Dynamo writes it; its frontend is nobody's business."""
    pod = {key: value for key, value in template.items() if key != "containers"}
    main = {key: value for key, value in template["containers"][-1].items() if key != "resources"}
    services = {
        "Frontend": {"componentType": "frontend", "extraPodSpec": {"mainContainer": {"image": "vllm"}}},
        "VllmDecodeWorker": {"componentType": "worker", "extraPodSpec": {**pod, "mainContainer": main}},
        "VllmPrefillWorker": {"componentType": "worker", "resources": {"limits": {"gpu": "1"}}},
    }
    return {"kind": "DynamoGraphDeployment", "metadata": {"name": "g"}, "spec": {"services": services}}


def forms():
    for name, template in TEMPLATES.items():
        strategies = {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 3, "maxUnavailable": 0}}}
        yield pytest.param("Deployment", deployment(template, **strategies), id=f"Deployment, {name}")
        yield pytest.param("Deployment", deployment(template), id=f"Deployment without strategy, {name}")
        yield pytest.param("StatefulSet", deployment(template), id=f"StatefulSet, {name}")
        yield pytest.param("DynamoGraphDeployment", graph(template), id=f"graph, {name}")


@pytest.mark.parametrize(("kind", "found"), [*forms()])
def test_what_is_changed_is_restored_exactly(kind, found):
    workload, before = KINDS[kind], copy.deepcopy(found)
    changed = workload.with_fault(copy.deepcopy(found), FAULT)
    assert LIBRARY in json.dumps(changed)
    again = workload.with_fault(copy.deepcopy(changed), FAULT)
    assert again == changed, "a second time changes nothing more"
    restored = workload.with_own_strategy(workload.without_fault(again))
    assert restored == before


@pytest.mark.parametrize(("kind", "found"), [*forms()])
def test_a_clean_up_that_was_killed_half_way_can_be_done_again(kind, found):
    workload, before = KINDS[kind], copy.deepcopy(found)
    half = workload.without_fault(workload.with_fault(copy.deepcopy(found), FAULT))
    twice = workload.without_fault(copy.deepcopy(half))
    assert twice == half
    assert workload.with_own_strategy(twice) == before


def test_only_workers_of_a_graph_are_changed():
    before = graph(TEMPLATES["bare"])
    changed = KINDS["DynamoGraphDeployment"].with_fault(copy.deepcopy(before), FAULT)["spec"]["services"]
    assert changed["Frontend"] == before["spec"]["services"]["Frontend"]
    for worker in ("VllmDecodeWorker", "VllmPrefillWorker"):
        assert changed[worker]["annotations"] == {"nvidia.com/deployment-strategy": "Recreate"}
        assert changed[worker]["extraPodSpec"]["initContainers"][0]["name"] == "compile-cuda-fault-lib"


def test_the_library_joins_what_a_container_preloads_already():
    changed = KINDS["Deployment"].with_fault(
        deployment(copy.deepcopy(TEMPLATES["with everything of its own"])), FAULT
    )
    proxy, main = changed["spec"]["template"]["spec"]["containers"]
    assert proxy["env"] == [{"name": "LD_PRELOAD", "value": "/untouched.so"}], "it uses no GPU"
    assert {row["name"]: row["value"] for row in main["env"]} == {
        "A": "1",
        "LD_PRELOAD": f"/opt/jemalloc.so:{LIBRARY}",
        "CUDA_XID_TYPE": "79",
        "Z": "26",
        "CUDA_FAULT_INJECTION_ENABLED": "1",
    }
    pod = changed["spec"]["template"]
    assert carries(pod, FAULT)
    assert not carries(pod, CudaFault(48))
    assert not is_clean(pod)


def test_what_the_owner_changed_meanwhile_stays():
    changed = KINDS["Deployment"].with_fault(deployment(copy.deepcopy(TEMPLATES["bare"])), FAULT)
    pod = changed["spec"]["template"]["spec"]
    pod["containers"][0]["env"][0]["value"] = f"/new.so:{LIBRARY}"
    required = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    required["nodeSelectorTerms"][0]["matchExpressions"].append({"key": "zone", "operator": "Exists"})
    changed["spec"]["strategy"] = {"type": "RollingUpdate"}
    restored = KINDS["Deployment"].with_own_strategy(KINDS["Deployment"].without_fault(changed))
    pod = restored["spec"]["template"]["spec"]
    assert pod["containers"][0]["env"] == [{"name": "LD_PRELOAD", "value": "/new.so"}]
    terms = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert terms == [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]
    assert restored["spec"]["strategy"] == {"type": "RollingUpdate"}


def test_without_the_record_everything_of_our_names_goes():
    changed = KINDS["Deployment"].with_fault(deployment(copy.deepcopy(TEMPLATES["bare"])), CudaFault(48))
    del changed["metadata"]["annotations"]
    template = KINDS["Deployment"].without_fault(changed)["spec"]["template"]
    assert template == {"spec": TEMPLATES["bare"]}


def test_a_fault_on_another_node_begins_with_the_owners_affinity():
    template = copy.deepcopy(TEMPLATES["with everything of its own"])
    once = KINDS["Deployment"].with_fault(deployment(copy.deepcopy(template)), FAULT)
    moved = KINDS["Deployment"].with_fault(once, CudaFault(48, "worker-node-2"))
    assert moved == KINDS["Deployment"].with_fault(deployment(template), CudaFault(48, "worker-node-2"))
    assert record_of(moved)["fault"] == {"xid": 48, "hostname": "worker-node-2", "enabled": True}


def test_a_job_is_kept_as_its_owner_wrote_it():
    labels = {"app": "train", "controller-uid": "1", "batch.kubernetes.io/job-name": "j"}
    found = {
        "metadata": {"name": "j", "uid": "1", "resourceVersion": "2", "labels": {"team": "a"}},
        "spec": {"selector": {"matchLabels": {"controller-uid": "1"}}, "template": {"metadata": {"labels": labels}}},
        "status": {"active": 1},
    }
    assert bare(found) == {
        "metadata": {"name": "j", "labels": {"team": "a"}},
        "spec": {"template": {"metadata": {"labels": {"app": "train"}}}},
    }


KUBECONFIG = """\
apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: LS0tLS1CRUdJTg==
    server: https://127.0.0.1:6443   # here
  name: "kind-a b"
contexts:
-   context:
        cluster: kind-a b
        namespace: 'it''s'
        user: arn:aws:eks:eu-west-1:123456789012:cluster/x
    name: kind
current-context: kind
kind: Config
preferences: {}
users:
- name: arn:aws:eks:eu-west-1:123456789012:cluster/x
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1beta1
      args:
      - --region
      - eu-west-1
      - "-v"
      command: aws
      env: null
      installHint: |
        Install it:

          see the page
      interactiveMode: IfAvailable
      provideClusterInfo: false
"""


def test_kubeconfigs_are_read_as_a_whole_yaml_reads_them():
    expected = yaml.safe_load(KUBECONFIG)
    assert small_yaml.parse(KUBECONFIG) == expected
    assert small_yaml.parse(yaml.safe_dump(expected)) == expected
    assert small_yaml.parse(json.dumps(expected)) == expected


@pytest.mark.parametrize("text", ["a: &x 1", "a: !!binary x", "a: {b: c}", "just words", "a: 1\n  b: 2", "? a\n: b"])
def test_yaml_that_is_not_understood_is_refused(text):
    with pytest.raises(ValueError, match="not understood"):
        small_yaml.parse(text)


def test_a_program_of_the_kubeconfig_gives_the_token(tmp_path):
    program = tmp_path / "plugin"
    program.write_text('#!/bin/sh\necho "{\\"status\\": {\\"token\\": \\"$WHO\\"}}"\n')
    program.chmod(0o755)
    (tmp_path / "config").write_text(
        KUBECONFIG.replace("command: aws", f"command: {program}")
        .replace("env: null", 'env: [{"name": "WHO", "value": "ada"}]')
        .replace("https:", "http:")
    )
    access = kube_access.of_files([tmp_path / "none", tmp_path / "config"])
    assert (access.server, access.namespace) == ("http://127.0.0.1:6443", "it's")
    assert access.headers() == {"Authorization": "Bearer ada"}


def test_without_a_kubeconfig_the_message_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(kube_access.AccessError, match="Set KUBECONFIG"):
        kube_access.find()


def test_the_sdk_needs_nothing_but_the_standard_library():
    for file in [*SDK.glob("*.py"), *SDK.glob("helpers/*.py"), *SDK.glob("scripts/*.py"), *SDK.glob("examples/*.py")]:
        names = {
            line.split()[1].partition(".")[0]
            for line in Path(file).read_text().splitlines()
            if line.startswith(("import ", "from "))
        }
        own = {"helpers", "fault_injection_client", "test_helpers", "gpu_test"}
        assert names - own <= sys.stdlib_module_names, file
