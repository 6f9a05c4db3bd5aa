"""Cron jobs: times and time zones, what may run at once, what is kept."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kubesim.api.cron import ScheduleError, parse
from kubesim.errors import ApiError
from kubesim.tests.world import cron_job, world
from kubesim.times import parse as moment

CRONS, JOBS = "cronjobs.batch", "jobs.batch"


async def names(cluster):
    return sorted(job["metadata"]["name"] for job in await cluster.items(JOBS))


async def test_a_job_starts_at_each_time():
    async with world(1) as cluster:
        await cluster.create(CRONS, cron_job("tick", "*/5 * * * *", "true"))
        await cluster.tick(310)
        (job,) = await cluster.items(JOBS)
        assert job["metadata"]["name"] == f"tick-{int(moment('2026-01-05T09:05:00Z').timestamp()) // 60}"
        notes = job["metadata"]["annotations"]
        assert notes == {"batch.kubernetes.io/cronjob-scheduled-timestamp": "2026-01-05T09:05:00Z"}
        (cron,) = await cluster.items(CRONS)
        assert cron["status"]["lastScheduleTime"] == "2026-01-05T09:05:00Z"
        await cluster.tick(60)
        (cron,) = await cluster.items(CRONS)
        assert "active" not in cron["status"]
        assert cron["status"]["lastSuccessfulTime"]
        name = job["metadata"]["name"]
        assert f"Created job {name}" in await cluster.messages("SuccessfulCreate")
        assert await cluster.messages("SawCompletedJob") == [f"Saw completed job: {name}, condition: Complete"]
        await cluster.check_models()


async def test_only_the_newest_jobs_are_kept():
    async with world(1) as cluster:
        await cluster.create(CRONS, cron_job("tick", "* * * * *", "true", successfulJobsHistoryLimit=2))
        await cluster.tick(310)
        assert len(await names(cluster)) == 2
        assert len(await cluster.messages("SuccessfulDelete")) == 3


async def test_forbid_leaves_a_time_out_while_a_job_runs():
    async with world(1) as cluster:
        wanted = cron_job("tick", "* * * * *", "sleep", "600", concurrencyPolicy="Forbid")
        await cluster.create(CRONS, wanted)
        await cluster.tick(200)
        assert len(await names(cluster)) == 1
        text = "Not starting job because prior execution is running and concurrency policy is Forbid"
        assert await cluster.messages("JobAlreadyActive") == [text]


async def test_replace_ends_what_runs():
    async with world(1) as cluster:
        await cluster.create(CRONS, cron_job("tick", "* * * * *", "sleep", "600", concurrencyPolicy="Replace"))
        await cluster.tick(62)
        (first,) = await names(cluster)
        await cluster.tick(62)
        assert first not in await names(cluster)
        assert f"Deleted job {first}" in await cluster.messages("SuccessfulDelete")


async def test_a_suspended_one_starts_nothing():
    async with world(1) as cluster:
        await cluster.create(CRONS, cron_job("tick", "* * * * *", "true", suspend=True))
        await cluster.tick(200)
        assert await names(cluster) == []


async def test_a_time_zone_counts():
    async with world(1) as cluster:
        await cluster.create(CRONS, cron_job("tick", "30 10 * * *", "true", timeZone="Europe/Berlin"))
        await cluster.tick(31 * 60)
        (cron,) = await cluster.items(CRONS)
        assert cron["status"]["lastScheduleTime"] == "2026-01-05T09:30:00Z"
        (job,) = await cluster.items(JOBS)
        notes = job["metadata"]["annotations"]
        assert notes == {"batch.kubernetes.io/cronjob-scheduled-timestamp": "2026-01-05T10:30:00+01:00"}


async def test_after_a_long_pause_one_job_starts_and_the_missed_times_are_told_of():
    async with world(1) as cluster:
        await cluster.create(CRONS, cron_job("tick", "* * * * *", "true", suspend=True))
        await cluster.tick(102 * 60)
        await cluster.client.patch(CRONS, "tick", "default", {"spec": {"suspend": False}})
        await cluster.tick(5)
        assert len(await names(cluster)) == 1
        (message, *_) = await cluster.messages("TooManyMissedTimes")
        assert message.startswith("too many missed start times. Set or decrease .spec.startingDeadlineSeconds")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x", "expected exactly 5 fields, found 1: [x]"),
        ("61 * * * *", "end of range (61) above maximum (59): 61"),
        ("a * * * *", 'failed to parse int from a: strconv.Atoi: parsing "a": invalid syntax'),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("@foo", "unrecognized descriptor: @foo"),
        ("1-5-6 * * * *", "too many hyphens: 1-5-6"),
        ("0 0 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("@every 1d", 'failed to parse duration @every 1d: time: unknown unit "d" in duration "1d"'),
        ("@every 1", 'failed to parse duration @every 1: time: missing unit in duration "1"'),
        ("@every 300000000h", 'failed to parse duration @every 300000000h: time: invalid duration "300000000h"'),
        ("TZ=X * * * * *", "provided bad location X: unknown time zone X"),
    ],
)
def test_a_wrong_schedule_is_refused_in_the_parsers_words(text, message):
    with pytest.raises(ScheduleError) as caught:
        parse(text)
    assert str(caught.value) == message


def test_a_number_of_many_digits_is_out_of_range():
    with pytest.raises(ScheduleError, match="value out of range"):
        parse(f"{'9' * 5000} * * * *")
    assert parse(f"{'0' * 5000}5 * * * *")


@pytest.mark.parametrize(
    ("text", "same"),
    [("1,,2 * * * *", "1,2 * * * *"), ("TZ=Etc/UTC 0 * * * *", "0 * * * *"), ("@every -1h", "@every 1s")],
)
def test_a_schedule_that_go_reads_is_read(text, same):
    start = datetime(2026, 1, 1, tzinfo=UTC)
    assert parse(text).after(start) == parse(same).after(start)


async def test_a_wrong_schedule_is_invalid():
    async with world(1) as cluster:
        with pytest.raises(ApiError) as caught:
            await cluster.create(CRONS, cron_job("tick", "61 * * * *", "true"))
        assert caught.value.message == (
            'CronJob.batch "tick" is invalid: spec.schedule: Invalid value: "61 * * * *": '
            "end of range (61) above maximum (59): 61"
        )


async def test_a_date_that_never_comes_is_told_of():
    async with world(1) as cluster:
        await cluster.create(CRONS, cron_job("tick", "0 0 31 2 *", "true"))
        await cluster.tick(5)
        text = "invalid schedule: 0 0 31 2 * : time difference between two schedules is less than 1 second"
        assert set(await cluster.messages("InvalidSchedule")) == {text}


async def test_a_job_that_somebody_else_made_for_it_is_told_of():
    async with world(1) as cluster:
        cron = await cluster.create(CRONS, cron_job("tick", "0 0 1 1 *", "true"))
        owner = {name: cron[name] for name in ("apiVersion", "kind")} | {
            "name": "tick",
            "uid": cron["metadata"]["uid"],
        }
        template = cron["spec"]["jobTemplate"]["spec"]
        metadata = {"name": "by-hand", "ownerReferences": [{**owner, "controller": True}]}
        await cluster.create(JOBS, {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": template})
        await cluster.tick(1)
        text = "Saw a job that the controller did not create or forgot: by-hand"
        assert set(await cluster.messages("UnexpectedJob")) == {text}


async def test_a_new_schedule_waits_for_its_next_time():
    async with world(1) as cluster:
        await cluster.create(CRONS, cron_job("tick", "0 0 1 1 *", "true"))
        await cluster.tick(200)
        await cluster.client.patch(CRONS, "tick", "default", {"spec": {"schedule": "* * * * *"}})
        await cluster.tick(10)
        assert await names(cluster) == []
        await cluster.tick(60)
        assert len(await names(cluster)) == 1
