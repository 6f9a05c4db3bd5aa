"""The MPI operator (kubeflow.org/v2beta1): an MPIJob's workers wait for a launcher, whose mpirun sets them to work.

Objects, labels, conditions and events are those of mpi-operator 0.6.
"""

from __future__ import annotations

import asyncio
import base64
import re
from functools import partial
from typing import Any

from kubesim.addons.operator import Operator, ensure
from kubesim.conditions import condition_of
from kubesim.controllers.base import (
    Context,
    Controller,
    controller_of,
    owner_reference,
)
from kubesim.errors import ApiError, Obj, tolerating
from kubesim.gpu.collectives import TIMEOUT_S, watchdog
from kubesim.kubelet.behaviours import workload
from kubesim.kubelet.crew import Member, mpi_ranks
from kubesim.kubelet.duties import Post
from kubesim.kubelet.gpus import User
from kubesim.kubelet.ranks import HANGING, WORKING
from kubesim.network.gate import Gate
from kubesim.shell.signals import DEATHS, NUMBERS
from kubesim.times import stamp

RESOURCE = "mpijobs.kubeflow.org"
LABELS = "training.kubeflow.org/"
OPERATOR = "mpi-operator"
SSH_PORT = 22
MOUNT = "/etc/mpi"
WORKER_COMMAND = ["/usr/sbin/sshd", "-De"]
NCCL_PORT = 45193
LOOK_S = 5.0
"""How often the launcher looks whether its ranks reach each other."""
TRIES = 10
"""How often ssh knocks, once a second, as the operator tells it."""
LOST = (
    "--------------------------------------------------------------------------\n"
    "ORTE was unable to reliably start one or more daemons.\nThis usually is caused by:\n\n"
    "* not finding the required libraries and/or binaries on\n  one or more nodes. Please check your PATH and "
    "LD_LIBRARY_PATH\n  settings, or configure OMPI with --enable-orterun-prefix-by-default\n"
    "--------------------------------------------------------------------------"
)
SIGNALLED = (
    "--------------------------------------------------------------------------\n"
    "mpirun noticed that process rank {rank} with PID {pid} on node {pod} exited on signal {signal}.\n"
    "--------------------------------------------------------------------------"
)
ABORTED = (
    "--------------------------------------------------------------------------\n"
    "mpirun detected that one or more processes exited with non-zero status, thus causing\n"
    "the job to be terminated. The first process to do so was:\n\n  Process name: [[{family},1],{rank}]\n"
    "  Exit code:    1\n--------------------------------------------------------------------------"
)


