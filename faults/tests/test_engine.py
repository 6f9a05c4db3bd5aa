"""The engine against a cluster in memory: every crash, every interleaving with a candidate."""

from __future__ import annotations

import contextlib
import copy

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from faults.engine import State, Target, compare, fingerprint, settle
from faults.errors import Conflict, Forbidden, NotFound, StaleEpoch
from faults.injectors import ACTIONS, Create
from faults.injectors import PatchObject as Patch
from faults.tests.fakes import FakeCluster, MemoryJournal
from faults.tests.fakes import engine as Engine

JOB = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train", "namespace": "lab"}, "spec": {"a": 1}}
NOTE = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "note", "namespace": "lab"}, "data": {"k": "v"}}
WEB = Target("apps/v1", "Deployment", "lab", "web")
PATCH = {"spec": {"replicas": 0, "template": {"nodeSelector": {"zone": "nowhere"}, "priority": None}}}
CHANGES = [Create(JOB), Patch(WEB, PATCH), Create(NOTE)]
CREATIONS_FIRST = [Create(JOB), Create(NOTE), Patch(WEB, PATCH)]
INJECT_POINTS = ["before-undo", "before-write", "after-write"]
REVERT_POINTS = ["revert-before-write", "revert-after-write"]


class Killed(BaseException):
    """Nothing in the engine may catch this, as nothing catches SIGKILL."""


def killer(name, hit=1):
    left = [hit]

    def failpoint(reached):
        if reached == name:
            left[0] -= 1
            if left[0] == 0:
                raise Killed(name)

    return failpoint


@pytest.fixture
def cluster():
    cluster = FakeCluster()
    spec = {"replicas": 3, "template": {"image": "web:1", "priority": 7}}
    cluster.create(
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": WEB.dump() | {"labels": {}}, "spec": spec}
    )
    return cluster


@pytest.fixture
def journal():
    return MemoryJournal()


def picture(cluster):
    return fingerprint(cluster, ["lab"])


def test_it_writes_nothing_before_its_undo_is_committed(cluster, journal):
    def has_undo(verb, key):
        recorded = [(r.target.kind, r.target.name) for r in journal.rows.values() if r.state is State.RECORDED]
        assert (key[1], key[3]) in recorded

    cluster.before_write = has_undo
    Engine(cluster, journal.open()).apply(CHANGES)
    assert [record.state for record in journal.rows.values()] == [State.APPLIED] * 3


def test_revert_gives_back_exactly_what_was_there(cluster, journal):
    before, web = picture(cluster), cluster.get("apps/v1", "Deployment", "web", "lab")
    engine = Engine(cluster, journal.open())
    engine.apply(CHANGES)
    assert len(compare(before, picture(cluster))) == 3

    assert engine.revert() == []
    assert compare(before, picture(cluster)) == []
    assert cluster.get("apps/v1", "Deployment", "web", "lab")["spec"] == web["spec"]
    assert engine.leftovers() == []


def test_a_namespace_is_taken_back_before_what_limits_it(cluster, journal):
    """Its controllers make nothing any more then; without the limits they would make what was refused so far."""
    note = {**NOTE, "metadata": {**NOTE["metadata"], "namespace": "home"}}
    home = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "home"}}
    engine, said = Engine(cluster, journal.open()), []
    engine.apply([Create(home), Create(note), Create(JOB)])
    assert engine.revert(said.append) == []
    kinds = [line.split()[2] for line in said]
    assert kinds == ["Namespace", "Job", "ConfigMap"]
    assert engine.leftovers() == []


@pytest.mark.parametrize("changes", [CHANGES, CREATIONS_FIRST])
@pytest.mark.parametrize("hit", [1, 2, 3])
@pytest.mark.parametrize("point", INJECT_POINTS)
def test_a_worker_that_dies_while_injecting_can_be_followed_by_another(cluster, journal, point, hit, changes):
    before = picture(cluster)
    with pytest.raises(Killed):
        Engine(cluster, journal.open(), failpoint=killer(point, hit)).apply(changes)

    engine = Engine(cluster, journal.open())
    engine.apply(changes)
    assert cluster.get("apps/v1", "Deployment", "web", "lab")["spec"]["replicas"] == 0
    assert engine.revert() == []
    assert compare(before, picture(cluster)) == []


@pytest.mark.parametrize("changes", [CHANGES, CREATIONS_FIRST])
@pytest.mark.parametrize("hit", [1, 2, 3])
@pytest.mark.parametrize("point", INJECT_POINTS)
def test_a_worker_that_dies_while_injecting_can_be_reverted_by_another(cluster, journal, point, hit, changes):
    before = picture(cluster)
    with pytest.raises(Killed):
        Engine(cluster, journal.open(), failpoint=killer(point, hit)).apply(changes)

    assert Engine(cluster, journal.open()).revert() == []
    assert compare(before, picture(cluster)) == []


