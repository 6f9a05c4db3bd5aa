"""A node's CDI specification takes the library into every container with a GPU, without a trace in the pod."""

import importlib.util
import json
import os
import shutil
import subprocess

import pytest

from native.tests.native_library import BUILD, NATIVE, needs_compiler

PROGRAM = NATIVE.parent / "deploy" / "cuda-fault" / "cdi.py"
SPEC = {
    "cdiVersion": "0.6.0",
    "kind": "nvidia.com/gpu",
    "devices": [{"name": "0", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0"}]}}],
    "containerEdits": {
        "env": ["NVIDIA_VISIBLE_DEVICES=void"],
        "mounts": [
            {"hostPath": "/usr/lib/libcuda.so.1", "containerPath": "/usr/lib/libcuda.so.1", "options": ["ro"]}
        ],
    },
}


@pytest.fixture
def cdi(monkeypatch):
    spec = importlib.util.spec_from_file_location("cdi", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def node(tmp_path):
    """A node's files: its specification, the library's folder, the control file."""
    folder = tmp_path / "cuda-fault"
    folder.mkdir()
    (folder / "libcudafault.so").write_bytes(b"")
    (tmp_path / "control").write_bytes(b"")
    (tmp_path / "nvidia.json").write_text(json.dumps(SPEC), encoding="utf-8")
    return tmp_path


def arguments(node, *more):
    return ["--spec", f"{node}/nvidia.json", "--folder", f"{node}/cuda-fault", "--control", f"{node}/control", *more]


def written(node):
    return json.loads((node / "nvidia.json").read_text(encoding="utf-8"))


def test_the_edits_are_added_once_and_leave_the_others_alone(cdi, node):
    assert [cdi.main(arguments(node)), cdi.main(arguments(node))] == [0, 0]
    mounts = written(node)["containerEdits"]["mounts"]
    assert mounts[0] == SPEC["containerEdits"]["mounts"][0]
    inside = ["/run/nvidia/libnvidia-ml-host.so.1", "/run/nvidia/gpu-control", "/etc/ld.so.preload"]
    assert [mount["containerPath"] for mount in mounts[1:]] == inside
    assert {**written(node), "containerEdits": SPEC["containerEdits"]} == SPEC


def test_they_are_removed_without_a_rest(cdi, node):
    cdi.main(arguments(node))
    assert cdi.main(arguments(node, "--remove")) == 0
    assert written(node) == SPEC
    assert sorted(path.name for path in node.iterdir()) == ["control", "cuda-fault", "nvidia.json"]


@pytest.mark.parametrize("text", ["", "kind: nvidia.com/gpu", "[]", "{}", '{"cdiVersion": "0.6.0"}'])
def test_a_file_that_is_no_specification_is_left_alone(cdi, node, capsys, text):
    (node / "nvidia.json").write_text(text, encoding="utf-8")
    assert cdi.main(arguments(node)) == 1
    assert "no CDI specification" in capsys.readouterr().err
    assert (node / "nvidia.json").read_text(encoding="utf-8") == text


@pytest.mark.parametrize(
    ("missing", "remedy"), [("cuda-fault/libcudafault.so", "make -C native"), ("control", "faultctl init")]
)
def test_what_is_missing_is_named_with_its_remedy(cdi, node, capsys, missing, remedy):
    (node / missing).unlink()
    assert cdi.main(arguments(node)) == 1
    assert remedy in capsys.readouterr().err
    assert written(node) == SPEC


def allowed() -> bool:
    """Whether this machine lets us make a mount namespace of our own."""
    argv = ["unshare", "--mount", "--map-root-user", "true"]
    return bool(shutil.which("unshare")) and subprocess.run(argv, capture_output=True, check=False).returncode == 0


@needs_compiler
@pytest.mark.skipif(
    not allowed(), reason="needs mount namespaces without root: sysctl kernel.unprivileged_userns_clone=1"
)
def test_a_program_with_these_mounts_fails_without_any_variable(cdi, control, tmp_path):
    (tmp_path / "nvidia.json").write_text(json.dumps(SPEC), encoding="utf-8")
    cdi.main(["--spec", f"{tmp_path}/nvidia.json", "--folder", str(BUILD), "--control", str(control.file)])
    control.arm("new=802", "refuse")
    mounts = written(tmp_path)["containerEdits"]["mounts"][1:]
    lines = ["set -e", "mount -t tmpfs none /etc", "mount -t tmpfs none /run", "mkdir -p /run/nvidia"]
    for mount in mounts:
        lines += [f"touch {mount['containerPath']}", f"mount --bind {mount['hostPath']} {mount['containerPath']}"]
    lines += ["env", f"exec {BUILD}/matrix driver {BUILD}/libcuda.so.1 dlsym < {tmp_path}/go"]
    (tmp_path / "go").write_text("go\n", encoding="utf-8")
    script = "\n".join(lines)
    argv = ["unshare", "--mount", "--map-root-user", "sh", "-c", script]
    done = subprocess.run(
        argv, env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "PRELOAD" not in done.stdout
    assert "cuMemAlloc_v2 ALLOCATE 802" in done.stdout
