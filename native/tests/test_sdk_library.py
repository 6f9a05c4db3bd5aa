"""The SDK's one file of C: it is what the table says, and a program under it finds a failed GPU by every way in."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "faults" / "sdk" / "cuda-fault-injection"
PARTS = Path(__file__).parent / "sdk"
GUIDES_ROW = '{99, cudaErrorCustom, "Custom error description"},'
needs_cc = pytest.mark.skipif(
    not (shutil.which("cc") and shutil.which("make")) or os.uname().sysname != "Linux",
    reason="needs Linux with cc and make: sudo apt install build-essential",
)


def code_of(*words):
    done = subprocess.run([sys.executable, "-c", *words], cwd=ROOT / "native", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_committed_file_is_what_make_sdk_writes():
    written = code_of("import sys, generate_sdk as g; sys.stdout.write(g.generated(g.read()))")
    assert (FOLDER / "fake_cuda_xid79.c").read_text(encoding="utf-8") == written, "run: make -C native sdk"


def test_every_row_names_an_error_whose_number_the_file_has():
    text = (FOLDER / "fake_cuda_xid79.c").read_text(encoding="utf-8")
    numbers = dict(re.findall(r"^\t(\w+) = (\d+),$", text, re.M))
    rows = re.findall(r'^\t\{(\d+), (\w+), "[^"]+"\},$', text, re.M)
    assert '{79, CUDA_ERROR_NO_DEVICE, "GPU has fallen off the bus"},' in text
    assert {"79", "48", "94", "95", "43", "74"} <= {xid for xid, _ in rows}
    assert {name for _, name in rows} <= set(numbers)
    assert (numbers["CUDA_ERROR_NO_DEVICE"], numbers["CUDA_ERROR_NVLINK_UNCORRECTABLE"]) == ("100", "220")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A copy of the folder, with the row of the guide, built by its own Makefile; a driver and a program."""
    made = tmp_path_factory.mktemp("cuda-fault-injection")
    for name in ("Makefile", "fake_cuda_xid79.c"):
        shutil.copy(FOLDER / name, made)
    source = made / "fake_cuda_xid79.c"
    text = source.read_text(encoding="utf-8").replace("\t/* xids: end */", f"\t{GUIDES_ROW}\n\t/* xids: end */")
    source.write_text(text, encoding="utf-8")
    flags = ["CFLAGS=-O2 -Wall -Wextra -Werror"]
    subprocess.run(["make", "-s", "clean"], cwd=made, check=True)
    subprocess.run(["make", "-s", *flags], cwd=made, check=True)
    driver = ["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", "libcuda.so.1", str(PARTS / "stub_libcuda.c")]
    subprocess.run(["cc", *driver], cwd=made, check=True)
    program = ["-o", "probe", str(PARTS / "probe.c"), "-L.", "-l:libcuda.so.1", "-Wl,-rpath,$ORIGIN", "-ldl"]
    subprocess.run(["cc", *program], cwd=made, check=True)
    return made


def seen(folder, **variables):
    """Return what the program prints. ld.so tells of a library that it cannot load, so stderr must stay empty."""
    env = {"PATH": os.defpath, "LD_PRELOAD": str(folder / "fake_cuda_xid79.so"), **variables}
    done = subprocess.run([folder / "probe"], env=env, check=True, capture_output=True, text=True)
    assert done.stderr == ""
    return done.stdout.splitlines()


def as_seen(error):
    linked = f"linked {error} {error} {error}"
    return [linked, "errno kept", f"dlsym {error}", "probe 0", f"asked {error}", "others found"]


@needs_cc
@pytest.mark.parametrize(
    ("xid", "error"), [("79", 100), ("48", 214), ("94", 214), ("95", 999), ("43", 719), ("74", 220), ("99", 999)]
)
def test_each_xid_fails_the_calls_by_every_way_into_the_driver(folder, xid, error):
    assert seen(folder, CUDA_FAULT_INJECTION_ENABLED="1", CUDA_XID_TYPE=xid) == as_seen(error)


@needs_cc
@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"CUDA_XID_TYPE": "79"},
        {"CUDA_FAULT_INJECTION_ENABLED": "0", "CUDA_XID_TYPE": "79"},
        {"CUDA_FAULT_INJECTION_ENABLED": "1"},
        {"CUDA_FAULT_INJECTION_ENABLED": "1", "CUDA_XID_TYPE": "7"},
        {"CUDA_FAULT_INJECTION_ENABLED": "1", "CUDA_XID_TYPE": "079"},
    ],
    ids=lambda variables: " ".join(variables.values()) or "nothing",
)
def test_it_is_invisible_unless_both_variables_ask_for_a_fault(folder, variables):
    assert seen(folder, **variables) == as_seen(0)


@needs_cc
def test_a_program_without_cuda_runs_under_it(folder):
    library = str(folder / "fake_cuda_xid79.so")
    env = {"LD_PRELOAD": library, "CUDA_FAULT_INJECTION_ENABLED": "1", "CUDA_XID_TYPE": "79"}
    code = "import ctypes, ssl, sqlite3; print(ctypes.CDLL(None).getpid() > 0)"
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("True\n", "")
