"""The MPI operator (kubeflow.org/v2beta1): an MPIJob's workers wait for a launcher, whose mpirun sets them to work.

Objects, labels, conditions and events are those of mpi-operator 0.6.
"""

from __future__ import annotations

import base64
import hashlib
from functools import lru_cache
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from kubesim.addons.operator import Operator, ensure
from kubesim.conditions import condition_of
from kubesim.controllers.base import Context, Controller, controller_of, owner_reference
from kubesim.errors import ApiError, Obj, tolerating
from kubesim.kubelet.duties import Post
from kubesim.kubelet.logfile import stamped
from kubesim.times import stamp

RESOURCE = "mpijobs.kubeflow.org"
LABELS = "training.kubeflow.org/"
OPERATOR = "mpi-operator"
MOUNT = "/etc/mpi"
WORKER_COMMAND = ["/usr/sbin/sshd", "-De"]
ROOT_SSH = "/root/.ssh"
KEY_FILES = [
    {"key": "ssh-privatekey", "path": "id_rsa"},
    {"key": "ssh-publickey", "path": "id_rsa.pub"},
    {"key": "ssh-publickey", "path": "authorized_keys"},
]
CONFIG_FILES = [
    {"key": "hostfile", "path": "hostfile", "mode": 0o444},
    {"key": "discover_hosts.sh", "path": "discover_hosts.sh", "mode": 0o555},
]
TRIES = 10
"""The attempts of ssh, as the operator tells it."""


class MPIJobController(Controller):
    """Makes the service, the host file, the keys, the workers and the launcher of MPIJobs."""

    source = "mpi-job-controller"

    def __init__(self, context: Context, post: Post) -> None:
        super().__init__(context)
        self._say = post.say
        self.jobs = self.informers[RESOURCE]
        self.pods = self.informers["pods"]
        self.launchers = self.informers["jobs.batch"]

    def listen(self) -> None:
        """Watch MPIJobs, and what they own."""
        self.watch_own(self.jobs)
        self.watch_owned(self.pods, "MPIJob")
        self.watch_owned(self.launchers, "MPIJob")

    async def sync(self, namespace: str, name: str) -> None:
        """Bring one job to what it asks for, and say in the log how that went."""
        job = self.jobs.get(namespace, name)
        if job is None or job["metadata"].get("deletionTimestamp"):
            return
        if wrong := validation_errors(job):
            shown = f"[{', '.join(wrong)}]" if len(wrong) > 1 else wrong[0]
            await self.recorder.warning(job, "ValidationError", f"Found validation errors: {shown}")
            return
        try:
            await self._bring(job)
        except ApiError as error:
            why = error.message.replace('"', '\\"')
            text = f'E mpi_job_controller.go:540] "Unhandled Error" err="error syncing \'{namespace}/{name}\': {why}"'
            self._log(text)
            raise

    def _log(self, text: str) -> None:
        self._say(stamped(text, self.clock.now()))

    async def _bring(self, job: Obj) -> None:
        namespace, name = job["metadata"]["namespace"], job["metadata"]["name"]
        status: Obj = {**(job.get("status") or {})}
        if not condition_of(status, "Created"):
            await self.recorder.normal(job, "MPIJobCreated", f"MPIJob {namespace}/{name} is created.")
            status["startTime"] = stamp(self.clock.now())
            self._set(status, "Created", "True", "MPIJobCreated", f"MPIJob {namespace}/{name} is created.")
        workers = self._workers(job)
        launcher = self.launchers.get(namespace, f"{name}-launcher")
        if not self._is_over(status) and await self._is_suspended(job, status, launcher, workers):
            await self._write(job, status)
            return
        if not self._is_over(status):
            await self._furnish(job, workers)
            if launcher is None and self._may_launch(job, workers):
                await self._create(job, "launcher", "jobs.batch", launcher_of(job))
        await self._judge(job, status, launcher, workers)
        await self._write(job, status)

    async def _is_suspended(self, job: Obj, status: Obj, launcher: Obj | None, workers: list[Obj]) -> bool:
        """Return whether a job is to wait: then its pods go, and come again when it is resumed."""
        wanted = bool((job["spec"].get("runPolicy") or {}).get("suspend"))
        name = f"{job['metadata']['namespace']}/{job['metadata']['name']}"
        if launcher is not None and bool(launcher["spec"].get("suspend")) is not wanted:
            await self.launchers.patch(launcher, {"spec": {"suspend": wanted}})
        for pod in workers if wanted else ():
            await self.pods.delete(pod)
        if wanted and not _holds(status, "Suspended"):
            await self._tell(job, status, "Suspended", "MPIJobSuspended", f"MPIJob {name} is suspended.")
        elif not wanted and _holds(status, "Suspended"):
            self._set(status, "Suspended", "False", "MPIJobResumed", f"MPIJob {name} is resumed.")
            status["conditions"] = [each for each in status["conditions"] if each["type"] != "Running"]
            status["startTime"] = stamp(self.clock.now())
            await self.recorder.normal(job, "MPIJobResumed", "MPIJob resumed")
        return wanted

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
                await self._create(job, "worker", "pods", worker_of(job, index))

    async def _create(self, job: Obj, role: str, resource: str, obj: Obj) -> None:
        """Create a pod or job, and say in an event why that fails."""
        try:
            await ensure(self.client, resource, obj)
        except ApiError as error:
            await self.recorder.warning(job, "MPIJobFailed", f"{role} pod created failed: {error.message}")
            raise

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


