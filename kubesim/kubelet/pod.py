"""The life of a pod on a node: a table of stages, each with the delay after which it is left and what happens then.

``PodWorker.sync`` runs every stage that has come due, writes the status once, and says when to be called again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from kubesim.errors import Obj, tolerating
from kubesim.kubelet import behaviours, keeping, memory, probes, timings
from kubesim.kubelet.agenda import Agenda
from kubesim.kubelet.environment import ConfigError
from kubesim.kubelet.failures import cut
from kubesim.kubelet.host import Host
from kubesim.kubelet.probes import Probes, Stops
from kubesim.kubelet.programs import OOM_REASON, Program, noted
from kubesim.kubelet.pulls import Pulls
from kubesim.kubelet.records import Backoff, Container, Instance, container_id
from kubesim.kubelet.sandbox import Sandbox
from kubesim.kubelet.status import PodRecord, Reporter, disruption, group
from kubesim.kubelet.storage import Eviction, Mounts, Storage
from kubesim.times import parse

CRASH_CODE = 255
"""What the runtime says of a process whose end it has not seen."""
Due = Callable[["PodWorker", Container], datetime | None]
Then = Callable[["PodWorker", Container], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Stage:
    """When a container leaves a state (None: not by itself) and what it does then."""

    due: Due
    then: Then


class PodWorker:
    """Runs one pod of one node."""

    _eviction: Eviction | None = None

    def __init__(self, host: Host, record: PodRecord) -> None:
        self.record = record
        self.node = host.node
        self.sandbox = Sandbox(self, host)
        self.pulls = Pulls(
            record,
            host.clock,
            host.node.images,
            host.node.downloads,
            self._normal,
            self._warning,
            host.wake,
            lambda address, port: host.fabric.firewall.passes(host.node.tags, address, port),
            host.node.foreign and record.is_agent,
        )
        self.gone = False
        self._client = host.client
        self._clock = host.clock
        self._recorder = host.node.recorder
        self._architecture = host.node.architecture
        self._stops = Stops(self.sandbox, self._warning)
        self._mounts = Mounts(self.sandbox, host.node.recorder)
        self._probes: dict[str, Probes] = {}
        self._hooks: dict[str, asyncio.Task[None]] = {}
        self._resumed = False
        self._started_ending = False
        self._agenda = Agenda(record, self.due, lambda container: STAGES[container.state].then(self, container))
        self._reporter = Reporter(host.client, record)
        self._storage = Storage(record, self.sandbox)
        status = record.pod.get("status", {})
        if status.get("reason") in ("DeadlineExceeded", "Evicted"):
            record.failure = (status["reason"], status.get("message", ""))
        for container in record.containers:
            if container.state not in ("waiting", "pulling", "pullFailed", "pullWaiting", "refused"):
                self.pulls.remember(record.spec(container)["image"])

    @property
    def rest_s(self) -> float:
        """The seconds before which a large pod is not looked at again."""
        return (self._agenda.not_before - self.now).total_seconds()

    async def sync(self, pod: Obj) -> float | None:
        """Bring the pod up to now; returns the seconds until the next stage is due, None for never."""
        self.record.pod = pod
        self.record.take_in(self.now)
        ending = pod["metadata"].get("deletionTimestamp") is not None
        await self.resume()
        if not ending:
            await self._mounts.sync()
            await self._stop_changed()
        if ending and not self._started_ending:
            await self._begin_ending()
        elif ending:
            self._hasten_ending()
        if not ending:
            await self._end_if_due()
        due = await self._agenda.run(self.now)
        if ending and not any(container.running for container in self.record.containers):
            await self._finish_ending()
            return None
        if all(container.done for container in self.record.main):
            self.sandbox.release()
            keeping.clear(self.sandbox)
        await self._reporter.report(self.now)
        later = (self._mounts.retry_at, self._deadline(), self._space_due())
        dues = (due, *later)
        moments = [at for at in dues if at is not None]
        return max(0.0, (min(moments) - self.now).total_seconds()) if moments else None

    async def _stop_changed(self) -> None:
        """Stop containers whose image has been changed: they start again with the new one."""
        for container in self.record.containers:
            if self.record.changed(container):
                text = f"Container {container.name} definition changed, will be restarted"
                await self._halt(container, text, self._grace)

    def _deadline(self) -> datetime | None:
        """When the pod has been active for as long as it may."""
        seconds = self.record.pod["spec"].get("activeDeadlineSeconds")
        over = seconds is None or bool(self.record.failure[0]) or all(c.done for c in self.record.main)
        return None if over else self.record.bound_at + timedelta(seconds=seconds)

    def _space_due(self) -> datetime | None:
        """When to look at the pod's disk space again; a pod that is over has given it back."""
        return None if self.record.failure[0] or all(c.done for c in self.record.main) else self._storage.due

    async def _end_if_due(self) -> None:
        """End a pod that has been active for too long, or has written too much."""
        deadline = self._deadline()
        if deadline is not None and deadline <= self.now:
            text = "Pod was active on the node longer than the specified deadline"
            await self._recorder.normal(self.record.pod, "DeadlineExceeded", text)
            await self._fail("DeadlineExceeded", text, self._grace)
        if not self.record.failure[0] and (found := self._eviction or self._storage.sync(self.now)):
            why, notes, grace = found
            await self._recorder.warning(self.record.pod, "Evicted", why, notes=notes)
            await self._fail("Evicted", why, grace)

    def evict(self, why: str, notes: dict[str, str], grace_s: float) -> None:
        """End the pod: its node is short of something. ``notes`` are the annotations of the event."""
        self._eviction = (why, notes, grace_s)
        self.record.disruption = [disruption(self.record.pod, why, self.now)]
        self.sandbox.host.wake()

    async def _fail(self, reason: str, text: str, grace: float) -> None:
        self.record.failure = (reason, text)
        for container in self.record.containers:
            await self._halt(container, f"Stopping container {container.name}", grace)

    async def resume(self) -> None:
        """Take up, once, what ran before the kubelet was started again."""
        if self._resumed:
            return
        self._resumed = True
        for container in self.record.containers:
            if container.running:
                await self.sandbox.resume(container)
                self._watch(container)
        if self.record.files is not None:
            await keeping.restore(self.sandbox, self.record.files)
            self.record.files = None

    def stop(self) -> None:
        """Look no further: the pod is gone, or the kubelet stops."""
        self.gone = True
        self.pulls.stop()
        for tried in self._probes.values():
            tried.stop()
        for hook in self._hooks.values():
            hook.cancel()
        self.sandbox.stop()

    def _watch(self, container: Container) -> None:
        """Try a running container's probes."""
        self._unwatch(container)
        if self.record.images[self.record.spec(container)["image"]].stands_in:
            return
        self._probes[container.name] = Probes(self.sandbox, container, self._unhealthy, self._probe_failed)

    def _unwatch(self, container: Container) -> None:
        probes = self._probes.pop(container.name, None)
        if probes is not None:
            probes.stop()

    async def _unhealthy(self, container: Container, text: str) -> None:
        await self._warning(container, "Unhealthy", text)

    async def _probe_failed(self, container: Container, text: str) -> None:
        """Restart a container whose probe has failed too often."""
        probe = self.record.spec(container).get("livenessProbe") or {}
        await self._halt(container, text, probe.get("terminationGracePeriodSeconds") or self._grace)

    async def crash(self) -> None:
        """The machine was turned off: every process is gone, and the sandbox is made anew."""
        for container in self.record.containers:
            container.backoff = Backoff()  # the kubelet kept it in its memory
        hit = [container for container in self.record.containers if container.running]
        if hit and not self.gone:
            text = "Pod sandbox changed, it will be killed and re-created."
            await self._recorder.normal(self.record.pod, "SandboxChanged", text)
        for container in hit if not self.gone else ():
            assert container.instance is not None
            self._unwatch(container)
            self.sandbox.signal(container, "KILL")
            container.instance.end(self.now, CRASH_CODE, "Unknown", "")
            self._stops.done(container)
            self.sandbox.ended(container)
            await self.ended(container)
        self.sandbox.host.wake()

    @property
    def _grace(self) -> float:
        """The seconds that the pod allows for an end."""
        return float(self.record.pod["spec"].get("terminationGracePeriodSeconds", 30))

    async def _halt(self, container: Container, text: str, grace: float) -> None:
        """Stop a container of a pod that goes on."""
        if container.running and container not in self._stops:
            await self._normal(container, "Killing", text)
            self._stops.begin(container, self.now + timedelta(seconds=grace), graceful=True)
            self.sandbox.host.wake()

    @property
    def now(self) -> datetime:
        """The time."""
        return self._clock.now()

    def program(self, container: Container, instance: Instance | None = None) -> Program:
        """Return what runs, or ran, in a container whose image is on the node; in one of its starts, if given."""
        spec = self.record.spec(container)
        image = self.record.images[spec["image"]]
        if image.stands_in:
            return behaviours.stand_in(self.record.uid, ends=container.init and not self.record.is_sidecar(container))
        env = behaviours.environment(spec, self.record.pod)
        limit, uid = memory.limit_of(spec), self.record.uid
        instance = instance or container.instance
        found = (instance.found if instance is not None else None) or behaviours.NOTHING
        seed = f"{uid}/{container.name}"
        program = behaviours.program(image, self.argv(container), env, self._architecture, seed=seed, found=found)
        if instance is not None and instance.course:
            program = behaviours.following(program, instance.course, seed)
        if instance is not None and instance.notes:
            program = noted(program, instance.notes)
        if instance is not None and instance.cut is not None:
            program = cut(program, *instance.cut)
        if instance is not None and instance.oom_at is not None:
            program = memory.killed(program, instance.oom_at)
        return memory.bounded(program, limit)

    def argv(self, container: Container) -> tuple[str, ...]:
        """Return the command line of a container whose image is on the node."""
        spec = self.record.spec(container)
        env = behaviours.environment(spec, self.record.pod)
        return behaviours.command_line(spec, self.record.images[spec["image"]], env)

    def command(self, container: Container) -> tuple[str, ...]:
        """Return the command line as it is written, with nothing filled in."""
        spec = self.record.spec(container)
        return behaviours.command_line(spec, self.record.images[spec["image"]], ())

    def interpreted(self, container: Container) -> bool:
        """Whether a container's own process really runs, in its machine."""
        spec = self.record.spec(container)
        mounted = [mount["mountPath"] for mount in spec.get("volumeMounts") or ()]
        image = self.record.images[spec["image"]]
        folder = behaviours.folder(image, spec)
        return behaviours.interpreted(image, self.argv(container), self._architecture, mounted, folder)

    def due(self, container: Container) -> datetime | None:
        """When a container leaves its state; None: not by itself."""
        if container.running and container in self._stops:
            return self._dies(container)
        if self._started_ending:
            return None
        stage = STAGES.get(container.state)
        return stage.due(self, container) if stage is not None else None

    # The conditions of stages.

    def may_begin(self, container: Container) -> datetime | None:
        """A container begins when volumes and sandbox are there and the init containers before it are through."""
        if not self._mounts.done or self.record.failure[0]:
            return None
        if not self._agenda.lets_begin(container):
            return None
        return self.record.bound_at + timedelta(seconds=timings.SANDBOX_S)

    def process_ends(self, container: Container) -> datetime | None:
        """When the kubelet notices that the process has ended by itself."""
        ending = self.sandbox.ending(container)
        if ending is None or container.instance is None:
            return None
        return container.instance.started_at + timedelta(seconds=ending.at + timings.PLEG_S)

    def crash_loop_moves(self, container: Container) -> datetime:
        """When the back-off ends, or the kubelet next looks at it and says so."""
        assert container.instance is not None
        assert container.instance.finished_at is not None
        ends = container.instance.finished_at + timedelta(seconds=container.backoff.delay)
        return min(ends, (container.told_at or container.since) + timedelta(seconds=timings.BACKOFF_EVENT_S))

    # What stages do.

    async def start(self, container: Container) -> None:
        """Create the container and start its process."""
        try:
            await self.sandbox.prepare(container)
        except ConfigError as error:
            container.config_error = str(error)
            await self._warning(container, "Failed", f"Error: {error}")
            container.enter("configError", self.now)
            return
        if container.instance is not None:
            container.restarts += 1
        container.previous = container.instance
        container.instance = Instance(container_id(self.record.uid, container.name, container.restarts), self.now)
        container.instance.image = self.record.spec(container)["image"]
        await self._normal(container, "Created", f"Created container: {container.name}")
        why = self.sandbox.start(container)
        if why:
            await self._warning(container, "Failed", f"Error: {why}")
            container.instance.end(self.now, behaviours.START_ERROR_CODE, "StartError", why)
            self.sandbox.ended(container)
            await self.ended(container)
            return
        await self._normal(container, "Started", f"Started container {container.name}")
        await self._started(container)

    async def _started(self, container: Container) -> None:
        """Run the hook after the start; only then the container counts as running."""
        spec = self.record.spec(container)
        container.replaced = False
        container.startup_done = spec.get("startupProbe") is None
        container.ready = spec.get("readinessProbe") is None
        hook = (spec.get("lifecycle") or {}).get("postStart")
        if hook:
            container.enter("postStart", self.now)
            self._hooks[container.name] = asyncio.ensure_future(self._run_hook(container, hook))
            return
        container.enter("running", self.now)
        self._watch(container)

    async def _run_hook(self, container: Container, hook: Obj) -> None:
        failure = await probes.hook(self.sandbox, container, hook)
        container.enter("running", self.now)
        if failure:
            await self._warning(container, "FailedPostStartHook", "PostStartHook failed")
            await self._halt(container, "FailedPostStartHook", self._grace)
        self._watch(container)
        self.sandbox.host.wake()

    async def exited(self, container: Container) -> None:
        """Note the end of the process, by itself or by our signal."""
        instance = container.instance
        changed = self.record.changed(container)
        assert instance is not None
        ending, natural = self.sandbox.ending(container), self.process_ends(container)
        self._unwatch(container)
        if ending is None or natural is None or natural > self.now:
            code, at, reason = self._stops.code(container), self.now, ""
            self.sandbox.signal(container, "KILL")
        else:
            code, at, reason = ending.code, instance.started_at + timedelta(seconds=ending.at), ending.reason
        instance.end(at, code, reason, self.sandbox.message(container, code))
        if reason == OOM_REASON:
            memory.report(self.sandbox, container, at)
        self._stops.done(container)
        self.sandbox.ended(container)
        if self._started_ending:
            container.enter("done", self.now)
        elif changed:
            container.replaced = True
            await self.pulls.begin(container)
        else:
            await self.ended(container)

    def _dies(self, container: Container) -> datetime:
        """When a process of an ending pod is over: by our signal, or by itself before that."""
        killed = self._stops.due(container)
        assert killed is not None
        natural = self.process_ends(container)
        return killed if natural is None else min(killed, natural)

    async def ended(self, container: Container) -> None:
        """Decide what follows an end: nothing, another start, or a wait before it."""
        assert container.instance is not None
        if self._stays_down(container, container.instance.exit_code):
            container.enter("done", self.now)
            return
        container.told_at = None
        await self.crash_loop(container)

    async def crash_loop(self, container: Container) -> None:
        """Start again if the back-off is over, or say that it is not."""
        assert container.instance is not None
        failed_at = container.instance.finished_at or self.now
        if container.backoff.remaining(failed_at, self.now) <= 0:
            container.backoff.next(failed_at, self.now)
            await self.pulls.begin(container)
            return
        text = f"Back-off restarting failed container {container.name} in pod {self.record.full_name}"
        await self._warning(container, "BackOff", text)
        container.told_at = self.now
        if container.state != "crashLoop":
            container.enter("crashLoop", self.now)

    def _stays_down(self, container: Container, code: int) -> bool:
        if container.ephemeral or self.record.failure[0]:
            return True
        if self.record.is_sidecar(container):
            return all(main.done for main in self.record.main)
        if container.init:
            return code == 0 or self.record.policy == "Never"
        return self.record.policy == "Never" or (self.record.policy == "OnFailure" and code == 0)

    # The end of the pod.

    async def _begin_ending(self) -> None:
        """Send SIGTERM: a process that ignores it is killed when the grace is over."""
        self._started_ending = True
        metadata = self.record.pod["metadata"]
        deadline, graceful = parse(metadata["deletionTimestamp"]), bool(metadata.get("deletionGracePeriodSeconds"))
        for container in self.record.containers:
            if container.state == "postStart":
                self._hooks[container.name].cancel()
                container.enter("running", self.now)
            if container.running:
                self._unwatch(container)
                await self._normal(container, "Killing", f"Stopping container {container.name}")
                self._stops.begin(container, deadline if graceful else self.now, graceful=graceful)

    def _hasten_ending(self) -> None:
        """A second deletion may allow less time than the first did."""
        self._stops.hasten(parse(self.record.pod["metadata"]["deletionTimestamp"]))

    async def _finish_ending(self) -> None:
        """Report the last status and let the API forget the pod."""
        keeping.clear(self.sandbox)
        self.stop()
        metadata = self.record.pod["metadata"]
        with tolerating(404, 409):
            await self._reporter.report(self.now)
            await self._client.delete(
                "pods", metadata["name"], metadata["namespace"], grace_seconds=0, uid=metadata["uid"]
            )

    async def _normal(self, container: Container, reason: str, message: str) -> None:
        await self._recorder.normal(self.record.pod, reason, message, path=_path(container))

    async def _warning(self, container: Container, reason: str, message: str) -> None:
        await self._recorder.warning(self.record.pod, reason, message, path=_path(container))


