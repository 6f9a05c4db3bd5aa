"""The node agent: faults of a node by HTTP, under a lease, in the layers that are asked for, and their ends."""

from __future__ import annotations

import json

import orjson
import pytest

from kubesim.gpu.board import GPU
from kubesim.metrics import dcgm
from kubesim.network.fabric import Request
from kubesim.tests.containers import run, state
from kubesim.tests.test_gpu_containers import trainer
from kubesim.tests.test_gpu_health import board, counts
from kubesim.tests.test_node_pressure import pressures
from kubesim.tests.world import container, pod, world

IMAGE = "ghcr.io/ai-dynamo/gpu-fault-injector:latest"
HOLDER = "session-1"


async def ask(w, method: str, route: str, body: object = None):
    found = await w.pod("agent")
    server = w.kubelets.fabric.find(found["status"]["podIP"], 8083)
    answer = await server.respond(Request(method, route, {}, orjson.dumps(body) if body is not None else b""))
    return answer.status, orjson.loads(answer.body)


async def start(w, *arguments: str, image: str = IMAGE, seconds: int = 600) -> None:
    await w.create("pods", pod("agent", container(image, *arguments, securityContext={"privileged": True})))
    await w.tick(5)
    if not arguments:
        assert (await ask(w, "POST", "/lease", {"holder": HOLDER, "seconds": seconds}))[0] == 200


async def inject(w, name: str, kind: str = "xid", **parameters: object):
    await w.tick(1)
    body = {"fault_id": name, "lease": HOLDER, "kind": kind, **parameters}
    return await ask(w, "POST", "/inject", body)


async def active(w) -> list[str]:
    return [fault["fault_id"] for fault in (await ask(w, "GET", "/faults"))[1]["faults"]]


async def test_a_fault_happens_ends_in_time_and_is_taken_back():
    async with world(count=1) as w:
        await start(w)
        assert (await ask(w, "GET", "/health"))[1]["gpu_count"] == 8
        body = {"fault_id": "one", "xid_type": 79, "gpu_id": 1, "duration": 30, "lease": HOLDER}
        status, said = await ask(w, "POST", "/inject-xid", body)
        assert (status, said["status"], said["layers"]) == (200, "injected", "combined")
        await w.tick(2)
        assert await counts(w) == ("8", "7")
        assert (await ask(w, "GET", "/faults/one"))[1]["xid_type"] == 79
        await w.tick(30)
        assert await counts(w) == ("8", "8")
        await inject(w, "two", xid_type=48, gpu_id=0)
        assert (await ask(w, "POST", "/recover", {"fault_id": "two"}))[0] == 200
        await w.tick(2)
        assert await counts(w) == ("8", "8")
        assert (await ask(w, "GET", "/faults"))[1] == {"faults": [], "count": 0}
        assert (await ask(w, "GET", "/faults/two"))[0] == 404


@pytest.mark.parametrize(
    ("layers", "logs", "runs", "starts", "allocatable", "counted"),
    [
        ("log", True, True, True, "8", 0),
        ("cuda", False, False, False, "8", 0),
        ("combined", True, False, False, "7", 79),
        ("hang", True, True, True, "7", 79),
    ],
)
async def test_a_fault_shows_in_the_layers_that_were_asked_for_and_in_no_other(
    layers, logs, runs, starts, allocatable, counted
):
    async with world(count=1) as w:
        await start(w)
        await w.create("pods", pod("train", trainer(1)))
        await w.tick(60)
        (device,) = {slot.device for _, slots in board(w).given.values() for slot in slots}
        await inject(w, "one", xid_type=79, gpu_id=device, layers=layers)
        await w.tick(2)
        assert any("): 79, " in record.text for record in board(w).log.after(0)) is logs
        assert (await counts(w))[1] == allocatable
        told = [each.value for each in dcgm.exposed(board(w), w.clock.now()) if each.family.name == dcgm.XID]
        assert told[device] == counted
        found = state(await w.pod("train"))
        assert (found["restartCount"] == 0) is runs
        await w.tick(60)
        assert bool(state(await w.pod("train"))["state"].get("running")) is starts
        await ask(w, "POST", "/recover", {"fault_id": "one"})
        await w.tick(320)
        assert state(await w.pod("train"))["state"].get("running")
        assert (await counts(w))[1] == "8"


