"""The SDK's injector on a running cluster: pods are replaced, owners get back what they had, nothing stays."""

import json

import pytest
from helpers.cuda_fault_injection import CudaFaultError, CUDAFaultInjector
from helpers.kube_access import of_files
from helpers.kube_client import CONFIG_MAP, JOB, NODE, POD, Kind, Kube, KubeError
from helpers.pod_changes import LIBRARY, SOURCE_FILE
from helpers.workloads import DEPLOYMENT, STATEFUL_SET

from kubesim.tests.live import serving

NAMESPACE = "dynamo"
NAMESPACES = Kind("v1", "namespaces", "Namespace", is_namespaced=False)


class Interrupted(Kube):
    """A client before whose first write somebody else is quicker."""

    is_quick = False

    def replace(self, kind, namespace, body):
        if not self.is_quick:
            self.is_quick = True
            labels = {"labels": {"quick": "yes"}}
            Kube(self.access).change(
                kind,
                namespace,
                body["metadata"]["name"],
                lambda found: found | {"metadata": found["metadata"] | labels},
            )
        return super().replace(kind, namespace, body)


@pytest.fixture(scope="module")
def access(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("sdk"), nodes=2) as live:
        access = of_files([live.kubeconfig])
        Kube(access).create(NAMESPACES, "", {"metadata": {"name": NAMESPACE}})
        yield access


@pytest.fixture
def kube(access):
    return Kube(access)


@pytest.fixture
def injector(kube):
    return CUDAFaultInjector(kube=kube, timeout_s=30)


@pytest.fixture
def node(kube):
    return kube.list(NODE)["items"][0]["metadata"]["name"]


def template(app):
    main = {
        "name": "main",
        "image": "busybox:1.36",
        "command": ["sleep", "1000"],
        "env": [{"name": "A", "value": "1"}],
    }
    spec = {"containers": [main], "terminationGracePeriodSeconds": 0}
    return {"metadata": {"labels": {"app": app}}, "spec": spec}


def workload(kind, name, **spec):
    selector = {} if kind is JOB else {"selector": {"matchLabels": {"app": name}}}
    return {"metadata": {"name": name}, "spec": {**selector, "template": template(name), **spec}}


def pods(kube, app):
    found = kube.list(POD, NAMESPACE, labelSelector=f"app={app}")["items"]
    return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]


def have_library(kube, app):
    return {LIBRARY in json.dumps(pod["spec"]) for pod in pods(kube, app)}


def inject(injector, name, **more):
    assert injector.create_configmap_with_library(NAMESPACE)
    assert injector.patch_deployment_for_cuda_fault(name, NAMESPACE, **more)


def assert_gone(kube, kind, before):
    now = kube.get(kind, NAMESPACE, before["metadata"]["name"])
    assert now["spec"] == before["spec"]
    assert "cuda-fault" not in json.dumps(now["metadata"].get("annotations") or {})
    assert kube.find(CONFIG_MAP, NAMESPACE, "cuda-fault-injection-lib") is None
    assert not [each for each in kube.list(CONFIG_MAP, NAMESPACE)["items"] if "fault" in each["metadata"]["name"]]


def test_a_deployment_gets_the_fault_in_all_its_pods_and_is_given_back(kube, injector, node):
    before = kube.create(DEPLOYMENT, NAMESPACE, workload(DEPLOYMENT, "web", replicas=3))
    inject(injector, "web", target_node=node)
    assert have_library(kube, "web") == {True}
    assert injector.check_if_cuda_library_deployed("web", NAMESPACE)
    inject(injector, "web", target_node=node, xid_type=48)
    changed = kube.get(DEPLOYMENT, NAMESPACE, "web")["spec"]["template"]["spec"]
    assert [each["name"] for each in changed["volumes"]] == ["cuda-fault-lib-source", "cuda-fault-lib"]
    assert injector.cleanup_cuda_fault_injection("web", NAMESPACE, force_delete_pods=True)
    assert have_library(kube, "web") == {False}
    assert_gone(kube, DEPLOYMENT, before)
    assert not injector.check_if_cuda_library_deployed("web", NAMESPACE)


