"""Bad networks by Chaos Mesh: packets that are lost, late, broken or sent twice, or little bandwidth.

Objects are NetworkChaos of ``chaos-mesh.org/v1alpha1``. All that tc's netem does goes into one of them (``netem``
joins loss, delay, duplication and corruption), so that nothing that was asked for is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from faults.engine.ports import ClusterPort, Obj
from faults.errors import NotFound
from faults.network_faults import WrongPartition

API_VERSION, KIND = "chaos-mesh.org/v1alpha1", "NetworkChaos"
DEFINITION = "networkchaos.chaos-mesh.org"
LABELLED = {"managed-by": "fault-injection-api", "fault-type": "network-chaos"}
QUEUE, BURST = 20_971_520, 10_000
"""Bytes that may wait, and that may go at once, where bandwidth is limited."""
Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Weather:
    """What happens to packets; shares are per cent."""

    loss: float | None = None
    delay_ms: int | None = None
    jitter_ms: int | None = None
    bandwidth: str | None = None
    corrupt: float | None = None
    duplicate: float | None = None


def is_installed(cluster: ClusterPort) -> bool:
    """Return whether the cluster knows NetworkChaos. Raises ClusterError."""
    try:
        cluster.get("apiextensions.k8s.io/v1", "CustomResourceDefinition", DEFINITION)
    except NotFound:
        return False
    return True


def objects(
    *,
    name: str,
    namespace: str,
    source: Labels,
    targets: Sequence[Labels],
    weather: Weather,
    seconds: int,
    labelled: bool,
) -> list[Obj]:
    """Return the objects that make it: one for each target and each of Chaos Mesh's actions.

    Each has the duration itself, so that it ends though nobody of ours is alive. Raises WrongPartition.
    """
    actions = [*_actions(weather)]
    wanted = [(action, target) for target in targets for action in actions]
    common: Obj = {"mode": "all", "selector": _selector(namespace, source), "duration": f"{seconds}s"}
    made = []
    for number, (action, target) in enumerate(wanted, start=1):
        meta: Obj = {"name": name if number == 1 else f"{name}-{number}", "namespace": namespace}
        if labelled:
            meta["labels"] = dict(LABELLED)
        goal = {"mode": "all", "selector": _selector(namespace, target)}
        spec = {**action, **common, "target": goal}
        made.append({"apiVersion": API_VERSION, "kind": KIND, "metadata": meta, "spec": spec})
    return made


def _selector(namespace: str, labels: Labels) -> Obj:
    return {"namespaces": [namespace], "labelSelectors": dict(labels)}


def _actions(weather: Weather) -> Iterator[Obj]:
    """Yield what distinguishes the objects; nothing but a target means that no packet gets through."""
    if weather.jitter_ms is not None and weather.delay_ms is None:
        raise WrongPartition("delay_jitter_ms is the jitter of delay_ms, which is missing")
    netem = {kind: {kind: f"{share:g}"} for kind, share in _shares(weather)}
    if weather.delay_ms is not None:
        netem["delay"] = {"latency": f"{weather.delay_ms}ms", "jitter": f"{weather.jitter_ms or 0}ms"}
    if netem:
        yield {"action": "netem", "direction": "to", **netem}
    if weather.bandwidth is not None:
        limit = {"rate": weather.bandwidth, "limit": QUEUE, "buffer": BURST}
        yield {"action": "bandwidth", "direction": "to", "bandwidth": limit}
    if not netem and weather.bandwidth is None:
        yield {"action": "partition", "direction": "both"}


def _shares(weather: Weather) -> Iterator[tuple[str, float]]:
    for kind in ("loss", "corrupt", "duplicate"):
        if (share := getattr(weather, kind)) is not None:
            yield kind, share
