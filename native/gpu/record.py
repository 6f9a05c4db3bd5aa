"""Real programs under each fault of the native library, recorded in docs/gpu-faults-native.md: ``make test-gpu``.

Without a GPU nothing is written, and it says so. ``--stub`` runs the CUDA sample, and PyTorch where there is one, on
the stub driver and writes a page that tells that no GPU was there. The number of answers that are not those of the
fault is the exit status.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from native.gpu.faults import FAULTS, Fault

HERE = Path(__file__).resolve().parent
NATIVE = HERE.parent
BUILD = NATIVE / "build"
PAGE = NATIVE.parent / "docs" / "gpu-faults-native.md"
STEPS, ARMED_AFTER, MAX_LINES, MAX_WIDTH = 4, 2, 12, 300
TIMEOUT_S = 180
PYTHON = os.environ.get("GPU_PYTHON") or sys.executable
"""The Python that has PyTorch; the project's own has none."""
NO_GPU = "this machine has no GPU that CUDA can use"


@dataclass(frozen=True)
class Program:
    """A program that takes a step for each line of its input, and what it is called on the page."""

    name: str
    argv: tuple[str, ...]
    takes_size: bool = True


def main(arguments: Sequence[str]) -> int:
    """Record what can be recorded; the number of wrong answers."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--stub", action="store_true", help="without a GPU: on the stub driver")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page to write")
    given = parser.parse_args(arguments)
    if problem := missing_tools() or ("" if given.stub else missing_gpu()):
        print(f"skipped: {problem}. Nothing was recorded; {given.page.name} is as it was.")
        return 0
    subprocess.run(["make", "-s", "-C", NATIVE, "tests"], check=True, stdout=subprocess.DEVNULL)
    skipped: list[str] = []
    found = list(programs(given.stub, skipped))
    if not found:
        print(f"skipped: {'; '.join(skipped)}. Nothing was recorded; {given.page.name} is as it was.")
        return 0
    return record(found, skipped, given.stub, given.page)


def missing_tools() -> str:
    """Return what is missing to build the library and the sample, or nothing."""
    lacking = [name for name in ("cc", "make") if not shutil.which(name)]
    return f"needs {' and '.join(lacking)}: sudo apt install build-essential" if lacking else ""


def missing_gpu() -> str:
    """Return why no GPU can be used, or nothing."""
    try:
        error = ctypes.CDLL("libcuda.so.1").cuInit(0)
    except OSError as problem:
        return f"{NO_GPU} ({problem})"
    return f"{NO_GPU} (cuInit gave {error})" if error else ""


def programs(stub: bool, skipped: list[str]) -> Iterator[Program]:
    """Give the programs that this machine can run; tell why not of the others."""
    for version, package in (("12", "cuda_runtime"), ("13", "cu13")):
        if problem := built_sample(version, package):
            skipped.append(problem)
        else:
            yield Program(f"CUDA {version} sample", (str(BUILD / f"sample{version}"),))
    if problem := missing_torch(stub):
        skipped.append(problem)
    else:
        yield Program("PyTorch", (PYTHON, "-W", "ignore", str(HERE / "torch_program.py")))
    if stub:
        skipped.append("NCCL and nvidia-smi were not run: they need more of a driver than the stub has")
    elif not problem:
        yield Program("NCCL", (PYTHON, "-W", "ignore", str(HERE / "nccl_program.py"), str(STEPS)), takes_size=False)


def built_sample(version: str, package: str) -> str:
    """Build the sample with a runtime of requirements/dev.in inside; return why that cannot be, or nothing."""
    spec = importlib.util.find_spec("nvidia")
    folders = spec.submodule_search_locations if spec and spec.submodule_search_locations else ()
    archives = [file for folder in folders if (file := Path(folder, package, "lib", "libcudart_static.a")).exists()]
    if not archives:
        return f"the CUDA {version} sample was not built: its runtime is not installed (make setup-dev)"
    argv = ["cc", "-O2", "-o", str(BUILD / f"sample{version}"), str(HERE / "sample.c"), str(archives[0])]
    subprocess.run([*argv, "-ldl", "-lrt", "-lpthread", "-lm"], check=True)
    return ""


def missing_torch(stub: bool) -> str:
    """Return why PyTorch cannot be used, or nothing."""
    code = "import torch; raise SystemExit(0 if torch.cuda.is_available() else 'it finds no GPU')"
    env = {**os.environ, **stub_variables(stub)}
    done = subprocess.run([PYTHON, "-W", "ignore", "-c", code], env=env, capture_output=True, text=True, check=False)
    last = done.stderr.strip().splitlines()[-1:]
    return "" if done.returncode == 0 else f"PyTorch was not run: {last[0]} (GPU_PYTHON: a Python that has PyTorch)"


def record(found: Sequence[Program], skipped: Sequence[str], stub: bool, page: Path) -> int:
    """Run each program under each fault, write the page, and return how many answers were wrong."""
    parts, wrong = [head(found, skipped, stub)], 0
    for fault in FAULTS:
        concerned = [program for program in found if fault.only in ("", program.name)]
        outputs = {program.name: seen(program, fault, stub) for program in concerned}
        told = {name: fault.is_told(said, name) for name, said in outputs.items()}
        wrong += list(told.values()).count(False)
        for name, right in told.items():
            print(f"{'ok   ' if right else 'WRONG'} {name}: {fault.title}", flush=True)
        if not stub and not fault.only:
            outputs["nvidia-smi"] = seen_by_nvidia_smi(fault)
        if outputs:
            parts += [fault.heading(), *blocks(outputs, {name for name, right in told.items() if not right})]
    page.write_text("\n".join(parts), encoding="utf-8")
    print(f"{wrong} wrong answers; for the rest: {'; '.join(skipped) or 'nothing was skipped'}")
    return wrong


def blocks(outputs: dict[str, str], wrong: set[str]) -> Iterator[str]:
    """Give a block of text for each output, with the names of all programs that said just that."""
    for said in dict.fromkeys(outputs.values()):
        names = [name for name, other in outputs.items() if other == said]
        remark = ", **not what the fault says**" if wrong & set(names) else ""
        yield f"{', '.join(names)}{remark}:\n\n```text\n{said}\n```\n"


def seen_by_nvidia_smi(fault: Fault) -> str:
    """Return what nvidia-smi says of a GPU with a fault; it tells of states, so that nothing is right or wrong."""
    with tempfile.TemporaryDirectory() as folder:
        control = Path(folder) / "control"
        faultctl(control, "init")
        if fault.settings:
            faultctl(control, "arm", *fault.settings)
        query = "index,memory.total,ecc.errors.uncorrected.volatile.total"
        argv = ["nvidia-smi", f"--query-gpu={query}", "--format=csv"]
        try:
            env = environment(control, stub=False)
            done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
        except FileNotFoundError as error:
            return str(error)
    return tidied(done.stdout + done.stderr)


def head(found: Sequence[Program], skipped: Sequence[str], stub: bool) -> str:
    """Return the beginning of the page: where it was recorded, and what was not."""
    where = NO_GPU_HEAD if stub else f"Recorded on a machine with:\n\n```text\n{machine()}\n```"
    left_out = "".join(f"- {reason}.\n" for reason in skipped)
    names = ", ".join(program.name for program in found)
    return HEAD.format(where=where, names=names, left_out=f"\nNot recorded:\n\n{left_out}" if skipped else "")


def machine() -> str:
    """Return the GPUs and the driver, without what tells one machine from another."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv"]
    try:
        return subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError) as error:
        return f"a GPU, and no nvidia-smi to say which ({error})"


