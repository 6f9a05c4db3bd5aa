"""What a kubelet refuses of what is bound to its node without the scheduler."""

from __future__ import annotations

from kubesim.tests.world import container, pod, stateful_set, world


def bound(w, name, *ports, **requests):
    declared = [{"containerPort": port, "hostPort": port} for port in ports]
    main = container("busybox:1.36", "sleep", "3600", ports=declared, resources={"requests": requests})
    return pod(name, main, nodeName=w.node_names[0])


async def test_a_port_of_the_node_is_taken_once():
    async with world(1) as w:
        await w.create("pods", bound(w, "a", 8080))
        await w.tick(3)
        await w.create("pods", bound(w, "b", 8080))
        await w.tick(3)
        status = (await w.pod("b"))["status"]
        text = "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
        assert (status["phase"], status["reason"], status["message"]) == (
            "Failed",
            "NodePorts",
            f"Pod was rejected: {text}",
        )
        assert await w.messages("NodePorts") == [text]
        await w.client.delete("pods", "b", "default")
        await w.client.delete("pods", "a", "default", grace_seconds=0)
        await w.tick(2)
        await w.create("pods", bound(w, "b", 8080))
        await w.tick(3)
        assert (await w.pod("b"))["status"]["phase"] == "Running"
        await w.check_models()


async def test_a_node_has_only_so_much():
    async with world(1) as w:
        await w.create("pods", bound(w, "a", cpu="1000"))
        await w.tick(3)
        status = (await w.pod("a"))["status"]
        assert status["reason"] == "OutOfcpu"
        start = "Pod was rejected: Node didn't have enough resource: cpu, requested: 1000000, used: 0, capacity: "
        assert status["message"].startswith(start)


async def test_a_pod_that_selects_another_node_is_refused_here():
    async with world(2) as w:
        made = bound(w, "a")
        made["spec"]["nodeSelector"] = {"kubernetes.io/hostname": w.node_names[1]}
        await w.create("pods", made)
        await w.tick(3)
        assert (await w.pod("a"))["status"]["reason"] == "NodeAffinity"


async def test_a_stateful_pod_that_is_refused_is_made_again_until_there_is_room():
    async with world(1) as w:
        await w.create("pods", bound(w, "a", 8080))
        await w.tick(3)
        made = stateful_set("web", replicas=1)
        spec = made["spec"]["template"]["spec"]
        spec["nodeName"] = w.node_names[0]
        spec["containers"][0]["ports"] = [{"containerPort": 8080, "hostPort": 8080}]
        await w.create("statefulsets.apps", made)
        await w.tick(3)
        assert "delete Pod web-0 in StatefulSet web successful" in await w.messages("SuccessfulDelete")
        await w.client.delete("pods", "a", "default", grace_seconds=0)
        await w.tick(60)
        assert (await w.pod("web-0"))["status"]["phase"] == "Running"
