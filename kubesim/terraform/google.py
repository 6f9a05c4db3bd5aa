"""The provider ``google``: the project of a practice cluster, through the custom endpoints of its cloud API."""

from __future__ import annotations

import re
from typing import Any

from kubesim.terraform.decode import Value
from kubesim.terraform.diagnostics import ProviderError, said
from kubesim.terraform.host import Host
from kubesim.terraform.kubernetes import Answer, Api, expanded_block, flattened_block
from kubesim.terraform.schema import ResourceType, empty
from kubesim.terraform.values import Unknown, known

PATHS = {
    "compute": "compute/v1/", "container": "container/v1/", "iam": "iam/v1/",
    "resource_manager": "cloudresourcemanager/v1/",
}  # fmt: skip
EMAIL = "{account_id}@{project}.iam.gserviceaccount.com"
ADDED_TAINT = "nvidia.com/gpu"
MOST_POLLS = 120


class Google:
    """Reads and changes what a project has."""

    def __init__(self, given: dict[str, Any], host: Host, token: str) -> None:
        """``token`` is the pod's own, where the environment has none."""
        environment = host.environment
        self.defaults = {
            "project": given.get("project") or environment.get("GOOGLE_PROJECT"),
            "region": given.get("region") or environment.get("GOOGLE_REGION"),
            "location": given.get("zone") or environment.get("GOOGLE_ZONE"),
        }
        token = given.get("access_token") or environment.get("GOOGLE_OAUTH_ACCESS_TOKEN") or token
        address = environment.get("KUBERNETES_SERVICE_HOST")
        server = f"https://{address}" if address else ""
        self.endpoints = {
            name: given.get(f"{name}_custom_endpoint") or f"{server}/{path}" for name, path in PATHS.items()
        }
        self.api = Api(host.http, host.wait, "", {"Authorization": f"Bearer {token.strip()}"} if token else {})

    def private(self, kind: ResourceType) -> str | None:
        """Return that nothing is kept beside the attributes."""
        return "bnVsbA=="

    def complete(self, kind: ResourceType, wanted: Value, prior: Value | None) -> Value:
        """Return a planned value with the provider's project, region and zone, and what follows from names."""
        found = dict(wanted)
        for name in ("project", "region", "location"):
            if isinstance(found.get(name), Unknown) and name in kind.schema.attributes and self.defaults.get(name):
                found[name] = self.defaults[name]
        if kind.name == "google_service_account" and prior is None and known([found["account_id"], found["project"]]):
            found["email"] = EMAIL.format_map(found)
            found["member"] = f"serviceAccount:{found['email']}"
        return found

    def read(self, kind: ResourceType, value: Value) -> Value | None:
        """Return what a resource is now."""
        if kind.name == "google_project_iam_member":
            return self._member(value)
        answer = self._ask("reading", kind, "GET", str(value.get("id") or self._path(kind, value)), missing=True)
        return None if answer is None else self._flattened(kind, answer, value)

    def create(self, kind: ResourceType, wanted: Value) -> Value:
        """Create a resource."""
        if kind.name == "google_project_iam_member":
            return self._change_member(wanted, present=True)
        body: dict[str, Any] = self._expanded(kind, wanted)
        path = self._path(kind, wanted)
        if kind.name == "google_service_account":
            account = {key: text for key, text in body.items() if key in ("displayName", "description")}
            body = {"accountId": wanted["account_id"], "serviceAccount": account}
        elif kind.api["service"] == "container":
            body = {"cluster" if kind.name == "google_container_cluster" else "nodePool": body}
        self._ask("creating", kind, "POST", path.rpartition("/")[0], body)
        return self.read(kind, {**wanted, "id": path}) or wanted

    def update(self, kind: ResourceType, prior: Value, wanted: Value) -> Value:
        """Change a resource by what differs."""
        before, after, path = self._expanded(kind, prior), self._expanded(kind, wanted), str(prior["id"])
        changed: dict[str, Any] = {key: [] for key in before if key not in after}
        changed |= {key: item for key, item in after.items() if before.get(key) != item}
        if kind.name == "google_container_node_pool" and prior.get("node_count") != wanted.get("node_count"):
            self._ask("updating", kind, "POST", f"{path}:setSize", {"nodeCount": wanted["node_count"]})
            changed.pop("nodeCount", None)
        if kind.name == "google_service_account" and changed:
            mask = ",".join(sorted(re.sub("N", "_n", key) for key in changed))
            changed = {"serviceAccount": {key: text or "" for key, text in changed.items()}, "updateMask": mask}
        if changed:
            self._ask("updating", kind, "PUT" if kind.api["service"] == "container" else "PATCH", path, changed)
        return self.read(kind, {**wanted, "id": path}) or wanted

    def delete(self, kind: ResourceType, value: Value) -> None:
        """Delete a resource."""
        if kind.name == "google_project_iam_member":
            self._change_member(value, present=False)
        elif kind.name == "google_container_cluster" and value.get("deletion_protection"):
            raise ProviderError(said("cannot_destroy_cluster_because_deletionprotection"))
        else:
            self._ask("deleting", kind, "DELETE", str(value["id"]), missing=True)

    def find(self, kind: ResourceType, name: str) -> Value:
        """Return the beginning of what is imported."""
        if kind.name == "google_project_iam_member":
            parts = name.split(" ")
            if len(parts) != 3:
                raise ProviderError("Wrong number of parts to Member id; expected 'resource_name role member'.")
            return {"id": "/".join(parts), "project": parts[0], "role": parts[1], "member": parts[2]}
        parts, fields = name.split("/"), re.findall(r"\{(\w+)\}", kind.api["path"])
        if not name.startswith("projects/"):
            held = {**self.defaults, **dict(zip([*fields, "name"][-len(parts) :], parts, strict=False))}
            name = f"{str(kind.api['path']).format_map(held)}/{parts[-1]}"
        found: Value = {"id": name, "project": name.split("/")[1]}
        return {**found, "deletion_protection": True} if kind.name == "google_container_cluster" else found

    # ---- paths and requests

    def _path(self, kind: ResourceType, value: Value) -> str:
        held = {**value, **{name: value.get(name) or default for name, default in self.defaults.items()}}
        name = EMAIL.format_map(held) if kind.name == "google_service_account" else held["name"]
        return f"{str(kind.api['path']).format_map(held)}/{name}"

    def _ask(
        self, doing: str, kind: ResourceType, method: str, path: str, body: Any = None, *, missing: bool = False
    ) -> Any:
        service, doing = kind.api["service"], f"{doing} {kind.api['title']}"
        url = f"{self.endpoints[service]}{path}"
        answer = self.api(method, url, body)
        if answer.status == 404 and missing:
            return None
        if answer.status != 200:
            raise ProviderError(f"Error {doing}: {refused(method, url, answer)}")
        found = answer.json
        for _ in range(MOST_POLLS):
            if found.get("status") not in ("PENDING", "RUNNING") or "operationType" not in found:
                return found
            self.api.wait()
            link = re.sub(r"^.*?/v1/", self.endpoints[service], str(found["selfLink"]))
            found = self.api("GET", link.replace("/zones/", "/locations/") if service == "container" else link).json
        raise ProviderError(f"Error waiting for {doing}: timeout while waiting for state to become 'DONE'")

    # ---- values

    def _expanded(self, kind: ResourceType, value: Value) -> dict[str, Any]:
        kept = {"id", "project", "timeouts", *kind.api.get("local", ())}
        sent = {key: item for key, item in value.items() if key not in kept and self._sent(kind, key)}
        found = expanded_block(kind.schema, sent, kind.api.get("rename", {}))
        if isinstance(found.get("priority"), int) or not empty(value.get("disabled")):
            found["disabled"] = bool(value.get("disabled"))
        return found

    def _sent(self, kind: ResourceType, name: str) -> bool:
        attribute = kind.schema.attributes.get(name)
        return attribute is None or attribute.optional or attribute.required

    def _flattened(self, kind: ResourceType, obj: Any, held: Value) -> Value:
        value = flattened_block(kind.schema, obj, kind.api.get("rename", {}))
        path = str(held.get("id") or self._path(kind, held))
        value["id"], value["project"] = path, path.split("/")[1]
        for name in ("timeouts", *kind.api.get("local", ()), *kind.api.get("sent", ())):
            value[name] = held.get(name)
        match kind.name:
            case "google_service_account":
                email, off = obj["email"], bool(obj.get("disabled"))
                value |= {"account_id": email.partition("@")[0], "member": f"serviceAccount:{email}", "disabled": off}
                value["name"] = value["id"] = obj["name"]
            case "google_compute_firewall" if not (obj.get("logConfig") or {}).get("enable"):
                value["log_config"] = []
            case "google_compute_subnetwork":
                value["region"] = str(obj["region"]).rpartition("/")[2]
            case "google_container_cluster":
                aliases = (obj.get("ipAllocationPolicy") or {}).get("useIpAliases")
                value |= {"networking_mode": "VPC_NATIVE" if aliases else "ROUTES", "enable_autopilot": False}
            case "google_container_node_pool":
                self._pool(value, obj, path)
            case "google_compute_network":
                value["numeric_id"] = value["network_id"] = obj["id"]
        return value

    def _pool(self, value: Value, obj: Any, path: str) -> None:
        parts = path.split("/")
        count, urls = 0, obj.get("instanceGroupUrls") or []
        groups = [url.replace("/instanceGroupManagers/", "/instanceGroups/") for url in urls]
        value |= {"location": parts[3], "cluster": parts[5], "managed_instance_group_urls": groups}
        for url in urls:
            answer = self.api("GET", re.sub(r"^.*?/compute/v1/", self.endpoints["compute"], url))
            count += int(answer.json.get("targetSize") or 0)
        value["node_count"] = count // max(len(obj.get("locations") or [1]), 1)
        for node in value["node_config"]:
            node["taint"] = [taint for taint in node["taint"] if taint["key"] != ADDED_TAINT]

    # ---- members of the project's policy

    def _policy(self, project: str, policy: Any = None) -> Any:
        """Read the policy of a project, or write it; None where somebody else has written it meanwhile."""
        url = f"{self.endpoints['resource_manager']}projects/{project}"
        verb = "getIamPolicy" if policy is None else "setIamPolicy"
        answer = self.api("POST", f"{url}:{verb}", {"policy": policy} if policy else {})
        if policy is not None and answer.status == 409:
            return None
        if answer.status != 200:
            raise ProviderError(said(verb, project=project, why=refused("POST", url, answer)))
        return answer.json

    def _member(self, value: Value) -> Value | None:
        policy = self._policy(value["project"])
        bindings = {each["role"]: each["members"] for each in policy.get("bindings") or ()}
        held = value["member"] in bindings.get(value["role"], ())
        identity = f"{value['project']}/{value['role']}/{value['member']}"
        return {**value, "id": identity, "etag": policy.get("etag"), "condition": []} if held else None

    def _change_member(self, value: Value, *, present: bool) -> Value:
        for _ in range(5):
            policy = self._policy(value["project"])
            bindings = {each["role"]: [*each["members"]] for each in policy.get("bindings") or ()}
            members = {*bindings.get(value["role"], ())} - {value["member"]}
            bindings[value["role"]] = sorted(members | {value["member"]} if present else members)
            rows = [{"role": role, "members": each} for role, each in bindings.items() if each]
            wanted = {"version": 1, "etag": policy.get("etag"), "bindings": rows}
            if self._policy(value["project"], wanted) is not None:
                return self._member(value) or value
        raise ProviderError(said("setIamPolicy", project=value["project"], why="it is changed all the time"))


def refused(method: str, url: str, answer: Answer) -> str:
    """Return the message of an answer that is none of success, as Google's client words it."""
    if not answer.status:
        return f'{method.capitalize()} "{url}": {answer.text}'
    error = answer.json.get("error") or {}
    if not isinstance(error, dict) or not error:
        return f"googleapi: got HTTP response code {answer.status} with body: {answer.text[:300]}"
    reason = next((each.get("reason") for each in error.get("errors") or ()), "")
    return f"googleapi: Error {answer.status}: {error.get('message')}" + (f", {reason}" if reason else "")