def test_a_clean_up_without_anything_to_do_changes_nothing(kube, injector):
    before = kube.create(DEPLOYMENT, NAMESPACE, workload(DEPLOYMENT, "idle", replicas=1))
    for _ in range(2):
        assert injector.cleanup_cuda_fault_injection("idle", NAMESPACE)
        assert injector.cleanup_cuda_fault_injection("nobody", NAMESPACE)
    assert kube.get(DEPLOYMENT, NAMESPACE, "idle")["metadata"]["generation"] == before["metadata"]["generation"]


def test_another_writer_is_not_overwritten(access, kube):
    kube.create(DEPLOYMENT, NAMESPACE, workload(DEPLOYMENT, "busy", replicas=1))
    injector = CUDAFaultInjector(kube=Interrupted(access), timeout_s=30)
    inject(injector, "busy")
    assert kube.get(DEPLOYMENT, NAMESPACE, "busy")["metadata"]["labels"] == {"quick": "yes"}
    assert have_library(kube, "busy") == {True}
    CUDAFaultInjector(kube=kube).cleanup_cuda_fault_injection("busy", NAMESPACE)


def test_a_stateful_set_has_its_pods_replaced_and_its_strategy_back(kube, injector):
    body = workload(STATEFUL_SET, "store", replicas=2, podManagementPolicy="Parallel", serviceName="store")
    before = kube.create(STATEFUL_SET, NAMESPACE, body)
    inject(injector, "store")
    assert have_library(kube, "store") == {True}
    assert injector.cleanup_cuda_fault_injection("store", NAMESPACE, force_delete_pods=True)
    assert have_library(kube, "store") == {False}
    assert_gone(kube, STATEFUL_SET, before)


