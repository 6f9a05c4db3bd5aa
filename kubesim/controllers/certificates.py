"""CertificateSigningRequests: kubelets' own are approved, and what is approved is signed."""

from __future__ import annotations

from kubesim.auth.certificates import SIGNERS, Certifier, wrong_for_signer
from kubesim.controllers.base import Context, Keeper
from kubesim.errors import Obj
from kubesim.times import stamp


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
