"""Reads of conditions: what each kind asks of a reader, and how its answer looks to expressions.

Whatever is not the API server's own word (logs, metrics, pages, output of commands) may be somebody's trap: it is cut
to size, and a program that does not answer is a value, not an error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from faults.checks.model import (
    AccessRead,
    CloudRead,
    CommandRead,
    LogRead,
    MetricRead,
    ObjectRead,
    PageRead,
    PlanRead,
    Read,
    StateRead,
)
from faults.errors import Invalid, NotFound, Unanswered
from faults.terraform_state import read_state, secret_name
from faults.toolbox_nodes import is_set_aside
from faults.untrusted_json import Refused, load_json

T = TypeVar("T")
Obj = dict[str, Any]
Objects = list[Obj]  # inside readers, ``list`` is the verb
MAX_LOG = 64 * 1024
MAX_BODY = 16 * 1024
MAX_OUTPUT = 16 * 1024
MAX_SERIES = 200
MAX_COMMAND_PODS = 4
"""Of one read: commands in more pods than a person would look into tell nothing new, and cost a process each."""


class Reader(Protocol):
    """Source of conditions' reads: a cluster's API, its cache, or a test's objects. All raise ``ClusterError``."""

    def list(self, api_version: str, kind: str, namespace: str = "", label_selector: str = "") -> Objects:
        """Return the objects, whole; an empty namespace means every namespace."""

    def logs(
        self, namespace: str, pod: str, container: str = "", previous: bool = False, tail_lines: int | None = None
    ) -> str:
        """Return a container's log. ``NotFound`` where there is none."""

    def query(self, promql: str) -> Sequence[Any]:
        """Return the series of an instant query as Prometheus sent them."""

    def review_access(self, user: str, attributes: Mapping[str, str]) -> Obj:
        """Return the status of a SubjectAccessReview."""

    def fetch(self, namespace: str, server: str, path: str) -> tuple[int, bytes]:
        """Return status and body of a page of ``pods/NAME:PORT`` or ``services/NAME:PORT``.

        ``Unanswered`` where no program answers, ``NotFound`` where there is no such pod or service.
        """

    def run_command(self, namespace: str, pod: str, container: str, command: Sequence[str]) -> tuple[int, str]:
        """Return the exit code of a command in a container, and what it wrote. ``NotFound`` where none runs."""

    def secret(self, namespace: str, name: str) -> Obj:
        """Return a Secret. ``NotFound`` where there is none."""

    def plan(self, namespace: str, root: str) -> Obj:
        """Return what a plan of the toolbox's code for a root would do, whose state is in a namespace."""

    def cloud_assets(self, project: str) -> Objects:
        """Return what there is in a cloud project; nothing where the cluster leads to no cloud."""


def read_all(reads: Mapping[str, Read], reader: Reader) -> Obj:
    """Return the values of a condition's reads by their names: objects first, since others are of their pods."""
    values: Obj = {}
    for name, read in reads.items():
        if isinstance(read, ObjectRead):
            values[name] = _objects(read, reader)
    for name, read in reads.items():
        if not isinstance(read, ObjectRead):
            values[name] = _read(read, values, reader)
    return values


def _read(read: Read, values: Obj, reader: Reader) -> Any:
    match read:
        case LogRead():
            return _logs(read, values[read.pods], reader)
        case MetricRead():
            return list(_series(reader.query(read.promql)))
        case AccessRead():
            return _access(read, reader)
        case PageRead():
            return _page(read, reader)
        case CommandRead():
            return list(_outputs(read, values[read.pods], reader))
        case StateRead():
            return _state(read, reader)
        case PlanRead():
            return reader.plan(read.namespace, read.root)
        case CloudRead():
            return list(_cloud(read, reader))
    raise TypeError(read)


def _objects(read: ObjectRead, reader: Reader) -> list[Obj]:
    found = reader.list(read.api_version, read.kind, read.namespace, read.label_selector)
    if read.kind == "Node":
        found = [node for node in found if not is_set_aside(node)]
    return [obj for obj in found if not read.name or obj["metadata"]["name"] == read.name]


def _logs(read: LogRead, pods: Iterable[Obj], reader: Reader) -> list[str] | Objects:
    found = list(_named_logs(read, pods, reader))
    return found if read.named else [each["text"] for each in found]


def _named_logs(read: LogRead, pods: Iterable[Obj], reader: Reader) -> Iterator[Obj]:
    for pod in pods:
        meta = pod["metadata"]
        for container in _containers_that_ran(pod, read.container):
            try:
                text = reader.logs(
                    meta.get("namespace", ""), meta["name"], container, read.previous, tail_lines=read.tail
                )
            except (NotFound, Invalid):  # gone, or between two starts
                continue
            shown = _ends(text) if read.tail is None else text[-MAX_LOG:]
            yield {"pod": meta["name"], "container": container, "text": shown}


def _ends(text: str) -> str:
    """Return a text, or beginning and end of one that is too long: programs tell at the start what they run on."""
    return text if len(text) <= MAX_LOG else f"{text[: MAX_LOG // 2]}\n...\n{text[-MAX_LOG // 2 :]}"


def _containers_that_ran(pod: Obj, wanted: str) -> list[str]:
    """Return the containers that have started at least once; before that the API answers for a log with 400."""
    statuses = pod.get("status", {}).get("containerStatuses") or []
    return [
        status["name"]
        for status in statuses
        if wanted in ("", status["name"])
        and (
            "running" in status.get("state", {}) or "terminated" in status.get("state", {}) or status.get("lastState")
        )
    ]


