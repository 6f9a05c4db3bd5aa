"""Preparing and releasing on a real practice cluster, phase by phase."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from faults import leases
from faults import selectors as fault_selectors
from faults import services as fault_services
from faults.clock import RealClock
from faults.errors import FaultError, Forbidden, NotFound
from faults.kube.client import Kube
from faults.kube.config import parse
from faults.kube.mirror import NAMESPACE
from faults.models import FaultRun
from faults.reconciler import moved_deadlines
from faults.services import toolboxes
from sessions import clock, jobs, selectors, services
from sessions.errors import SessionError
from sessions.models import InterviewSession, PreparationPhase
from sessions.services import phases as phase_services
from sessions.services import preparation, staging
from sessions.services.phases import lease_name

SLUG = "architecture-mismatch"
DISCOVERY = re.compile(r"/api(/v1)?|/apis(/[^/]+(/[^/]+)?)?")


@pytest.fixture(autouse=True)
def _no_observer(monkeypatch):
    """Let jobs finish in place: no observer comes back to what takes longer than a lane waits."""
    monkeypatch.setattr(phase_services, "HOLD_S", 60.0)


@pytest.fixture
def draft(ada, scenario_version):
    """A draft in real time, since the cluster's clock is real."""
    return services.create_session(owner=ada, candidate_name="Sam", scenario_versions=[scenario_version], minutes=60)


@pytest.fixture
def preparing(draft, ada, practice):
    yield services.prepare(session=draft, actor=ada)
    draft.refresh_from_db()
    if draft.cluster is not None and draft.cluster.released_at is None:
        fault_services.release_cluster(cluster=draft.cluster)  # with all that is in it: a release has its own tests


@pytest.fixture
def prepared(preparing):
    jobs.prepare_session(preparing.pk)
    preparing.refresh_from_db()
    return preparing


def phases(session):
    return {phase.key: phase.status for phase in session.phases.all()}


def may_list_pods(access) -> bool:
    kube = Kube(parse(access.kubeconfig))
    try:
        kube.list("v1", "Pod", access.namespace)
    except Forbidden:
        return False
    finally:
        kube.close()
    return True


def test_it_is_ready_when_the_symptom_is_confirmed(prepared, kinds):
    run = prepared.scenarios.get().run
    assert prepared.state == "ready", list(prepared.phases.values("key", "status", "error"))
    assert set(phases(prepared).values()) == {"done"}
    assert (run.status, run.symptom_at is not None) == ("active", True)
    assert prepared.environment.status == "active"
    assert kinds(prepared)[-1] == "session.ready"


def test_it_asks_the_cluster_and_the_database_little_and_tells_of_no_other_deadline(preparing, monkeypatch):
    """One preparation is looked at from three sides: each takes a cluster, an environment and a fault."""
    sent, send = [], Kube._send

    def note(self, method, path, *, query=None, **rest):
        sent.append((method, path, bool((query or {}).get("dryRun"))))
        return send(self, method, path, query=query, **rest)

    monkeypatch.setattr(Kube, "_send", note)
    monkeypatch.setattr(preparation, "SLACK", timedelta(hours=1))  # however slow the machine is
    with CaptureQueriesContext(connection) as asked:
        jobs.prepare_session(preparing.pk)
    steps = sum(run.steps.count() for run in FaultRun.objects.all())
    assert steps > 12
    it_asks_for_the_kinds_once_and_writes_no_step_down_for_itself(sent, steps)
    it_looks_into_no_namespace_before_it_is_made([(method, path) for method, path, _ in sent])
    it_asks_the_database_little([query["sql"] for query in asked.captured_queries])
    assert not moved_deadlines().exists()


def it_asks_for_the_kinds_once_and_writes_no_step_down_for_itself(sent, steps):
    really = [(method, path) for method, path, tried in sent if not tried]
    discoveries = [path for method, path in really if DISCOVERY.fullmatch(path)]
    assert len(discoveries) <= 4, discoveries
    copies = [path for method, path in really if method in ("PATCH", "POST") and f"/{NAMESPACE}/secrets" in path]
    assert len(copies) <= 8 < steps, copies
    assert really.count(("POST", "/api/v1/namespaces")) == 3  # two of the session's, and the copies'


