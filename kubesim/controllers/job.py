"""Jobs: pods until enough have succeeded, or too many have failed, or time is up.

Every pod carries a finalizer until its end is in the status, first by its uid and then as a number, so that no end is
lost or counted twice. What decides is said before it is done: FailureTarget or SuccessCriteriaMet comes first, Failed
or Complete when no pod is left that still ends.
"""

from __future__ import annotations

from datetime import datetime

from kubesim.conditions import condition_of
from kubesim.controllers import job_status, pods
from kubesim.controllers.base import Context, Keeper, controller_of, drop_finalizer, is_ending, latest, queue_key
from kubesim.controllers.job_status import (
    TRACKING,
    Backoff,
    Look,
    index_of,
    is_indexed,
    is_tracked,
    look_at,
    own_backoff,
    per_index,
    pod_of,
)
from kubesim.controllers.owned import Owned
from kubesim.errors import ApiError, Obj
from kubesim.times import parse, stamp

CONTROLLER = "kubernetes.io/job-controller"
BATCH_S = 1.0
BURST = 500
TEXTS = {
    "BackoffLimitExceeded": "Job has reached the specified backoff limit",
    "DeadlineExceeded": "Job was active longer than specified deadline",
    "MaxFailedIndexesExceeded": "Job has exceeded the specified maximal number of failed indexes",
    "FailedIndexes": "Job has failed indexes",
}
REACHED = ("CompletionsReached", "Reached expected number of succeeded pods")
INTERIM = {"FailureTarget": "Failed", "SuccessCriteriaMet": "Complete"}


