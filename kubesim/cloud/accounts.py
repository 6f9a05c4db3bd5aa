"""Service accounts (iam/v1) and the project's policy (cloudresourcemanager/v1)."""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Any

import orjson

from kubesim import data
from kubesim.cloud.compute import Refuse
from kubesim.cloud.errors import CloudError
from kubesim.cloud.iam import NUMBER, POLICY, Iam, policy_errors
from kubesim.cloud.request import CloudRequest, check_fields, number_of
from kubesim.cloud.state import CloudState
from kubesim.errors import Obj
from kubesim.gpu.nodes import PROJECT

_table = data.beside(__file__, "accounts.yaml")
FOLDER = f"projects/{PROJECT}/serviceAccounts"
DOMAIN = f"@{PROJECT}.iam.gserviceaccount.com"
MAX_ACCOUNTS, MAX_MEMBERS = 100, 1500
CONCURRENT = (
    "There were concurrent policy changes. Please retry the whole read-modify-write with exponential backoff. The "
    "request's ETag '{given}' did not match the current policy's ETag '{current}'."
)


def seed() -> dict[str, Obj]:
    """Return the accounts and the policy of a fresh project."""
    table = _table()
    accounts = {f"{FOLDER}/{name}{DOMAIN}": _account(name, {"displayName": text}) for name, text in table["accounts"]}
    bindings = [{"role": role, "members": [*members]} for role, members in table["bindings"].items()]
    return {**accounts, POLICY: {"version": 1, "bindings": bindings}}


def _account(name: str, given: Obj) -> Obj:
    email = f"{name}{DOMAIN}"
    made = {"name": f"{FOLDER}/{email}", "projectId": PROJECT, "uniqueId": number_of(email)[:21], "email": email}
    return {**made, "oauth2ClientId": number_of(email)[:21], **given, "etag": _etag(given)}


def _etag(item: Any) -> str:
    return base64.b64encode(hashlib.sha256(orjson.dumps(item)).digest()[:8]).decode()


class Accounts:
    """Answers the requests of iam/v1."""

    def __init__(self, state: CloudState, require: Refuse) -> None:
        self._state = state
        self._require = require

    def answer(self, asked: CloudRequest) -> Obj:
        """Answer a request. Raises CloudError."""
        folder, _, name = asked.path.replace("projects/-/", f"projects/{PROJECT}/").partition("serviceAccounts")
        if folder != f"projects/{PROJECT}/":
            raise asked.refused()
        name, _, action = name.removeprefix("/").partition(":")
        match asked.method, bool(name), action:
            case "GET", False, "":
                self._require(asked.user, "iam.serviceAccounts.list", f"projects/{PROJECT}")
                return {"accounts": self._state.below(FOLDER)}
            case "POST", False, "":
                return self._create(asked)
            case "GET", True, "":
                self._require(asked.user, "iam.serviceAccounts.get", f"{FOLDER}/{name}")
                return self._found(name)
            case "PATCH" | "PUT", True, "":
                self._require(asked.user, "iam.serviceAccounts.update", f"{FOLDER}/{name}")
                return self._change(asked, name)
            case "DELETE", True, "":
                self._require(asked.user, "iam.serviceAccounts.delete", f"{FOLDER}/{name}")
                self._state.drop(self._found(name)["name"])
                return {}
            case "POST", True, "enable" | "disable":
                self._require(asked.user, f"iam.serviceAccounts.{action}", f"{FOLDER}/{name}")
                found = {key: value for key, value in self._found(name).items() if key != "disabled"}
                self._state.put(found["name"], {**found, **({"disabled": True} if action == "disable" else {})})
                return {}
        raise asked.refused()

    def _found(self, name: str) -> Obj:
        for account in self._state.below(FOLDER):
            if name in (account["email"], account["uniqueId"]):
                return account
        raise CloudError(404, "Unknown service account")

    def _create(self, asked: CloudRequest) -> Obj:
        self._require(asked.user, "iam.serviceAccounts.create", f"projects/{PROJECT}")
        body = check_fields(asked.body, {"accountId": "text", "serviceAccount": "object"})
        name = str(body.get("accountId", ""))
        if not re.fullmatch(r"[a-z]([-a-z0-9]{4,28}[a-z0-9])", name):
            text = "Account ID must be 6 to 30 lower-case letters, digits and hyphens, and begin with a letter."
            raise CloudError(400, f"{text} Invalid: {name[:40]!r}")
        if self._state.get(f"{FOLDER}/{name}{DOMAIN}") is not None:
            text = f"Service account {name} already exists within project projects/{PROJECT}."
            raise CloudError(409, text)
        if len(self._state.below(FOLDER)) >= MAX_ACCOUNTS:
            text = f"Maximum number of service accounts on project reached: {MAX_ACCOUNTS}."
            raise CloudError(429, text)
        made = _account(name, _described(body.get("serviceAccount") or {}))
        self._state.put(made["name"], made)
        return made

    def _change(self, asked: CloudRequest, name: str) -> Obj:
        found = self._found(name)
        body: Any = asked.body.get("serviceAccount") if asked.method == "PATCH" else asked.body
        given = _described(body if isinstance(body, dict) else {})
        mask = str(asked.body.get("updateMask", "displayName,description")).replace("_n", "N").split(",")
        texts: Obj = {key: given[key] for key in ("displayName", "description") if key in given and key in mask}
        made: Obj = {**found, **texts}
        self._state.put(found["name"], {**made, "etag": _etag(made)})
        return {**made, "etag": _etag(made)}


