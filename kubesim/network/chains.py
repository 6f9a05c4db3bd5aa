"""What kube-proxy writes into a node's packet filter for the services of a cluster (mode iptables).

Chains, their names and the order of rules: pkg/proxy/iptables of Kubernetes.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kubesim.client import Reader
from kubesim.errors import ApiError, Obj

MARK = "0x4000/0x4000"
BASE = {"nat": ("PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"), "filter": ("INPUT", "FORWARD", "OUTPUT")}
OWN = {
    "nat": ("KUBE-KUBELET-CANARY", "KUBE-MARK-MASQ", "KUBE-NODEPORTS", "KUBE-POSTROUTING", "KUBE-PROXY-CANARY",
            "KUBE-SERVICES"),
    "filter": ("KUBE-EXTERNAL-SERVICES", "KUBE-FIREWALL", "KUBE-FORWARD", "KUBE-KUBELET-CANARY", "KUBE-NODEPORTS",
               "KUBE-PROXY-CANARY", "KUBE-PROXY-FIREWALL", "KUBE-SERVICES"),
}  # fmt: skip
"""The chains of each table that are there without any service."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: where it stands, whom it is for, what it does. ``more`` and ``does`` are (option, as -L shows it)."""

    table: str
    chain: str
    target: str
    proto: str = ""
    source: str = ""
    to: str = ""
    comment: str = ""
    more: tuple[str, str] = ("", "")
    does: tuple[str, str] = ("", "")
    port: int = 0


def chain(kind: str, text: str) -> str:
    """Return the name of a chain for a port of a service, or for one of its endpoints."""
    return f"KUBE-{kind}-" + base64.b32encode(hashlib.sha256(text.encode()).digest()).decode()[:16]


async def read(reader: Reader) -> list[Rule]:
    """Return all rules of a node of a cluster; those without services where it may not list them."""
    try:
        services = (await reader.list("services")).items
        slices = (await reader.list("endpointslices.discovery.k8s.io")).items
    except (ApiError, ConnectionError):
        return rules((), ())
    return rules(services, slices)


def rules(services: Iterable[Obj], slices: Iterable[Obj]) -> list[Rule]:
    """Return the rules for services and their endpoints."""
    portal, state = "kubernetes service portals", ("-m conntrack --ctstate NEW", "ctstate NEW")
    found = [
        Rule("nat", "PREROUTING", "KUBE-SERVICES", comment=portal),
        Rule("nat", "OUTPUT", "KUBE-SERVICES", comment=portal),
        Rule("nat", "POSTROUTING", "KUBE-POSTROUTING", comment="kubernetes postrouting rules"),
        Rule("nat", "KUBE-MARK-MASQ", "MARK", does=(f"--set-xmark {MARK}", "MARK or 0x4000")),
        Rule("nat", "KUBE-POSTROUTING", "RETURN", more=(f"-m mark ! --mark {MARK}", f"mark match ! {MARK}")),
        Rule("nat", "KUBE-POSTROUTING", "MARK", does=("--set-xmark 0x4000/0x0", "MARK xor 0x4000")),
        Rule("nat", "KUBE-POSTROUTING", "MASQUERADE", comment="kubernetes service traffic requiring SNAT",
             does=("--random-fully", "random-fully")),
        Rule("filter", "INPUT", "KUBE-PROXY-FIREWALL", comment="kubernetes load balancer firewall", more=state),
        Rule("filter", "INPUT", "KUBE-NODEPORTS", comment="kubernetes health check service ports"),
        Rule("filter", "INPUT", "KUBE-EXTERNAL-SERVICES", comment="kubernetes externally-visible service portals",
             more=state),
        Rule("filter", "INPUT", "KUBE-FIREWALL"),
        Rule("filter", "FORWARD", "KUBE-FORWARD", comment="kubernetes forwarding rules"),
        Rule("filter", "FORWARD", "KUBE-SERVICES", comment=portal, more=state),
        Rule("filter", "OUTPUT", "KUBE-SERVICES", comment=portal, more=state),
        Rule("filter", "OUTPUT", "KUBE-FIREWALL"),
        Rule("filter", "KUBE-FORWARD", "ACCEPT", comment="kubernetes forwarding rules",
             more=(f"-m mark --mark {MARK}", f"mark match {MARK}")),
        Rule("filter", "KUBE-FORWARD", "ACCEPT", comment="kubernetes forwarding conntrack rule",
             more=("-m conntrack --ctstate RELATED,ESTABLISHED", "ctstate RELATED,ESTABLISHED")),
    ]  # fmt: skip
    by_service: dict[tuple[str, str], list[Obj]] = {}
    for each in slices:
        name = (each["metadata"].get("labels") or {}).get("kubernetes.io/service-name", "")
        by_service.setdefault((each["metadata"]["namespace"], name), []).append(each)
    for service in sorted(services, key=lambda each: (each["metadata"]["namespace"], each["metadata"]["name"])):
        if service["spec"].get("clusterIP", "None") not in ("None", ""):
            key = service["metadata"]["namespace"], service["metadata"]["name"]
            for port in service["spec"].get("ports") or ():
                found += _port(service, port, _endpoints(by_service.get(key, ()), port))
    last = Rule(
        "nat", "KUBE-SERVICES", "KUBE-NODEPORTS",
        comment="kubernetes service nodeports; NOTE: this must be the last rule in this chain",
        more=("-m addrtype --dst-type LOCAL", "ADDRTYPE match dst-type LOCAL"),
    )  # fmt: skip
    return [*found, last]