async def test_nothing_happens_without_a_live_lease_and_everything_ends_with_it():
    async with world(count=1) as w:
        await start(w, seconds=60)
        body = {"fault_id": "one", "xid_type": 79, "lease": "nobody"}
        status, said = await ask(w, "POST", "/inject-xid", body)
        assert (status, said["detail"].split(";")[0]) == (403, "lease: nobody has no live lease here")
        await inject(w, "one", xid_type=79)
        await ask(w, "POST", "/lease", {"holder": HOLDER, "seconds": 90})
        await w.tick(70)
        assert await active(w) == ["one"]
        await w.client.delete("pods", "agent", "default")  # whoever is dead by then: the machine keeps the deadline
        await w.tick(25)
        assert await counts(w) == ("8", "8")
        await start(w)
        await inject(w, "two", xid_type=79)
        await ask(w, "POST", "/lease", {"holder": HOLDER, "seconds": 0})
        assert await active(w) == []


async def test_a_fault_outlives_its_agent_and_a_restart_of_the_simulator_with_its_deadline():
    async with world(count=1) as w:
        await start(w)
        await inject(w, "one", xid_type=79, gpu_id=2)
        await w.client.delete("pods", "agent", "default")
        await w.tick(40)
        await start(w)
        assert await active(w) == ["one"]
        machines, name = w.kubelets.machines, w.node_names[0]
        saved = json.loads(json.dumps(machines.changes()[f"faults/{name}"]))
        machines.take(machines._nodes[name])  # as a kubesim that was started again
        assert machines.faults(name).active() == []
        machines.faults(name).restore(saved)
        assert [fault["fault_id"] for fault in machines.faults(name).active()] == ["one"]
        await w.tick(620)
        assert await counts(w) == ("8", "8")


async def test_what_somebody_has_repaired_is_no_fault_any_more():
    async with world(count=1) as w:
        await start(w)
        await inject(w, "xid", xid_type=79, gpu_id=2)
        await inject(w, "service", "service", service="nvidia-fabricmanager")
        assert await active(w) == ["xid", "service"]
        w.kubelets.machines.reboot(w.node_names[0])
        await w.tick(200)
        assert w.kubelets.machines.faults(w.node_names[0]).active() == []


async def test_a_request_that_comes_twice_has_one_effect_and_a_gpu_is_healed_with_its_last_fault():
    async with world(count=1) as w:
        await start(w)
        await inject(w, "one", xid_type=48, gpu_id=2)
        lines = len(board(w).log.after(0))
        assert (await inject(w, "one", xid_type=48, gpu_id=2))[0] == 200
        assert len(board(w).log.after(0)) == lines
        assert (await inject(w, "one", xid_type=79, gpu_id=2))[0] == 409
        await inject(w, "two", xid_type=79, gpu_id=2)
        await ask(w, "POST", "/recover", {"fault_id": "two"})
        await w.tick(2)
        assert await counts(w) == ("8", "7")
        await ask(w, "POST", "/recover", {"fault_id": "one"})
        await w.tick(2)
        assert await counts(w) == ("8", "8")


async def test_there_is_one_fault_a_second_at_most():
    async with world(count=1) as w:
        await start(w)
        await inject(w, "one", xid_type=79)
        body = {"fault_id": "two", "xid_type": 79, "gpu_id": 1, "lease": HOLDER}
        assert (await ask(w, "POST", "/inject-xid", body))[0] == 429
        await w.tick(1)
        assert (await ask(w, "POST", "/inject-xid", body))[0] == 200