def job(name):
    body = workload(JOB, name, backoffLimit=2)
    body["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    return body


def without_selector(found):
    spec = json.loads(json.dumps(found["spec"]))
    spec.pop("selector")
    spec["template"]["metadata"].pop("labels")
    return spec


def test_a_job_is_made_anew_and_restored(kube, injector, node):
    before = kube.create(JOB, NAMESPACE, job("train"))
    inject(injector, "train", target_node=node)
    inject(injector, "train", xid_type=94)
    assert have_library(kube, "train") == {True}
    assert injector.cleanup_cuda_fault_injection("train", NAMESPACE)
    now = kube.get(JOB, NAMESPACE, "train")
    assert without_selector(now) == without_selector(before)
    assert now["spec"]["template"]["metadata"]["labels"]["app"] == "train"
    assert not [each for each in kube.list(CONFIG_MAP, NAMESPACE)["items"] if "fault" in each["metadata"]["name"]]


def test_a_job_comes_back_although_its_injector_was_killed_in_between(kube, injector):
    class Killed(Kube):
        def create(self, kind, namespace, body):
            if kind is JOB:
                raise KeyboardInterrupt
            return super().create(kind, namespace, body)

    before = kube.create(JOB, NAMESPACE, job("lost"))
    injector.create_configmap_with_library(NAMESPACE)
    with pytest.raises(KeyboardInterrupt):
        CUDAFaultInjector(kube=Killed(kube.access)).patch_deployment_for_cuda_fault("lost", NAMESPACE)
    assert kube.find(JOB, NAMESPACE, "lost") is None
    assert injector.cleanup_cuda_fault_injection("lost", NAMESPACE)
    assert without_selector(kube.get(JOB, NAMESPACE, "lost")) == without_selector(before)


def test_calls_can_be_let_through_and_fail_again(kube, injector):
    kube.create(DEPLOYMENT, NAMESPACE, workload(DEPLOYMENT, "switch", replicas=1))
    injector.create_configmap_with_library(NAMESPACE)
    injector.patch_deployment_for_cuda_fault("switch", NAMESPACE, xid_type=95, passthrough=True)
    for enabled in (True, False):
        assert injector.set_cuda_fault_enabled("switch", NAMESPACE, enabled)
        (pod,) = pods(kube, "switch")
        values = {row["name"]: row["value"] for row in pod["spec"]["containers"][0]["env"]}
        assert (values["CUDA_FAULT_INJECTION_ENABLED"], values["CUDA_XID_TYPE"]) == (str(int(enabled)), "95")
    injector.cleanup_cuda_fault_injection("switch", NAMESPACE)
    with pytest.raises(CudaFaultError, match="patch_deployment_for_cuda_fault first"):
        injector.set_cuda_fault_enabled("switch", NAMESPACE, True)


def test_the_source_stays_while_another_workload_needs_it(kube, injector):
    for name in ("first", "second"):
        kube.create(DEPLOYMENT, NAMESPACE, workload(DEPLOYMENT, name, replicas=1))
        inject(injector, name)
    injector.cleanup_cuda_fault_injection("first", NAMESPACE)
    assert kube.find(CONFIG_MAP, NAMESPACE, "cuda-fault-injection-lib")
    injector.cleanup_cuda_fault_injection("second", NAMESPACE)
    assert kube.find(CONFIG_MAP, NAMESPACE, "cuda-fault-injection-lib") is None


def test_a_source_with_a_row_of_the_readers_own_replaces_the_former(kube, injector, tmp_path):
    injector.create_configmap_with_library(NAMESPACE)
    text = kube.get(CONFIG_MAP, NAMESPACE, "cuda-fault-injection-lib")["data"][SOURCE_FILE]
    row = '\t{99, cudaErrorCustom, "Custom error description"},\n'
    (tmp_path / SOURCE_FILE).write_text(text.replace("\t/* xids: end */", f"{row}\t/* xids: end */"))
    kube.create(DEPLOYMENT, NAMESPACE, workload(DEPLOYMENT, "custom", replicas=1))
    with pytest.raises(CudaFaultError, match="no row for Xid 99"):
        injector.patch_deployment_for_cuda_fault("custom", NAMESPACE, xid_type=99)
    own = CUDAFaultInjector(tmp_path, kube=kube, timeout_s=30)
    assert own.build_library()
    inject(own, "custom", xid_type=99)
    assert row in kube.get(CONFIG_MAP, NAMESPACE, "cuda-fault-injection-lib")["data"][SOURCE_FILE]
    own.cleanup_cuda_fault_injection("custom", NAMESPACE)


@pytest.mark.parametrize(
    ("name", "more", "message"),
    [
        ("nobody", {}, "There is no nobody in dynamo"),
        ("any", {"target_node": "node-x"}, "There is no node node-x"),
        ("any", {"xid_type": 7}, "no row for Xid 7"),
    ],
)
def test_a_wrong_word_is_refused_before_anything_is_changed(injector, name, more, message):
    injector.create_configmap_with_library(NAMESPACE)
    with pytest.raises(CudaFaultError, match=message):
        injector.patch_deployment_for_cuda_fault(name, NAMESPACE, **more)
    injector.cleanup_cuda_fault_injection(name, NAMESPACE)


def test_without_the_source_in_the_namespace_nothing_is_patched(injector):
    with pytest.raises(CudaFaultError, match="create_configmap_with_library"):
        injector.patch_deployment_for_cuda_fault("web", NAMESPACE)


def test_a_refusal_of_the_api_server_is_told_in_its_words(access):
    stranger = Kube(type(access)(access.server, access.tls, headers=lambda: {"Authorization": "Bearer x"}))
    with pytest.raises(KubeError, match="Unauthorized") as caught:
        stranger.list(POD, NAMESPACE)
    assert caught.value.status == 401
