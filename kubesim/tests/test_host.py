"""The host: control API, routing to clusters, deadlines, restarts."""

import asyncio
import base64
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from kubesim.api.durations import parse_time
from kubesim.auth.certificates import CLIENT
from kubesim.changelog import ChangeLog
from kubesim.clock import RealClock
from kubesim.cluster import Cluster, ClusterSpec
from kubesim.pki import CertificateAuthority, _key_pem, name_of
from kubesim.saved import key
from kubesim.tests import hosts
from kubesim.tests.hosts import make, token_of, until
from kubesim.tests.live import session, trust_of
from kubesim.times import micro

MAX_PRIVATE_MB = 20
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
MAPS = "/api/v1/namespaces/default/configmaps"
UNAUTHORIZED = {
    "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
    "message": "Unauthorized", "reason": "Unauthorized", "code": 401,
}  # fmt: skip


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    """A host as users have it, which takes images of the usual clusters meanwhile."""
    with hosts.running(tmp_path_factory.mktemp("host"), defect="") as host:
        yield host


async def names(client):
    async with client.get("/control/clusters") as response:
        return [found["name"] for found in (await response.json())["clusters"]]


async def test_making_a_cluster_twice_gives_the_same_answer(host):
    async with host.control() as client:
        first = await make(client, name="twice")
        second = await make(client, name="twice")
        async with client.get("/control/health") as response:
            assert (await response.json())["status"] == "ok"
    assert (first[0], second[0]) == (201, 200)
    assert first[1] == second[1]
    assert first[1]["server"] == host.url
    assert (host.folder / "ca.key").stat().st_mode & 0o777 == 0o600
    assert (host.folder / "control-token").stat().st_mode & 0o777 == 0o600


async def test_the_token_tells_the_cluster_and_opens_no_other_nor_the_control_api(host):
    async with host.control() as client:
        made = {name: (await make(client, name=name))[1] for name in ("one", "two")}
    for name, token in {name: token_of(found) for name, found in made.items()}.items():
        async with host.client(token) as user:
            async with user.post(MAPS, json={"metadata": {"name": f"of-{name}"}}) as response:
                assert response.status == 201
            async with user.get("/control/clusters") as response:
                assert response.status == 404
        async with host.client(token) as user, user.get("/clusters/two/api/v1/nodes") as response:
            assert response.status == (200 if name == "two" else 401)
    async with host.client(token_of(made["two"])) as user, user.get(MAPS) as response:
        found = {item["metadata"]["name"] for item in (await response.json())["items"]}
    assert found == {"of-two", "kube-root-ca.crt"}


async def test_an_account_is_found_by_its_tokens_issuer_and_by_a_browsers_websocket_protocol(host):
    async with hosts.cluster(host, "issued") as admin:
        async with admin.post("/api/v1/namespaces/default/serviceaccounts/default/token", json={}) as response:
            token = (await response.json())["status"]["token"]
        async with admin.get("/.well-known/openid-configuration") as response:
            assert (await response.json())["issuer"].endswith("/clusters/issued")
        async with host.client(token) as account, account.get("/api/v1/nodes") as response:
            assert "system:serviceaccount:default:default" in (await response.json())["message"]
        protocol = "base64url.bearer.authorization.k8s.io." + _base64url(token)
        headers = {"Sec-WebSocket-Protocol": protocol}
        async with host.client() as browser, browser.get("/api/v1/nodes", headers=headers) as response:
            assert response.status in (401, 403)
            assert response.headers.get("Audit-Id"), "the cluster itself answers"


def _base64url(text):
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


@pytest.mark.parametrize(
    "headers",
    [{}, {"Authorization": "Bearer a.b.c"}, {"Authorization": "Basic eA=="}, {"Authorization": "Bearer x"}],
    ids=["none", "no token", "basic", "opaque"],
)
@pytest.mark.parametrize("path", ["/api", "/control/clusters", "/control", "/clusters/none/api", "/"])
async def test_strangers_are_answered_as_the_api_server_answers_them(host, path, headers):
    async with host.client() as client, client.get(path, headers=headers) as response:
        assert (response.status, await response.json()) == (401, UNAUTHORIZED)
        assert "Server" not in response.headers


