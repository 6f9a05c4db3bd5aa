"""Credentials over HTTP: tokens, impersonation, reviews, and streams that end with the right to them."""

import asyncio
import base64

import orjson
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.x509.oid import ExtendedKeyUsageOID

from kubesim.auth.authn import Authenticator
from kubesim.auth.tokens import ISSUER, TokenSigner
from kubesim.clock import RealClock
from kubesim.errors import ApiError
from kubesim.pki import name_of
from kubesim.tests.live import session

RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/training"
ACCOUNTS = "/api/v1/namespaces/training/serviceaccounts"
MAPS = "/api/v1/namespaces/training/configmaps"
REVIEWS = "/apis/authorization.k8s.io/v1"
RULE = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}
ONCALL = "system:serviceaccount:training:oncall"


@pytest.fixture
async def admin(live):
    async with live.client() as client:
        yield client


@pytest.fixture
async def token(admin):
    """A token of an account that may read the config maps of its namespace."""
    await admin.post("/api/v1/namespaces", json={"metadata": {"name": "training"}})
    await admin.post(ACCOUNTS, json={"metadata": {"name": "oncall"}})
    await admin.post(f"{RBAC}/roles", json={"metadata": {"name": "reader"}, "rules": [RULE]})
    subject = {"kind": "ServiceAccount", "name": "oncall", "namespace": "training"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"}
    binding = {"metadata": {"name": "reader"}, "roleRef": reference, "subjects": [subject]}
    await admin.post(f"{RBAC}/rolebindings", json=binding)
    async with admin.post(f"{ACCOUNTS}/oncall/token", json={"spec": {"expirationSeconds": 600}}) as response:
        assert response.status == 201
        return (await response.json())["status"]["token"]


async def test_a_token_is_its_account(live, token):
    async with live.client(token) as client:
        async with client.get(MAPS) as response:
            assert response.status == 200
        async with client.get("/api/v1/namespaces/training/secrets") as response:
            assert response.status == 403
        async with client.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", json={}) as response:
            info = (await response.json())["status"]["userInfo"]
    assert info["username"] == ONCALL
    assert "system:serviceaccounts:training" in info["groups"]


async def test_a_wrong_token_is_401_and_none_is_anonymous(live):
    async with live.client("nonsense") as client, client.get("/api/v1/nodes") as response:
        assert (response.status, (await response.json())["message"]) == (401, "Unauthorized")
    async with live.client("") as client, client.get("/api/v1/nodes") as response:
        assert response.status == 403
        assert 'User "system:anonymous" cannot list resource "nodes"' in (await response.json())["message"]


@pytest.mark.parametrize("cut", [f"{RBAC}/rolebindings/reader", f"{RBAC}/roles/reader", f"{ACCOUNTS}/oncall"])
async def test_an_open_watch_ends_when_the_right_to_it_goes(live, admin, token, cut):
    async with live.client(token) as client, client.get(MAPS, params={"watch": "1"}) as response:
        await response.content.readline()
        await admin.delete(cut)
        async with asyncio.timeout(30):
            await response.content.read()
    async with live.client(token) as client, client.get(MAPS) as response:
        assert response.status in (401, 403)


async def test_a_token_dies_with_its_account_even_when_the_name_comes_back(live, admin, token):
    await admin.delete(f"{ACCOUNTS}/oncall")
    await admin.post(ACCOUNTS, json={"metadata": {"name": "oncall"}})
    async with live.client(token) as client, client.get(MAPS) as response:
        assert response.status == 401


async def test_only_who_may_impersonate_does(live, admin, token):
    acting = {"Impersonate-User": ONCALL}
    async with admin.get("/api/v1/nodes", headers=acting) as response:
        assert f'User "{ONCALL}" cannot list resource "nodes"' in (await response.json())["message"]
    async with live.client(token) as client, client.get(MAPS, headers={"Impersonate-User": "root"}) as response:
        text = f'users "root" is forbidden: User "{ONCALL}" cannot impersonate resource "users"'
        assert text in (await response.json())["message"]


async def test_an_access_review_tells_why(live, token):
    asked = {"verb": "list", "resource": "configmaps", "namespace": "training"}
    async with live.client(token) as client:
        body = {"spec": {"resourceAttributes": asked}}
        async with client.post(f"{REVIEWS}/selfsubjectaccessreviews", json=body) as response:
            assert response.status == 201
            status = (await response.json())["status"]
    assert status["allowed"] is True
    assert status["reason"].startswith('RBAC: allowed by RoleBinding "reader/training" of Role "reader"')


async def test_a_review_must_ask_one_thing(admin):
    async with admin.post(f"{REVIEWS}/selfsubjectaccessreviews", json={"spec": {}}) as response:
        assert response.status == 422
        assert "exactly one of nonResourceAttributes or resourceAttributes" in (await response.json())["message"]


async def test_a_token_lives_at_least_ten_minutes(admin, token):
    async with admin.post(f"{ACCOUNTS}/oncall/token", json={"spec": {"expirationSeconds": 5}}) as response:
        assert response.status == 422
        assert "may not specify a duration less than 10 minutes" in (await response.json())["message"]


async def test_a_token_in_a_namespace_that_is_not_there_says_so(admin):
    async with admin.post("/api/v1/namespaces/nowhere/serviceaccounts/default/token", json={"spec": {}}) as response:
        assert (await response.json())["message"] == 'namespaces "nowhere" not found'


async def test_an_administrator_s_rules_are_told_once(admin):
    review = {"spec": {"namespace": "default"}}
    async with admin.post(f"{REVIEWS}/selfsubjectrulesreviews", json=review) as response:
        status = (await response.json())["status"]
    everything = [rule for rule in status["resourceRules"] if rule["resources"] == ["*"]]
    anywhere = [rule for rule in status["nonResourceRules"] if rule["nonResourceURLs"] == ["*"]]
    assert (len(everything), len(anywhere)) == (1, 1)


async def bound_token(admin, kind, name, **spec):
    path = f"{ACCOUNTS}/oncall/token"
    reference = {"apiVersion": "v1", "kind": kind, "name": name}
    async with admin.post(path, json={"spec": {"boundObjectRef": reference, **spec}}) as response:
        return response.status, await response.json()


async def reviewed(admin, token, *audiences):
    review = {"spec": {"token": token, "audiences": [*audiences]}}
    async with admin.post("/apis/authentication.k8s.io/v1/tokenreviews", json=review) as response:
        return (await response.json())["status"]


@pytest.mark.parametrize("kind", ["Pod", "Secret"])
async def test_a_token_ends_with_what_it_is_bound_to(live, admin, token, kind):
    objects = f"/api/v1/namespaces/training/{kind.lower()}s"
    spec = {"containers": [{"name": "a", "image": "a"}], "schedulingGates": [{"name": "example.com/wait"}]}
    await admin.post(objects, json={"metadata": {"name": "tied"}} | ({"spec": spec} if kind == "Pod" else {}))
    code, answer = await bound_token(admin, kind, "tied")
    assert code == 201
    assert answer["spec"]["boundObjectRef"]["name"] == "tied"
    held = answer["status"]["token"]
    user = (await reviewed(admin, held))["user"]
    assert user["extra"].get("authentication.kubernetes.io/pod-name") == (["tied"] if kind == "Pod" else None)
    await admin.delete(f"{objects}/tied")
    assert await reviewed(admin, held) == {
        "user": {}, "error": "[invalid bearer token, service account token has been invalidated]",
    }  # fmt: skip
    async with live.client(held) as client, client.get(MAPS) as response:
        assert response.status == 401


@pytest.mark.parametrize(
    ("kind", "code", "message"),
    [
        ("Pod", 404, 'pods "none" not found'),
        ("Node", 404, 'nodes "none" not found'),
        ("ConfigMap", 400, "cannot bind token to object of type /v1, Kind=ConfigMap"),
    ],
)
async def test_a_token_is_bound_to_nothing_that_is_not_there(admin, token, kind, code, message):
    found, answer = await bound_token(admin, kind, "none")
    assert (found, answer["message"]) == (code, message)


async def test_a_token_is_good_only_for_those_it_is_for(live, admin, token):
    async with admin.post(f"{ACCOUNTS}/oncall/token", json={"spec": {"audiences": ["x", "y"]}}) as response:
        held = (await response.json())["status"]["token"]
    async with live.client(held) as client, client.get(MAPS) as response:
        assert response.status == 401
    assert (await reviewed(admin, held, "x", "z"))["audiences"] == ["x"]
    assert (await reviewed(admin, held))["error"] == (
        f'[invalid bearer token, token audiences ["x" "y"] is invalid for the target audiences ["{ISSUER}"]]'
    )
    assert (await reviewed(admin, "nonsense"))["error"] == "invalid bearer token"


async def test_others_can_check_tokens_with_the_published_keys(admin, token):
    async with admin.get("/.well-known/openid-configuration") as response:
        found = await response.json()
    assert found["issuer"] == ISSUER
    async with admin.get("/openid/v1/jwks") as response:
        assert response.content_type == "application/jwk-set+json"
        (key,) = (await response.json(content_type=None))["keys"]
    x, y = (int.from_bytes(base64.urlsafe_b64decode(key[name] + "=")) for name in ("x", "y"))
    public = ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1()).public_key()
    signed, _, signature = token.rpartition(".")
    raw = base64.urlsafe_b64decode(signature + "==")
    numbers = encode_dss_signature(int.from_bytes(raw[:32]), int.from_bytes(raw[32:]))
    public.verify(numbers, signed.encode(), ec.ECDSA(hashes.SHA256()))
    head = orjson.loads(base64.urlsafe_b64decode(signed.split(".")[0] + "=="))
    assert head == {"alg": key["alg"], "kid": key["kid"]}