def it_looks_into_no_namespace_before_it_is_made(sent):
    made = sent.index(("POST", "/api/v1/namespaces"))
    assert {method for method, _ in sent[:made]} == {"GET"}
    assert [path for _, path in sent[:made] if "/namespaces/" in path and NAMESPACE not in path] == []
    assert made <= 30, sent[:made]


def it_asks_the_database_little(statements):
    def count(text: str) -> int:
        return sum(text in statement for statement in statements)

    assert count('INTO "faults_step"') + count('UPDATE "faults_step"') <= 8
    assert count('FROM "interview_sessions_clockentry"') <= 9
    assert count('"faults_faultrun"."namespaces"') <= 12
    assert count('"interview_sessions_interviewsession"."timeline_seal"') <= 5
    assert count('FROM "interview_sessions_sessionevent"') <= 7
    assert count('INTO "interview_sessions_sessionevent"') <= 7
    assert count('"faults_scenarioversion"."files"') == 0  # they were parsed when the phases were planned
    assert count('"faults_faultrun"."fingerprint_before"') <= 4
    assert len(statements) <= 220  # on a busy machine leases are kept more often
    assert count("SAVEPOINT") <= 42  # the beginning and the end of each transaction
    assert count('UPDATE "faults_faultrun" SET "lease_holder" = ') <= 3  # with the last change of each run
    assert count('UPDATE "interview_sessions_preparationphase" SET "detail"') <= 8  # none on a quick machine


def test_a_line_of_progress_is_shown_while_its_phase_goes_on_and_at_its_end(preparing, monkeypatch):
    monkeypatch.setattr(phase_services, "SHOW_S", 0.0)
    row, shown = preparing.phases.get(key="cluster"), []

    def work_on(work):
        for line in ("asked", "under way", "made"):
            work.report("cluster", line)
            row.refresh_from_db()
            shown.append(row.detail)
        work.phase.detail = "ready"

    assert phase_services.run(preparing.pk, {"cluster": work_on}, lambda session: True)
    row.refresh_from_db()
    assert (shown, row.detail, row.status) == (["asked", "under way", "made"], "ready", "done")


def test_the_last_line_of_a_phase_that_fails_stays(preparing):
    def fail(work):
        work.report("cluster", "half way")
        raise FaultError("no more")

    assert not phase_services.run(preparing.pk, {"cluster": fail}, lambda session: True)
    row = preparing.phases.get(key="cluster")
    assert (row.detail, row.error, row.status) == ("half way", "no more", "failed")


def test_sessions_that_are_being_prepared_cost_the_housekeeping_no_queries_of_their_own(draft, ada, scenario_version):
    drafts = [draft]
    for number in range(2):
        for session in drafts:
            services.prepare(session=session, actor=ada)
            leases.acquire(lease_name(session.pk), "worker", 8.0, clock.now())
        with CaptureQueriesContext(connection) as asked:
            assert services.housekeep(clock.now()) == 0
        assert len(asked) <= 8
        version = [scenario_version]
        drafts = [
            services.create_session(owner=ada, candidate_name=f"{number}-{n}", scenario_versions=version, minutes=60)
            for n in range(5)
        ]


def test_a_job_delivered_twice_has_one_effect(prepared, kinds):
    before = kinds(prepared)
    jobs.prepare_session(prepared.pk)
    assert kinds(prepared) == before
    assert FaultRun.objects.count() == 2


def test_the_end_cuts_the_candidate_off_and_reopening_lets_them_in(prepared, ada):
    services.start(session=prepared, actor=ada)
    access = services.candidate_credentials(session=prepared)
    assert may_list_pods(access)
    services.end(session=prepared, actor=ada)
    jobs.end_session_access(prepared.pk)
    assert not may_list_pods(access)
    services.reopen(session=prepared, actor=ada)
    jobs.restore_session_access(prepared.pk)
    assert may_list_pods(access)


def test_the_release_leaves_nothing(prepared, ada, kinds):
    services.start(session=prepared, actor=ada)
    services.end(session=prepared, actor=ada)
    services.release(session=prepared, actor=ada)
    jobs.release_session(prepared.pk)
    jobs.release_session(prepared.pk)
    prepared.refresh_from_db()

    assert prepared.residue == [], list(prepared.phases.values("key", "status", "error"))
    assert prepared.release_outcome == "reverted"
    assert prepared.cluster.released_at is not None
    assert {run.status for run in FaultRun.objects.all()} == {"reverted"}
    assert kinds(prepared).count("session.released") == 1


