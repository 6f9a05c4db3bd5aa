"""What somebody looks at who doubts that a cluster is real: every text and name was read from a real one."""

from __future__ import annotations

import orjson
import pytest

from kubesim.tests.live import serving


async def read(live, path):
    async with live.client() as client, client.get(path) as answer:
        return await answer.read()


SYSTEM = "/api/v1/namespaces/kube-system/configmaps/"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
FLOWS = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations/exempt"


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("unmasking")) as found:
        yield found


@pytest.mark.parametrize("path", [f"{SYSTEM}kube-root-ca.crt", SYSTEM.rstrip("/"), "/api/v1"])
async def test_every_answer_ends_its_line(live, path):
    assert (await read(live, path)).endswith(b"}\n")


async def test_the_programs_of_the_control_plane_hold_their_leases(live):
    leases = {each["metadata"]["name"]: each for each in orjson.loads(await read(live, LEASES))["items"]}
    server, manager, scheduler = leases
    assert server.startswith("apiserver-")
    assert (manager, scheduler) == ("kube-controller-manager", "kube-scheduler")
    assert leases[manager]["spec"]["leaseDurationSeconds"] == 15
    assert leases[server]["metadata"]["labels"]["apiserver.kubernetes.io/identity"] == "kube-apiserver"


async def test_the_server_says_whose_certificates_it_takes_and_since_when_it_follows_tokens(live):
    found = orjson.loads(await read(live, f"{SYSTEM}extension-apiserver-authentication"))["data"]
    assert found["requestheader-username-headers"] == '["X-Remote-User"]'
    assert found["requestheader-client-ca-file"].startswith("-----BEGIN CERTIFICATE-----")
    tracking = await read(live, f"{SYSTEM}kube-apiserver-legacy-service-account-token-tracking")
    assert list(orjson.loads(tracking)["data"]) == ["since"]


async def test_the_first_objects_were_made_by_whom_upstream_says(live):
    async def manager(path):
        return orjson.loads(await read(live, path))["metadata"]["managedFields"][0]["manager"]

    assert await manager(f"{SYSTEM}kube-root-ca.crt") == "kube-controller-manager"
    assert await manager(FLOWS) == "api-priority-and-fairness-config-producer-v1"
