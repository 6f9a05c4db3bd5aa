"""Certificate requests: who asked, what is approved by itself, what is signed."""

from __future__ import annotations

import base64

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kubesim.auth.certificates import CLIENT, Certifier
from kubesim.clock import ManualClock
from kubesim.pki import CertificateAuthority, _key_pem, name_of
from kubesim.tests.examples import certificate_request
from kubesim.tests.live import serving, session

PATH = "/apis/certificates.k8s.io/v1/certificatesigningrequests"


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("live"), nodes=0) as live:
        yield live


async def ask(client, name, signer, *names):
    spec = {
        "request": certificate_request(*names),
        "signerName": signer,
        "usages": ["digital signature", "client auth"],
    }
    async with client.post(PATH, json={"metadata": {"name": name}, "spec": spec}) as response:
        assert response.status == 201
        return await response.json()


async def read(client, name):
    async with client.get(f"{PATH}/{name}") as response:
        return await response.json()


async def test_a_kubelets_request_is_approved_and_signed(live):
    async with live.client() as client:
        made = await ask(client, "node", "kubernetes.io/kube-apiserver-client-kubelet", "system:node:n1")
        assert made["spec"]["username"] == "kubernetes-admin"
        found = await read(client, "node")
    (condition,) = found["status"]["conditions"]
    assert condition["message"] == "Auto approving kubelet client certificate after SubjectAccessReview."
    signed = x509.load_pem_x509_certificate(base64.b64decode(found["status"]["certificate"]))
    assert signed.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == "system:node:n1"


async def test_any_other_request_waits_for_a_person_who_may_approve(live):
    async with live.client() as client:
        await ask(client, "user", "kubernetes.io/kube-apiserver-client", "ada", "dev")
        found = await read(client, "user")
        assert found["status"] == {}
        approved = {"type": "Approved", "status": "True", "reason": "Mine", "message": "Yes."}
        changed = {**found, "spec": {"signerName": "x/y"}, "status": {"conditions": [approved]}}
        rules = [{"apiGroups": ["certificates.k8s.io"], "resources": ["*"], "verbs": ["update"]}]
        role = {"metadata": {"name": "updates-requests"}, "rules": rules}
        await client.post("/apis/rbac.authorization.k8s.io/v1/clusterroles", json=role)
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "updates-requests"}
        subjects = [{"kind": "User", "name": "bob"}]
        binding = {"metadata": {"name": "updates-requests"}, "roleRef": reference, "subjects": subjects}
        await client.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", json=binding)
        as_bob = {"Impersonate-User": "bob"}
        async with client.put(f"{PATH}/user/approval", json=changed, headers=as_bob) as response:
            answer = await response.json()
            assert response.status == 403
        assert answer["message"].endswith(
            'user not permitted to approve requests with signerName "kubernetes.io/kube-apiserver-client"'
        )
        async with client.put(f"{PATH}/user/approval", json=changed) as response:
            answer = await response.json()
        assert answer["status"]["conditions"][0]["lastUpdateTime"]
        assert answer["spec"] == found["spec"]
        assert (await read(client, "user"))["status"]["certificate"]


async def approved(client, name):
    """Approve a request and return its certificate, PEM."""
    found = await read(client, name)
    condition = {"type": "Approved", "status": "True", "reason": "Mine", "message": "Yes."}
    async with client.put(
        f"{PATH}/{name}/approval", json={**found, "status": {"conditions": [condition]}}
    ) as response:
        assert response.status == 200
    return base64.b64decode((await read(client, name))["status"]["certificate"])


async def test_who_has_an_approved_certificate_logs_in_with_it(live, tmp_path):
    key = ec.generate_private_key(ec.SECP256R1())
    request = x509.CertificateSigningRequestBuilder().subject_name(name_of("ada", ["dev"])).sign(key, hashes.SHA256())
    pem = request.public_bytes(serialization.Encoding.PEM)
    spec = {"request": base64.b64encode(pem).decode(), "signerName": CLIENT, "usages": ["client auth"]}
    async with live.client() as client:
        await client.post(PATH, json={"metadata": {"name": "ada"}, "spec": {**spec, "expirationSeconds": 3600}})
        certificate = await approved(client, "ada")
    path = tmp_path / "ada.pem"
    path.write_bytes(_key_pem(key) + certificate)
    context = live.trust()
    context.load_cert_chain(path)
    async with (
        session(live.url, context, "") as client,
        client.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", json={}) as response,
    ):
        user = (await response.json())["status"]["userInfo"]
    assert (user["username"], user["groups"]) == ("ada", ["dev", "system:authenticated"])


async def test_nobody_asks_to_be_a_master_of_the_cluster(live):
    spec = {"request": certificate_request("eve", "system:masters"), "signerName": CLIENT, "usages": ["client auth"]}
    async with (
        live.client() as client,
        client.post(PATH, json={"metadata": {"name": "eve"}, "spec": spec}) as response,
    ):
        assert response.status == 403
        assert (await response.json())["message"] == (
            'certificatesigningrequests.certificates.k8s.io "eve" is forbidden: use of '
            "kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed"
        )


def test_where_clusters_share_an_authority_a_request_does_not_choose_its_cluster():
    now = ManualClock().now()
    authority = CertificateAuthority.create(now)
    certifier = Certifier(authority.sign, None, "https://h/clusters/a")
    names = [x509.UniformResourceIdentifier("https://h/clusters/b"), x509.DNSName("ada.example.com")]
    request = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(name_of("ada"))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    )
    encoded = base64.b64encode(request.public_bytes(serialization.Encoding.PEM)).decode()
    signed = certifier.sign({"spec": {"request": encoded, "signerName": CLIENT}}, now)
    found = x509.load_pem_x509_certificate(base64.b64decode(signed))
    held = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert held.get_values_for_type(x509.UniformResourceIdentifier) == ["https://h/clusters/a"]
    assert held.get_values_for_type(x509.DNSName) == ["ada.example.com"]
