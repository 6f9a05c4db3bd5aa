"""Finds kubectl binaries and runs them with a home of their own."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PACKAGED = ("/usr/local/bin", "/opt/homebrew/bin", "/usr/lib/google-cloud-sdk/bin")
"""Where package managers put kubectl, on PATH or not."""


@dataclass(frozen=True)
class Kubectl:
    """One kubectl binary, run against one cluster."""

    binary: str
    home: Path
    kubeconfig: Path

    @property
    def version(self) -> tuple[int, ...]:
        """Return (1, 33): a few commands and flags came with a release."""
        return _version(self.binary)

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        """Start a command and return it running."""
        env = {"HOME": str(self.home), "KUBECONFIG": str(self.kubeconfig), "PATH": "/usr/bin:/bin", **environment}
        return subprocess.Popen(
            [self.binary, *arguments],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def fails(self, *arguments: str, **environment: str) -> str:
        """Run a command that must fail and return what it says."""
        process = self.start(*arguments, **environment)
        output = process.communicate(timeout=120)[0]
        assert process.returncode, output
        return output

    def __call__(self, *arguments: str, **environment: str) -> str:
        """Run a command that must succeed and return what it prints."""
        process = self.start(*arguments, **environment)
        output = process.communicate(timeout=120)[0]
        assert process.returncode == 0, f"kubectl {' '.join(arguments)}: {output}"
        return output


@cache
def oldest_and_newest() -> tuple[str, ...]:
    """Return the oldest and the newest kubectl of ``KUBECTL``, of PATH, and of the folders beside those found."""
    versions = every_kubectl()
    return tuple(dict.fromkeys(versions[version] for version in (min(versions), max(versions)))) if versions else ()


@cache
def every_kubectl() -> dict[tuple[int, ...], str]:
    """Return every kubectl that is found, by its version; ``KUBECTLS`` names more folders or files, like PATH."""
    named = [Path(os.environ["KUBECTL"])] if os.environ.get("KUBECTL") else []
    more = [Path(part) for part in os.environ.get("KUBECTLS", "").split(os.pathsep) if part]
    named += [path for path in more if path.is_file()]
    folders = {Path(part) for part in os.get_exec_path()} | {path.resolve().parent for path in named}
    folders |= {(folder / "kubectl").resolve().parent for folder in [*folders] if (folder / "kubectl").exists()}
    folders |= {Path(folder) for folder in PACKAGED} | {path for path in more if path.is_dir()}
    found = named + [path for folder in folders for path in folder.glob("kubectl*") if _is_kubectl(path)]
    versions = {_version(str(path)): str(path) for path in found}
    versions.pop((0,), None)
    return dict(sorted(versions.items()))


def _is_kubectl(path: Path) -> bool:
    return bool(re.fullmatch(r"kubectl(\.?\d+(\.\d+)*)?", path.name)) and os.access(path, os.X_OK)


def _version(binary: str) -> tuple[int, ...]:
    """Return (1, 33), or (0,) for what does not run or runs another binary, depending on the server."""
    try:
        output = subprocess.run(
            [binary, "version", "--client", "-o", "json"], capture_output=True, text=True, timeout=60, check=False
        ).stdout
    except OSError:
        return (0,)
    found = re.search(r'"gitVersion":\s*"v(\d+)\.(\d+)', output)
    return tuple(map(int, found.groups())) if found and "-dispatcher" not in output else (0,)


def namespace_name(test: str) -> str:
    """Return a name for the namespace of one test: readable, valid, and never another test's."""
    readable = re.sub(r"[^a-z0-9]+", "-", test.lower()).strip("-")[:48].strip("-")
    return f"{readable}-{hashlib.sha256(test.encode()).hexdigest()[:8]}"
