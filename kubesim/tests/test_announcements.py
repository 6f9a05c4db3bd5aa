"""What kubelets say of their own nodes."""

from kubesim.kubelet.announce import Announcer
from kubesim.tests.world import world


async def said(w, name):
    events = [event for event in await w.events() if event["source"].get("component") == "kubelet"]
    assert {event["involvedObject"]["uid"] for event in events} <= {name}
    return [(event["reason"], event["message"]) for event in events]


async def test_a_fresh_kubelet_says_that_it_starts_and_what_its_node_is_like():
    async with world(count=1) as w:
        name = w.node_names[0]
        announcer = Announcer(w.client, w.clock, [name], [name])
        await announcer.start()
        await w.tick(1)
        states = ("NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID", "NodeReady")
        assert await said(w, name) == [
            ("Starting", "Starting kubelet."),
            ("NodeAllocatableEnforced", "Updated Node Allocatable limit across pods"),
            *((state, f"Node {name} status is now: {state}") for state in states),
        ]
        await announcer.stop()


async def test_a_kubelet_that_goes_on_says_what_changes():
    async with world(count=2) as w:
        name = w.node_names[0]
        announcer = Announcer(w.client, w.clock, [name], [])
        await announcer.start()
        for cordoned in (True, None):
            for node in w.node_names:
                await w.client.patch("nodes", node, "", {"spec": {"unschedulable": cordoned}})
            await w.tick(1)
        states = ("NodeNotSchedulable", "NodeSchedulable")
        assert await said(w, name) == [(state, f"Node {name} status is now: {state}") for state in states]
        await announcer.stop()


async def test_what_the_control_plane_finds_is_not_for_a_kubelet_to_say():
    async with world(count=1) as w:
        name = w.node_names[0]
        announcer = Announcer(w.client, w.clock, [name], [])
        await announcer.start()
        await w.kubelets.stop()
        await w.tick(90)
        assert await said(w, name) == []
        await announcer.stop()


async def test_what_is_added_to_a_nodes_capacity_is_for_pods():
    async with world(count=1) as w:
        name = w.node_names[0]
        announcer = Announcer(w.client, w.clock, [name], [])
        await announcer.start()
        patch = {"status": {"capacity": {"example.com/dongle": "4"}}}
        await w.client.patch("nodes", name, "", patch, subresource="status")
        await w.tick(1)
        assert (await w.client.get("nodes", name))["status"]["allocatable"]["example.com/dongle"] == "4"
        await announcer.stop()