def validation_errors(job: Obj) -> list[str]:
    """Return what mpi-operator finds wrong with a job that its schema lets through (pkg/apis/kubeflow/validation)."""
    specs, path = (job.get("spec") or {}).get("mpiReplicaSpecs") or {}, "spec.mpiReplicaSpecs"
    if not specs:
        return [f"{path}: Required value: must have replica specs"]
    if "Launcher" not in specs:
        return [f"{path}[Launcher]: Required value: must have Launcher replica spec"]
    found = []
    least = {"Launcher": "must be 1", "Worker": "must be greater than or equal to 1"}
    for role, why in least.items():
        spec = specs.get(role)
        replicas = spec.get("replicas", 1) if spec is not None else 1
        if replicas < 1 or (role == "Launcher" and replicas != 1):
            found.append(f"{path}[{role}].replicas: Invalid value: {replicas}: {why}")
        if spec is not None and not ((spec.get("template") or {}).get("spec") or {}).get("containers"):
            where = f"{path}[{role}].template.spec.containers"
            found.append(f"{where}: Required value: must define at least one container")
    return found


def surroundings(job: Obj) -> list[tuple[str, Obj]]:
    """Return the service that names the workers, the host file and the keys for ssh."""
    name, namespace = job["metadata"]["name"], job["metadata"]["namespace"]
    slots = job["spec"].get("slotsPerWorker", 1)
    hosts = [f"{name}-worker-{index}.{name}.{namespace}.svc" for index in range(count(job))]
    mark = " slots=" if job["spec"].get("mpiImplementation", "OpenMPI") == "OpenMPI" else ":"
    lines = {"hostfile": "".join(f"{host}{mark}{slots}\n" for host in hosts)}
    lines["discover_hosts.sh"] = "#!/bin/sh\n" + "".join(f"echo {host}\n" for host in hosts)
    meta = {"namespace": namespace, "labels": {"app": name}, "ownerReferences": [owner_reference(job)]}
    spec = {"clusterIP": "None", "selector": _labels(job), "publishNotReadyAddresses": True}
    secret = {"type": "kubernetes.io/ssh-auth", "data": _keys(job["metadata"]["uid"])}
    config = {"metadata": {"name": f"{name}-config", **meta}, "data": lines}
    return [
        ("services", {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, **meta}, "spec": spec}),
        ("configmaps", {"apiVersion": "v1", "kind": "ConfigMap", **config}),
        ("secrets", {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": f"{name}-ssh", **meta}, **secret}),
    ]


@lru_cache(maxsize=64)
def _keys(uid: str) -> dict[str, str]:
    """Return a job's key pair as its secret has it."""
    number = int.from_bytes(hashlib.sha512(uid.encode()).digest(), "big")
    key = ec.derive_private_key(number, ec.SECP521R1())
    pem = (serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption())
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    pair = {"ssh-privatekey": key.private_bytes(*pem), "ssh-publickey": public + b"\n"}
    return {name: base64.b64encode(text).decode() for name, text in pair.items()}


def worker_of(job: Obj, index: int) -> Obj:
    """Return a worker's pod."""
    template = job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]
    meta = job["metadata"]
    name = f"{meta['name']}-worker-{index}"
    spec = _with_keys(job, {**template["spec"], "hostname": name, "subdomain": meta["name"]})
    first, *others = spec["containers"]
    if not first.get("command") and not first.get("args"):
        first["command"] = WORKER_COMMAND
    first["env"] = [*(first.get("env") or ()), {"name": "K_MPI_JOB_ROLE", "value": "worker"}]
    spec["restartPolicy"] = _restart(job, "Worker")
    labels = {**_given(template), **_labels(job), f"{LABELS}job-role": "worker", f"{LABELS}replica-index": str(index)}
    own = {"name": name, "namespace": meta["namespace"], "labels": labels, "ownerReferences": [owner_reference(job)]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": own, "spec": spec}


def _with_keys(job: Obj, spec: Obj) -> Obj:
    """Return a pod's specification with the job's keys where its first container's ssh looks for them."""
    path = job["spec"].get("sshAuthMountPath") or ROOT_SSH
    secret: Obj = {"secretName": f"{job['metadata']['name']}-ssh", "items": KEY_FILES}
    secret |= {"defaultMode": 0o600} if path == ROOT_SSH else {}
    first, *others = [{**item} for item in spec["containers"]]
    first["volumeMounts"] = [*(first.get("volumeMounts") or ()), {"name": "ssh-auth", "mountPath": path}]
    volumes = [*(spec.get("volumes") or ()), {"name": "ssh-auth", "secret": secret}]
    return {**spec, "containers": [first, *others], "volumes": volumes}


def launcher_of(job: Obj) -> Obj:
    """Return the launcher's job: its container finds the host file that the operator has written, and no GPUs."""
    template = job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]
    meta, policy = job["metadata"], job["spec"].get("runPolicy") or {}
    env = [
        {"name": "K_MPI_JOB_ROLE", "value": "launcher"},
        {"name": "OMPI_MCA_orte_keep_fqdn_hostnames", "value": "true"},
        {"name": "OMPI_MCA_orte_default_hostfile", "value": f"{MOUNT}/hostfile"},
        {"name": "OMPI_MCA_plm_rsh_args", "value": f"-o ConnectionAttempts={TRIES}"},
        {"name": "OMPI_MCA_orte_set_default_slots", "value": str(job["spec"].get("slotsPerWorker", 1))},
        {"name": "NVIDIA_VISIBLE_DEVICES"},
        {"name": "NVIDIA_DRIVER_CAPABILITIES"},
    ]
    names = {"subdomain": meta["name"], "hostname": f"{meta['name']}-launcher"}
    spec = _with_keys(job, {**template["spec"], "restartPolicy": _restart(job, "Launcher"), **names})
    first = spec["containers"][0]
    first["env"] = [*(first.get("env") or ()), *env]
    first["volumeMounts"].append({"name": "mpi-job-config", "mountPath": MOUNT})
    config = {"name": f"{meta['name']}-config", "items": CONFIG_FILES}
    spec["volumes"].append({"name": "mpi-job-config", "configMap": config})
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


def begin(post: Post) -> Operator:
    """Begin to run MPIJobs."""
    return Operator(post, MPIJobController)


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
