"""The image of a cluster that has settled: what others like it begin with, under names, keys and times of their own.

To plant a cluster, to validate some 500 objects and to start every pod of its addons is most of what a practice
cluster costs, and comes out the same each time. So the warmed parent does it once, on a clock that jumps.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import orjson

from kubesim import clusterfile
from kubesim.api.meta import SUFFIX_LENGTH, generated_name
from kubesim.changelog import State
from kubesim.clock import ManualClock
from kubesim.cluster import Cluster, ClusterSpec, Secrets
from kubesim.errors import Obj
from kubesim.pki import CertificateAuthority
from kubesim.saved import key

AGE_S = 20
"""How old a cluster is when its image is taken: by then every pod of its addons is ready."""
ISSUER, SERVER = "https://image.invalid", "https://127.0.0.1:1"
UID = rb"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
MOMENT = rb"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{6})?(?:Z|\+00:00)"
VOLUME = rb"kube-api-access-[a-z0-9]{5}"
LEASES = key("object", "leases.coordination.k8s.io", "kube-system").removesuffix(b"]")
"""Begin the keys of who serves and who leads; each control plane takes them when it starts, under its own name."""
CONTAINER = re.compile(rb'"containerd://([0-9a-f]{64})"')
Make = Callable[[str, timedelta], str]
"""Returns what another cluster has in the place of a text, so much later."""


@dataclass(frozen=True, slots=True)
class Image:
    """Everything that is kept of a cluster, line by line, and where in it stands what no two clusters have alike.

    It is one text and some numbers, since forks share the memory of what they do not touch: thousands of small texts
    are touched when they are only read.
    """

    asked: Obj
    at: datetime
    text: bytes
    own: list[tuple[str, Make]]
    places: array[int]
    """Begin, end and number in ``own`` of each."""

    def state_of(self, spec: ClusterSpec, issuer: str) -> State:
        """Return the state of a new cluster, in which nothing tells of another one."""
        passed = timedelta(seconds=int((spec.created_at - self.at).total_seconds()))  # some times are whole seconds
        new = [make(part, passed).encode() for part, make in self.own]
        parts: list[bytes] = []
        end = 0
        for begin, after, number in zip(*[iter(self.places)] * 3, strict=True):
            parts += (self.text[end:begin], new[number])
            end = after
        lines = b"".join([*parts, self.text[end:]]).split(b"\n")
        state = {name: value for name, _, value in (line.partition(b"\t") for line in lines)}
        return state | {key("cluster"): orjson.dumps({"spec": spec.dump(), "secrets": Secrets.create(issuer).dump()})}


def take(asked: Obj, authority: CertificateAuthority, images: list[Image]) -> Iterator[None]:
    """Make a cluster as it is ``asked`` for, and add its image once it has settled.

    In steps of a tenth of a second of work at most, as a chore has to be: whoever waits for a process meanwhile gets
    a cluster that is made in the common way.
    """
    clock = ManualClock(datetime.now(UTC) - timedelta(seconds=AGE_S))
    spec = ClusterSpec("image", clock.now(), nodes=asked["nodes"], gpus=asked["gpus"])
    content = clusterfile.with_addons(asked["addons"])
    with asyncio.Runner() as runner:
        cluster = runner.run(Cluster.create(spec, clock, SERVER, authority, content, keep=True, issuer=ISSUER))
        for _ in range(AGE_S):
            yield
            runner.run(clock.advance(1.0))
        kept = cluster.changes.take().items()
        state = {name: value for name, value in kept if value and not name.startswith(LEASES)}
        runner.run(cluster.stop())
    images.append(Image(asked, clock.now(), *_taken_apart(state)))


def _taken_apart(state: State) -> tuple[bytes, list[tuple[str, Make]], array[int]]:
    """Return all lines as one text, what in it is the cluster's own, and where that stands."""
    text = b"\n".join([name + b"\t" + value for name, value in state.items()])
    kinds = _own(state)
    numbers: dict[bytes, int] = {}
    places: array[int] = array("L")
    for found in re.finditer(b"|".join(kinds), text):
        places.extend((*found.span(), numbers.setdefault(found[0], len(numbers))))
    return text, [(part.decode(), _make_of(part, kinds)) for part in numbers], places


def _own(state: State) -> dict[bytes, Make]:
    """Return what each cluster has of its own, as patterns, and how another one gets its."""
    objects = [orjson.loads(value) for name, value in state.items() if name.startswith(b'["object"')]
    names = {obj["metadata"]["name"] for obj in objects if obj["metadata"].get("generateName")}
    containers = {found for value in state.values() for found in CONTAINER.findall(value)}
    return {
        UID: lambda uid, passed: str(uuid4()),
        MOMENT: _later,
        VOLUME: _renamed,
        **{re.escape(name).encode(): _renamed for name in names},
        **{found: lambda found, passed: secrets.token_hex(32) for found in containers},
    }


def _make_of(part: bytes, kinds: dict[bytes, Make]) -> Make:
    return next(make for pattern, make in kinds.items() if re.fullmatch(pattern, part))


def _renamed(name: str, passed: timedelta) -> str:
    return generated_name(name[:-SUFFIX_LENGTH])


def _later(moment: str, passed: timedelta) -> str:
    """Return a time in the form that the first has."""
    text = (datetime.fromisoformat(moment) + passed).isoformat(
        timespec="microseconds" if "." in moment else "seconds"
    )
    return text.replace("+00:00", "Z") if moment.endswith("Z") else text