async def test_probes_are_for_everybody(host):
    async with host.client() as client:
        for path in ("/healthz", "/livez", "/readyz"):
            async with client.get(path) as response:
                assert (response.status, await response.text()) == (200, "ok")


@pytest.mark.parametrize("path", ["/control/clusters", "/api/v1/pods", "/clusters/odd/api/v1/pods"])
async def test_a_token_that_is_no_text_is_refused_as_any_other(host, path):
    async with hosts.cluster(host, "odd"):
        request = b"GET %b HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: Bearer \xe9\r\n\r\n"
        head, _, body = (await host.raw(request % path.encode())).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 401 Unauthorized\r\n")
    assert orjson.loads(body) == UNAUTHORIZED


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"GARBAGE\r\n\r\n", b"400 Bad Request"),
        (b"\0[]\nGET / HTTP/1.1\r\n\r\n", b"400 Bad Request"),
        (b"GET / HTTP/1.1\r\nLong: " + b"x" * 70_000, b"431 Request Header Fields Too Large"),
    ],
)
async def test_what_is_no_request_is_refused_as_gos_server_does(host, data, told):
    answer = await host.raw(data)
    assert answer.startswith(b"HTTP/1.1 " + told)
    assert answer.endswith(told)


async def test_a_dropped_cluster_is_gone_and_dropping_it_again_is_404(host):
    async with host.control() as client:
        _, made = await make(client, name="dropped")
        async with client.delete("/control/clusters/dropped") as response:
            assert response.status == 200
        async with client.delete("/control/clusters/dropped") as response:
            assert response.status == 404
    async with host.client(token_of(made)) as user, user.get("/api") as response:
        assert response.status == 401
    assert not (host.folder / "clusters" / "dropped").exists()


async def test_a_cluster_is_dropped_at_its_deadline(host):
    async with host.control() as client:
        late = micro(datetime.now(UTC) + timedelta(hours=1))
        assert (await make(client, name="short", deadline=late))[0] == 201
        soon = micro(datetime.now(UTC) + timedelta(seconds=1.5))
        response = await client.patch("/control/clusters/short", json={"deadline": soon})
        assert (response.status, (await response.json())["deadline"]) == (200, soon)

        async def dropped():
            return "short" not in await names(client)

        await until(dropped)


@pytest.mark.parametrize(
    ("body", "code", "word"),
    [
        (b"{", 400, "JSON"),
        (b"[]", 400, "JSON"),
        (b"{}", 422, "name"),
        (b'{"name":"A b"}', 422, "name"),
        (b'{"name":"../x"}', 422, "name"),
        (b'{"name":"bad","nodes":-1}', 422, "nodes"),
        (b'{"name":"bad","nodes":true}', 422, "nodes"),
        (b'{"name":"bad","gpus":"8"}', 422, "gpus"),
        (b'{"name":"bad","deadline":"soon"}', 422, "deadline"),
        (b'{"name":"bad","deadline":"2020-01-01T00:00:00Z"}', 422, "deadline"),
        (b'{"name":"bad","deadline":"9999-12-31T23:59:59-14:00"}', 422, "deadline"),
        (b'{"name":"bad","addons":["toaster"]}', 422, "addons"),
        (b'{"name":"bad","addons":[{}]}', 422, "addons"),
        (b'{"name":"bad","colour":"red"}', 422, "colour"),
        (b'{"name":"bad","nodes":[{"product":"H1000"}]}', 422, "nodes[0].product: Unsupported value"),
        (b'{"name":"bad","nodes":[{"colour":"red"}]}', 422, "nodes[0].colour: there is no such field"),
        (b'{"name":"bad","nodes":[5]}', 422, "nodes[0]"),
        (b'{"name":"bad","nodes":[{"count":600},{"count":600}]}', 422, "more than 1000"),
        (b'{"name":"bad","nodes":[],"gpus":8}', 422, "gpus: give them in each entry of nodes"),
        (b'{"name":"bad","nodes":[{"present":["not there:1"]}]}', 422, "present"),
        (b'{"name":"bad","namespaces":[5]}', 422, "namespaces[0]: a name or a mapping with one is expected"),
        (b'{"name":"bad","manifests":["/etc/passwd"]}', 422, "manifests[0]: give the object itself"),
        (b'{"name":"bad","manifests":[{"apiVersion":"v1","kind":"Node"}]}', 422, "give nodes under nodes"),
        (b'{"name":"bad","manifests":"/etc/passwd"}', 422, "manifests"),
        (b'{"name":"bad","manifests":[{"apiVersion":"v1","kind":"Oven","metadata":{"name":"a"}}]}', 422, "Oven"),
    ],
)
async def test_a_bad_request_is_answered_with_a_sentence(host, body, code, word):
    async with host.control() as client:
        async with client.post("/control/clusters", data=body) as response:
            assert response.status == code
            assert word in (await response.json())["error"]
        assert "bad" not in await names(client)


