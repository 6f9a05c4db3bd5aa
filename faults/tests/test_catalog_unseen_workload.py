"""The scenario of a service that nobody can watch: what its texts promise, and Grafana's view of fault and repair."""

from __future__ import annotations

import difflib
import re

import pytest
import yaml

from faults.checks import programs
from faults.tests.variants import CATALOG, PACKS, objects_of

PACK = next(pack for pack in PACKS if pack.slug == "unseen-workload")
ADDONS = CATALOG.parents[1] / "kubesim" / "addons"
BRIEF = (CATALOG / PACK.slug / "brief.md").read_text()


def installed(addon, kind, name):
    """Return an object as a practice cluster has it from the start."""
    objects = yaml.safe_load_all((ADDONS / f"{addon}.yaml").read_text())
    return next(obj for obj in objects if (obj["kind"], obj["metadata"]["name"]) == (kind, name))


def bound(cause):
    values = next(values for values in PACK.variants if values["cause"] == cause)
    return PACK.bind(parameters=values)


def changed(before, after):
    lines = difflib.ndiff(before.splitlines(), after.splitlines())
    return [line for line in lines if line[0] in "+-"]


def test_the_scrape_configuration_is_the_clusters_own_but_for_what_the_texts_say():
    pack = bound("pod-jobs")
    own = installed("monitoring", "ConfigMap", "prometheus")["data"]["prometheus.yml"]
    (cut,) = [step.spec["patch"]["data"]["prometheus.yml"] for step in pack.inject if step.kind == "patch"]
    assert changed(own, cut) == [
        "-   kubernetes_sd_configs: [{role: pod}]",
        "+   kubernetes_sd_configs: [{role: pod, namespaces: {names: [monitoring, ml-search]}}]",
    ]
    (other,) = objects_of(next(solution for solution in pack.solutions if solution.key == "own-scrape-job"))
    added = changed(own, other["data"]["prometheus.yml"])
    assert added[0] == "+ - job_name: dcgm-exporter"
    assert all(line.startswith("+") for line in added)


def test_every_variant_cuts_one_link_of_what_is_installed():
    """A step that finds the object as it leaves it would change nothing, and its fault would not show."""
    for values in PACK.variants:
        patches = [step for step in PACK.bind(parameters=values).inject if step.kind == "patch"]
        assert len(patches) == 1, values["cause"]
        target = patches[0].spec["target"]
        addon = {"monitoring": "monitoring", "observability": "prometheus-operator"}.get(
            target["namespace"], "gpu-operator"
        )
        found = installed(addon, target["kind"], target["name"])
        assert not contains(found, patches[0].spec["patch"]), values["cause"]


def contains(obj, patch):
    """Return whether a merge patch would leave an object as it is."""
    if not isinstance(patch, dict):
        return obj == patch
    return all(contains(obj.get(key) if isinstance(obj, dict) else None, value) for key, value in patch.items())


@pytest.mark.parametrize("cause", [values["cause"] for values in PACK.variants])
def test_the_brief_explains_every_variant(cause):
    assert f"| `{cause}` |" in BRIEF


def test_the_program_of_the_wrong_turn_differs_from_the_teams():
    pack = bound("annotation")
    (turn,) = [turn for turn in pack.wrong_turns if turn.route.key == "new-program"]
    made = [obj for step in pack.inject for obj in step.spec.get("objects", [])]
    (theirs,) = [obj["data"]["embed.py"] for obj in made if "embed.py" in obj.get("data", {})]
    (other,) = objects_of(turn.route)
    (guard,) = [guard for guard in pack.guards if guard.key == "program-kept"]
    wanted = re.search(r"digest\(c\.data\[k\]\) == '(\w+)'", guard.condition.expr)[1]
    assert programs.digest(theirs) == wanted != programs.digest(other["data"]["embed.py"])