class MPIJobController(Controller):
    """Makes the service, the host file, the keys, the workers and the launcher of MPIJobs."""

    source = "mpi-job-controller"

    def __init__(self, context: Context, post: Post) -> None:
        super().__init__(context)
        self.jobs = self.informers[RESOURCE]
        self.pods = self.informers["pods"]
        self.launchers = self.informers["jobs.batch"]

    def listen(self) -> None:
        """Watch MPIJobs, and what they own."""
        self.watch_own(self.jobs)
        self.watch_owned(self.pods, "MPIJob")
        self.watch_owned(self.launchers, "MPIJob")

    async def sync(self, namespace: str, name: str) -> None:
        """Bring one job to what it asks for."""
        job = self.jobs.get(namespace, name)
        if job is None or job["metadata"].get("deletionTimestamp"):
            return
        status: Obj = {**(job.get("status") or {})}
        if not condition_of(status, "Created"):
            await self.recorder.normal(job, "MPIJobCreated", f"MPIJob {namespace}/{name} is created.")
            status["startTime"] = stamp(self.clock.now())
            self._set(status, "Created", "True", "MPIJobCreated", f"MPIJob {namespace}/{name} is created.")
        workers = self._workers(job)
        launcher = self.launchers.get(namespace, f"{name}-launcher")
        if not self._is_over(status):
            await self._furnish(job, workers)
            if launcher is None and self._may_launch(job, workers):
                await ensure(self.client, "jobs.batch", launcher_of(job))
        await self._judge(job, status, launcher, workers)
        await self._write(job, status)

    def _workers(self, job: Obj) -> list[Obj]:
        found = [pod for pod in self.pods.by("controller", job["metadata"]["uid"]) if _role(pod) == "worker"]
        return sorted(found, key=lambda pod: pod["metadata"]["name"])

    def _may_launch(self, job: Obj, workers: list[Obj]) -> bool:
        if job["spec"].get("launcherCreationPolicy") != "WaitForWorkersReady":
            return True
        return len(workers) == count(job) and all(map(_is_running, workers))

    async def _furnish(self, job: Obj, workers: list[Obj]) -> None:
        for resource, obj in surroundings(job):
            await ensure(self.client, resource, obj)
        known = {pod["metadata"]["name"] for pod in workers}
        for index in range(count(job)):
            if f"{job['metadata']['name']}-worker-{index}" not in known:
                await self._create_worker(job, index)

    async def _create_worker(self, job: Obj, index: int) -> None:
        try:
            await ensure(self.client, "pods", worker_of(job, index))
        except ApiError as error:
            if error.code not in (403, 422):
                raise
            await self.recorder.warning(job, "MPIJobFailed", f"worker pod created failed: {error.message}")

    async def _judge(self, job: Obj, status: Obj, launcher: Obj | None, workers: list[Obj]) -> None:
        """Say how far the job is."""
        meta, found = job["metadata"], (launcher or {}).get("status") or {}
        name = f"{meta['namespace']}/{meta['name']}"
        ended = next((kind for kind in ("Complete", "Failed") if _holds(found, kind)), "")
        active = 0 if ended else int(found.get("active") or 0)
        succeeded, failed = int(ended == "Complete"), int(found.get("failed") or 0)
        status["replicaStatuses"] = {
            "Launcher": _counts(active, succeeded, failed),
            "Worker": _counts(sum(map(_is_running, workers)), 0, sum(_phase(pod) == "Failed" for pod in workers)),
        }
        if ended == "Complete" and not condition_of(status, "Succeeded"):
            status["completionTime"] = found.get("completionTime") or stamp(self.clock.now())
            await self._tell(job, status, "Succeeded", "MPIJobSucceeded", f"MPIJob {name} successfully completed.")
        elif ended == "Failed" and not condition_of(status, "Failed"):
            why = condition_of(found, "Failed")
            text = f"Job {meta['name']}-launcher failed: {why.get('message', '')}"
            await self._tell(job, status, "Failed", why.get("reason") or "MPIJobFailed", text)
        works = active and len(workers) == count(job) and all(map(_is_running, workers))
        if not ended and works and not condition_of(status, "Running"):
            await self._tell(job, status, "Running", "MPIJobRunning", f"MPIJob {name} is running.")
        if ended:
            await self._clean(job, workers)

    async def _tell(self, job: Obj, status: Obj, kind: str, reason: str, text: str) -> None:
        if kind != "Running" and condition_of(status, "Running"):
            self._set(status, "Running", "False", "MPIJobRunning", condition_of(status, "Running")["message"])
        self._set(status, kind, "True", reason, text)
        await (self.recorder.warning if kind == "Failed" else self.recorder.normal)(job, reason, text)

    def _set(self, status: Obj, kind: str, value: str, reason: str, text: str) -> None:
        now = stamp(self.clock.now())
        made = {"type": kind, "status": value, "reason": reason, "message": text}
        made |= {"lastUpdateTime": now, "lastTransitionTime": now}
        status["conditions"] = [*(c for c in status.get("conditions") or () if c["type"] != kind), made]

    async def _clean(self, job: Obj, workers: list[Obj]) -> None:
        policy = (job["spec"].get("runPolicy") or {}).get("cleanPodPolicy", "None")
        for pod in workers:
            if policy == "All" or (policy == "Running" and _phase(pod) in ("Running", "Pending")):
                await self.pods.delete(pod)

    async def _write(self, job: Obj, status: Obj) -> None:
        if status != (job.get("status") or {}):
            with tolerating(404):
                await self.jobs.patch(job, {"status": status}, subresource="status")

    def _is_over(self, status: Obj) -> bool:
        return any(_holds(status, kind) for kind in ("Succeeded", "Failed"))


