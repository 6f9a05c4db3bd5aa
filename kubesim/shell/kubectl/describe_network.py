"""What describe says of ingresses and network policies; lines with tabs, to be aligned."""

from __future__ import annotations

from datetime import datetime
from urllib.parse import urlencode

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
