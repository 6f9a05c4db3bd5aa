"""Images: references, platforms, pulls that fail, and the programs that images run."""

import re
from pathlib import Path

import pytest

from kubesim.gpu.access import Found
from kubesim.imagenames import wrong_reference
from kubesim.kubelet import behaviours, images
from kubesim.kubelet.images import PullError, parse_reference, pull
from kubesim.kubelet.programs import Program
from kubesim.shell.tools import TOOLS


def program(image: str, *argv: str, **env: str) -> Program:
    return behaviours.program(pull(image, "amd64"), argv, tuple(env.items()), "amd64", seed="pod")


def printed(run: Program, until: float = 60) -> list[str]:
    return [line.text for line in run.lines(until)]


@pytest.mark.parametrize(
    ("short", "full"),
    [
        ("python", "docker.io/library/python:latest"),
        ("python:3.9-slim", "docker.io/library/python:3.9-slim"),
        ("arm64v8/python:3.7", "docker.io/arm64v8/python:3.7"),
        ("nvcr.io/nvidia/pytorch:24.05-py3", "nvcr.io/nvidia/pytorch:24.05-py3"),
        ("localhost:5000/a/b", "localhost:5000/a/b:latest"),
        ("python@sha256:ab", "docker.io/library/python@sha256:ab"),
    ],
)
def test_it_completes_references_as_containerd_does(short, full):
    assert parse_reference(short).full == full


@pytest.mark.parametrize("image", ["nginx:1.277", "python:3.99-slim", "nvcr.io/nvidia/k8s-device-plugin:v0.99.99"])
def test_a_version_that_nobody_has_published_is_not_found(image):
    with pytest.raises(PullError) as caught:
        pull(image, "amd64")
    assert str(caught.value).endswith(f"{parse_reference(image).full}: not found")


@pytest.mark.parametrize(("image", "version"), [("python:3.9-slim", "3.9.25"), ("python:3.12.3", "3.12.3")])
def test_a_short_version_stands_for_a_whole_one(image, version):
    assert pull(image, "amd64").env["PYTHON_VERSION"] == version


def test_an_index_gives_each_node_its_platform():
    assert pull("python:3.9-slim", "amd64").platform == "linux/amd64"
    assert pull("python:3.9-slim", "arm64").platform == "linux/arm64/v8"


def test_an_index_without_the_platform_fails_to_pull():
    with pytest.raises(PullError) as caught:
        pull("arm64v8/python:3.9-slim", "amd64")
    assert str(caught.value) == (
        "rpc error: code = NotFound desc = failed to pull and unpack image "
        '"docker.io/arm64v8/python:3.9-slim": no match for platform in manifest: not found'
    )


def test_a_single_platform_manifest_starts_anywhere_and_dies_of_its_format():
    assert images.STANDARD.platforms("arm64v8/python:3.7-slim-stretch") == ("manifest", ["linux/arm64/v8"])
    wrong = program("arm64v8/python:3.7-slim-stretch", "python3", "-c", "print('hi')")
    assert printed(wrong) == ["exec /usr/local/bin/python3: exec format error"]
    assert wrong.ending is not None
    assert wrong.ending.code == 255


def test_an_unknown_tag_is_not_found():
    with pytest.raises(PullError, match=r'code = NotFound .* "docker.io/library/python:9.9": .*:9.9: not found$'):
        pull("python:9.9", "amd64")


def test_an_unknown_repository_is_denied():
    with pytest.raises(PullError, match="pull access denied, repository does not exist or may require authorization"):
        pull("pyhton:3.9", "amd64")


def test_an_unknown_registry_does_not_resolve():
    with pytest.raises(PullError, match=r"dial tcp: lookup registry.corp.internal on .*: no such host$"):
        pull("registry.corp.internal/team/app:1", "amd64")


def test_a_missing_program_cannot_be_started():
    assert 'exec: "pythn": executable file not found in $PATH: unknown' in program("python:3.9", "pythn").start_error