def count(job: Obj) -> int:
    """Return how many workers a job has."""
    worker = (job["spec"].get("mpiReplicaSpecs") or {}).get("Worker") or {}
    return int(worker.get("replicas", 1)) if worker else 0


def surroundings(job: Obj) -> list[tuple[str, Obj]]:
    """Return the service that names the workers, the host file and the keys for ssh."""
    name, namespace = job["metadata"]["name"], job["metadata"]["namespace"]
    slots = job["spec"].get("slotsPerWorker", 1)
    hosts = [f"{name}-worker-{index}.{name}.{namespace}.svc" for index in range(count(job))]
    lines = {"hostfile": "".join(f"{host} slots={slots}\n" for host in hosts)}
    lines["discover_hosts.sh"] = "#!/bin/sh\n" + "".join(f"echo {host}\n" for host in hosts)
    key = base64.b64encode(f"{job['metadata']['uid']}\n".encode()).decode()
    meta = {"namespace": namespace, "labels": {"app": name}, "ownerReferences": [owner_reference(job)]}
    spec = {"clusterIP": "None", "selector": _labels(job), "publishNotReadyAddresses": True}
    return [
        ("services", {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, **meta}, "spec": spec}),
        (
            "configmaps",
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"{name}-config", **meta}, "data": lines},
        ),
        (
            "secrets",
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "type": "kubernetes.io/ssh-auth",
                "metadata": {"name": f"{name}-ssh", **meta},
                "data": {"ssh-privatekey": key, "ssh-publickey": key},
            },
        ),
    ]


def worker_of(job: Obj, index: int) -> Obj:
    """Return a worker's pod."""
    template = job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]
    meta, spec = job["metadata"], {**template["spec"]}
    name = f"{meta['name']}-worker-{index}"
    first, *others = [{**item} for item in spec["containers"]]
    if not first.get("command") and not first.get("args"):
        first["command"] = WORKER_COMMAND
    spec |= {"containers": [first, *others], "hostname": name, "subdomain": meta["name"]}
    spec["restartPolicy"] = _restart(job, "Worker")
    labels = {**_given(template), **_labels(job), f"{LABELS}job-role": "worker", f"{LABELS}replica-index": str(index)}
    own = {"name": name, "namespace": meta["namespace"], "labels": labels, "ownerReferences": [owner_reference(job)]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": own, "spec": spec}


def launcher_of(job: Obj) -> Obj:
    """Return the launcher's job: its container finds the host file that the operator has written."""
    template = job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]
    meta, spec, policy = job["metadata"], {**template["spec"]}, job["spec"].get("runPolicy") or {}
    env = [
        {"name": "K_MPI_JOB_ROLE", "value": "launcher"},
        {"name": "OMPI_MCA_orte_keep_fqdn_hostnames", "value": "true"},
        {"name": "OMPI_MCA_orte_default_hostfile", "value": f"{MOUNT}/hostfile"},
        {"name": "OMPI_MCA_plm_rsh_args", "value": f"-o ConnectionAttempts={TRIES}"},
    ]
    mount = {"name": "mpi-job-config", "mountPath": MOUNT}
    first, *others = spec["containers"]
    first = {**first, "env": [*(first.get("env") or ()), *env]}
    first["volumeMounts"] = [*(first.get("volumeMounts") or ()), mount]
    volume = {"name": "mpi-job-config", "configMap": {"name": f"{meta['name']}-config"}}
    spec |= {"containers": [first, *others], "volumes": [*(spec.get("volumes") or ()), volume]}
    spec |= {
        "restartPolicy": _restart(job, "Launcher"),
        "subdomain": meta["name"],
        "hostname": f"{meta['name']}-launcher",
    }
    labels = {**_given(template), **_labels(job), f"{LABELS}job-role": "launcher"}
    limits = {
        key: policy[key]
        for key in ("ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit")
        if key in policy
    }
    own = {"name": f"{meta['name']}-launcher", "namespace": meta["namespace"], "labels": {"app": meta["name"]}}
    inner = {"metadata": {"labels": labels}, "spec": spec}
    body = {"apiVersion": "batch/v1", "kind": "Job", "spec": {**limits, "template": inner}}
    return {**body, "metadata": {**own, "ownerReferences": [owner_reference(job)]}}


