"""Conditions: four verdicts, findings, needs, and holding."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from faults import checks
from faults.checks import Check, Condition, Held, LogRead, ObjectRead, expressions
from faults.errors import Unreachable
from faults.tests.objects import ObjectReader, make_pod

PODS = {"pods": ObjectRead("v1", "Pod", "ml-training")}
NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


def condition(expr, found="'seen'", reads=PODS):
    return Condition(reads, expr, found)


def check(key, expr, needs=()):
    return Check(key, key.title(), 10, tuple(needs), 5, condition(expr))


def test_it_passes_when_the_expression_is_true_and_says_what_it_saw():
    outcome = checks.evaluate(condition("size(pods) == 1", "pods[0].metadata.name"), ObjectReader(make_pod("a")))
    assert outcome == checks.Outcome("pass", "a")


def test_it_fails_when_the_expression_is_false():
    assert checks.evaluate(condition("size(pods) == 2"), ObjectReader(make_pod())).verdict == "fail"


@pytest.mark.parametrize(
    ("expr", "words"),
    [
        ("pods[0].status.nothing == 1", "nothing"),
        ("pods[9].x == 1", "index out of bounds"),
        ("size(pods) + 1", "gave int"),
        ("size(pods) > 'a'", "could not be evaluated"),
    ],
)
def test_an_expression_that_breaks_is_an_error_not_a_fail(expr, words):
    outcome = checks.evaluate(condition(expr), ObjectReader(make_pod()))
    assert outcome.verdict == "error"
    assert words in outcome.finding


def test_a_cluster_that_does_not_answer_is_an_error_not_a_fail():
    outcome = checks.evaluate(condition("size(pods) == 0"), ObjectReader(error="no route to host"))
    assert outcome == checks.Outcome("error", "The cluster could not be read: no route to host")


def test_a_broken_description_changes_no_verdict():
    outcome = checks.evaluate(condition("true", "pods[5].metadata.name"), ObjectReader(make_pod()))
    assert outcome.verdict == "pass"
    assert outcome.finding.startswith("(no description: ")


def test_it_reads_logs_of_pods_that_have_run_and_skips_those_without():
    reads = PODS | {"log": LogRead("pods")}
    fresh = make_pod("fresh")
    fresh["status"]["containerStatuses"] = [
        {"name": "trainer", "state": {"waiting": {"reason": "ContainerCreating"}}}
    ]
    reader = ObjectReader(make_pod("a"), make_pod("gone"), fresh, logs={"a": "exec /bin/x: exec format error\n"})
    outcome = checks.evaluate(condition("size(log) == 1 && log[0].contains('format')", "log[0]", reads), reader)
    assert outcome.verdict == "pass"
    assert "log fresh" not in reader.asked


def test_a_log_that_cannot_be_reached_is_an_error():
    class Silent(ObjectReader):
        def logs(self, *args, **named):
            raise Unreachable("timed out")

    reads = PODS | {"log": LogRead("pods")}
    assert checks.evaluate(condition("size(log) == 0", reads=reads), Silent(make_pod())).verdict == "error"


def test_a_check_whose_needs_are_unmet_is_not_run_and_says_what_it_waits_for():
    outcomes = checks.evaluate_all([check("first", "false"), check("second", "true", ["first"])], ObjectReader())
    assert outcomes["second"] == checks.Outcome("not_run", "Waits for: First.")


def test_checks_of_one_round_share_their_reads():
    reader = ObjectReader(make_pod())
    checks.evaluate_all([check("a", "true"), check("b", "size(pods) == 1", ["a"])], reader)
    assert reader.asked == ["Pod"]


def test_the_kubernetes_functions_read_objects_and_never_raise():
    pod = make_pod(waiting="CrashLoopBackOff")
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {"template": {"spec": {"containers": [{"image": "a:1", "command": ["x"], "args": ["y"]}]}}},
        "status": {"conditions": [{"type": "Complete", "status": "True"}, {"type": "Failed", "status": "False"}]},
    }
    values = {"pod": pod, "job": job, "nothing": None, "odd": {"status": {"conditions": "x"}}}
    for expr in [
        "condition(job, 'Complete') && !condition(job, 'Failed') && !condition(odd, 'Complete')",
        "waiting_reason(pod) == 'CrashLoopBackOff' && state(pod) == 'CrashLoopBackOff' && restarts(pod) == 3",
        "images(job) == ['a:1'] && command(job) == ['x', 'y'] && images(nothing) == [] && command(odd) == []",
        "field(pod, 'status.containerStatuses.0.restartCount', 0) == 3 && field(nothing, 'a.b', 'none') == 'none'",
        "state(nothing) == 'Unknown' && restarts(odd) == 0 && !available(job) && join(['a', 1], ', ') == 'a, 1'",
    ]:
        assert expressions.run(expr, values) is True, expr


@pytest.mark.parametrize(
    ("expr", "words"),
    [
        ("jobs.exists(j, true)", "no variable named jobs"),
        ("pods.exists(p, shell(p))", "no function named shell"),
        ("pods[0].?status", "unsupported syntax"),
        ("1 +", "Syntax error"),
        ("'" + "x" * 3000 + "'", "longer than"),
        ("(" * 900 + "1" + ")" * 900, "parse"),
    ],
)
def test_it_refuses_by_name_what_an_expression_may_not_use(expr, words):
    with pytest.raises(checks.ExpressionError, match=words):
        expressions.check_names(expr, ["pods"])


def test_loop_variables_are_known_names():
    expressions.check_names("pods.filter(p, p.x).map(q, q.y) == [] && pods.exists_one(r, r.z)", ["pods"])


def test_it_holds_once_it_has_passed_for_long_enough():
    state = checks.hold(None, "pass", NOON, 10)
    assert state == Held(NOON, None)
    state = checks.hold(state, "pass", NOON + timedelta(seconds=9), 10)
    assert state.held_at is None
    state = checks.hold(state, "pass", NOON + timedelta(seconds=10), 10)
    assert state == Held(NOON, NOON + timedelta(seconds=10))
    assert checks.hold(state, "pass", NOON + timedelta(seconds=60), 10) == state


@pytest.mark.parametrize("verdict", ["fail", "not_run"])
def test_a_break_starts_the_hold_over(verdict):
    assert checks.hold(Held(NOON, NOON), verdict, NOON, 10) == Held()


def test_an_error_keeps_what_had_held_but_counts_for_nothing():
    assert checks.hold(Held(NOON, NOON), "error", NOON, 10) == Held(NOON, NOON)
    assert checks.hold(Held(NOON, None), "error", NOON, 10) == Held()


def test_a_check_without_a_hold_counts_at_once():
    assert checks.hold(None, "pass", NOON, 0) == Held(NOON, NOON)


def test_whoever_looks_again_at_equal_objects_gets_the_same_outcome_and_another_once_they_change():
    last, row = checks.LastLooks(), condition("size(pods) == 1", "pods[0].metadata.name")
    first = checks.evaluate(row, ObjectReader(make_pod("a")), last)
    assert checks.evaluate(row, ObjectReader(make_pod("a")), last) is first
    assert checks.evaluate(row, ObjectReader(make_pod("b")), last) == checks.Outcome("pass", "b")
    assert checks.evaluate(row, ObjectReader(), last).verdict == "fail"
    assert checks.evaluate(condition("size(pods) == 0"), ObjectReader(), last).verdict == "pass"


def test_checks_that_nobody_asks_for_are_not_read():
    reader = ObjectReader(make_pod("a"))
    rows = [check("first", "size(pods) == 2"), check("second", "true")]
    assert next(checks.evaluate_each(rows, reader))[1].verdict == "fail"
    assert len(reader.asked) == 1