def test_creations_that_follow_each_other_share_two_commits(cluster, journal):
    Engine(cluster, journal.open()).apply([Create(JOB), Create(NOTE)])
    assert journal.saves == 2
    assert [record.state for record in journal.rows.values()] == [State.APPLIED] * 2


@pytest.mark.parametrize(("changes", "commits"), [(CHANGES, 4), (CREATIONS_FIRST, 3)])
def test_what_was_made_is_marked_in_the_commit_of_the_next_undo(cluster, journal, changes, commits):
    Engine(cluster, journal.open()).apply(changes)
    assert journal.saves == commits
    assert [record.state for record in journal.rows.values()] == [State.APPLIED] * 3


def test_what_was_made_is_marked_though_the_next_look_fails(cluster, journal):
    missing = Patch(Target("apps/v1", "Deployment", "lab", "nothing"), PATCH)
    with pytest.raises(NotFound):
        Engine(cluster, journal.open()).apply([Create(JOB), missing])
    assert [record.state for record in journal.rows.values()] == [State.APPLIED]


def test_what_was_created_before_a_refusal_stays_recorded(cluster, journal):
    def refuse(verb, key):
        if key[3] == "note":
            raise Forbidden("not here")

    cluster.before_write = refuse
    with pytest.raises(Forbidden):
        Engine(cluster, journal.open()).apply(CREATIONS_FIRST)
    assert [(record.state, bool(record.uid)) for record in journal.rows.values()] == [
        (State.APPLIED, True),
        (State.RECORDED, False),
    ]


def test_a_worker_overtaken_between_two_creations_takes_the_first_back(cluster, journal):
    def overtake(point):
        if point == "after-write":  # the other worker looked before this write, and found nothing to revert
            journal.newest_epoch += 1
            journal.rows = {index: row.reverted("was not there") for index, row in journal.rows.items()}

    before, writes = picture(cluster), []
    cluster.before_write = lambda verb, key: writes.append((verb, key[3]))
    with pytest.raises(StaleEpoch):
        Engine(cluster, journal.open(), failpoint=overtake).apply(CREATIONS_FIRST)
    assert writes == [("create", "train"), ("delete", "train")]
    assert compare(before, picture(cluster)) == []


@pytest.mark.parametrize("hit", [1, 2, 3])
@pytest.mark.parametrize("point", REVERT_POINTS)
def test_a_worker_that_dies_while_reverting_can_be_followed_by_another(cluster, journal, point, hit):
    before = picture(cluster)
    Engine(cluster, journal.open()).apply(CHANGES)
    with pytest.raises(Killed):
        Engine(cluster, journal.open(), failpoint=killer(point, hit)).revert()

    assert Engine(cluster, journal.open()).revert() == []
    assert compare(before, picture(cluster)) == []


def test_applying_twice_has_one_effect(cluster, journal):
    engine = Engine(cluster, journal.open())
    engine.apply(CHANGES)
    after, writes = picture(cluster), []
    cluster.before_write = lambda verb, key: writes.append(key)
    engine.apply(CHANGES)
    assert writes == []
    assert picture(cluster) == after


def test_an_overtaken_worker_may_not_write(cluster, journal):
    late = Engine(cluster, journal.open())
    Engine(cluster, journal.open()).apply(CHANGES)
    writes = []
    cluster.before_write = lambda verb, key: writes.append(key)
    with pytest.raises(StaleEpoch):
        late.revert()
    assert writes == []


def test_a_worker_overtaken_in_the_middle_of_its_write_takes_the_write_back(cluster, journal):
    def overtake(point):
        if point == "after-write":
            # The other worker did not see this write yet and finds nothing to revert.
            row = journal.rows[0]
            journal.newest_epoch += 1
            journal.rows[0] = row.reverted("was not there")

    before = picture(cluster)
    with pytest.raises(StaleEpoch):
        Engine(cluster, journal.open(), failpoint=overtake).apply([Create(JOB)])
    assert compare(before, picture(cluster)) == []


def test_the_candidates_value_is_never_overwritten(cluster, journal):
    engine = Engine(cluster, journal.open())
    engine.apply(CHANGES)
    cluster.edit("Deployment", "web", {"spec": {"replicas": 5}}, "apps/v1")
    engine.revert()
    web = cluster.get("apps/v1", "Deployment", "web", "lab")
    assert web["spec"] == {"replicas": 5, "template": {"image": "web:1", "priority": 7}}


def test_an_object_that_the_candidate_made_anew_is_left_alone(cluster, journal):
    engine = Engine(cluster, journal.open())
    engine.apply(CHANGES)
    cluster.delete("batch/v1", "Job", "train", "lab")
    cluster.create({**JOB, "spec": {"a": 2}})
    assert engine.revert() == []
    assert cluster.get("batch/v1", "Job", "train", "lab")["spec"] == {"a": 2}


