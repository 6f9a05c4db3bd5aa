"""Lines of a shell, run in a session's toolbox as the candidate would type them there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace

from faults import selectors
from faults.clock import Clock
from faults.engine.model import CommandLimits
from faults.errors import ClusterError
from faults.kube.client import Kube
from faults.models import FaultRun
from faults.services.toolboxes import missing_toolbox
from faults.toolbox import NAME

LIMITS = CommandLimits(seconds=120.0, output_bytes=256 * 1024)
PATIENCE_S = 60.0  # for a toolbox that has just been made
MAX_SAID = 2000  # of what a line that failed wrote; the end says why
PART = 2000
"""Characters of a file that one command writes: it travels in the address of a request."""
SHELL = ("bash", "-o", "pipefail", "-c")
_WRITE = 'mkdir -p "${0%/*}" && printf %s "$1" > "$0"'
_APPEND = 'printf %s "$1" >> "$0"'
Meanwhile = Callable[[], AbstractContextManager[object]]
NO_TOOLBOX = (
    "The session has no toolbox in which the solution's lines could run. On a real cluster set TOOLBOX_IMAGE "
    "(see docs/admin.md), and prepare another session."
)


@dataclass(frozen=True)
class ToolboxShell:
    """The toolbox beside a fault, entered with the rights of ``kube``. Each line has a bash of its own, at home.

    A line runs inside of what ``meanwhile`` returns.
    """

    kube: Kube
    namespace: str
    meanwhile: Meanwhile = nullcontext
    _known: dict[str, str] = field(default_factory=dict, compare=False)

    @classmethod
    def enter(cls, *, kube: Kube, run: FaultRun, clock: Clock, meanwhile: Meanwhile = nullcontext) -> ToolboxShell:
        """Return the shell of the session that has the run, once its toolbox runs. Raises ClusterError."""
        environment = selectors.environment_beside(run)
        box = selectors.toolbox_of(environment) if environment else None
        if environment is None or box is None:
            raise ClusterError(NO_TOOLBOX)
        if missing := missing_toolbox(run=environment, hold_s=PATIENCE_S, clock=clock):
            raise ClusterError(f"The toolbox does not run: {missing}.")
        return cls(kube, box.namespace, meanwhile)

    def copy(self) -> ToolboxShell:
        """Return the same toolbox; what is brought there through one is not known to the other."""
        return replace(self, _known={**self._known})

    def put(self, files: Mapping[str, str]) -> None:
        """Write files below the home folder, but for those that it has brought before. Raises ClusterError."""
        for path, text in files.items() - self._known.items():
            parts = [text[start : start + PART] for start in range(0, len(text), PART)]
            for script, part in zip([_WRITE, *[_APPEND] * (len(parts) - 1)], parts, strict=True):
                self._run(("sh", "-c", script, path, part), path)
            self._known[path] = text

    def run(self, line: str) -> str:
        """Run a line; return what it wrote. Raises ClusterError with that where it does not end with 0."""
        with self.meanwhile():
            return self._run((*SHELL, line), line)

    def _run(self, command: tuple[str, ...], what: str) -> str:
        code, output = self.kube.run_command(self.namespace, NAME, NAME, command, LIMITS)
        if code:
            said = output.strip()[-MAX_SAID:] or "it wrote nothing"
            raise ClusterError(f"{what}: {said} (exit code {code})")
        return output
