"""Loading packs: what is refused, where, and what placeholders become."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from faults import packs, services
from faults.errors import FaultError
from faults.injectors import KINDS
from faults.models import FaultRun
from faults.packs import PackError, safe_yaml

CATALOG = Path(__file__).resolve().parents[1] / "catalog"


@pytest.fixture
def files():
    return packs.load_folder(CATALOG / "architecture-mismatch")


@pytest.fixture
def edit(files):
    """Return the files after a change to scenario.yaml's document."""

    def change(apply):
        document = yaml.safe_load(files["scenario.yaml"])
        apply(document)
        return files | {"scenario.yaml": yaml.safe_dump(document, width=1000)}

    return change


@pytest.fixture
def varied(edit):
    """The pack with one more variant."""
    return packs.parse(edit(lambda d: d["variants"].append({"job": "vision-train"})))


def refused(files):
    with pytest.raises(PackError) as caught:
        packs.parse(files)
    return str(caught.value)


def test_it_loads_a_pack_with_all_its_parts(files):
    pack = packs.parse(files)
    assert pack.slug == "architecture-mismatch"
    assert [step.kind for step in pack.inject] == ["manifest", "manifest"]
    assert pack.rubric[0].anchors.keys() == {1, 2, 3, 4}
    assert pack.checks[0].hold == 10.0


def test_the_digest_follows_the_contents_not_the_order(files):
    again = dict(reversed(files.items()))
    assert packs.digest(files) == packs.digest(again)
    assert packs.digest(files) != packs.digest(files | {"brief.md": "other"})
    assert packs.digest({"a": "bc"}) != packs.digest({"ab": "c"})


def test_binding_fills_in_names_everywhere(varied):
    bound = varied.bind({"workloads": "team-7"}, {"job": "vision-train"})
    job = bound.inject[1].spec["objects"][0]
    assert (job["metadata"]["namespace"], job["metadata"]["name"]) == ("team-7", "vision-train")
    assert "`vision-train`" in bound.statement
    assert "vision-train" in bound.checks[0].title
    assert bound.checks[0].condition.reads["jobs"].name == "vision-train"
    assert bound.solutions[0].lines[0] == "kubectl delete job vision-train"
    assert "namespace: team-7" in bound.solutions[0].files["solutions/multi-platform-image.yaml"]
    assert bound.namespaces == {"workloads": "team-7"}


def test_a_solution_is_in_one_form(edit):
    step = {"verb": "create", "command": "kubectl apply -f x", "file": "solutions/multi-platform-image.yaml"}
    assert "solutions.0.steps: cannot stand beside lines" in refused(
        edit(lambda d: d["solutions"][0].update(steps=[step]))
    )
    assert "solutions.0.lines: is needed" in refused(edit(lambda d: d["solutions"][0].pop("lines")))


def test_a_stored_version_with_typed_steps_stays_readable(edit):
    target = {"apiVersion": "batch/v1", "kind": "Job", "namespace": "ml-training", "name": "${parameter.job}"}
    delete = {"verb": "delete", "command": "kubectl delete job ${parameter.job}", "target": target}
    create = {"verb": "create", "command": "kubectl apply -f x", "file": "solutions/multi-platform-image.yaml"}
    old = {"key": "old", "title": "As it was written before", "steps": [delete, create]}
    files = edit(lambda d: d["solutions"].__setitem__(0, old))
    route = packs.parse(files).bind().solutions[0]
    assert route.lines == ("kubectl delete job nightly-train", "kubectl apply -f x")
    assert not route.run
    with pytest.raises(FaultError, match="they can be read, and not be run"):
        services.apply_solution(run=FaultRun(), solution=route, kubeconfig="")
    with pytest.raises(PackError, match="solutions.0.steps: is a form that is only read; write lines"):
        packs.check_new(packs.parse(files).template.document)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda rows: rows[1].pop("kind"), "rubric.1.kind: is needed: one of diagnosis, fix, communication"),
        (lambda rows: rows.pop(), "rubric: has no criterion of the kind communication"),
    ],
    ids=["none", "left-out"],
)
def test_a_pack_that_is_taken_in_has_criteria_of_all_three_kinds(edit, change, words):
    document = packs.parse(edit(lambda d: change(d["rubric"]))).template.document
    with pytest.raises(PackError, match=words):
        packs.check_new(document)