class Launch:
    """mpirun in a launcher: sets the workers of its job to work, and fails with them."""

    def __init__(self, post: Post) -> None:
        self._post = post
        self._running: list[tuple[str, str, list[int]]] = []
        """(node, container, processes) of each worker's ranks that use GPUs."""
        self._task = asyncio.ensure_future(self._run())

    def stop(self) -> None:
        """End every rank."""
        self._task.cancel()
        for node, owner, pids in self._running:
            gpus = self._post.machines.gpus(node)
            gpus.stop(pids, self._post.clock.now())
            gpus.guests.pop(owner, None)
            gpus.lost.pop(owner, None)

    async def _run(self) -> None:
        labels = self._post.pod["metadata"].get("labels") or {}
        name, namespace = labels.get(f"{LABELS}job-name"), self._post.pod["metadata"]["namespace"]
        hosts = await self._hosts(str(name), namespace) if name else []
        workers = [await self._reach(host) for host in hosts]
        for rank, worker in enumerate(workers):
            if worker is None:
                return
            self._set_to_work(rank, worker)
        if any(pids for *_, pids in self._running) and len(workers) > 1:
            await self._look_after([worker for worker in workers if worker is not None])

    async def _look_after(self, workers: list[Obj]) -> None:
        """See whether each worker reaches the next, as in the ring of NCCL: where one does not, none goes on."""
        clock, since = self._post.clock, None
        ring = [*zip(workers, [*workers[1:], workers[0]], strict=True)]
        while True:
            await clock.sleep(LOOK_S)
            opened = all([await self._reaches(one, other) for one, other in ring])
            if since is not None and not opened and (ran := (clock.now() - since).total_seconds()) >= TIMEOUT_S:
                texts = [watchdog(rank, clock.now(), TIMEOUT_S, ran, 1042) for rank in range(len(workers))]
                self._post.die("\n".join([*texts, ABORTED.format(family=27281, rank=0)]))
                return
            if opened is not (since is None):
                since = None if opened else clock.now()
                self._turn(workers, WORKING if opened else HANGING)

    async def _reaches(self, one: Obj, other: Obj) -> bool:
        gate = Gate(self._post.client, self._post.fabric, one["status"].get("podIP", ""))
        return await gate.opens(other["status"].get("podIP", ""), NCCL_PORT)

    def _turn(self, workers: list[Obj], behaviour: str) -> None:
        """Let all ranks go on as another behaviour."""
        self._post.go_on(behaviour)
        for worker in workers:
            for container in worker["spec"]["containers"]:
                owner = f"{worker['metadata']['namespace']}/{worker['metadata']['name']}/{container['name']}"
                gpus = self._post.machines.gpus(worker["spec"]["nodeName"])
                gpus.turn(owner, workload(behaviour, "").load, self._post.clock.now())

    async def _hosts(self, name: str, namespace: str) -> list[str]:
        try:
            found = await self._post.client.get("configmaps", f"{name}-config", namespace)
        except ApiError:
            return []
        return re.findall(r"^(\S+) slots", (found.get("data") or {}).get("hostfile", ""), re.M)

    async def _reach(self, host: str) -> Obj | None:
        """Return the pod of a host, once ssh gets to it; dies and returns None where it never does."""
        name, _, namespace, _ = host.split(".")
        why = ""
        for _ in range(TRIES):
            try:
                pod = await self._post.client.get("pods", name, namespace)
            except ApiError:
                pod = {}
            address = pod.get("status", {}).get("podIP", "")
            if _is_running(pod) and await Gate(self._post.client, self._post.fabric, self._post.address).opens(
                address, SSH_PORT
            ):
                return pod
            lost = f"ssh: connect to host {host} port {SSH_PORT}: Connection timed out"
            why = lost if address else f"ssh: Could not resolve hostname {host}: Name or service not known"
            await self._post.clock.sleep(1)
        self._post.die(f"{why}\n{LOST}")
        return None

    def _set_to_work(self, rank: int, worker: Obj) -> None:
        meta, node = worker["metadata"], worker["spec"]["nodeName"]
        try:
            gpus = self._post.machines.gpus(node)
        except KeyError:
            return
        program, now = workload("training", meta["uid"]), self._post.clock.now()
        ids = {each["name"]: each["containerID"] for each in worker["status"].get("containerStatuses") or ()}
        for container in worker["spec"]["containers"]:
            owner = f"{meta['namespace']}/{meta['name']}/{container['name']}"
            key, count = ids.get(container["name"], "").rpartition("/")[2], gpus.seen_by(owner)
            found = mpi_ranks(self._post.argv, rank, count)
            gpus.guests[owner], gpus.lost[owner] = found, partial(self._lose, meta["name"])
            users = [
                User(gpus.numbers.of(key, each.pid, now), each.argv[0], each.device)
                for each in found
                if each.device != -1
            ]
            pids = gpus.start(owner, program, users, now, lambda error: self._fail(rank))
            self._running.append((node, owner, pids))

    def _lose(self, pod: str, member: Member, name: str) -> None:
        """End with the ranks, one of which a signal has ended."""
        words = f"{NUMBERS[name]} ({DEATHS.get(name, name)})"
        self._post.die(SIGNALLED.format(rank=max(member.rank, 0), pid=member.pid, pod=pod, signal=words))

    def _fail(self, rank: int) -> None:
        """End with the ranks, one of which has died."""
        self._post.die(ABORTED.format(family=27281, rank=rank))


