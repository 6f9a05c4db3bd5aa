"""The table of conformance: what passed and failed in each group, from ginkgo's reports."""

import importlib.util
import json
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "deploy/testcluster/conformance/conformance.py"
spec = importlib.util.spec_from_file_location("conformance", SCRIPT)
conformance = importlib.util.module_from_spec(spec)
sys.modules["conformance"] = conformance
spec.loader.exec_module(conformance)


def entry(name, state, **more):
    return {"ContainerHierarchyTexts": ["[sig-cli] Kubectl"], "LeafNodeText": name, "LeafNodeType": "It",
            "State": state, **more}  # fmt: skip


def test_it_counts_and_names_what_failed(tmp_path):
    specs = [
        entry("applies", "passed"),
        entry("skips", "skipped"),
        entry("waits", "timedout", Failure={"Message": "a suite\ntimeout | <nil>"}),
        {**entry("before", "passed"), "LeafNodeType": "BeforeSuite"},
    ]
    (tmp_path / "cli").mkdir()
    (tmp_path / "cli" / "report.json").write_text(json.dumps([{"SpecReports": specs}, {"SpecReports": None}]))
    text = conformance.table(tmp_path)
    assert "| cli | 1 | 1 | 0 | 12 of 17 |" in text
    assert "Run on an unknown commit." in text
    assert "- [sig-cli] Kubectl waits: a suite timeout \\| &lt;nil>" in text


def test_what_cannot_pass_is_listed_with_its_reason_and_each_commit_is_named(tmp_path):
    name = "Should be able to support the 1.17 Sample API Server using the current Aggregator [Conformance]"
    spec = {**entry(name, "failed"), "ContainerHierarchyTexts": ["[sig-api-machinery] Aggregator"]}
    for group, commit in (("aggregator", "abc"), ("cli", "def")):
        (tmp_path / group).mkdir()
        (tmp_path / group / "report.json").write_text(json.dumps([{"SpecReports": [spec]}]))
        (tmp_path / group / "commit").write_text(commit)
    text = conformance.table(tmp_path)
    assert "Run on def (cli); abc (aggregator)." in text
    assert "| aggregator | 0 | 0 | 1 |  |" in text
    assert f"- [sig-api-machinery] Aggregator {name}: its pod is the suite's sample API server" in text


def test_without_the_suite_it_says_what_to_run(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    arguments = ["--kubeconfig", str(tmp_path / "k"), "--folder", str(tmp_path), "--group", "auth"]
    assert conformance.main(arguments) == 1
    assert "Run: make conformance" in capsys.readouterr().err


def programs(folder, last="cat ../report >report.json"):
    """Make a folder of programs that stand in for the suite's: a ginkgo that reports one spec that has passed."""
    (folder / "report").write_text(json.dumps([{"SpecReports": [entry("applies", "passed")]}]))
    for name in ("ginkgo", "e2e.test", "kubectl"):
        (folder / name).write_text(f'#!/bin/sh\necho "$@" >>asked\n{last}\n')
        (folder / name).chmod(0o755)


def suite(folder, *arguments):
    return conformance.main(
        ["--kubeconfig", str(folder / "k"), "--bin", str(folder), "--folder", str(folder), *arguments]
    )


def test_a_page_is_written_by_a_whole_run_only(tmp_path, capsys):
    programs(tmp_path)
    page = tmp_path / "page.md"
    assert suite(tmp_path, "--group", "cli", "--write", str(page)) == 0
    assert "is left as it is: there are no reports of api-machinery, apps" in capsys.readouterr().out
    assert not page.exists()
    assert suite(tmp_path, "--write", str(page)) == 0
    assert "| cli | 1 | 0 | 0 | 12 of 17 |" in page.read_text()


def test_specs_of_ones_own_choice_run_once_and_go_into_no_page(tmp_path):
    programs(tmp_path)
    assert suite(tmp_path, "--focus", "expands a claim", "--write", str(tmp_path / "page.md")) == 0
    asked = (tmp_path / "focus" / "asked").read_text().splitlines()
    assert len(asked) == 1
    assert "--focus=expands a claim" in asked[0]
    assert not (tmp_path / "page.md").exists()


def test_a_suite_that_does_not_run_is_not_taken_for_its_last_report(tmp_path, capsys):
    programs(tmp_path)
    assert suite(tmp_path, "--group", "cli") == 0
    programs(tmp_path, "exit 1")
    assert suite(tmp_path, "--group", "cli") == 1
    assert "the suite did not run; " in capsys.readouterr().err
