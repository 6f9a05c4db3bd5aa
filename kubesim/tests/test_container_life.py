"""How containers start, are looked after, and end: scripts, hooks, probes, signals, restarts, attaching."""

import asyncio

import orjson
import pytest

from kubesim import kubelet
from kubesim.errors import ApiError
from kubesim.kubelet.mains import Main
from kubesim.kubelet.status import Reporter
from kubesim.shell.machine import Stdio
from kubesim.streaming.seam import Refused
from kubesim.tests.containers import Sink, agnhost, log, state
from kubesim.tests.test_gpu_containers import trainer
from kubesim.tests.world import container, pod, world


async def test_a_termination_message_is_what_the_process_left_in_its_file():
    async with world() as w:
        main = agnhost(
            "pause",
            terminationMessagePath="/tmp/message",
            env=[{"name": "TERMINATION_MESSAGE_PATH", "value": "/tmp/message"}],
        )
        await w.create("pods", pod("p", main, restartPolicy="Never"))
        await w.tick(2)
        worker = w.kubelets.containers._worker("default/p")
        worker.sandbox.signal(worker.record.main[0], "TERM")
        await w.tick(1)
        ended = state(await w.pod())["state"]["terminated"]
        assert (ended["exitCode"], ended["message"]) == (2, 'exiting because of signal "terminated"\n')


async def test_deleting_a_pod_signals_its_process_and_kills_what_does_not_listen():
    async with world() as w:
        await w.create("pods", pod("polite", agnhost("pause")))
        await w.create("pods", pod("deaf", container("busybox:1.36", "cat", stdin=True)))
        await w.tick(2)
        for name in ("polite", "deaf"):
            await w.client.delete("pods", name, "default")
        await w.tick(2)
        assert [obj["metadata"]["name"] for obj in await w.items("pods")] == ["deaf"]
        await w.tick(30)
        assert await w.items("pods") == []


async def test_a_hook_before_the_stop_runs_first():
    async with world() as w:
        await w.create("pods", pod("server", agnhost("netexec")))
        await w.tick(2)
        ip = (await w.pod())["status"]["podIP"]
        hook = {"preStop": {"httpGet": {"host": ip, "port": 8080, "path": "/echo?msg=bye"}}}
        await w.create("pods", pod("guest", container("nginx:1.27", lifecycle=hook)))
        await w.tick(2)
        await w.client.delete("pods", "guest", "default")
        await w.tick(2)
        assert "GET /echo?msg=bye" in log(w, "server")
        assert len(await w.items("pods")) == 1


async def test_a_slow_hook_takes_from_the_grace():
    async with world() as w:
        hook = {"preStop": {"sleep": {"seconds": 10}}}
        await w.create("pods", pod("web", container("nginx:1.27", lifecycle=hook), terminationGracePeriodSeconds=20))
        await w.tick(2)
        await w.client.delete("pods", "web", "default")
        await w.tick(9)
        assert len(await w.items("pods")) == 1
        await w.tick(3)
        assert await w.items("pods") == []


async def test_a_container_runs_only_after_its_hook_and_not_where_that_fails():
    async with world() as w:
        slow = {"postStart": {"sleep": {"seconds": 5}}}
        await w.create("pods", pod("slow", container("nginx:1.27", lifecycle=slow)))
        failing = {"postStart": {"exec": {"command": ["false"]}}}
        await w.create("pods", pod("failing", container("nginx:1.27", lifecycle=failing)))
        await w.tick(3)
        assert state(await w.pod("slow"))["state"] == {"waiting": {"reason": "ContainerCreating"}}
        assert await w.messages("FailedPostStartHook") == ["PostStartHook failed"]
        assert "FailedPostStartHook" in await w.messages("Killing")
        await w.tick(3)
        assert (await w.pod("slow"))["status"]["phase"] == "Running"


async def test_readiness_follows_its_probe():
    async with world() as w:
        probe = {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 1}
        await w.create("pods", pod("late", agnhost("netexec", readinessProbe={**probe, "initialDelaySeconds": 10})))
        await w.create("pods", pod("never", agnhost("netexec", readinessProbe={**probe, "httpGet": {"port": 81}})))
        await w.tick(5)
        assert [state(obj)["ready"] for obj in await w.items("pods")] == [False, False]
        await w.tick(10)
        assert state(await w.pod("late"))["ready"]
        assert not state(await w.pod("never"))["ready"]
        ip = (await w.pod("never"))["status"]["podIP"]
        text = f'Readiness probe failed: Get "http://{ip}:81/": dial tcp {ip}:81: connect: connection refused'
        assert text in await w.messages("Unhealthy")


async def test_a_container_that_is_no_longer_alive_is_restarted():
    async with world() as w:
        probe = {"httpGet": {"path": "/healthz", "port": 8080}, "initialDelaySeconds": 5, "failureThreshold": 1}
        await w.create("pods", pod("ill", agnhost("liveness", livenessProbe=probe)))
        await w.tick(40)
        status = state(await w.pod())
        assert status["restartCount"] >= 1
        assert status["lastState"]["terminated"]["exitCode"] == 2
        assert "Liveness probe failed: HTTP probe failed with statuscode: 500" in await w.messages("Unhealthy")
        assert "Container main failed liveness probe, will be restarted" in await w.messages("Killing")
        await w.check_models()