@pytest.mark.parametrize(
    ("method", "route", "body", "status"),
    [
        ("POST", "/inject-xid", {"xid_type": 0}, 400),
        ("POST", "/inject-xid", {"xid_type": 999}, 400),
        ("POST", "/inject-xid", {"xid_type": 79, "gpu_id": 8}, 400),
        ("POST", "/inject-xid", {"xid_type": True}, 400),
        ("POST", "/inject-xid", {"xid_type": 79, "layers": "all"}, 400),
        ("POST", "/inject-xid", {"xid_type": 79, "fault_id": "../a"}, 400),
        ("POST", "/inject-xid", {"xid_type": 79, "duration": 0}, 400),
        ("POST", "/inject", {"kind": "quake"}, 400),
        ("POST", "/inject", {"kind": "gpu", "effect": "dust"}, 400),
        ("POST", "/inject", {"kind": "service", "service": "sshd; reboot"}, 400),
        ("POST", "/inject", {"kind": "driver", "part": "library", "version": "new"}, 400),
        ("POST", "/inject", {"kind": "pressure", "resource": "disk", "amount": "lots"}, 400),
        ("POST", "/inject-xid", [], 422),
        ("POST", "/lease", {"holder": HOLDER, "seconds": 10**6}, 400),
        ("POST", "/recover", {"fault_id": "none"}, 404),
        ("POST", "/health", {}, 405),
        ("POST", "/else", {}, 404),
    ],
)
async def test_what_cannot_be_done_is_refused(method, route, body, status):
    async with world(count=1) as w:
        await start(w)
        whole = {"fault_id": "one", "lease": HOLDER, **body} if isinstance(body, dict) else body
        assert (await ask(w, method, route, whole))[0] == status
        assert await active(w) == []


async def test_who_does_not_know_its_path_finds_nothing():
    async with world(count=1) as w:
        await start(w, "/usr/local/bin/node-agent", "--base-path=/k3", image="ghcr.io/platform-tools/node-agent:1")
        assert await ask(w, "GET", "/faults") == (404, {"detail": "Not Found"})
        assert await ask(w, "GET", "/k3/faults") == (200, {"faults": [], "count": 0})
        assert await ask(w, "GET", "/k33/faults") == (404, {"detail": "Not Found"})


async def test_pods_cannot_ask_it_and_the_nodes_root_can_reboot():
    async with world(count=1) as w:
        await start(w)
        address = (await w.pod("agent"))["status"]["podIP"]
        look = pod("look", container("ubuntu:22.04", "sleep", "1d", securityContext={"privileged": True}))
        look["spec"]["volumes"] = [{"name": "root", "hostPath": {"path": "/"}}]
        look["spec"]["containers"][0]["volumeMounts"] = [{"name": "root", "mountPath": "/host"}]
        await w.create("pods", look)
        await w.tick(5)
        told = (await run(w, "look", "chroot", "/host", "curl", "-s", f"http://{address}:8083/faults"))[1]
        assert json.loads(told) == {"detail": "Not Found"}
        await inject(w, "one", xid_type=79, gpu_id=3)
        assert (await run(w, "look", "chroot", "/host", "reboot"))[0] == 0
        await w.tick(200)
        assert await counts(w) == ("8", "8")


async def test_a_driver_that_was_updated_without_a_reboot_speaks_to_nobody():
    async with world(count=1) as w:
        await start(w)
        await w.create("pods", pod("train", trainer(1)))
        await w.tick(60)
        await inject(w, "one", "driver", part="library", version="580.105.08")
        status, out, _ = await run(w, "train", "nvidia-smi")
        assert (status, out) == (
            18, "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.105\n",
        )  # fmt: skip
        assert "NVRM: API mismatch: the client has the version 580.105.08, but" in (await run(w, "agent", "dmesg"))[1]
        assert (await w.pod("train"))["status"]["phase"] == "Running"
        await w.create("pods", pod("late", trainer(1)))
        await w.tick(5)
        ended = state(await w.pod("late"))["lastState"]["terminated"]
        assert ended["message"].endswith("initialization error: nvml error: driver/library version mismatch: unknown")
        await ask(w, "POST", "/recover", {"fault_id": "one"})
        assert (await run(w, "train", "nvidia-smi"))[0] == 0


