"""Every replaced call gives the armed error, by whichever way a program comes to it."""

import subprocess
from pathlib import Path

import pytest

from native.tests.native_library import BUILD, environment, needs_compiler, out, package_file

pytestmark = needs_compiler
ROUTES = ["direct", "linked", "dlsym", "dlvsym", "own", "first", "of-11030", "of-12000", "11030", "12000"]
ENTRIES = ["entry", "entry_ptsz", "byversion", "byversion_ptsz"]
"""cudaGetDriverEntryPoint of the real runtimes, and ...ByVersion."""
PASSES = {"RESET", "START"}
"""Kinds that a process whose context failed may still call."""


def calls(control, library: str, file: str, route: str, *settings: str) -> dict[str, tuple[str, str]]:
    """Return kind and result of every call of a library, made after arming; "-" for one that is not there."""
    if route == "dlvsym":  # the version of NVIDIA's symbols is the file's name
        route = f"dlvsym:{Path(file).name}"
    argv = [BUILD / "matrix", library, file, route]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    env = environment(control)
    if route == "linked":  # as a library that the program is linked with is in its scope from the start
        env["LD_PRELOAD"] += f" {file}"
    with subprocess.Popen(argv, env=env, **pipes) as process:
        assert process.stdout.readline() == "ready\n", process.stderr.read()
        if settings:
            control.arm(*settings)
        told, said = process.communicate("go\n", timeout=60)
    assert (process.returncode, said) == (0, "")
    return {symbol: (kind, result) for symbol, kind, result in (line.split() for line in told.splitlines())}


def there(answers):
    return {symbol: answer for symbol, answer in answers.items() if answer[1] != "-"}


@pytest.mark.parametrize("route", ROUTES)
def test_every_call_of_the_driver_fails_by_every_route(control, route):
    answers = there(calls(control, "driver", "libcuda.so.1", route, "error=719"))
    wrong = {s: a for s, a in answers.items() if a[1] != ("0" if a[0] in PASSES else "719")}
    assert wrong == {}
    assert len(answers) > (200 if route.isdigit() else 290)


@pytest.mark.parametrize("route", ENTRIES)
def test_every_call_of_the_driver_fails_that_a_real_runtime_gives(control, runtime, route):
    answers = there(calls(control, "driver", runtime, route, "error=719"))
    assert {s: a for s, a in answers.items() if a[1] != ("0" if a[0] in PASSES else "719")} == {}
    assert len(answers) > 260


@pytest.mark.parametrize("route", ["direct", "dlsym", "dlvsym"])
def test_every_call_of_the_real_runtimes_fails_by_every_route(control, runtime, route):
    answers = there(calls(control, "runtime", runtime, route, "error=719"))
    assert {s: a for s, a in answers.items() if a[0] not in PASSES and a[1] != "719"} == {}
    assert {s: a for s, a in answers.items() if a[0] in PASSES and a[1] == "719"} == {}
    assert len(answers) > 150


@pytest.mark.parametrize("route", ["direct", "linked", "dlsym", "dlvsym"])
def test_every_call_of_nvml_fails_for_a_lost_device(control, route):
    answers = calls(control, "nvml", "libnvidia-ml.so.1", route, "nvml=15")
    assert {result for _, result in answers.values()} == {"15"}


def test_a_device_that_needs_a_reset_still_says_which_one_it_is(control):
    answers = calls(control, "nvml", "libnvidia-ml.so.1", "dlsym", "nvml=16")
    assert {kind: result for kind, result in answers.values() if kind == "RESET"} == {"RESET": "16"}
    assert "16" not in {result for kind, result in answers.values() if kind == "LOST"}


@pytest.mark.parametrize("route", ["direct", "linked", "dlsym", "dlvsym"])
def test_every_call_that_gives_nccl_work_fails(control, route):
    answers = calls(control, "nccl", "libnccl.so.2", route, "nccl=6")
    assert {result for _, result in answers.values()} == {"6"}


