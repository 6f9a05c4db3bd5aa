"""Jobs: pods until enough have succeeded, or too many have failed, or time is up.

Every pod carries a finalizer until its end has been counted in the status, so that no end is lost or counted twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from kubesim.controllers import pods
from kubesim.controllers.base import Context, Controller, controller_of, is_ending
from kubesim.errors import ApiError, Obj
from kubesim.times import parse, stamp

TRACKING = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
BATCH_S = 1.0
FIRST_BACKOFF_S = 10.0
LONGEST_BACKOFF_S = 600.0
TEXTS = {
    "BackoffLimitExceeded": "Job has reached the specified backoff limit",
    "DeadlineExceeded": "Job was active longer than specified deadline",
}
REACHED = ("CompletionsReached", "Reached expected number of succeeded pods")


@dataclass
class Tally:
    """The pods of a job as they are now, and the counters after this look."""

    active: list[Obj]
    ended: list[Obj]
    """Ended or deleted, still with the finalizer: not counted in the status yet."""
    succeeded: int
    failed: int
    indexes: set[int]
    """Indexes that have succeeded (completionMode Indexed)."""


class JobController(Controller):
    """Runs jobs."""

    source = "job-controller"
    retry_s = 1.0

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.jobs = self.informers["jobs.batch"]
        self.pods = self.informers["pods"]

    def listen(self) -> None:
        """Watch Jobs and their pods."""
        self.pods.add_index("tracked", _tracking_job)
        self.watch_owned(self.pods, "Job")
        self.jobs.add_handler(self._changed)

    def _changed(self, old: Obj | None, new: Obj | None) -> None:
        """Look at a job; at one whose status alone changed (by our own report) after a moment."""
        job = new or old
        assert job is not None
        if old is None or new is None or old["metadata"]["generation"] != new["metadata"]["generation"]:
            self.queue.add(_key(job))
        else:
            self.queue.add_after(_key(job), BATCH_S)

    async def sync(self, namespace: str, name: str) -> None:
        """Count what has ended, decide how the job stands, and start what is missing."""
        job = self.jobs.get(namespace, name)
        await self._release_orphans(namespace, name, job["metadata"]["uid"] if job is not None else "")
        if job is None:
            return
        if finished(job) is not None:
            await self._clean_up(job)
            return
        tally = self._tally(job)
        status = dict(job.get("status", {}))
        status["conditions"] = list(status.get("conditions") or [])
        failure: ApiError | None = None
        await self._start(job, status)
        reason = self._verdict(job, status, tally)
        if reason == "Complete" or has(status, "SuccessCriteriaMet"):
            await self._complete(job, status, tally)
        elif reason or has(status, "FailureTarget"):
            await self._fail(job, status, tally, reason)
        elif job["spec"].get("suspend"):
            await self._delete(job, tally.active)
            tally.active = []
        elif not is_ending(job):
            failure = await self._fill(job, tally)
        await self._report(job, status, tally)
        if failure is not None:
            raise failure

    def _tally(self, job: Obj) -> Tally:
        owned = self.pods.by("controller", job["metadata"]["uid"])
        ended = [pod for pod in owned if _ended(pod) and _tracked(pod)]
        status = job.get("status", {})
        good = [pod for pod in ended if pods.phase_of(pod) == "Succeeded"]
        indexes = _parse_indexes(status.get("completedIndexes", "")) | {index_of(pod) for pod in good}
        fresh = len(good)
        if _indexed(job):
            fresh = len(indexes) - status.get("succeeded", 0)
        return Tally(
            active=[pod for pod in owned if pods.is_active(pod)],
            ended=ended,
            succeeded=status.get("succeeded", 0) + fresh,
            failed=status.get("failed", 0) + sum(pods.phase_of(pod) != "Succeeded" for pod in ended),
            indexes=indexes,
        )

    async def _start(self, job: Obj, status: Obj) -> None:
        """Set startTime, and tell of suspension and resumption."""
        suspended = has(status, "Suspended")
        if job["spec"].get("suspend"):
            if not suspended:
                self._set(status, "Suspended", "True", "JobSuspended", "Job suspended")
                await self.recorder.normal(job, "Suspended", "Job suspended")
            return
        if suspended:
            self._set(status, "Suspended", "False", "JobResumed", "Job resumed")
            await self.recorder.normal(job, "Resumed", "Job resumed")
        status.setdefault("startTime", stamp(self.clock.now()))

    def _verdict(self, job: Obj, status: Obj, tally: Tally) -> str:
        """Return Complete, the reason of a failure, or nothing."""
        spec = job["spec"]
        limit = spec.get("backoffLimit", 6)
        if tally.failed > limit or self._too_many_restarts(job, tally, limit):
            return "BackoffLimitExceeded"
        deadline = spec.get("activeDeadlineSeconds")
        if deadline is not None and not spec.get("suspend"):
            left = deadline - (self.clock.now() - parse(status["startTime"])).total_seconds()
            if left <= 0:
                return "DeadlineExceeded"
            self.queue.add_after(_key(job), left)
        completions = spec.get("completions")
        if completions is None:
            return "Complete" if tally.succeeded and not tally.active else ""
        return "Complete" if tally.succeeded >= completions else ""

    def _too_many_restarts(self, job: Obj, tally: Tally, limit: int) -> bool:
        """With restartPolicy OnFailure, restarts inside running pods count against the limit."""
        if job["spec"]["template"]["spec"].get("restartPolicy") != "OnFailure":
            return False
        total = sum(pods.restarts(pod) for pod in tally.active)
        return total > 0 if limit == 0 else total >= limit

    async def _complete(self, job: Obj, status: Obj, tally: Tally) -> None:
        """Stop what is still running; the job is complete when nothing is left."""
        self._set(status, "SuccessCriteriaMet", "True", *REACHED)
        await self._delete(job, tally.active)
        tally.active = []
        if self._terminating(job):
            return
        self._set(status, "Complete", "True", *REACHED)
        status["completionTime"] = stamp(self.clock.now())
        await self.recorder.normal(job, "Completed", "Job completed")

    async def _fail(self, job: Obj, status: Obj, tally: Tally, reason: str) -> None:
        """Delete the running pods; the job has failed when they are gone."""
        old = next((c for c in status["conditions"] if c["type"] == "FailureTarget"), None)
        reason = old["reason"] if old is not None else reason
        self._set(status, "FailureTarget", "True", reason, TEXTS[reason])
        await self._delete(job, tally.active)
        tally.failed += len(tally.active)
        tally.active = []
        if self._terminating(job):
            return
        self._set(status, "Failed", "True", reason, TEXTS[reason])
        await self.recorder.warning(job, reason, TEXTS[reason])

    def _terminating(self, job: Obj) -> int:
        owned = self.pods.by("controller", job["metadata"]["uid"])
        return sum(is_ending(pod) and pods.phase_of(pod) not in pods.ENDED for pod in owned)

    async def _delete(self, job: Obj, active: list[Obj]) -> None:
        """Delete pods and stop tracking them: what they would have come to is counted by the caller."""
        for pod in active:
            await self._untrack(pod)
            await pods.delete(self, job, pod)

    async def _fill(self, job: Obj, tally: Tally) -> ApiError | None:
        """Create the pods that are missing, after the back-off that failures ask for; return why one was refused."""
        spec = job["spec"]
        parallelism, completions = spec.get("parallelism", 1), spec.get("completions")
        wanted = parallelism
        if completions is not None:
            wanted = min(parallelism, completions - tally.succeeded)
        elif tally.succeeded:
            wanted = len(tally.active)
        surplus = sorted(tally.active, key=pods.deletion_rank)[: max(0, len(tally.active) - max(wanted, 0))]
        await self._delete(job, surplus)
        tally.active = [pod for pod in tally.active if pod not in surplus]
        missing = wanted - len(tally.active)
        wait = self._backoff(job) if missing > 0 else 0.0
        if wait > 0:
            self.queue.add_after(_key(job), wait)
        if missing <= 0 or wait > 0:
            return None
        try:
            for index in self._free_indexes(job, tally)[:missing] if _indexed(job) else [None] * missing:
                tally.active.append(await pods.create(self, job, pod_of(job, index)))
        except ApiError as error:
            return error
        return None

    def _backoff(self, job: Obj) -> float:
        """Return the seconds until pods may be created: 10 s after the first failure, doubling."""
        owned = self.pods.by("controller", job["metadata"]["uid"])
        good = [_ended_at(pod) for pod in owned if pods.phase_of(pod) == "Succeeded"]
        since = max(good, default=None)
        bad = [_ended_at(pod) for pod in owned if pods.phase_of(pod) == "Failed"]
        bad = [at for at in bad if since is None or at > since]
        if not bad:
            return 0.0
        delay = min(FIRST_BACKOFF_S * float(2 ** min(len(bad) - 1, 10)), LONGEST_BACKOFF_S)
        return delay - (self.clock.now() - max(bad)).total_seconds()

    def _free_indexes(self, job: Obj, tally: Tally) -> list[int]:
        taken = tally.indexes | {index_of(pod) for pod in tally.active}
        return [index for index in range(job["spec"].get("completions") or 0) if index not in taken]

    async def _report(self, job: Obj, status: Obj, tally: Tally) -> None:
        """Write the counters, then let the counted pods go."""
        ready = sum(pods.ready_since(pod) is not None for pod in tally.active)
        counts = {"active": len(tally.active), "succeeded": tally.succeeded, "failed": tally.failed}
        for name, count in counts.items():
            if count:
                status[name] = count
            else:
                status.pop(name, None)
        status |= {"ready": ready, "terminating": self._terminating(job), "uncountedTerminatedPods": {}}
        if _indexed(job) and tally.indexes:
            status["completedIndexes"] = _format_indexes(tally.indexes)
        if not status["conditions"]:
            del status["conditions"]
        await self.write_status(self.jobs, job, status)
        for pod in tally.ended:
            await self._untrack(pod)

    async def _untrack(self, pod: Obj) -> None:
        meta = pod["metadata"]
        if not _tracked(pod):
            return
        kept = [name for name in meta["finalizers"] if name != TRACKING]
        patch = {"metadata": {"uid": meta["uid"], "finalizers": kept or None}}
        try:
            answer = await self.client.patch("pods", meta["name"], meta["namespace"], patch)
        except ApiError as error:
            if error.code not in (404, 409):
                raise
            return
        self.pods.note(answer)

    async def _release_orphans(self, namespace: str, name: str, uid: str) -> None:
        """Pods whose job is gone must not wait to be counted, also where a new job has taken its name."""
        strays = self.pods.by("tracked", f"{namespace}/")
        for pod in [*self.pods.by("tracked", f"{namespace}/{name}"), *strays]:
            owner = controller_of(pod)
            if owner is None or owner["uid"] != uid:
                await self._untrack(pod)

    async def _clean_up(self, job: Obj) -> None:
        """Let a finished job's last pods go, and the job itself when its time to live is over."""
        for pod in self.pods.by("controller", job["metadata"]["uid"]):
            if _ended(pod):
                await self._untrack(pod)
        ttl = job["spec"].get("ttlSecondsAfterFinished")
        at = finished(job)
        if ttl is None or at is None or is_ending(job):
            return
        left = ttl - (self.clock.now() - at).total_seconds()
        if left > 0:
            self.queue.add_after(_key(job), left)
            return
        meta = job["metadata"]
        await self.client.delete(
            "jobs.batch", meta["name"], meta["namespace"], uid=meta["uid"], propagation="Foreground"
        )

    def _set(self, status: Obj, kind: str, truth: str, reason: str, message: str) -> None:
        """Set a condition, unless it stands already."""
        now = stamp(self.clock.now())
        fresh = {
            "type": kind,
            "status": truth,
            "lastProbeTime": now,
            "lastTransitionTime": now,
            "reason": reason,
            "message": message,
        }
        old = next((c for c in status["conditions"] if c["type"] == kind), None)
        if old is None:
            status["conditions"].append(fresh)
        elif old["status"] != truth:
            status["conditions"][status["conditions"].index(old)] = fresh


