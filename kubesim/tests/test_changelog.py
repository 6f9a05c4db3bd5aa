"""What a cluster is kept in: batches that count as a whole, damage, growth, and what is written when."""

import asyncio
import logging
import threading
from datetime import UTC, datetime

import pytest

from kubesim import changelog
from kubesim.changelog import ChangeLog, ChangeLogError, Changes, Saver
from kubesim.clock import RealClock
from kubesim.cluster import Cluster, ClusterSpec
from kubesim.pki import CertificateAuthority
from kubesim.saved import key

AT = datetime(2026, 1, 5, 9, tzinfo=UTC)


@pytest.fixture
def file(tmp_path):
    return ChangeLog(tmp_path / "c")


def again(file):
    return ChangeLog(file.path.parent).load()


def test_the_newest_value_of_each_key_is_read_back(file):
    assert file.load() is None
    file.append({b"a": b"1", b"b": b"1"}, AT)
    file.append({b"a": b"2", b"c": b"1"}, AT)
    file.append({b"b": b""}, AT)
    assert again(file) == {b"a": b"2", b"c": b"1"}
    assert file.path.stat().st_mode & 0o777 == 0o600


def test_a_key_may_hold_any_character(file):
    name = key("object", "roles", "a\tb\nc", "ü")
    file.append({name: b"1"}, AT)
    assert again(file) == {name: b"1"}


@pytest.mark.parametrize("cut", range(1, 100, 7))
def test_a_batch_that_was_cut_off_does_not_count_and_is_written_over(file, cut):
    file.append({b"a": b"1"}, AT)
    file.append({b"a": b"2", b"b": b"2" * 50}, AT)
    whole = file.path.read_bytes()
    file.path.write_bytes(whole[:-cut])
    after = ChangeLog(file.path.parent)
    assert after.load() == {b"a": b"1"}
    after.append({b"c": b"3"}, AT)
    assert again(file) == {b"a": b"1", b"c": b"3"}


def test_what_follows_a_damaged_batch_is_left_out_and_that_is_reported(file, caplog):
    for value in (b"1", b"2", b"3"):
        file.append({b"a": value * 20}, AT)
    damaged = file.path.read_bytes().replace(b"2" * 20, b"x" * 20)
    file.path.write_bytes(damaged)
    with caplog.at_level(logging.WARNING):
        assert again(file) == {b"a": b"1" * 20}
    assert "a checksum differs; what was changed after that is left out" in caplog.text


@pytest.fixture
def rewritten(file, monkeypatch):
    monkeypatch.setattr(changelog, "SLACK_BYTES", 100)
    for value in range(40):
        file.append({b"a": b"%d" % value, b"b%d" % (value % 3): b"x" * 20}, AT)
    assert file.previous.exists()
    return file


def test_a_file_that_holds_much_that_is_past_is_written_anew(rewritten):
    assert rewritten.path.stat().st_size < 1000
    assert again(rewritten) == {b"a": b"39"} | {b"b%d" % number: b"x" * 20 for number in range(3)}


@pytest.mark.parametrize(
    "damage", [b"", b"{}", b"not json\n", b'{"format":2,"size":3,"crc32":0}\ntwo', b'{"format":9}\n']
)
def test_a_file_that_is_damaged_from_its_start_is_kept_and_the_one_before_taken(rewritten, caplog, damage):
    rewritten.path.write_bytes(damage)
    with caplog.at_level(logging.WARNING):
        state = again(rewritten)
    assert int(state[b"a"]) >= 30
    assert "going back to" in caplog.text
    assert rewritten.path.with_name("changes.damaged.log").read_bytes() == damage
    assert again(rewritten) == state


def test_two_damaged_files_are_an_error_that_says_what_to_do(rewritten):
    rewritten.path.write_bytes(b"x")
    rewritten.previous.write_bytes(b"x")
    with pytest.raises(ChangeLogError, match="remove the folder to begin with an empty cluster"):
        again(rewritten)


def test_a_folder_of_an_older_version_is_not_taken_for_an_empty_one(tmp_path):
    (tmp_path / "snapshot.json").touch()
    with pytest.raises(ChangeLogError, match="written by an older kubesim"):
        ChangeLog(tmp_path).load()