async def test_a_cluster_is_made_with_the_addons_that_are_asked_for(host):
    async with (
        hosts.cluster(host, "addons", addons=["coredns"]) as admin,
        admin.get("/api/v1/namespaces/kube-system/services/kube-dns") as response,
    ):
        assert response.status == 200


async def test_a_cluster_has_the_pools_namespaces_and_objects_that_are_asked_for(host):
    taint = {"key": "team", "value": "vision", "effect": "NoSchedule"}
    nodes = [
        {"count": 1, "product": "T4", "gpus": 2, "labels": {"tier": "small"}, "taints": [taint]},
        {"count": 2, "gpus": 0, "name": "worker", "present": ["nginx:1.28"]},
    ]
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "site", "namespace": "team"}}
    asked = {"nodes": nodes, "namespaces": ["team"], "manifests": [settings]}
    async with hosts.cluster(host, "pools", **asked) as admin:
        async with admin.get("/api/v1/nodes") as response:
            found = (await response.json())["items"]
        async with admin.get("/api/v1/namespaces/team/configmaps/site") as response:
            assert response.status == 200
        told = await hosts.shown(host, "pools")
    assert [node["metadata"]["name"] for node in found[1:]] == ["worker-0", "worker-1"]
    (small,) = (node for node in found if "tier" in node["metadata"]["labels"])
    assert small["metadata"]["name"].startswith("gke-ml-prod-t4-pool-")
    assert small["metadata"]["labels"]["nvidia.com/gpu.product"] == "Tesla-T4"
    assert small["spec"]["taints"] == [taint]
    assert (told["nodes"], told["gpus"]) == (3, 2)


async def write(admin, name):
    async with admin.post(MAPS, json={"metadata": {"name": name}}) as response:
        assert response.status == 201


async def present(admin):
    async with admin.get(MAPS) as response:
        items = (await response.json())["items"]
    return {item["metadata"]["name"] for item in items} - {"kube-root-ca.crt"}


@dataclass
class Restarted:
    """A host that was started again, and what it had told before."""

    host: hosts.RunningHost
    kept: dict
    old_kubeconfig: str
    old_issued: str


@pytest.fixture(scope="module")
def restarted(tmp_path_factory):
    """A host started again, with a cluster of before issuers, and two whose clocks were set back meanwhile."""
    folder = tmp_path_factory.mktemp("restarted")
    with hosts.running(folder) as host:
        kept = asyncio.run(three_clusters(host))
        port = host.port
    for name, told in (("late", {}), ("overdue", {"boot": "of another boot"})):
        path = folder / "clusters" / name / "host.json"
        noted = orjson.loads(path.read_bytes())
        an_hour_ahead = micro(datetime.fromisoformat(noted["deadline"]) - timedelta(hours=1))
        path.write_bytes(orjson.dumps({**noted, "deadline": an_hour_ahead, **told}))
    old = asyncio.run(old_cluster(folder))
    with hosts.running(folder, "--port", port) as host:
        yield Restarted(host, kept, *old)


