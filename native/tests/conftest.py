"""The native library, built, and programs that run under it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from native.tests.native_library import BUILD, LIBRARY, NATIVE, Control, Program, package_file


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """The library, its control program and the stubs, in the build folder; one worker builds at a time."""
    lock = Path(tmp_path_factory.getbasetemp().parent, "native.lock")
    subprocess.run(["flock", lock, "make", "-s", "-j2", "-C", NATIVE, "tests"], check=True, stdout=subprocess.DEVNULL)
    return BUILD


@pytest.fixture(params=["12", "13"], ids=["CUDA 12", "CUDA 13"])
def runtime(request):
    """The real CUDA runtime, as a shared library."""
    package = "cuda_runtime" if request.param == "12" else "cu13"
    return str(package_file(package, f"lib/libcudart.so.{request.param}"))


@pytest.fixture
def control(built, tmp_path):
    found = Control(tmp_path / "control")
    assert found.run("init").returncode == 0
    return found


@pytest.fixture
def program(control):
    """A program that is running; it has not called CUDA yet."""
    with Program(control) as found:
        yield found


@pytest.fixture
def start(control):
    """Start further programs: ``with start(STUB_GPUS="1") as program``."""
    return lambda library=LIBRARY, **variables: Program(control, library, variables)
