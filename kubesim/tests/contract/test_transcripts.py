"""The comparison of transcripts: what counts as the same, and a few scenes that must always be playable."""

from dataclasses import replace

import pytest

from kubesim.tests.contract import parity_report, transcripts
from kubesim.tests.contract.normalise import normalise
from kubesim.tests.contract.tools import oldest_and_newest
from kubesim.tests.live import serving

TABLE = "NAME          READY   STATUS    RESTARTS   AGE\ntrain-{}   0/1     Pending   0          {}\n"


def test_names_times_and_widths_do_not_count():
    one = normalise(TABLE.format("x7k2p", "9s"), "ns")
    assert one == normalise(TABLE.format("bcd24", "2m10s").replace("   0/1", "    0/1"), "ns")
    assert one.splitlines()[1] == "train-<random>  0/1  Pending  0  <age>"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("uid: 73b9a43f-ea1e-4614-a37a-842c95972976", "uid: <uid>"),
        ('startTime: "2026-11-20T23:47:12Z"', 'startTime: "<time>"'),
        ('  resourceVersion: "1976"', '  resourceVersion: "<version>"'),
        ("Created pod: web-74bf6698cb-d6t8r", "Created pod: web-<hash>-<random>"),
        ("namespace: jobs-qwrtps", "namespace: <namespace>"),
        ("  Resource Version:  8859", "  Resource Version:  <version>"),
        ("2026/11/21 09:38:43 [notice] 1#1: start", "<time> [notice] 1#1: start"),
        ("stored to /tmp/kubectl-edit-0wik3.yaml", "stored to <folder>/kubectl-edit-random.yaml"),
        ("not in /tmp/transcripts-nc9_ickv/left/kubeconfig", "not in <home>/kubeconfig"),
    ],
)
def test_what_no_two_runs_share_is_taken_out(text, shown):
    assert normalise(text, "jobs-qwrtps") == shown


def test_an_age_is_taken_out_and_a_setting_is_kept():
    assert normalise("Age:          5s\nActive Deadline Seconds:  3600s", "ns") == (
        "Age: <age>\nActive Deadline Seconds:  3600s"
    )


def test_what_a_kubelet_says_counts_where_both_have_one():
    line = "  Normal  Pulled  5s  kubelet  Pulled in 1.2s (1.3s including waiting)."
    assert normalise(line, "ns") == ""
    assert normalise(line, "ns", kubelets=True) == "  Normal  Pulled  <age>  kubelet  Pulled in <time>."


def test_words_that_look_random_are_kept():
    assert normalise("the-queue is-empty kube-root-ca.crt", "ns") == "the-queue is-empty kube-root-ca.crt"


def test_a_difference_is_shown_and_counted():
    command = transcripts.Command("get pods")
    left, right = (transcripts.Answer(command, 0, text) for text in ("a\nb", "a\nc"))
    verdict = transcripts.Verdict("pods", left, right)
    assert verdict.diff().splitlines()[-2:] == ["-b", "+c"]
    found = [transcripts.finding("1.33", each) for each in (verdict, transcripts.Verdict("pods", left, left))]
    page = parity_report.report(found)
    assert "| 1.33 | 2 | 1 | 0 | 1 | 0 | 50.0 % |" in page
    assert "| pods | 1 of 2 |" in page
    assert "- pods: `kubectl get pods` (1.33): not yet the same" in page


def test_the_goal_is_missed_by_too_many_differences_and_by_one_without_a_reason():
    same = [parity_report.Finding("1.20", "pods", "get pods", same=True, known=True) for _ in range(99)]
    other = parity_report.Finding("1.20", "pods", "get x", same=False, known=True, reason="so it is")
    assert parity_report.missed([*same, other]) == []
    assert parity_report.missed([*same, replace(other, reason="")]) == [
        "kubectl 1.20: pods: get x: not yet the same, and no reason is given"
    ]
    assert parity_report.missed([other]) == ["kubectl 1.20: 0.0 % of the commands are the same, the goal is 98 %"]


def test_what_a_kubectl_does_not_know_counts_neither_way():
    assert not parity_report.known('error: unknown command "events" for "kubectl"', deliberate=False)
    assert parity_report.known('error: unknown command "frobnicate" for "kubectl"', deliberate=True)
    unknown = parity_report.Finding("1.20", "tree", "events", same=True, known=False)
    assert "| 1.20 | 1 | 0 | 0 | 0 | 1 | 100.0 % |" in parity_report.report([unknown])


def test_what_is_the_same_only_in_a_second_play_is_told():
    found = parity_report.Finding("1.33", "pods", "get pods", same=True, known=True, again=True)
    page = parity_report.report([found])
    assert "| 1.33 | 1 | 1 | 1 | 0 | 0 | 100.0 % |" in page
    assert page.endswith("- pods: `kubectl get pods` (1.33)\n")
    assert "| 1.33 | 1 | 1 | 0? | 0 | 0 | 100.0 % |" in parity_report.report([replace(found, again=None)])


def test_a_page_is_written_by_a_whole_run_only(tmp_path, capsys):
    page = tmp_path / "parity.md"
    found = [parity_report.Finding("1.33", "pods", "get pods", same=True, known=True)]
    transcripts.write(found, page)
    assert "is left as it is: not played were discovery, jobs" in capsys.readouterr().out
    assert not page.exists()
    scenes = [
        scene for script in (transcripts.SCRIPTS, transcripts.CONTAINERS) for scene in transcripts.load(script)[1]
    ]
    transcripts.write([replace(found[0], scene=scene.name) for scene in scenes], page)
    assert "| pods | 1 of 1 |" in page.read_text()


def test_every_command_has_a_scene_of_its_own_kind():
    scenes = [
        scene for script in (transcripts.SCRIPTS, transcripts.CONTAINERS) for scene in transcripts.load(script)[1]
    ]
    assert len({scene.name for scene in scenes}) == len(scenes)
    assert sum(not command.quiet for scene in scenes for command in scene.commands) > 1400


def test_both_clusters_have_the_same_names_in_the_kubeconfig():
    entries = {name: [{"name": "x", name[:-1]: {}}] for name in ("clusters", "users", "contexts")}
    config = transcripts.renamed({**entries, "current-context": "x"})
    assert config["current-context"] == config["contexts"][0]["name"] == config["users"][0]["name"]


@pytest.mark.kubectl
def test_scenes_play_on_kubesim_alone(tmp_path):
    """Twice on the same cluster: whatever differs then is the normaliser's fault."""
    kubectl = oldest_and_newest()
    if not kubectl:
        pytest.skip("no kubectl on PATH or in KUBECTL")
    files, scenes = transcripts.load()
    short = next(scene for scene in scenes if scene.name == "services")
    with serving(tmp_path, nodes=1) as live:
        runs = []
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            runner = transcripts.Runner(kubectl[-1], live.kubeconfig, tmp_path / name, files)
            runs.append(runner.play(short, f"services-{name}"))
    verdicts = [transcripts.Verdict("services", *pair) for pair in zip(*runs, strict=True)]
    assert [verdict.diff() for verdict in verdicts if not verdict.same] == []
    assert len(verdicts) == len([command for command in short.commands if not command.quiet])