def seen(program: Program, fault: Fault, stub: bool) -> str:
    """Return what a program prints under a fault: the last lines, without what differs from run to run."""
    with tempfile.TemporaryDirectory() as folder:
        control = Path(folder) / "control"
        faultctl(control, "init")
        if not fault.running:
            faultctl(control, "arm", *fault.settings)
        argv = [*program.argv, str(fault.size)] if program.takes_size else list(program.argv)
        env, pipe = environment(control, stub), subprocess.PIPE
        with subprocess.Popen(argv, env=env, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True) as process:
            limit = threading.Timer(TIMEOUT_S, process.kill)
            limit.start()
            said = stepped(process, control, fault)
            limit.cancel()
    return tidied(said) or f"(nothing within {TIMEOUT_S} s)"


def stub_variables(stub: bool) -> dict[str, str]:
    """Return what leads a program to the stub driver, and to one GPU of it."""
    return {"LD_LIBRARY_PATH": str(BUILD), "CUDA_VISIBLE_DEVICES": "0"} if stub else {}


def environment(control: Path, stub: bool) -> dict[str, str]:
    """Return what a program under the library gets."""
    own = {"LD_PRELOAD": str(BUILD / "libcudafault.so"), "CUDA_FAULT_CONTROL": str(control)}
    return {**os.environ, **own, **stub_variables(stub)}


def stepped(process: subprocess.Popen[str], control: Path, fault: Fault) -> str:
    """Let a program take its steps, the fault coming between two of them; return what it prints."""
    assert process.stdin
    assert process.stdout
    said: list[str] = []
    for number in range(STEPS):
        if number == ARMED_AFTER and fault.running and fault.settings:
            faultctl(control, "arm", *fault.settings)
        try:
            process.stdin.write("go\n")
            process.stdin.flush()
        except BrokenPipeError:  # it has ended; what it said comes below
            break
        for line in process.stdout:
            said.append(line)
            if line.startswith("step"):
                break
    rest, _ = process.communicate()
    return "".join(said) + rest


def tidied(said: str) -> str:
    """Return the last lines, with paths, addresses and process numbers left out."""
    text = re.sub(r"0x[0-9a-f]{6,}", "0x…", said)
    text = re.sub(r"/[\w./-]*/(?=[\w.-]+\.py)", "", text)
    return "\n".join(line.rstrip()[:MAX_WIDTH] for line in text.strip().splitlines()[-MAX_LINES:])


def faultctl(control: Path, *words: str) -> None:
    """Run the control program. Raises CalledProcessError where it refuses."""
    subprocess.run([BUILD / "faultctl", "--file", control, *words], check=True, stdout=subprocess.DEVNULL)


NO_GPU_HEAD = """**No GPU was there when this page was written.** What follows are real programs with NVIDIA's
real CUDA runtimes on the stub driver of `native/stubs`, which computes nothing: it shows which errors reach programs,
and in which words, not that a real driver behaves the same. `make test-gpu` on a machine with a GPU writes the page
anew (`GPU_PYTHON=/path/to/python` with PyTorch)."""
HEAD = """# What CUDA faults look like to programs

<!-- Written by `make test-gpu`; change native/gpu instead. -->

{where}

Programs: {names}. Each takes four steps; a fault for running programs comes between
the second and the third. The settings are those of `faultctl arm` ([the native library](../native/README.md)); the
sample of CUDA is `native/gpu/sample.c`.
{left_out}"""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
