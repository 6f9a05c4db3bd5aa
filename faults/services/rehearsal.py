"""Acts as a candidate would: a reference solution, done with the candidate's own credentials and nothing else."""

from __future__ import annotations

import contextlib
import json
from typing import Any

from faults.clock import Clock, RealClock
from faults.engine.model import LAST_APPLIED, MANAGER
from faults.errors import ClusterError, NotFound
from faults.kube.client import Kube
from faults.kube.config import parse
from faults.models import FaultRun
from faults.packs import Solution, SolutionStep
from faults.services.toolbox_shell import ToolboxShell
from faults.services.work import Report, silent

Obj = dict[str, Any]
POLL_S = 0.05
PATIENCE_S = 60.0


def apply_solution(
    *, run: FaultRun, solution: Solution, kubeconfig: str, report: Report = silent, clock: Clock | None = None
) -> None:
    """Do a solution (of ``selectors.bound_pack(run)``) on the cluster that ``kubeconfig`` names.

    Its lines run in the session's toolbox, one after the other. Raises ClusterError, also where the candidate has not
    the rights that the solution needs, and where a line fails.
    """
    kube = Kube(parse(kubeconfig))
    clock = clock or RealClock()
    try:
        if solution.is_typed:
            for step in solution.steps:
                report(solution.title, step.command)
                _act(kube, step, clock)
        else:
            _run_lines(ToolboxShell.enter(kube=kube, run=run, clock=clock), solution, report)
    finally:
        kube.close()


def _run_lines(shell: ToolboxShell, solution: Solution, report: Report) -> None:
    shell.put(solution.files)
    for line in solution.lines:
        report(solution.title, line)
        shell.run(line)


def _act(kube: Kube, step: SolutionStep, clock: Clock) -> None:
    match step.verb:
        case "delete":
            _delete(kube, step.spec["target"], clock)
        case "create":
            _create_all(kube, step.spec["objects"])
        case "replace":
            for obj in step.spec["objects"]:
                _delete(kube, _target_of(obj), clock)
            _create_all(kube, step.spec["objects"])
        case "patch":
            target = step.spec["target"]
            kube.patch(
                *_address(target), target.get("namespace", ""), step.spec["patch"], field_manager="kubectl-patch"
            )


def _delete(kube: Kube, target: Obj, clock: Clock) -> None:
    """Delete and wait until it has gone, as kubectl does."""
    namespace = target.get("namespace", "")
    with contextlib.suppress(NotFound):
        uid = kube.get(*_address(target), namespace)["metadata"]["uid"]
        kube.delete(*_address(target), namespace)
        waited = 0.0
        while kube.get(*_address(target), namespace)["metadata"]["uid"] == uid:
            if waited >= PATIENCE_S:
                raise ClusterError(f"{target['kind']} {target['name']} is still there after {PATIENCE_S:.0f} s.")
            clock.wait(POLL_S)
            waited += POLL_S


def _create_all(kube: Kube, objects: list[Obj]) -> None:
    for obj in objects:
        text = json.dumps(obj, separators=(",", ":"), sort_keys=True) + "\n"
        annotations = {**obj["metadata"].get("annotations", {}), LAST_APPLIED: text}
        kube.create({**obj, "metadata": {**obj["metadata"], "annotations": annotations}}, field_manager=MANAGER)


def _target_of(obj: Obj) -> Obj:
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], **obj["metadata"]}


def _address(target: Obj) -> tuple[str, str, str]:
    return target["apiVersion"], target["kind"], target["name"]