def context_of(live, folder, user, *groups, cluster=""):
    """Return a TLS context with a client certificate of the cluster's own authority."""
    names = [x509.UniformResourceIdentifier(cluster)] if cluster else []
    usage = ExtendedKeyUsageOID.CLIENT_AUTH
    issued = live.authority.issue(name_of(user, groups), usage, names, RealClock().now())
    path = folder / "client.pem"
    path.write_bytes(issued.key + issued.certificate)
    context = live.trust()
    context.load_cert_chain(path)
    return context


async def test_a_certificate_of_the_clusters_authority_names_user_and_groups(live, tmp_path):
    context = context_of(live, tmp_path, "jane", "system:masters", "dev")
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    async with session(live.url, context, "") as client:
        async with client.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", json=review) as response:
            user = (await response.json())["status"]["userInfo"]
        async with client.get("/api/v1/nodes") as response:
            assert response.status == 200
    assert user["username"] == "jane"
    assert user["groups"] == ["system:masters", "dev", "system:authenticated"]
    (serial,) = user["extra"]["authentication.kubernetes.io/credential-id"]
    assert serial.startswith("X509SERIAL=")


async def test_a_certificate_without_rights_gets_as_far_as_rbac(live, tmp_path):
    async with (
        session(live.url, context_of(live, tmp_path, "joe"), "") as client,
        client.get("/api/v1/nodes") as found,
    ):
        assert found.status == 403
        assert (await found.json())["message"].startswith(
            'nodes is forbidden: User "joe" cannot list resource "nodes"'
        )


async def test_where_clusters_share_an_authority_a_certificate_names_its_own():
    authenticator = Authenticator(TokenSigner.create(), "secret", None, "https://h/clusters/a")
    shown = {"subject": ((("commonName", "jane"),),), "serialNumber": "1"}
    now = RealClock().now()
    own = {**shown, "subjectAltName": (("URI", "https://h/clusters/a"),)}
    assert authenticator.authenticate({}, now, own).name == "jane"
    for other in (shown, {**shown, "subjectAltName": (("URI", "https://h/clusters/b"),)}):
        with pytest.raises(ApiError):
            authenticator.authenticate({}, now, other)
