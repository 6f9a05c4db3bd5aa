"""The life of pods on their nodes, what the kubelet tells of it, and what it remembers over a restart."""

import asyncio
from datetime import UTC, datetime, timedelta

import orjson
import pytest

from kubesim import kubelet
from kubesim.errors import ApiError
from kubesim.kubelet.records import Backoff
from kubesim.tests.world import container, job, pod, world

ARM_ONLY = "arm64v8/python:3.7-slim-stretch"


def status_of(obj, name="main"):
    return next(item for item in obj["status"]["containerStatuses"] if item["name"] == name)


def test_the_back_off_doubles_to_five_minutes():
    now, backoff, delays = datetime(2026, 1, 1, tzinfo=UTC), Backoff(), []
    assert backoff.remaining(now, now) == 0
    for _ in range(8):
        backoff.next(now, now)
        delays.append(backoff.remaining(now, now))
        now += timedelta(seconds=backoff.delay)
    assert delays == [10, 20, 40, 80, 160, 300, 300, 300]
    later = now + timedelta(minutes=11)
    assert backoff.remaining(later, later) == 0
    backoff.next(later, later)
    assert backoff.delay == 10


async def test_a_pod_pulls_starts_and_runs():
    async with world() as w:
        await w.create("pods", pod("web", container("nginx:1.27")))
        obj = await w.pod()
        assert obj["status"]["phase"] == "Pending"
        assert status_of(obj)["state"] == {"waiting": {"reason": "ContainerCreating"}}
        await w.tick(2)
        obj = await w.pod()
        assert obj["status"]["phase"] == "Running"
        assert {c["type"]: c["status"] for c in obj["status"]["conditions"]} == dict.fromkeys(
            ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"), "True"
        )
        assert obj["status"]["podIP"].startswith("10.64.")
        objects = [(e["reason"], e["involvedObject"]) for e in await w.events()]
        events = [(reason, found.get("fieldPath")) for reason, found in objects if found["kind"] == "Pod"]
        path = "spec.containers{main}"
        assert events == [("Scheduled", None)] + [(r, path) for r in ("Pulling", "Pulled", "Created", "Started")]
        (text,) = await w.messages("Pulled")
        assert text == (
            'Successfully pulled image "nginx:1.27" in 1.212s (1.212s including waiting). Image size: 72955450 bytes.'
        )
        await w.check_models()


async def test_a_pull_takes_as_long_as_its_size_wants():
    async with world(count=1, present=()) as w:
        await w.create("pods", pod("a", container("nvcr.io/nvidia/pytorch:24.10-py3")))
        await w.tick(120)
        assert status_of(await w.pod())["state"] == {"waiting": {"reason": "ContainerCreating"}}
        await w.tick(4)
        text = (await w.messages("Pulled"))[0]
        assert text.endswith("in 2m2.36s (2m2.36s including waiting). Image size: 9764812233 bytes.")
        events = [event for event in await w.events() if event["reason"] in ("Pulling", "Pulled")]
        at = {event["reason"]: datetime.fromisoformat(event["firstTimestamp"]) for event in events}
        assert 122 <= (at["Pulled"] - at["Pulling"]).total_seconds() <= 123


async def test_an_image_that_is_there_is_not_pulled_again():
    async with world(count=1) as w:
        await w.create("pods", pod("a", container("busybox:1.36", "sleep", "1000")))
        await w.tick()
        await w.create("pods", pod("b", container("busybox:1.36", "sleep", "1000")))
        await w.tick()
        assert 'Container image "busybox:1.36" already present on machine' in await w.messages("Pulled")
        assert len(await w.messages("Pulling")) == 1


async def test_a_wrong_architecture_crash_loops_soon():
    async with world() as w:
        await w.create(
            "jobs.batch", job("train", container(ARM_ONLY, "python3", "-c", "print('hi')"), backoffLimit=100)
        )
        await w.tick(1.3)
        obj = await w.pod()
        status = status_of(obj)
        uid = obj["metadata"]["uid"]
        full_name = f"{obj['metadata']['name']}_default({uid})"
        assert status["state"]["waiting"] == {
            "reason": "CrashLoopBackOff",
            "message": f"back-off 10s restarting failed container=main pod={full_name}",
        }
        assert status["lastState"]["terminated"]["exitCode"] == 255
        assert status["lastState"]["terminated"]["reason"] == "Error"
        assert status["restartCount"] == 1
        assert obj["status"]["phase"] == "Running"
        ready = next(c for c in obj["status"]["conditions"] if c["type"] == "Ready")
        assert (ready["reason"], ready["message"]) == (
            "ContainersNotReady",
            "containers with unready status: [main]",
        )
        assert await w.messages("BackOff") == [f"Back-off restarting failed container main in pod {full_name}"]
        assert {e["reason"]: e["count"] for e in await w.events("Started")} == {"Started": 2}
        await w.check_models()


