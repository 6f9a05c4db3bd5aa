"""Everything that a candidate can read in a session's cluster, and the words that none of it may hold."""

from __future__ import annotations

import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from faults.catalog_check.errors import ProofFailed
from faults.engine.model import CommandLimits
from faults.errors import ClusterError, Forbidden, Invalid, NotFound
from faults.kube.client import Kube
from faults.packs import Pack
from faults.services import CandidateAccess
from faults.toolbox import NAME as TOOLBOX

Obj = dict[str, Any]
Place = tuple[str, str, str]
"""Version, kind and namespace of objects; no namespace stands for all of them."""
LIMITS = CommandLimits(seconds=30.0, output_bytes=1024 * 1024)
MIN_WORD = 6
"""Characters of a name below which it is a common word."""
TELL_WORDS = (
    *("fault", "inject", "simulat", "interview", "candidate", "chaos"),
    *("broken", "scenario", "kubesim", "mismatch", "symptom"),
)
NARROWER = {
    "fault": "(?<!de)fault(?!-quarantine|-remediation)",
    "candidate": "(?<!lease)candidate",
    "mismatch": "(?<!version[ _])mismatch",
}
"""Patterns of words that are part of innocent ones, too."""
TELLS = re.compile("|".join(NARROWER.get(word, word) for word in TELL_WORDS), re.IGNORECASE)
OPEN_PATHS = (
    *("/", "/version", "/api", "/apis", "/openapi/v3", "/.well-known/openid-configuration", "/openid/v1/jwks"),
    *("/healthz", "/livez", "/readyz", "/metrics", "/debug", "/logs", "/configz"),
)
PATH_TIMEOUT_S = 5.0
ENVIRONMENT = """env; id; hostname; uname -a; ps aux; ls -laR /tmp /root /home /opt /mnt /srv /run; ls -la /
cat /etc/hosts /etc/resolv.conf /etc/os-release /proc/mounts /proc/version
cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ"""
FILES = 'find /etc/hostname "$@" -type f -size -64k -exec cat {} +'
"""Lines of a shell for every container; the second gets the folders in which volumes are mounted."""
MONITORING = """for page in targets rules alerts status/config status/flags status/runtimeinfo
do curl -sgm 5 "http://prometheus.monitoring:9090/api/v1/$page"; done"""
"""Lines for the toolbox: what Prometheus tells everybody in the cluster."""
RULES = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview"}
WHO = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
BEFORE, AFTER = 80, 40
"""Characters around a word that tells, so that its place can be found."""


@dataclass(frozen=True, slots=True)
class Text:
    """Something that can be read, and where."""

    place: str
    text: str


def refuse_tells(texts: Iterable[Text], words: Iterable[str] = ()) -> None:
    """Raise ProofFailed for the first text that gives away that something was done to the cluster, or by whom.

    ``words`` tell as well, as words of their own.
    """
    patterns = {word: re.compile(rf"(?<![\w-]){re.escape(word)}(?![\w-])") for word in words}
    for one in texts:
        named = (pattern.search(one.text) for word, pattern in patterns.items() if word in one.text)
        if found := find_tell(one.text) or next(filter(None, named), None):
            around = one.text[max(0, found.start() - BEFORE) : found.end() + AFTER]
            raise ProofFailed(f"{one.place} says {found[0]!r}, which tells the candidate: {around!r}")


def find_tell(text: str) -> re.Match[str] | None:
    """Return a match of ``TELLS``. Its words are looked for one by one, which takes a twentieth of the time."""
    if not text.isascii():  # whose letters may have capitals of another length
        return TELLS.search(text)
    lower = text.lower()
    for word in TELL_WORDS:
        at = lower.find(word)
        while at >= 0:
            if found := TELLS.match(text, at):
                return found
            at = lower.find(word, at + 1)
    return None


def words_of(pack: Pack, parameters: Mapping[str, str]) -> list[str]:
    """Return what a pack and its variant are called among interviewers, and nothing in the cluster is."""
    named = f"{[step.spec for step in pack.inject]} {pack.statement} {pack.namespaces}"
    return [word for word in (pack.slug, *parameters.values()) if len(word) >= MIN_WORD and word not in named]


def given(pack: Pack) -> Iterator[Text]:
    """Yield what the interviewer gives to the candidate."""
    yield Text("the title", pack.title)
    yield Text("statement.md", pack.statement)
    for number, hint in enumerate(pack.hints):
        yield Text(f"hints.{number}", hint.text)


