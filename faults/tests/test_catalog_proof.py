"""The proof of every pack, in every variant, on a practice cluster: broken, seen, repaired, held, and gone again.

Holding is judged on times that the tests name; only what the cluster itself does is waited for.
"""

from __future__ import annotations

import ssl
import threading
import time as machine_time
import urllib.error
import urllib.request
from datetime import UTC, datetime, timedelta

import pytest

from faults import checks, selectors, services
from faults.catalog_check import turns
from faults.catalog_check.scene import Scene
from faults.clock import RealClock
from faults.engine import compare, fingerprint
from faults.errors import Forbidden, Invalid, NotFound
from faults.kube.client import Kube
from faults.kube.config import parse
from faults.models import Cluster, FaultRun
from faults.services import seed_catalog
from faults.tests.conftest import deadline
from faults.tests.variants import PACKS, TELLS

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
REPAIR_S = 60.0
OPEN_PATHS = ("/", "/version", "/api", "/apis", "/healthz", "/livez", "/readyz", "/openapi/v3", "/metrics", "/debug")


def case(*parts, long=False):
    """Return a case of a pack in one variant; all but the first variant, which has other names, are for torture."""
    pack, values, *key = parts
    marks = pytest.mark.torture if long or values is not pack.variants[0] else ()
    return pytest.param(parts, id="-".join([pack.slug, *values.values(), *key]), marks=marks)


VARIANTS = [case(pack, values) for pack in PACKS for values in pack.variants]
SOLUTIONS = [
    case(pack, values, solution.key) for pack in PACKS for values in pack.variants for solution in pack.solutions
]
WRONG_TURNS = [
    case(pack, values, turn.route.key, long=turn.route.key != pack.wrong_turns[0].route.key)
    for pack in PACKS
    for values in pack.variants
    for turn in pack.bind(parameters=values).wrong_turns
]


@pytest.fixture
def prepare(cluster):
    """Make the session's environment and plan the fault; return (environment, run)."""

    def go(pack, values):
        version = next(row for row in seed_catalog() if row.scenario.slug == pack.slug)
        names = dict(pack.namespaces)
        environment = services.plan_environment_run(cluster=cluster, namespaces=names, deadline=deadline())
        environment = services.inject_run(run_id=environment.pk, holder="proof")
        run = services.plan_fault_run(
            cluster=cluster,
            scenario_version=version,
            namespaces=names,
            parameters=values,
            seed=0,
            deadline=deadline(),
        )
        services.grant_rights(run=run)  # they stay with the environment
        return environment, run

    return go


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_fresh_cluster_passes_no_check_and_shows_no_symptom(variant, prepare, kube):
    _, run = prepare(*variant)
    pack = selectors.bound_pack(run)
    assert "pass" not in verdicts(pack.checks, kube).values()
    assert any(checks.evaluate(condition, kube).verdict != "pass" for condition in pack.symptom)


@pytest.mark.parametrize("route", SOLUTIONS)
def test_it_breaks_shows_is_repaired_holds_and_is_gone(route, prepare, kube):
    pack, values, key = route
    environment, run = prepare(pack, values)
    before = fingerprint(kube, list(run.namespaces.values()))
    break_it(run)
    bound = selectors.bound_pack(run)
    assert "pass" not in verdicts(bound.checks, kube).values()
    assert set(verdicts(bound.guards, kube).values()) == {"pass"}

    access = services.candidate_access(run=environment, seconds=600)
    solution = next(solution for solution in bound.solutions if solution.key == key)
    services.apply_solution(run=run, solution=solution, kubeconfig=access.kubeconfig)
    wait_until_repaired(bound, kube)
    assert_it_holds(bound, kube)

    namespaces = list(run.namespaces.values())
    run = services.revert_run(run_id=run.pk, holder="proof")
    assert (run.status, run.residue) == (FaultRun.Status.REVERTED, [])
    left = [line for line in compare(before, fingerprint(kube, namespaces)) if not is_made_by(solution, line)]
    assert left == []
    environment = services.revert_run(run_id=environment.pk, holder="proof")
    assert (environment.status, environment.residue) == (FaultRun.Status.REVERTED, [])


@pytest.mark.parametrize("turn", WRONG_TURNS)
def test_a_wrong_turn_shows_what_the_pack_says_and_repairs_nothing(turn, prepare):
    pack, values, key = turn
    environment, run = prepare(pack, values)
    break_it(run)
    access = services.candidate_access(run=environment, seconds=600)
    scene = Scene(run, access.kubeconfig, RealClock())
    turns.play(scene, next(row for row in scene.pack.wrong_turns if row.route.key == key), watched_s=0)


@pytest.mark.parametrize("variant", VARIANTS)
def test_reverting_an_unrepaired_fault_restores_the_fingerprint(variant, prepare, kube):
    environment, run = prepare(*variant)
    before = fingerprint(kube, list(run.namespaces.values()))
    break_it(run)
    assert compare(before, fingerprint(kube, list(run.namespaces.values()))) != []
    run = services.revert_run(run_id=run.pk, holder="proof")
    assert (run.status, run.residue) == (FaultRun.Status.REVERTED, [])
    assert compare(before, fingerprint(kube, list(run.namespaces.values()))) == []
    assert services.revert_run(run_id=environment.pk, holder="proof").residue == []


