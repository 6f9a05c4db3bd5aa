"""Arms the CUDA fault library (native/) on the node: programs that preload it fail from then on.

Its control file is a page of memory that they share; ``faultctl`` writes it. A fault is found again by its seed,
which is made from its name: also one that an agent armed and did not live to write down.
"""

from __future__ import annotations

import json
import os
import subprocess
import zlib
from dataclasses import dataclass
from math import ceil
from pathlib import Path

from faults.agent.gpus import Gpu
from faults.agent.refusals import not_permitted

FAULTCTL = Path("/usr/local/bin/faultctl")
TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class CudaControl:
    """The control file of the node, and the program that writes it."""

    file: Path
    faultctl: Path = FAULTCTL

    @property
    def refusal(self) -> str:
        """Return why nothing can be armed here; empty where it can."""
        if not os.access(self.faultctl, os.X_OK):
            return f"{self.faultctl} is not there"
        if not os.access(self.file, os.R_OK | os.W_OK):
            return f"{self.file} is missing or not the agent's: run 'faultctl init' and start the agent again"
        return ""

    def arm(self, name: str, xid: int, gpu: Gpu, seconds: float) -> None:
        """Let programs on a GPU fail, for so long at most. Raises Refusal where the library cannot."""
        self._run("arm", f"xid={xid}", f"gpu={gpu.bus}", f"for={ceil(seconds)}s", f"seed={_seed(name)}")

    def disarm(self, name: str) -> None:
        """End a fault; one that is over already is not missed. Raises Refusal."""
        for number in self._armed(name):
            self._run("disarm", str(number))

    def is_armed(self, name: str) -> bool:
        """Return whether a fault is there. Raises Refusal."""
        return bool(self._armed(name))

    def _armed(self, name: str) -> list[int]:
        return [fault["id"] for fault in json.loads(self._run("show", "--json")) if fault.get("seed") == _seed(name)]

    def _run(self, *words: str) -> str:
        """Return what faultctl says. Raises Refusal with its reason."""
        argv = [str(self.faultctl), "--file", str(self.file), *words]
        try:
            done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)  # noqa: S603
        except (OSError, subprocess.TimeoutExpired) as error:
            raise not_permitted(f"the CUDA fault library cannot be told: {error}") from error
        if done.returncode:
            raise not_permitted(f"the CUDA fault library refuses: {done.stderr.strip().removeprefix('faultctl: ')}")
        return done.stdout


def _seed(name: str) -> int:
    return zlib.crc32(name.encode()) or 1
