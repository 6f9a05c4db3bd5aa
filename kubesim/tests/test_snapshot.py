import logging

import pytest

from kubesim.clock import RealClock
from kubesim.cluster import Cluster, ClusterSpec
from kubesim.snapshot import SnapshotError, SnapshotFile, Snapshotter


def test_it_returns_the_newest_and_keeps_the_one_before(tmp_path):
    file = SnapshotFile(tmp_path / "c")
    assert file.load() is None
    file.save(b"one")
    file.save(b"two")
    assert file.load() == b"two"
    assert file.current.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "damage", [b"", b"{}", b"not json\n", b'{"format":1,"size":3,"sha256":"0"}\ntwo', b'{"format":9}\n']
)
def test_a_damaged_snapshot_is_reported_and_the_previous_taken(tmp_path, caplog, damage):
    file = SnapshotFile(tmp_path)
    file.save(b"one")
    file.save(b"two")
    file.current.write_bytes(damage)
    with caplog.at_level(logging.WARNING):
        assert file.load() == b"one"
    assert "going back to" in caplog.text


def test_two_damaged_snapshots_are_an_error_that_says_what_to_do(tmp_path):
    file = SnapshotFile(tmp_path)
    file.save(b"one")
    file.current.write_bytes(b"x")
    with pytest.raises(SnapshotError, match="remove the folder to begin with an empty cluster"):
        file.load()


async def test_it_writes_only_what_has_changed(tmp_path):
    file, revision, dumps = SnapshotFile(tmp_path), [1], []
    snapshotter = Snapshotter(file, lambda: dumps.append(revision[0]) or b"x", lambda: revision[0])
    await snapshotter.save()
    await snapshotter.save()
    revision[0] = 2
    await snapshotter.stop()
    assert dumps == [1, 2]


async def test_a_cluster_comes_back_with_its_objects_token_and_users():
    clock = RealClock()
    first = await Cluster.create(ClusterSpec("a", clock.now(), 1, 8), clock, "https://127.0.0.1:1", b"CA")
    maps = first.operations.registry.by_resource("configmaps")
    first.operations.create(maps, "default", {"metadata": {"name": "kept"}, "data": {"a": "b"}})
    first.activity.note("somebody")
    version = first.store.resource_version
    await first.stop()

    second = await Cluster.restore(first.dump(), clock, "https://127.0.0.1:1", b"CA")
    try:
        assert second.operations.get(maps, "default", "kept")["data"] == {"a": "b"}
        assert second.admin_kubeconfig() == first.admin_kubeconfig()
        assert second.activity.report()["somebody"]["requests"] == 1
        assert second.store.resource_version > version
    finally:
        await second.stop()
