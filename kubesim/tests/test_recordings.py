"""A cluster's past: listed, shown as it was at a moment, and gone on from."""

import asyncio
from datetime import timedelta

import pytest

from kubesim import recordings
from kubesim.changelog import ChangeLog, ChangeLogError, Saver
from kubesim.clock import ManualClock, RealClock, StoppedClock, settle
from kubesim.cluster import Cluster, ClusterSpec
from kubesim.pki import CertificateAuthority
from kubesim.serve import Address, ServeError, single
from kubesim.tests.live import session, trust_of

ADDRESS = Address("127.0.0.1", 0, "")
MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
async def kept(tmp_path):
    """The folder of a cluster that had a config map which was changed and then deleted, and the moments between."""
    data, moments, clock = tmp_path / "data", {}, ManualClock()
    (data / "cluster" / "history").mkdir(parents=True)
    authority = CertificateAuthority.at(data, RealClock().now())
    cluster = await Cluster.create(ClusterSpec("a", clock.now(), nodes=1), clock, "https://a", authority, keep=True)
    saver = Saver(ChangeLog(data / "cluster"), cluster.changes, clock)
    client = cluster._client("somebody")

    async def passes(name):
        await clock.advance(5)
        await saver.save()
        moments[name] = clock.now()

    await passes("empty")
    made = await client.create("configmaps", {"metadata": {"name": "m"}, "data": {"n": "1"}}, namespace="default")
    spec = {"containers": [{"name": "c", "image": "nginx"}]}
    await client.create("pods", {"metadata": {"name": "p"}, "spec": spec}, namespace="default")
    await passes("one")
    await client.update("configmaps", {**made, "data": {"n": "2"}})
    await passes("two")
    await client.delete("configmaps", "m", "default")
    await passes("gone")
    await cluster.stop()
    await saver.stop()
    return data, moments


async def names(data, moment):
    async with recordings.recording(data, moment, ADDRESS) as cluster:
        found = cluster.store.list(cluster.operations.registry.by_resource("configmaps"), "default")
        return {
            obj["metadata"]["name"]: obj.get("data", {}).get("n") for obj in found if obj["metadata"]["name"] == "m"
        }


async def test_a_recording_shows_every_moment_as_it_was(kept):
    data, moments = kept
    seen = {name: await names(data, moment) for name, moment in moments.items()}
    assert seen == {"empty": {}, "one": {"m": "1"}, "two": {"m": "2"}, "gone": {}}


async def test_a_recording_can_be_read_and_nothing_else(kept):
    data, moments = kept
    async with recordings.recording(data, moments["one"], ADDRESS) as cluster:
        trust = trust_of(cluster.admin_kubeconfig())
        async with session(cluster.server, trust, cluster._keys.admin_token) as client:
            async with client.get(f"{MAPS}/m") as response:
                assert (response.status, (await response.json())["data"]) == (200, {"n": "1"})
            refused = [
                client.post(MAPS, json={"metadata": {"name": "x"}}),
                client.delete(f"{MAPS}/m"),
                client.patch(f"{MAPS}/m", json={}, headers={"Content-Type": "application/merge-patch+json"}),
                client.get("/api/v1/namespaces/default/pods/p/exec?command=ls"),
            ]
            for request in refused:
                async with request as response:
                    body = await response.json()
                    assert (response.status, body["reason"]) == (403, "Forbidden")
                    assert "this is a recording of" in body["message"]
            review = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
            url = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
            async with client.post(url, json=review) as response:
                assert (await response.json())["status"]["allowed"]


async def test_time_stands_still_in_a_recording(kept):
    data, moments = kept
    async with recordings.recording(data, moments["one"], ADDRESS) as cluster:
        version = cluster.store.resource_version
        await settle()
        assert cluster.clock.now() == moments["one"]
        assert cluster.store.resource_version == version


async def test_a_fork_goes_on_from_a_moment_with_tokens_of_its_own(kept, tmp_path):
    data, moments = kept
    recordings.fork(data, moments["one"], tmp_path / "fork")
    clock = RealClock()
    async with single(ClusterSpec("ignored", clock.now()), ADDRESS, clock, tmp_path / "fork") as cluster:
        client = cluster._client("somebody")
        made = await client.get("configmaps", "m", "default")
        assert made["data"] == {"n": "1"}
        await client.update("configmaps", {**made, "data": {"n": "3"}})
        own = cluster._keys.admin_token
    async with recordings.recording(data, None, ADDRESS) as cluster:
        assert cluster._keys.admin_token != own
    assert await names(data, moments["two"]) == {"m": "2"}


def test_a_fork_takes_no_folder_that_holds_something(tmp_path):
    (tmp_path / "note").touch()
    with pytest.raises(ServeError, match="holds other things; name an empty or a new folder with --to"):
        recordings.fork(tmp_path, None, tmp_path)


async def test_what_is_written_anew_stays_in_the_history(tmp_path, monkeypatch):
    monkeypatch.setattr("kubesim.changelog.SLACK_BYTES", 100)
    (tmp_path / "history").mkdir()
    clock, file = ManualClock(), ChangeLog(tmp_path)
    for number in range(20):
        await clock.advance(1)
        file.append({b'["object","pods","default","p"]': b'"%s"' % (b"%03d" % number * 30)}, clock.now())
    history = recordings.History(tmp_path)
    assert len(history.files()) > 2
    for number in (0, 7, 19):
        (value,) = history.at(clock.now() - timedelta(seconds=19 - number)).values()
        assert value == b'"%s"' % (b"%03d" % number * 30)
    assert history.span().batches == 20


def test_a_moment_before_the_first_is_refused_with_the_first(tmp_path):
    clock = ManualClock()
    ChangeLog(tmp_path).append({b'["version"]': b"1"}, clock.now())
    with pytest.raises(
        ChangeLogError, match="the history begins at 2026-01-05T09:00:00.000000Z; name a later moment"
    ):
        recordings.History(tmp_path).at(clock.now() - timedelta(seconds=1))


async def test_the_list_names_what_changed_when(kept):
    data, _ = kept
    lines = [*recordings.report(data, each=True)]
    assert any("configmaps default/m (deleted)" in line for line in lines)
    (whole,) = recordings.report(data, each=False)
    assert f"{len(lines)} times something was written" in whole


async def test_no_time_passes_on_a_stopped_clock():
    clock = StoppedClock(ManualClock().now())
    clock.call_later(0, pytest.fail)
    await clock.sleep(0)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await clock.sleep(1)
