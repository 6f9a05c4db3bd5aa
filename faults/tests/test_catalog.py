"""Every pack of the catalogue: complete, bound, and silent towards the candidate."""

from __future__ import annotations

import itertools
import json
import re

import pytest

from faults import checks, packs
from faults.packs.loader import SCHEMAS
from faults.packs.rights import WRITE
from faults.tests.objects import ObjectReader, make_node, make_pod
from faults.tests.variants import CATALOG, PACKS, TELLS, objects_of, variants


@pytest.fixture(params=PACKS, ids=lambda pack: pack.slug)
def pack(request):
    return request.param


def test_a_pack_is_named_like_its_folder(pack):
    assert (CATALOG / pack.slug).is_dir()


def test_every_placeholder_is_bound_in_every_variant(pack):
    for bound in variants(pack):
        own = [
            {key: value for key, value in step.spec.items() if key not in ("code", "changes")}
            for step in bound.inject
        ]
        readable = [own, bound.symptom, bound.checks, bound.guards, bound.hints, bound.solutions]
        assert "${" not in repr([*readable, bound.title, bound.statement, bound.brief])


def test_nothing_the_candidate_can_read_tells(pack):
    for bound in variants(pack):
        injected = json.dumps([step.spec for step in bound.inject if step.kind == "manifest"])
        for text in (injected, bound.statement, bound.title, *bound.namespaces.values()):
            assert not TELLS.search(text), TELLS.search(text)


def test_every_injected_object_lies_in_the_packs_namespaces_when_no_cluster_object_is_allowed(pack):
    if "shared" not in pack.requires.tiers:
        pytest.skip("the pack is not for shared clusters")
    for bound in variants(pack):
        for step in bound.inject:
            targets = [obj["metadata"] for obj in step.spec.get("objects", [])] or [step.spec["target"]]
            assert {target.get("namespace") for target in targets} <= set(bound.namespaces.values())


def test_the_rubric_is_complete_and_each_level_says_something_else(pack):
    assert sum(criterion.weight for criterion in pack.rubric) == 100
    for criterion in pack.rubric:
        assert len(set(criterion.anchors.values())) == 4
        assert min(len(text) for text in criterion.anchors.values()) > 20


def test_hints_come_in_both_tiers_and_never_hold_the_solution(pack):
    assert {hint.tier for hint in pack.hints} == {1, 2}
    for bound in variants(pack):
        injected = json.dumps([step.spec for step in bound.inject if "objects" in step.spec])
        for hint, route in itertools.product(bound.hints, bound.solutions):
            text = "\n".join([*route.lines, *route.files.values()])
            for image in re.findall(r'"?image"?: "?([^"\s|]+)', text):
                assert image not in hint.text
            assert not _shared(hint.text, text, 40)
            assert not [line for line in route.lines if line in hint.text]
        assert injected


def test_solutions_change_something_and_differ_from_each_other(pack):
    if pack.is_spoken:
        assert pack.solutions == ()
        return
    routes = [repr((route.lines, route.files)) for route in pack.solutions]
    assert len(set(routes)) == len(routes) >= 2


def test_points_add_up_to_a_hundred_and_something_has_to_hold(pack):
    if pack.is_spoken:
        assert (pack.checks, pack.guards, pack.namespaces) == ((), (), {})
        return
    assert sum(check.points for check in pack.checks) == 100
    assert any(check.hold > 0 for check in pack.checks)


def _shared(left, right, length):
    return any(left[start : start + length] in right for start in range(max(0, len(left) - length)))


# The first pack's conditions, over hand-made objects: what each of them sees and is not fooled by.


@pytest.fixture
def mismatch():
    return packs.parse(packs.load_folder(CATALOG / "architecture-mismatch")).bind()


def injected(pack, index, **status):
    return pack.inject[index].spec["objects"][0] | {"status": status}


def solved_job(pack, **status):
    return objects_of(pack.solutions[0])[0] | {"status": status}


DONE = {"succeeded": 1, "conditions": [{"type": "Complete", "status": "True"}]}
LOG = {"nightly-train-x7k2p": "training finished: 3 epochs, loss 0.217\n"}