def _endpoints(slices: Iterable[Obj], port: Obj) -> list[str]:
    """Return the addresses behind a port of a service: those that are ready."""
    found = []
    for each in slices:
        numbers = [p["port"] for p in each.get("ports") or () if (p.get("name") or "") == (port.get("name") or "")]
        for endpoint in each.get("endpoints") or ():
            if numbers and (endpoint.get("conditions") or {}).get("ready", True):
                found += [f"{address}:{numbers[0]}" for address in endpoint["addresses"]]
    return sorted(found)


def _port(service: Obj, port: Obj, endpoints: list[str]) -> Iterator[Rule]:
    meta, spec, proto = service["metadata"], service["spec"], port.get("protocol", "TCP").lower()
    name = f"{meta['namespace']}/{meta['name']}" + (f":{port['name']}" if port.get("name") else "")
    here, outer, node = f"{spec['clusterIP']}/32", chain("EXT", name + proto), port.get("nodePort")
    own, number = chain("SVC", name + proto), port["port"]
    if not endpoints:
        yield Rule(
            "filter", "KUBE-SERVICES", "REJECT", proto, to=here, comment=f"{name} has no endpoints", port=number,
            does=("--reject-with icmp-port-unreachable", "reject-with icmp-port-unreachable"),
        )  # fmt: skip
        return
    yield Rule("nat", "KUBE-SERVICES", own, proto, to=here, comment=f"{name} cluster IP", port=number)
    if node:
        yield Rule("nat", "KUBE-NODEPORTS", outer, proto, comment=name, port=node)
        yield Rule("nat", outer, "KUBE-MARK-MASQ", comment=f"masquerade traffic for {name} external destinations")
        yield Rule("nat", outer, own)
    yield Rule("nat", own, "KUBE-MARK-MASQ", proto, "! 10.64.0.0/14", here, f"{name} cluster IP", port=number)
    for at, endpoint in enumerate(endpoints):
        left = len(endpoints) - at
        share = f"{1 / left:.11f}" if left > 1 else ""
        more = (f"-m statistic --mode random --probability {share}", f"statistic mode random probability {share}")
        place = chain("SEP", name + proto + endpoint)
        yield Rule("nat", own, place, comment=f"{name} -> {endpoint}", more=more if share else ("", ""))
        address = endpoint.rpartition(":")[0]
        yield Rule("nat", place, "KUBE-MARK-MASQ", source=f"{address}/32", comment=name)
        yield Rule("nat", place, "DNAT", proto, comment=name, more=(f"-m {proto}", ""),
                   does=(f"--to-destination {endpoint}", f"{proto} to:{endpoint}"))  # fmt: skip