class Readable:
    """All that the cluster answers to a candidate, whose client ``kube`` is.

    From one variant to the next their rights stay as they are: what was refused is not asked for again, and what no
    variant changes is asked for once.
    """

    def __init__(
        self, kube: Kube, access: CandidateAccess, namespaces: Sequence[str], pause: Callable[[], object]
    ) -> None:
        """``pause`` is called between two parts: whoever reads all at once is over the cluster's rations."""
        self._kube, self._access, self._namespaces, self._pause = kube, access, namespaces, pause
        self._places: list[Place] | None = None
        self._common: list[Text] | None = None

    def texts(self) -> Iterator[Text]:
        """Yield text after text. Raises ClusterError."""
        yield Text("the kubeconfig", self._access.kubeconfig)
        for part in (self._reviews, self._objects, self._logs, self._insides):
            yield from part()
            self._pause()
        if self._common is None:
            self._common = [*self._monitoring(), *_paths(self._access)]
        yield from self._common

    def _reviews(self) -> Iterator[Text]:
        """Yield what the cluster tells candidates of themselves: their name, and their rights."""
        for review, spec in ((WHO, {}), *((RULES, {"namespace": name}) for name in self._namespaces)):
            answer = self._kube.create({**review, "spec": spec})
            yield Text(f"{review['kind']} {spec.get('namespace', '')}", str(answer))

    def _objects(self) -> Iterator[Text]:
        """Yield every object of every kind, events among them."""
        if self._places is None:
            self._places = [*self._all_places()]
        for place in [*self._places]:
            try:
                found = self._kube.list(*place)
            except (Forbidden, NotFound):
                self._places.remove(place)
                continue
            for obj in found:
                yield Text(f"{place[1]} {obj.get('metadata', {}).get('name', '')}", str(obj))

    def _all_places(self) -> Iterator[Place]:
        for resource in self._kube.kinds():
            for namespace in [*self._namespaces, ""] if resource.namespaced else [""]:
                yield resource.api_version, resource.kind, namespace

    def _logs(self) -> Iterator[Text]:
        for pod in self._pods():
            name = pod["metadata"]["name"]
            for container in _started(pod):
                for previous in (False, True):
                    with suppress(NotFound, Invalid, Forbidden):
                        log = self._kube.logs(pod["metadata"]["namespace"], name, container["name"], previous)
                        yield Text(f"the log of {name}", log)

    def _insides(self) -> Iterator[Text]:
        """Yield the environment and files of every container that runs."""
        for pod in self._pods():
            meta = pod["metadata"]
            for container in _running(pod):
                for script in (ENVIRONMENT, FILES):
                    command = ["sh", "-c", script, "sh", *_mounts(pod, container)]
                    with suppress(NotFound, Invalid, Forbidden):  # it ends, or is between two starts
                        _, output = self._kube.run_command(
                            meta["namespace"], meta["name"], container, command, LIMITS
                        )
                        yield Text(f"the inside of {meta['name']}", output)

    def _monitoring(self) -> Iterator[Text]:
        """Yield what Prometheus says to whoever asks, from the toolbox."""
        for pod in self._pods():
            name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
            for container in _running(pod) if name == TOOLBOX else ():
                command = ["sh", "-c", MONITORING]
                yield Text("Prometheus", self._kube.run_command(namespace, name, container, command, LIMITS)[1])

    def _pods(self) -> Iterator[Obj]:
        for namespace in self._namespaces:
            with suppress(Forbidden):  # one of the cluster's namespaces, in which the pack grants other rights
                yield from self._kube.list("v1", "Pod", namespace)


def _statuses(pod: Obj) -> list[Obj]:
    return pod.get("status", {}).get("containerStatuses") or []


def _started(pod: Obj) -> list[Obj]:
    return [status for status in _statuses(pod) if status.get("containerID")]


def _running(pod: Obj) -> list[str]:
    return [status["name"] for status in _statuses(pod) if "running" in status.get("state", {})]


def _mounts(pod: Obj, container: str) -> list[str]:
    spec = next(row for row in pod["spec"]["containers"] if row["name"] == container)
    return [mount["mountPath"] for mount in spec.get("volumeMounts") or []]


def _paths(access: CandidateAccess) -> Iterator[Text]:
    context = ssl.create_default_context(cadata=access.ca_pem)
    for path in OPEN_PATHS:
        request = urllib.request.Request(access.server + path, headers={"Authorization": f"Bearer {access.token}"})  # noqa: S310
        try:
            with urllib.request.urlopen(request, timeout=PATH_TIMEOUT_S, context=context) as answer:  # noqa: S310
                yield Text(path, f"{answer.headers}{answer.read().decode()}")
        except urllib.error.HTTPError as refusal:
            with refusal:
                yield Text(path, f"{refusal.headers}{refusal.read().decode()}")
        except OSError as exc:
            raise ClusterError(f"{path}: {exc}") from exc
