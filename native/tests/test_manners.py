"""The library is a guest: it shows nothing, opens nothing before it must, and breaks nobody's assumptions."""

import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from native.tests.native_library import BUILD, HERE, NATIVE, environment, needs_compiler

SDK = NATIVE.parent / "faults" / "sdk" / "cuda-fault-injection"
pytestmark = needs_compiler


def manners(control, *words, preload=(), **variables):
    env = environment(control, **variables)
    env["LD_PRELOAD"] = " ".join([env["LD_PRELOAD"], *map(str, preload)])
    done = subprocess.run(
        [BUILD / "manners", *words], env=env, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stderr == ""
    return done.stdout.strip()


def test_it_exports_the_calls_of_the_tables_and_the_two_that_look_up_others(built):
    symbols = subprocess.run(
        ["nm", "-D", "--defined-only", BUILD / "libcudafault.so"], check=True, capture_output=True, text=True
    )
    tables = "".join(path.read_text(encoding="utf-8") for path in (NATIVE / "src").glob("*.def"))
    intended = set(re.findall(r"^(?:CALL|OWN)\((\w+),", tables, re.M)) | {"dlsym", "dlvsym"}
    assert {line.split()[-1] for line in symbols.stdout.splitlines()} == intended
    assert len(intended) >= 150


def test_a_program_without_cuda_does_not_notice_it(control):
    control.arm("xid=79")
    assert manners(control) == "plain"
    python = [sys.executable, "-c", "import json, ssl, sqlite3, ctypes; print(ctypes.CDLL(None).getpid() > 0)"]
    done = subprocess.run(python, env=environment(control), capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_nothing_is_opened_before_the_first_call(control):
    assert manners(control, "maps", str(control.file)) == "0 1"


FAULTS = ["", "latency=1ns", "memory=16GiB gpu=0", "error=719 gpu=7", "hide gpu=7", "xid=79 gpu=0"]


def test_no_call_opens_a_file_or_reads_the_environment(control, runtime, node):
    env = environment(control, node)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([BUILD / "quiet", runtime], env=env, **pipes) as process:
        assert process.stdout.readline() == "ready\n"
        for settings in FAULTS:
            if settings:
                control.arm(*settings.split())
            process.stdin.write("go\n")
            process.stdin.flush()
            if (found := process.stdout.readline()) == "no seccomp\n":
                pytest.skip("this kernel, or the container, allows no seccomp filter")
            assert found == ("719\n" if "xid" in settings else "0\n"), process.stderr.read()
            control.disarm()
        process.stdin.close()
    assert process.returncode == 0


@pytest.mark.parametrize("armed", [False, True])
def test_errno_is_the_programs_own(control, armed):
    if armed:
        control.arm("xid=79")
    assert manners(control, "errno") == f"kept {100 if armed else 0}"


def test_another_library_that_replaces_a_call_has_its_turn(control):
    assert (
        manners(control, "chains", preload=[BUILD / "other.so"]) == "2"
    )  # once while it is loaded, once by the program


def compiled(folder, library, flags):
    """Compile a library into a folder; return its path."""
    source, words = NATIVE, [f"B={folder}", str(folder / library)]
    if library.startswith("fake"):
        source, words = Path(shutil.copytree(SDK, folder, dirs_exist_ok=True)), ["-B", library]
    subprocess.run(["make", "-s", "-C", source, f"CFLAGS={flags}", *words], check=True)
    return folder / library


@pytest.mark.parametrize("library", ["libcudafault.so", "fake_cuda_xid79.so"])
@pytest.mark.parametrize("flags", ["-O0", "-O2"])
def test_a_library_behind_it_finds_what_is_behind_itself(tmp_path, built, library, flags):
    is_built = (library, flags) == ("libcudafault.so", "-O2")  # as the Makefile does by itself
    found = built / library if is_built else compiled(tmp_path, library, flags)
    behind = tmp_path / "next.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", behind, HERE / "next.c", "-ldl"], check=True)
    env = {
        "LD_PRELOAD": f"{found} {behind}",
        "CUDA_FAULT_INJECTION_ENABLED": "1",
        "CUDA_XID_TYPE": "79",
    }
    done = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getppid() >= 0)"], env=env, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_it_may_be_called_while_other_libraries_are_loaded(control):
    control.arm("xid=79")
    assert manners(control, preload=[BUILD / "other.so"]) == "plain"


