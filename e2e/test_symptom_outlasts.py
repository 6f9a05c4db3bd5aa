"""The first pack's fault outlasts the longest interview: its real manifests, and a clock that the test moves."""

from __future__ import annotations

import copy

import pytest

from faults import checks
from faults.errors import NotFound
from faults.tests.variants import PACKS
from kubesim.errors import ApiError
from kubesim.tests.world import world

PACK = next(pack for pack in PACKS if pack.slug == "architecture-mismatch")
RESOURCES = {"Pod": "pods", "Job": "jobs.batch", "Deployment": "deployments.apps"}
HOUR = 3600.0
INTERVIEW_H, LATEST_H = 3, 8
"""A long interview, and the latest deadline that a fault may have."""


class Looking:
    """Everything checks read, at one moment of a world."""

    def __init__(self, world, objects):
        self.world = world
        self.objects = objects

    @classmethod
    async def at(cls, world):
        return cls(world, {kind: await world.items(resource, "") for kind, resource in RESOURCES.items()})

    def list(self, api_version, kind, namespace="", label_selector=""):
        wanted = dict(pair.split("=", 1) for pair in label_selector.split(",") if pair)
        return [
            obj
            for obj in self.objects[kind]
            if namespace in ("", obj["metadata"]["namespace"])
            and wanted.items() <= obj["metadata"].get("labels", {}).items()
        ]

    def logs(self, namespace, pod, container="", previous=False, *, tail_lines=None):
        try:
            return self.world.kubelets.logs(namespace, pod, container, previous=previous).decode()
        except ApiError as exc:
            raise NotFound(str(exc)) from exc


async def inject(world, pack, **job_spec):
    """Create the objects of the pack's manifests; keywords change the job's spec."""
    for namespace in pack.namespaces.values():
        await world.client.create(
            "namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        )
    for step in pack.inject:
        for obj in copy.deepcopy(step.spec["objects"]):
            if obj["kind"] == "Job":
                obj["spec"] |= job_spec
            await world.client.create(RESOURCES[obj["kind"]], obj, namespace=obj["metadata"]["namespace"])
    await world.tick(20)


async def symptom(world, pack):
    """Return what each symptom's condition finds now."""
    reader = await Looking.at(world)
    return [checks.evaluate(condition, reader) for condition in pack.symptom]


async def job_of(world):
    (job,) = await world.items("jobs.batch", "")
    return job


FIRST, *OTHERS = PACK.variants
VARIANTS = [FIRST, *(pytest.param(values, marks=pytest.mark.torture) for values in OTHERS)]


@pytest.mark.parametrize("values", VARIANTS, ids=lambda values: values["job"])
async def test_after_three_hours_it_still_tells_and_it_lasts_to_the_latest_deadline_that_a_fault_may_have(values):
    pack = PACK.bind(parameters=values)
    async with world() as w:
        await inject(w, pack)
        assert [outcome.verdict for outcome in await symptom(w, pack)] == ["pass", "pass"]
        for hour in range(1, LATEST_H + 1):
            await w.tick(HOUR)
            crashing, neighbour = await symptom(w, pack)
            assert crashing.verdict == "pass"
            if hour == INTERVIEW_H:
                assert neighbour.verdict == "pass"
                assert crashing.finding.startswith("pods: CrashLoopBackOff; log: exec ")
                assert crashing.finding.endswith(": exec format error\n")
                assert (await job_of(w))["status"].get("conditions", []) == []
                (pod,) = [obj for obj in await w.items("pods", "") if "job-name" in obj["metadata"]["labels"]]
                assert 30 < pod["status"]["containerStatuses"][0]["restartCount"] < 60


async def test_with_the_default_limit_it_would_dissolve_within_minutes():
    pack = PACK.bind()
    async with world() as w:
        await inject(w, pack, backoffLimit=6)
        assert (await symptom(w, pack))[0].verdict == "pass"
        await w.tick(10 * 60)
        crashing, neighbour = await symptom(w, pack)
        assert (crashing.verdict, crashing.finding) == ("fail", "no pod of the job yet")
        assert neighbour.verdict == "pass"
        reasons = [row.get("reason") for row in (await job_of(w))["status"]["conditions"] if row["type"] == "Failed"]
        assert reasons == ["BackoffLimitExceeded"]
