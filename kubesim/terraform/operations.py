"""Plans and applies, with the state locked."""

from __future__ import annotations

import base64
import json
import posixpath
import time
import zlib
from collections.abc import Callable
from typing import Any

from kubesim.terraform import render
from kubesim.terraform.apply import Applier
from kubesim.terraform.changes import Options, collecting
from kubesim.terraform.config import Module, load
from kubesim.terraform.diagnostics import Failure, Problem, failure, said, told
from kubesim.terraform.host import HALTED
from kubesim.terraform.plan import Planner
from kubesim.terraform.run import Run
from kubesim.terraform.settings import variables
from kubesim.terraform.state import State, dump, new_lineage, parse
from kubesim.terraform.syntax import parse as parse_file
from kubesim.terraform.values import plain

SAVE_EVERY_S = 2.0
GREEN = "\x1b[0m\x1b[1m\x1b[32m"


def _planned(run: Run, operation: str) -> tuple[Planner, Module]:
    """Plan, with the state locked; the caller unlocks. Raises Failure."""
    root = run.configuration()
    run.backend = run.storage(root)
    run.initialized(root)
    given, warnings = variables(run.host, root, run.asked)
    check_code(run, root)
    if run.asked.on("lock", True):
        run.backend.lock(operation, run.who())
    planner = run.planner(root, run.backend.load(), run.options())
    planner.top.given = given
    try:
        planner.plan()
    except Failure:
        run.host.write(render.partial_text(planner))
        raise
    if run.options().targets:
        warnings.append(Problem("Resource targeting is in effect", said("targeted"), severity="Warning"))
    planner.warnings = warnings
    return planner, root


def check_code(run: Run, root: Module) -> None:
    """Look for mistakes in the code alone. Raises Failure."""
    planner = run.planner(root, State(), Options(refresh=False), quiet=True)
    planner.world.validating = True
    planner.validate()


def unlocked(run: Run, work: Callable[[], int]) -> int:
    """Do something and give the lock up in any case."""
    try:
        return work()
    finally:
        if run.backend is not None:
            run.backend.unlock()


def plan(run: Run) -> int:
    """Show what an apply would do."""

    def work() -> int:
        planner, root = _planned(run, "OperationTypePlan")
        run.host.write(render.plan_text(planner))
        run.tell(planner.warnings)
        acted = any(each.action != "no-op" or each.moved for each in planner.changes.values())
        changed = acted or bool(render.output_changes(planner))
        out = run.asked.one("out")
        quiet = bool(run.host.environment.get("TF_IN_AUTOMATION"))
        if out:
            _save_plan(run, out, planner, root)
            if (changed or planner.options.refresh_only) and not quiet:
                run.host.write(said("linesaved_the_plan_to_outto", LINE=render.LINE, out=out))
        elif (changed or (planner.options.refresh_only and planner.drift)) and not quiet:
            run.host.write(f"{render.LINE}{said('not_saved')}")
        return 2 if changed and run.asked.on("detailed-exitcode") else 0

    return unlocked(run, work)


def _save_plan(run: Run, path: str, planner: Planner, root: Module) -> None:
    files = {name: run.host.source(name) for module in root.everything() for name in module.files}
    held = {
        "files": files, "variables": {name: [plain(value), at] for name, (value, at) in planner.top.given.items()},
        "state": dump(planner.state), "prior": dump(planner.prior), "options": vars(planner.options),
    }  # fmt: skip
    run.host.put(path, "tfplan\n" + base64.b64encode(zlib.compress(json.dumps(held).encode())).decode())


class _Snapshot:
    """The files of a saved plan."""

    def __init__(self, run: Run, files: dict[str, str]) -> None:
        self.run, self.files = run, files

    def names(self, path: str) -> list[str] | None:
        split = [posixpath.split(name) for name in self.files]
        return [name for folder, name in split if (folder or ".") == posixpath.normpath(path)] or None

    def body(self, path: str) -> Any:
        return parse_file(self.files[path], path)