def _series(found: Iterable[Any]) -> Iterator[Obj]:
    """Yield labels and value of the first series; those without a finite number tell nothing."""
    for series in list(found)[:MAX_SERIES]:
        try:
            labels, value = series["metric"], float(series["value"][1])
            named = {str(key): str(text) for key, text in labels.items()}
        except (KeyError, TypeError, ValueError, IndexError, AttributeError):
            continue
        if math.isfinite(value):
            yield {"metric": named, "value": value}


def _access(read: AccessRead, reader: Reader) -> Obj:
    names = ("verb", "resource", "group", "subresource", "namespace", "name")
    attributes = {name: value for name in names if (value := getattr(read, name))}
    status = reader.review_access(read.user, attributes)
    return {"allowed": status.get("allowed") is True, "reason": str(status.get("reason", ""))[:MAX_BODY]}


def _page(read: PageRead, reader: Reader) -> Obj:
    try:
        status, data = reader.fetch(read.namespace, read.server, read.path)
    except (Unanswered, NotFound) as exc:
        return {"status": 0, "body": exc.message, "json": None}
    body = data[:MAX_BODY].decode("utf-8", "replace")
    return {"status": status, "body": body, "json": _parsed(body)}


def _parsed(text: str) -> Any:
    """Return the JSON value of a text; None where it is none, or beyond what expressions should hold."""
    try:
        return load_json(text)
    except Refused:
        return None


def _outputs(read: CommandRead, pods: Iterable[Obj], reader: Reader) -> Iterator[Obj]:
    running = [pod for pod in pods if _runs(pod, read.container)]
    for pod in running[:MAX_COMMAND_PODS]:
        name = pod["metadata"]["name"]
        container = read.container or pod["spec"]["containers"][0]["name"]
        try:
            code, output = reader.run_command(pod["metadata"].get("namespace", ""), name, container, read.command)
        except (NotFound, Invalid):  # it has ended since
            continue
        yield {"pod": name, "code": code, "output": output[:MAX_OUTPUT]}


def _runs(pod: Obj, wanted: str) -> bool:
    container = wanted or pod["spec"]["containers"][0]["name"]
    statuses = pod.get("status", {}).get("containerStatuses") or []
    is_ending = "deletionTimestamp" in pod["metadata"]
    return not is_ending and any(
        status["name"] == container and "running" in (status.get("state") or {}) for status in statuses
    )


def _state(read: StateRead, reader: Reader) -> Obj:
    try:
        return read_state(reader.secret(read.namespace, secret_name(read.root))).dump()
    except NotFound:
        return read_state({}).dump()


def _cloud(read: CloudRead, reader: Reader) -> Iterator[Obj]:
    for asset in reader.cloud_assets(read.project):
        if asset["assetType"].rpartition("/")[2] == read.asset:
            yield from (asset["iamPolicy"]["bindings"] if "iamPolicy" in asset else [asset["resource"]["data"]])


class SharedReads:
    """Answers equal reads of one evaluation from memory, so that ten checks over the same pods list them once."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._answers: dict[tuple[Any, ...], Any] = {}

    def list(self, api_version: str, kind: str, namespace: str = "", label_selector: str = "") -> Objects:
        """Return the objects."""
        where = (api_version, kind, namespace, label_selector)
        return self._once(("list", *where), lambda: self._reader.list(*where))

    def logs(
        self, namespace: str, pod: str, container: str = "", previous: bool = False, tail_lines: int | None = None
    ) -> str:
        """Return a container's log."""
        where = (namespace, pod, container, previous)
        return self._once(("logs", *where, tail_lines), lambda: self._reader.logs(*where, tail_lines=tail_lines))

    def query(self, promql: str) -> Sequence[Any]:
        """Return the series of an instant query."""
        return self._once(("query", promql), lambda: self._reader.query(promql))

    def review_access(self, user: str, attributes: Mapping[str, str]) -> Obj:
        """Return the status of a SubjectAccessReview."""
        key = ("access", user, *sorted(attributes.items()))
        return self._once(key, lambda: self._reader.review_access(user, attributes))

    def fetch(self, namespace: str, server: str, path: str) -> tuple[int, bytes]:
        """Return status and body of a page."""
        return self._once(("fetch", namespace, server, path), lambda: self._reader.fetch(namespace, server, path))

    def run_command(self, namespace: str, pod: str, container: str, command: Sequence[str]) -> tuple[int, str]:
        """Return exit code and output of a command."""
        where = (namespace, pod, container)
        return self._once(("run", *where, *command), lambda: self._reader.run_command(*where, command))

    def secret(self, namespace: str, name: str) -> Obj:
        """Return a Secret."""
        return self._once(("secret", namespace, name), lambda: self._reader.secret(namespace, name))

    def plan(self, namespace: str, root: str) -> Obj:
        """Return what a plan would do."""
        return self._once(("plan", namespace, root), lambda: self._reader.plan(namespace, root))

    def cloud_assets(self, project: str) -> Objects:
        """Return what there is in a cloud project."""
        return self._once(("cloud", project), lambda: self._reader.cloud_assets(project))

    def _once(self, key: tuple[Any, ...], ask: Callable[[], T]) -> T:
        if key not in self._answers:
            self._answers[key] = ask()
        found: T = self._answers[key]
        return found