async def three_clusters(host):
    async with host.control() as client:
        _, made = await make(client, name="a", deadline=micro(datetime.now(UTC) + timedelta(hours=1)))
        for name in ("late", "overdue"):
            assert (await make(client, name=name, ttlSeconds=1800))[0] == 201
    async with host.client(token_of(made)) as admin:
        await write(admin, "kept")
    return made


async def test_everything_survives_a_restart(restarted):
    async with restarted.host.client(token_of(restarted.kept)) as admin:
        assert await present(admin) == {"kept"}
    assert await hosts.shown(restarted.host, "a") == restarted.kept


async def test_a_deadline_keeps_its_length_when_the_wall_clock_is_set_before_a_restart(restarted):
    shown = await hosts.shown(restarted.host, "late")
    left = datetime.fromisoformat(shown["deadline"]) - datetime.now(UTC)
    assert timedelta(minutes=28) < left <= timedelta(minutes=30)
    async with restarted.host.control() as client:
        found = await names(client)
    assert found == ["a", "late", "old"], "another boot's clock says nothing, so one was overdue"


async def test_a_deadline_is_given_as_a_time_or_in_seconds(host):
    async with host.control() as client:
        _, made = await make(client, name="seconds", ttlSeconds=600)
        left = datetime.fromisoformat(made["deadline"]) - datetime.now(UTC)
        assert timedelta(minutes=9) < left <= timedelta(minutes=10)
        response = await client.patch("/control/clusters/seconds", json={"deadline": None})
        assert (await response.json())["deadline"] is None
        for unfit in ({"ttlSeconds": 5, "deadline": made["deadline"]}, {"ttlSeconds": "5"}, {"ttlSeconds": 0}, {}):
            response = await client.patch("/control/clusters/seconds", json=unfit)
            assert response.status == 422, unfit


async def test_a_cluster_from_before_there_were_issuers_is_found_at_its_path_with_its_old_tokens(restarted):
    host, issued = restarted.host, restarted.old_issued
    shown = await hosts.shown(host, "old")
    assert shown["server"] == f"{host.url}/clusters/old"
    assert token_of(shown) == token_of({"kubeconfig": restarted.old_kubeconfig})
    trust = trust_of(shown["kubeconfig"])
    async with session(host.url, trust, token_of(shown)) as admin:
        for _ in range(2):  # the second time on a connection that was passed on
            async with admin.get(f"/clusters/old{MAPS}") as response:
                assert response.status == 200
    async with session(host.url, trust, issued) as account, account.get(f"/clusters/old{MAPS}") as response:
        assert "system:serviceaccount:default:default" in (await response.json())["message"]
    async with session(host.url, trust, issued) as account, account.get(MAPS) as response:
        assert response.status == 403, "its key tells it, too"


async def old_cluster(folder):
    """Keep a cluster as was done before its tokens had an issuer of their own: its kubeconfig and a token."""
    clock = RealClock()
    authority = CertificateAuthority.at(folder, clock.now())
    spec = ClusterSpec("old", clock.now(), nodes=1)
    cluster = await Cluster.create(spec, clock, "https://127.0.0.1:1/clusters/old", authority, keep=True)
    account = cluster.store.get(cluster.operations.registry.by_resource("serviceaccounts"), "default", "default")
    assert account is not None, "the controllers make it at once"
    issued = cluster.signer.issue(account, [], 3600, clock.now())
    state = cluster.changes.take()
    kept = orjson.loads(state[key("cluster")])
    assert kept["secrets"].pop("issuer")
    state[key("cluster")] = orjson.dumps(kept)
    ChangeLog(folder / "clusters" / "old").append(state, clock.now())
    await cluster.stop()
    return cluster.admin_kubeconfig(), issued


