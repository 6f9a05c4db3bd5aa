"""Every kind of change against a cluster in memory: crashes, other runs, and a candidate who is at work meanwhile."""

from __future__ import annotations

import contextlib
import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from faults.engine import State, Target, compare, fingerprint
from faults.engine.node_agents import AgentLease
from faults.errors import ClusterError, Conflict, Forbidden, Invalid, NotFound, StaleEpoch, Unreachable
from faults.injectors import ACTIONS, KINDS, Create
from faults.injectors import PatchObject as Patch
from faults.injectors import changes as changes_of
from faults.injectors.delete import MAX_OBJECT_BYTES
from faults.injectors.delete import DeleteObject as Delete
from faults.packs.model import InjectStep
from faults.tests.fakes import OF_THE_CLUSTER, FakeCluster, MemoryJournal, engine
from faults.tests.test_engine import INJECT_POINTS, REVERT_POINTS, Killed, killer

RBAC = "rbac.authorization.k8s.io/v1"
NODE = Target("v1", "Node", "", "gpu-1")
ROLE = Target(RBAC, "ClusterRole", "", "viewer")
WEB = Target("apps/v1", "Deployment", "lab", "web")
NOTE = Target("v1", "ConfigMap", "lab", "note")
OLD = {"key": "old", "effect": "NoSchedule"}
TAINT = {"key": "gpu", "effect": "NoSchedule"}
GET_PODS, LIST_NODES = {"resources": ["pods"], "verbs": ["get"]}, {"resources": ["nodes"], "verbs": ["list"]}
CREATED = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "note", "namespace": "lab"},
    "data": {"k": "v"},
}
CALL = {
    "target": {"kind": "Pod", "namespace": "lab", "name": "app", "port": 8080},
    "method": "PUT",
    "path": "/faults/slow",
    "body": {"seconds": 5},
    "undo": {"method": "DELETE", "path": "/faults/slow"},
    "read": {"path": "/faults/slow", "json": {"seconds": 5}},
}


def json_patch(target, *operations):
    return Patch(
        target, [dict(zip(("op", "path", "value"), entry, strict=False)) for entry in operations], patch_type="json"
    )


ADD_TAINT = json_patch(NODE, ("add", "/spec/taints/0", TAINT))
REMOVE_TAINT = json_patch(NODE, ("remove", "/spec/taints/0"))
LABEL = Patch(NODE, {"metadata": {"labels": {"pool": "spare"}}})
RULE = json_patch(ROLE, ("replace", "/rules/1/verbs", ["watch"]))
NO_RULE = json_patch(ROLE, ("remove", "/rules/0"))
ENTRY = json_patch(WEB, ("replace", "/spec/template/spec/containers/0/env/0/value", "wrong"))
NO_ENV = json_patch(WEB, ("remove", "/spec/template/spec/containers/0/env"))
SCALE = Patch(WEB, {"spec": {"replicas": 0}})
(SLOW,) = KINDS["call"].changes(CALL)
LEASE = AgentLease("run-1")
LOST, STOPPED = changes_of(
    [InjectStep("xid", {"node": "gpu-1", "xid": 79}), InjectStep("service", {"node": "gpu-1", "service": "kubelet"})],
    LEASE,
)
BY_KIND = {
    "manifest": [Create(CREATED)],
    "patch": [ADD_TAINT, LABEL, ENTRY],
    "delete": [Delete(WEB), Delete(ROLE)],
    "call": [SLOW],
    "node fault": [LOST, STOPPED],
    "all, on the same objects": [LABEL, Create(CREATED), LOST, ENTRY, SLOW, Delete(WEB), RULE, Delete(ROLE)],
}


def world():
    cluster = FakeCluster(OF_THE_CLUSTER)
    env = [{"name": "A", "value": "1"}, {"name": "B", "value": "1"}]
    container = {"name": "web", "image": "web:1", "env": env}
    spec = {"replicas": 3, "template": {"spec": {"containers": [container]}}}
    for target, content in (
        (NODE, {"spec": {"taints": [OLD]}}),
        (ROLE, {"rules": [GET_PODS, LIST_NODES]}),
        (WEB, {"spec": spec}),
        (Target("v1", "Pod", "lab", "app"), {"spec": {}}),
    ):
        meta = {"name": target.name, "labels": {"app": "x"}, "namespace": target.namespace}
        named = {key: value for key, value in meta.items() if value}
        cluster.create({"apiVersion": target.api_version, "kind": target.kind, "metadata": named, **content})
    cluster.add_agent("gpu-1")
    return cluster