def test_binding_twice_starts_from_the_placeholders(varied):
    pack = varied.bind(parameters={"job": "vision-train"})
    assert "`nightly-train`" in pack.bind().statement


def test_binding_refuses_names_and_values_the_pack_does_not_have(files):
    pack = packs.parse(files)
    with pytest.raises(PackError, match="no namespace named other"):
        pack.bind({"other": "x"})
    with pytest.raises(PackError, match="no variant has image=x"):
        pack.bind(parameters={"image": "x"})
    with pytest.raises(PackError, match="no variant has job=x; y"):
        pack.bind(parameters={"job": "x; y"})


def test_values_of_a_variant_belong_together(edit):
    rows = [{"job": f"job-{number}", "gpus": str(number)} for number in range(1, 6)]
    pack = packs.parse(edit(lambda d: d.update(variants=rows)))
    assert "`job-3`" in pack.bind(parameters={"gpus": "3"}).statement
    with pytest.raises(PackError, match="no variant has gpus=2, job=job-1"):
        pack.bind(parameters={"job": "job-1", "gpus": "2"})


def test_a_version_of_before_there_were_variants_has_one_for_each_combination(edit):
    parameters = {
        "job": {"default": "b", "choices": ["a", "b"]},
        "size": {"default": "s", "choices": ["s", "m"]},
    }
    pack = packs.parse(edit(lambda d: d.pop("variants") and d.update(parameters=parameters)))
    assert pack.variants[0] == {"job": "b", "size": "s"}
    assert {tuple(row.values()) for row in pack.variants} == {("a", "s"), ("a", "m"), ("b", "s"), ("b", "m")}


def test_a_version_with_more_combinations_than_anybody_reads_is_refused(edit):
    rows = {name: {"default": "0", "choices": [str(number) for number in range(50)]} for name in ("job", "node")}
    message = refused(edit(lambda d: d.pop("variants") and d.update(parameters=rows)))
    assert "more than 1000 combinations" in message


def test_an_escaped_placeholder_stays_as_text(files):
    pack = packs.parse(files | {"statement.md": "run $${HOME}/x in ${namespace.workloads}"})
    assert pack.bind().statement == "run ${HOME}/x in ml-training"


def test_an_unknown_placeholder_is_refused_with_its_file(files):
    message = refused(files | {"statement.md": "in ${namespace.nowhere}"})
    assert message.startswith(
        "statement.md, ${namespace.nowhere}: no such placeholder; known are: namespace.workloads"
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d.pop("title"), "'title' is a required property"),
        (lambda d: d.update(colour="red"), "'colour' was unexpected"),
        (lambda d: d["rubric"][0]["anchors"].pop(3), "rubric.0.anchors: '3' is a required property"),
        (lambda d: d["checks"][0].update(expr="jobs.exists(j, "), "checks.0.expr"),
        (lambda d: d["checks"][0].update(expr="pod.x"), "checks.0.expr: there is no variable named pod"),
        (lambda d: d["checks"][0].update(needs=["same-work"]), "checks.0.needs: same-work is not a key above it"),
        (lambda d: d["guards"][0].update(key="job-complete"), "the key job-complete is there twice"),
        (lambda d: d["inject"].append({"kind": "manifest", "file": "manifests/x.yaml"}), "no file manifests/x.yaml"),
        (
            lambda d: d["inject"].append({"kind": "shell", "run": "rm"}),
            "inject.2.kind: shell is no kind of step; valid are: call, delete, driver, gpu, manifest",
        ),
        (
            lambda d: d["inject"].append({"kind": "delete", "target": NOTE, "dependants": "orphan"}),
            "inject.2.dependants: delete has no such field; valid are: dependents, kind, target, variants",
        ),
        (lambda d: d["inject"].append({"kind": "patch", "target": NOTE}), "inject.2: 'patch' is a required property"),
        (lambda d: d["inject"].append({"kind": "patch", "target": {}, "patch": {"a": 1}}), "inject.2.target"),
        (lambda d: d["inject"].pop(), "manifests/training-job.yaml: is not used by any step"),
        (lambda d: d["solutions"].pop(), "solutions"),
        (lambda d: d["variants"][1].update(job="a\nb"), "variants.1.job"),
        (lambda d: d["variants"].pop(), "variants"),
        (lambda d: d["variants"][2].update(node="n"), "variants.2: differs from the first in node"),
        (lambda d: d.pop("variants"), "variants: is needed: at least five rows"),
        (lambda d: d.update(parameters={}), "variants: is needed: at least five rows"),
        (lambda d: d["symptom"][0]["reads"].update(log={"logs": {"pods": "jobs"}}), "jobs is not a read of pods"),
    ],
)
def test_it_says_what_is_wrong_and_where(edit, change, words):
    message = refused(edit(change))
    assert message.startswith(("scenario.yaml", "manifests/"))
    assert words in message