def pod_of(job: Obj, index: int | None) -> Obj:
    """Return a new pod of a job, with the labels that tell whose it is."""
    meta = job["metadata"]
    prefix = f"{meta['name']}-{index}-" if index is not None else ""
    pod = pods.from_template(job, job["spec"]["template"], name=prefix)
    own = {"controller-uid": meta["uid"], "job-name": meta["name"]}
    pod["metadata"]["labels"] |= own | {f"batch.kubernetes.io/{name}": value for name, value in own.items()}
    pod["metadata"]["finalizers"] = [*pod["metadata"].get("finalizers", ()), TRACKING]
    if index is not None:
        _give_index(pod, meta["name"], index)
    return pod


def _give_index(pod: Obj, job: str, index: int) -> None:
    meta, spec = pod["metadata"], pod["spec"]
    meta["labels"][INDEX] = str(index)
    meta["annotations"] = {**meta.get("annotations", {}), INDEX: str(index)}
    spec["hostname"] = f"{job}-{index}"
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}
    variable = {"name": "JOB_COMPLETION_INDEX", "valueFrom": source}
    spec["containers"] = [{**c, "env": [*(c.get("env") or ()), variable]} for c in spec["containers"]]


def finished(job: Obj) -> datetime | None:
    """Return when a job became complete or failed."""
    for condition in job.get("status", {}).get("conditions") or ():
        if condition["type"] in ("Complete", "Failed") and condition["status"] == "True":
            return parse(condition["lastTransitionTime"])
    return None