def test_a_target_that_has_gone_is_recovered(cluster, journal):
    engine = Engine(cluster, journal.open())
    engine.apply(CHANGES)
    cluster.objects.clear()
    assert engine.revert() == []
    assert engine.leftovers() == []


def test_it_refuses_to_take_over_somebody_elses_object(cluster, journal):
    cluster.create({**JOB, "spec": {"a": 9}})
    with pytest.raises(Conflict, match="not ours"):
        Engine(cluster, journal.open()).apply(CHANGES)
    assert Engine(cluster, journal.open()).revert() == []
    assert cluster.get("batch/v1", "Job", "train", "lab")["spec"] == {"a": 9}


def test_a_missing_target_fails_before_anything_is_recorded(cluster, journal):
    with pytest.raises(NotFound):
        Engine(cluster, journal.open()).apply([Patch(Target("apps/v1", "Deployment", "lab", "none"), PATCH)])
    assert journal.rows == {}


def test_a_step_that_cannot_be_reverted_says_what_a_person_must_run(cluster, journal):
    engine = Engine(cluster, journal.open())
    engine.apply(CHANGES)

    def refuse(verb, key):
        if key[1] in ("Job", "Deployment"):
            raise Forbidden("no")

    cluster.before_write = refuse
    stuck = engine.revert()
    assert [entry.command for entry in stuck] == [
        "kubectl patch deployment web -n lab --type=merge -p "
        '\'{"spec": {"replicas": 3, "template": {"nodeSelector": {"zone": null}, "priority": 7}}}\'',
        "kubectl delete job train -n lab",
    ]
    assert journal.rows[2].state is State.REVERTED


@pytest.mark.parametrize(
    "owner", [JOB, JOB | {"apiVersion": "apps/v1", "kind": "StatefulSet"}], ids=lambda owner: owner["kind"]
)
def test_settling_waits_for_the_pods_of_a_deleted_workload_and_hurries_them(cluster, journal, owner):
    engine = Engine(cluster, journal.open())
    engine.apply([Create(owner)])
    uid = journal.rows[0].uid
    owners = [{"kind": owner["kind"], "name": "train", "uid": uid, "controller": True}]
    meta = {"name": "train-x", "namespace": "lab", "ownerReferences": owners}
    cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta})
    engine.revert()
    assert compare({}, picture(cluster)) != []
    settle(cluster, list(journal.rows.values()), ACTIONS, wait=lambda seconds: None, guard=lambda: None)
    assert [key for key in picture(cluster) if "Pod" in key] == []


