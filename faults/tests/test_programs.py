"""Programs in conditions: a command line counts only with the image, files and environment that it needs."""

from __future__ import annotations

import copy

import pytest

from faults.checks import expressions

MAPS = [{"metadata": {"name": "settings"}, "data": {"OMP_NUM_THREADS": "8"}}]
MAPS += [{"metadata": {"name": "detour"}, "data": {"PYTHONPATH": "/data"}}]
SCRIPT = [{"metadata": {"name": "script"}, "data": {"train.py": "import json"}, "binaryData": {"model": "AA=="}}]
WORDS = ["python", "/work/train.py"]
POD = {
    "metadata": {"ownerReferences": [{"kind": "Job", "uid": "u-1"}]},
    "spec": {
        "containers": [
            {"name": "log", "image": "busybox", "command": ["tail"]},
            {
                "name": "trainer",
                "image": "pytorch:25.01",
                "command": WORDS[:1],
                "args": WORDS[1:],
                "volumeMounts": [{"name": "code", "mountPath": "/work"}, {"name": "data", "mountPath": "/data"}],
            },
        ],
        "volumes": [{"name": "code", "configMap": {"name": "script"}}, {"name": "data", "emptyDir": {}}],
    },
}


def command_lines(change=lambda spec, container: None, maps=MAPS):
    pod = copy.deepcopy(POD)
    change(pod["spec"], pod["spec"]["containers"][1])
    return expressions.run("programs(p, 'pytorch:25.01', {'/work': 'script'}, maps)", {"p": pod, "maps": maps})


def mount(**fields):
    return lambda spec, container: container["volumeMounts"].append({"name": "data", **fields})


def instead(**fields):
    return lambda spec, container: container["volumeMounts"][0].update(fields)


def variables(**fields):
    return lambda spec, container: container.update(fields)


def volume(**fields):
    return lambda spec, container: spec["volumes"].__setitem__(0, {"name": "code", **fields})


RENAMED = {"name": "script", "items": [{"key": "other.py", "path": "train.py"}]}


@pytest.mark.parametrize(
    "change",
    [
        lambda spec, container: None,
        instead(mountPath="/work/"),
        mount(mountPath="/dev/shm"),
        mount(mountPath="/workshop"),
        variables(env=[{"name": "CUDA_VISIBLE_DEVICES", "value": "0"}]),
        variables(envFrom=[{"configMapRef": {"name": "settings"}}]),
        lambda spec, container: spec.update(initContainers=[{"name": "wait", "image": "busybox"}]),
    ],
)
def test_what_leaves_the_program_alone_is_accepted(change):
    assert command_lines(change) == [WORDS]


@pytest.mark.parametrize(
    "change",
    [
        variables(image="python:3.9-slim"),
        volume(emptyDir={}),
        volume(configMap={"name": "other"}),
        volume(configMap=RENAMED),
        instead(subPath="x"),
        instead(mountPath="/elsewhere"),
        mount(mountPath="/work/train.py", subPath="train.py"),
        mount(mountPath="/usr/lib/python3/dist-packages"),
        mount(mountPath="//usr"),
        mount(mountPath="/"),
        variables(env=[{"name": "PYTHONPATH", "value": "/data"}]),
        variables(env=[{"name": "PATH", "value": "/data"}]),
        variables(envFrom=[{"configMapRef": {"name": "detour"}}]),
        variables(envFrom=[{"prefix": "LD_", "configMapRef": {"name": "unknown"}}]),
        variables(envFrom=[{"secretRef": {"name": "settings"}}]),
        variables(lifecycle={"postStart": {"exec": {"command": ["sh"]}}}),
    ],
)
def test_what_runs_something_else_is_not(change):
    assert command_lines(change) == []


def beside(kind, **fields):
    """Mount the empty volume below the program's folder, and in another container as well."""

    def change(spec, container):
        mount(mountPath="/work/scratch")(spec, container)
        other = {"name": "other", "image": "busybox", "volumeMounts": [{"name": "data", "mountPath": "/x", **fields}]}
        spec.setdefault(kind, []).append(other)

    return change


def of_volume(**source):
    """Mount another volume below the program's folder."""

    def change(spec, container):
        mount(name="more", mountPath="/work/scratch")(spec, container)
        spec["volumes"].append({"name": "more", **source})

    return change


@pytest.mark.parametrize(
    "change",
    [
        mount(mountPath="/work/scratch"),
        mount(mountPath="/work/scratch/today/"),
        beside("containers", readOnly=True),
    ],
)
def test_an_empty_volume_below_the_program_that_hides_no_file_is_accepted(change):
    assert command_lines(change, SCRIPT) == [WORDS]


@pytest.mark.parametrize(
    "change",
    [
        mount(mountPath="/work/train.py", subPath="train.py"),
        mount(mountPath="/work/model"),
        mount(mountPath="/work/model/x"),
        mount(mountPath="/work"),
        mount(mountPath="/usr/local/lib/scratch"),
        beside("containers"),
        beside("containers", readOnly=False),
        beside("initContainers"),
        of_volume(configMap={"name": "modules"}),
        of_volume(persistentVolumeClaim={"claimName": "modules"}),
    ],
)
def test_a_volume_that_hides_a_file_or_that_others_may_fill_is_not(change):
    assert command_lines(change, SCRIPT) == []


def test_a_volume_below_a_map_that_is_not_at_hand_may_hide_anything():
    assert command_lines(mount(mountPath="/work/scratch"), MAPS) == []


def test_a_pod_belongs_to_the_job_whose_uid_it_names():
    values = {"p": POD, "own": {"metadata": {"uid": "u-1"}}, "other": {"metadata": {"uid": "u-2"}}}
    assert expressions.run("owned_by(p, own) && !owned_by(p, other) && !owned_by(p, {})", values) is True


def test_a_text_has_a_digest():
    assert expressions.run("digest('a') == 'ca978112ca1bbdca' && digest('b') != digest('a')", {}) is True


LIST = """GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-11111111-2222-3333-4444-555555555555)
GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-11111111-2222-3333-4444-666666666666)
"""
SLICES = """GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-11111111-2222-3333-4444-555555555555)
  MIG 1g.5gb      Device  0: (UUID: MIG-11111111-2222-3333-4444-777777777777)
  MIG 1g.5gb      Device  1: (UUID: MIG-11111111-2222-3333-4444-888888888888)
"""
TABLE = """|   0  NVIDIA H100 80GB HBM3          On  |   00000000:04:00.0 Off |                    0 |
|   1  NVIDIA H100 80GB HBM3          Off |   00000000:05:00.0 Off |                    0 |
"""


@pytest.mark.parametrize(
    ("log", "names"),
    [
        (LIST, ["NVIDIA-H100-80GB-HBM3"] * 2),
        (LIST + LIST + TABLE, ["NVIDIA-H100-80GB-HBM3"] * 2),
        (SLICES, ["NVIDIA-A100-SXM4-40GB"] * 2),
        (TABLE, ["NVIDIA-H100-80GB-HBM3"] * 2),
        ("GPU 0: Anything", []),
        ("GPU 0: NVIDIA H100 (UUID: GPU-1)", []),
    ],
)
def test_the_devices_that_nvidia_smi_lists_in_a_log_count_once(log, names):
    assert expressions.run("devices(log).map(d, d.name)", {"log": log}) == names