def begin(post: Post) -> Operator:
    """Begin to run MPIJobs."""
    return Operator(post, MPIJobController)


def launch(post: Post) -> Launch:
    """Begin mpirun."""
    return Launch(post)


def _labels(job: Obj) -> dict[str, str]:
    return {f"{LABELS}job-name": job["metadata"]["name"], f"{LABELS}operator-name": OPERATOR}


def _given(template: Obj) -> dict[str, str]:
    return (template.get("metadata") or {}).get("labels") or {}


def _restart(job: Obj, role: str) -> str:
    return str(job["spec"]["mpiReplicaSpecs"][role].get("restartPolicy") or "Never")


def _role(pod: Obj) -> str:
    return str((pod["metadata"].get("labels") or {}).get(f"{LABELS}job-role", "")) if controller_of(pod) else ""


def _phase(pod: Obj) -> str:
    return str(pod.get("status", {}).get("phase", ""))


def _is_running(pod: Obj) -> bool:
    return _phase(pod) == "Running" and not pod["metadata"].get("deletionTimestamp")


def _holds(status: Obj, kind: str) -> bool:
    return condition_of(status, kind).get("status") == "True"


def _counts(active: int, succeeded: int, failed: int) -> dict[str, Any]:
    found = {"active": active, "succeeded": succeeded, "failed": failed}
    return {name: number for name, number in found.items() if number}
