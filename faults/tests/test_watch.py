"""The list-and-watch loop against everything a server may do to it."""

from __future__ import annotations

import asyncio
import json
import queue
import random
import socket
import threading

import urllib3

from faults.kube.watch import ListWatch
from faults.tests.scripted import ScriptedServer, status

SYNCED = ("synced", "")


def pod(name, version):
    return {"kind": "Pod", "metadata": {"name": name, "uid": f"u-{name}", "resourceVersion": str(version)}}


def listing(version, *pods):
    return 200, {}, [json.dumps({"metadata": {"resourceVersion": str(version)}, "items": list(pods)}).encode()]


def events(*pairs):
    return 200, {}, [json.dumps({"type": kind, "object": obj}).encode() + b"\n" for kind, obj in pairs]


class Stop:
    """Counts the pauses in place of waiting, and ends the loop after some of them."""

    def __init__(self, pauses):
        self.left, self.waits = pauses, []

    def is_set(self):
        return self.left <= 0

    async def wait(self, timeout):
        self.waits.append(timeout)
        self.left -= 1
        return self.is_set()

    def set(self):
        self.left = 0


def play(answers, pauses):
    """Run the loop over a script of answers; return what it told, its server and its pauses."""
    script, told, stop = iter(answers), [], Stop(pauses)

    def answer(method, path, query):
        reply = next(script, None)
        return (500, {"Retry-After": "0"}, [status(500, "InternalError", "over")]) if reply is None else reply

    with ScriptedServer(answer) as server:
        loop = ListWatch(
            server.kube,
            "v1",
            "Pod",
            "a",
            lambda kind, obj: told.append((kind, obj["metadata"]["name"])),
            stop,
            on_synced=lambda: told.append(("synced", "")),
            on_stale=lambda reason: told.append(("stale", "")),
            rng=random.Random(1),
        )
        asyncio.run(loop.run())
    return told, [query for _, path, query in server.requests if path != "/api/v1"], stop.waits


def test_it_lists_then_watches_from_there():
    told, queries, _ = play([listing(5, pod("p", 3)), events(("MODIFIED", pod("p", 6)), ("DELETED", pod("p", 7)))], 1)
    assert told[:5] == [("ADDED", "p"), SYNCED, SYNCED, ("MODIFIED", "p"), ("DELETED", "p")]
    assert queries[1]["resourceVersion"] == "5"
    assert queries[1]["allowWatchBookmarks"] == "true"
    assert 45 <= int(queries[1]["timeoutSeconds"]) <= 75
    assert queries[2]["resourceVersion"] == "7"


def test_a_bookmark_moves_it_on_without_a_change():
    told, queries, _ = play([listing(5), events(("BOOKMARK", pod("", 9)))], 1)
    assert told[:3] == [SYNCED] * 3  # the list, the watch, the bookmark
    assert queries[2]["resourceVersion"] == "9"


def test_an_expired_version_makes_it_list_again_and_report_what_it_missed():
    gone = {"code": 410, "reason": "Expired", "message": "too old resource version"}
    told, _, _ = play(
        [listing(5, pod("p", 3), pod("q", 4)), events(("ERROR", gone)), listing(9, pod("q", 4), pod("r", 8))], 2
    )
    changes = [entry for entry in told if entry != SYNCED]
    assert changes[:4] == [("ADDED", "p"), ("ADDED", "q"), ("DELETED", "p"), ("ADDED", "r")]


def test_a_refused_watch_with_410_lists_again():
    told, queries, _ = play([listing(5), (410, {}, [status(410, "Expired", "old")]), listing(6)], 2)
    assert told[:2] == [SYNCED, SYNCED]
    assert "watch" not in queries[2]


def test_a_failing_server_is_not_hammered():
    told, queries, waits = play([], 8)
    assert told == [("stale", "")] * 8
    assert len(waits) == 8
    assert sum(waits) > 8
    assert max(waits) <= 30


def test_a_watch_that_ends_at_once_is_not_hammered():
    empty = (200, {}, [])
    _, queries, waits = play([listing(5), *[empty] * 5], 5)
    assert len(queries) == 6
    assert len(waits) == 5


def test_a_line_that_is_no_event_breaks_the_stream_and_nothing_else():
    told, _, _ = play([listing(5), (200, {}, [b"garbage\n"]), events(("ADDED", pod("p", 6)))], 2)
    assert told[:5] == [SYNCED, SYNCED, ("stale", ""), SYNCED, ("ADDED", "p")]


def test_an_event_may_arrive_in_pieces():
    line = json.dumps({"type": "ADDED", "object": pod("p", 6)}).encode() + b"\n"
    told, _, _ = play([listing(5), (200, {}, [line[:10], line[10:20], line[20:] + line])], 1)
    assert told[2:4] == [("ADDED", "p"), ("ADDED", "p")]


def test_changes_of_a_practice_cluster_arrive_and_closing_waits_for_nobody(kube):
    changes, synced = queue.Queue(), threading.Event()
    loop = ListWatch(
        kube,
        "v1",
        "ConfigMap",
        "default",
        lambda kind, obj: changes.put((kind, obj["metadata"]["name"])),
        on_synced=synced.set,
    )
    thread = threading.Thread(target=lambda: asyncio.run(loop.run()))
    thread.start()
    assert synced.wait(10)
    kube.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new", "namespace": "default"}})
    while changes.get(timeout=30) != ("ADDED", "new"):
        pass
    kube.delete("v1", "ConfigMap", "new", "default")
    assert changes.get(timeout=30) == ("DELETED", "new")
    loop.close()
    thread.join(timeout=30)
    assert not thread.is_alive()


def test_closing_a_stream_that_the_server_has_just_ended_is_no_error():
    ours, theirs = socket.socketpair()
    ours.close()
    theirs.close()
    for connection in (urllib3.connection.HTTPConnection("127.0.0.1"), None):  # still ours, or back in its pool
        loop = ListWatch(None, "v1", "Pod", "a", lambda kind, obj: None)
        loop._response = urllib3.HTTPResponse(
            b"", preload_content=False, sock_shutdown=ours.shutdown, connection=connection
        )
        loop.close()
        assert loop._stop.is_set()


def test_a_loop_that_was_closed_before_its_watch_was_answered_ends_at_once():
    loop = None

    def answer(method, path, query):
        if "watch" in query:
            loop.close()  # there is no response yet that could be shut down
        return listing(5, pod("p", 3)) if "watch" not in query else events(("MODIFIED", pod("p", 6)))

    told = []
    with ScriptedServer(answer) as server:
        loop = ListWatch(server.kube, "v1", "Pod", "a", lambda kind, obj: told.append(kind))
        asyncio.run(loop.run())
    assert told == ["ADDED"]
