"""Jobs from start to end."""

import pytest

from kubesim.tests.world import container, job, world

HELLO = ("python:3.9-slim", "python3", "-c", "print('Hello from Python!')")


def conditions(obj):
    return {c["type"]: (c["status"], c.get("reason"), c.get("message")) for c in obj["status"].get("conditions", [])}


async def the_job(w):
    (found,) = await w.items("jobs.batch")
    return found


async def test_a_job_completes():
    async with world() as w:
        await w.create("jobs.batch", job("hello", container(*HELLO)))
        await w.tick(2)
        done, pod = await the_job(w), await w.pod()
        reached = ("True", "CompletionsReached", "Reached expected number of succeeded pods")
        assert conditions(done) == {"SuccessCriteriaMet": reached, "Complete": reached}
        assert done["status"]["succeeded"] == 1
        assert "active" not in done["status"]
        assert "completionTime" in done["status"]
        assert pod["status"]["phase"] == "Succeeded"
        assert pod["metadata"]["labels"]["batch.kubernetes.io/job-name"] == "hello"
        assert "finalizers" not in pod["metadata"]
        assert w.kubelets.logs("default", pod["metadata"]["name"], "main") == b"Hello from Python!\n"
        assert await w.messages("Completed") == ["Job completed"]
        assert await w.messages("SuccessfulCreate") == [f"Created pod: {pod['metadata']['name']}"]
        await w.check_models()


async def test_parallelism_and_completions_are_kept():
    async with world() as w:
        main = container("busybox:1.36", "sleep", "10")
        await w.create("jobs.batch", job("many", main, parallelism=2, completions=5))
        await w.tick(5)
        assert (await the_job(w))["status"]["active"] == 2
        await w.tick(40)
        done = await the_job(w)
        assert done["status"]["succeeded"] == 5
        assert conditions(done)["Complete"][0] == "True"
        assert len(await w.items("pods")) == 5


async def test_an_indexed_job_runs_every_index_once():
    async with world() as w:
        main = container("busybox:1.36", "true")
        await w.create("jobs.batch", job("ix", main, parallelism=2, completions=3, completionMode="Indexed"))
        await w.tick(10)
        done = await the_job(w)
        assert (done["status"]["succeeded"], done["status"]["completedIndexes"]) == (3, "0-2")
        names = sorted(obj["metadata"]["name"].rsplit("-", 1)[0] for obj in await w.items("pods"))
        assert names == ["ix-0", "ix-1", "ix-2"]
        await w.check_models()


async def test_restarts_count_against_the_limit_and_take_the_pod_away():
    async with world() as w:
        await w.create("jobs.batch", job("train", container("busybox:1.36", "false"), backoffLimit=3))
        await w.tick(25)
        assert len(await w.items("pods")) == 1
        await w.tick(20)
        failed = await the_job(w)
        text = ("True", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
        assert conditions(failed) == {"FailureTarget": text, "Failed": text}
        assert failed["status"]["failed"] == 1
        assert await w.items("pods") == []
        assert await w.messages("BackoffLimitExceeded") == ["Job has reached the specified backoff limit"]
        assert len(await w.messages("SuccessfulDelete")) == 1
        await w.check_models()


async def test_failed_pods_are_replaced_ever_more_slowly():
    async with world() as w:
        await w.create("jobs.batch", job("train", container("busybox:1.36", "false"), policy="Never", backoffLimit=3))
        await w.tick(5)
        assert len(await w.items("pods")) == 1
        await w.tick(10)
        assert len(await w.items("pods")) == 2
        await w.tick(20)
        assert len(await w.items("pods")) == 3
        await w.tick(60)
        failed = await the_job(w)
        assert failed["status"]["failed"] == 4
        assert conditions(failed)["Failed"][1] == "BackoffLimitExceeded"
        assert len(await w.items("pods")) == 4
        await w.check_models()


async def test_a_deadline_ends_a_job():
    async with world() as w:
        main = container("nginx:1.27")
        await w.create("jobs.batch", job("slow", main, activeDeadlineSeconds=30))
        await w.tick(20)
        assert (await the_job(w))["status"]["active"] == 1
        await w.tick(15)
        text = ("True", "DeadlineExceeded", "Job was active longer than specified deadline")
        assert conditions(await the_job(w))["Failed"] == text
        assert await w.items("pods") == []


async def test_a_finished_job_goes_when_its_time_is_over():
    async with world() as w:
        await w.create("jobs.batch", job("short", container(*HELLO), ttlSecondsAfterFinished=60))
        await w.tick(30)
        assert len(await w.items("jobs.batch")) == 1
        await w.tick(40)
        assert await w.items("jobs.batch") == []
        assert await w.items("pods") == []


async def test_a_suspended_job_waits_and_resumes():
    async with world() as w:
        await w.create("jobs.batch", job("later", container(*HELLO), suspend=True))
        await w.tick(2)
        assert await w.items("pods") == []
        assert conditions(await the_job(w))["Suspended"] == ("True", "JobSuspended", "Job suspended")
        await w.client.patch("jobs.batch", "later", "default", {"spec": {"suspend": False}})
        await w.tick(2)
        found = conditions(await the_job(w))
        assert found["Suspended"] == ("False", "JobResumed", "Job resumed")
        assert found["Complete"][0] == "True"
        await w.check_models()


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
async def test_deleting_a_job_takes_its_pods_along(propagation):
    async with world() as w:
        await w.create("jobs.batch", job("crash", container("busybox:1.36", "false"), backoffLimit=50))
        await w.tick(3)
        await w.client.delete("jobs.batch", "crash", "default", propagation=propagation)
        await w.tick(2)
        assert await w.items("jobs.batch") == []
        assert await w.items("pods") == []


async def test_delete_and_apply_repairs_the_wrong_image():
    async with world() as w:
        broken = container("arm64v8/python:3.7-slim-stretch", *HELLO[1:])
        await w.create("jobs.batch", job("train", broken, backoffLimit=100))
        await w.tick(30)
        await w.client.delete("jobs.batch", "train", "default", propagation="Background")
        await w.create("jobs.batch", job("train", container(*HELLO), backoffLimit=100))
        await w.tick(2)
        assert conditions(await the_job(w))["Complete"][0] == "True"
        assert (await w.pod())["status"]["phase"] == "Succeeded"
