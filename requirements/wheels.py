"""Check that every locked package has a wheel for each Python and each machine that we run on.

``make lock`` runs it with the lock files as arguments. uv resolves each lock as if it were on the other machine,
with the index that uv is configured with, and downloads nothing. Without a wheel, ``make run`` would need a compiler
there: give the package an environment marker, and tell the consequence in ``interview_site/preflight.py``.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
PLATFORMS = (
    "x86_64-manylinux_2_28",
    "aarch64-manylinux_2_28",
    "x86_64-apple-darwin",
    "aarch64-apple-darwin",
)


def command(lock: str, python: str, platform: str, folder: str) -> list[str]:
    """Return uv's command that would install the lock on that machine from wheels alone."""
    return [
        *("uv", "pip", "install", "--quiet", "--dry-run", "--no-deps", "--require-hashes"),
        *("--only-binary", ":all:", "--target", folder),
        *("--python-platform", platform, "--python-version", python),
        *("-r", lock),
    ]


def problems(locks: Sequence[str]) -> Iterator[str]:
    """Yield a line for each lock that cannot be installed somewhere, with uv's reason."""
    with tempfile.TemporaryDirectory() as folder:
        for lock, python, platform in itertools.product(locks, PYTHONS, PLATFORMS):
            argv = command(lock, python, platform, folder)
            done = subprocess.run(argv, capture_output=True, text=True, check=False)  # noqa: S603 - fixed command
            if done.returncode:
                yield f"{lock}: Python {python} on {platform}: {' '.join(done.stderr.split())}"


def main(locks: Sequence[str]) -> int:
    """Print every problem; return 1 where there is one."""
    found = 0
    for problem in problems(locks):
        found = 1
        print(f"error: {problem}", file=sys.stderr)
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
