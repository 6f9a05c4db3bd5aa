"""LimitRanges: defaults, bounds of containers, pods and claims; every text was read from a real API server."""

import pytest

from kubesim.api.operations import Operations
from kubesim.clock import ManualClock
from kubesim.errors import ApiError
from kubesim.store import Store

LIMITS = [
    {
        "type": "Container",
        "min": {"cpu": "100m", "memory": "10Mi"},
        "max": {"cpu": "2", "memory": "1Gi"},
        "maxLimitRequestRatio": {"cpu": "4"},
    },
    {"type": "Pod", "max": {"cpu": "3"}, "min": {"memory": "20Mi"}},
    {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "5Gi"}},
]


@pytest.fixture
def create():
    clock = ManualClock()
    operations = Operations(Store(clock), clock)

    def make(resource, name, spec, namespace="ns"):
        kind = operations.registry.by_resource(resource)
        return operations.create(kind, namespace, {"metadata": {"name": name}, "spec": spec})

    make("namespaces", "ns", {}, "")
    make("limitranges", "l", {"limits": LIMITS})
    return make


def sized(request, limit, memory="20Mi"):
    return {"requests": {"cpu": request, "memory": memory}, "limits": {"cpu": limit, "memory": memory}}


def pod(*resources, init=()):
    spec = {"containers": [{"name": f"c{i}", "image": "i", "resources": r} for i, r in enumerate(resources)]}
    return spec | {"initContainers": [{"name": f"i{i}", "image": "i", "resources": r} for i, r in enumerate(init)]}


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        (pod(sized("50m", "100m")), "minimum cpu usage per Container is 100m, but request is 50m"),
        (pod(sized("1", "3")), "maximum cpu usage per Container is 2, but limit is 3"),
        (
            pod(sized("100m", "1")),
            "cpu max limit to request ratio per Container is 4, but provided ratio is 10.000000",
        ),
        (pod(sized("1", "2"), sized("1", "2")), "maximum cpu usage per Pod is 3, but limit is 4"),
        (pod(sized("1", "2", "11Mi")), "minimum memory usage per Pod is 20Mi, but request is 11Mi"),
    ],
)
def test_a_pod_outside_the_bounds_is_refused(create, spec, says):
    with pytest.raises(ApiError) as caught:
        create("pods", "p", spec)
    assert caught.value.message == f'pods "p" is forbidden: {says}'


def test_a_pod_within_the_bounds_is_let_in(create):
    assert create("pods", "p", pod(sized("1", "2"), init=(sized("1", "2"),)))


@pytest.mark.parametrize(
    ("size", "says"),
    [
        ("500Mi", "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 500Mi"),
        ("6Gi", "maximum storage usage per PersistentVolumeClaim is 5Gi, but request is 6Gi"),
    ],
)
def test_a_claim_outside_the_bounds_is_refused(create, size, says):
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    with pytest.raises(ApiError) as caught:
        create("persistentvolumeclaims", "v", spec)
    assert caught.value.message == f'persistentvolumeclaims "v" is forbidden: {says}'