def test_the_fingerprint_ignores_what_the_cluster_derives_and_sees_the_rest(cluster):
    before = picture(cluster)
    owner = cluster.get("apps/v1", "Deployment", "web", "lab")["metadata"]["uid"]
    refs = [{"kind": "Deployment", "uid": owner, "controller": True}]
    owned = {"name": "web-1", "namespace": "lab", "ownerReferences": refs}
    cluster.create({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": owned})
    cluster.edit("Deployment", "web", {"status": {"replicas": 3}, "metadata": {"generation": 9}}, "apps/v1")
    assert compare(before, picture(cluster)) == []
    cluster.edit("Deployment", "web", {"spec": {"paused": True}}, "apps/v1")
    assert compare(before, picture(cluster)) == ["apps/v1/Deployment lab/web has changed"]


def test_the_fingerprint_asks_nothing_of_a_namespace_that_the_cluster_does_not_have(cluster, monkeypatch):
    asked, ask = [], cluster.list
    monkeypatch.setattr(cluster, "list", lambda *about: asked.append(about) or ask(*about))
    assert fingerprint(cluster, ["lab", "absent"]) == picture(cluster)
    assert {about[2:] for about in asked} == {(), ("lab",)}
    asked.clear()
    assert list(fingerprint(cluster, ["absent"])) == ["v1/Namespace lab"]
    assert asked == [("v1", "Namespace")]


def test_a_digest_is_the_one_that_earlier_versions_have_stored(cluster):
    spec = {"text": "\u00e9\u2028", "share": 1e16, "none": None, "empty": {"list": [[], {}]}, "off": False, "zero": 0}
    meta = {"name": "old", "namespace": "lab", "annotations": {"deployment.kubernetes.io/revision": "3"}}
    cluster.create({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec})
    for _ in range(2):  # the second time it is remembered
        assert picture(cluster)["apps/v1/Deployment lab/old"] == "617b6a1658c0daac"


VALUES = st.sampled_from([None, 0, 1, "x", [], [1]])


class Interleavings(RuleBasedStateMachine):
    """Inject, revert, crash and restart in any order, while a candidate edits and deletes."""

    @initialize(replicas=VALUES, extra=VALUES)
    def begin(self, replicas, extra):
        self.cluster, self.journal = FakeCluster(), MemoryJournal()
        spec = {key: value for key, value in {"replicas": replicas, "extra": extra}.items() if value is not None}
        meta = {"name": "web", "namespace": "lab"}
        self.cluster.create({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec})
        self.before = self.picture()
        self.touched = False

    def picture(self):
        return fingerprint(self.cluster, ["lab"])

    def attempt(self, work, point, hit):
        with contextlib.suppress(Killed, NotFound, Conflict):
            work(Engine(self.cluster, self.journal.open(), failpoint=killer(point, hit)))

    @rule(point=st.sampled_from([*INJECT_POINTS, "none"]), hit=st.integers(1, 3))
    def inject(self, point, hit):
        self.attempt(lambda engine: engine.apply(CHANGES), point, hit)

    @rule(point=st.sampled_from([*REVERT_POINTS, "none"]), hit=st.integers(1, 3))
    def revert(self, point, hit):
        self.attempt(lambda engine: engine.revert(), point, hit)

    @rule(value=st.integers(50, 60))
    def candidate_fixes(self, value):
        self.touched = True
        self.cluster.edit("Deployment", "web", {"spec": {"replicas": value}}, "apps/v1")

    @rule()
    def candidate_replaces_the_job(self):
        self.touched = True
        self.cluster.objects.pop(("batch/v1", "Job", "lab", "train"), None)
        self.cluster.create({**JOB, "spec": {"mine": True}})

    @precondition(lambda self: not self.touched)
    @rule()
    def a_full_revert_leaves_nothing(self):
        assert Engine(self.cluster, self.journal.open()).revert() == []
        assert compare(self.before, self.picture()) == []

    @rule()
    def a_revert_never_touches_the_candidates_work(self):
        web = ("apps/v1", "Deployment", "lab", "web")
        was = copy.deepcopy(self.cluster.objects[web]["spec"].get("replicas"))
        job = copy.deepcopy(self.cluster.objects.get(("batch/v1", "Job", "lab", "train")))
        Engine(self.cluster, self.journal.open()).revert()
        if isinstance(was, int) and was >= 50:
            assert self.cluster.objects[web]["spec"]["replicas"] == was
        if job is not None and job["spec"] == {"mine": True}:
            assert self.cluster.objects["batch/v1", "Job", "lab", "train"] == job

    @invariant()
    def what_is_reverted_is_gone(self):
        engine = Engine(self.cluster, self.journal.open())
        assert engine.leftovers() == []


Interleavings.TestCase.settings = settings(
    max_examples=settings().max_examples // 2, stateful_step_count=15, suppress_health_check=list(HealthCheck)
)
test_no_interleaving_loses_anything = Interleavings.TestCase


def forget(cluster, journal, steps):
    """Let the cluster come back from a snapshot that was taken before the last ``steps`` writes."""
    pictures = []
    cluster.before_write = lambda verb, key: pictures.append(copy.deepcopy(cluster.objects))

    def restore():
        cluster.objects = pictures[-steps]
        cluster.before_write = lambda verb, key: None

    return restore


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_what_the_cluster_has_forgotten_is_made_again(cluster, journal, steps):
    before = picture(cluster)
    come_back = forget(cluster, journal, steps)
    Engine(cluster, journal.open()).apply(CHANGES)
    come_back()
    engine = Engine(cluster, journal.open())
    engine.apply(CHANGES, mend=True)
    assert len(compare(before, picture(cluster))) == 3
    assert engine.revert() == []
    assert compare(before, picture(cluster)) == []


def test_without_being_told_to_mend_it_takes_a_gone_effect_for_somebodys_wish(cluster, journal):
    engine = Engine(cluster, journal.open())
    engine.apply(CHANGES)
    cluster.delete("batch/v1", "Job", "train", "lab")
    engine.apply(CHANGES)
    assert ("batch/v1", "Job", "lab", "train") not in cluster.objects


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_what_came_back_with_the_cluster_is_taken_back_again(cluster, journal, steps):
    before = picture(cluster)
    engine = Engine(cluster, journal.open())
    engine.apply(CHANGES)
    come_back = forget(cluster, journal, steps)
    engine.revert()
    come_back()
    assert compare(before, picture(cluster)) != []
    assert Engine(cluster, journal.open()).revert() == []
    assert compare(before, picture(cluster)) == []


def test_settling_deletes_again_what_came_back_meanwhile(cluster, journal):
    engine = Engine(cluster, journal.open())
    engine.apply(CHANGES)
    come_back = forget(cluster, journal, 3)
    engine.revert()
    come_back()
    settle(cluster, journal.open().records(), ACTIONS, wait=lambda seconds: None, guard=lambda: None)
    assert {key[1] for key in cluster.objects} == {"Namespace", "Deployment"}
