"""Policies of jobs: which failures count, which end the job or an index, and when enough have succeeded."""

import pytest

from kubesim.controllers import pods
from kubesim.controllers.job_status import parse_indexes
from kubesim.tests.world import container, job, world


def conditions(obj):
    return {c["type"]: (c["status"], c.get("reason"), c.get("message")) for c in obj["status"].get("conditions", [])}


async def the_job(w):
    (found,) = await w.items("jobs.batch")
    return found


def script(text):
    return container("busybox:1.36", "sh", "-c", text)


def rule(action, **codes):
    return {"rules": [{"action": action, "onExitCodes": codes}]}


async def test_a_failure_policy_ends_the_job_at_the_first_exit_code_that_it_names():
    policy = rule("FailJob", operator="In", values=[3])
    async with world() as w:
        await w.create("jobs.batch", job("j", script("exit 3"), policy="Never", podFailurePolicy=policy))
        await w.tick(5)
        done = await the_job(w)
        (name,) = [pod["metadata"]["name"] for pod in await w.items("pods")]
        text = f"Container main for pod default/{name} failed with exit code 3 matching FailJob rule at index 0"
        assert conditions(done)["FailureTarget"] == ("True", "PodFailurePolicy", text)
        assert conditions(done)["Failed"] == ("True", "PodFailurePolicy", text)
        assert done["status"]["failed"] == 1
        assert await w.messages("PodFailurePolicy") == [text]


async def test_ignored_failures_do_not_count_against_the_limit():
    policy = rule("Ignore", operator="NotIn", values=[7])
    async with world() as w:
        spec = {"backoffLimit": 0, "podFailurePolicy": policy}
        await w.create("jobs.batch", job("j", script("exit 3"), policy="Never", **spec))
        await w.tick(20)
        going = await the_job(w)
        assert "failed" not in going["status"]
        assert "conditions" not in going["status"]
        assert len(await w.items("pods")) == 2


async def test_a_failure_policy_may_look_at_conditions_of_pods():
    pattern = [{"type": "DisruptionTarget", "status": "True"}]
    policy = {"rules": [{"action": "FailJob", "onPodConditions": pattern}]}
    async with world() as w:
        await w.create("jobs.batch", job("j", script("sleep 60"), policy="Never", podFailurePolicy=policy))
        await w.tick(3)
        name = (await w.pod())["metadata"]["name"]
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "default"}}
        await w.client.create("pods", body, namespace="default", subresource="eviction")
        await w.tick(40)
        text = f"Pod default/{name} has condition DisruptionTarget matching FailJob rule at index 0"
        assert conditions(await the_job(w))["Failed"] == ("True", "PodFailurePolicy", text)


async def test_with_a_limit_per_index_the_other_indexes_go_on():
    async with world() as w:
        text = '[ "$JOB_COMPLETION_INDEX" = 1 ] && exit 1; exit 0'
        spec = {"completions": 3, "parallelism": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 1}
        await w.create("jobs.batch", job("j", script(text), policy="Never", **spec))
        await w.tick(5)
        (waiting,) = [pod for pod in await w.items("pods") if pod["status"]["phase"] == "Failed"]
        assert waiting["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"] == "0"
        assert waiting["metadata"]["finalizers"] == ["batch.kubernetes.io/job-tracking"]
        await w.tick(20)
        done = await the_job(w)
        assert conditions(done)["Failed"] == ("True", "FailedIndexes", "Job has failed indexes")
        assert (done["status"]["completedIndexes"], done["status"]["failedIndexes"]) == ("0,2", "1")
        assert (done["status"]["succeeded"], done["status"]["failed"]) == (2, 2)
        assert all("finalizers" not in pod["metadata"] for pod in await w.items("pods"))
        await w.check_models()


async def test_too_many_failed_indexes_end_the_job():
    async with world() as w:
        spec = {"completions": 4, "parallelism": 2, "completionMode": "Indexed", "backoffLimitPerIndex": 0}
        await w.create("jobs.batch", job("j", script("exit 1"), policy="Never", maxFailedIndexes=1, **spec))
        await w.tick(10)
        text = "Job has exceeded the specified maximal number of failed indexes"
        done = await the_job(w)
        assert conditions(done)["Failed"] == ("True", "MaxFailedIndexesExceeded", text)
        assert done["status"]["failedIndexes"] == "0,1"


async def test_a_failure_policy_may_give_up_one_index():
    policy = rule("FailIndex", operator="In", values=[9])
    async with world() as w:
        spec = {"completions": 2, "parallelism": 2, "completionMode": "Indexed", "backoffLimitPerIndex": 5}
        text = '[ "$JOB_COMPLETION_INDEX" = 0 ] && exit 9; exit 0'
        await w.create("jobs.batch", job("j", script(text), policy="Never", podFailurePolicy=policy, **spec))
        await w.tick(10)
        done = await the_job(w)
        assert (done["status"]["failedIndexes"], done["status"]["completedIndexes"]) == ("0", "1")
        assert conditions(done)["Failed"][1] == "FailedIndexes"


