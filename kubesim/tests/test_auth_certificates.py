"""Certificate requests: who asked, what is approved by itself, what is signed."""

from __future__ import annotations

import base64

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from kubesim.tests.examples import certificate_request
from kubesim.tests.live import serving

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
