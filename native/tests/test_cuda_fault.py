"""The library is run for real: a program under LD_PRELOAD, with a stand-in for the driver."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

NATIVE = Path(__file__).resolve().parent.parent
LIBRARY = NATIVE / "build" / "libcudafault.so"

pytestmark = pytest.mark.skipif(
    not (shutil.which("cc") and shutil.which("make")) or os.uname().sysname != "Linux",
    reason="needs Linux with cc and make: sudo apt install build-essential",
)


@pytest.fixture(scope="module", autouse=True)
def built():
    subprocess.run(["make", "-s", "-C", str(NATIVE), "all", "build/probe"], check=True)


def seen(**variables):
    """Return what the probe prints. ld.so ignores a missing library, so anything on stderr fails the test."""
    env = {"PATH": os.defpath, "LD_PRELOAD": str(LIBRARY), **variables}
    answer = subprocess.run([NATIVE / "build" / "probe"], env=env, check=True, capture_output=True, text=True)
    assert answer.stderr == ""
    return answer.stdout.strip()


HEALTHY = "0 0 8 kept"


def test_it_is_invisible_unless_asked():
    assert seen() == HEALTHY


@pytest.mark.parametrize(
    ("xid", "error"), [("79", 100), ("48", 214), ("94", 214), ("95", 999), ("43", 719), ("74", 220)]
)
def test_each_xid_gives_the_error_of_its_failure(xid, error):
    assert seen(CUDA_FAULT_INJECTION_ENABLED="1", CUDA_XID_TYPE=xid) == f"{error} {error} -1 kept"


@pytest.mark.parametrize("xid", ["", "7", "790", "79 ", "-79", "x" * 5000])
def test_a_malformed_xid_means_no_fault(xid):
    assert seen(CUDA_FAULT_INJECTION_ENABLED="1", CUDA_XID_TYPE=xid) == HEALTHY


@pytest.mark.parametrize("enabled", ["0", "yes", "11", ""])
def test_only_1_turns_it_on(enabled):
    assert seen(CUDA_FAULT_INJECTION_ENABLED=enabled, CUDA_XID_TYPE="79") == HEALTHY


def test_it_exports_exactly_the_replaced_names():
    answer = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], check=True, capture_output=True, text=True)
    assert sorted(line.split()[-1] for line in answer.stdout.splitlines()) == ["cuDeviceGetCount", "cuInit"]
