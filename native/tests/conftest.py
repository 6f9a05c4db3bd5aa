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


@pytest.fixture
def node(built):
    """A folder like the kernel driver's /proc/driver/nvidia/gpus, and the library that reads it."""
    for number in range(8):
        folder = BUILD / "small" / "gpus" / f"0000:{0x30 + number:02x}:00.0"
        folder.mkdir(parents=True, exist_ok=True)
        uuid = f"GPU UUID: \t GPU-00000000-0000-0000-0000-{number:012x}"
        text = f"Model: \t\t Stub GPU\nIRQ:   \t\t 42\n{uuid}\nDevice Minor: \t {number}\n"
        Path(folder, "information").write_text(text, encoding="utf-8")
    return BUILD / "small" / "libcudafault.so"
