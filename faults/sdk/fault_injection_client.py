"""Client of the fault injection API. It needs nothing but Python's standard library, so that any pod can run it.

client = FaultInjectionClient()  # or with api_url and token
with client.gpu_fault("worker-node-1", xid_type=79) as fault:
    ...
"""

from __future__ import annotations

import http.client
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

API_URL = "http://localhost:8080"
START = (
    "Start manage.py guide and look at the port that it names, or forward one: "
    "kubectl port-forward -n fault-injection-system service/fault-injection-api 8080:8080"
)
LAYERS = ("log", "cuda", "combined")
BOOTS = {"node_boots", "agent_silent"}
BUSY = {"fault_busy", "cluster_unreachable", "agent_missing", *BOOTS}
"""Refusals after which nothing was changed, and which are over in a moment."""


class FaultInjectionError(Exception):
    """A refusal of the API: its HTTP status, a code for programs, a sentence, and what to do about it."""

    def __init__(self, status: int, code: str, detail: str, action: str, retry_after: float = 0.0) -> None:
        super().__init__(f"{detail} {action}".strip())
        self.status = status
        self.code = code
        self.detail = detail
        self.action = action
        self.retry_after = retry_after


class NoApiError(FaultInjectionError, OSError):
    """Nothing answers at the API's address, or something else does; the status is 0."""

    def __init__(self, detail: str) -> None:
        super().__init__(0, "no_api", detail, START)


@dataclass(frozen=True)
class Fault:
    """A fault as the API answered it; ``raw`` is the whole answer."""

    fault_id: str
    status: str
    target: str = ""
    message: str = ""
    raw: dict[str, Any] = field(default_factory=dict, repr=False)


