"""Tokens and certificates: the controllers that vouch for somebody.

Secrets of type service-account-token are filled with a token of their account, and go with it. Of
CertificateSigningRequests kubelets' own are approved, and what is approved is signed.
"""

from __future__ import annotations

import base64

from kubesim.auth.certificates import SIGNERS, Certifier, wrong_for_signer
from kubesim.auth.tokens import IN_SECRETS, OWNER, TokenSigner
from kubesim.controllers.base import Context, Keeper, latest
from kubesim.errors import Obj, tolerating
from kubesim.times import stamp

UID = "kubernetes.io/service-account.uid"


class TokenController(Keeper):
    """Gives such a secret what is missing in it, and deletes it where its account is not there (any more)."""

    source = "tokens-controller"
    resource = "secrets"

    def __init__(self, context: Context, signer: TokenSigner, root_ca: str) -> None:
        super().__init__(context)
        self._signer = signer
        self._root_ca = root_ca
        self.accounts = self.informers["serviceaccounts"]

    def listen(self) -> None:
        """Watch secrets of the type, and accounts that go."""
        self.own.add_index("account", _account)
        self.own.add_handler(self._changed)
        self.accounts.add_handler(self._gone)

    def _changed(self, old: Obj | None, new: Obj | None) -> None:
        if new is not None and new.get("type") == IN_SECRETS:
            self.queue.add(f"{new['metadata']['namespace']}/{new['metadata']['name']}")

    def _gone(self, old: Obj | None, new: Obj | None) -> None:
        meta = latest(old, new)["metadata"]
        if new is None or old is None or old["metadata"]["uid"] != meta["uid"]:
            for secret in self.own.by("account", f"{meta['namespace']}/{meta['name']}"):
                self._changed(None, secret)

    async def look_after(self, secret: Obj) -> None:
        """Fill a secret, or delete it."""
        meta = secret["metadata"]
        notes = meta.get("annotations") or {}
        account = await self._account(meta["namespace"], notes.get(OWNER, ""))
        if account is None or notes.get(UID) not in (None, "", account["metadata"]["uid"]):
            await self.own.delete(secret)
            return
        found = secret.get("data") or {}
        wanted = {"ca.crt": self._root_ca, "namespace": meta["namespace"]}
        data = found | {key: _encoded(text) for key, text in wanted.items() if text}
        if not found.get("token"):
            data["token"] = _encoded(self._signer.issue_legacy(account, meta["name"]))
        notes = notes | {UID: account["metadata"]["uid"]}
        if data != found or notes != meta.get("annotations"):
            with tolerating(404, 409):
                await self.own.update({**secret, "metadata": {**meta, "annotations": notes}, "data": data})

    async def _account(self, namespace: str, name: str) -> Obj | None:
        """Return an account, also one that has just been made and that the cache has not heard of."""
        found = self.accounts.get(namespace, name)
        if found is None and name:
            with tolerating(404):
                return await self.client.get("serviceaccounts", name, namespace)
        return found


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _account(secret: Obj) -> list[str]:
    if secret.get("type") != IN_SECRETS:
        return []
    meta = secret["metadata"]
    return [f"{meta['namespace']}/{(meta.get('annotations') or {}).get(OWNER, '')}"]


class CertificateController(Keeper):
    """Approves and signs."""

    source = "certificate-controller"
    resource = "certificatesigningrequests.certificates.k8s.io"

    def __init__(self, context: Context, certifier: Certifier) -> None:
        super().__init__(context)
        self._certifier = certifier

    async def look_after(self, csr: Obj) -> None:
        """Take one request a step further."""
        if csr.get("status", {}).get("certificate"):
            return
        types = {condition["type"] for condition in csr.get("status", {}).get("conditions") or ()}
        if "Approved" in types and not types & {"Denied", "Failed"}:
            await self._sign(csr)
        elif not types and (message := self._certifier.approval(csr)):
            await self._add(csr, "Approved", "AutoApproved", message)

    async def _sign(self, csr: Obj) -> None:
        if csr["spec"]["signerName"] not in SIGNERS:
            return
        if wrong := wrong_for_signer(csr["spec"]):
            await self._add(csr, "Failed", "SignerValidationFailure", wrong, subresource="status")
            return
        certificate = self._certifier.sign(csr, self.clock.now())
        await self.write_status(self.own, csr, {**csr["status"], "certificate": certificate})

    async def _add(self, csr: Obj, kind: str, reason: str, message: str, subresource: str = "approval") -> None:
        now = stamp(self.clock.now())
        condition = {"type": kind, "status": "True", "reason": reason, "message": message}
        condition |= {"lastUpdateTime": now, "lastTransitionTime": now}
        status = {
            **csr.get("status", {}),
            "conditions": [*(csr.get("status", {}).get("conditions") or ()), condition],
        }
        await self.own.update({**csr, "status": status}, subresource=subresource)