def test_an_outage_is_waited_for_and_its_end_resumes_the_preparation(preparing, settings, practice, kinds):
    settings.KUBESIM_URL = "https://127.0.0.1:9"
    pauses = []
    for _ in range(8):
        jobs.prepare_session(preparing.pk)
        phase = preparing.phases.get(key="cluster")
        assert phase.status == "waiting"
        assert "cannot be reached" in phase.error
        pause = phase.next_try_at - phase.tried_at
        pauses.append(pause.total_seconds())
        preparing.phases.filter(pk=phase.pk).update(tried_at=clock.now() - pause, next_try_at=clock.now())
    assert phase.attempts == 8
    assert 0 < pauses[0] < 1 < max(pauses) <= 30
    assert kinds(preparing).count("phase.changed") == 2  # begun, and waiting: an outage is no flood of events

    settings.KUBESIM_URL = practice.url
    jobs.prepare_session(preparing.pk)
    preparing.refresh_from_db()
    assert preparing.state == "ready"
    assert set(preparing.phases.values_list("error", flat=True)) == {""}


def test_a_job_that_comes_before_the_next_try_asks_nobody(preparing, settings, practice):
    settings.KUBESIM_URL = "https://127.0.0.1:9"
    jobs.prepare_session(preparing.pk)
    preparing.phases.filter(key="cluster").update(next_try_at=clock.now() + timedelta(seconds=60))
    settings.KUBESIM_URL = practice.url
    jobs.prepare_session(preparing.pk)
    assert phases(preparing)["cluster"] == "waiting"


def test_a_person_need_not_wait_for_the_next_try(preparing, ada, settings, practice):
    settings.KUBESIM_URL = "https://127.0.0.1:9"
    jobs.prepare_session(preparing.pk)
    preparing.phases.filter(key="cluster").update(next_try_at=clock.now() + timedelta(seconds=60))
    settings.KUBESIM_URL = practice.url
    services.retry_preparation(session=preparing, actor=ada)
    jobs.prepare_session(preparing.pk)
    preparing.refresh_from_db()
    assert preparing.state == "ready"


def test_it_goes_on_where_a_worker_died(preparing, kinds):
    now = clock.now()
    leases.acquire(lease_name(preparing.pk), "dead", 1, now - timedelta(minutes=1))
    preparing.phases.filter(key="cluster").update(status="running", started_at=now - timedelta(minutes=1))
    jobs.prepare_session(preparing.pk)
    preparing.refresh_from_db()
    assert preparing.state == "ready"


def test_a_retry_of_what_has_not_failed_changes_nothing(preparing, ada, kinds):
    before = kinds(preparing)
    services.retry_preparation(session=preparing, actor=ada)
    assert kinds(preparing) == before


def test_a_worker_leaves_it_to_the_one_that_is_on_it(preparing):
    epoch = leases.acquire(lease_name(preparing.pk), "somebody else", 60, clock.now())
    jobs.prepare_session(preparing.pk)
    assert set(phases(preparing).values()) == {"queued"}
    leases.release(lease_name(preparing.pk), "somebody else", epoch)


def test_a_session_that_was_called_off_is_not_prepared(preparing, ada):
    services.end(session=preparing, actor=ada)
    jobs.prepare_session(preparing.pk)
    assert set(phases(preparing).values()) == {"queued"}


def test_a_toolbox_whose_image_cannot_be_had_is_waited_for_and_then_told_of(preparing, monkeypatch):
    monkeypatch.setattr(toolboxes, "PRACTICE_IMAGE", "ghcr.io/platform-tools/nothing:1")
    monkeypatch.setattr(phase_services, "HOLD_S", 0.2)
    phase = preparing.phases.get(key="access")
    while phase.status == "queued":
        preparing.phases.update(next_try_at=None)  # of the symptom, too, which is looked for meanwhile
        jobs.prepare_session(preparing.pk)
        phase.refresh_from_db()
    assert phase.status == "running"
    assert re.fullmatch("Waiting for the toolbox: (ErrImagePull|ImagePullBackOff)", phase.detail)
    late = clock.now() - preparation.TOOLBOX_PATIENCE
    preparing.phases.filter(key="access").update(next_try_at=None, started_at=late)
    jobs.prepare_session(preparing.pk)
    preparing.refresh_from_db()
    assert preparing.state == "ready"
    assert "; the toolbox does not run: " in preparing.phases.get(key="access").detail