def saved(run: Run, path: str) -> Planner:
    """Return the plan of a file, planned again from what it was made of. Raises Failure."""
    text = run.host.read(path)
    if text is None or not text.startswith("tfplan\n"):
        raise failure("no_plan_file" if text is None else "no_plan", path=path)
    unpacker = zlib.decompressobj()
    held = json.loads(unpacker.decompress(base64.b64decode(text[7:]), 16 << 20))
    root = load(_Snapshot(run, held["files"]))
    options = Options(**{**held["options"], "refresh": False})
    planner = run.planner(root, parse(held["state"]), options, quiet=True)
    planner.top.given = {name: (value, source) for name, (value, source) in held["variables"].items()}
    planner.plan()
    planner.prior = parse(held["prior"])
    return planner


def apply(run: Run) -> int:
    """Do what a plan says."""

    def work() -> int:
        if run.asked.rest:
            planner = saved(run, run.asked.rest[0])
            run.backend = run.storage(planner.config)
            run.backend.lock("OperationTypeApply", run.who())
            now = run.backend.load()
            if (now.serial, now.lineage) != (planner.prior.serial, planner.prior.lineage):
                raise failure("saved_plan_is_stale")
        else:
            planner, _ = _planned(run, "OperationTypeApply")
            if not _approved(run, planner):
                return 1
        planner.say = run.host.say
        return _applied(run, planner)

    return unlocked(run, work)


def _approved(run: Run, planner: Planner) -> bool:
    """Show a plan and ask; True where it is to be done."""
    text = render.plan_text(planner)
    run.host.write(text)
    run.tell(planner.warnings)
    nothing = "No changes." in text
    if run.asked.on("auto-approve") or (nothing and not (planner.options.refresh_only and planner.drift)):
        return True
    kind = "destroy" if planner.options.destroy else "refresh" if planner.options.refresh_only else "apply"
    answer = run.host.question(f"\n\x1b[0m\x1b[1m{said(f'prompt_{kind}')}\n  \x1b[1mEnter a value:\x1b[0m ")
    if run.host.interrupted:
        raise Failure(Problem(HALTED))
    if answer is None:
        raise Failure(Problem("error asking for approval: EOF"))
    run.host.write("\x1b[0m\x1b[0m\n")
    if answer != "yes":
        run.host.write(f"\x1b[0m\n{'Destroy' if kind == 'destroy' else 'Apply'} cancelled.\n")
        return False
    return True


def _applied(run: Run, planner: Planner) -> int:
    assert run.backend is not None
    saved_at = time.monotonic()

    def keep() -> None:
        """Save now and then, for those who kill this in the middle."""
        nonlocal saved_at
        if time.monotonic() - saved_at > SAVE_EVERY_S:
            _save(run, planner)
            saved_at = time.monotonic()

    applier = Applier(planner, run.host.say, keep, lambda: run.host.interrupted)
    try:
        if not planner.options.refresh_only:
            applier.run()
    finally:
        _keep(run, planner, applier)
    if applier.problems:
        run.tell(applier.problems)
        return 1
    if planner.options.targets:
        run.tell([Problem(*told("applied_changes_may_be_incomplete"), severity="Warning")])
    done = said("destroyed" if planner.options.destroy else "applied", **applier.counts)
    run.host.write(f"{GREEN}\n{done}\n\x1b[0m")
    outputs = planner.state.output_values()
    if outputs and not planner.options.destroy:
        run.host.write(f"{GREEN}\nOutputs:\n\n\x1b[0m{render.outputs_list(planner.state)}")
    return 0


def _keep(run: Run, planner: Planner, applier: Applier) -> None:
    """Write the state, if it is another than before."""
    assert run.backend is not None
    if planner.options.destroy:
        if not planner.state.instances or all(held.mode == "data" for held in planner.state.instances.values()):
            planner.state.instances.clear()
            planner.state.outputs = {}
    elif not planner.options.targets and not applier.problems:
        with collecting(applier.problems):
            planner.state.set_outputs({name: planner.top.output(name) for name in planner.config.outputs})
    _save(run, planner)


def _save(run: Run, planner: Planner) -> None:
    assert run.backend is not None
    if not planner.state.same_as(planner.prior):
        planner.state.serial, planner.state.lineage = planner.prior.serial + 1, planner.prior.lineage or new_lineage()
        run.backend.save(planner.state)


def destroy(run: Run) -> int:
    """Destroy everything."""
    run.asked.flags["destroy"] = ["true"]
    return apply(run)