def test_a_child_that_was_forked_fails_as_its_parent_does(control):
    assert manners(control, "forks") == "0 0"
    control.arm("error=719", "chance=1")
    assert manners(control, "forks") == f"{719 & 0x7F} 719"


def test_a_child_that_was_forked_while_a_fault_is_met_fails_too(control, tmp_path):
    words = [
        "-shared",
        "-fPIC",
        "-Wl,-soname,libcuda.so.1",
        "-o",
        tmp_path / "libcuda.so.1",
        HERE / "forking.c",
        "-ldl",
    ]
    subprocess.run(["cc", *words], check=True)
    control.arm("error=719", "chance=1")
    code = "import ctypes; print('parent', ctypes.CDLL('libcuda.so.1').cuCtxSynchronize())"
    env = environment(control, LD_LIBRARY_PATH=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["child 719", "parent 719"]


def test_a_library_may_be_closed_and_opened_again_elsewhere(control):
    assert manners(control, "reopens") == "0 0 0"
    control.arm("error=719", "nvml=15", "chance=1")
    assert manners(control, "reopens") == "719 719 30"


def test_a_call_that_is_not_there_is_not_made_up(control):
    none, direct, error = manners(control, "nothing").split(" ", 2)
    assert (none, direct) == ("none", "none")
    assert error.endswith("undefined symbol: cuMemAlloc_v2")
    assert "cudafault" not in error  # programs print it


def test_threads_and_changes_at_the_same_time_harm_nobody(control):
    env = environment(control)
    with subprocess.Popen([BUILD / "manners", "threads"], env=env, stdout=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            control.disarm(control.arm("error=2"))
        failed = int(process.stdout.read())
    assert process.returncode == 0
    assert 0 <= failed <= 80000


@pytest.mark.parametrize("content", [None, b"", b"\xff" * 4096, b"\0" * 4096, b"x" * 100])
def test_a_control_file_that_is_none_means_no_fault(control, start, content):
    control.file.unlink()
    if content is not None:
        control.file.write_bytes(content)
    with start() as program:
        assert program.context().driver("cuCtxSynchronize") == 0


WORDS = [
    "xid",
    "running",
    "new",
    "nvml",
    "nccl",
    "target",
    "ordinal",
    "uuid",
    "armed",
    "duration",
    "after_calls",
    "after",
]
WORDS += ["chance", "seed", "hang", "latency", "memory", "ecc", "flags"]
"""Those of a fault after its number (layout.h)."""
BLOCKING = {"hang", "latency"}


def random_page(random):
    """A page that begins as a control file does; numbers of every size, but none that lets calls wait."""
    faults = []
    for number in range(1, 9):
        sizes = [0 if word in BLOCKING else random.choice((0, 1, 3, 10, 32, 64)) for word in WORDS]
        words = [number, *(random.getrandbits(size) if size else 0 for size in sizes)]
        words[-1] &= ~4  # nccl-hang
        faults += [*words, *[0] * (32 - len(words))]
    words = [0x31746C6661756300, 2, 8, 8, *faults]
    return struct.pack(f"<{len(words)}Q", *words).ljust(4096, b"\0")


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "library", [("driver", "libcuda.so.1"), ("nvml", "libnvidia-ml.so.1"), ("nccl", "libnccl.so.2")]
)
def test_a_control_file_with_any_numbers_crashes_nobody(control, library, seed):
    control.file.write_bytes(random_page(Random(seed)))
    argv = [BUILD / "matrix", *library, "dlsym"]
    done = subprocess.run(argv, env=environment(control), input="go\n", capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_half_written_fault_is_not_believed(control, program):
    program.context()
    control.arm("error=719")
    with control.file.open("r+b") as file:
        file.seek(8)
        file.write((10**6 + 1).to_bytes(8, "little"))
    assert program.driver("cuCtxSynchronize") == 0