async def test_three_hours_of_crashes_still_crash_with_logs():
    async with world(1) as w:
        await w.create(
            "jobs.batch", job("train", container(ARM_ONLY, "python3", "-c", "print('hi')"), backoffLimit=100)
        )
        await w.tick(3 * 3600)
        obj = await w.pod()
        name = obj["metadata"]["name"]
        status = status_of(obj)
        assert status["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        assert status["state"]["waiting"]["message"].startswith("back-off 5m0s restarting failed container=main")
        # 10 + 20 + 40 + 80 + 160 s, then every 300 s: 6 restarts in 310 s, and 34 more.
        assert status["restartCount"] == 40
        line = b"exec /usr/local/bin/python3: exec format error\n"
        assert w.kubelets.logs("default", name, "main") == line
        assert w.kubelets.logs("default", name, "main", previous=True) == line
        assert "Failed" not in {c["type"] for c in (await w.items("jobs.batch"))[0]["status"].get("conditions", [])}
        await w.check_models()


async def test_an_index_without_the_platform_backs_off_pulling():
    async with world() as w:
        image = "arm64v8/python:3.9-slim"
        await w.create("pods", pod("train", container(image, "python3", "-c", "print(1)")))
        await w.tick(0.2)
        error = (
            "rpc error: code = NotFound desc = failed to pull and unpack image "
            '"docker.io/arm64v8/python:3.9-slim": no match for platform in manifest: not found'
        )
        assert status_of(await w.pod())["state"]["waiting"] == {"reason": "ErrImagePull", "message": error}
        await w.tick(1)
        obj = await w.pod()
        assert status_of(obj)["state"]["waiting"] == {
            "reason": "ImagePullBackOff",
            "message": f'Back-off pulling image "{image}": ErrImagePull: {error}',
        }
        assert obj["status"]["phase"] == "Pending"
        assert await w.messages("Failed") == [
            f'Failed to pull image "{image}": {error}',
            "Error: ErrImagePull",
            "Error: ImagePullBackOff",
        ]
        (backed_off,) = await w.events("BackOff")
        assert (backed_off["type"], backed_off["message"]) == ("Normal", f'Back-off pulling image "{image}"')
        with pytest.raises(ApiError, match="is waiting to start: trying and failing to pull image"):
            w.kubelets.logs("default", "train", "main")
        await w.tick(60)
        assert (await w.events("Pulling"))[0]["count"] == 3
        await w.check_models()


async def test_a_missing_program_is_a_start_error():
    async with world() as w:
        await w.create("pods", pod("typo", container("python:3.9-slim", "pythn")))
        await w.tick(2)
        status = status_of(await w.pod())
        assert status["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        assert status["lastState"]["terminated"]["reason"] == "StartError"
        assert status["lastState"]["terminated"]["startedAt"] == "1970-01-01T00:00:00Z"
        assert status["lastState"]["terminated"]["exitCode"] == 128
        assert 'exec: "pythn": executable file not found in $PATH: unknown' in (await w.messages("Failed"))[0]
        await w.check_models()


async def test_init_containers_run_in_order_before_the_rest():
    async with world() as w:
        init = [{"name": f"i{n}", "image": "busybox:1.36", "command": ["sh", "-c", "sleep 3"]} for n in (1, 2)]
        await w.create("pods", pod("app", container("nginx:1.27"), initContainers=init))
        await w.tick(2)
        obj = await w.pod()
        assert [("running" in s["state"]) for s in obj["status"]["initContainerStatuses"]] == [True, False]
        assert status_of(obj)["state"] == {"waiting": {"reason": "PodInitializing"}}
        initialized = next(c for c in obj["status"]["conditions"] if c["type"] == "Initialized")
        assert initialized["message"] == "containers with incomplete status: [i1 i2]"
        await w.tick(8)
        assert (await w.pod())["status"]["phase"] == "Running"
        await w.check_models()


async def test_a_pod_that_never_restarts_ends():
    async with world() as w:
        await w.create("pods", pod("good", container("busybox:1.36", "sh", "-c", "echo done"), restartPolicy="Never"))
        await w.create("pods", pod("bad", container("busybox:1.36", "sh", "-c", "exit 4"), restartPolicy="Never"))
        await w.tick(2)
        assert (await w.pod("good"))["status"]["phase"] == "Succeeded"
        bad = await w.pod("bad")
        assert bad["status"]["phase"] == "Failed"
        assert status_of(bad)["state"]["terminated"]["exitCode"] == 4
        assert w.kubelets.logs("default", "good", "main") == b"done\n"
        await w.check_models()


async def test_deleting_gives_the_process_its_grace():
    async with world() as w:
        await w.create("pods", pod("deaf", container("busybox:1.36", "sleep", "3600")))
        await w.create("pods", pod("polite", container("nginx:1.27")))
        await w.tick(2)
        for name in ("deaf", "polite"):
            await w.client.delete("pods", name, "default")
        await w.tick(2)
        assert [obj["metadata"]["name"] for obj in await w.items("pods")] == ["deaf"]
        await w.tick(29)
        assert await w.items("pods") == []
        assert await w.messages("Killing") == ["Stopping container main"] * 2


async def test_logs_of_a_container_that_has_not_started_are_refused():
    async with world() as w:
        await w.create("pods", pod("web", container("nginx:1.27")))
        with pytest.raises(ApiError) as caught:
            w.kubelets.logs("default", "web", "main")
        assert caught.value.code == 400
        assert str(caught.value) == 'container "main" in pod "web" is waiting to start: ContainerCreating'
        await w.tick(1)
        with pytest.raises(ApiError, match='previous terminated container "main" in pod "web" not found'):
            w.kubelets.logs("default", "web", "main", previous=True)


async def test_logs_can_be_cut():
    async with world() as w:
        script = "while true; do echo tick; sleep 10; done"
        await w.create("pods", pod("clock", container("busybox:1.36", "sh", "-c", script)))
        await w.tick(61)
        read = w.kubelets.logs
        assert read("default", "clock", "main") == b"tick\n" * 7
        assert read("default", "clock", "main", tail_lines=2) == b"tick\n" * 2
        assert read("default", "clock", "main", since_seconds=5) == b"tick\n"
        assert read("default", "clock", "main", limit_bytes=3) == b"tic"
        assert read("default", "clock", "main", tail_lines=1, timestamps=True).startswith(b"2026-01-05T09:01:00.")


async def test_following_a_log_yields_lines_until_the_end():
    async with world() as w:
        script = "echo one; sleep 3; echo two"
        await w.create("pods", pod("job", container("busybox:1.36", "sh", "-c", script), restartPolicy="Never"))
        await w.tick(1)
        stream = w.kubelets.follow("default", "job", "main")
        assert await anext(stream) == b"one\n"
        rest = asyncio.ensure_future(_collect(stream))
        await w.tick(6)
        assert await rest == b"two\n"


async def _collect(stream):
    return b"".join([piece async for piece in stream])


@pytest.mark.parametrize("keep", [True, False], ids=["with its state", "from the API alone"])
async def test_a_restart_takes_up_where_it_was(keep):
    async with world() as w:
        await w.create("pods", pod("crash", container(ARM_ONLY, "python3")))
        await w.create("pods", pod("web", container("nginx:1.27")))
        await w.tick(100)
        before = {obj["metadata"]["name"]: obj["status"] for obj in await w.items("pods")}
        state = orjson.loads(orjson.dumps(w.kubelets.changes())) if keep else {}
        await w.kubelets.stop()
        w.kubelets = await kubelet.start(w.client, w.clock, *w.node_names, state=state)
        await w.tick(1)
        after = {obj["metadata"]["name"]: obj["status"] for obj in await w.items("pods")}
        assert after == before
        assert w.kubelets.logs("default", "crash", "main") == b"exec /usr/local/bin/python3: exec format error\n"
        assert w.kubelets.logs("default", "web", "main").endswith(b"start worker processes\n")
        await w.tick(3600)
        assert "back-off 5m0s" in status_of(await w.pod("crash"))["state"]["waiting"]["message"]
        assert status_of(await w.pod("web"))["restartCount"] == 0


async def test_nodes_are_complete_and_ready():
    async with world() as w:
        (first, *_) = await w.items("nodes", "")
        assert first["metadata"]["labels"]["kubernetes.io/arch"] == "amd64"
        assert first["metadata"]["labels"]["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3"
        assert first["status"]["allocatable"]["nvidia.com/gpu"] == "8"
        assert len(await w.items("leases.coordination.k8s.io", "kube-node-lease")) == 3
        await w.tick(400)
        ready = next(c for c in (await w.items("nodes", ""))[0]["status"]["conditions"] if c["type"] == "Ready")
        assert ready["status"] == "True"
        assert ready["lastHeartbeatTime"] > ready["lastTransitionTime"]
        await w.check_models()


async def test_a_silent_kubelet_makes_its_node_unknown():
    async with world(count=1) as w:
        await w.tick(30)
        await w.kubelets.stop()
        await w.tick(90)
        (node,) = await w.items("nodes", "")
        ready = next(c for c in node["status"]["conditions"] if c["type"] == "Ready")
        assert (ready["status"], ready["message"]) == ("Unknown", "Kubelet stopped posting node status.")
        assert [t["key"] for t in node["spec"]["taints"]] == ["node.kubernetes.io/unreachable"]


async def test_a_container_whose_image_is_changed_starts_again_with_the_new_one():
    async with world() as w:
        await w.create("pods", pod("web", container("nginx:1.27"), restartPolicy="Never"))
        await w.tick(2)
        patch = {"spec": {"containers": [{"name": "main", "image": "nginx:1.28"}]}}
        await w.client.patch("pods", "web", "default", patch, patch_type="strategic")
        await w.tick(5)
        status = status_of(await w.pod())
        assert (status["restartCount"], status["image"]) == (1, "docker.io/library/nginx:1.28")
        assert "running" in status["state"]
        assert await w.messages("Killing") == ["Container main definition changed, will be restarted"]
        await w.client.delete("pods", "web", "default")
        await w.tick(5)
        assert await w.items("pods") == []
