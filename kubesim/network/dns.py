"""The names of a cluster as its name server knows them.

The schema is that of https://github.com/kubernetes/dns/blob/master/docs/specification.md (version 1.1.0).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from kubesim.client import Reader
from kubesim.errors import ApiError, Obj
from kubesim.network.world import host_at, outside_hosts
from kubesim.shell.lookup import Answer, Record

DOMAIN = "cluster.local"
REVERSE = ".in-addr.arpa"
SCHEMA_VERSION = "1.1.0"
DASHED = re.compile(r"\d{1,3}(-\d{1,3}){3}")


class Place(NamedTuple):
    """Something behind a service: its address, its host name within the service, and its ports."""

    address: str
    host: str
    ports: list[Obj]


class ClusterNames:
    """Answers from the services and endpoints of a cluster, and for a few names outside."""

    def __init__(self, client: Reader) -> None:
        self._client = client

    async def ask(self, name: str, kind: str = "A") -> Answer:
        """Return the records of a type (A, AAAA, CNAME, SRV, PTR, TXT) of an absolute name."""
        name = name.rstrip(".").lower()
        if name.endswith(REVERSE):
            return await self._reverse(name)
        if name != DOMAIN and not name.endswith("." + DOMAIN):
            return outside(name, kind)
        labels = name.removesuffix(DOMAIN).rstrip(".").split(".")
        match labels:
            case [""] | ["svc"] | ["pod"]:
                return Answer(name)
            case ["dns-version"]:
                return _of_kind(name, kind, [Record(name, "TXT", f'"{SCHEMA_VERSION}"')])
            case [namespace, "svc" | "pod"]:
                return Answer(name, exists=await self._get("namespaces", namespace) is not None)
            case [address, namespace, "pod"]:
                return await self._pod(name, kind, address, namespace)
            case [*below, service, namespace, "svc"]:
                return await self._service(name, kind, below, service, namespace)
        return Answer(name, exists=False)

    async def _pod(self, name: str, kind: str, address: str, namespace: str) -> Answer:
        """The name of any address: CoreDNS does not look whether a pod has it."""
        if not DASHED.fullmatch(address) or await self._get("namespaces", namespace) is None:
            return Answer(name, exists=False)
        return _of_kind(name, kind, [Record(name, "A", address.replace("-", "."))])

    async def _service(self, name: str, kind: str, below: list[str], service: str, namespace: str) -> Answer:
        found = await self._get("services", service, namespace)
        if found is None:
            return Answer(name, exists=False)
        spec = found["spec"]
        if spec.get("type") == "ExternalName":
            return await self._alias(name, kind, below, spec["externalName"])
        if len(below) == 2 or (kind == "SRV" and not below):
            return _some(name, kind, await self._ports(name, below, found))
        if below or spec.get("clusterIP") == "None":
            named = [place for place in await self._places(service, namespace) if below in ([], [place.host])]
            return _some(name, kind, (Record(name, "A", place.address) for place in named))
        return _of_kind(name, kind, [Record(name, "A", spec["clusterIP"])])

    async def _alias(self, name: str, kind: str, below: list[str], target: str) -> Answer:
        if below:
            return Answer(name, exists=False)
        alias = Record(name, "CNAME", target.rstrip("."))
        further = Answer(name) if kind == "CNAME" else await self.ask(target, kind)
        return Answer(name, (alias, *further.records))

    async def _ports(self, name: str, below: list[str], service: Obj) -> list[Record]:
        """Return the SRV records of a named port, ``_port._protocol``, or of all; they share a weight of 100."""
        full, spec = _full_name(service), service["spec"]
        targets = [(full, port) for port in spec.get("ports") or ()]
        if spec.get("clusterIP") == "None":
            places = await self._places(service["metadata"]["name"], service["metadata"]["namespace"])
            targets = [(f"{place.host}.{full}", port) for place in places for port in place.ports]
        asked = [
            f"{port['port']} {target}"
            for target, port in targets
            if below in ([], [f"_{port.get('name', '')}", f"_{port['protocol'].lower()}"])
        ]
        return [Record(name, "SRV", f"0 {max(100 // len(asked), 1)} {target}") for target in asked]

    async def _places(self, service: str, namespace: str) -> list[Place]:
        """Return what is behind a service."""
        found = await self._get("endpoints", service, namespace) or {}
        return [
            Place(
                address["ip"], address.get("hostname") or address["ip"].replace(".", "-"), subset.get("ports") or []
            )
            for subset in found.get("subsets") or ()
            for address in subset.get("addresses") or ()
        ]

    async def _reverse(self, name: str) -> Answer:
        """The name of a service that has the address, or else what it is called behind every service."""
        address = ".".join(reversed(name.removesuffix(REVERSE).split(".")))
        services = (await self._client.list("services")).items
        names = [_full_name(service) for service in services if service["spec"].get("clusterIP") == address]
        for service in services if not names else ():
            meta = service["metadata"]
            places = await self._places(meta["name"], meta["namespace"])
            names += [f"{place.host}.{_full_name(service)}" for place in places if place.address == address]
        if not names:
            return outside(name, "PTR")
        return _some(name, "PTR", (Record(name, "PTR", full) for full in names))

    async def _get(self, resource: str, name: str, namespace: str = "") -> Obj | None:
        try:
            return await self._client.get(resource, name, namespace)
        except ApiError:
            return None


def _full_name(service: Obj) -> str:
    return f"{service['metadata']['name']}.{service['metadata']['namespace']}.svc.{DOMAIN}"


def outside(name: str, kind: str = "A") -> Answer:
    """Return what name servers of the world say of the few names that the table knows."""
    name = name.rstrip(".").lower()
    if name.endswith(REVERSE):
        address = ".".join(reversed(name.removesuffix(REVERSE).split(".")))
        found = host_at(address)
        return _some(name, kind, [Record(name, "PTR", found.name)] if found is not None else [])
    addresses = hosts().get(name)
    if addresses is None:
        return Answer(name, exists=False)
    return _of_kind(name, kind, [Record(name, "A", address) for address in addresses])


@cache
def hosts() -> dict[str, list[str]]:
    """Return the hosts outside of every cluster, with their addresses."""
    return {name: [*host.addresses] for name, host in outside_hosts().items()}


def _of_kind(name: str, kind: str, records: Iterable[Record]) -> Answer:
    return Answer(name, tuple(record for record in records if kind in (record.kind, "ANY")))


def _some(name: str, kind: str, records: Iterable[Record]) -> Answer:
    """Return an answer that says that there is no such name where there are no records at all."""
    found = list(records)
    return _of_kind(name, kind, found) if found else Answer(name, exists=False)