def has(status: Obj, kind: str) -> bool:
    """Whether a condition is true."""
    return any(c["type"] == kind and c["status"] == "True" for c in status.get("conditions") or ())


def index_of(pod: Obj) -> int:
    """Return the completion index of a pod, -1 without one."""
    return int((pod["metadata"].get("annotations") or {}).get(INDEX, "-1"))


def _indexed(job: Obj) -> bool:
    return bool(job["spec"].get("completionMode") == "Indexed")


def _tracked(pod: Obj) -> bool:
    return TRACKING in (pod["metadata"].get("finalizers") or ())


def _tracking_job(pod: Obj) -> list[str]:
    """The job, by name, that a pod waits to be counted by; no name if it has lost its owner."""
    owner = controller_of(pod)
    return [f"{pod['metadata']['namespace']}/{owner['name'] if owner else ''}"] if _tracked(pod) else []


def _ended(pod: Obj) -> bool:
    return pods.phase_of(pod) in pods.ENDED or is_ending(pod)


def _ended_at(pod: Obj) -> datetime:
    """When the last container of an ended pod ended."""
    statuses = pod.get("status", {}).get("containerStatuses") or ()
    times = [s["state"]["terminated"]["finishedAt"] for s in statuses if s.get("state", {}).get("terminated")]
    return parse(max(times, default=pod["metadata"]["creationTimestamp"]))


def _parse_indexes(text: str) -> set[int]:
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def _format_indexes(indexes: set[int]) -> str:
    parts: list[list[int]] = []
    for index in sorted(indexes):
        if parts and index == parts[-1][1] + 1:
            parts[-1][1] = index
        else:
            parts.append([index, index])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def _key(job: Obj) -> str:
    return f"{job['metadata']['namespace']}/{job['metadata']['name']}"