async def test_changes_are_written_soon_after_the_first_and_nothing_when_nothing_changes(file, monkeypatch):
    monkeypatch.setattr(changelog, "DELAY_S", 0.01)
    written, wrote = [], threading.Event()
    monkeypatch.setattr(file, "append", lambda changes, at: (written.append(changes), wrote.set()))
    changes = Changes()
    saver = Saver(file, changes, RealClock())
    await saver.start()
    changes.note(b"a", b"1")
    changes.note(b"a", b"2")
    assert written == []
    await asyncio.to_thread(wrote.wait, 5)
    await saver.stop()
    assert written == [{b"a": b"2"}]


async def test_what_changes_during_the_first_writing_is_written_too(file, monkeypatch):
    monkeypatch.setattr(changelog, "DELAY_S", 0.01)
    changes, wrote = Changes(), threading.Event()
    append = file.append

    def slow(taken, at):
        if b"a" in taken:
            asyncio.run_coroutine_threadsafe(noted(), loop).result(30)
        append(taken, at)
        if b"b" in taken:
            wrote.set()

    async def noted():
        changes.note(b"b", b"1")

    loop = asyncio.get_running_loop()
    monkeypatch.setattr(file, "append", slow)
    changes.note(b"a", b"1")
    saver = Saver(file, changes, RealClock())
    await saver.start()
    assert await asyncio.to_thread(wrote.wait, 5)
    await saver.stop()


async def test_what_a_full_disk_refused_is_written_later(file, monkeypatch, caplog):
    monkeypatch.setattr(changelog, "DELAY_S", 0.001)
    monkeypatch.setattr(changelog, "RETRY_S", 0.001)
    append, done = file.append, threading.Event()
    failures = [OSError(28, "No space left on device")] * 2

    def full(changes, at):
        if failures:
            raise failures.pop()
        append(changes, at)
        done.set()

    monkeypatch.setattr(file, "append", full)
    changes = Changes()
    saver = Saver(file, changes, RealClock())
    await saver.start()
    changes.note(b"a", b"1")
    changes.note(b"b", b"1")
    await asyncio.to_thread(done.wait, 5)
    await saver.stop()
    assert again(file) == {b"a": b"1", b"b": b"1"}
    assert "free some space" in caplog.text


async def test_a_cluster_comes_back_with_its_objects_token_and_users(file):
    clock = RealClock()
    authority = CertificateAuthority.create(clock.now())
    first = await Cluster.create(
        ClusterSpec("a", clock.now(), 1, 8),
        clock,
        "https://127.0.0.1:1",
        authority,
        keep=True,
    )
    saver = Saver(file, first.changes, clock)
    await saver.start()
    maps = first.operations.registry.by_resource("configmaps")
    for name in ("kept", "gone"):
        first.operations.create(maps, "default", {"metadata": {"name": name}, "data": {"a": "b"}})
    first.operations.delete(maps, "default", "gone")
    version = first.store.resource_version
    await first.stop()
    await saver.stop()

    second = await Cluster.restore(again(file), clock, "https://127.0.0.1:1", authority)
    try:
        assert second.operations.get(maps, "default", "kept")["data"] == {"a": "b"}
        assert second.store.get(maps, "default", "gone") is None
        assert second.admin_kubeconfig() == first.admin_kubeconfig()
        assert second.store.resource_version > version
    finally:
        await second.stop()


@pytest.mark.parametrize(
    "head",
    [
        b'{"format":2,"at":"2026-01-05T09:00:00Z","size":99999999999999999999,"crc32":1}',
        b'{"format":2,"at":"2026-01-05T09:00:00Z","size":-1,"crc32":0}',
        b'{"format":2,"at":"2026-01-05T09:00:00Z","size":0,"crc32":0}',
        b"\0" * 5000,
        b"[" * 100_000,
    ],
)
def test_a_file_that_somebody_else_wrote_is_refused_and_no_empty_cluster_takes_its_place(file, head):
    file.path.parent.mkdir()
    file.path.write_bytes(head + b"\n")
    with pytest.raises(ChangeLogError, match="remove the folder to begin with an empty cluster"):
        file.load()


@pytest.mark.parametrize(
    "state",
    [
        {},
        {b"7": b"8"},
        {b'["cluster"]': b'{"spec":{"name":"x"},"secrets":{}}'},
        {b'["cluster"]': b"[]"},
        {b'["version"]': b'"x"'},
        {b'["object","pods","a","b"]': b"7"},
    ],
)
async def test_what_is_no_cluster_is_refused_in_a_sentence(state):
    clock = RealClock()
    with pytest.raises(ChangeLogError, match="no cluster that this program can read"):
        await Cluster.restore(state, clock, "https://127.0.0.1:1", CertificateAuthority.create(clock.now()))
