"""What describe says of ingresses, network policies and certificate requests; lines with tabs, to be aligned."""

from __future__ import annotations

import base64
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from cryptography import x509
from cryptography.x509.oid import NameOID

from kubesim.shell.kubectl import describe_parts as parts
from kubesim.shell.kubectl.client import Client, KubectlError, Obj


async def ingress(client: Client, obj: Obj, now: datetime) -> str:
    """Describe an ingress with what its backends lead to."""
    metadata, spec = obj["metadata"], obj["spec"]
    given = ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []
    places = ",".join(sorted({each.get("ip") or each.get("hostname") or "" for each in given} - {""}))
    default = spec.get("defaultBackend")
    rest = await _backend(client, metadata["namespace"], default) if default else "<default>"
    out = f"Name:\t{metadata['name']}\n" + parts.labels("Labels", metadata.get("labels"))
    out += f"Namespace:\t{metadata['namespace']}\nAddress:\t{places}\n"
    out += f"Ingress Class:\t{spec.get('ingressClassName') or '<none>'}\nDefault backend:\t{rest}\n"
    out += "TLS:\n" if spec.get("tls") else ""
    for each in spec.get("tls") or []:
        name, hosts = each.get("secretName", ""), ",".join(each.get("hosts") or [])
        out += f"  {name} terminates {hosts}\n" if name else f"  SNI routes {hosts}\n"
    out += "Rules:\n  Host\tPath\tBackends\n  ----\t----\t--------\n"
    rules = [rule for rule in spec.get("rules") or [] if "http" in rule]
    for rule in rules:
        out += f"  {rule.get('host') or '*'}\t\n"
        for path in rule["http"].get("paths") or []:
            out += (
                f"    \t{path.get('path', '')} \t{await _backend(client, metadata['namespace'], path['backend'])}\n"
            )
    out += "" if rules else f"  *\t*\t{rest}\n"
    return out + parts.notes("Annotations", metadata.get("annotations"))


async def _backend(client: Client, namespace: str, backend: Obj) -> str:
    if found := backend.get("resource"):
        return f"APIGroup: {found.get('apiGroup', '<none>')}, Kind: {found.get('kind')}, Name: {found.get('name')}"
    wanted = backend.get("service") or {}
    port, name = wanted.get("port") or {}, wanted.get("name", "")
    shown = f"{name}:{port.get('number') or port.get('name', '')}"
    try:
        service = await client.request("GET", f"/api/v1/namespaces/{namespace}/services/{name}")
        query = urlencode({"labelSelector": f"kubernetes.io/service-name={name}"})
        path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices?{query}"
        slices = (await client.request("GET", path)).get("items") or []
    except KubectlError as error:
        return f"{shown} (<error: {error.message}>)"
    named = ""
    for each in service["spec"].get("ports") or []:
        same = each.get("port") == port.get("number") if port.get("number") else each.get("name") == port.get("name")
        named = each.get("name", "") if same else named
    return f"{shown} ({parts.endpoints(slices, named)})"


async def policy(client: Client, obj: Obj, now: datetime) -> str:
    """Describe a network policy."""
    metadata, spec = obj["metadata"], obj["spec"]
    when = metadata["creationTimestamp"].replace("T", " ").removesuffix("Z")
    out = f"Name:\t{metadata['name']}\nNamespace:\t{metadata['namespace']}\nCreated on:\t{when} +0000 UTC\n"
    out += parts.marks(metadata)
    whole = "<none> (Allowing the specific traffic to all pods in this namespace)"
    out += f"Spec:\n  PodSelector:     {parts.selector(spec['podSelector']) if spec.get('podSelector') else whole}\n"
    types = spec.get("policyTypes") or []
    for word, side in (("ingress", "from"), ("egress", "to")):
        if word.title() in types:
            out += f"  Allowing {word} traffic:\n{_rules(spec.get(word) or [], word, side)}"
        else:
            out += f"  Not affecting {word} traffic\n"
    return out + f"  Policy Types: {', '.join(types)}\n"


def _rules(rules: list[Obj], word: str, side: str) -> str:
    if not rules:
        return f"    <none> (Selected pods are isolated for {word} connectivity)\n"
    return "    ----------\n".join(_ports(rule) + _peers(rule.get(side) or [], side) for rule in rules)


