"""Programs that run under the native library, and the control file that they read."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

NATIVE = Path(__file__).resolve().parent.parent
BUILD = NATIVE / "build"
LIBRARY = BUILD / "libcudafault.so"
HERE = Path(__file__).resolve().parent
CORPUS = HERE / "corpus"
"""Seeds for fuzzers of the parser: the settings of a fault, with zero bytes in between."""
NO_COMPILER = "needs Linux with cc and make: sudo apt install build-essential"
needs_compiler = pytest.mark.skipif(
    not (shutil.which("cc") and shutil.which("make")) or os.uname().sysname != "Linux", reason=NO_COMPILER
)


def package_file(package: str, path: str) -> Path:
    """Return a file of one of NVIDIA's packages in requirements/dev.in; the test is skipped, visibly, without it."""
    spec = importlib.util.find_spec("nvidia")
    found = [Path(folder, package, path) for folder in (spec.submodule_search_locations if spec else ())]
    present = [file for file in found if file.exists()]
    if not present:
        pytest.skip(f"needs {package}/{path} of requirements/dev.in: make setup-dev")
    return present[0]


@dataclass
class Control:
    """A control file and the program that writes it."""

    file: Path
    faultctl: Path = BUILD / "faultctl"

    def run(self, *words: str, file: Path | None = None) -> subprocess.CompletedProcess[str]:
        argv = [self.faultctl, "--file", file or self.file, *words]
        return subprocess.run(argv, capture_output=True, text=True, check=False)

    def arm(self, *settings: str) -> str:
        done = self.run("arm", *settings)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.strip()

    def disarm(self, which: str = "all") -> None:
        assert self.run("disarm", which).returncode == 0

    def armed(self) -> list[dict]:
        return json.loads(self.run("show", "--json").stdout)


def environment(control: Control | None, library: Path = LIBRARY, **variables: str) -> dict[str, str]:
    """Return what a program under the library gets: nothing of the test's own, which may name CUDA's variables."""
    file = {} if control is None else {"CUDA_FAULT_CONTROL": str(control.file)}
    return {"PATH": os.defpath, "LD_PRELOAD": str(library), "LD_LIBRARY_PATH": str(BUILD), **file, **variables}


@dataclass
class Program:
    """A Python program under the library that makes the calls it is told to (program.py)."""

    control: Control
    library: Path = LIBRARY
    variables: dict[str, str] = field(default_factory=dict)

    def __enter__(self) -> Program:
        env = environment(self.control, self.library, **self.variables)
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen([sys.executable, "-IS", HERE / "program.py"], env=env, text=True, **pipes)
        return self

    def __exit__(self, *problem: object) -> None:
        _, said = self.process.communicate(timeout=20)
        assert said == "", "the library is silent"
        assert self.process.returncode == 0

    def call(self, library: str, symbol: str, *args: object) -> object:
        """Return the result of a call; with places for results (``out()``) a list of it and of their contents."""
        print(json.dumps([library, symbol, args]), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        return json.loads(line)

    def driver(self, symbol: str, *args: object) -> object:
        return self.call("libcuda.so.1", symbol, *args)

    def nvml(self, symbol: str, *args: object) -> object:
        return self.call("libnvidia-ml.so.1", symbol, *args)

    def nccl(self, symbol: str, *args: object) -> object:
        return self.call("libnccl.so.2", symbol, *args)

    def context(self, device: int = 0) -> Program:
        """Begin to use a device, as a program does that runs."""
        assert self.driver("cuInit", 0) == 0
        assert self.driver("cuCtxCreate_v2", out(), 0, device)[0] == 0
        return self


def out(words: int = 1) -> dict:
    """Return a place for a result of so many words of 64 bits."""
    return {"out": words}
