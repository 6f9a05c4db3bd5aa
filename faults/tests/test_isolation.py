"""Partitions in the namespaces of a session, which are open to each other by a policy that adds to every other."""

from __future__ import annotations

import itertools
import shutil

import pytest
import yaml

from faults import clashes, packs, services
from faults.engine.fingerprint import fingerprint
from faults.injectors import KINDS, StepError, isolation
from faults.injectors.network import TENANTS, policy
from faults.network_faults import WrongPartition, parted
from faults.tests.clusters import eventually
from faults.tests.conftest import deadline
from faults.tests.node_fault_packs import SKELETON

HOME, OTHER = "ml-training", "ml-serving"
FENCE = isolation.policy(HOME, [HOME, OTHER], ["toolbox"])
PODS = [
    {"app": app, "tier": tier, "namespace": namespace}
    for namespace in (HOME, OTHER, "monitoring", "toolbox", "stranger", "kube-system")
    for app in ("web", "db", "batch")
    for tier in ("a", "b")
]


def selects(selector, labels):
    """Tell whether a label selector selects, as the API reference defines it."""
    rows = [(key, "In", [value]) for key, value in selector.get("matchLabels", {}).items()]
    rows += [(row["key"], row["operator"], row["values"]) for row in selector.get("matchExpressions", [])]
    return all((labels.get(key) in values) == (operator == "In") for key, operator, values in rows)


def is_peer(peer, pod, namespace):
    names = {"kubernetes.io/metadata.name": pod["namespace"]}
    there = (
        selects(peer["namespaceSelector"], names) if "namespaceSelector" in peer else pod["namespace"] == namespace
    )
    return "ipBlock" not in peer and there and selects(peer.get("podSelector", {}), pod)


def opens(policies, pod, peer, direction, port):
    """Tell whether policies of HOME let its pod talk with a peer: any of those that select it is enough."""
    rules_of, side = ("ingress", "from") if direction == "Ingress" else ("egress", "to")
    for spec in (each["spec"] for each in policies):
        if direction not in spec["policyTypes"] or not selects(spec["podSelector"], pod):
            continue
        for rule in spec.get(rules_of, []):
            ranges = [(row["port"], row.get("endPort", row["port"])) for row in rule.get("ports", [])]
            is_port = any(low <= port <= high for low, high in ranges or [(0, 65536)])
            if is_port and (side not in rule or any(is_peer(one, peer, HOME) for one in rule[side])):
                return True
    return False


def patched(fence, operations):
    """Return an isolation after the two operations of JSON patch that partitions use."""
    spec = {name: [*value] if isinstance(value, list) else value for name, value in fence["spec"].items()}
    spec["ingress"] = [{"from": [*spec["ingress"][0]["from"]]}]
    for operation in operations:
        if "ingress" in operation["path"]:
            spec["ingress"][0]["from"] = moved(spec["ingress"][0]["from"], operation)
        else:
            spec["egress"] = moved(spec["egress"], operation)
    return {**fence, "spec": spec}


def moved(rows, operation):
    taken = int(operation.get("from", operation["path"]).rpartition("/")[2])
    kept = [row for at, row in enumerate(rows) if at != taken]
    return [rows[taken], *kept] if operation["op"] == "move" else kept


def test_isolated_namespaces_are_open_to_each_other_to_monitoring_and_to_visitors():
    mine = next(pod for pod in PODS if pod["namespace"] == HOME)
    comers = {pod["namespace"] for pod in PODS if opens([FENCE], mine, pod, "Ingress", 80)}
    assert comers == {HOME, OTHER, "monitoring", "toolbox"}
    assert {pod["namespace"] for pod in PODS if opens([FENCE], mine, pod, "Egress", 80)} == {HOME, OTHER}
    assert opens([FENCE], mine, PODS[-1], "Egress", 53)


BETWEEN = {"partition": "frontend_worker", "source": {"app": "web"}, "target": {"app": "db"}}
STEPS = [
    BETWEEN,
    {**BETWEEN, "ports": [80, 443]},
    {**BETWEEN, "source": {"app": "web", "tier": "a"}, "target": {"app": "db", "tier": "b"}},
    {"partition": "worker_worker", "source": {"app": "db"}},
    {"partition": "custom", "source": {"app": "db"}, "block": "ingress"},
    {"partition": "custom", "source": {"app": "db", "tier": "a"}, "block": "egress"},
    {"partition": "custom", "source": {"app": "db"}, "block": "all"},
    {"partition": "custom", "source": {"app": "db"}, "block": "all", "dns": False},
]


def closes(step, pod, peer, direction, port):
    """Tell whether a step is to close what the isolation opens: in words, not in policies."""
    source, target = step["source"], step.get("target", step["source"])
    if step["partition"] == "custom":
        hit = step["block"] in ("all", direction.lower()) and source.items() <= pod.items()
        if direction == "Ingress":
            return hit and peer["namespace"] in (HOME, OTHER)
        return hit and (port != 53 or not step.get("dns", True) or peer["namespace"] != "kube-system")
    between = source.items() <= peer.items() and target.items() <= pod.items() and peer["namespace"] == HOME
    return direction == "Ingress" and between and port in step.get("ports", [port])


@pytest.mark.parametrize("step", STEPS, ids=str)
def test_a_partition_closes_what_it_says_and_nothing_else(step):
    made = policy({"namespace": HOME, "name": "rules", TENANTS: [HOME, OTHER], **step})
    part = isolation.parted([made], [HOME, OTHER])
    after = [*part.policies, patched(FENCE, part.operations)]
    mine = [pod for pod in PODS if pod["namespace"] == HOME]
    for pod, peer, direction, port in itertools.product(mine, PODS, ("Ingress", "Egress"), (53, 80, 8080)):
        told = (pod, peer, direction, port)
        is_open = opens([FENCE], *told) and not closes(step, *told)
        assert opens(after, *told) == is_open, told


