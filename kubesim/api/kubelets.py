"""Where kubelets are, as their Node objects say, and the paths by which an API server asks them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote_plus

from kubesim.api.backend import LogRequest
from kubesim.errors import ApiError, Obj
from kubesim.streaming.remote import Wanted
from kubesim.times import stamp

KUBELET_PORT = 10250
PREFERRED = ("InternalIP", "ExternalIP", "Hostname")
"""Which of a node's addresses is taken: what kubeadm gives as --kubelet-preferred-address-types."""


@dataclass(frozen=True, slots=True)
class Target:
    """A host with a port, spoken to over TLS or not."""

    host: str
    port: int
    secure: bool = True

    @property
    def place(self) -> str:
        """Return host and port as Go joins them."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def url(self, path: str) -> str:
        """Return the URL of a path, which may have a query."""
        return f"http{'s' if self.secure else ''}://{self.place}{path}"


def kubelet_of(node: Obj) -> Target:
    """Return where a node's kubelet is. Raises ``ApiError`` 500 where the node does not tell."""
    status = node.get("status", {})
    known = status.get("addresses") or []
    endpoint = (status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}
    for kind in PREFERRED:
        for item in known:
            if item["type"] == kind:
                return Target(item["address"], int(endpoint.get("Port") or KUBELET_PORT))
    listed = " ".join(f"{{{item['type']} {item['address']}}}" for item in known)
    raise ApiError(500, "", f"no preferred addresses found; known addresses: [{listed}]")


def log_path(wanted: LogRequest) -> str:
    """Return where a kubelet is asked for a log."""
    return f"/containerLogs/{wanted.namespace}/{wanted.pod}/{wanted.container}{_query(_log_options(wanted))}"


def command_path(container: str, words: Sequence[str], wanted: Wanted) -> str:
    """Return the end of the path by which a kubelet is asked to enter a container."""
    flags = {"input": wanted.stdin, "output": wanted.stdout, "error": wanted.stderr, "tty": wanted.tty}
    query = [*(("command", word) for word in words), *((name, "1") for name, on in flags.items() if on)]
    return f"/{container}{_query(query)}"


def _log_options(wanted: LogRequest) -> list[tuple[str, str]]:
    flags = {"follow": wanted.follow, "previous": wanted.previous, "timestamps": wanted.timestamps}
    numbers = {"tailLines": wanted.tail_lines, "limitBytes": wanted.limit_bytes}
    since = [("sinceTime", stamp(wanted.since))] if wanted.since else []
    return (
        [(name, "true") for name, on in flags.items() if on]
        + [(name, str(value)) for name, value in numbers.items() if value is not None]
        + since
    )


def _query(values: Sequence[tuple[str, str]]) -> str:
    """Return a query as Go writes it: by name, values of one name in their order."""
    text = "&".join(f"{name}={quote_plus(value)}" for name, value in sorted(values, key=lambda pair: pair[0]))
    return f"?{text}" if text else ""