@pytest.mark.parametrize(
    ("library", "file"),
    [("driver", "libcuda.so.1"), ("nvml", "libnvidia-ml.so.1"), ("nccl", "libnccl.so.2")],
)
def test_nothing_fails_while_nothing_is_armed(control, library, file):
    answers = calls(control, library, file, "dlsym")
    assert {
        s: a for s, a in answers.items() if a[1] != "0" and a[0] != "CONTEXT"
    } == {}  # no context on device number 9431040


NOTHING_THERE = {"driver": "3", "runtime": "35", "nvml": "12", "nccl": "2"}
"""Not initialised, driver too old, library not found, system error: the answers where the libraries are missing."""


def test_no_call_crashes_where_the_real_libraries_are_missing(control):
    done = subprocess.run([BUILD / "matrix"], env=environment(control), capture_output=True, text=True, check=True)
    assert done.stderr == ""
    rows = [line.split() for line in done.stdout.splitlines()]
    kept = {"cudaGetLastError", "cudaPeekAtLastError"}
    assert {row[0]: row for row in rows if row[2] != NOTHING_THERE[row[1]] and row[0] not in kept} == {}
    assert len(rows) > 800


def test_the_programs_own_handle_has_no_call_without_a_library(control, program):
    assert program.call("", "cuInit", 0) == "missing"
    assert program.driver("cuInit", 0) == 0
    assert program.call("", "cuInit", 0) == "missing"  # it was opened for itself alone


def test_a_library_that_looks_in_its_own_scope_finds_what_it_is_linked_with(control, program):
    program.context()
    control.arm("error=719")
    for library, symbol in (("outer.so", "outer"), ("scoped.so", "synchronize")):
        assert program.call(str(BUILD / library), symbol) == 719


def test_a_call_that_the_driver_gives_at_another_address_is_the_same_call(control, program, runtime):
    assert program.call(runtime, "cudaMalloc", out(), 1024)[0] == 0  # by cuGetProcAddress
    control.arm("error=719")
    assert program.driver("cuCtxSynchronize") == 719  # by dlsym


@pytest.mark.parametrize(("package", "version"), [("cuda_runtime", 12), ("cu13", 13)])
@pytest.mark.parametrize("file", ["libcudart_static.a", "libcudart.so"])
def test_a_runtime_that_the_program_is_linked_with_is_reached_as_well(control, tmp_path, package, version, file):
    library = package_file(package, f"lib/{file}{'' if file.endswith('.a') else f'.{version}'}")
    source = tmp_path / "program.c"
    source.write_text(LINKED, encoding="utf-8")
    argv = ["cc", "-o", tmp_path / "program", source, library, f"-Wl,-rpath,{library.parent}"]
    argv += ["-ldl", "-lrt", "-lpthread", "-lm"]
    subprocess.run(argv, check=True)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([tmp_path / "program"], env=environment(control), **pipes) as process:
        assert process.stdout.readline() == "8 devices, 0 0\n"
        control.arm("xid=43")
        told, said = process.communicate("go\n", timeout=30)
    assert (told, said) == ("launch 719, last 719, synchronize 719\n", "")


LINKED = """
#include <stddef.h>
#include <stdio.h>
int cudaGetDeviceCount(int *), cudaMalloc(void **, size_t), cudaFree(void *);
int cudaDeviceSynchronize(void), cudaGetLastError(void);
int main(void)
{
    int count = 0, launched, last;
    void *place;
    cudaGetDeviceCount(&count);
    printf("%d devices, %d ", count, cudaMalloc(&place, 1000));
    printf("%d\\n", cudaDeviceSynchronize());
    fflush(stdout);
    getchar();
    launched = cudaFree(place);
    last = cudaGetLastError();
    printf("launch %d, last %d, synchronize %d\\n", launched, last, cudaDeviceSynchronize());
    return 0;
}
"""
