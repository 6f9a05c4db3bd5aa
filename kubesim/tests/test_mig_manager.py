"""The GPU operator's MIG manager: a label cuts a node's GPUs, changes what it offers, and says how that went."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from kubesim.tests.installed import install
from kubesim.tests.test_gpu_containers import trainer
from kubesim.tests.world import World, pod, world

CONFIG, STATE = "nvidia.com/mig.config", "nvidia.com/mig.config.state"
MIG = "nvidia.com/mig-1g.10gb"


@pytest.fixture
async def w() -> AsyncIterator[World]:
    """A cluster of one node of eight H100 with the operator, whose manager has done its first task."""
    async with world(count=1) as made:
        await install(made, "gpu-operator")
        await made.tick(30)
        yield made


def logs(w: World, found: dict, **more: bool) -> str:
    container = found["spec"]["containers"][0]["name"]
    return w.kubelets.logs("gpu-operator", found["metadata"]["name"], container, **more).decode()


async def node(w: World):
    return await w.client.get("nodes", w.node_names[0])


async def labels(w: World) -> dict[str, str]:
    return (await node(w))["metadata"]["labels"]


async def ask(w: World, config: str, seconds: float = 60.0) -> str:
    """Label the node; returns the state that it ends in."""
    await w.client.patch("nodes", w.node_names[0], "", {"metadata": {"labels": {CONFIG: config}}})
    await w.tick(seconds)
    return (await labels(w))[STATE]


async def manager(w: World) -> str:
    """Return what the manager has logged."""
    found = next(
        p
        for p in await w.items("pods", "gpu-operator")
        if p["metadata"]["labels"].get("app", "").endswith("mig-manager")
    )
    return logs(w, found)


async def strategy(w: World, name: str) -> None:
    """Let device plugin and feature discovery tell of instances in another way."""
    for daemonset, container in (
        ("nvidia-device-plugin-daemonset", "nvidia-device-plugin"),
        ("gpu-feature-discovery", "gpu-feature-discovery"),
    ):
        env = [{"name": "MIG_STRATEGY", "value": name}]
        patch = {"spec": {"template": {"spec": {"containers": [{"name": container, "env": env}]}}}}
        await w.client.patch("daemonsets.apps", daemonset, "gpu-operator", patch, patch_type="strategic")
    await w.tick(30)


async def offered(w: World) -> dict[str, str]:
    found = (await node(w))["status"]["allocatable"]
    return {name: count for name, count in found.items() if name.startswith("nvidia.com/")}


async def test_the_operator_brings_a_manager_to_a_node_that_can_be_cut(w):
    found = await labels(w)
    assert (found["nvidia.com/gpu.deploy.mig-manager"], found[CONFIG], found[STATE]) == (
        "true",
        "all-disabled",
        "success",
    )
    assert "Selected MIG config is already applied" in await manager(w)
    assert await offered(w) == {"nvidia.com/gpu": "8"}
    await w.check_models()


async def test_a_uniform_cut_makes_gpus_of_instances(w):
    assert await ask(w, "all-1g.10gb") == "success"
    assert await offered(w) == {"nvidia.com/gpu": "56"}
    found = await labels(w)
    assert found["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"
    assert (found["nvidia.com/gpu.count"], found["nvidia.com/gpu.memory"]) == ("56", "9984")
    assert found["nvidia.com/gpu.multiprocessors"] == "16"
    said = await manager(w)
    assert 'level=info msg="Updating to MIG config: all-1g.10gb"' in said
    assert 'level=info msg="Successfully updated to MIG config: all-1g.10gb"' in said
    await w.create("pods", pod("small", trainer(1)))
    await w.tick(30)
    assert (await w.pod("small"))["status"]["phase"] == "Running"
    await w.client.delete("pods", "small", "default")
    await w.tick(60)
    assert await ask(w, "all-disabled") == "success"
    assert await offered(w) == {"nvidia.com/gpu": "8"}
    found = await labels(w)
    assert found["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3"
    assert "nvidia.com/gpu.multiprocessors" not in found


async def test_each_size_is_a_resource_where_the_strategy_is_mixed(w):
    await strategy(w, "mixed")
    assert await ask(w, "all-balanced") == "success"
    assert (await offered(w)).items() >= {"nvidia.com/gpu": "0", MIG: "16", "nvidia.com/mig-3g.40gb": "8"}.items()
    found = await labels(w)
    assert found["nvidia.com/mig.strategy"] == "mixed"
    assert found[f"{MIG}.count"] == "16"
    assert found["nvidia.com/mig-3g.40gb.product"] == "NVIDIA-H100-80GB-HBM3-MIG-3g.40gb"
    assert await ask(w, "all-disabled") == "success"
    assert await offered(w) == {
        "nvidia.com/gpu": "8", MIG: "0", "nvidia.com/mig-2g.20gb": "0", "nvidia.com/mig-3g.40gb": "0",
    }  # fmt: skip
    assert f"{MIG}.count" not in await labels(w)


async def test_several_sizes_end_the_plugin_where_the_strategy_is_single(w):
    assert await ask(w, "all-balanced") == "success"
    assert await offered(w) == {"nvidia.com/gpu": "0"}
    assert (await labels(w))["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3-MIG-INVALID"
    plugin = next(p for p in await w.items("pods", "gpu-operator") if "plugin" in p["metadata"]["name"])
    assert plugin["status"]["containerStatuses"][0]["restartCount"] > 0
    assert "more than one MIG device type present on node" in logs(w, plugin, previous=True)


async def test_while_it_works_its_clients_are_paused(w):
    await w.client.patch("nodes", w.node_names[0], "", {"metadata": {"labels": {CONFIG: "all-2g.20gb"}}})
    await w.tick(1)
    found = await labels(w)
    assert found[STATE] == "pending"
    assert found["nvidia.com/gpu.deploy.device-plugin"] == "paused-for-mig-change"
    await w.tick(60)
    assert (await labels(w))["nvidia.com/gpu.deploy.device-plugin"] == "true"
    assert await offered(w) == {"nvidia.com/gpu": "24"}


async def test_a_configuration_that_there_is_not_fails(w):
    assert await ask(w, "all-1g.11gb") == "failed"
    said = await manager(w)
    assert 'level=fatal msg="Error selecting MIG config: selected mig-config not present: all-1g.11gb"' in said
    assert 'level=error msg="Error: failed to validate MIG configuration: exit status 1"' in said
    assert await offered(w) == {"nvidia.com/gpu": "8"}
    assert await ask(w, "all-1g.10gb") == "success"


async def test_a_profile_of_another_product_fails_and_leaves_the_devices_uncut(w):
    assert await ask(w, "all-1g.18gb") == "failed"
    said = await manager(w)
    assert 'MIG profile \\"1g.18gb\\" not found on this GPU' in said
    assert "all orderings failed" in said
    assert "failed to apply MIG configuration: exit status 1" in said


async def test_a_gpu_in_use_keeps_its_node_as_it_is(w):
    await w.create("pods", pod("train", trainer(1)))
    await w.tick(60)
    assert await ask(w, "all-1g.10gb") == "failed"
    assert "error setting MIG mode: error setting Mig mode: In use by another client" in await manager(w)
    assert (await w.pod("train"))["status"]["phase"] == "Running"
    await w.client.delete("pods", "train", "default")
    await w.tick(60)
    assert await ask(w, "all-disabled") == "success"
    assert await ask(w, "all-1g.10gb") == "success"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("version: v1\nmig-configs: [", "error parsing config file: unmarshal error"),
        ("version: v1\nmig-configs: {all-1g.10gb: 7}", "error parsing config file: unmarshal error"),
        (None, "read error: open /mig-parted-config/config.yaml: no such file or directory"),
    ],
)
async def test_a_file_that_cannot_be_read_fails(w, text, said):
    changed = {"data": {"config.yaml": text, "other": ""}}
    await w.client.patch("configmaps", "default-mig-parted-config", "gpu-operator", changed)
    assert await ask(w, "all-1g.10gb") == "failed"
    assert said.lower() in (await manager(w)).lower()


async def test_without_the_right_to_change_nodes_it_says_so(w):
    await w.client.delete("clusterrolebindings.rbac.authorization.k8s.io", "nvidia-mig-manager")
    await w.tick(5)
    assert await ask(w, "all-1g.10gb", 30) == "success"
    said = await manager(w)
    assert "forbidden" in said or said.rstrip().endswith("Waiting for change to 'nvidia.com/mig.config' label\"")
    assert await offered(w) == {"nvidia.com/gpu": "8"}


async def test_a_gpu_that_has_fallen_off_the_bus_is_not_cut(w):
    w.kubelets.gpus(w.node_names[0]).board.xid(3, 79, w.clock.now())
    assert await ask(w, "all-1g.10gb") == "failed"
    assert "error setting Mig mode: GPU is lost" in await manager(w)
    assert w.kubelets.gpus(w.node_names[0]).board.devices[3].trouble.lost
