"""Secrets of type service-account-token: filled for their account, good as a credential, and gone with it."""

import base64
import json

import pytest

from kubesim.auth.authn import Authenticator
from kubesim.auth.tokens import InvalidToken
from kubesim.cluster import StorePolicies
from kubesim.controllers.base import Context
from kubesim.controllers.tokens import TokenController
from kubesim.informer import Informers
from kubesim.tests.world import SIGNER, world

ISSUERS = ["https://kubernetes.default.svc.cluster.local"]


def secret(account="builder"):
    notes = {"kubernetes.io/service-account.name": account}
    meta = {"name": "builder-token", "annotations": notes}
    return {"metadata": meta, "type": "kubernetes.io/service-account-token"}


async def filled(w):
    await w.create("serviceaccounts", {"metadata": {"name": "builder"}})
    await w.create("secrets", secret())
    await w.tick(1)
    return await w.client.get("secrets", "builder-token", "default")


async def test_a_secret_is_given_a_token_the_namespace_and_the_clusters_ca():
    async with world(count=0) as w:
        made = await filled(w)
        account = await w.client.get("serviceaccounts", "builder", "default")
        assert made["metadata"]["annotations"]["kubernetes.io/service-account.uid"] == account["metadata"]["uid"]
        data = {key: base64.b64decode(text).decode() for key, text in made["data"].items()}
        assert (data["ca.crt"], data["namespace"]) == ("the authority", "default")
        payload = data["token"].split(".")[1]
        assert json.loads(base64.urlsafe_b64decode(payload + "==")) == {
            "iss": "kubernetes/serviceaccount",
            "kubernetes.io/serviceaccount/namespace": "default",
            "kubernetes.io/serviceaccount/secret.name": "builder-token",
            "kubernetes.io/serviceaccount/service-account.name": "builder",
            "kubernetes.io/serviceaccount/service-account.uid": account["metadata"]["uid"],
            "sub": "system:serviceaccount:default:builder",
        }


async def test_the_token_is_good_while_it_lies_in_the_secret():
    async with world(count=0) as w:
        policies = StorePolicies(w.store, w.client.operations.registry)
        known = Authenticator(SIGNER, "admin", policies)
        token = base64.b64decode((await filled(w))["data"]["token"]).decode()
        user, audiences = known.identified(token, w.clock.now(), ISSUERS)
        assert (user.name, audiences) == ("system:serviceaccount:default:builder", ISSUERS)
        with pytest.raises(InvalidToken, match="invalid for the target audiences"):
            known.identified(token, w.clock.now(), ["vault"])
        await w.client.patch("secrets", "builder-token", "default", {"data": {"token": "eA=="}})
        with pytest.raises(InvalidToken, match="does not match server's copy"):
            known.identified(token, w.clock.now(), ISSUERS)
        await w.client.delete("secrets", "builder-token", "default")
        with pytest.raises(InvalidToken, match="has been invalidated"):
            known.identified(token, w.clock.now(), ISSUERS)


async def test_a_secret_goes_with_its_account_and_is_not_kept_for_one_that_is_not_there():
    async with world(count=0) as w:
        await filled(w)
        await w.client.delete("serviceaccounts", "builder", "default")
        await w.tick(1)
        assert [obj["metadata"]["name"] for obj in (await w.client.list("secrets")).items] == []
        await w.create("secrets", secret("nobody"))
        await w.tick(1)
        assert (await w.client.list("secrets")).items == []


async def test_an_opaque_secret_is_left_alone():
    async with world(count=0) as w:
        await w.create("secrets", {"metadata": {"name": "plain"}, "type": "Opaque"})
        await w.tick(1)
        assert "data" not in await w.client.get("secrets", "plain", "default")


async def test_a_secret_stays_whose_account_the_controllers_cache_has_not_heard_of():
    async with world(count=0) as w:
        keeper = TokenController(Context(w.client, w.clock, Informers(w.client, w.clock)), SIGNER, "")
        await w.create("serviceaccounts", {"metadata": {"name": "late"}})
        await w.create("secrets", secret("late"))
        made = await w.client.get("secrets", "builder-token", "default")
        await keeper.look_after(made)
        assert (await w.client.get("secrets", "builder-token", "default"))["data"]["token"]