def _described(given: Obj) -> Obj:
    """Return the texts of an account that may be given."""
    known = {"displayName": "text", "description": "text", "etag": "text", "name": "text", "email": "text"}
    texts = check_fields(given, known)
    if len(texts.get("displayName", "")) > 100 or len(texts.get("description", "")) > 256:
        raise CloudError(400, "The display name has at most 100 characters, the description at most 256.")
    return {key: texts[key] for key in ("displayName", "description") if texts.get(key)}


class Projects:
    """Answers the requests of cloudresourcemanager/v1."""

    def __init__(self, state: CloudState, iam: Iam, require: Refuse) -> None:
        self._state = state
        self._iam = iam
        self._require = require

    def answer(self, asked: CloudRequest) -> Obj:
        """Answer a request. Raises CloudError."""
        project, _, action = asked.path.partition(":")
        if project not in (f"projects/{PROJECT}", f"projects/{NUMBER}"):
            raise CloudError(403, "The caller does not have permission")
        match asked.method, action:
            case "GET", "":
                self._require(asked.user, "resourcemanager.projects.get", project)
                shown = {"projectNumber": str(NUMBER), "projectId": PROJECT, "name": PROJECT}
                return {**shown, "lifecycleState": "ACTIVE", "createTime": "2024-03-11T09:14:52.118Z"}
            case "POST", "getIamPolicy":
                self._require(asked.user, "resourcemanager.projects.getIamPolicy", project)
                return self._policy()
            case "POST", "setIamPolicy":
                self._require(asked.user, "resourcemanager.projects.setIamPolicy", project)
                return self._replace(asked)
            case "POST", "testIamPermissions":
                named = asked.body.get("permissions")
                wanted = [str(item)[:100] for item in named[:100]] if isinstance(named, list) else []
                return {"permissions": [item for item in wanted if self._iam.allows(asked.user, item)]}
        raise asked.refused()

    def _policy(self) -> Obj:
        policy = self._state.get(POLICY) or {"version": 1, "bindings": []}
        return {**policy, "etag": _etag(policy)}

    def _replace(self, asked: CloudRequest) -> Obj:
        body = check_fields(asked.body, {"policy": "object", "updateMask": "text"})
        fields = {"bindings": "list", "etag": "text", "version": "number", "auditConfigs": "list"}
        policy, current = check_fields(body.get("policy") or {}, fields), self._policy()
        if policy.get("etag", current["etag"]) != current["etag"]:
            text = CONCURRENT.format(given=policy["etag"][:40], current=current["etag"])
            raise CloudError(409, text, status="ABORTED", reason="aborted")
        wanted: Obj = {"version": 1, "bindings": [_binding(entry) for entry in policy.get("bindings") or ()]}
        if sum(len(binding["members"]) for binding in wanted["bindings"]) > MAX_MEMBERS:
            raise CloudError(400, f"The policy contains more than the maximum of {MAX_MEMBERS} members.")
        emails = {account["email"] for account in self._state.below(FOLDER)}
        for error in policy_errors(wanted, emails):
            raise CloudError(400, error)
        wanted["bindings"] = [binding for binding in wanted["bindings"] if binding["members"]]
        self._state.put(POLICY, wanted)
        return self._policy()


def _binding(entry: Any) -> Obj:
    """Return a binding of a policy that was sent. Raises CloudError."""
    if not isinstance(entry, dict) or not isinstance(entry.get("role"), str):
        raise CloudError(400, "Invalid value at 'policy.bindings': each has a role and members.")
    if entry.get("condition"):
        raise CloudError(501, "Conditional role bindings are not supported on practice clusters")
    return check_fields(entry, {"role": "text", "members": "texts", "condition": "object"}) | {
        "members": sorted({*entry.get("members", [])})
    }
