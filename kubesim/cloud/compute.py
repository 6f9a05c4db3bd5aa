"""Compute Engine: networks, subnetworks and firewall rules, the node pools' instance groups (read), operations."""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import orjson

from kubesim import data
from kubesim.auth.users import User
from kubesim.cloud.errors import CloudError
from kubesim.cloud.request import NAME, CloudRequest, check_fields, invalid, number_of
from kubesim.cloud.state import CloudState
from kubesim.errors import Obj
from kubesim.gpu.nodes import PROJECT, ZONE
from kubesim.network.firewall import EVERYWHERE, Rule, rules
from kubesim.times import micro

_table = data.beside(__file__, "compute.yaml")
BASE = "https://www.googleapis.com/compute/v1/"
REGION = ZONE.rpartition("-")[0]
MAX_RESOURCES, MAX_OPERATIONS, MAX_TAGS = 100, 200, 70
PROTOCOLS = ("all", "tcp", "udp", "icmp", "esp", "ah", "sctp", "ipip")
ACTIONS = ("setPrivateIpGoogleAccess", "expandIpCidrRange")
SCOPES = {"global": "global", "region": f"regions/{REGION}", "zone": f"zones/{ZONE}"}
Groups = Callable[[], list[Obj]]
Refuse = Callable[[User, str, str], None]
"""Raises CloudError unless a user has a permission for a resource."""


def seed(created: str) -> dict[str, Obj]:
    """Return what a fresh project has."""
    found: dict[str, Obj] = {}
    for pattern, given in _table()["seed"].items():
        path = pattern.format(project=PROJECT, region=REGION)
        text = orjson.dumps(given).decode().replace("{project}", PROJECT)
        found[path] = _complete(path, orjson.loads(text), created)
    return found


def _complete(path: str, given: Obj, created: str) -> Obj:
    """Return a new resource with all that the API adds."""
    *_, scope, kind, name = path.split("/")
    known = _table()[kind]
    made: Obj = {**known["defaults"], **given, "name": name, "kind": known["kind"], "creationTimestamp": created}
    made |= {"id": number_of(path + created), "selfLink": BASE + path}
    if "network" in made:
        made["network"] = f"{BASE}{_relative(made['network'])}"
    if kind == "subnetworks":
        net = ipaddress.ip_network(made["ipCidrRange"])
        made |= {"region": f"{BASE}projects/{PROJECT}/regions/{scope}", "gatewayAddress": str(net[1])}
    if kind == "firewalls":
        made |= _ranges_of_rule(made)
    if kind == "networks":
        made["selfLinkWithId"] = f"{BASE}projects/{PROJECT}/global/networks/{made['id']}"
    return _stamped(made)


def _ranges_of_rule(item: Obj) -> Obj:
    """Return the ranges of a firewall rule that names nobody: everything."""
    if item["direction"] == "EGRESS":
        return {"destinationRanges": item.get("destinationRanges") or [EVERYWHERE]}
    named = any(item.get(field) for field in ("sourceRanges", "sourceTags", "sourceServiceAccounts"))
    return {} if named else {"sourceRanges": [EVERYWHERE]}


def _stamped(item: Obj) -> Obj:
    """Return a resource with the fingerprint that changes with it."""
    rest = {name: value for name, value in item.items() if name != "fingerprint"}
    digest = hashlib.sha256(orjson.dumps(rest, option=orjson.OPT_SORT_KEYS)).digest()
    return {**rest, "fingerprint": base64.b64encode(digest[:8]).decode()}


def _relative(link: str) -> str:
    """Return the path of a resource that a link, a path or a mere name of a network names."""
    path = link.partition("/compute/v1/")[2] or link
    return path if "/" in path else f"projects/{PROJECT}/global/networks/{path}"


def firewall_rules(state: CloudState) -> tuple[Rule, ...]:
    """Return the firewall rules in the form in which the simulated network applies them."""
    return rules(state.below(f"projects/{PROJECT}/global/firewalls"))