@pytest.mark.parametrize("name", ["../x.md", "run.sh", "manifests/x.txt", "manifests/deep/x.yaml", "/etc/passwd"])
def test_it_refuses_files_a_pack_has_no_use_for(files, name):
    assert refused(files | {name: "x"}).startswith(name)


def test_it_refuses_a_pack_without_its_parts(files):
    assert refused({}) == "scenario.yaml: is missing or empty"
    assert refused(files | {"statement.md": " "}) == "statement.md: is missing or empty"


def test_it_refuses_manifests_that_are_not_objects(files):
    name = "manifests/training-job.yaml"
    assert "apiVersion and kind are needed" in refused(files | {name: "kind: Job"})
    assert "has no metadata.name" in refused(files | {name: "apiVersion: v1\nkind: Pod\nmetadata: {generateName: x}"})
    assert "holds no object" in refused(files | {name: "---\n---\n"})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: &x [1]\nb: *x", "line 2: aliases"),
        ("[" * 30 + "]" * 30, "deeper than 20"),
        ("[" * 30000, "deeper"),
        ("- 1\n" * 6000, "more than 5000"),
        ("a: " + "x" * 70000, "larger than 64 KiB"),
        ("a: 1\na: 2", "line 2: the key 'a' is there twice"),
        ("a: !!python/object/apply:os.system [x]", "line 1: could not determine a constructor"),
        ("a: [1", "line [12]"),
        ("a: \x00", "characters are not allowed"),
        ("{[1]: 2}", "line 1"),
        ("a: 1\n---\nb: 2", "one document, not 2"),
    ],
)
def test_yaml_from_people_is_limited(text, words):
    with pytest.raises(PackError, match=words):
        safe_yaml.load_one("x.yaml", text)


def test_dates_stay_text():
    assert safe_yaml.load_one("x.yaml", "a: 2026-01-05") == {"a": "2026-01-05"}


def test_loading_a_folder_refuses_links_binary_and_large_files(tmp_path):
    (tmp_path / "scenario.yaml").write_bytes(b"\xff\xfe")
    with pytest.raises(PackError, match="not UTF-8"):
        packs.load_folder(tmp_path)
    (tmp_path / "scenario.yaml").unlink()
    (tmp_path / "brief.md").symlink_to("/etc/hostname")
    with pytest.raises(PackError, match="is a link"):
        packs.load_folder(tmp_path)
    (tmp_path / "brief.md").unlink()
    (tmp_path / "brief.md").write_text("x" * 70000)
    with pytest.raises(PackError, match="larger than 64 KiB"):
        packs.load_folder(tmp_path)
    with pytest.raises(PackError, match="is not a folder"):
        packs.load_folder(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("escape", "named"), [("\x1b[2J", "U+001B"), ("\u202e", "U+202E"), ("e" + "\u0301" * 99, "U+0301")]
)
def test_text_with_characters_that_nobody_sees_is_refused(files, edit, escape, named):
    assert named in refused(files | {"statement.md": f"Mend it. {escape}"})

    def hide(document):
        document["hints"][0]["text"] = f"Look {escape}"

    assert named in refused(edit(hide))


