"""The controllers do with workloads what those of a real control plane did with the same ones."""

from __future__ import annotations

import pytest

from kubesim import data
from kubesim.errors import ApiError
from kubesim.tests import workloads
from kubesim.tests.world import world

REAL = data.read(workloads.RECORD)


class SimStage:
    """A scenario on kubesim, on a clock that moves at once."""

    node = "play-node-0"

    def __init__(self, w):
        self._world = w

    async def settle(self):
        """Make the node, which no kubelet serves."""
        ready = {"type": "Ready", "status": "True", "reason": "x", "message": "x", "lastTransitionTime": None}
        room = {"cpu": "64", "memory": "64Gi", "pods": "500"}
        status = {"capacity": room, "allocatable": room, "conditions": [ready]}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": self.node}, "status": status}
        await self._world.client.create("nodes", node)
        await self._world.tick(1)

    @staticmethod
    def _resource(resource):
        group = workloads.GROUPS[resource].split("/")[1]
        return resource if group == "v1" else f"{resource}.{group}"

    async def create(self, resource, obj, subresource=""):
        options = {"namespace": "default", "subresource": subresource}
        try:
            return await self._world.client.create(self._resource(resource), obj, **options)
        except ApiError as error:
            return error.status()

    async def patch(self, resource, name, patch, subresource=""):
        options = {"patch_type": "strategic", "subresource": subresource}
        return await self._world.client.patch(self._resource(resource), name, "default", patch, **options)

    async def items(self, resource):
        return await self._world.items(self._resource(resource))

    async def remove(self, pod):
        await self._world.client.delete("pods", pod, "default", grace_seconds=0)

    async def wait(self, seconds):
        await self._world.tick(seconds)

    def now(self):
        return self._world.clock.now()


@pytest.mark.parametrize("scenario", workloads.scenarios(), ids=lambda scenario: scenario["name"].replace(" ", "-"))
async def test_workloads_fare_as_on_the_real_control_plane(scenario):
    async with world(count=0) as w:
        stage = SimStage(w)
        await stage.settle()
        assert await workloads.play(stage, scenario["steps"]) == REAL[scenario["name"]]
