"""The sizes that were asked for, in full: 1,000 containers, patches of 100,000 entries, 5,000 replicas.

An eighth of each is measured beside it: the CPU time of this process, the least of several attempts. Eight times the
size may take 12.8 times as long; quadratic would be 64.
"""

from __future__ import annotations

import asyncio
import gc
import json
import time

import pytest

from kubesim.api.options import Options
from kubesim.api.patch import json_patch, merge_patch, strategic_patch
from kubesim.errors import ApiError
from kubesim.schema.types import shape_of
from kubesim.tests.contract.plain import Plain
from kubesim.tests.live import serving
from kubesim.tests.operations import PODS, pod
from kubesim.tests.world import deployment as workload
from kubesim.tests.world import world

pytestmark = pytest.mark.torture
FACTOR = 8
MAX_GROWTH = 1.6 * FACTOR
FLOOR_S = 0.002
"""Less is not worth measuring: caches of the processor make it cheaper than its share."""
ATTEMPTS = 5
ENTRIES, CONTAINERS, REPLICAS = 100_000, 1_000, 5_000


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """Plain requests to a cluster of its own."""
    with serving(tmp_path_factory.mktemp("full"), nodes=2) as live:
        yield Plain("kubesim", live.kubeconfig)


def cpu_s(call):
    """Measure the CPU time of one call, whether it is refused or not."""
    gc.collect()
    gc.disable()
    began = time.process_time()
    try:
        call()
    except ApiError:
        pass
    finally:
        gc.enable()
    return time.process_time() - began


def assert_linear(make, size, attempts=ATTEMPTS):
    """Call what ``make`` makes of an eighth of a size, and of all of it."""
    small, large = make(size // FACTOR), make(size)
    took_small = took_large = 1e9
    for _ in range(attempts):
        took_small, took_large = min(took_small, cpu_s(small)), min(took_large, cpu_s(large))
        if took_large < MAX_GROWTH * max(took_small, FLOOR_S):
            print(f"{size} in {took_large:.2f} s, {took_large / took_small:.1f} times as long as an eighth")
            return
    pytest.fail(f"{took_small:.3f} s becomes {took_large:.3f} s, {took_large / took_small:.1f} times as long")


def containers(count, **more):
    return [{"name": f"c{number}", "image": "nginx:1.27", **more} for number in range(count)]


def pod_of(entries):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": entries}}


def test_a_merge_patch_of_100_000_entries():
    def make(size):
        patch = {"data": {f"k{number}": "v" for number in range(size)}}
        return lambda: merge_patch({"data": {"k0": "w"}}, patch)

    assert_linear(make, ENTRIES)


def test_json_patches_with_100_000_entries_in_their_10_000_operations():
    def make(size):
        operations = [{"op": "add", "path": f"/data/k{n}", "value": ["v"] * 10} for n in range(size // 10)]
        return lambda: json_patch({"data": {}}, operations)

    assert_linear(make, ENTRIES)


@pytest.mark.parametrize("change", [{"image": "nginx:1.28"}, {"$patch": "delete"}])
def test_a_strategic_merge_of_100_000_entries_in_another_order(change):
    def make(size):
        entries = [{"name": f"c{number}", **change} for number in range(size)]
        order = [{"name": f"c{number}"} for number in reversed(range(size))]
        patch = {"spec": {"containers": entries, "$setElementOrder/containers": order}}
        before, shape = pod_of(containers(size)), shape_of("V1Pod")
        return lambda: strategic_patch(before, patch, shape)

    assert_linear(make, ENTRIES)


@pytest.mark.parametrize("kind", ["merge", "strategic", "apply"])
def test_a_patch_of_100_000_entries_over_the_wire(plain, kind):
    media = {"apply": "application/apply-patch+yaml"}.get(kind, f"application/{kind}-patch+json")
    media = media.replace("strategic-patch", "strategic-merge-patch")
    path = "/api/v1/namespaces/default/configmaps/kube-root-ca.crt?dryRun=All&force=true&fieldManager=x"
    path = path if kind == "apply" else path.replace("&force=true", "")

    def make(size):
        head = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kube-root-ca.crt"}}
        body = json.dumps({**head, "data": {f"k{number}": "v" for number in range(size)}}).encode()
        return lambda: codes.add(plain("PATCH", path, body, kind=media).code)

    codes: set[int] = set()
    assert_linear(make, ENTRIES)
    assert codes == {200}


def test_a_pod_of_1_000_containers_is_made_and_changed(plain):
    path = "/api/v1/namespaces/default/pods?dryRun=All"

    def make(size):
        ports = [{"containerPort": 8080, "name": "http"}]
        body = json.dumps(pod_of(containers(size, ports=ports, env=[{"name": "A", "value": "$(B)"}]))).encode()
        return lambda: codes.add(plain("POST", path, body).code)

    codes: set[int] = set()
    assert_linear(make, CONTAINERS)
    assert codes == {201}


def test_a_patch_of_a_stored_pod_with_100_000_containers(ops):
    ops.create(PODS, "ml", pod())

    def make(size):
        patch = {"spec": {"containers": containers(size)}}
        return lambda: ops.patch(PODS, "ml", "a", patch, patch_type="strategic", options=Options(dry_run=True))

    assert_linear(make, ENTRIES, attempts=2)


def test_a_deployment_of_5_000_replicas():
    async def live(replicas):
        async with world(1, 0) as cluster:
            await cluster.create("deployments.apps", workload("web", replicas=replicas))
            await cluster.tick(15)
            return len(await cluster.items("pods"))

    def make(size):
        return lambda: made.append(asyncio.run(live(size)))

    made: list[int] = []
    assert_linear(make, REPLICAS, attempts=4)
    assert set(made) == {REPLICAS, REPLICAS // FACTOR}
