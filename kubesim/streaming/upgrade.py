"""What every upgraded request has in common: who offers which protocol, and how a kubelet refuses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence

from aiohttp import web

from kubesim.streaming.seam import Refused

Pace = Callable[[int], Awaitable[None]]
"""Waits as long as the user's share demands after so many bytes."""
SPDY_HEADER = "X-Stream-Protocol-Version"


def is_upgrade(request: web.Request) -> bool:
    """Whether the client wants to speak another protocol."""
    return "upgrade" in request.headers.get("Connection", "").lower()


def is_websocket(request: web.Request) -> bool:
    """Whether the client wants to speak WebSocket."""
    return is_upgrade(request) and request.headers.get("Upgrade", "").lower() == "websocket"


def offered_protocols(request: web.Request, header: str = "Sec-WebSocket-Protocol") -> list[str]:
    """Return the protocols of a header that may be repeated and may list several."""
    lines = request.headers.getall(header, [])
    return [name.strip() for line in lines for name in line.split(",") if name.strip()]


def negotiate_spdy(request: web.Request, known: Sequence[str]) -> str:
    """Return the first protocol of the client that we know. Raises ``Refused``."""
    offered = offered_protocols(request, SPDY_HEADER)
    if not offered:
        raise Refused(400, f"unable to upgrade: {SPDY_HEADER} is required")
    chosen = next((name for name in offered if name in known), "")
    if not chosen:
        ours = f"client supports {_go(offered)}, server accepts {_go(known)}"
        raise Refused(403, f"unable to upgrade: unable to negotiate protocol: {ours}", known)
    if "spdy/3.1" not in request.headers.get("Upgrade", "").lower():
        raise Refused(400, "unable to upgrade: missing upgrade headers in request")
    return chosen


def refusal(refused: Refused) -> web.Response:
    """Return a refusal as a kubelet words it: plain text."""
    response = web.Response(text=refused.text + "\n", status=refused.code, content_type="text/plain")
    for name in refused.accepted:
        response.headers.add("X-Accepted-Stream-Protocol-Versions", name)
    return response


def _go(values: Iterable[str]) -> str:
    """Return a list as Go prints it."""
    return f"[{' '.join(values)}]"