class Compute:
    """Answers the requests of compute/v1."""

    def __init__(self, state: CloudState, groups: Groups, require: Refuse) -> None:
        """``groups`` returns the managed instance groups of the node pools."""
        self._state = state
        self._groups = groups
        self._require = require

    def answer(self, asked: CloudRequest) -> Obj:
        """Answer a request. Raises CloudError."""
        parts = asked.path.split("/")
        if len(parts) < 3 or parts[0] != "projects" or parts[1] != PROJECT:
            raise _missing(f"projects/{parts[1] if len(parts) > 1 else ''}")
        at = 3 if parts[2] == "global" else 4
        if "/".join(parts[2:at]) not in SCOPES.values():
            raise asked.refused()
        kind, name, action = (*parts[at:], "", "", "")[:3] if len(parts) <= at + 3 else ("", "", "")
        if kind == "operations" and (asked.method, action) in (("GET", ""), ("POST", "wait")):
            return self._one(asked, kind, asked.path.removesuffix("/wait"))
        if kind == "instanceGroupManagers" and asked.method == "GET" and not action:
            return self._group(asked, name)
        if kind == "subnetworks" and asked.method == "POST" and action in ACTIONS:
            return self._change(replace(asked, method="PATCH", path=asked.path.removesuffix(f"/{action}")), kind)
        if action or SCOPES.get(_table().get(kind, {}).get("scope")) != "/".join(parts[2:at]):
            raise asked.refused()
        match asked.method, bool(name):
            case "GET", True:
                return self._one(asked, kind, asked.path)
            case "GET", False:
                return self._all(asked, kind, self._state.below(asked.path))
            case "POST", False:
                return self._insert(asked, kind)
            case "PATCH" | "PUT", True:
                return self._change(asked, kind)
            case "DELETE", True:
                return self._delete(asked, kind)
        raise asked.refused()

    def _one(self, asked: CloudRequest, kind: str, path: str) -> Obj:
        verb = "globalOperations" if kind == "operations" else kind
        self._require(asked.user, f"compute.{verb}.get", path)
        found = self._state.get(path)
        if found is None:
            raise _missing(path)
        return found

    def _all(self, asked: CloudRequest, kind: str, items: list[Obj]) -> Obj:
        self._require(asked.user, f"compute.{kind}.list", f"projects/{PROJECT}")
        word = "instanceGroupManager" if kind == "instanceGroupManagers" else _table()[kind]["kind"].partition("#")[2]
        found = {"kind": f"compute#{word}List", "id": asked.path, "selfLink": BASE + asked.path}
        return {**found, **({"items": items} if items else {})}

    def _group(self, asked: CloudRequest, name: str) -> Obj:
        groups = self._groups()
        if not name:
            return self._all(asked, "instanceGroupManagers", groups)
        self._require(asked.user, "compute.instanceGroupManagers.get", asked.path)
        found = next((group for group in groups if group["name"] == name), None)
        if found is None:
            raise _missing(asked.path)
        return found

    def _insert(self, asked: CloudRequest, kind: str) -> Obj:
        given, name = check_fields(asked.body, _table()[kind]["fields"]), asked.body.get("name")
        path = f"{asked.path}/{name}"
        self._require(asked.user, f"compute.{kind}.create", path)
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise invalid("resource.name", str(name)[:63], f"Must be a match of regex '{NAME.pattern}'")
        if self._state.get(path) is not None:
            raise CloudError(409, f"The resource '{path}' already exists", reason="alreadyExists")
        if len(self._state.below(asked.path)) >= MAX_RESOURCES:
            text = f"Quota '{kind.upper()}' exceeded.  Limit: {MAX_RESOURCES}.0 globally."
            raise CloudError(403, text, reason="quotaExceeded")
        self._check(kind, path, {**_table()[kind]["defaults"], **given})
        self._state.put(path, _complete(path, given, micro(asked.now)))
        return self._operation(asked, "insert", path)

    def _change(self, asked: CloudRequest, kind: str) -> Obj:
        known, path = _table()[kind], asked.path
        self._require(asked.user, f"compute.{kind}.update", path)
        found, given = self._state.get(path), check_fields(asked.body, known["fields"])
        if found is None:
            raise _missing(path)
        if given.get("fingerprint", found["fingerprint"]) != found["fingerprint"]:
            raise CloudError(412, "Invalid fingerprint.", reason="conditionNotMet")
        for field in known["fixed"]:
            same = field not in given or _relative(str(given[field])) == _relative(str(found.get(field, "")))
            if not same:
                raise invalid(f"resource.{field}", str(given[field])[:100], f"The field {field} cannot be changed.")
        put = asked.method == "PUT"
        keep = {name: value for name, value in found.items() if not put or name not in known["fields"]}
        kept = {field: found[field] for field in known["fixed"] if field in found}
        emptied = {name for name, value in given.items() if value in ([], "") and name != "description"}
        made = {**(known["defaults"] if put else {}), **keep, **given, **kept}
        made = {name: value for name, value in made.items() if name not in emptied}
        self._check(kind, path, made)
        self._state.put(path, _stamped(made))
        return self._operation(asked, "patch" if asked.method == "PATCH" else "update", path)

    def _delete(self, asked: CloudRequest, kind: str) -> Obj:
        self._require(asked.user, f"compute.{kind}.delete", asked.path)
        if self._state.get(asked.path) is None:
            raise _missing(asked.path)
        if (user := self._user_of(asked.path)) is not None:
            text = f"The {kind[:-1]} resource '{asked.path}' is already being used by '{user}'"
            raise CloudError(400, text, reason="resourceInUseByAnotherResource")
        self._state.drop(asked.path)
        return self._operation(asked, "delete", asked.path)

    def _user_of(self, path: str) -> str | None:
        """Return what needs a resource: the cluster its network, and what lies in a network that."""
        for folder in ("global/firewalls", f"regions/{REGION}/subnetworks"):
            for item in self._state.below(f"projects/{PROJECT}/{folder}"):
                if _relative(item["network"]) == path:
                    return str(item["selfLink"]).removeprefix(BASE)
        inside = path in seed("") and self._groups()
        return f"projects/{PROJECT}/locations/{ZONE}/clusters/{PROJECT}" if inside else None

    def _check(self, kind: str, path: str, item: Obj) -> None:
        """Raise CloudError for what no resource of a kind can be."""
        if kind == "networks":
            return
        network = _relative(str(item.get("network") or f"projects/{PROJECT}/global/networks/default"))
        if self._state.get(network) is None:
            raise _missing(network)
        for field, value, why in _firewall_errors(item) if kind == "firewalls" else self._overlaps(path, item):
            raise invalid(f"resource.{field}", value, why)

    def _overlaps(self, path: str, item: Obj) -> Iterator[tuple[str, str, str]]:
        """Yield what is wrong with the ranges of a subnetwork."""
        taken = [
            (other["name"], text)
            for other in self._state.below(f"projects/{PROJECT}/regions/{REGION}/subnetworks")
            if not path.endswith(f"/{other['name']}")
            for text in _ranges(other)
        ]
        for text in _ranges(item):
            if (net := _network(text)) is None or net.version != 4 or not 4 <= net.prefixlen <= 29:
                yield "ipCidrRange", text[:50], "Must be a valid IPv4 range with a prefix of 4 to 29 bits."
                continue
            for name, other in taken:
                if net.overlaps(ipaddress.ip_network(other)):
                    yield "ipCidrRange", text, f"Conflicts with existing subnetwork '{name}' in region '{REGION}'."

    def _operation(self, asked: CloudRequest, verb: str, path: str) -> Obj:
        """Return the operation that has done something; what is done is done at once."""
        at = micro(asked.now)
        folder = path.rpartition("/")[0].rpartition("/")[0] + "/operations"
        number = number_of(f"{verb}{path}{at}")
        name = f"operation-{number[:13]}-{hashlib.sha256(number.encode()).hexdigest()[:13]}"
        made: Obj = {"kind": "compute#operation", "id": number, "name": name, "operationType": verb, "status": "DONE"}
        made |= {"targetLink": BASE + path, "targetId": number_of(path), "user": asked.user.name, "progress": 100}
        made |= {"insertTime": at, "startTime": at, "endTime": at, "selfLink": f"{BASE}{folder}/{name}"}
        if "/regions/" in folder:
            made["region"] = f"{BASE}projects/{PROJECT}/regions/{REGION}"
        before = sorted(self._state.below(folder), key=lambda item: str(item["insertTime"]))
        for old in before[: max(len(before) + 1 - MAX_OPERATIONS, 0)]:
            self._state.drop(f"{folder}/{old['name']}")
        self._state.put(f"{folder}/{name}", made)
        return made