async def test_on_another_address_nothing_says_localhost(tmp_path):
    with hosts.running(tmp_path, "--bind", "127.0.0.2") as host:
        async with host.control() as client:
            _, made = await make(client, name="a")
        _, writer = await asyncio.open_connection("127.0.0.2", host.port, ssl=host.trust)
        found = writer.get_extra_info("peercert")["subjectAltName"]
        writer.close()
        await writer.wait_closed()
    assert found == (("IP Address", "127.0.0.2"),)
    assert "127.0.0.1" not in str(made)
    assert "localhost" not in str(made)


async def test_many_who_make_the_same_cluster_at_once_get_the_same_one(host):
    async with host.control() as client:
        answers = await asyncio.gather(*(make(client, name="crowd") for _ in range(8)))
        assert sorted(code for code, _ in answers) == [200] * 7 + [201]
        assert len({answer["kubeconfig"] for _, answer in answers}) == 1


async def test_a_client_certificate_leads_to_the_cluster_that_signed_it(host, tmp_path):
    key = ec.generate_private_key(ec.SECP256R1())
    request = x509.CertificateSigningRequestBuilder().subject_name(name_of("ada")).sign(key, hashes.SHA256())
    pem = base64.b64encode(request.public_bytes(serialization.Encoding.PEM)).decode()
    async with hosts.cluster(host, "signed") as admin:
        asked = {"request": pem, "signerName": CLIENT, "usages": ["client auth"]}
        async with admin.post(REQUESTS, json={"metadata": {"name": "ada"}, "spec": asked}) as response:
            assert response.status == 201
            found = await response.json()
        found["status"] = {"conditions": [{"type": "Approved", "status": "True", "reason": "Mine", "message": "Yes"}]}
        async with admin.put(f"{REQUESTS}/ada/approval", json=found) as response:
            assert response.status == 200

        async def signed():
            async with admin.get(f"{REQUESTS}/ada") as response:
                return (await response.json())["status"].get("certificate")

        (tmp_path / "ada.pem").write_bytes(_key_pem(key) + base64.b64decode(await until(signed)))
        trust = host.trust
        trust.load_cert_chain(tmp_path / "ada.pem")
        async with session(host.url, trust, "") as ada, ada.get("/api/v1/nodes") as response:
            assert 'User "ada" cannot list resource' in (await response.json())["message"]


async def test_a_practice_cluster_has_a_default_storage_class(host):
    async with hosts.cluster(host, "stored") as admin:
        async with admin.get("/apis/storage.k8s.io/v1/storageclasses") as response:
            classes = (await response.json())["items"]
        claim = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
        path = "/api/v1/namespaces/default/persistentvolumeclaims"
        async with admin.post(path, json={"metadata": {"name": "data"}, **claim}) as response:
            made = await response.json()
    assert {item["metadata"]["name"] for item in classes} == {"standard-rwo", "premium-rwo", "standard"}
    assert made["spec"]["storageClassName"] == "standard-rwo"


@pytest.mark.skipif(sys.platform != "linux", reason="Linux tells what memory a process shares with no other")
async def test_a_cluster_shares_with_its_parent_all_but_20_mb_of_its_memory(host):
    async def private_kb():
        async with hosts.cluster(host, "small", nodes=3, gpus=8):
            lines = Path(f"/proc/{host.children()[-1]}/smaps_rollup").read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))

    async def small():
        return await private_kb() < MAX_PRIVATE_MB * 1024

    await until(small)  # the parent may not have made its own cluster yet, with which it shares most


def test_the_warmed_parent_has_read_what_is_otherwise_read_when_it_is_needed():
    program = "import sys; from kubesim.hosting import _read_modules as read; [*read()]; print(*sys.modules)"
    read = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert {"cel", "concurrent.futures.thread"} <= set(read.stdout.split())