@pytest.mark.parametrize("variant", VARIANTS)
def test_nothing_that_the_candidate_can_read_tells(variant, prepare):
    environment, run = prepare(*variant)
    break_it(run)
    access = services.candidate_access(run=environment, seconds=600)
    pack = selectors.bound_pack(run)
    kube = Kube(parse(access.kubeconfig))
    seen = [access.kubeconfig, pack.statement, pack.title, *(hint.text for hint in pack.hints)]
    seen += [*readable_objects(kube, run), *readable_logs(kube, run), *readable_paths(access)]
    kube.close()
    assert len(seen) > 20
    for text in seen:
        found = TELLS.search(text)
        assert not found, text[max(0, found.start() - 80) : found.end() + 40]


@pytest.mark.parametrize("pack", PACKS, ids=lambda pack: pack.slug)
def test_a_seed_decides_the_variant_and_every_variant_is_drawn(pack, cluster):
    version = next(row for row in seed_catalog() if row.scenario.slug == pack.slug)

    def drawn(seed):
        return services.plan_fault_run(
            cluster=cluster,
            scenario_version=version,
            namespaces=dict(pack.namespaces),
            parameters={},
            seed=seed,
            deadline=deadline(),
        ).parameters

    assert [drawn(seed) for seed in range(24)] == [drawn(seed) for seed in range(24)]
    assert {tuple(drawn(seed).items()) for seed in range(64)} == {tuple(values.items()) for values in pack.variants}


@pytest.mark.parametrize(
    "pack", [pack for pack in PACKS if "shared" in pack.requires.tiers], ids=lambda pack: pack.slug
)
def test_it_works_under_the_limits_of_a_shared_cluster(pack, prepare, cluster, kube):
    Cluster.objects.filter(pk=cluster.pk).update(tier=Cluster.Tier.SHARED)
    cluster.refresh_from_db()
    environment, run = prepare(pack, {})
    break_it(run)
    bound = selectors.bound_pack(run)
    access = services.candidate_access(run=environment, seconds=600)
    services.apply_solution(run=run, solution=bound.solutions[0], kubeconfig=access.kubeconfig)
    wait_until_repaired(bound, kube)
    Cluster.objects.filter(pk=cluster.pk).update(tier=Cluster.Tier.PRACTICE)
    assert services.revert_run(run_id=run.pk, holder="proof").residue == []
    assert services.revert_run(run_id=environment.pk, holder="proof").residue == []


def verdicts(rows, kube):
    return {key: outcome.verdict for key, outcome in checks.evaluate_all(rows, kube).items()}


def break_it(run):
    services.inject_run(run_id=run.pk, holder="proof")
    run = services.confirm_symptom(run_id=run.pk, holder="proof", timeout_s=30)
    assert (run.status, run.error) == (FaultRun.Status.ACTIVE, "")


def wait_until_repaired(pack, kube):
    """Look until every check passes; no guard may break on the way."""
    end, gate = machine_time.monotonic() + REPAIR_S, threading.Event()
    while set((seen := verdicts(pack.checks, kube)).values()) != {"pass"}:
        assert "error" not in seen.values(), seen
        assert set(verdicts(pack.guards, kube).values()) == {"pass"}
        assert machine_time.monotonic() < end, checks.evaluate_all(pack.checks, kube)
        gate.wait(0.05)


def assert_it_holds(pack, kube):
    """The same looks as the observer's, at times of our own: at once, just before, and when it has to have held."""
    for check in pack.checks:
        held = None
        for seconds, expected in ((0, check.hold == 0), (check.hold - 0.1, check.hold == 0), (check.hold, True)):
            outcome = checks.evaluate_all(pack.checks, kube)[check.key]
            held = checks.hold(held, outcome.verdict, NOON + timedelta(seconds=max(0, seconds)), check.hold)
            assert (held.held_at is not None) is expected, (check.key, outcome)
    assert set(verdicts(pack.guards, kube).values()) == {"pass"}


def is_made_by(solution, line):
    """Whether a line of the difference is an object that the solution made, which is the candidate's."""
    made = {obj["metadata"]["name"] for step in solution.steps for obj in step.spec.get("objects", [])}
    return line.endswith("is left over") and line.removesuffix(" is left over").rpartition("/")[2] in made


def readable_objects(kube, run):
    for resource in kube.kinds():
        for namespace in [*run.namespaces.values(), ""] if resource.namespaced else [""]:
            try:
                yield from map(str, kube.list(resource.api_version, resource.kind, namespace))
            except (Forbidden, NotFound):
                continue


def readable_logs(kube, run):
    for namespace in run.namespaces.values():
        for pod in kube.list("v1", "Pod", namespace):
            for previous in (False, True):
                try:
                    yield kube.logs(namespace, pod["metadata"]["name"], previous=previous)
                except (NotFound, Invalid):
                    continue


def readable_paths(access):
    context = ssl.create_default_context(cadata=access.ca_pem)
    for path in OPEN_PATHS:
        request = urllib.request.Request(access.server + path, headers={"Authorization": f"Bearer {access.token}"})
        try:
            with urllib.request.urlopen(request, timeout=5, context=context) as answer:
                yield f"{path}: {answer.headers}{answer.read().decode()}"
        except urllib.error.HTTPError as refusal:
            with refusal:
                yield f"{path}: {refusal.headers}{refusal.read().decode()}"
