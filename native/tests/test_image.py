"""The image of the library holds what its Dockerfile builds from the files that it copies, and no others."""

import re
import shutil
import subprocess

import pytest

from native.tests.native_library import NATIVE, needs_compiler

ROOT = NATIVE.parent
DOCKERFILE = ROOT / "deploy" / "cuda-fault" / "Dockerfile"


def copied_into(folder, stage):
    """Do what the COPY lines of a stage say, with a folder as the image's root."""
    for sources, target in re.findall(r"^COPY (?!--from)(.*) (/\S+)$", stage, re.M):
        for source in sources.split():
            place = folder / target.lstrip("/")
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, place)
            else:
                place.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / source, place)


@pytest.fixture
def stages():
    return re.split(r"^FROM .*$", DOCKERFILE.read_text(encoding="utf-8"), flags=re.M)[1:]


@needs_compiler
def test_the_files_it_copies_are_enough_to_build_what_it_ships(tmp_path, stages):
    build, ship = stages
    copied_into(tmp_path, build)
    command = re.search(r"^RUN (make .*)$", build, re.M)[1].replace("-C /native", f"-s -j2 -C {tmp_path}/native")
    subprocess.run([*command.split(), "CFLAGS=-O0"], check=True)
    shipped = re.search(r"^COPY --from=build (.*) \S+$", ship, re.M)[1].split()
    assert [path for path in shipped if not (tmp_path / path.lstrip("/")).exists()] == []
    done = subprocess.run([tmp_path / "native/build/faultctl", "--help"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("usage: faultctl")


def test_its_command_copies_what_it_ships_and_makes_the_control_file(stages):
    copied_into_image = re.findall(r"^COPY .* (/\S+)$", stages[1], re.M)
    assert set(copied_into_image) == {"/opt/cuda-fault/"}
    command = stages[1].split("CMD", 1)[1]
    assert "cp /opt/cuda-fault/* /host/" in command
    assert "/host/faultctl --file /run/nvidia/gpu-control init" in command
