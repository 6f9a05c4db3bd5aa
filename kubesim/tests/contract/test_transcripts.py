"""The comparison of transcripts: what counts as the same, and a few scenes that must always be playable."""

import pytest

from kubesim.tests.contract import transcripts
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
    ],
)
def test_what_no_two_runs_share_is_taken_out(text, shown):
    assert normalise(text, "jobs-qwrtps") == shown


def test_words_that_look_random_are_kept():
    assert normalise("the-queue is-empty kube-root-ca.crt", "ns") == "the-queue is-empty kube-root-ca.crt"


def test_a_difference_is_shown_and_counted():
    command = transcripts.Command("get pods")
    left, right = (transcripts.Answer(command, 0, text) for text in ("a\nb", "a\nc"))
    verdict = transcripts.Verdict("pods", left, right)
    assert verdict.diff().splitlines()[-2:] == ["-b", "+c"]
    report = transcripts.report([verdict, transcripts.Verdict("pods", left, left)])
    assert "| pods | 2 | 1 |" in report
    assert "- pods: `kubectl get pods`: not yet the same" in report


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
