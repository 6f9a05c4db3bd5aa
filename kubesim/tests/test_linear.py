"""Time in proportion to the size of a body: four times as much may take six times as long, not sixteen.

What is compared is the CPU time of this process, the least of several attempts, with the garbage collector off.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time

import pytest

from kubesim.admission.warnings import of_new
from kubesim.api.options import Options
from kubesim.api.patch import json_patch, merge_patch, strategic_patch
from kubesim.custom.values import entries_before
from kubesim.errors import ApiError
from kubesim.kubelet.environment import LONGEST_WORD, expand
from kubesim.kubelet.footprint import measure
from kubesim.schema.kinds import registry
from kubesim.schema.types import shape_of
from kubesim.tests.containers import run
from kubesim.tests.operations import DEPLOYMENTS, PODS, deployment, pod
from kubesim.tests.world import deployment as workload
from kubesim.tests.world import world

FACTOR = 4
MAX_GROWTH = 9.0
"""Sixteen is quadratic; caches of the processor make what is linear grow by more than four."""
ATTEMPTS = 4
MAPS, SERVICES = registry.by_resource("configmaps"), registry.by_resource("services")


@pytest.fixture(scope="module", autouse=True)
def _little_to_look_through():
    """Look through all that is there already once, not before each of a hundred measurements."""
    gc.collect()
    gc.freeze()


def cpu_s(call, *args):
    """Measure the CPU time of one call, whether it is refused or not."""
    gc.collect()
    gc.disable()
    began = time.thread_time()
    try:
        call(*args)
    except ApiError:
        pass
    finally:
        gc.enable()
    return time.thread_time() - began


def assert_linear(call, make, size):
    """Call with what ``make`` makes of a size, and of a larger one; one quiet attempt is enough."""
    small, large = make(size), make(size * FACTOR)
    growth = []
    for _ in range(ATTEMPTS):
        growth.append(cpu_s(call, *large) / max(cpu_s(call, *small), 1e-6))
        if growth[-1] < MAX_GROWTH:
            return
    pytest.fail(f"{FACTOR} times the size takes {min(growth):.1f} times as long")


def containers(count, **more):
    return [{"name": f"c{number}", "image": "nginx:1.27", **more} for number in range(count)]


def pod_of(entries):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": entries}}


@pytest.mark.parametrize("order", [False, True])
@pytest.mark.parametrize("change", [{"image": "nginx:1.28"}, {"$patch": "delete"}])
def test_a_strategic_merge_of_many_entries_is_linear(change, order):
    def make(size):
        entries = [{"name": f"c{number}", **change} for number in range(size)]
        patch = {"spec": {"containers": entries}}
        if order:
            patch["spec"]["$setElementOrder/containers"] = [
                {"name": f"c{number}"} for number in reversed(range(size))
            ]
        return pod_of(containers(size)), patch, shape_of("V1Pod")

    assert_linear(strategic_patch, make, 2_000)


def test_a_strategic_merge_of_many_plain_items_is_linear():
    def make(size):
        old, new = ([f"example.com/{word}{number}" for number in range(size)] for word in "ab")
        patch = {"metadata": {"finalizers": new, "$deleteFromPrimitiveList/finalizers": old[::2]}}
        return {"metadata": {"finalizers": old}}, patch, shape_of("V1Pod")

    assert_linear(strategic_patch, make, 4_000)


def test_a_patch_may_delete_and_add_one_of_two_entries_of_one_name():
    old = pod_of([{"name": "a", "image": "1"}, {"name": "a", "image": "2"}, {"name": "b", "image": "3"}])
    entries = [{"name": "a", "$patch": "delete"}, {"name": "a", "image": "4"}, {"name": "c", "image": "5"}]
    patched = strategic_patch(old, {"spec": {"containers": entries}}, shape_of("V1Pod"))
    assert [(each["name"], each["image"]) for each in patched["spec"]["containers"]] == [
        ("a", "4"), ("c", "5"), ("b", "3"),
    ]  # fmt: skip


def test_a_json_patch_and_a_merge_patch_of_100_000_entries_are_linear():
    assert_linear(merge_patch, lambda size: ({"data": {}}, {"data": {f"k{n}": "v" for n in range(size)}}), 25_000)
    assert_linear(
        json_patch,
        lambda size: ({"data": {}}, [{"op": "add", "path": f"/data/k{n}", "value": ["v"] * 40} for n in range(size)]),
        2_500,
    )


def test_a_json_patch_of_many_copies_costs_what_it_copies():
    obj = {"data": {f"k{number}": "v" * 100 for number in range(100)}}
    assert_linear(json_patch, lambda size: (obj, [{"op": "copy", "from": "/data", "path": "/more"}] * size), 200)


def test_a_patch_of_20_000_containers_takes_seconds_at_most(ops):
    ops.create(PODS, "ml", pod())
    patch = {"spec": {"containers": containers(20_000)}}
    assert cpu_s(lambda: ops.patch(PODS, "ml", "a", patch, patch_type="strategic", options=Options(dry_run=True))) < 4


def test_applying_many_fields_twice_is_linear(ops):
    def apply(body):
        name = body["metadata"]["name"]
        for manager in ("one", "other"):
            options = Options(field_manager=manager, force=True)
            ops.patch(
                registry.by_resource(body["resource"]),
                "ml",
                name,
                body["object"],
                options=options,
                patch_type="apply",
            )

    def make_map(size):
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"m{size}"}}
        return ({**body, "resource": "configmaps", "object": {**body, "data": {f"k{n}": "v" for n in range(size)}}},)

    def make_account(size):
        body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": f"s{size}"}}
        names = [{"name": f"s{number}"} for number in range(size)]
        return ({**body, "resource": "serviceaccounts", "object": {**body, "secrets": names}},)

    assert_linear(apply, make_map, 3_000)
    assert_linear(apply, make_account, 500)


async def _cpu_of_pod(spec, seconds):
    """Return the CPU time that a pod takes in its first seconds on a node, and what becomes of its containers."""
    async with world(1, 0) as cluster:
        began = time.thread_time()
        await cluster.create("pods", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
        for _ in range(seconds):
            await cluster.tick(1)
        return time.thread_time() - began, (await cluster.pod("p"))["status"]


@pytest.mark.parametrize("init", [[], [{"name": "first", "image": "busybox:1.36", "command": ["sleep", "12"]}]])
def test_a_pod_of_1_000_containers_is_linear_in_them(init):
    def live(size):
        took, status = asyncio.run(_cpu_of_pod({"initContainers": init, "containers": containers(size)}, 40))
        assert sum(each["ready"] for each in status["containerStatuses"]) == size
        took_all.append(took)

    took_all = []
    assert_linear(live, lambda size: (size,), 250)
    assert min(took_all[::2]) < 4


def test_a_large_pod_leaves_room_for_others():
    """Each look at a pod costs as much as it has containers: a large one that always changes gets fewer of them."""
    probe = {"exec": {"command": ["true"]}, "periodSeconds": 1}

    def live(size):
        asyncio.run(_cpu_of_pod({"containers": containers(size, readinessProbe=probe)}, 8))

    assert_linear(live, lambda size: (size,), 60)


def test_values_that_refer_to_values_are_linear(ops):
    def make(size):
        return "$(A)" * size, {"A": "x"}

    assert_linear(expand, make, 10_000)
    assert len(expand("$(A)" * 1_000, {"A": "x" * LONGEST_WORD})) == LONGEST_WORD


def test_many_ports_keys_and_replicas_cost_what_they_are(ops):
    ops.create(DEPLOYMENTS, "ml", deployment())

    def service(size):
        ports = [{"name": f"p{number}", "port": number + 1} for number in range(size)]
        return ({"metadata": {"name": "s"}, "spec": {"ports": ports, "selector": {"a": "b"}}},)

    assert_linear(
        lambda body: ops.create(SERVICES, "ml", json.loads(json.dumps(body)), options=Options(dry_run=True)),
        service,
        1_000,
    )


@pytest.mark.parametrize("port", [{"name": "http"}, {"hostPort": 1}])
def test_ports_that_many_containers_share_are_told_of_in_linear_time(port):
    def make(size):
        ports = [
            {**port, "containerPort": 80, "hostIP": f"{port.get('hostIP', '')}{number}"} for number in range(size)
        ]
        return PODS, pod_of([{"name": f"c{number}", "ports": [each]} for number, each in enumerate(ports)])

    assert_linear(of_new, make, 500)


async def test_many_new_processes_measure_no_pod_of_the_node():
    """A fork bomb made its node weigh every pod, files and all, whenever it had 64 processes more."""
    measured = []

    def note(frame, event, _):
        if event == "call" and frame.f_code is measure.__code__:
            measured.append(frame)

    async with world(1, 0) as cluster:
        await cluster.create("pods", pod_of([{"name": "main", "image": "busybox:1.36", "command": ["sleep", "1d"]}]))
        await cluster.tick(10)
        sys.setprofile(note)
        try:
            status, _, _ = await run(cluster, "a", "sh", "-c", "for i in $(seq 200); do sleep 100 & done")
        finally:
            sys.setprofile(None)
    assert (status, measured) == (0, [])


def test_entries_of_a_custom_list_are_found_among_those_before_in_linear_time():
    schema = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}

    def find_all(entries):
        before = entries_before(entries, schema)
        assert all(before(entry) is entry for entry in entries)

    assert_linear(find_all, lambda size: (containers(size),), 2_000)


def test_a_deployment_costs_what_its_replicas_do():
    """Counted are calls of functions, which no other process disturbs."""
    counted = []

    def note(frame, event, _):
        counted[-1] += event == "call"

    async def live(replicas):
        async with world(1, 0) as cluster:
            counted.append(0)
            sys.setprofile(note)
            await cluster.create("deployments.apps", workload("web", replicas=replicas))
            await cluster.tick(3)
            sys.setprofile(None)
            return len(await cluster.items("pods"))

    assert [asyncio.run(live(replicas)) for replicas in (25, 100)] == [25, 100]
    assert counted[1] < counted[0] * 6