NOTE = {"apiVersion": "v1", "kind": "ConfigMap", "namespace": "${namespace.workloads}", "name": "note"}
ROLE = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": "viewer"}
ROLLOUT = {**NOTE, "apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout"}
CALL = {
    "kind": "call",
    "target": {"kind": "Service", "namespace": "${namespace.workloads}", "name": "app", "port": 80},
    "method": "POST",
    "path": "/faults",
    "undo": {"method": "DELETE", "path": "/faults/1"},
    "read": {"path": "/faults/1", "status": 200},
}


def patching(target=NOTE, patch=None, **more):
    return {"kind": "patch", "target": target, "patch": patch or {"data": {"k": "v"}}, **more}


@pytest.mark.parametrize(
    "step",
    [
        patching(),
        patching(type="json", patch=[{"op": "remove", "path": "/data/k"}]),
        patching(type="strategic"),
        {"kind": "delete", "target": NOTE},
        {"kind": "delete", "target": {**NOTE, "apiVersion": "apps/v1", "kind": "Deployment"}, "dependents": "orphan"},
        CALL,
    ],
)
def test_a_step_of_each_kind_is_taken(edit, step):
    pack = packs.parse(edit(lambda d: d["inject"].append(step)))
    assert pack.bind({"workloads": "team-7"}).inject[-1].spec["target"]["namespace"] == "team-7"


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (patching(type="json"), "patch: must be a list of operations, since the type is json"),
        (patching(patch=[{"op": "remove", "path": "/data"}]), "patch: must be an object, since the type is merge"),
        (patching(ROLLOUT, type="strategic"), "type: Rollout has no strategic merge patch"),
        (patching(patch={"status": {"a": 1}}), "cannot change status"),
        (patching(patch={"metadata": {"name": "b"}}), "cannot change metadata.name; of the metadata it may change"),
        (patching(type="json", patch=[{"op": "put", "path": "/data"}]), "patch.0: needs an op, one of: add, copy"),
        (patching(type="json", patch=[{"op": "copy", "path": "/data", "from": "x"}]), "patch.0.from: must be a JSON"),
        (patching(type="json", patch=[{"op": "add", "path": "/metadata/uid", "value": 1}]), "metadata.uid"),
        ({"kind": "delete", "target": {**NOTE, "kind": "Secret"}}, "target.kind: Secret cannot be deleted"),
        ({"kind": "delete", "target": NOTE, "dependents": "orphan"}, "orphan is for kinds that adopt theirs again"),
        (CALL | {"method": "GET"}, "method: 'GET' is not one of"),
        (CALL | {"path": "/a/%2E%2e/b"}, "path: must not have . or .. as a part"),
        (CALL | {"path": "faults"}, "path: 'faults' does not match"),
        (CALL | {"read": {"path": "/faults/1"}}, "read: must expect something: status, json or text"),
        (CALL | {"body": "x" * 20_000}, "body: is larger than 16 KiB"),
    ],
)
def test_a_step_that_could_not_be_made_or_taken_back_is_refused(edit, step, words):
    message = refused(edit(lambda d: d["inject"].append(step)))
    assert "inject.2" in message
    assert words in message


def test_a_pack_says_in_which_form_it_is_written(edit):
    assert packs.parse(edit(lambda d: None)).schema == 2
    assert packs.parse(edit(lambda d: [d.pop("schema"), d.pop("rights")])).schema == 1
    for unknown in (3, True, "2"):
        message = refused(edit(lambda d, number=unknown: d.update(schema=number)))
        assert f"schema: {unknown} is unknown here; known are 1 and 2" in message