def _ports(rule: Obj) -> str:
    out = "" if rule.get("ports") else "    To Port: <any> (traffic allowed to all ports)\n"
    for each in rule.get("ports") or []:
        port, kind = each.get("port", "<nil>"), each.get("protocol", "TCP")
        last = each.get("endPort")
        out += f"    To Port Range: {port}-{last}/{kind}\n" if last else f"    To Port: {port}/{kind}\n"
    return out


def _peers(peers: list[Obj], side: str) -> str:
    title = side.title()
    other = "source" if side == "from" else "destination"
    out = "" if peers else f"    {title}: <any> (traffic not restricted by {other})\n"
    for each in peers:
        out += f"    {title}:\n"
        if block := each.get("ipBlock"):
            out += f"      IPBlock:\n        CIDR: {block['cidr']}\n"
            out += f"        Except: {', '.join(block.get('except') or [])}\n"
        for name, key in (("NamespaceSelector", "namespaceSelector"), ("PodSelector", "podSelector")):
            out += f"      {name}: {parts.selector(each[key])}\n" if key in each else ""
    return out


SUBJECT = (
    ("Organization", NameOID.ORGANIZATION_NAME),
    ("Organizational Unit", NameOID.ORGANIZATIONAL_UNIT_NAME),
    ("Country", NameOID.COUNTRY_NAME),
    ("Locality", NameOID.LOCALITY_NAME),
    ("Province", NameOID.STATE_OR_PROVINCE_NAME),
    ("StreetAddress", NameOID.STREET_ADDRESS),
    ("PostalCode", NameOID.POSTAL_CODE),
)
NAMES: tuple[tuple[str, Any], ...] = (
    ("DNS Names", x509.DNSName),
    ("Email Addresses", x509.RFC822Name),
    ("URIs", x509.UniformResourceIdentifier),
    ("IP Addresses", x509.IPAddress),
)


async def certificate_request(client: Client, obj: Obj, now: datetime) -> str:
    """Describe a request for a certificate."""
    metadata, spec, status = obj["metadata"], obj["spec"], obj.get("status") or {}
    try:
        asked = x509.load_pem_x509_csr(base64.b64decode(spec.get("request", "")))
    except ValueError as error:
        text = "PEM block type must be CERTIFICATE REQUEST"
        raise KubectlError(f"error: Error parsing CSR: {text}") from error
    out = f"Name:\t{metadata['name']}\n"
    for title, key in (("Labels", "labels"), ("Annotations", "annotations")):
        found = ",".join(f"{name}={value}" for name, value in sorted((metadata.get(key) or {}).items()))
        out += f"{title}:\t{found or '<none>'}\n"
    out += f"CreationTimestamp:\t{parts.moment(metadata['creationTimestamp'])}\n"
    out += f"Requesting User:\t{spec.get('username', '')}\n"
    out += f"Signer:\t{spec['signerName']}\n" if spec.get("signerName") else ""
    lasts = spec.get("expirationSeconds")
    out += f"Requested Duration:\t{parts.span(lasts)}\n" if lasts is not None else ""
    return out + f"Status:\t{_stage(status)}\nSubject:\n" + _subject(asked)


def _stage(status: Obj) -> str:
    types = {each["type"] for each in status.get("conditions") or []}
    shown = "Denied" if "Denied" in types else "Approved" if "Approved" in types else "Pending"
    return shown + (",Failed" if "Failed" in types else "") + (",Issued" if status.get("certificate") else "")


def _subject(asked: x509.CertificateSigningRequest) -> str:
    def of(oid: x509.ObjectIdentifier) -> list[str]:
        return [str(each.value) for each in asked.subject.get_attributes_for_oid(oid)]

    common, serial = (next(iter(of(oid)), "") for oid in (NameOID.COMMON_NAME, NameOID.SERIAL_NUMBER))
    out = f"\tCommon Name:\t{common}\n\tSerial Number:\t{serial}\n"
    out += "".join(_listed(title, of(oid)) for title, oid in SUBJECT)
    try:
        names = asked.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return out
    listed = [_listed(title, [str(each) for each in names.get_values_for_type(kind)]) for title, kind in NAMES]
    return out + "Subject Alternative Names:\n" + "".join(listed)


def _listed(title: str, values: list[str]) -> str:
    joined = "\n\t\t".join(values)
    return f"\t{title}:\t{joined}\n" if values else ""