class JobController(Keeper):
    """Runs jobs."""

    source = "job-controller"
    resource = "jobs.batch"
    retry_s = 1.0

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.pods = Owned(self, "pods", finalizer=TRACKING, delay_s=BATCH_S)
        self._backoffs: dict[str, Backoff] = {}

    def listen(self) -> None:
        """Watch Jobs and their pods."""
        self.pods.informer.add_index("tracked", _tracking_job)
        self.pods.listen()
        self.pods.informer.add_handler(self._orphaned)
        self.own.add_handler(self._changed)

    def _changed(self, old: Obj | None, new: Obj | None) -> None:
        """Look at a job; at one whose status alone changed (by our own report) after a moment."""
        key = queue_key(latest(old, new))
        if old is None or new is None or old["metadata"]["generation"] != new["metadata"]["generation"]:
            self.queue.add(key)
        else:
            self.queue.add_after(key, BATCH_S)

    def _orphaned(self, old: Obj | None, new: Obj | None) -> None:
        if new is not None and is_tracked(new) and controller_of(new) is None:
            self.queue.add(f"{new['metadata']['namespace']}/")

    async def gone(self, namespace: str, name: str) -> None:
        """Forget a job, and let its pods go."""
        self._backoffs.pop(f"{namespace}/{name}", None)
        await self._release_orphans(namespace, name)

    async def look_after(self, job: Obj) -> None:
        """Count what has ended, decide how the job stands, and start what is missing."""
        if job["spec"].get("managedBy", CONTROLLER) != CONTROLLER:
            return
        meta = job["metadata"]
        await self._release_orphans(meta["namespace"], meta["name"], meta["uid"])
        if finished(job) is not None:
            self._backoffs.pop(queue_key(job), None)
            await self._clean_up(job)
            return
        look = look_at(job, await self.pods.claim(job))
        if not look.status.get("startTime") and not _suspended(job):
            look.status["startTime"] = stamp(self.clock.now())
        backoff = self._backoffs.get(queue_key(job), Backoff()).after(*job_status.fresh(look))
        look.decided = self._decide(look)
        failure = None
        if look.decided is not None:
            await self._delete(look, look.active_pods)
        else:
            failure = await self._manage(look, backoff)
        await self._track(look, backoff)
        if failure is not None:
            raise failure

    # How the job stands.

    def _decide(self, look: Look) -> tuple[str, str, str] | None:
        """Return the interim condition that ends the job, if one stands already or now has to."""
        for kind in ("SuccessCriteriaMet", "FailureTarget"):
            old = condition_of(look.status, kind)
            if old.get("status") == "True":
                return kind, old["reason"], old["message"]
        failed = [pod for pod in look.pods if job_status.has_failed(look.job, pod)]
        message = next((text for pod in failed if (text := job_status.judge(look.job, pod).message)), "")
        if message:
            return "FailureTarget", "PodFailurePolicy", message
        reason = self._limit_exceeded(look)
        if reason:
            return "FailureTarget", reason, TEXTS[reason]
        message = job_status.success(look.job, look.good) if is_indexed(look.job) else ""
        return ("SuccessCriteriaMet", "SuccessPolicy", message) if message else None

    def _limit_exceeded(self, look: Look) -> str:
        """Return the reason of a failure by numbers or by time, nothing without one."""
        spec = look.job["spec"]
        limit, deadline = spec.get("backoffLimit", 6), spec.get("activeDeadlineSeconds")
        if look.failed > limit or _too_many_restarts(look, limit):
            return "BackoffLimitExceeded"
        if deadline is not None and not spec.get("suspend"):
            left = deadline - (self.clock.now() - parse(look.status["startTime"])).total_seconds()
            if left <= 0:
                return "DeadlineExceeded"
            self.queue.add_after(queue_key(look.job), left)
        if len(look.bad) > spec.get("maxFailedIndexes", len(look.bad)):
            return "MaxFailedIndexesExceeded"
        if look.bad and len(look.bad) + len(look.good) >= spec["completions"]:
            return "FailedIndexes"
        return ""

    # What is done about it.

    async def _manage(self, look: Look, backoff: Backoff) -> ApiError | None:
        """Create and delete pods, see whether the job is complete, and tell of its suspension."""
        failure = None
        if not is_ending(look.job):
            failure = await self._adjust(look, backoff)
        completions = look.job["spec"].get("completions")
        enough = look.succeeded > 0 if completions is None else look.succeeded >= completions
        if enough and not look.active:
            look.decided = ("SuccessCriteriaMet", *REACHED)
        elif not is_ending(look.job):
            await self._tell_suspended(look)
        return failure

    async def _adjust(self, look: Look, backoff: Backoff) -> ApiError | None:
        """Bring the number of pods to what is wanted; returns why one was refused."""
        spec, active = look.job["spec"], look.active_pods
        wanted = 0 if spec.get("suspend") else _wanted(look)
        surplus = job_status.for_removal(look.job, active, max(0, len(active) - wanted))
        if surplus:
            for pod in surplus[:BURST]:
                await self._untrack(pod)
            await self._delete(look, surplus[:BURST])
            return None
        missing = wanted - len(active)
        if job_status.only_failed_are_replaced(look.job):
            missing -= look.terminating
        if missing <= 0:
            return None
        indexes, wait = self._to_create(look, min(missing, BURST), backoff)
        if wait > 0:
            self.queue.add_after(queue_key(look.job), max(wait, BATCH_S))
            look.active = 0  # as upstream counts while it waits
            return None
        before = len(self.pods.of(look.job))
        failure = await pods.create_all(self, look.job, [pod_of(look, index) for index in indexes])
        look.active += len(self.pods.of(look.job)) - before
        return failure

    def _to_create(self, look: Look, count: int, backoff: Backoff) -> tuple[list[int], float]:
        """Return the indexes of the pods to create, or else the seconds until one may be created."""
        now = self.clock.now()
        if not is_indexed(look.job):
            return [job_status.UNKNOWN] * count, backoff.remaining(now)
        taken = look.good | look.bad | {index_of(pod) for pod in look.active_pods}
        if job_status.only_failed_are_replaced(look.job):
            taken |= {index_of(pod) for pod in look.pods if is_ending(pod) and pods.phase_of(pod) not in pods.ENDED}
        indexes = job_status.pending(count, look.job["spec"]["completions"], taken)
        if not per_index(look.job):
            return indexes, backoff.remaining(now)
        waits = {index: own_backoff(look.replaced.get(index)).remaining(now) for index in indexes}
        ready = [index for index in indexes if not waits[index]]
        return ready, 0.0 if ready else min(waits.values(), default=0.0)

    async def _delete(self, look: Look, found: list[Obj]) -> None:
        for pod in found:
            await self.remove(look.job, self.pods.informer, pod)
            look.active -= 1
            look.terminating += 1
            look.ready -= pods.ready_since(pod) is not None

    async def _tell_suspended(self, look: Look) -> None:
        """Set the condition and tell of a suspension or its end, after which the time runs anew."""
        now, suspended = self.clock.now(), _suspended(look.job)
        word = "Suspended" if suspended else "Resumed"
        text = f"Job {word.lower()}"
        if job_status.set_condition(look.status, "Suspended", str(suspended), f"Job{word}", text, now):
            await self.recorder.normal(look.job, word, text)
            if not suspended:
                look.status["startTime"] = stamp(now)

    # What is said about it.

    async def _track(self, look: Look, backoff: Backoff) -> None:
        """Note what has ended, let those pods go, count them, and end the job if it is decided."""
        status, now = look.status, self.clock.now()
        status |= {"active": look.active, "ready": look.ready, "terminating": look.terminating}
        tracked = {pod["metadata"]["uid"] for pod in look.pods if is_tracked(pod)}
        job_status.count(status, tracked)
        done = [pod for pod in look.pods if is_tracked(pod) and job_status.may_go(look, pod)][:BURST]
        for pod in done:
            job_status.note_end(look, pod)
        if is_indexed(look.job):
            status |= {"succeeded": len(look.good), "completedIndexes": job_status.shown_indexes(look.good)}
        if per_index(look.job):
            status["failedIndexes"] = job_status.shown_indexes(look.bad)
        if look.decided is not None and not condition_of(status, look.decided[0]):
            status["conditions"].append(job_status.condition(*look.decided, now))
        job = await self.write_status(self.own, look.job, job_status.shown(status))
        self._backoffs[queue_key(job)] = backoff
        for pod in done:
            await self._untrack(pod)
        job_status.count(status, tracked - {pod["metadata"]["uid"] for pod in done})
        ended = look.decided is not None and not look.terminating and not any(job_status.uncounted(status).values())
        if ended and look.decided is not None:
            kind, reason, message = look.decided
            job_status.set_condition(status, INTERIM[kind], "True", reason, message, now)
            status |= {"completionTime": stamp(now)} if kind == "SuccessCriteriaMet" else {}
        job = await self.write_status(self.own, job, job_status.shown(status))
        if ended:
            await self._tell_ended(look)

    async def _tell_ended(self, look: Look) -> None:
        assert look.decided is not None
        kind, reason, message = look.decided
        if kind == "FailureTarget":
            await self.recorder.warning(look.job, reason, message)
            return
        completions = look.job["spec"].get("completions")
        if completions is not None and look.status["succeeded"] > completions:
            await self.tell(look.job, "TooManySucceededPods")
        await self.tell(look.job, "Completed")

    async def _untrack(self, pod: Obj) -> None:
        await drop_finalizer(self.pods.informer, pod, TRACKING)

    async def _release_orphans(self, namespace: str, name: str, uid: str = "") -> None:
        """Pods whose job is gone must not wait to be counted, also where a new job has taken its name."""
        tracked = self.pods.informer
        for pod in [*tracked.by("tracked", f"{namespace}/{name}"), *tracked.by("tracked", f"{namespace}/")]:
            owner = controller_of(pod)
            if owner is None or (owner["kind"] == "Job" and owner["uid"] != uid):
                await self._untrack(pod)

    async def _clean_up(self, job: Obj) -> None:
        """Let a finished job's last pods go, and the job itself when its time to live is over."""
        for pod in self.pods.of(job):
            await self._untrack(pod)
        ttl = job["spec"].get("ttlSecondsAfterFinished")
        at = finished(job)
        if ttl is None or at is None or is_ending(job):
            return
        left = ttl - (self.clock.now() - at).total_seconds()
        if left > 0:
            self.queue.add_after(queue_key(job), left)
        else:
            await self.own.delete(job, "Foreground")