@pytest.fixture
def cluster():
    return world()


@pytest.fixture
def journal():
    return MemoryJournal()


def picture(cluster):
    return fingerprint(cluster, ["lab"]) | {
        f"page {page}": "there" for pages in cluster.pages.values() for page in pages
    }


def get(cluster, target):
    return cluster.get(target.api_version, target.kind, target.name, target.namespace)


@pytest.fixture(params=BY_KIND)
def changes(request):
    return BY_KIND[request.param]


def hits(points, most):
    return [pytest.param(point, hit, id=f"{point}-{hit}") for point in points for hit in range(1, most + 1)]


def attempt(work, point, hit):
    """Let a worker die; one that has less to do than that comes through."""
    with contextlib.suppress(Killed):
        work(killer(point, hit))


@pytest.mark.parametrize(("point", "hit"), hits(INJECT_POINTS, 7))
def test_a_worker_that_dies_while_injecting_is_followed_by_another(cluster, journal, changes, point, hit):
    before = picture(cluster)
    attempt(lambda fail: engine(cluster, journal.open(), failpoint=fail).apply(changes), point, hit)
    following = engine(cluster, journal.open())
    following.apply(changes)
    assert {record.state for record in journal.rows.values()} == {State.APPLIED}
    assert following.revert() == []
    assert compare(before, picture(cluster)) == []
    assert following.leftovers() == []


@pytest.mark.parametrize(("point", "hit"), hits(INJECT_POINTS, 7))
def test_a_worker_that_dies_while_injecting_is_reverted_by_another(cluster, journal, changes, point, hit):
    before = picture(cluster)
    attempt(lambda fail: engine(cluster, journal.open(), failpoint=fail).apply(changes), point, hit)
    assert engine(cluster, journal.open()).revert() == []
    assert compare(before, picture(cluster)) == []


@pytest.mark.parametrize(("point", "hit"), hits(REVERT_POINTS, 7))
def test_a_worker_that_dies_while_reverting_is_followed_by_another(cluster, journal, changes, point, hit):
    before = picture(cluster)
    engine(cluster, journal.open()).apply(changes)
    attempt(lambda fail: engine(cluster, journal.open(), failpoint=fail).revert(), point, hit)
    assert engine(cluster, journal.open()).revert() == []
    assert compare(before, picture(cluster)) == []


@pytest.mark.parametrize(
    "change", [Create(CREATED), LABEL, Delete(WEB), SLOW, LOST], ids=lambda change: change.injector
)
def test_a_worker_overtaken_in_the_middle_of_its_write_takes_the_write_back(cluster, journal, change):
    def overtake(point):
        if point == "after-write":  # the other worker did not see this write yet and finds nothing to revert
            journal.newest_epoch += 1
            journal.rows[0] = journal.rows[0].reverted("was not there")

    before = picture(cluster)
    with pytest.raises(StaleEpoch):
        engine(cluster, journal.open(), failpoint=overtake).apply([change])
    assert compare(before, picture(cluster)) == []


def test_applying_twice_has_one_effect(cluster, journal, changes):
    engine(cluster, journal.open()).apply(changes)
    writes = []
    cluster.before_write = lambda verb, key: writes.append(key)
    engine(cluster, journal.open()).apply(changes)
    assert writes == []


def test_every_step_that_cannot_be_taken_back_has_a_command_of_kubectl(cluster, journal):
    engine(cluster, journal.open()).apply([Create(CREATED), ENTRY, SLOW, Delete(ROLE)])

    def refuse(verb, key):
        raise Forbidden("no")

    cluster.before_write = refuse
    commands = [entry.command for entry in engine(cluster, journal.open()).revert()]
    assert commands[0].endswith("| kubectl create -f -")
    assert commands[1] == "kubectl delete --raw /api/v1/namespaces/lab/pods/app:8080/proxy/faults/slow"
    assert commands[2].startswith("kubectl patch deployment web -n lab --type=merge -p ")
    assert '"name": "A", "value": "1"' in commands[2]
    assert commands[3] == "kubectl delete configmap note -n lab"