def test_stored_packs_of_the_first_form_are_read_as_before(edit):
    def old(document):
        del document["schema"], document["rights"]
        document["inject"].append(patching(ROLE, {"metadata": {"labels": {"a": "b"}}}))

    assert packs.parse(edit(old)).inject[-1].kind == "patch"
    message = refused(edit(lambda d: [old(d), d["inject"].append({"kind": "delete", "target": NOTE})]))
    assert "delete is no kind of step in this schema; it needs schema: 2; valid are: manifest, patch" in message


def test_a_partition_in_a_namespace_of_the_session_makes_room_in_its_isolation(edit):
    step = {"kind": "network", "name": "rules", "partition": "worker_worker", "source": {"app": "a"}}
    inside = packs.parse(edit(lambda d: d["inject"].append({**step, "namespace": "${namespace.workloads}"})))
    own = inside.bind({"workloads": "ml-training"}).inject[-1]
    assert own.spec["tenants"] == ["ml-training"]
    assert [change.action for change in KINDS["network"].changes(own.spec)] == ["delete", "delete", "restore"]
    tiers = {"tiers": ["practice", "dedicated"]}
    there = edit(
        lambda d: [
            d["inject"].append({**step, "namespace": "monitoring"}),
            d.update(existing=["monitoring"]),
            d["requires"].update(tiers),
        ]
    )
    assert "tenants" not in packs.parse(there).inject[-1].spec
    named = {**step, "namespace": "${namespace.workloads}", "name": "${parameter.job}-rules"}
    assert packs.parse(edit(lambda d: d["inject"].append(named))).bind().inject[-1].spec["name"].endswith("-rules")
    given = {**step, "namespace": "${namespace.workloads}", "tenants": ["everybody"]}
    assert "network has no such field" in refused(edit(lambda d: d["inject"].append(given)))


def test_a_pack_names_every_namespace_that_it_reads_or_changes(edit):
    def using(*steps, **more):
        tiers = {"tiers": ["practice", "dedicated"]}
        return edit(lambda d: [d["inject"].extend(steps), d.update(more), d["requires"].update(tiers)])

    there = patching({**NOTE, "namespace": "monitoring"})
    assert packs.parse(using(there, existing=["monitoring"])).existing == ("monitoring",)
    assert packs.parse(using(patching(ROLE))).schema == 2
    message = refused(using(there))
    assert "inject.2: the namespace monitoring is neither the session's nor named in existing" in message
    reads = {"x": {"apiVersion": "v1", "kind": "Pod", "namespace": "gpu-operator"}}
    symptom = {"title": "x", "reads": reads, "expr": "size(x) == 0", "found": "''"}
    assert "symptom.0.reads.x: the namespace gpu-operator" in refused(using(symptom=[symptom]))


def test_namespaces_themselves_and_shared_clusters_are_not_touched(edit):
    space = {"apiVersion": "v1", "kind": "Namespace", "name": "monitoring"}
    labels = {"metadata": {"labels": {"a": "b"}}}
    alone = edit(lambda d: [d["requires"].update(tiers=["practice"]), d["inject"].append(patching(space, labels))])
    assert "changes the namespace monitoring itself" in refused(alone)
    of_the_cluster = edit(lambda d: d["inject"].append(patching(ROLE)))
    assert "ClusterRole has no namespace; remove shared" in refused(of_the_cluster)
    others = edit(lambda d: d.update(existing=["monitoring"]))
    assert "existing: cannot be had on shared clusters" in refused(others)
    created = edit(lambda d: None)
    created["manifests/embedding-api.yaml"] += "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: monitoring}\n"
    assert "inject.0.file: the namespace itself is never created or deleted" in refused(created)


def test_the_documentation_names_every_field_of_every_kind():
    text = (CATALOG.parents[1] / "docs" / "packs.md").read_text(encoding="utf-8")
    for name, kind in KINDS.items():
        section = text.split(f"### `{name}`")[1].split("###")[0]
        assert [field for field in kind.fields if f"`{field}`" not in section] == []