class FaultInjectionClient:
    """Injects, lists and recovers faults. Every method raises FaultInjectionError; NoApiError without an API."""

    def __init__(
        self,
        api_url: str = API_URL,
        timeout: float = 30,
        token: str | None = None,
        wait: Callable[[float], None] = time.sleep,
        patience: float = 150,
    ) -> None:
        """``token`` is that of FAULT_API_TOKEN by default; guide mode wants none.

        ``timeout`` is for an answer, and for an API that is busy; ``patience`` for a node that boots.
        """
        self.api_url = api_url.rstrip("/")
        self.timeout = timeout
        self.patience = patience
        self._token = token if token is not None else os.environ.get("FAULT_API_TOKEN", "")
        self._wait = wait

    def health_check(self) -> dict[str, Any]:
        """Return what the API says of itself."""
        return self._ask("GET", "/api/v1/health")

    def xid_types(self) -> list[dict[str, Any]]:
        """Return the Xids that can be injected."""
        return list(self._ask("GET", "/api/v1/faults/gpu/xid-types")["xid_types"])

    def inject_xid_error(
        self,
        node_name: str,
        xid_type: int,
        gpu_id: int = 0,
        duration: int | None = None,
        layers: str = "log",
    ) -> Fault:
        """Let an Xid happen until it is deleted, or for ``duration`` seconds; at most eight hours.

        ``layers``: ``log`` is the kernel's log alone, where processes go on; ``cuda`` lets calls fail and logs
        nothing; ``combined`` does both, as hardware does.
        """
        body = {
            "node_name": node_name,
            "xid_type": xid_type,
            "gpu_id": gpu_id,
            "layers": layers,
            "duration": duration,
        }
        return _fault(self._ask("POST", f"/api/v1/faults/gpu/inject/xid-{xid_type}", body))

    def inject_gpu_fault(
        self,
        node_name: str,
        fault_type: str,
        duration: int | None = None,
        severity: str = "medium",
        parameters: dict[str, Any] | None = None,
    ) -> Fault:
        """Inject a GPU fault by its type, such as ``xid_error``."""
        body = {
            "node_name": node_name,
            "fault_type": fault_type,
            "duration": duration,
            "severity": severity,
            "parameters": parameters or {},
        }
        return _fault(self._ask("POST", "/api/v1/faults/gpu/inject", body))

    def inject_network_partition(
        self,
        partition_type: str,
        source: str,
        target: str,
        namespace: str,
        duration: int | None = None,
        mode: str = "networkpolicy",
        **parameters: Any,
    ) -> Fault:
        """Keep pods from each other, or make their network bad (``mode="chaos_mesh"``).

        NETWORK_FAULT_GUIDE.md has the ``parameters`` of both.
        """
        body = {
            "partition_type": partition_type,
            "source": source,
            "target": target,
            "mode": mode,
            "parameters": {"namespace": namespace, **parameters},
            "duration": duration,
        }
        return _fault(self._ask("POST", "/api/v1/faults/network/inject", body))

    def cleanup_network_policies(self, namespace: str) -> list[str]:
        """End every network fault in a namespace; return the names of the policies that were deleted."""
        answer = self._ask("POST", f"/api/v1/faults/network/cleanup?{urlencode({'namespace': namespace})}")
        return list(answer["deleted_policy_names"])

    def delete_fault(self, fault_id: str) -> Fault:
        """End a fault, and wait until it has ended. One that is over already stays as it is."""
        end = time.monotonic() + self.timeout
        while (fault := _fault(self._ask("DELETE", f"{_place(fault_id)}"))).status == "recovering":
            if time.monotonic() > end:
                raise FaultInjectionError(
                    202, "still_recovering", fault.message, "The API goes on with it by itself."
                )
            self._wait(0.5)
        return fault

    def recover_fault(self, fault_id: str) -> Fault:
        """End a fault by the other name of the same request."""
        return _fault(self._ask("POST", f"{_place(fault_id)}/recover"))

    def get_fault(self, fault_id: str) -> dict[str, Any]:
        """Return the record of a fault."""
        return self._ask("GET", _place(fault_id))

    def list_faults(self, active_only: bool = False) -> list[dict[str, Any]]:
        """Return the records of faults, the newest first."""
        query = urlencode({"active_only": str(active_only).lower()})
        return list(self._ask("GET", f"/api/v1/faults?{query}")["faults"])

    def collect_metrics(self, namespace: str, duration: int = 60) -> dict[str, Any]:
        """Return GPUs, network faults, the namespace's workers and nodes; rates are over ``duration`` seconds."""
        query = urlencode({"namespace": namespace, "duration": duration})
        return self._ask("GET", f"/api/v1/metrics/collect?{query}")

    @contextmanager
    def gpu_fault(self, node_name: str, xid_type: int, **more: Any) -> Iterator[Fault]:
        """Inject an Xid for the length of a block, which ends it whatever happens."""
        fault = self.inject_xid_error(node_name, xid_type, **more)
        try:
            yield fault
        finally:
            self.delete_fault(fault.fault_id)

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send a request; again where the API says that it is busy, or that the node boots, while there is time."""
        began = time.monotonic()
        while True:
            try:
                return self._send(method, path, body)
            except FaultInjectionError as exc:
                pause = exc.retry_after or 1.0
                limit = self.patience if exc.code in BOOTS else self.timeout
                if exc.code not in BUSY or time.monotonic() - began + pause > limit:
                    raise
                self._wait(pause)

    def _send(self, method: str, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.api_url + path, data, headers, method=method)  # noqa: S310
        try:
            with urllib.request.urlopen(request, timeout=self.timeout) as answer:  # noqa: S310
                found: dict[str, Any] = json.load(answer)
                return found
        except urllib.error.HTTPError as exc:
            raise _refusal(exc) from None
        except ValueError:
            raise NoApiError(f"What answers at {self.api_url} is not the fault injection API.") from None
        except (OSError, http.client.HTTPException) as exc:
            raise NoApiError(f"No fault injection API answers at {self.api_url}: {exc}.") from exc


def _place(fault_id: str) -> str:
    return f"/api/v1/faults/{quote(fault_id, safe='')}"


def _fault(answer: dict[str, Any]) -> Fault:
    told = {name: str(answer.get(name) or "") for name in ("target", "message")}
    return Fault(str(answer["fault_id"]), str(answer["status"]), raw=answer, **told)


def _refusal(answer: urllib.error.HTTPError) -> FaultInjectionError:
    body: dict[str, Any] = {}
    with suppress(ValueError, OSError):
        found = json.loads(answer.read())
        body = found if isinstance(found, dict) else {}
    pause = answer.headers.get("Retry-After", "")
    return FaultInjectionError(
        answer.code,
        str(body.get("code") or ""),
        str(body.get("detail") or f"The fault injection API answered {answer.code}."),
        str(body.get("action") or ""),
        float(pause) if pause.isdecimal() else 0.0,
    )