def _path(container: Container) -> str:
    return f"spec.{group(container)}{{{container.name}}}"


def _after(seconds: float) -> Due:
    return lambda worker, container: container.since + timedelta(seconds=seconds)


STAGES = {
    "waiting": Stage(PodWorker.may_begin, lambda worker, container: worker.pulls.begin(container)),
    "pulling": Stage(
        lambda worker, container: worker.pulls.ends(container),
        lambda worker, container: worker.pulls.pulled(container),
    ),
    "pullFailed": Stage(_after(timings.PLEG_S), lambda worker, container: worker.pulls.backs_off(container)),
    "pullWaiting": Stage(
        lambda worker, container: worker.pulls.wait_moves(container),
        lambda worker, container: worker.pulls.backs_off(container),
    ),
    "creating": Stage(_after(timings.START_S), PodWorker.start),
    "running": Stage(PodWorker.process_ends, PodWorker.exited),
    "exited": Stage(_after(0.0), PodWorker.ended),
    "configError": Stage(_after(timings.CONFIG_RETRY_S), lambda worker, container: worker.pulls.begin(container)),
    "crashLoop": Stage(PodWorker.crash_loop_moves, PodWorker.crash_loop),
}
"""The states that a container leaves by itself; ``done`` and ``refused`` it does not."""
