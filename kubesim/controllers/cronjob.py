"""CronJobs: a job whenever the schedule says so."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from kubesim.api.cron import Schedule, ScheduleError, parse
from kubesim.controllers import job as jobs
from kubesim.controllers.base import Context, Keeper, controller_uid, is_ending, latest, owner_reference, queue_key
from kubesim.errors import ApiError, Obj
from kubesim.schema.paths import is_true
from kubesim.times import parse as moment
from kubesim.times import stamp

SCHEDULED_AT = "batch.kubernetes.io/cronjob-scheduled-timestamp"
MANY = 100
SLACK_S = 0.1
"""Work begins a moment after the minute, so that it is surely over."""


class CronJobController(Keeper):
    """Starts the jobs of cron jobs, and clears away the old ones."""

    source = "cronjob-controller"
    resource = "cronjobs.batch"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.jobs = self.informers["jobs.batch"]

    def listen(self) -> None:
        """Watch CronJobs and their jobs."""
        self.watch_owned(self.jobs, self.kind)
        self.own.add_handler(self._changed)

    def _changed(self, old: Obj | None, new: Obj | None) -> None:
        """Look at a cron job at once; at one with a new schedule when that comes round."""
        key = queue_key(latest(old, new))
        if old is not None and new is not None and _when(old) != _when(new):
            with suppress(ScheduleError, ZoneInfoNotFoundError):
                now = self.clock.now()
                left = (parse(*_when(new)).after(now) - now).total_seconds()
                self.queue.add_after(key, left + SLACK_S)
                return
        self.queue.add(key)

    async def look_after(self, cron: Obj) -> None:
        """Take note of what has ended, start what is due, and come back at the next time."""
        owned = self.jobs.by("controller", cron["metadata"]["uid"])
        status = dict(cron.get("status", {}))
        status["active"] = await self._active(cron, owned, status)
        for gone in await self._clear(cron, owned):
            status["active"] = [each for each in status["active"] if each["uid"] != gone]
        if not is_ending(cron):
            await self._run(cron, status)
        if not status["active"]:
            del status["active"]
        await self.write_status(self.own, cron, status)

    async def _active(self, cron: Obj, owned: list[Obj], status: Obj) -> list[Obj]:
        """Return the jobs that still run, of those that the status names; note the last success."""
        noted = {reference["uid"]: reference for reference in status.get("active") or ()}
        for found in owned:
            uid, name = found["metadata"]["uid"], found["metadata"]["name"]
            if jobs.finished(found) is not None:
                await self._note_end(cron, found, status, known=noted.pop(uid, None) is not None)
            elif uid not in noted:
                await self.tell(cron, "UnexpectedJob", name=name)
        there = {found["metadata"]["uid"] for found in owned}
        for uid in [uid for uid in noted if uid not in there]:
            await self.tell(cron, "MissingJob", name=noted.pop(uid)["name"])
        return list(noted.values())

    async def _note_end(self, cron: Obj, found: Obj, status: Obj, *, known: bool) -> None:
        kind = "Complete" if is_true(found, "Complete") else "Failed"
        if known:
            await self.tell(cron, "SawCompletedJob", name=found["metadata"]["name"], condition=kind)
        ended = found["status"].get("completionTime")
        if kind == "Complete" and ended and ended > status.get("lastSuccessfulTime", ""):
            status["lastSuccessfulTime"] = ended

    async def _run(self, cron: Obj, status: Obj) -> None:
        schedule = await self._schedule(cron)
        if schedule is None or cron["spec"].get("suspend"):
            return
        now = self.clock.now()
        try:
            due = await self._due(cron, schedule, status, now)
            wait = (schedule.after(now) - now).total_seconds() + SLACK_S
        except ScheduleError as error:
            await self.tell(cron, "InvalidSchedule", schedule=cron["spec"]["schedule"], error=error)
            return
        self.queue.add_after(queue_key(cron), wait)
        if due is not None:
            await self._start(cron, status, due)

    async def _schedule(self, cron: Obj) -> Schedule | None:
        """Read the schedule; one that makes no sense is told of and left alone."""
        spec = cron["spec"]
        zone = spec.get("timeZone") or ""
        try:
            return parse(spec["schedule"], zone)
        except ScheduleError as error:
            await self.tell(cron, "UnparseableSchedule", schedule=spec["schedule"], error=error)
        except (ZoneInfoNotFoundError, ValueError):
            await self.tell(cron, "UnknownTimeZone", zone=zone)
        return None

    async def _due(self, cron: Obj, schedule: Schedule, status: Obj, now: datetime) -> datetime | None:
        """Return the newest time that has come and that no job was started for. Raises ``ScheduleError``."""
        deadline, last = cron["spec"].get("startingDeadlineSeconds"), status.get("lastScheduleTime")
        since = moment(last or cron["metadata"]["creationTimestamp"])
        if deadline is not None:
            since = max(since, now - timedelta(seconds=deadline))
        newest, missed = _newest(schedule, since, now)
        if newest is None:
            return None
        if missed > MANY:
            await self.tell(cron, "TooManyMissedTimes")
        if deadline is not None and newest + timedelta(seconds=deadline) < now:
            await self.tell(cron, "MissSchedule", time=newest.strftime("%a, %d %b %Y %H:%M:%S +0000"))
            return None
        active = any(reference["name"] == job_name(cron, newest) for reference in status["active"])
        return None if active or (last and newest == moment(last)) else newest

    async def _start(self, cron: Obj, status: Obj, due: datetime) -> None:
        policy, active = cron["spec"].get("concurrencyPolicy"), status["active"]
        if policy == "Forbid" and active:
            await self.tell(cron, "JobAlreadyActive")
            return
        if policy == "Replace":
            for reference in active:
                found = self.jobs.get(cron["metadata"]["namespace"], reference["name"])
                if found is not None:
                    await self.remove(cron, self.jobs, found)
            status["active"] = active = []
        made = await self._create(cron, due)
        if made is not None:
            active.append(_reference(made))
            status["lastScheduleTime"] = stamp(due)

    async def _create(self, cron: Obj, due: datetime) -> Obj | None:
        try:
            made = await self.jobs.create(job_of(cron, due))
        except ApiError as error:
            if error.reason == "AlreadyExists":
                found = self.jobs.get(cron["metadata"]["namespace"], job_name(cron, due))
                return found if found is not None and controller_uid(found) == [cron["metadata"]["uid"]] else None
            if "is being terminated" not in error.message:
                await self.tell(cron, "FailedCreate", error=error.message)
            raise
        await self.tell(cron, "SuccessfulCreate", name=made["metadata"]["name"])
        return made

    async def _clear(self, cron: Obj, owned: list[Obj]) -> list[str]:
        """Delete the oldest finished jobs beyond the limits; returns their uids."""
        spec, ended = cron["spec"], [found for found in owned if jobs.finished(found) is not None]
        gone = []
        for kind, limit in (("Complete", "successfulJobsHistoryLimit"), ("Failed", "failedJobsHistoryLimit")):
            done = [each for each in ended if is_true(each, kind)]
            found = sorted(done, key=lambda job: (job["status"].get("startTime", ""), job["metadata"]["name"]))
            for old in found[: max(0, len(found) - spec.get(limit, len(found)))]:
                if not is_ending(old):
                    await self.remove(cron, self.jobs, old)
                    gone.append(old["metadata"]["uid"])
        return gone


def job_name(cron: Obj, due: datetime) -> str:
    """Return the name of the job of one time: the minutes since 1970 keep it from being made twice."""
    return f"{cron['metadata']['name']}-{int(due.timestamp()) // 60}"


def job_of(cron: Obj, due: datetime) -> Obj:
    """Return the job of one time."""
    template = cron["spec"]["jobTemplate"]
    given, zone = template.get("metadata") or {}, cron["spec"].get("timeZone")
    metadata = {
        "name": job_name(cron, due),
        "namespace": cron["metadata"]["namespace"],
        "labels": dict(given.get("labels") or {}),
        "annotations": {**(given.get("annotations") or {}), SCHEDULED_AT: shown_in(due, zone)},
        "ownerReferences": [owner_reference(cron)],
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": dict(template["spec"])}


def shown_in(at: datetime, zone: str | None) -> str:
    """Return a time as RFC 3339 writes it in a time zone (by default in UTC)."""
    return at.astimezone(ZoneInfo(zone or "UTC")).isoformat().replace("+00:00", "Z")


def _newest(schedule: Schedule, since: datetime, now: datetime) -> tuple[datetime | None, int]:
    """Return the last time that has come, and about how many came after ``since``. Raises ``ScheduleError``."""
    first = schedule.after(since)
    second = schedule.after(first)
    if now < first:
        return None, 0
    if now < second:
        return first, 1
    gap = round((second - first).total_seconds())
    missed = int((now - first).total_seconds()) // gap + 1
    at, newest = schedule.after(first + timedelta(seconds=(missed - 2) * gap)), None
    while at <= now:
        newest, at = at, schedule.after(at)
    return newest, missed


def _when(cron: Obj) -> tuple[str, str]:
    return cron["spec"]["schedule"], cron["spec"].get("timeZone") or ""


def _reference(job: Obj) -> Obj:
    meta = job["metadata"]
    names = {name: meta[name] for name in ("namespace", "name", "uid", "resourceVersion")}
    return {"kind": "Job", "apiVersion": "batch/v1", **names}
