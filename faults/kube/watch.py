"""List and watch one kind for ever, as Kubernetes asks of its clients.

The official informer asks for no bookmarks, hammers a failing server and waits for ever on a dead connection; this
loop lists, watches with bookmarks and a deadline, and backs off with decorrelated jitter. It blocks its thread.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Literal, Protocol

import orjson
import urllib3

from faults.errors import ClusterError, Expired, Unreachable
from faults.kube.client import Kube, Obj, error_for

Change = Literal["ADDED", "MODIFIED", "DELETED"]
OnChange = Callable[[Change, Obj], None]
BACKOFF_S = (0.25, 30.0)
WATCH_S = (45, 75)
MAX_LINE = 16 * 1024 * 1024


class Stop(Protocol):
    """What the loop needs of a ``threading.Event``; tests hand in one that does not wait."""

    def is_set(self) -> bool:
        """Return whether the loop must end."""

    def wait(self, timeout: float) -> bool:
        """Wait at most ``timeout`` seconds; return whether the loop must end."""

    def set(self) -> None:
        """Ask the loop to end."""


class ListWatch:
    """Calls ``on_change`` for every object and every change of it, in order, from the thread that runs ``run``.

    After a new list, objects that have gone in the meantime are reported as DELETED (by name,
    namespace and uid), and unchanged ones not at all.
    ``on_synced`` is called after every list, opened watch and bookmark; ``on_stale`` with the reason whenever the
    stream breaks.
    """

    def __init__(
        self,
        kube: Kube,
        api_version: str,
        kind: str,
        namespace: str,
        on_change: OnChange,
        stop: Stop | None = None,
        *,
        on_synced: Callable[[], None] = lambda: None,
        on_stale: Callable[[str], None] = lambda reason: None,
        rng: random.Random | None = None,
    ) -> None:
        self._kube = kube
        self._what = (api_version, kind, namespace)
        self._on_change = on_change
        self._on_synced = on_synced
        self._on_stale = on_stale
        self._stop: Stop = stop or threading.Event()
        self._rng = rng or random.Random()
        self._known: dict[str, Obj] = {}  # uid -> what is needed to tell of a deletion that was missed
        self._version = ""
        self._fruitful = False
        self._pause = BACKOFF_S[0]
        self._response: urllib3.BaseHTTPResponse | None = None

    def run(self) -> None:
        """Work until stopped. A stream that ends in silence is followed by a pause, too: no server is hammered."""
        while not self._stop.is_set():
            asked = 0.0
            try:
                self._once()
            except Expired:
                self._version = ""
            except ClusterError as exc:
                self._on_stale(exc.message)
                asked = getattr(exc, "retry_after", None) or 0.0
            if not self._fruitful and not self._stop.is_set():
                self._pause = self._next_pause()
                self._stop.wait(max(asked, self._pause))

    def close(self) -> None:
        """Stop, from any thread, without waiting for the server to say something."""
        self._stop.set()
        response = self._response
        if response is not None:
            with suppress(OSError, RuntimeError, ValueError):  # the server has ended the stream at this very moment
                response.shutdown()

    def _once(self) -> None:
        """List where there is nothing to continue from, then watch until the server ends it."""
        self._fruitful = False
        if not self._version:
            self._list()
        seconds = self._rng.randint(*WATCH_S)
        response = self._kube.open_watch(*self._what, self._version, seconds=seconds)
        self._response = response
        self._on_synced()  # whatever was missed comes at once, before anything new
        try:
            if self._stop.is_set():
                return  # close() came before there was a response to shut down
            for line in _lines(response):
                self._event(line)
                self._fruitful, self._pause = True, BACKOFF_S[0]
                if self._stop.is_set():
                    return
        finally:
            self._response = None
            response.close()

    def _list(self) -> None:
        page = self._kube.list_page(*self._what)
        fresh = {item["metadata"]["uid"]: item for item in page.items}
        for uid in self._known.keys() - fresh.keys():
            self._on_change("DELETED", self._known[uid])
        for uid, item in fresh.items():
            before = self._known.get(uid)
            if before is None:
                self._on_change("ADDED", item)
            elif _version(before) != _version(item):
                self._on_change("MODIFIED", item)
        self._known = {uid: _stub(item) for uid, item in fresh.items()}
        self._version = page.resource_version
        self._on_synced()

    def _event(self, line: bytes) -> None:
        try:
            event = orjson.loads(line)
            kind, obj = event["type"], event["object"]
        except (orjson.JSONDecodeError, KeyError, TypeError):
            raise Unreachable("The watch sent a line that is not an event.") from None
        if kind == "ERROR":
            raise error_for(int(obj.get("code", 500)), obj.get("reason", ""), obj.get("message", "watch error"))
        self._version = _version(obj)
        if kind == "BOOKMARK":
            self._on_synced()
            return
        self._remember(kind, obj)
        self._on_change(kind, obj)

    def _remember(self, kind: str, obj: Obj) -> None:
        if kind == "DELETED":
            self._known.pop(obj["metadata"]["uid"], None)
        else:
            self._known[obj["metadata"]["uid"]] = _stub(obj)

    def _next_pause(self) -> float:
        """Decorrelated jitter between a quarter of a second and half a minute."""
        low, high = BACKOFF_S
        return min(high, self._rng.uniform(low, self._pause * 3))


def _stub(obj: Obj) -> Obj:
    meta = {key: obj["metadata"].get(key, "") for key in ("name", "namespace", "uid", "resourceVersion")}
    return {"apiVersion": obj.get("apiVersion", ""), "kind": obj.get("kind", ""), "metadata": meta}


def _version(obj: Obj) -> str:
    return str(obj["metadata"]["resourceVersion"])


def _lines(response: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    """Yield the lines of a stream as they arrive; Unreachable where it breaks."""
    rest = b""
    try:
        for chunk in response.stream(1 << 16, decode_content=True):
            *lines, rest = (rest + chunk).split(b"\n")
            yield from (line for line in lines if line.strip())
            if len(rest) > MAX_LINE:
                raise Unreachable("The watch sent a line of more than 16 MiB.")
    except (urllib3.exceptions.HTTPError, OSError) as exc:
        raise Unreachable(f"The watch broke: {exc}") from exc