async def test_other_probes_wait_for_the_one_at_startup():
    async with world() as w:
        startup = {"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 100}
        await w.create(
            "pods",
            pod("web", container("nginx:1.27", startupProbe=startup, livenessProbe={"tcpSocket": {"port": 1}})),
        )
        await w.tick(60)
        status = state(await w.pod())
        assert (status["started"], status["ready"], status["restartCount"]) == (False, False, 0)


async def test_grpc_and_tcp_probes_reach_servers():
    async with world() as w:
        grpc = {"grpc": {"port": 5000}, "initialDelaySeconds": 2}
        await w.create("pods", pod("grpc", agnhost("grpc-health-checking", livenessProbe=grpc)))
        tcp = {"tcpSocket": {"port": "http"}, "periodSeconds": 1}
        ports = [{"name": "http", "containerPort": 8080}]
        await w.create("pods", pod("tcp", agnhost("netexec", ports=ports, readinessProbe=tcp)))
        await w.tick(60)
        assert [(state(obj)["ready"], state(obj)["restartCount"]) for obj in await w.items("pods")] == [(True, 0)] * 2


async def test_processes_run_again_after_a_restart_and_log_nothing_twice():
    async with world() as w:
        loop = [
            "mounttest",
            "--file_content_in_loop=/etc/hostname",
            "--break_on_expected_content=false",
            "--retry_time=1000",
        ]
        await w.create("pods", pod("loop", agnhost(*loop)))
        await w.create("pods", pod("done", agnhost("entrypoint-tester", "a"), restartPolicy="Never"))
        await w.tick(30)
        before = {name: log(w, name, timestamps=True) for name in ("loop", "done")}
        assert len(before["loop"].splitlines()) > 20
        kept = orjson.loads(orjson.dumps(w.kubelets.changes()))
        await w.kubelets.stop()
        await w.tick(10)
        w.kubelets = await kubelet.start(w.client, w.clock, *w.node_names, state=kept)
        for _ in range(20):
            await w.tick(0.05)
        again = log(w, "loop", timestamps=True)
        assert again.startswith(before["loop"])
        assert len(again.splitlines()) >= len(before["loop"].splitlines()) + 8
        assert log(w, "done", timestamps=True) == before["done"]
        assert state(await w.pod("loop"))["restartCount"] == 0


async def test_attaching_joins_a_process_and_its_input():
    async with world() as w:
        await w.create(
            "pods", pod("cat", container("busybox:1.36", "cat", stdin=True, stdinOnce=True), restartPolicy="Never")
        )
        await w.tick(2)

        class Typed:
            lines = [b"one\n", b"two\n"]

            async def read(self, count=-1):
                return self.lines.pop(0) if self.lines else b""

        out = Sink()
        run = w.kubelets.containers.attach(await w.pod(), "main")
        assert await run(Stdio(Typed(), out, out)) == 0
        await w.tick(1)
        assert out.data == b"one\ntwo\n"
        assert log(w, "cat") == "one\ntwo\n"
        assert (await w.pod())["status"]["phase"] == "Succeeded"


async def test_a_process_that_is_over_cannot_be_joined_even_while_its_pod_still_says_that_it_runs():
    async with world() as w:
        await w.create("pods", pod("hi", container("busybox:1.36", "echo", "hi", stdin=True), restartPolicy="Never"))
        for _ in range(50):
            await w.tick(0.1)
            worker = w.kubelets.containers._worker("default/hi")
            if worker is not None and worker.record.main and worker.sandbox.over(worker.record.main[0]):
                break
        with pytest.raises(Refused, match="container main not found in pod hi_default"):
            w.kubelets.containers.attach(await w.pod(), "main")


async def test_attaching_to_a_computed_process_shows_what_it_prints():
    async with world() as w:
        await w.create("pods", pod("train", trainer(1, "nvcr.io/nvidia/pytorch:24.05-py3")))
        await w.tick(9)
        out = Sink()
        run = asyncio.ensure_future(w.kubelets.containers.attach(await w.pod(), "main")(Stdio(None, out, out)))
        await w.tick(6)
        await w.client.delete("pods", "train", "default", grace_seconds=0)
        await w.tick(2)
        await run
        assert b"step 100 " in out.data
        assert b"Starting training" not in out.data


@pytest.mark.parametrize(
    ("script", "printed", "code"),
    [
        ("echo hi; sleep 5; exit 3", "hi\n", 3),
        ("for i in 1 2; do echo $i; done", "1\n2\n", 0),
        ("nosuch", "sh: nosuch: not found\n", 127),
        ("echo a > /no/file", "sh: can't create /no/file: nonexistent directory\n", 1),
        ("cat < /no", "sh: can't open /no: no such file\n", 1),
        ("kill -9 1; echo alive", "alive\n", 0),  # the first process of a container is deaf to its own signals
    ],
)
async def test_scripts_log_last_and_end_as_they_say(script, printed, code):
    async with world() as w:
        await w.create("pods", pod("script", container("busybox:1.36", "sh", "-c", script), restartPolicy="Never"))
        await w.tick(10)
        assert state(await w.pod())["state"]["terminated"]["exitCode"] == code
        assert log(w, "script") == printed


async def test_an_endless_loop_logs_on():
    async with world(1) as w:
        script = "while true; do echo tick; sleep 10; done"
        await w.create("pods", pod("loop", container("busybox:1.36", "sh", "-c", script)))
        await w.tick(600)
        assert len(log(w, "loop").splitlines()) == 60


async def test_a_pod_that_does_nothing_costs_nothing():
    async with world() as w:
        for number in range(5):
            await w.create("pods", pod(f"idle-{number}", container("busybox:1.36", "sleep", "100000")))
        await w.tick(5)
        tasks = {task.get_name() for task in asyncio.all_tasks()}
        timers = len([entry for entry in w.clock._heap if entry[2].call is not None])
        assert timers < 20
        assert not any(isinstance(task, Main) for task in tasks)
        assert all(not worker.sandbox.boxes["main"].machine for worker in w.kubelets._workers.values())


async def test_an_ephemeral_container_joins_a_running_pod_and_never_restarts():
    async with world() as w:
        await w.create("pods", pod("web", container("nginx:1.27")))
        await w.tick(2)
        obj = await w.pod()
        added = {"name": "look", "image": "busybox:1.36", "command": ["sh", "-c", "echo seen; exit 3"]}
        obj = {**obj, "spec": {**obj["spec"], "ephemeralContainers": [added]}}
        await w.client.update("pods", obj, subresource="ephemeralcontainers")
        await w.tick(5)
        obj = await w.pod()
        (status,) = obj["status"]["ephemeralContainerStatuses"]
        assert (status["state"]["terminated"]["exitCode"], status["restartCount"], status["ready"]) == (3, 0, False)
        assert obj["status"]["phase"] == "Running"
        assert w.kubelets.logs("default", "web", "look") == b"seen\n"
        assert "spec.ephemeralContainers{look}" in [e["involvedObject"].get("fieldPath") for e in await w.events()]
        await w.check_models()


async def test_an_ephemeral_container_is_neither_changed_nor_removed():
    async with world() as w:
        await w.create("pods", pod("web", container("nginx:1.27")))
        added = [{"name": "look", "image": "busybox:1.36"}]

        async def put(entries):
            change = {"spec": {"ephemeralContainers": entries}}
            await w.client.patch("pods", "web", "default", change, subresource="ephemeralcontainers")

        await put(added)
        changed = 'changed\n@@ -1,6 \\+1,6 @@\n {\n  "Name": "look",\n- "Image": "busybox:1.36",\n'
        for change, what in (([], "removed"), ([{"name": "look", "image": "busybox:1.37"}], changed)):
            with pytest.raises(ApiError, match=f'existing ephemeral containers "look" may not be {what}'):
                await put(change)
        with pytest.raises(ApiError, match=r"ephemeralContainers\[1\].targetContainerName: Not found: \"other\""):
            await put([*added, {"name": "next", "image": "busybox:1.36", "targetContainerName": "other"}])


async def test_a_pod_that_is_active_for_too_long_is_ended():
    async with world() as w:
        await w.create("pods", pod("web", container("nginx:1.27"), activeDeadlineSeconds=30))
        await w.tick(29)
        assert (await w.pod())["status"]["phase"] == "Running"
        await w.tick(5)
        status = (await w.pod())["status"]
        assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")
        assert status["message"] == "Pod was active on the node longer than the specified deadline"
        assert "terminated" in status["containerStatuses"][0]["state"]
        await w.check_models()


async def test_the_end_of_a_log_is_the_message_of_a_failure_that_left_none():
    async with world() as w:
        policy = {"terminationMessagePolicy": "FallbackToLogsOnError"}
        main = container("busybox:1.36", "sh", "-c", "printf DONE; exit 1", **policy)
        await w.create("pods", pod("p", main, restartPolicy="Never"))
        await w.tick(3)
        assert state(await w.pod())["state"]["terminated"]["message"] == "DONE"
        assert log(w, "p") == "DONE"


async def test_a_condition_that_somebody_else_sets_outlives_the_kubelets_next_status():
    async with world() as w:
        await w.create("pods", pod("web", container("nginx:1.27")))
        await w.tick(2)
        worker = w.kubelets.containers._worker("default/web")
        known = worker.record.pod
        target = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
        patch = {"status": {"conditions": [target]}}
        await w.client.patch("pods", "web", "default", patch, patch_type="strategic", subresource="status")
        worker.record.pod = {**known, "status": {}}
        await Reporter(w.client, worker.record).report(w.clock.now())
        assert "DisruptionTarget" in {found["type"] for found in (await w.pod())["status"]["conditions"]}
