"""Certificates on request: who may have one approved by itself, and the signing of those that are approved."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kubesim.api import status
from kubesim.api.options import Options
from kubesim.auth.rbac import Authorizer
from kubesim.auth.users import MASTERS, Attributes, User
from kubesim.errors import Obj
from kubesim.schema.registry import Kind

if TYPE_CHECKING:
    from kubesim.api.operations import Operations

CERTIFICATES = "certificates.k8s.io"
YEAR_S = 365 * 24 * 3600
BACKDATE = timedelta(minutes=5)
KUBELET = "kubernetes.io/kube-apiserver-client-kubelet"
CLIENT = "kubernetes.io/kube-apiserver-client"
SERVING = "kubernetes.io/kubelet-serving"
REQUESTS = f"certificatesigningrequests.{CERTIFICATES}"
VERBS = {"approval": "approve", "status": "sign"}
SIGNERS = (CLIENT, KUBELET, SERVING)
NODE_USAGES = ({"digital signature", "client auth"}, {"key encipherment", "digital signature", "client auth"})
EXTENDED = {"server auth": ExtendedKeyUsageOID.SERVER_AUTH, "client auth": ExtendedKeyUsageOID.CLIENT_AUTH}
KEY_USAGES = (
    *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement"),
    *("key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
)
SHORT = {"signing": "digital signature", "cert sign": "key cert sign"}
"""Other names of some of them in requests."""


Sign = Callable[[x509.CertificateBuilder], x509.Certificate]


class Certifier:
    """Lets the clients' authority sign for one cluster, and asks its authorizer who may do what."""

    def __init__(self, sign: Sign, authorizer: Authorizer, server: str = "") -> None:
        """``server``: the URL that client certificates must name, where clusters share an authority."""
        self._sign = sign
        self._authorizer = authorizer
        self._server = server

    def approval(self, csr: Obj) -> str:
        """Return the message with which a request is approved by itself; empty for one that waits for a person."""
        spec = csr["spec"]
        if spec["signerName"] != KUBELET or not is_node_request(spec):
            return ""
        user = User(spec.get("username", ""), tuple(spec.get("groups", ())))
        own = parsed(spec).subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == user.name
        if own and self._may(user, "selfnodeclient"):
            return "Auto approving self kubelet client certificate after SubjectAccessReview."
        if self._may(user, "nodeclient"):
            return "Auto approving kubelet client certificate after SubjectAccessReview."
        return ""

    def _may(self, user: User, subresource: str) -> bool:
        asked = Attributes("create", CERTIFICATES, "v1", "certificatesigningrequests", subresource)
        return self._authorizer.allows(user, asked)

    def check(
        self, ops: Operations, kind: Kind, old: Obj | None, new: Obj, subresource: str, options: Options
    ) -> None:
        """Raise 403 for a request to rule the cluster, and where the requester may not act for a signer."""
        if kind.resource != REQUESTS:
            return
        user, verb = options.requester, VERBS.get(subresource)
        if old is None:
            self._check_subject(kind, new)
        elif verb and user is not None and MASTERS not in user.groups and _acts(old, new):
            signer = old["spec"]["signerName"]
            names = (signer, f"{signer.partition('/')[0]}/*")
            asked = [Attributes(verb, CERTIFICATES, "v1", "signers", name=name) for name in names]
            if not any(self._authorizer.allows(user, attributes) for attributes in asked):
                why = f'user not permitted to {verb} requests with signerName "{signer}"'
                raise status.forbidden(kind, old["metadata"]["name"], why)

    def _check_subject(self, kind: Kind, csr: Obj) -> None:
        """Raise 403 for who asks to be a master of the cluster."""
        spec = csr.get("spec") or {}
        if spec.get("signerName") != CLIENT:
            return
        try:
            groups = parsed(spec).subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
        except ValueError:
            return  # what is no request is refused by its validation
        if any(group.value == MASTERS for group in groups):
            why = f"use of {CLIENT} signer with {MASTERS} group is not allowed"
            raise status.forbidden(kind, csr["metadata"].get("name", ""), why)

    def sign(self, csr: Obj, now: datetime) -> str:
        """Return the certificate of an approved request: PEM, in base64."""
        spec, request = csr["spec"], parsed(csr["spec"])
        seconds = min(spec.get("expirationSeconds") or YEAR_S, YEAR_S)
        builder = (
            x509.CertificateBuilder()
            .subject_name(request.subject)
            .public_key(request.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - BACKDATE)
            .not_valid_after(now - BACKDATE + timedelta(seconds=seconds))
        )
        usages = set(spec.get("usages", ()))
        signing = {SHORT.get(usage, usage).replace(" ", "_") for usage in usages}
        bits = {field: field in signing for field in KEY_USAGES}
        if any(bits.values()):
            builder = builder.add_extension(x509.KeyUsage(**bits), critical=True)
        if extended := [oid for name, oid in EXTENDED.items() if name in usages]:
            builder = builder.add_extension(x509.ExtendedKeyUsage(extended), critical=False)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        if names := self._names(request):
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        signed = self._sign(builder)
        return base64.b64encode(signed.public_bytes(serialization.Encoding.PEM)).decode()

    def _names(self, request: x509.CertificateSigningRequest) -> list[x509.GeneralName]:
        """Return what else a certificate's owner is called. A URI tells a cluster, so that no request chooses it."""
        try:
            asked = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except x509.ExtensionNotFound:
            asked = x509.SubjectAlternativeName([])
        own = [x509.UniformResourceIdentifier(self._server)] if self._server else []
        return own + [name for name in asked if not isinstance(name, x509.UniformResourceIdentifier)]


def _acts(old: Obj, new: Obj) -> bool:
    """Tell whether a change of status says anything that a signer answers for."""
    before, after = old.get("status") or {}, new.get("status") or {}
    return any(before.get(field) != after.get(field) for field in ("certificate", "conditions"))


def parsed(spec: Obj) -> x509.CertificateSigningRequest:
    """Return the request inside a CertificateSigningRequest. Raises ValueError where there is none."""
    return x509.load_pem_x509_csr(base64.b64decode(spec.get("request", "")))


def is_node_request(spec: Obj) -> bool:
    """Whether a request is one that a kubelet makes for its own client certificate."""
    request = parsed(spec)
    names = [found.value for found in request.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    groups = [found.value for found in request.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
    named = len(names) == 1 and str(names[0]).startswith("system:node:")
    return named and groups == ["system:nodes"] and set(spec.get("usages", ())) in NODE_USAGES


def wrong_for_signer(spec: Obj) -> str:
    """Return why a signer of the cluster does not sign a request; empty where it does."""
    usages, signer = set(spec.get("usages", ())), spec["signerName"]
    if signer == KUBELET and not is_node_request(spec):
        return "invalid request for signer"
    if signer == CLIENT and not usages <= {"client auth", "digital signature", "key encipherment"}:
        return "usages did not match"
    return ""
