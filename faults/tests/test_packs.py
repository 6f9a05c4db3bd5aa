"""Loading packs: what is refused, where, and what placeholders become."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from faults import packs
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


def test_more_rights_are_asked_for_by_name_and_never_on_shared_clusters(edit):
    def asking(*rights, tiers=("practice", "dedicated")):
        return edit(lambda d: d.update(rights=list(rights), requires={**d["requires"], "tiers": list(tiers)}))

    assert packs.parse(asking("privileged-pods", "direct-placement")).rights == (
        "privileged-pods",
        "direct-placement",
    )
    assert "cannot be granted on shared clusters" in refused(asking("ephemeral-containers", tiers=["shared"]))
    assert "rights" in refused(asking("root"))


def test_binding_fills_in_names_everywhere(varied):
    bound = varied.bind({"workloads": "team-7"}, {"job": "vision-train"})
    job = bound.inject[1].spec["objects"][0]
    assert (job["metadata"]["namespace"], job["metadata"]["name"]) == ("team-7", "vision-train")
    assert "`vision-train`" in bound.statement
    assert "vision-train" in bound.checks[0].title
    assert bound.checks[0].condition.reads["jobs"].name == "vision-train"
    assert bound.solutions[0].steps[0].spec["target"]["namespace"] == "team-7"
    assert bound.namespaces == {"workloads": "team-7"}


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
        (lambda d: d["inject"].append({"kind": "shell", "run": "rm"}), "inject.2"),
        (lambda d: d["inject"].append({"kind": "patch", "target": {}}), "inject.2"),
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