# Lists


def test_a_taint_that_somebody_else_sets_meanwhile_is_kept_on_both_ways(cluster, journal):
    mine, also_mine = {"key": "mine", "effect": "NoSchedule"}, {"key": "mine", "effect": "NoExecute"}
    moving = iter([[mine, OLD]])

    def write_first(verb, key):
        if (new := next(moving, None)) is not None:
            cluster.edit("Node", "gpu-1", {"spec": {"taints": new}}, namespace="")

    def at_the_last_moment(point):
        if point == "before-write":
            write_first("", None)

    engine(cluster, journal.open(), failpoint=at_the_last_moment).apply([REMOVE_TAINT])
    assert get(cluster, NODE)["spec"]["taints"] == [mine]
    cluster.edit("Node", "gpu-1", {"spec": {"taints": [also_mine, mine]}}, namespace="")
    assert engine(cluster, journal.open()).revert() == []
    assert get(cluster, NODE)["spec"]["taints"] == [OLD, also_mine, mine]


def test_an_object_that_changes_while_its_patch_is_tried_is_looked_at_again(cluster, journal):
    """Controllers write all the time: here between the look at a deployment and the dry run of its patch."""
    look, changing = cluster.get, iter(range(3))

    def get_and_change(*about):
        found = look(*about)
        if next(changing, None) is not None:
            cluster.edit("Deployment", "web", {"status": {"replicas": 3}}, "apps/v1")
        return found

    cluster.get = get_and_change
    engine(cluster, journal.open()).apply([ENTRY])
    assert journal.rows[0].state is State.APPLIED


def test_a_strategic_patch_of_a_custom_kind_is_refused_by_name(cluster, journal):
    with pytest.raises(Invalid, match="Deployment lab/web has no strategic merge patch"):
        engine(cluster, journal.open()).apply([Patch(WEB, {"spec": {"replicas": 0}}, patch_type="strategic")])
    assert journal.rows == {}


# Deletions


def test_a_deleted_object_comes_back_with_another_uid_that_is_recorded_and_followed(cluster, journal):
    old = get(cluster, WEB)
    engine(cluster, journal.open()).apply([SCALE, Delete(WEB)])
    with pytest.raises(NotFound):
        get(cluster, WEB)
    assert engine(cluster, journal.open()).revert() == []
    new = get(cluster, WEB)
    assert new["spec"] == old["spec"]
    assert new["metadata"]["uid"] != old["metadata"]["uid"]
    assert {journal.rows[index].uid for index in (0, 1)} == {new["metadata"]["uid"]}
    assert journal.rows[0].outcome == "restored"


def test_whoever_made_a_deleted_object_anew_keeps_theirs(cluster, journal):
    engine(cluster, journal.open()).apply([Delete(WEB)])
    mine = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "lab"},
        "spec": {},
    }
    cluster.create(mine)
    assert engine(cluster, journal.open()).revert() == []
    assert get(cluster, WEB)["spec"] == {}
    assert engine(cluster, journal.open()).leftovers() == []


def test_an_object_whose_owner_has_gone_is_not_made_for_the_garbage_collector(cluster, journal):
    owner = get(cluster, WEB)["metadata"]
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": owner["uid"]}
    cluster.create({**CREATED, "metadata": {**CREATED["metadata"], "ownerReferences": [reference]}})
    engine(cluster, journal.open()).apply([Delete(NOTE)])
    cluster.delete("apps/v1", "Deployment", "web", "lab")
    assert engine(cluster, journal.open()).revert() == []
    assert journal.rows[0].outcome == "has gone with its owner"
    assert engine(cluster, journal.open()).leftovers() == []


def test_what_a_restored_owner_owns_refers_to_its_new_uid(cluster, journal):
    owner = get(cluster, WEB)["metadata"]
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": owner["uid"]}
    cluster.create({**CREATED, "metadata": {**CREATED["metadata"], "ownerReferences": [reference]}})
    engine(cluster, journal.open()).apply([Delete(NOTE), Delete(WEB)])
    assert engine(cluster, journal.open()).revert() == []
    (found,) = get(cluster, NOTE)["metadata"]["ownerReferences"]
    assert found["uid"] == get(cluster, WEB)["metadata"]["uid"] != owner["uid"]


