"""Claims of devices: made from templates, given devices of slices, and freed with their pods."""

from kubesim.tests.world import pod, world

CLAIMS, TEMPLATES = "resourceclaims.resource.k8s.io", "resourceclaimtemplates.resource.k8s.io"
CLASSES, SLICES = "deviceclasses.resource.k8s.io", "resourceslices.resource.k8s.io"
DRIVER = "gpu.example.com"


def request(**more):
    return {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com", **more}}]}}


async def offered(w, *devices, **where):
    """Let a class of devices be there, and a slice with some."""
    expression = f'device.driver == "{DRIVER}"'
    selectors = [{"cel": {"expression": expression}}]
    await w.client.create(CLASSES, {"metadata": {"name": "gpu.example.com"}, "spec": {"selectors": selectors}})
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "pool": pool, "devices": list(devices)}
    await w.client.create(SLICES, {"metadata": {"name": "s"}, "spec": {**spec, **(where or {"allNodes": True})}})


def user(name, **claim):
    return pod(name, resourceClaims=[{"name": "gpu", **claim}])


async def given(w, name):
    """The devices that a claim has, and for whom."""
    status = (await w.client.get(CLAIMS, name, "default"))["status"]
    results = status.get("allocation", {}).get("devices", {}).get("results", ())
    return [found["device"] for found in results], [found["name"] for found in status.get("reservedFor", ())]


async def test_a_claim_made_from_a_template_lives_as_long_as_its_pod():
    async with world(count=1) as w:
        await offered(w, {"name": "gpu-0"})
        await w.create(TEMPLATES, {"metadata": {"name": "one"}, "spec": {"spec": request()}})
        await w.create("pods", user("train", resourceClaimTemplateName="one"))
        await w.tick(1)
        bound = await w.client.get("pods", "train", "default")
        (made,) = bound["status"]["resourceClaimStatuses"]
        assert bound["spec"]["nodeName"] == w.node_names[0]
        assert made["resourceClaimName"].startswith("train-gpu-")
        assert await given(w, made["resourceClaimName"]) == (["gpu-0"], ["train"])
        await w.client.delete("pods", "train", "default")
        await w.tick(40)
        assert await w.items(CLAIMS) == []


async def test_a_device_is_free_again_when_its_pod_is_gone():
    async with world(count=1) as w:
        await offered(w, {"name": "gpu-0"})
        for name in ("first", "second"):
            await w.create(CLAIMS, {"metadata": {"name": name}, "spec": request()})
            await w.create("pods", user(name, resourceClaimName=name))
        await w.tick(1)
        assert await given(w, "first") == (["gpu-0"], ["first"])
        assert await given(w, "second") == ([], [])
        await w.client.delete("pods", "first", "default")
        await w.tick(40)
        assert await given(w, "first") == ([], [])
        assert await given(w, "second") == (["gpu-0"], ["second"])
        assert "finalizers" not in (await w.client.get(CLAIMS, "first", "default"))["metadata"]


async def test_expressions_choose_by_attributes_and_capacity():
    devices = (
        {"name": "small", "attributes": {"model": {"string": "L4"}}, "capacity": {"memory": {"value": "24Gi"}}},
        {"name": "large", "attributes": {"model": {"string": "H100"}}, "capacity": {"memory": {"value": "80Gi"}}},
    )
    chosen = {
        "memory": f"device.capacity['{DRIVER}'].memory.compareTo(quantity('40Gi')) > 0",
        "model": f"device.attributes['{DRIVER}'].model == 'L4'",
        "nothing": "device.attributes['other.example.com'].model == 'L4'",
    }
    async with world(count=1) as w:
        await offered(w, *devices)
        for name, expression in chosen.items():
            spec = request(selectors=[{"cel": {"expression": expression}}])
            await w.create(CLAIMS, {"metadata": {"name": name}, "spec": spec})
            await w.create("pods", user(name, resourceClaimName=name))
        await w.tick(1)
        assert {name: (await given(w, name))[0] for name in chosen} == {
            "memory": ["large"],
            "model": ["small"],
            "nothing": [],
        }


async def test_nobody_looks_at_a_pod_whose_claim_is_not_there():
    async with world(count=1) as w:
        await offered(w, {"name": "gpu-0"})
        await w.create("pods", user("early", resourceClaimName="late"))
        await w.tick(1)
        assert await w.messages("FailedScheduling") == []
        await w.create(CLAIMS, {"metadata": {"name": "late"}, "spec": request()})
        await w.tick(1)
        assert await given(w, "late") == (["gpu-0"], ["early"])


async def test_a_template_that_is_not_there_is_told_of():
    async with world(count=1) as w:
        await w.create("pods", user("early", resourceClaimTemplateName="late"))
        await w.tick(1)
        why = 'resource claim template "late": resourceclaimtemplate.resource.k8s.io "late" not found'
        assert set(await w.messages("FailedResourceClaimCreation")) == {f"PodResourceClaim gpu: {why}"}
