"""The WebAssembly component of CPython and the guest's modules, built once and kept in the virtual environment.

``python -m kubesim.python.build`` makes what is missing; nothing binary is in the repository.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from kubesim.python.engine import Unavailable, compiled

HERE = Path(__file__).parent
PACKAGES = ("componentize-py", "wasmtime")
SOURCES = "stdlib.zip"
MAX_KEPT = 6
"""Builds of other sources that are kept: checkouts may share a virtual environment."""


@cache
def key() -> str:
    """Return the name of the build of these sources with the installed packages. Raises ``Unavailable``."""
    digest = hashlib.sha256(os.uname().machine.encode())
    try:
        digest.update(" ".join(map(version, PACKAGES)).encode())
    except PackageNotFoundError as error:
        raise Unavailable(f"the package {error.name} is not installed") from error
    for path in sorted([*HERE.glob("guest/**/*.py"), *HERE.glob("guest/**/*.json"), *HERE.glob("wit/*.wit")]):
        digest.update(path.relative_to(HERE).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def folder() -> Path:
    """Return where builds are kept: in the virtual environment, or in the user's cache where that is read-only."""
    kept = Path(sys.prefix) / "share" / "kubesim-python"
    return kept if os.access(sys.prefix, os.W_OK) else Path.home() / ".cache" / "faultline" / "kubesim-python"


def target() -> Path:
    """Return where the compiled component of these sources is, or will be. Raises ``Unavailable``."""
    return folder() / key() / "python.cwasm"


def component() -> Path:
    """Return the compiled component, built now if it is missing. Raises ``Unavailable``.

    A process of its own builds: compiling takes 300 MB that whoever asks should not keep.
    """
    if target().exists():
        os.utime(target().parent)  # which builds are still used
    else:
        words = [sys.executable, "-m", "kubesim.python.build"]
        done = subprocess.run(words, cwd=HERE.parent.parent, capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode:
            raise Unavailable(f"the build failed: {done.stderr.strip()[-2000:]}")
    return target()


def build() -> None:
    """Make what is missing, once however many ask for it. Raises ``Unavailable``."""
    made = target()
    made.parent.mkdir(parents=True, exist_ok=True)
    with (folder() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if made.exists():
            return
        with tempfile.TemporaryDirectory(dir=folder()) as work:
            _make(Path(work), made)
        others = sorted(folder().glob("*/"), key=lambda path: path.stat().st_mtime)
        for old in others[:-MAX_KEPT]:
            shutil.rmtree(old, ignore_errors=True)


def _make(work: Path, place: Path) -> None:
    guest, made = work / "guest", work / "python.wasm"
    shutil.copytree(HERE / "guest", guest, ignore=shutil.ignore_patterns("__pycache__"))
    tool = str(Path(sys.executable).with_name("componentize-py"))
    words = ["-d", str(HERE / "wit"), "-w", "program", "componentize", "-p", str(guest), "app", "-o", str(made)]
    done = subprocess.run([tool, *words], capture_output=True, text=True, check=False)  # noqa: S603 - fixed command
    if done.returncode:
        raise Unavailable(done.stderr.partition("Stack backtrace")[0])
    (guest / SOURCES).replace(place.with_name(SOURCES))
    (work / "python.cwasm").write_bytes(compiled(made))
    (work / "python.cwasm").replace(place)


def main() -> int:
    """Build; say what Python in containers will answer where that is impossible."""
    try:
        build()
    except Unavailable as error:
        print(f"note: Python in containers is not available here: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