@pytest.mark.torture
@pytest.mark.django_db(transaction=True)
def test_a_scenario_that_wants_it_gets_a_toolbox_with_a_gpu_of_its_own(ada, practice):
    version = next(v for v in fault_services.seed_catalog() if v.scenario.slug == "fine-tune-restarts")
    session = services.create_session(owner=ada, candidate_name="Sam", scenario_versions=[version])
    session = services.prepare(session=session, actor=ada)
    while session.state == "preparing":
        session.phases.update(next_try_at=None)
        jobs.prepare_session(session.pk)
        session.refresh_from_db()
    assert session.state == "ready", list(session.phases.values("key", "status", "error"))
    box = selectors.toolbox_for(session)
    assert (box.gpu, box.lack) == (True, "")
    kube = fault_selectors.kube_for(session.cluster)
    code, told = kube.run_command(box.namespace, "toolbox", "toolbox", ["nvidia-smi", "-L"])
    assert (code, told.count("GPU 0: Tesla T4")) == (0, 1)
    fault_services.release_cluster(cluster=session.cluster)


def test_a_session_of_questions_needs_no_cluster(ada, question_version):
    session = services.create_session(owner=ada, candidate_name="Sam", question_versions=[question_version])
    services.prepare(session=session, actor=ada)
    jobs.prepare_session(session.pk)
    session.refresh_from_db()
    assert (session.state, session.cluster) == ("ready", None)
    services.start(session=session, actor=ada)
    with pytest.raises(SessionError, match="no cluster"):
        services.candidate_credentials(session=session)
    services.end(session=session, actor=ada)
    services.release(session=session, actor=ada)
    jobs.release_session(session.pk)
    session.refresh_from_db()
    assert session.residue == []


def test_a_quota_in_the_way_is_named_and_a_retry_works_once_it_is_gone(preparing, ada, practice, monkeypatch):
    """The cluster refuses the fault itself: what was made stays recorded, and the person is told why."""
    refusing = fault_selectors.changes_of
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "none", "namespace": "ml-training"},
        "spec": {"hard": {"count/jobs.batch": "0"}},
    }

    refused = [quota]

    def with_quota(run):
        kube = fault_selectors.kube_for(run.cluster)
        if run.purpose == FaultRun.Purpose.FAULT and refused:
            kube.create(refused.pop())
        return refusing(run)

    monkeypatch.setattr(fault_selectors, "changes_of", with_quota)
    jobs.prepare_session(preparing.pk)
    phase = preparing.phases.get(key=f"inject:{SLUG}")
    assert phase.status == "failed"
    assert "exceeded quota" in phase.error
    run = preparing.scenarios.get().run
    assert (run.status, "exceeded quota" in run.error) == ("failed", True)

    monkeypatch.undo()
    fault_selectors.kube_for(run.cluster).delete("v1", "ResourceQuota", "none", "ml-training")
    services.retry_preparation(session=preparing, actor=ada)
    jobs.prepare_session(preparing.pk)
    preparing.refresh_from_db()
    assert preparing.state == "ready"


def test_a_release_ends_though_the_candidate_has_deleted_and_changed_what_was_injected(prepared, ada):
    services.start(session=prepared, actor=ada)
    kube = Kube(parse(services.candidate_credentials(session=prepared).kubeconfig))
    for job in kube.list("batch/v1", "Job", "ml-training"):
        kube.delete("batch/v1", "Job", job["metadata"]["name"], "ml-training")
    meta = {"name": "left-behind", "namespace": "ml-training", "finalizers": ["example.com/never"]}
    spec = {"containers": [{"name": "main", "image": "busybox"}]}
    kube.create({"apiVersion": "v1", "kind": "Pod", "metadata": {**meta, "finalizers": []}, "spec": spec})
    kube.close()
    admin = fault_selectors.kube_for(prepared.cluster)
    admin.delete("v1", "Namespace", "ml-training")  # as if somebody had been thorough
    services.end(session=prepared, actor=ada)
    services.release(session=prepared, actor=ada)
    jobs.release_session(prepared.pk)
    prepared.refresh_from_db()
    assert (prepared.residue, prepared.released_at is not None) == ([], True)