def _ranges(item: Obj) -> list[str]:
    secondary = [entry for entry in item.get("secondaryIpRanges") or () if isinstance(entry, dict)]
    return [str(item.get("ipCidrRange", "")), *(str(entry.get("ipCidrRange", "")) for entry in secondary)]


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        return None


def _firewall_errors(item: Obj) -> Iterator[tuple[str, str, str]]:
    """Yield field, value and reason of what is wrong with a firewall rule."""
    egress = item["direction"] == "EGRESS"
    if item["direction"] not in ("INGRESS", "EGRESS"):
        yield "direction", str(item["direction"])[:50], "Must be INGRESS or EGRESS."
    if not str(item["priority"]).isdecimal() or int(item["priority"]) > 65535:
        yield "priority", str(item["priority"])[:20], "Must be between 0 and 65535."
    if bool(item.get("allowed")) == bool(item.get("denied")):
        yield "allowed", "", "Exactly one of 'allowed' and 'denied' has to be specified."
    for field in ("sourceRanges", "sourceTags", "sourceServiceAccounts") if egress else ("destinationRanges",):
        if item.get(field):
            yield field, str(item[field])[:50], f"Cannot be specified for a rule of direction {item['direction']}."
    for field in ("sourceRanges", "destinationRanges"):
        for text in item.get(field) or ():
            if _network(text) is None:
                yield field, text[:50], "Must be a valid CIDR address range."
    for field in ("sourceTags", "targetTags"):
        if len(tags := item.get(field) or ()) > MAX_TAGS or not all(NAME.fullmatch(tag) for tag in tags):
            yield field, str(tags)[:50], f"Must be at most {MAX_TAGS} tags that match '{NAME.pattern}'."
    if item.get("targetTags") and item.get("targetServiceAccounts"):
        yield "targetServiceAccounts", "", "Target tags and target service accounts cannot be used together."
    for entry in [*(item.get("allowed") or ()), *(item.get("denied") or ())]:
        yield from _protocol_errors(entry)


def _protocol_errors(entry: Any) -> Iterator[tuple[str, str, str]]:
    protocol = str(entry.get("IPProtocol", "")).lower() if isinstance(entry, dict) else ""
    if protocol not in PROTOCOLS and not (protocol.isdecimal() and int(protocol[:4]) < 256):
        yield "allowed[].IPProtocol", protocol[:20], f"Must be one of {', '.join(PROTOCOLS)}, or a number."
        return
    ports = entry.get("ports") or []
    if not isinstance(ports, list) or (ports and protocol not in ("tcp", "udp", "sctp", "6", "17", "132")):
        yield "allowed[].ports", str(ports)[:50], f"Ports cannot be specified for the protocol {protocol}."
        return
    for port in ports:
        found = re.fullmatch(r"(\d{1,5})(?:-(\d{1,5}))?", str(port))
        if found is None or not int(found[1]) <= int(found[2] or found[1]) <= 65535:
            yield "allowed[].ports", str(port)[:20], "Must be a port, or a range as in 8000-8100."


def _missing(path: str) -> CloudError:
    return CloudError(404, f"The resource '{path[:300]}' was not found", reason="notFound")