async def test_a_success_policy_completes_the_job_and_stops_the_others():
    async with world() as w:
        text = '[ "$JOB_COMPLETION_INDEX" = 0 ] && exit 0; sleep 3600'
        spec = {"completions": 3, "parallelism": 3, "completionMode": "Indexed"}
        rules = {"rules": [{"succeededIndexes": "0"}]}
        await w.create("jobs.batch", job("j", script(text), policy="Never", successPolicy=rules, **spec))
        await w.tick(4)
        met = ("True", "SuccessPolicy", "Matched rules at index 0")
        assert conditions(await the_job(w)) == {"SuccessCriteriaMet": met}
        assert (await the_job(w))["status"]["terminating"] == 2
        await w.tick(40)
        done = await the_job(w)
        assert conditions(done) == {"SuccessCriteriaMet": met, "Complete": met}
        assert (done["status"]["succeeded"], done["status"]["terminating"]) == (1, 0)
        assert "failed" not in done["status"]


async def test_a_count_of_successes_may_be_enough():
    async with world() as w:
        text = '[ "$JOB_COMPLETION_INDEX" = 2 ] && exit 0; sleep 3600'
        spec = {"completions": 3, "parallelism": 3, "completionMode": "Indexed"}
        rules = {"rules": [{"succeededIndexes": "0-1", "succeededCount": 1}, {"succeededCount": 1}]}
        await w.create("jobs.batch", job("j", script(text), policy="Never", successPolicy=rules, **spec))
        await w.tick(4)
        assert conditions(await the_job(w))["SuccessCriteriaMet"][2] == "Matched rules at index 1"


async def test_pods_that_end_are_replaced_only_when_gone_if_the_job_asks_for_that():
    async with world() as w:
        spec = {"podReplacementPolicy": "Failed", "backoffLimit": 3}
        await w.create("jobs.batch", job("j", script("sleep 3600"), policy="Never", **spec))
        await w.tick(3)
        first = (await w.pod())["metadata"]["name"]
        await w.client.delete("pods", first, "default")
        await w.tick(5)
        assert [pod["metadata"]["name"] for pod in await w.items("pods")] == [first]
        assert (await the_job(w))["status"]["terminating"] == 1
        await w.tick(50)
        assert (await w.pod())["metadata"]["name"] != first


async def test_suspending_takes_the_pods_away_and_resuming_starts_the_time_anew():
    async with world() as w:
        await w.create("jobs.batch", job("j", script("sleep 3600"), activeDeadlineSeconds=100))
        await w.tick(50)
        await w.client.patch("jobs.batch", "j", "default", {"spec": {"suspend": True}})
        await w.tick(40)
        assert await w.items("pods") == []
        assert "failed" not in (await the_job(w))["status"]
        await w.client.patch("jobs.batch", "j", "default", {"spec": {"suspend": False}})
        await w.tick(90)
        assert (await the_job(w))["status"]["active"] == 1
        assert [e["message"] for e in await w.events() if e["reason"] in ("Suspended", "Resumed")] == [
            "Job suspended",
            "Job resumed",
        ]


async def test_a_job_of_another_controller_is_left_alone():
    async with world() as w:
        await w.create("jobs.batch", job("j", script("exit 0"), managedBy="example.com/other"))
        await w.tick(5)
        assert await w.items("pods") == []
        assert not (await the_job(w)).get("status")


async def test_a_job_adopts_its_pods_and_lets_go_of_those_that_it_selects_no_more():
    async with world() as w:
        await w.create("jobs.batch", job("j", script("sleep 3600"), parallelism=1))
        await w.tick(3)
        pod = await w.pod()
        name = pod["metadata"]["name"]
        await w.client.patch("pods", name, "default", {"metadata": {"ownerReferences": None}})
        await w.tick(3)
        adopted = (await w.pod())["metadata"]
        assert adopted["ownerReferences"][0]["kind"] == "Job"
        assert adopted["finalizers"] == ["batch.kubernetes.io/job-tracking"]
        gone = dict.fromkeys(adopted["labels"])
        await w.client.patch("pods", name, "default", {"metadata": {"labels": gone}})
        await w.tick(3)
        released = await w.client.get("pods", name, "default")
        assert "ownerReferences" not in released["metadata"]
        assert "finalizers" not in released["metadata"]
        assert len(await w.items("pods")) == 2


@pytest.mark.parametrize(
    ("text", "indexes"),
    [("0,2-4", {0, 2, 3, 4}), ("2-9", {2, 3, 4}), ("0-1,0-1,1", {0, 1}), ("9" * 5000, set()), ("a,-1,3-", {3})],
)
def test_indexes_are_those_that_make_sense_in_their_order(text, indexes):
    assert parse_indexes(text, 5) == indexes


@pytest.mark.parametrize(("cost", "number"), [("-3", -3), ("12", 12), ("9" * 5000, 0), ("x", 0)])
def test_a_cost_of_deletion_is_a_number_or_nothing(cost, number):
    assert pods._deletion_cost({"metadata": {"annotations": {pods.DELETION_COST: cost}}}) == number
