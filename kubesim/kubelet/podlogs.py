"""The logs of a node's pods as files: /var/log/pods and /var/log/containers, computed when somebody looks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial

from kubesim.kubelet import logs
from kubesim.kubelet.logs import LogOptions
from kubesim.kubelet.pod import PodWorker
from kubesim.kubelet.rooted import PODS
from kubesim.shell.files import Directory, File, Link, Listing, Node


def pod_logs(workers: Callable[[], list[PodWorker]], now: Callable[[], datetime]) -> tuple[Directory, Directory]:
    """Return /var/log/pods and /var/log/containers of a node."""

    def folders() -> dict[str, Callable[[], Node]]:
        return {_folder(worker): partial(_pod, worker, now) for worker in workers()}

    def links() -> dict[str, Callable[[], Node]]:
        return {name: partial(_link, target) for worker in workers() for name, target in _links(worker)}

    return _listing(folders), _listing(links)


def _listing(entries: Callable[[], dict[str, Callable[[], Node]]]) -> Listing:
    def find(name: str) -> Node | None:
        make = entries().get(name)
        return make() if make is not None else None

    return Listing(find=find, all=lambda: sorted(entries()))


def _link(target: str) -> Node:
    return Link(target=target)


def _folder(worker: PodWorker) -> str:
    meta = worker.record.pod["metadata"]
    return f"{meta['namespace']}_{meta['name']}_{meta['uid']}"


def _links(worker: PodWorker) -> Iterator[tuple[str, str]]:
    meta = worker.record.pod["metadata"]
    for each in worker.record.containers:
        if each.instance is not None:
            name = f"{meta['name']}_{meta['namespace']}_{each.name}-{each.instance.id}.log"
            yield name, f"{PODS}/{_folder(worker)}/{each.name}/{each.restarts}.log"


def _pod(worker: PodWorker, now: Callable[[], datetime]) -> Node:
    def container(name: str) -> Node | None:
        each = next((each for each in worker.record.containers if each.name == name and each.instance), None)
        if each is None:
            return None
        files: dict[str, Callable[[], Node]] = {}
        files[f"{each.restarts}.log"] = partial(_log, worker, name, now, previous=False)
        if each.previous is not None:
            files[f"{each.restarts - 1}.log"] = partial(_log, worker, name, now, previous=True)
        return _listing(lambda: files)

    return Listing(find=container, all=lambda: sorted(c.name for c in worker.record.containers if c.instance))


def _log(worker: PodWorker, container: str, now: Callable[[], datetime], *, previous: bool) -> Node:
    """Return the log of a container as the runtime writes it: when, which stream, whether the line is whole."""

    def lines() -> bytes:
        text = logs.read(worker, container, LogOptions(timestamps=True, previous=previous), now())
        whole = (line.partition(b" ") for line in text.splitlines())
        return b"".join(at + b" stdout F " + line + b"\n" for at, _, line in whole)

    return File(mode=0o640, make=lines)
