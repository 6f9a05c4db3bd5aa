"""CronJobs: a job whenever the schedule says so."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfoNotFoundError

from kubesim.api.cron import Schedule, ScheduleError, parse
from kubesim.controllers import job as jobs
from kubesim.controllers.base import (
    Context,
    Controller,
    controller_of,
    delete_if_there,
    is_ending,
    owner_reference,
    queue_key,
)
from kubesim.errors import ApiError, Obj
from kubesim.times import parse as moment
from kubesim.times import stamp

SCHEDULED_AT = "batch.kubernetes.io/cronjob-scheduled-timestamp"
MANY = 100
SLACK_S = 0.1
"""Work begins a moment after the minute, so that it is surely over."""


class CronJobController(Controller):
    """Starts the jobs of cron jobs, and clears away the old ones."""

    source = "cronjob-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.crons = self.informers["cronjobs.batch"]
        self.jobs = self.informers["jobs.batch"]

    def listen(self) -> None:
        """Watch CronJobs and their jobs."""
        self.watch_owned(self.jobs, "CronJob")
        self.watch_own(self.crons)

    async def sync(self, namespace: str, name: str) -> None:
        """Take note of what has ended, start what is due, and come back at the next time."""
        cron = self.crons.get(namespace, name)
        if cron is None:
            return
        owned = self.jobs.by("controller", cron["metadata"]["uid"])
        await self._clear(cron, owned)
        status = dict(cron.get("status", {}))
        status["active"] = await self._active(cron, owned, status)
        if not is_ending(cron):
            await self._run(cron, status)
        if not status["active"]:
            del status["active"]
        await self.write_status(self.crons, cron, status)

    async def _active(self, cron: Obj, owned: list[Obj], status: Obj) -> list[Obj]:
        """Return the jobs that still run, of those that the status names."""
        by_uid = {found["metadata"]["uid"]: found for found in owned}
        active = []
        for reference in status.get("active") or ():
            found = by_uid.get(reference["uid"])
            if found is None:
                await self.recorder.normal(cron, "MissingJob", f"Active job went missing: {reference['name']}")
            elif jobs.finished(found) is None:
                active.append(reference)
            else:
                await self._note_end(cron, found, status)
        return active

    async def _note_end(self, cron: Obj, found: Obj, status: Obj) -> None:
        kind = "Complete" if jobs.has(found["status"], "Complete") else "Failed"
        text = f"Saw completed job: {found['metadata']['name']}, condition: {kind}"
        await self.recorder.normal(cron, "SawCompletedJob", text)
        ended = found["status"].get("completionTime")
        if kind == "Complete" and ended and ended > status.get("lastSuccessfulTime", ""):
            status["lastSuccessfulTime"] = ended

    async def _run(self, cron: Obj, status: Obj) -> None:
        schedule = await self._schedule(cron)
        if schedule is None or cron["spec"].get("suspend"):
            return
        now = self.clock.now()
        due = await self._due(cron, schedule, status, now)
        if due is not None:
            await self._start(cron, status, due, now)
        wait = (schedule.after(now) - now).total_seconds() + SLACK_S
        self.queue.add_after(queue_key(cron), wait)

    async def _schedule(self, cron: Obj) -> Schedule | None:
        """Read the schedule; one that makes no sense is told of and left alone."""
        spec = cron["spec"]
        zone = spec.get("timeZone") or ""
        try:
            return parse(spec["schedule"], zone)
        except ScheduleError as error:
            text = f'unparseable schedule: "{spec["schedule"]}" : {error}'
            await self.recorder.warning(cron, "UnparseableSchedule", text)
        except (ZoneInfoNotFoundError, ValueError):
            text = f'invalid timeZone: "{zone}": unknown time zone {zone}'
            await self.recorder.warning(cron, "UnknownTimeZone", text)
        return None

    async def _due(self, cron: Obj, schedule: Schedule, status: Obj, now: datetime) -> datetime | None:
        """Return the newest time that has come and that no job was started for."""
        deadline = cron["spec"].get("startingDeadlineSeconds")
        since = moment(status.get("lastScheduleTime") or cron["metadata"]["creationTimestamp"])
        if deadline is not None:
            since = max(since, now - timedelta(seconds=deadline))
        missed, newest, at = 0, None, schedule.after(since)
        while at <= now and missed <= MANY:
            missed, newest, at = missed + 1, at, schedule.after(at)
        if missed > MANY:
            text = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
            await self.recorder.warning(cron, "TooManyMissedTimes", text)
            newest = _newest(schedule, now)
        if newest is None or newest == moment(status.get("lastScheduleTime") or "1970-01-01T00:00:00Z"):
            return None
        if deadline is not None and newest + timedelta(seconds=deadline) < now:
            told = newest.strftime("%a, %d %b %Y %H:%M:%S +0000")
            await self.recorder.warning(cron, "MissSchedule", f"Missed scheduled time to start a job: {told}")
            return None
        return newest

    async def _start(self, cron: Obj, status: Obj, due: datetime, now: datetime) -> None:
        policy, active = cron["spec"].get("concurrencyPolicy"), status["active"]
        if policy == "Forbid" and active:
            text = "Not starting job because prior execution is running and concurrency policy is Forbid"
            await self.recorder.normal(cron, "JobAlreadyActive", text)
            return
        if policy == "Replace":
            for reference in active:
                found = self.jobs.get(cron["metadata"]["namespace"], reference["name"])
                if found is not None:
                    await self._delete(cron, found)
            status["active"] = active = []
        made = await self._create(cron, due)
        if made is not None:
            active.append(_reference(made))
            status["lastScheduleTime"] = stamp(due)

    async def _create(self, cron: Obj, due: datetime) -> Obj | None:
        namespace = cron["metadata"]["namespace"]
        try:
            made = await self.client.create("jobs.batch", job_of(cron, due), namespace=namespace)
        except ApiError as error:
            if error.reason == "AlreadyExists":
                found = self.jobs.get(namespace, job_name(cron, due))
                owner = controller_of(found) if found is not None else None
                return found if owner is not None and owner["uid"] == cron["metadata"]["uid"] else None
            if "is being terminated" not in error.message:
                text = f"Error creating job: {error.message}"
                await self.recorder.warning(cron, "FailedCreate", text)
            raise
        self.jobs.note(made, created=True)
        await self.recorder.normal(cron, "SuccessfulCreate", f"Created job {made['metadata']['name']}")
        return made

    async def _delete(self, cron: Obj, found: Obj) -> None:
        if await delete_if_there(self, "jobs.batch", found):
            await self.recorder.normal(cron, "SuccessfulDelete", f"Deleted job {found['metadata']['name']}")

    async def _clear(self, cron: Obj, owned: list[Obj]) -> None:
        """Delete the oldest finished jobs beyond the limits."""
        spec, ended = cron["spec"], [found for found in owned if jobs.finished(found) is not None]
        for kind, limit in (("Complete", "successfulJobsHistoryLimit"), ("Failed", "failedJobsHistoryLimit")):
            found = sorted((each for each in ended if jobs.has(each["status"], kind)), key=_begun)
            if spec.get(limit) is not None:
                for old in found[: max(0, len(found) - spec[limit])]:
                    if not is_ending(old):
                        await self._delete(cron, old)


def job_name(cron: Obj, due: datetime) -> str:
    """Return the name of the job of one time: the minutes since 1970 keep it from being made twice."""
    return f"{cron['metadata']['name']}-{int(due.timestamp()) // 60}"


def job_of(cron: Obj, due: datetime) -> Obj:
    """Return the job of one time."""
    template = cron["spec"]["jobTemplate"]
    given = template.get("metadata") or {}
    metadata = {
        "name": job_name(cron, due),
        "namespace": cron["metadata"]["namespace"],
        "labels": dict(given.get("labels") or {}),
        "annotations": {**(given.get("annotations") or {}), SCHEDULED_AT: stamp(due)},
        "ownerReferences": [owner_reference(cron)],
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": dict(template["spec"])}


def _newest(schedule: Schedule, now: datetime) -> datetime | None:
    """Return the last time before now, looked for ever further back."""
    for minutes in (2, 60, 24 * 60, 32 * 24 * 60, 366 * 24 * 60):
        at, newest = schedule.after(now - timedelta(minutes=minutes)), None
        while at <= now:
            newest, at = at, schedule.after(at)
        if newest is not None:
            return newest.astimezone(UTC)
    return None


def _begun(job: Obj) -> tuple[str, str]:
    return job["status"].get("startTime", ""), job["metadata"]["name"]


def _reference(job: Obj) -> Obj:
    meta = job["metadata"]
    names = {name: meta[name] for name in ("namespace", "name", "uid", "resourceVersion")}
    return {"kind": "Job", "apiVersion": "batch/v1", **names}