def test_a_clock_that_is_set_back_by_hours_still_accepts_a_hosts_certificate(tmp_path):
    now = datetime.now(UTC)
    authority = CertificateAuthority.at(tmp_path, now)
    issued = x509.load_pem_x509_certificate(authority.issue_server(["127.0.0.1"], now).certificate)
    own = x509.load_pem_x509_certificate(authority.pem)
    assert max(issued.not_valid_before_utc, own.not_valid_before_utc) < now - timedelta(hours=2)


async def skip(client, name, **body):
    async with client.post(f"/control/clusters/{name}/skip", json=body) as response:
        return response.status, await response.json()


async def test_a_clusters_time_is_moved_on_and_its_controllers_keep_up(host):
    job = {"backoffLimit": 0, "activeDeadlineSeconds": 60, "template": {"spec": {"restartPolicy": "Never"}}}
    job["template"]["spec"]["containers"] = [{"name": "c", "image": "busybox", "command": ["sleep", "9999"]}]
    jobs = "/apis/batch/v1/namespaces/default/jobs"
    before = datetime.now(UTC)
    async with hosts.cluster(host, "moved", skips=True) as admin, host.control() as control:
        async with admin.post(jobs, json={"metadata": {"name": "long"}, "spec": job}) as response:
            assert response.status == 201
        status, told = await skip(control, "moved", seconds=90)
        async with admin.get(f"{jobs}/long") as response:
            conditions = (await response.json())["status"]["conditions"]
    assert (status, parse_time(told["now"]) - before > timedelta(seconds=90)) == (200, True)
    assert "DeadlineExceeded" in {condition["reason"] for condition in conditions}


async def test_only_clusters_that_were_made_for_it_can_be_moved_on(host):
    async with hosts.cluster(host, "usual"), host.control() as control:
        assert (await skip(control, "usual", seconds=1))[0] == 409
        assert (await skip(control, "nobody", seconds=1))[0] == 404
        for wrong in (-1, 3601, "1", True, None):
            assert (await skip(control, "usual", seconds=wrong))[0] == 422
        assert (await skip(control, "usual", seconds=1, commands="yes"))[0] == 422
        async with control.post("/control/clusters", json={"name": "bad", "skips": "yes"}) as response:
            assert (response.status, (await response.json())["error"]) == (422, "skips: give true or false.")


async def ask(client, name, what):
    async with client.post(f"/control/clusters/{name}/{what}") as response:
        return response.status


async def maps(admin):
    async with admin.get("/api/v1/namespaces/default/configmaps") as response:
        return {item["metadata"]["name"] for item in (await response.json())["items"]}


async def add_map(admin, name):
    async with admin.post("/api/v1/namespaces/default/configmaps", json={"metadata": {"name": name}}) as response:
        assert response.status == 201


async def test_a_cluster_goes_back_to_its_checkpoint_as_often_as_is_asked(host):
    async with hosts.cluster(host, "kept", skips=True) as admin, host.control() as control:
        await add_map(admin, "before")
        before = await maps(admin)
        for name in ("one", "two"):
            assert await ask(control, "kept", "checkpoint") == 200
            await add_map(admin, name)
            assert (await skip(control, "kept", seconds=600))[0] == 200
            assert await maps(admin) == before | {name}
            assert await ask(control, "kept", "rollback") == 200
            assert await maps(admin) == before
        assert await ask(control, "kept", "rollback") == 409
        assert (await skip(control, "kept", seconds=0))[1]["now"] < micro(datetime.now(UTC) + timedelta(seconds=600))
        await add_map(admin, "after")
        assert await maps(admin) == before | {"after"}


async def test_a_cluster_with_a_checkpoint_is_dropped_like_any_other(host):
    async with hosts.cluster(host, "gone", skips=True), host.control() as control:
        assert await ask(control, "gone", "checkpoint") == 200
        async with control.delete("/control/clusters/gone") as response:
            assert response.status == 200
        assert await ask(control, "gone", "rollback") == 404


async def test_only_a_cluster_whose_time_can_be_moved_on_has_checkpoints(host):
    async with hosts.cluster(host, "plain"), host.control() as control:
        assert await ask(control, "plain", "checkpoint") == 409