def test_the_symptom_needs_the_crash_loop_and_the_message(mismatch):
    crashing, looped = make_pod(waiting="CrashLoopBackOff"), mismatch.symptom[0]
    error = {"nightly-train-x7k2p": "exec /usr/local/bin/python3: exec format error\n"}
    assert checks.evaluate(looped, ObjectReader(crashing, logs=error)).verdict == "pass"
    assert checks.evaluate(looped, ObjectReader(crashing, logs=LOG)).verdict == "fail"
    assert checks.evaluate(looped, ObjectReader(make_pod(), logs=error)).verdict == "fail"
    assert checks.evaluate(looped, ObjectReader()).finding == "no pod of the job yet"


def test_a_fresh_fault_passes_no_check(mismatch):
    reader = ObjectReader(injected(mismatch, 1), make_pod(waiting="CrashLoopBackOff"))
    verdicts = {key: outcome.verdict for key, outcome in checks.evaluate_all(mismatch.checks, reader).items()}
    assert verdicts == {"job-complete": "fail", "training-output": "not_run", "same-work": "not_run"}


def test_a_completed_job_with_its_output_passes_every_check(mismatch):
    reader = ObjectReader(solved_job(mismatch, **DONE), make_pod(phase="Succeeded"), logs=LOG)
    outcomes = checks.evaluate_all(mismatch.checks, reader)
    assert {outcome.verdict for outcome in outcomes.values()} == {"pass"}, outcomes


def test_a_job_that_does_something_else_is_found_out(mismatch):
    job = solved_job(mismatch, **DONE)
    job["spec"]["template"]["spec"]["containers"][0]["command"] = ["true"]
    outcomes = checks.evaluate_all(mismatch.checks, ObjectReader(job, make_pod(), logs={"nightly-train-x7k2p": ""}))
    assert {key: outcome.verdict for key, outcome in outcomes.items()} == {
        "job-complete": "pass",
        "training-output": "fail",
        "same-work": "fail",
    }


def test_guards_pass_while_the_neighbour_and_the_nodes_are_well(mismatch):
    reader = ObjectReader(injected(mismatch, 0, availableReplicas=2), make_node(), make_pod())
    assert {outcome.verdict for outcome in checks.evaluate_all(mismatch.guards, reader).values()} == {"pass"}


def test_guards_break_on_a_gone_neighbour_a_changed_node_and_a_privileged_pod(mismatch):
    pod = make_pod()
    pod["spec"]["containers"][0]["securityContext"] = {"privileged": True}
    outcomes = checks.evaluate_all(mismatch.guards, ObjectReader(make_node(unschedulable=True), pod))
    assert {outcome.verdict for outcome in outcomes.values()} == {"fail"}
    assert outcomes["nodes-untouched"].finding == "cordoned: node-1 (amd64)"
    assert outcomes["no-host-access"].finding == "reaching into a node: nightly-train-x7k2p"


def test_the_fault_outlasts_a_long_interview(mismatch):
    job = mismatch.inject[1].spec["objects"][0]
    restarts_in_three_hours = 6 + 3 * 3600 // 300
    assert job["spec"]["backoffLimit"] > 2 * restarts_in_three_hours
    assert job["spec"]["template"]["spec"]["restartPolicy"] == "OnFailure"


def test_every_pack_of_the_catalogue_is_written_in_the_newest_form(pack):
    assert pack.schema == SCHEMAS[-1]


@pytest.mark.parametrize("pack", [pack for pack in PACKS if any(row.key == "nodes-untouched" for row in pack.guards)])
def test_a_node_that_another_scenario_has_closed_breaks_no_guard(pack):
    guard = next(row for row in pack.bind().guards if row.key == "nodes-untouched")
    node = make_node(unschedulable=True)
    assert checks.evaluate(guard.condition, ObjectReader(node)).verdict == "fail"
    node["metadata"]["labels"]["node.example.com/team"] = "speech"
    assert checks.evaluate(guard.condition, ObjectReader(node)).verdict == "pass"


def test_what_belongs_to_the_cluster_is_changed_by_name_only(pack):
    """Beside it there is what runs with the cluster's own accounts. Candidates make monitors, which run no pods."""
    for bound in variants(pack):
        for rule in bound.access:
            if set(rule.verbs) & set(WRITE) and set(rule.namespaces) - set(bound.namespaces.values()):
                kinds = {name for name in rule.resources if not name.endswith(".monitoring.coreos.com")}
                assert rule.names or kinds <= {"pods/portforward"}, rule