def test_what_a_controller_would_make_anew_is_not_deleted(cluster, journal):
    owned = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "u", "controller": True}]
    cluster.create({**CREATED, "metadata": {**CREATED["metadata"], "ownerReferences": owned}})
    with pytest.raises(Invalid, match="would be made anew by ReplicaSet web-1"):
        engine(cluster, journal.open()).apply([Delete(NOTE)])


def test_an_object_that_the_journal_could_not_keep_is_not_deleted(cluster, journal):
    cluster.create({**CREATED, "data": {"k": "v" * MAX_OBJECT_BYTES}})
    with pytest.raises(Invalid, match="ConfigMap lab/note is larger than 128 KiB"):
        engine(cluster, journal.open()).apply([Delete(NOTE)])


def test_what_the_server_makes_of_a_jobs_uid_is_left_to_it(cluster, journal):
    generated = {"controller-uid": "u", "batch.kubernetes.io/controller-uid": "u", "job-name": "train"}
    template = {"metadata": {"labels": {**generated, "team": "a"}}, "spec": {}}
    meta = {"name": "train", "namespace": "lab", "labels": generated}
    spec = {"selector": {"matchLabels": {"controller-uid": "u"}}, "template": template}
    cluster.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec})
    engine(cluster, journal.open()).apply([Delete(Target("batch/v1", "Job", "lab", "train"))])
    restored = journal.rows[0].undo["object"]
    assert restored["metadata"] == {"name": "train", "namespace": "lab"}
    assert restored["spec"] == {"template": {"metadata": {"labels": {"team": "a"}}, "spec": {}}}


def test_an_object_goes_with_its_namespace_for_good(cluster, journal):
    engine(cluster, journal.open()).apply([Delete(WEB)])
    cluster.delete("v1", "Namespace", "lab")

    def refuse(verb, key):
        raise NotFound('namespaces "lab" not found')

    cluster.before_write = refuse
    assert engine(cluster, journal.open()).revert() == []
    assert journal.rows[0].outcome == "has gone with its namespace"
    assert engine(cluster, journal.open()).leftovers() == []


# Calls


def test_a_call_is_made_once_and_taken_back_while_its_effect_shows(cluster, journal):
    calls = []
    cluster.before_write = lambda verb, key: calls.append(verb)
    engine(cluster, journal.open()).apply([SLOW])
    engine(cluster, journal.open()).apply([SLOW], mend=True)
    assert calls == ["PUT"]
    assert engine(cluster, journal.open()).revert() == []
    assert calls == ["PUT", "DELETE"]
    assert engine(cluster, journal.open()).leftovers() == []


def test_a_call_whose_effect_somebody_took_away_is_left_alone(cluster, journal):
    engine(cluster, journal.open()).apply([SLOW])
    cluster.pages.clear()
    calls = []
    cluster.before_write = lambda verb, key: calls.append(verb)
    assert engine(cluster, journal.open()).revert() == []
    assert (calls, journal.rows[0].outcome) == ([], "shows no effect, left alone")


def test_an_effect_that_is_there_before_the_call_is_nobodys_to_take_back(cluster, journal):
    cluster.pages[get(cluster, Target("v1", "Pod", "lab", "app"))["metadata"]["uid"]] = {
        "/faults/slow": b'{"seconds": 5}'
    }
    with pytest.raises(Conflict, match="shows the effect of the call before it was made"):
        engine(cluster, journal.open()).apply([SLOW])
    assert journal.rows == {}


def test_a_program_that_does_not_run_yet_is_called_later_and_one_that_has_gone_is_not_called_back(cluster, journal):
    cluster.edit("Pod", "app", {"status": {"phase": "Pending"}})
    with pytest.raises(Unreachable, match="cannot be called yet") as caught:
        engine(cluster, journal.open()).apply([SLOW])
    assert caught.value.retryable
    cluster.edit("Pod", "app", {"status": {"phase": "Running"}})
    engine(cluster, journal.open()).apply([SLOW])
    cluster.edit("Pod", "app", {"status": {"phase": "Failed"}})
    assert engine(cluster, journal.open()).revert() == []
    assert journal.rows[0].outcome == "the program has gone"


