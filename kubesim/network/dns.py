"""The names of a cluster as its name server knows them.

The schema is that of https://github.com/kubernetes/dns/blob/master/docs/specification.md (version 1.1.0).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from kubesim import data
from kubesim.client import Reader
from kubesim.errors import ApiError, Obj
from kubesim.shell.lookup import Answer, Record

DOMAIN = "cluster.local"
REVERSE = ".in-addr.arpa"
SCHEMA_VERSION = "1.1.0"
DASHED = re.compile(r"\d{1,3}(-\d{1,3}){3}")


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
        if len(below) == 2:
            return _some(name, kind, self._ports(name, below, found))
        if below or spec.get("clusterIP") == "None":
            named = [place for place in await self._places(service, namespace) if below in ([], [place[1]])]
            return _some(name, kind, (Record(name, "A", address) for address, _ in named))
        return _of_kind(name, kind, [Record(name, "A", spec["clusterIP"])])

    async def _alias(self, name: str, kind: str, below: list[str], target: str) -> Answer:
        if below:
            return Answer(name, exists=False)
        alias = Record(name, "CNAME", target.rstrip("."))
        further = Answer(name) if kind == "CNAME" else await self.ask(target, kind)
        return Answer(name, (alias, *further.records))

    def _ports(self, name: str, below: list[str], service: Obj) -> Iterable[Record]:
        """Yield the SRV records of a named port: ``_port._protocol``."""
        meta = service["metadata"]
        for port in service["spec"].get("ports") or ():
            if [f"_{port.get('name', '')}", f"_{port['protocol'].lower()}"] == below:
                target = f"{meta['name']}.{meta['namespace']}.svc.{DOMAIN}"
                yield Record(name, "SRV", f"0 100 {port['port']} {target}")

    async def _places(self, service: str, namespace: str) -> list[tuple[str, str]]:
        """Return the addresses behind a service, each with its host name in it."""
        found = await self._get("endpoints", service, namespace) or {}
        return [
            (address["ip"], address.get("hostname") or address["ip"].replace(".", "-"))
            for subset in found.get("subsets") or ()
            for address in subset.get("addresses") or ()
        ]

    async def _reverse(self, name: str) -> Answer:
        address = ".".join(reversed(name.removesuffix(REVERSE).split(".")))
        for service in (await self._client.list("services")).items:
            meta = service["metadata"]
            full = f"{meta['name']}.{meta['namespace']}.svc.{DOMAIN}"
            if service["spec"].get("clusterIP") == address:
                return Answer(name, (Record(name, "PTR", full),))
            if service["spec"].get("clusterIP") == "None":
                for place, host in await self._places(meta["name"], meta["namespace"]):
                    if place == address:
                        return Answer(name, (Record(name, "PTR", f"{host}.{full}"),))
        return Answer(name, exists=False)

    async def _get(self, resource: str, name: str, namespace: str = "") -> Obj | None:
        try:
            return await self._client.get(resource, name, namespace)
        except ApiError:
            return None


def outside(name: str, kind: str = "A") -> Answer:
    """Return what name servers of the world say of the few names that the table knows."""
    name = name.rstrip(".").lower()
    addresses = hosts().get(name)
    if addresses is None:
        return Answer(name, exists=False)
    return _of_kind(name, kind, [Record(name, "A", address) for address in addresses])


@cache
def hosts() -> dict[str, list[str]]:
    """Return the hosts outside of every cluster, with their addresses."""
    return dict(data.read(Path(__file__).with_name("hosts.yaml")))


def _of_kind(name: str, kind: str, records: Iterable[Record]) -> Answer:
    return Answer(name, tuple(record for record in records if kind in (record.kind, "ANY")))


def _some(name: str, kind: str, records: Iterable[Record]) -> Answer:
    """Return an answer that says that there is no such name where there are no records at all."""
    found = list(records)
    return _of_kind(name, kind, found) if found else Answer(name, exists=False)
