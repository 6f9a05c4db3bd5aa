"""SIGKILL at every place of a real worker, over the real database and a real practice cluster."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys

import pytest

from conftest import ROOT, stop

INJECTING = ["before-undo", "before-write", "after-write", "before-status"]
REVERTING = ["revert-before-write", "revert-after-write", "revert-before-status"]


class Worker:
    """The other end of ``crash_worker``."""

    def __init__(self, data_dir, host, tables) -> None:
        (data_dir / "kubesim").symlink_to(host.folder)
        shutil.copy(tables, data_dir)
        environment = {**os.environ, "DATA_DIR": str(data_dir), "KUBESIM_URL": host.url}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "faults.tests.crash_worker"],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout.readline() == "ready\n"

    def ask(self, act, **request):
        self.process.stdin.write(json.dumps({"act": act, **request}) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


@pytest.fixture(scope="module")
def worker(tmp_path_factory, practice_host, migrated):
    worker = Worker(tmp_path_factory.mktemp("crash"), practice_host, migrated)
    yield worker
    stop(worker.process)
    worker.process.stdin.close()
    worker.process.stdout.close()


def kill(worker, act, run, point, hit):
    died = worker.ask(act, run=run, die_at=point, hit=hit)
    assert died["signal"] == signal.SIGKILL


def hits(point, most):
    return [1] if point.endswith("status") else range(1, most + 1)


def cases(points, short, most=2):
    """Return every place and how often it is passed before the kill; only ``short`` of them are for `make test`."""
    every = [(point, hit) for point in points for hit in hits(point, most)]
    return [pytest.param(*case, marks=() if case in short else pytest.mark.torture) for case in every]


# The cluster has what the journal does not know, and the journal all but the outcome. In test_engine.py the engine is
# stopped at every place; here a real worker is killed.
HARD = [("after-write", 1), ("before-status", 1), ("revert-after-write", 1)]
AFTER_A_WRITE = [("after-write", 1), ("revert-after-write", 1)]


@pytest.mark.parametrize(("point", "hit"), cases(INJECTING, HARD))
def test_a_worker_killed_while_injecting_and_started_again_ends_active_and_reverts_clean(worker, point, hit):
    plan = worker.ask("plan", purpose="fault")
    kill(worker, "inject", plan["run"], point, hit)
    assert worker.ask("look", run=plan["run"])["status"] == "injecting"

    assert worker.ask("reconcile")["attended"] == 1
    state = worker.ask("look", run=plan["run"])
    assert state["status"] == "active"
    assert set(state["steps"]) == {"applied"}
    finish(worker, plan)


@pytest.mark.parametrize(("point", "hit"), cases(INJECTING, AFTER_A_WRITE))
def test_an_environment_killed_while_it_is_made_ends_active_and_reverts_clean(worker, point, hit):
    plan = worker.ask("plan", purpose="environment")
    kill(worker, "inject", plan["run"], point, hit)
    assert worker.ask("reconcile")["attended"] == 1
    assert worker.ask("look", run=plan["run"])["status"] == "active"
    finish(worker, plan)


@pytest.mark.parametrize(("point", "hit"), cases(INJECTING, AFTER_A_WRITE))
def test_a_worker_killed_while_injecting_can_be_reverted_instead(worker, point, hit):
    plan = worker.ask("plan", purpose="fault")
    kill(worker, "inject", plan["run"], point, hit)
    finish(worker, plan)


@pytest.mark.parametrize(("point", "hit"), cases(REVERTING, HARD))
def test_a_worker_killed_while_reverting_and_started_again_ends_reverted(worker, point, hit):
    revert_after_a_kill(worker, point, hit, "fault")


@pytest.mark.parametrize(("point", "hit"), cases(REVERTING, []))  # make test: of a fault, and of each kind of step
def test_an_environment_killed_while_reverting_ends_reverted(worker, point, hit):
    revert_after_a_kill(worker, point, hit, "environment")


STEPS = 5  # of the pack whose steps are patches of three types, and a deletion: the last one


@pytest.mark.parametrize(("point", "hit"), cases(INJECTING, [("after-write", STEPS)], STEPS))
def test_a_worker_killed_in_a_step_of_any_kind_and_started_again_ends_active_and_reverts_clean(worker, point, hit):
    plan = worker.ask("plan", purpose="kinds")
    kill(worker, "inject", plan["run"], point, hit)
    assert worker.ask("reconcile")["attended"] == 1
    assert worker.ask("look", run=plan["run"])["status"] == "active"
    finish(worker, plan)


@pytest.mark.parametrize(("point", "hit"), cases(REVERTING, [("revert-after-write", 1)], STEPS))
def test_a_worker_killed_while_it_takes_back_a_step_of_any_kind_ends_reverted(worker, point, hit):
    revert_after_a_kill(worker, point, hit, "kinds")


def revert_after_a_kill(worker, point, hit, purpose):
    plan = worker.ask("plan", purpose=purpose)
    worker.ask("inject", run=plan["run"])
    kill(worker, "revert", plan["run"], point, hit)
    assert worker.ask("look", run=plan["run"])["status"] == "reverting"

    assert worker.ask("reconcile")["attended"] == 1
    finish(worker, plan)


def finish(worker, plan):
    """Revert what is left of the fault and of the environment; nothing may remain, not even the journal's copy."""
    for run in dict.fromkeys([plan["run"], plan["environment"]]):
        assert worker.ask("revert", run=run, lease_over=True)["signal"] == 0
        state = worker.ask("look", run=run)
        assert (state["status"], state["residue"]) == ("reverted", [])
        assert set(state["steps"]) <= {"reverted"}
    state = worker.ask("look", run=plan["environment"], before=plan["before"])
    assert state["difference"] == []