def test_it_goes_on_when_the_cluster_has_forgotten_the_environment(preparing, ada):
    """A cluster that was killed may come back with a state one second old."""
    preparing.phases.filter(key__startswith="inject").update(status="failed")
    jobs.prepare_session(preparing.pk)
    preparing.refresh_from_db()
    kube = fault_selectors.kube_for(preparing.cluster)
    kube.delete("v1", "Namespace", "ml-training")
    _until_gone(kube, "ml-training")
    services.retry_preparation(session=preparing, actor=ada)
    jobs.prepare_session(preparing.pk)
    preparing.refresh_from_db()
    assert preparing.state == "ready", list(preparing.phases.values("key", "status", "error"))


def _until_gone(kube, namespace):
    for _ in range(200):
        try:
            kube.get("v1", "Namespace", namespace)
        except NotFound:
            return
        RealClock().wait(0.02)
    raise AssertionError(f"{namespace} is still there")


@pytest.fixture
def staged(ada, practice):
    """A live session with two parts that wait, in a cluster in which nothing is broken yet."""
    fault_services.seed_catalog()
    outline = [
        {"title": slug, "minutes": 20, "scenarios": [slug], "questions": [], "injection": "button"}
        for slug in (SLUG, "gpu-requests")
    ]
    session = services.create_session(owner=ada, candidate_name="Sam", outline=outline)
    services.prepare(session=session, actor=ada)
    jobs.prepare_session(session.pk)
    yield services.start(session=session, actor=ada)
    session.refresh_from_db()
    if session.cluster is not None and session.cluster.released_at is None:
        fault_services.release_cluster(cluster=session.cluster)


def die_after_injecting(session):
    """Do what a worker does that dies between the injection and the proof."""
    phase_services.run(session.pk, {"inject": staging.WORKERS["inject"]}, lambda each: each.state == "live")


def names(kube, kind, version, namespace):
    try:
        return {found["metadata"]["name"] for found in kube.list(version, kind, namespace)}
    except NotFound:
        return set()


def test_it_is_injected_once_proven_kept_skipped_and_reverted(staged, ada):
    row = staged.scenarios.get(part=0)
    kube = fault_selectors.kube_for(InterviewSession.objects.select_related("cluster").get(pk=staged.pk).cluster)
    namespace = fault_selectors.pack_of(row.scenario_version).bind().namespaces["workloads"]
    assert names(kube, "Job", "batch/v1", namespace) == set()

    services.start_part(session=staged, number=0, actor=ada)
    die_after_injecting(staged)
    assert staged.staged_parts.get(number=0).began_at is None
    steps = staged.scenarios.get(part=0).run.steps.count()
    for _ in range(2):
        jobs.start_part(staged.pk)
    row = staged.scenarios.get(part=0)
    assert staged.staged_parts.get(number=0).began_at >= row.run.symptom_at
    assert (row.run.status, row.run.steps.count()) == ("active", steps)
    broken = names(kube, "Job", "batch/v1", namespace)
    assert len(broken) == 1

    services.start_part(session=staged, number=1, actor=ada)
    die_after_injecting(staged)
    other = staged.scenarios.get(part=1).run
    elsewhere = next(iter(other.namespaces.values()))
    assert len(names(kube, "Job", "batch/v1", elsewhere)) == 2
    services.skip_part(session=staged, number=1, actor=ada)
    jobs.start_part(staged.pk)
    other.refresh_from_db()
    assert (other.status, other.residue) == ("reverted", [])
    assert names(kube, "Job", "batch/v1", elsewhere) == set()
    assert names(kube, "Job", "batch/v1", namespace) == broken

    services.end(session=staged, actor=ada)
    services.release(session=staged, actor=ada)
    jobs.release_session(staged.pk)
    staged.refresh_from_db()
    assert (staged.residue, staged.release_outcome) == ([], "reverted")
    assert not staged.phases.exclude(status=PreparationPhase.Status.DONE).exists()
