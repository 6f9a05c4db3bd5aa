"""What kubectl's verbs ask of the API server: discovery, requests, errors."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from kubesim.shell.errors import NetworkError
from kubesim.shell.machine import KubeAccess, Process

Obj = dict[str, Any]
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
REFUSED = "The connection to the server localhost:8080 was refused - did you specify the right host or port?"


class KubectlError(Exception):
    """A message for standard error; kubectl ends with ``status``."""

    def __init__(self, text: str, status: int = 1, reason: str = "") -> None:
        super().__init__(text)
        self.text = text
        self.status = status
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind as discovery tells of it."""

    group: str
    version: str
    plural: str
    singular: str
    kind: str
    namespaced: bool
    short: tuple[str, ...]

    @property
    def api_version(self) -> str:
        """The group and version, as objects name it."""
        return f"{self.group}/{self.version}".lstrip("/")

    @property
    def qualified(self) -> str:
        """The name with its group, as messages show it."""
        return f"{self.singular}.{self.group}" if self.group else self.singular

    def path(self, namespace: str, name: str = "") -> str:
        """Return the path of a collection or object; no namespace means all."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        where = f"/namespaces/{quote(namespace, safe='')}" if self.namespaced and namespace else ""
        return f"{root}{where}/{self.plural}" + (f"/{quote(name, safe='')}" if name else "")


class Client:
    """One run's way to the API server."""

    def __init__(self, process: Process, namespace: str, token: str = "") -> None:
        kube = process.machine.kube
        if kube is None:
            raise KubectlError(REFUSED)
        self.kube: KubeAccess = kube
        self.namespace = namespace or kube.namespace or "default"
        self.token = token
        self._resources: list[Resource] = []

    def headers(self, more: dict[str, str]) -> dict[str, str]:
        """Return headers with kubectl's own, and the token of the command line where there is one."""
        own = {"User-Agent": "kubectl/v1.34.4 (linux/amd64) kubernetes/7f2eb61"}
        return {**own, **({"Authorization": f"Bearer {self.token}"} if self.token else {}), **more}

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        accept: str = "application/json",
        sort: str = "application/json",
    ) -> Obj:
        """Make a request; raises KubectlError with the server's message."""
        headers = self.headers({"Accept": accept})
        data = b""
        if body is not None:
            headers["Content-Type"] = sort
            data = json.dumps(body).encode()
        try:
            status, _, answer = await self.kube.request(method, path, body=data, headers=headers)
        except NetworkError as error:
            raise KubectlError(f"Unable to connect to the server: dial tcp: {error.kind}") from error
        try:
            found: Obj = json.loads(answer) if answer else {}
        except ValueError:
            found = {"message": answer.decode("utf-8", "replace").strip()}
        if status >= 400:
            raise _refusal(found)
        return found

    async def text(self, path: str) -> str:
        """Return what is no JSON: logs."""
        status, _, answer = await self.kube.request("GET", path, headers=self.headers({"Accept": "*/*"}))
        if status >= 400:
            raise _refusal(json.loads(answer))
        return answer.decode("utf-8", "replace")

    async def resources(self) -> list[Resource]:
        """Return every kind that the server serves."""
        if not self._resources:
            for path in ("/api", "/apis"):
                found = await self.request("GET", path, accept=DISCOVERY)
                for group in found.get("items", []):
                    self._resources += _kinds(group)
        return self._resources

    async def resource(self, word: str) -> Resource:
        """Return the kind of a name, a short name or one with its group."""
        name, _, group = word.lower().partition(".")
        for each in await self.resources():
            known = (each.plural, each.singular, each.kind.lower(), *each.short)
            if name in known and (
                not group or f"{each.group}".startswith(group) or group == f"{each.version}.{each.group}"
            ):
                return each
        raise KubectlError(f'error: the server doesn\'t have a resource type "{word}"')

    async def of_object(self, obj: Obj) -> Resource:
        """Return the kind of a manifest."""
        group, _, version = str(obj.get("apiVersion", "")).rpartition("/")
        name = obj.get("metadata", {}).get("name", "")
        for each in await self.resources():
            if (each.group, each.version, each.kind) == (group, version, obj.get("kind")):
                return each
        raise KubectlError(
            f'error: resource mapping not found for name: "{name}" namespace: "" from '
            f'"STDIN": no matches for kind "{obj.get("kind")}" in version "{obj.get("apiVersion")}"\n'
            "ensure CRDs are installed first"
        )


def _refusal(found: Obj) -> KubectlError:
    """Return the server's refusal as kubectl words it."""
    reason, message = found.get("reason") or "", found.get("message", "")
    if reason == "Unauthorized":
        return KubectlError("error: You must be logged in to the server (Unauthorized)", reason=reason)
    if reason == "Invalid":
        return KubectlError(_invalid(found, message), reason=reason)
    shown = f"Error from server ({reason})" if reason else "Error from server"
    return KubectlError(f"{shown}: {message}", reason=reason)


def _invalid(found: Obj, message: str) -> str:
    details = found.get("details") or {}
    if not details:
        return f"The request is invalid: {message}"
    causes = list(
        dict.fromkeys(f"{cause.get('field', '')}: {cause['message']}" for cause in details.get("causes", []))
    )
    head = f'The {details.get("kind", "")} "{details.get("name", "")}" is invalid'
    if len(causes) < 2:
        return ": ".join([head, *causes])
    return f"{head}: \n" + "\n".join(f"* {cause}" for cause in causes)


def _kinds(group: Obj) -> list[Resource]:
    found = []
    for version in group.get("versions", []):
        for each in version.get("resources", []):
            kind = each.get("responseKind", {}).get("kind", "")
            found.append(
                Resource(
                    group.get("metadata", {}).get("name", "") or "",
                    version["version"],
                    each["resource"],
                    each.get("singularResource") or kind.lower(),
                    kind,
                    each.get("scope") == "Namespaced",
                    tuple(each.get("shortNames", [])),
                )
            )
    return found