def test_milestones_stand_in_order_within_par_and_name_checks_of_the_pack(edit):
    def with_course(*rows, par=15):
        milestones = [{"key": f"m{number}", "title": "T", **row} for number, row in rows]
        return edit(lambda d: d.update(par=par, milestones=milestones))

    pack = packs.parse(with_course((1, {"par": 3}), (2, {"par": 9, "checks": ["job-complete"]})))
    assert [(row.par, row.checks) for row in pack.milestones] == [(3, ()), (9, ("job-complete",))]
    assert "milestones.1.par: is not between 9 and 15" in refused(with_course((1, {"par": 9}), (2, {"par": 3})))
    assert "milestones.0.par: is not between 0 and 15" in refused(with_course((1, {"par": 16})))
    assert "par: is more than the scenario's 20 minutes" in refused(with_course(par=21))
    assert "milestones.0.checks: other is no check" in refused(with_course((1, {"par": 3, "checks": ["other"]})))
    assert "the key m1 is there twice" in refused(with_course((1, {"par": 3}), (1, {"par": 4})))


def test_milestones_need_a_par_time_and_a_pack_may_have_neither(edit):
    assert "par: is needed beside milestones" in refused(edit(lambda d: d.pop("par")))
    assert packs.parse(edit(lambda d: [d.pop(name) for name in ("par", "milestones")])).milestones == ()


SYMPTOM = {"title": "T", "reads": {"pods": {"apiVersion": "v1", "kind": "Pod"}}, "expr": "true", "found": "''"}
TASK = packs.load_folder(CATALOG / "gpu-acceptance")
SPOKEN = packs.load_folder(CATALOG / "mpi-across-nodes")


def without_fault(files, apply):
    document = yaml.safe_load(files["scenario.yaml"])
    apply(document)
    return files | {"scenario.yaml": yaml.safe_dump(document, width=1000)}


def test_a_task_has_checks_and_no_fault_and_a_spoken_exercise_has_criteria_alone(files):
    fault, task, spoken = packs.parse(files), packs.parse(TASK), packs.parse(SPOKEN)
    assert [pack.exercise for pack in (fault, task, spoken)] == ["fault", "task", "spoken"]
    assert (task.inject, task.symptom, len(task.checks) > 0) == ((), (), True)
    assert (spoken.checks, spoken.solutions, spoken.namespaces, spoken.variants) == ((), (), {}, ({},))
    assert spoken.bind().rubric == spoken.rubric


@pytest.mark.parametrize(
    ("pack", "apply", "words"),
    [
        (TASK, lambda d: d.pop("solutions"), "solutions: is needed in a task with checks"),
        (TASK, lambda d: d.pop("requires"), "requires: is needed in a task with checks"),
        (TASK, lambda d: d.update(symptom=[SYMPTOM]), "inject: is needed in a pack with a fault"),
        (TASK, lambda d: d.pop("schema"), "is needed in a pack with a fault"),
        (TASK, lambda d: d.pop("variants"), "variants: is needed"),
        (SPOKEN, lambda d: d.update(namespaces={"workloads": "a"}), "namespaces: is of no use in a spoken exercise"),
        (SPOKEN, lambda d: d.update(guards=[]), "guards: is of no use in a spoken exercise"),
        (SPOKEN, lambda d: d.pop("rubric"), "'rubric' is a required property"),
    ],
)
def test_exercises_without_a_fault_leave_out_just_what_they_have_no_use_for(pack, apply, words):
    assert words in refused(without_fault(pack, apply))


@pytest.mark.parametrize("name", ["inject", "symptom", "checks", "guards", "solutions", "requires", "namespaces"])
def test_a_pack_with_a_fault_leaves_out_none_of_it(edit, name):
    assert f"{name}: is needed in a pack with a fault" in refused(edit(lambda d: d.pop(name)))