async def test_without_the_toolkit_no_container_gets_a_gpu():
    async with world(count=1) as w:
        await start(w)
        await inject(w, "one", "driver", part="toolkit")
        await w.create("pods", pod("late", trainer(1)))
        await w.tick(5)
        ended = state(await w.pod("late"))["lastState"]["terminated"]
        assert "fork/exec /usr/bin/nvidia-container-runtime: no such file or directory: unknown" in ended["message"]
        await ask(w, "POST", "/recover", {"fault_id": "one"})
        await w.tick(60)
        assert state(await w.pod("late"))["state"].get("running")


async def test_a_kernel_without_the_drivers_module_gives_nothing_until_it_is_there_again():
    async with world(count=1) as w:
        await start(w)
        await inject(w, "one", "driver", part="module")
        await ask(w, "POST", "/reboot")
        await w.tick(200)
        assert board(w).healthy() == {GPU: 0}
        await ask(w, "POST", "/recover", {"fault_id": "one"})
        await w.tick(2)
        assert await counts(w) == ("8", "8")


async def test_a_service_stops_and_starts_again():
    async with world(count=1) as w:
        await start(w)
        await inject(w, "one", "service", service="containerd")
        await w.tick(300)
        node = await w.client.get("nodes", w.node_names[0])
        assert next(item["status"] for item in node["status"]["conditions"] if item["type"] == "Ready") == "False"
        await ask(w, "POST", "/recover", {"fault_id": "one"})
        await w.tick(30)
        node = await w.client.get("nodes", w.node_names[0])
        assert next(item["status"] for item in node["status"]["conditions"] if item["type"] == "Ready") == "True"


FIELDS = "clocks.sm,temperature.gpu,memory.free,utilization.gpu,clocks_event_reasons.active"


async def sensors(w) -> list[str]:
    """Return what nvidia-smi tells a pod that has the node's first GPU."""
    command = ("nvidia-smi", f"--query-gpu={FIELDS}", "--format=csv,noheader,nounits")
    status, out, errors = await run(w, "idle", *command)
    assert status == 0, errors
    return out.strip().split(", ")


@pytest.mark.parametrize(
    ("effect", "hit"),
    [
        ("throttle", lambda now: now[4] == "0x0000000000000089"),
        ("overheat", lambda now: int(now[1]) > 80 and now[4] == "0x0000000000000049"),
        ("memory_pressure", lambda now: int(now[2]) < 4000 and now[3] == "0"),
        ("compute_overload", lambda now: int(now[3]) > 95 and int(now[1]) > 50),
    ],
)
async def test_a_gpu_without_an_xid_is_slow_or_taken_until_it_is_given_back(effect, hit):
    async with world(count=1) as w:
        await start(w)
        await w.create("pods", pod("idle", trainer(1, command=("sleep", "1d"))))
        await w.tick(60)
        before = await sensors(w)
        assert not hit(before)
        status, said = await inject(w, "one", "gpu", effect=effect)
        assert (status, said.get("effect")) == (200, effect), said
        await w.tick(200)
        assert hit(await sensors(w))
        assert await active(w) == ["one"]
        machines, name = w.kubelets.machines, w.node_names[0]
        machines.faults(name).restore(json.loads(json.dumps(machines.changes()[f"faults/{name}"])))
        assert await active(w) == ["one"]
        await ask(w, "POST", "/recover", {"fault_id": "one"})
        await w.tick(300)
        assert await active(w) == []
        now = await sensors(w)
        assert not hit(now)
        assert now[2:] == before[2:]


async def test_a_gpu_that_has_been_reset_by_hand_is_slow_no_more():
    async with world(count=1) as w:
        await start(w)
        await inject(w, "one", "gpu", effect="overheat")
        board(w).reset(0, w.clock.now())
        assert await active(w) == []


async def test_a_node_runs_short_and_recovers():
    async with world(count=1, present=()) as w:
        await start(w)
        await inject(w, "one", "pressure", resource="disk", amount="75Gi")
        await w.tick(15)
        assert (await pressures(w))["DiskPressure"][0] == "True"
        await ask(w, "POST", "/recover", {"fault_id": "one"})
        await w.tick(330)
        assert (await pressures(w))["DiskPressure"][0] == "False"
