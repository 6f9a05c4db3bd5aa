"""``make test-gpu`` records what programs say under each fault, and says plainly where it cannot."""

import re
import shutil
import subprocess
import sys

import pytest

from native.gpu import record
from native.tests.native_library import BUILD, LIBRARY, NATIVE, needs_compiler, package_file

ROOT = NATIVE.parent


def recorded(*arguments):
    argv = [sys.executable, "-m", "native.gpu.record", *map(str, arguments)]
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)


@needs_compiler
@pytest.mark.skipif(not record.missing_gpu(), reason="needs a machine without a GPU")
def test_without_a_gpu_it_says_so_and_writes_nothing(tmp_path):
    page = tmp_path / "page.md"
    done = recorded("--page", page)
    assert done.returncode == 0
    assert done.stdout.startswith("skipped: this machine has no GPU that CUDA can use")
    assert not page.exists()


@needs_compiler
def test_it_names_the_compiler_that_is_missing(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert record.missing_tools() == "needs cc and make: sudo apt install build-essential"


@needs_compiler
@pytest.mark.torture
def test_the_committed_page_is_what_the_sample_says_unless_a_gpu_has_written_it(built, tmp_path):
    package_file("cuda_runtime", "lib/libcudart_static.a")
    committed = record.PAGE.read_text(encoding="utf-8")
    if record.NO_GPU_HEAD not in committed:
        pytest.skip("the page was recorded on a machine with a GPU")
    done = recorded("--stub", "--page", tmp_path / "page.md")
    assert (done.returncode, done.stderr) == (0, "")
    found = outputs((tmp_path / "page.md").read_text(encoding="utf-8"))
    kept = {key: said for key, said in outputs(committed).items() if key[1] in {name for _, name in found}}
    assert found == kept, "run: make test-gpu ARGS=--stub"


def outputs(page):
    """Return what each program says under each fault. PyTorch is not everywhere, and its versions differ in words."""
    parts = [part.partition("\n") for part in page.split("\n## ")[1:]]
    blocks = [
        (title, *block)
        for title, _, body in parts
        for block in re.findall(r"^([^\n]*):\n\n```text\n(.*?)```", body, re.M | re.S)
    ]
    return {(title, name): said for title, names, said in blocks for name in names.split(", ") if "sample" in name}


PLAIN = """
import torch
model = torch.nn.Linear(8, 8)
model(torch.ones(4, 8)).sum().backward()
print(torch.cuda.is_available(), torch.ones(64, 64).matmul(torch.ones(64, 64))[0, 0].item())
"""


@needs_compiler
def test_pytorch_on_the_processor_is_unaffected(control):
    try:
        subprocess.run([record.PYTHON, "-c", "import torch"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs PyTorch: set GPU_PYTHON to a Python that has it")
    control.arm("error=719", "chance=1")
    found = []
    for variables in ({}, {"LD_PRELOAD": str(LIBRARY), "CUDA_FAULT_CONTROL": str(control.file)}):
        env = {"PATH": f"{BUILD}", "HOME": str(control.file.parent), **variables}
        argv = [record.PYTHON, "-c", PLAIN]
        done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
        found.append((done.returncode, done.stdout, done.stderr))
    assert found[0] == found[1]
    assert found[0][:2] == (0, "False 64.0\n")