# Several runs


class MemoryNeighbours:
    """``Neighbours`` of one of several journals, in the order in which they were injected."""

    def __init__(self, journals, own):
        self.newer = list(itertools.takewhile(lambda journal: journal is not own, reversed(journals)))
        self.others = [journal for journal in journals if journal is not own]

    def have(self, record):
        rows = (row for journal in self.others for row in journal.rows.values())
        return any(row.is_of(record.target, record.uid) and row.undo["action"] == "delete" for row in rows)

    def inherit(self, record):
        for rows, index in self._of(record, reversed(self.newer), record.uid):
            rows[index], record = ACTIONS[rows[index].undo["action"]].inherit(rows[index], record)
        return record

    def follow(self, record, old):
        for rows, index in self._of(record, self.others, old):
            rows[index] = ACTIONS[rows[index].undo["action"]].follow(rows[index], record.target, old, record.uid)

    def _of(self, record, journals, uid):
        for journal in journals:
            for index in sorted(journal.rows):
                row = journal.rows[index]
                if row.is_of(record.target, uid) and row.state is not State.REVERTED:
                    yield journal.rows, index


CANDIDATES = {
    "taints a node": lambda cluster: add(cluster, NODE, ["spec", "taints"], {"key": "mine", "effect": "NoExecute"}),
    "adds a rule": lambda cluster: add(cluster, ROLE, ["rules"], {"resources": ["mine"], "verbs": ["get"]}),
    "labels a deployment": lambda cluster: cluster.edit(
        "Deployment", "web", {"metadata": {"labels": {"my": "1"}}}, "apps/v1"
    ),
}
"""Changes beside those of the runs, in the same objects and lists."""


def add(cluster, target, path, entry):
    with contextlib.suppress(NotFound):
        inner = get(cluster, target)
        for key in path:
            inner = inner.get(key) or ([] if key == path[-1] else {})
        change = {path[-1]: [*inner, entry]}
        for key in reversed(path[:-1]):
            change = {key: change}
        cluster.edit(target.kind, target.name, change, target.api_version, target.namespace)


POOL = [
    ADD_TAINT,
    REMOVE_TAINT,
    LABEL,
    RULE,
    NO_RULE,
    ENTRY,
    LOST,
    NO_ENV,
    SCALE,
    Create(CREATED),
    SLOW,
    Delete(WEB),
    Delete(ROLE),
    Delete(NOTE),
]
RUNS = st.lists(
    st.lists(st.sampled_from(range(len(POOL))), min_size=1, max_size=3, unique=True), min_size=1, max_size=3
)
POINTS = st.lists(st.tuples(st.sampled_from([*INJECT_POINTS, *REVERT_POINTS, "none"]), st.integers(1, 3)), max_size=6)


@given(runs=RUNS, order=st.randoms(use_true_random=False), points=POINTS, hand=st.sampled_from([None, *CANDIDATES]))
@settings(max_examples=settings().max_examples // 3, suppress_health_check=list(HealthCheck))
def test_whatever_runs_change_and_whoever_ends_first_only_the_candidates_changes_stay(runs, order, points, hand):
    cluster, wanted = world(), world()
    journals, deaths = [], iter(points)
    if hand:
        CANDIDATES[hand](cluster)
        CANDIDATES[hand](wanted)
    for indexes in runs:
        journals.append(MemoryJournal())
        work(cluster, journals, journals[-1], deaths, "apply", [POOL[index] for index in indexes])
    for journal in order.sample(journals, len(journals)):
        work(cluster, journals, journal, deaths, "revert")
        journals = [other for other in journals if other is not journal]
    assert compare(picture(wanted), picture(cluster)) == []


def work(cluster, journals, journal, deaths, verb, *arguments):
    """Let a worker do something and perhaps die; the next one brings it to its end, or sees that it cannot be."""
    for point, hit in [next(deaths, ("none", 1)), ("none", 1)]:
        following = engine(
            cluster, journal.open(), neighbours=MemoryNeighbours(journals, journal), failpoint=killer(point, hit)
        )
        with contextlib.suppress(Killed, ClusterError) if verb == "apply" else contextlib.suppress(Killed):
            assert getattr(following, verb)(*arguments) in (None, [])