def test_training_logs_over_time():
    image, found = pull("nvcr.io/nvidia/pytorch:24.05-py3", "amd64"), Found(("NVIDIA H100",), (81003,), 1.0, error=0)
    run = behaviours.program(image, ("python", "/workspace/train.py"), (), "amd64", seed="pod", found=found)
    assert run.ending is None
    assert len(printed(run, 600)) > 100
    assert printed(run, 100) == printed(run, 600)[: len(printed(run, 100))]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("nginx", ""), ("nginx:1.27", ""), ("ghcr.io/a/b_c/d-e:x@sha256:" + "0" * 64, ""), ("localhost:5000/a", ""),
        ("MyOrg/app", ""), ("10.0.0.1:5000/team/app:v1", ""), ("../../etc/passwd", "invalid reference format"),
        ("nginx:1:2", "invalid reference format"), ("nginx:", "invalid reference format"),
        ("a//b", "invalid reference format"), ("nginx@sha256:12", "invalid reference format"),
        ("org/App", "invalid reference format: repository name (org/App) must be lowercase"),
        ("f" * 64, f"invalid repository name ({'f' * 64}), cannot specify 64-byte hexadecimal strings"),
        ("a/" * 130 + "b", "repository name must not be more than 255 characters"),
    ],
)  # fmt: skip
def test_what_is_no_reference_is_told_as_the_parser_of_references_tells_it(text, why):
    assert wrong_reference(text) == (f'couldn\'t parse image name "{text}": {why}' if why else "")


def test_the_suites_own_image_serves_in_silence_where_its_programs_are_not_loaded(monkeypatch):
    monkeypatch.setattr(TOOLS, "added", set())
    image, argv = pull("registry.k8s.io/e2e-test-images/agnhost:2.53", "amd64"), ("/agnhost", "netexec")
    assert not behaviours.interpreted(image, argv, "amd64")
    assert behaviours.program(image, argv, (), "amd64", seed="a").ending is None


ROOT = Path(images.__file__).parents[2]
NAMED = Path(__file__).with_name("named_images.txt").read_text().split()
"""Images that the scenarios, the guide, the exercise and the question bank name, or need to be played."""


@pytest.mark.parametrize("image", [*NAMED, *images.present(8)])
def test_what_scenarios_name_can_be_pulled(image):
    architecture = "arm64" if image == "arm64v8/python" else "amd64"
    found = pull(image, architecture)
    assert found.entrypoint or found.cmd or "mpioperator" in image
    first = next(iter(found.entrypoint + found.cmd), "").rpartition("/")[2]
    assert not first or first in found.programs


ALWAYS_PULLED = r"\bimage: (\S+)\n +imagePullPolicy: Always"


def test_every_image_that_the_product_itself_runs_can_be_pulled_and_is_on_the_nodes():
    packs = [*ROOT.glob("faults/catalog/*/scenario.yaml")]
    files = [*ROOT.glob("kubesim/addons/*.yaml"), *ROOT.glob("faults/catalog/*/[ms]*/*.yaml")]  # not wrong turns
    named = {
        name
        for path in files
        for name in re.findall(r"\bimage: \"?([a-z][^\s,}\"]*[:/][^\s,}\"]+)", path.read_text())
    }
    described = {row[1] for path in packs for row in re.finditer(r"^  - name: (\S+/\S+)$", path.read_text(), re.M)}
    named = {
        name for name in named if not name.startswith(("k8s-", "dcgm")) and name.partition(":")[0] not in described
    }
    assert len(named) > 12
    for name in named:
        assert pull(name, "amd64").size > 0
    there = {parse_reference(name).full for name in images.present(8)}
    for path in packs:
        row = re.search(r"^  images: \[(.*)\]", path.read_text(), re.M)
        there |= {parse_reference(name.strip(' "')).full for name in (row[1] if row else "").split(",") if name}
    optional = ("sentinel", "grafana")  # addons that a cluster has only where its file asks for them
    always = {name for path in files for name in re.findall(ALWAYS_PULLED, path.read_text())}
    usual = {name for name in named - always if not any(word in name for word in optional)}
    assert {parse_reference(name).full for name in usual} <= there


@pytest.mark.parametrize(
    "image", ["tensorflow/tensorflow:2.99.0", "nvidia/cuda:latest", "pytorch/pytorch:2.5.1-nosuch/x", "acme/train:1"]
)
def test_what_no_registry_has_is_refused(image):
    with pytest.raises(PullError):
        pull(image, "amd64")
