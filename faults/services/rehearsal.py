"""Acts as a candidate would: a reference solution, done with the candidate's own credentials and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from faults import selectors
from faults.clock import Clock, RealClock
from faults.errors import FaultError
from faults.kube.client import Kube
from faults.kube.config import parse
from faults.models import FaultRun
from faults.packs import Solution
from faults.services.toolbox_shell import Meanwhile, ToolboxShell
from faults.services.work import Report, silent

TOO_OLD = "The solutions of this version are from before there was a toolbox: they can be read, and not be run."


def apply_solution(
    *, run: FaultRun, solution: Solution, kubeconfig: str, report: Report = silent, clock: Clock | None = None
) -> None:
    """Do a solution (of ``selectors.bound_pack(run)``) on the cluster that ``kubeconfig`` names.

    Its lines run in the session's toolbox, one after the other. Raises ClusterError, also where the candidate has not
    the rights that the solution needs, and where a line fails; FaultError for the solutions of old versions.
    """
    if not solution.run:
        raise FaultError(TOO_OLD)
    with candidate_shell(run=run, kubeconfig=kubeconfig, clock=clock or RealClock()) as shell:
        do_solution(shell, solution, report)


@contextmanager
def candidate_shell(
    *, run: FaultRun, kubeconfig: str, clock: Clock, meanwhile: Meanwhile = nullcontext
) -> Iterator[ToolboxShell]:
    """Enter the toolbox of a run's session as the candidate, in the scenario's namespace. Raises ClusterError."""
    kube = Kube(parse(kubeconfig))
    try:
        shell = ToolboxShell.enter(kube=kube, run=run, clock=clock, meanwhile=meanwhile)
        if line := _select_namespace(run):
            shell.run(line)
        yield shell
    finally:
        kube.close()


def do_solution(shell: ToolboxShell, solution: Solution, report: Report = silent) -> None:
    """Bring the files of a solution or wrong turn into the toolbox, and run its lines. Raises ClusterError."""
    shell.put(solution.files)
    for line in solution.lines:
        report(solution.title, line)
        shell.run(line)


def _select_namespace(run: FaultRun) -> str:
    """Return the line that selects the scenario's namespace, which its lines take for granted; empty where it is."""
    environment, own = selectors.environment_beside(run), selectors.namespaces_of(run)
    if environment is None or not own or selectors.namespaces_of(environment)[0] == own[0]:
        return ""
    return f"kubectl config set-context --current --namespace={own[0]}"