def finished(job: Obj) -> datetime | None:
    """Return when a job became complete or failed."""
    for condition in job.get("status", {}).get("conditions") or ():
        if condition["type"] in ("Complete", "Failed") and condition["status"] == "True":
            return parse(condition["lastTransitionTime"])
    return None


def _tracking_job(pod: Obj) -> list[str]:
    """The job, by name, that a pod waits to be counted by; no name if it has lost its owner."""
    owner = controller_of(pod)
    return [f"{pod['metadata']['namespace']}/{owner['name'] if owner else ''}"] if is_tracked(pod) else []


def _suspended(job: Obj) -> bool:
    return bool(job["spec"].get("suspend"))


def _wanted(look: Look) -> int:
    """How many pods shall run: as many as may, but no more than completions are missing."""
    spec = look.job["spec"]
    parallelism, completions = spec.get("parallelism", 1), spec.get("completions")
    if completions is None:
        return len(look.active_pods) if look.succeeded else int(parallelism)
    return max(0, min(int(parallelism), int(completions) - look.succeeded))


def _too_many_restarts(look: Look, limit: int) -> bool:
    """With restartPolicy OnFailure, restarts inside running pods count against the limit."""
    if look.job["spec"]["template"]["spec"].get("restartPolicy") != "OnFailure":
        return False
    total = sum(pods.restarts(pod) for pod in look.pods if pods.phase_of(pod) in ("Running", "Pending"))
    return total > 0 if limit == 0 else total >= limit