def test_a_second_partition_is_told_from_the_first_by_what_is_left_of_the_isolation():
    made = policy({"namespace": HOME, "name": "rules", TENANTS: [HOME, OTHER], **BETWEEN})
    outward = policy({"namespace": HOME, "name": "rules", **STEPS[5]})
    left = patched(FENCE, isolation.parted([made], [HOME, OTHER]).operations)
    assert isolation.tenants_of(left) == isolation.tenants_of(FENCE) == [HOME, OTHER]
    assert [isolation.is_whole(fence, [made]) for fence in (FENCE, left)] == [True, False]
    assert isolation.is_whole(left, [outward])


def test_pods_with_too_many_labels_are_refused_since_the_others_cannot_be_told():
    source = {f"l{number}": "a" for number in range(8)}
    step = {"partition": "custom", "block": "all", "source": source, "namespace": HOME, "name": "a"}
    KINDS["network"].check({**step, TENANTS: [HOME]})
    source |= {"more": "a"}
    with pytest.raises(StepError, match="name one label of each") as caught:
        KINDS["network"].check({**step, TENANTS: [HOME]})
    assert caught.value.where == "source"
    KINDS["network"].check(step)
    with pytest.raises(WrongPartition, match="name one label of each"):
        parted([policy(step)], [HOME])


def test_a_policy_of_that_name_that_no_session_made_has_no_tenants():
    stranger = {**FENCE, "spec": {"podSelector": {}, "ingress": [{}], "egress": [{"to": [{"ipBlock": {}}]}]}}
    assert (isolation.tenants_of(stranger), isolation.is_isolation(stranger)) == ([], False)
    closed = patched(
        FENCE, isolation.parted([policy({"namespace": HOME, "name": "rules", **STEPS[6]})], [HOME]).operations
    )
    assert (isolation.tenants_of(closed), isolation.is_isolation(closed)) == ([], True)


def pod(name, namespace=HOME, image="busybox:1.36", **more):
    meta = {"name": name, "namespace": namespace, "labels": {"app": name}}
    spec = {"containers": [{"name": "main", "image": image, **more}], "terminationGracePeriodSeconds": 0}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


@pytest.fixture
def partitioned(tmp_path, db):
    """The stored version of a pack that keeps web from db in a namespace of the session."""
    folder = tmp_path / "kept-apart"
    shutil.copytree(SKELETON, folder)
    path = folder / "scenario.yaml"
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    step = {"kind": "network", "namespace": "${namespace.workloads}", "name": "db-access", **BETWEEN}
    document |= {"slug": "kept-apart", "title": "Kept apart", "inject": [*document["inject"], step]}
    path.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    return next(
        version for version in services.seed_catalog(folder=tmp_path) if version.scenario.slug == "kept-apart"
    )


@pytest.fixture
def lived_in(cluster, kube):
    """The environment of a session of two namespaces, with a server and two clients."""
    names = {"workloads": HOME, "serving": OTHER}
    run = services.plan_environment_run(cluster=cluster, namespaces=names, deadline=deadline())
    run = services.inject_run(run_id=run.pk, holder="test")
    sleeping = {"command": ["sleep", "3600"]}
    kube.create(pod("db", image="nginx:1.27"))
    for made in (pod("web", **sleeping), pod("batch", **sleeping), pod("web", OTHER, **sleeping)):
        kube.create(made)
    eventually(lambda: all(map(is_ready, [*kube.list("v1", "Pod", HOME), *kube.list("v1", "Pod", OTHER)])))
    return run


def is_ready(made):
    return ("Ready", "True") in [(row["type"], row["status"]) for row in made["status"].get("conditions", [])]


def policies(kube):
    """Return what the fingerprint sees of all NetworkPolicies."""
    return {key: value for key, value in fingerprint(kube, [HOME, OTHER]).items() if "NetworkPolicy" in key}


def reaches_db(kube, client, namespace=HOME):
    address = kube.get("v1", "Pod", "db", HOME)["status"]["podIP"]
    code, _ = kube.run_command(namespace, client, "main", ["wget", "-q", "-T", "1", "-O", "-", f"http://{address}/"])
    return code == 0


@pytest.mark.django_db
def test_a_pack_keeps_pods_of_the_session_apart_and_leaves_nothing_behind(lived_in, partitioned, cluster, kube):
    before = policies(kube)
    run = services.plan_fault_run(
        cluster=cluster, scenario_version=partitioned, namespaces={"workloads": HOME}, parameters={}, seed=1,
        deadline=deadline(),
    )  # fmt: skip
    assert reaches_db(kube, "web")
    run = services.inject_run(run_id=run.pk, holder="test")
    assert not reaches_db(kube, "web")
    assert reaches_db(kube, "batch")
    assert reaches_db(kube, "web", OTHER)  # the session's other namespace, which the pack does not know
    run = services.revert_run(run_id=run.pk, holder="test")
    assert (run.status, run.residue) == ("reverted", [])
    assert reaches_db(kube, "web")
    assert policies(kube) == before


@pytest.mark.django_db
def test_two_packs_that_part_one_namespace_cannot_be_in_one_interview(partitioned):
    pack = packs.parse(partitioned.files)
    assert "both change" in clashes.clash([pack, pack]) or "both create" in clashes.clash([pack, pack])
    touched = {(touch.name, touch.path) for touch in clashes.touches(pack) if touch.kind == "NetworkPolicy"}
    assert touched == {("db-access", ()), ("db-access-others", ()), ("namespace-isolation", ("spec", "ingress"))}
