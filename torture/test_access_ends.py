"""Access ends within two seconds while processes of a whole installation are stopped, dead, locked out or full."""

from __future__ import annotations

import errno
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from interview_site.lock_watch import write_lock_holder
from torture.installation import Installation
from torture.interviews import Interviewer, LiveInterview, begin, state

PROMISE_S = 2.0 if "TORTURE_ROUNDS" in os.environ else 30.0
"""Beside other tests nobody's promise can be kept; what is in the way is there until the cut."""
PAGE_S = 60.0
IN_THE_WAY = [(), ("redis",), ("worker",), ("observer",), ("redis", "worker"), ("redis", "observer")]
LONG = pytest.mark.torture


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory, migrated: Path) -> Iterator[Installation]:
    """One installation for every test of the file."""
    with Installation(tmp_path_factory.mktemp("access"), tables=migrated) as installation:
        yield installation


@contextmanager
def stopped(installation: Installation, *names: str) -> Iterator[None]:
    """Stop processes with SIGSTOP, and let them go on at the end."""
    for name in names:
        assert installation.send(name, signal.SIGSTOP), f"no process {name}"
    try:
        yield
    finally:
        for name in names:
            installation.send(name, signal.SIGCONT)


def until(done: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait until something is true."""
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "it did not come true"
        threading.Event().wait(0.1)


def judged(interview: LiveInterview, case: str) -> None:
    """Measure the cut from now on and hold it against the promise."""
    seconds = interview.seconds_until_cut()
    print(f"{case}: cut after {seconds:.2f} s")
    assert seconds < PROMISE_S


@pytest.mark.slow
def test_a_stopped_redis_and_a_locked_database_delay_no_cut(installation: Installation) -> None:
    interviewer, interview = Interviewer(installation), begin(installation)[0]
    with stopped(installation, "redis"), locked(installation):
        button = interviewer.end(interview)
        judged(interview, "Redis stopped, database locked")
    button.join(PAGE_S)
    until(lambda: state(installation, interview.uuid) == "ended")


@LONG
@pytest.mark.parametrize("names", IN_THE_WAY, ids=lambda names: "+".join(names) or "calm")
def test_stopped_processes_delay_no_cut(installation: Installation, names: tuple[str, ...]) -> None:
    interviewer, interview = Interviewer(installation), begin(installation)[0]
    with stopped(installation, *names):
        button = interviewer.end(interview)
        judged(interview, f"stopped: {', '.join(names) or 'nothing'}")
        button.join(PAGE_S)
        assert not button.is_alive()


@LONG
def test_a_killed_redis_and_worker_delay_no_cut(installation: Installation) -> None:
    interviewer, interview = Interviewer(installation), begin(installation)[0]
    for name in ("redis", "worker"):
        assert installation.send(name, signal.SIGKILL)
    interviewer.end(interview)
    judged(interview, "Redis and worker killed")


@LONG
def test_an_observer_frozen_inside_a_transaction_delays_no_cut(installation: Installation) -> None:
    interviewer, interview = Interviewer(installation), begin(installation)[0]
    observer = freeze_in_transaction(installation, "observer")
    try:
        interviewer.end(interview)
        judged(interview, "observer stopped with the database's write lock")
    finally:
        os.kill(observer, signal.SIGCONT)


@LONG
def test_a_web_process_killed_after_its_answer_delays_no_cut(installation: Installation) -> None:
    interviewer, interview = Interviewer(installation), begin(installation)[0]
    button = interviewer.end(interview)
    until(lambda: end_is_kept(installation, interview) or not button.is_alive(), 10)
    assert installation.send("web", signal.SIGKILL)
    judged(interview, "web killed in its answer")
    until(lambda: state(installation, interview.uuid) == "ended")
    until(lambda: is_served(interviewer))


@LONG
def test_a_lock_held_by_a_foreign_process_delays_no_cut_and_loses_no_end(installation: Installation) -> None:
    interviewer, interview = Interviewer(installation), begin(installation)[0]
    with locked(installation):
        began = time.monotonic()
        button = interviewer.end(interview)
        judged(interview, "database locked by another program")
        button.join(PAGE_S)
        assert time.monotonic() - began < 5, "the page was late"
    until(lambda: state(installation, interview.uuid) == "ended")


@LONG
def test_a_full_disk_delays_no_cut_and_loses_no_end(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "data", "700m"), Installation(tmp_path) as installation:
        interviewer, interview = Interviewer(installation), begin(installation)[0]
        until(lambda: (tmp_path / "data" / "reserve").exists())
        filler = fill(tmp_path / "data" / "filler")
        button = interviewer.end(interview)
        judged(interview, "disk full")
        button.join(PAGE_S)
        assert state(installation, interview.uuid) == "ended", "the reserve did not take the end"
        filler.unlink()


@LONG
def test_a_full_disk_without_a_reserve_delays_no_cut_either(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "data", "300m"), Installation(tmp_path) as installation:
        interviewer, interview = Interviewer(installation), begin(installation)[0]
        filler = fill(tmp_path / "data" / "filler")
        interviewer.end(interview)
        judged(interview, "disk full, and no reserve")
        filler.unlink()
        until(lambda: state(installation, interview.uuid) == "ended")


@LONG
def test_a_cluster_that_was_stopped_over_the_end_is_cut_at_once_when_it_returns(installation: Installation) -> None:
    interviewer, interview = Interviewer(installation), begin(installation)[0]
    with stopped(installation, "kubesim"):
        button = interviewer.end(interview)
        button.join(PAGE_S)
        assert not button.is_alive(), "the page waits for the cluster"
        threading.Event().wait(6)
    judged(interview, "practice clusters stopped for 6 s over the end, from their return")


@LONG
def test_fifteen_ends_at_once_are_all_in_time(installation: Installation) -> None:
    interviewers = [Interviewer(installation) for _ in range(15)]
    interviews = begin(installation, 15)
    buttons = [interviewer.end(interview) for interviewer, interview in zip(interviewers, interviews, strict=True)]
    seconds: list[float] = []
    watchers = [
        threading.Thread(target=lambda which=interview: seconds.append(which.seconds_until_cut(0.1)))
        for interview in interviews
    ]
    for watcher in watchers:
        watcher.start()
    for thread in (*watchers, *buttons):
        thread.join(60)
    print(f"15 ends at once: cut after {min(seconds):.2f} to {max(seconds):.2f} s")
    assert len(seconds) == len(interviews)
    assert max(seconds) < PROMISE_S


def end_is_kept(installation: Installation, interview: LiveInterview) -> bool:
    """Whether the request to end lies in the file, or is carried out."""
    return b"[" in (installation.folder / "data" / "end-requests").read_bytes() or not interview.is_open()


def is_served(interviewer: Interviewer) -> bool:
    """Whether the site answers again."""
    try:
        return interviewer.post("/login/")[0] > 0
    except OSError:
        return False


@contextmanager
def locked(installation: Installation) -> Iterator[None]:
    """Hold the database's write lock in this process, which is none of the installation's."""
    database = sqlite3.connect(installation.folder / "data" / "db.sqlite3", isolation_level=None, timeout=20)
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        database.execute("ROLLBACK")
        database.close()


def freeze_in_transaction(installation: Installation, name: str) -> int:
    """Stop a process in a moment in which it holds the write lock; return its id."""
    pid, database = installation.pids(name)[0], installation.folder / "data" / "db.sqlite3"
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if write_lock_holder(database) == pid:
            os.kill(pid, signal.SIGSTOP)
            threading.Event().wait(0.05)
            if write_lock_holder(database) == pid:
                return pid
            os.kill(pid, signal.SIGCONT)
    raise AssertionError(f"{name} was never seen writing")


@contextmanager
def tmpfs(folder: Path, size: str) -> Iterator[None]:
    """Mount a small file system in memory; needs root on Linux."""
    folder.mkdir()
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        pytest.skip("a small file system can only be mounted by root on Linux")
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    mounted = subprocess.run(command, capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("this container may mount no file system")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(path: Path) -> Path:
    """Take what is left of a file system."""
    block = b"\xa5" * 2**20
    with path.open("wb", buffering=0) as file:
        for size in (2**20, 4096, 1):
            try:
                while file.write(block[:size]):
                    continue
            except OSError as exc:
                if exc.errno != errno.ENOSPC:
                    raise
    return path
