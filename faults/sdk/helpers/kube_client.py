"""A small client of the Kubernetes API: objects as dictionaries, watches as iterators, the standard library alone."""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from helpers.kube_access import Access, find

Obj = dict[str, Any]
CONFLICT_TRIES = 10


class KubeError(Exception):
    """A refusal of the API server; ``status`` is 0 where none answered."""

    def __init__(self, status: int, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


@dataclass(frozen=True)
class Kind:
    """A kind of objects: where the API server keeps it."""

    api_version: str
    plural: str
    kind: str
    is_namespaced: bool = True

    def path(self, namespace: str = "", name: str = "") -> str:
        """Return where objects of a namespace are, or one of them."""
        root = f"/api/{self.api_version}" if "/" not in self.api_version else f"/apis/{self.api_version}"
        place = f"/namespaces/{quote(namespace)}" if self.is_namespaced and namespace else ""
        return f"{root}{place}/{self.plural}" + (f"/{quote(name)}" if name else "")


CONFIG_MAP = Kind("v1", "configmaps", "ConfigMap")
POD = Kind("v1", "pods", "Pod")
NODE = Kind("v1", "nodes", "Node", is_namespaced=False)
JOB = Kind("batch/v1", "jobs", "Job")


class Kube:
    """Reads and writes objects. Every method raises KubeError."""

    def __init__(self, access: Access | None = None, timeout_s: float = 30) -> None:
        """``access`` is found as kubectl finds it, by default."""
        self.access = access if access is not None else find()
        self._timeout_s = timeout_s

    def get(self, kind: Kind, namespace: str, name: str) -> Obj:
        """Return an object."""
        return self._json("GET", kind.path(namespace, name))

    def find(self, kind: Kind, namespace: str, name: str) -> Obj | None:
        """Return an object, or None where it, or its kind, does not exist."""
        try:
            return self.get(kind, namespace, name)
        except KubeError as exc:
            if exc.status == 404:
                return None
            raise

    def list(self, kind: Kind, namespace: str = "", **query: str) -> Obj:
        """Return a list with its resource version; ``query`` is labelSelector and the like."""
        return self._json("GET", _with(kind.path(namespace), query))

    def create(self, kind: Kind, namespace: str, body: Obj) -> Obj:
        """Create an object."""
        typed = {"apiVersion": kind.api_version, "kind": kind.kind, **body}
        return self._json("POST", kind.path(namespace), typed)

    def replace(self, kind: Kind, namespace: str, body: Obj) -> Obj:
        """Write an object that was read before; refused (409) if somebody has written it since."""
        return self._json("PUT", kind.path(namespace, body["metadata"]["name"]), body)

    def delete(self, kind: Kind, namespace: str, name: str, **options: Any) -> None:
        """Delete an object, if it is there; ``options`` are those of DeleteOptions."""
        body = {"apiVersion": "v1", "kind": "DeleteOptions", **options}
        try:
            self._json("DELETE", kind.path(namespace, name), body)
        except KubeError as exc:
            if exc.status != 404:
                raise

    def change(self, kind: Kind, namespace: str, name: str, edit: Callable[[Obj], Obj | None]) -> Obj:
        """Read an object, write what ``edit`` makes of it, and begin anew if somebody was quicker.

        ``edit`` gets an object of its own and returns it changed, or None to leave it as it is.
        """
        for attempt in range(CONFLICT_TRIES):
            found = self.get(kind, namespace, name)
            wanted = edit(json.loads(json.dumps(found)))
            if wanted is None or wanted == found:
                return found
            try:
                return self.replace(kind, namespace, wanted)
            except KubeError as exc:
                if exc.status != 409 or attempt == CONFLICT_TRIES - 1:
                    raise
            time.sleep(0.05 * 2 ** min(attempt, 5))  # whoever is quicker writes for a moment, not for long
        raise AssertionError("unreachable")

    def watch(self, kind: Kind, namespace: str, seconds: float, **query: str) -> Iterator[tuple[str, Obj]]:
        """Yield what happens from now on, at most for some seconds; first what is there, as ADDED.

        It ends at the latest at its deadline, and earlier if the server ends it: who is not done asks anew.
        """
        found = self.list(kind, namespace, **query)
        for item in found.get("items") or []:
            yield "ADDED", item
        yield "SYNCED", {}
        more = {"watch": "1", "resourceVersion": found["metadata"].get("resourceVersion", "")}
        more["timeoutSeconds"] = str(max(1, int(seconds)))
        try:
            with self._open("GET", _with(kind.path(namespace), query | more), None, seconds) as answer:
                for line in answer:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        return
                    yield event["type"], event["object"]
        except (TimeoutError, http.client.HTTPException, ConnectionError, ValueError):
            return

    def follow_log(self, namespace: str, pod: str, seconds: float) -> Iterator[str]:
        """Yield the lines of a pod's log until it has ended."""
        path = f"{POD.path(namespace, pod)}/log?follow=true"
        try:
            with self._open("GET", path, None, seconds) as answer:
                for line in answer:
                    yield line.decode(errors="replace").rstrip("\n")
        except (TimeoutError, http.client.HTTPException, ConnectionError):
            return

    def _json(self, method: str, path: str, body: Obj | None = None) -> Obj:
        try:
            with self._open(method, path, body, self._timeout_s) as answer:
                found: Obj = json.load(answer)
                return found
        except (http.client.HTTPException, OSError, ValueError) as exc:
            raise KubeError(0, f"{self.access.server} did not answer: {exc}") from exc

    def _open(self, method: str, path: str, body: Obj | None, timeout_s: float) -> Any:
        headers = {"Accept": "application/json, */*", "Content-Type": "application/json", **self.access.headers()}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.access.server + path, data, headers, method=method)  # noqa: S310
        try:
            return urllib.request.urlopen(request, timeout=timeout_s, context=self.access.tls)  # noqa: S310
        except urllib.error.HTTPError as exc:
            raise _refusal(exc) from None
        except urllib.error.URLError as exc:
            raise KubeError(0, f"{self.access.server} did not answer: {exc.reason}") from exc


def _with(path: str, query: dict[str, str]) -> str:
    return f"{path}?{urlencode(query)}" if query else path


def _refusal(answer: urllib.error.HTTPError) -> KubeError:
    message, reason = f"The API server answered {answer.code}.", ""
    with suppress(ValueError, OSError):
        status = json.loads(answer.read())
        message, reason = str(status.get("message") or message), str(status.get("reason") or "")
    answer.close()
    return KubeError(answer.code, message, reason)
