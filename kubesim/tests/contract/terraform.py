"""Real Terraform with a real provider, run in a folder of a test."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

NEEDED = "needs terraform on PATH, and hashicorp/{} in the filesystem mirror TF_PLUGIN_DIR"
EMPTY, CHANGES = 0, 2
"""Exit codes of ``plan -detailed-exitcode``."""


@dataclass(frozen=True)
class Terraform:
    """One root module and the cluster that it works on."""

    binary: str
    folder: Path
    kubeconfig: Path
    plugins: Path
    environment: Mapping[str, str] = field(default_factory=dict)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command and return how it ended."""
        home = {"HOME": str(self.folder), "PATH": "/usr/bin:/bin", "KUBE_CONFIG_PATH": str(self.kubeconfig)}
        quiet = {"TF_IN_AUTOMATION": "1", "CHECKPOINT_DISABLE": "1", "TF_CLI_ARGS": "-no-color"}
        return subprocess.run(
            [self.binary, *arguments],
            cwd=self.folder,
            env={**home, **quiet, **self.environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def __call__(self, *arguments: str) -> str:
        """Run a command that must succeed and return what it prints."""
        done = self.run(*arguments)
        assert done.returncode == 0, f"terraform {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stdout

    def init(self, *arguments: str) -> str:
        """Get the folder ready, with the provider of the mirror."""
        return self("init", f"-plugin-dir={self.plugins}", *arguments)

    def plan(self) -> int:
        """Return how a plan ends: EMPTY where there is nothing to do, CHANGES where there is."""
        done = self.run("plan", "-detailed-exitcode")
        assert done.returncode in (EMPTY, CHANGES), done.stdout + done.stderr
        return done.returncode


def terraform_in(folder: Path, kubeconfig: Path, provider: str = "kubernetes", **environment: str) -> Terraform:
    """Return Terraform for a root module; skips where there is none, or no provider."""
    binary, plugins = shutil.which("terraform"), Path(os.environ.get("TF_PLUGIN_DIR", "/nowhere"))
    if binary is None or not any(plugins.glob(f"**/hashicorp/{provider}/**/terraform-provider-{provider}*")):
        pytest.skip(NEEDED.format(provider))
    return Terraform(binary, folder, kubeconfig, plugins, environment)
