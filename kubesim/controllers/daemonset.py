"""DaemonSets: one pod on every node that may have one."""

from __future__ import annotations

from dataclasses import dataclass, field

from kubesim.controllers import pods
from kubesim.controllers.base import Context, Keeper, is_ending, queue_key
from kubesim.controllers.owned import HASH_LABEL, History, Owned
from kubesim.errors import Obj
from kubesim.scheduler.state import NodeState
from kubesim.scheduler.terms import selects_node, tolerates
from kubesim.shares import share
from kubesim.times import parse

GENERATION = "deprecated.daemonset.template.generation"
GENERATION_LABEL = "pod-template-generation"
NODE = "node.kubernetes.io/"
TOLERATED = (
    ("not-ready", "NoExecute"),
    ("unreachable", "NoExecute"),
    ("disk-pressure", "NoSchedule"),
    ("memory-pressure", "NoSchedule"),
    ("pid-pressure", "NoSchedule"),
    ("unschedulable", "NoSchedule"),
)
"""What a daemon's pods bear wherever they run, in upstream's order; those on the host's network bear one more."""
KILL_FIRST_S, KILL_LONGEST_S = 1.0, 900.0


@dataclass
class Look:
    """The nodes of a set and their pods."""

    owner: Obj
    revision: Obj
    wanted: list[str]
    """Nodes that shall have a pod, by name."""
    leaving: set[str]
    """Nodes where a pod that is there goes."""
    on: dict[str, list[Obj]] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """The hash of the template in force."""
        return hash_of(self.revision)

    def current(self, pod: Obj) -> bool:
        """Whether a pod is of the template in force."""
        return hash_of(pod) == self.digest


class DaemonSetController(Keeper):
    """Keeps a pod of each set on each node that it selects and that it may run on."""

    source = "daemonset-controller"
    resource = "daemonsets.apps"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.pods = Owned(self, "pods")
        self.nodes = self.informers["nodes"]
        self.history = History(self, HASH_LABEL)
        self._killed: dict[str, int] = {}

    def listen(self) -> None:
        """Watch DaemonSets, their pods, and what of nodes decides who may run there."""
        self.pods.listen()
        self.history.listen()
        super().listen()
        self.nodes.add_handler(self._node_changed)

    def _node_changed(self, old: Obj | None, new: Obj | None) -> None:
        if old is not None and new is not None and _placement(old) == _placement(new):
            return
        for owner in self.own.items():
            self.queue.add(queue_key(owner))

    async def look_after(self, owner: Obj) -> None:
        """Create and delete the pods of one set, roll it on, and report."""
        selector = owner["spec"].get("selector") or {}
        if not selector.get("matchLabels") and not selector.get("matchExpressions"):
            await self.tell(owner, "SelectingAll")
            return
        if is_ending(owner):
            return
        await self.history.claim(owner)
        revision = await self.history.current(owner)
        await self.pods.claim(owner)
        try:
            await self._manage(self._look(owner, revision))
            await self._roll(self._look(owner, revision))
        finally:
            look = self._look(owner, revision)
            await self.history.trim(owner, self._living(look))
            await self._report(look)

    def _living(self, look: Look) -> set[str]:
        """Return the names of the revisions that are in force or still have pods."""
        hashes = {hash_of(pod) for found in look.on.values() for pod in found} | {look.digest}
        owned = self.history.owned(look.owner)
        return {revision["metadata"]["name"] for revision in owned if hash_of(revision) in hashes}

    def _look(self, owner: Obj, revision: Obj) -> Look:
        look = Look(owner, revision, [], set())
        for node in sorted(self.nodes.items(), key=lambda node: node["metadata"]["name"]):
            runs, stays = placement(owner, node)
            name = node["metadata"]["name"]
            if runs:
                look.wanted.append(name)
            if not stays:
                look.leaving.add(name)
        for pod in sorted(self.pods.of(owner), key=_age):
            if not (is_ending(pod) and pods.phase_of(pod) in pods.ENDED):
                look.on.setdefault(node_of(pod), []).append(pod)
        return look

    async def _manage(self, look: Look) -> None:
        """Give every wanted node its pod, and take away what should not run, or has ended."""
        empty = []
        for name in look.wanted:
            there = [pod for pod in look.on.get(name, ()) if not await self._cleared(look.owner, pod, name)]
            active = [pod for pod in there if not is_ending(pod)]
            if not there:
                empty.append(name)
            await self._delete_all(look.owner, active[1:])
        await self._create(look, empty)
        known = {node["metadata"]["name"] for node in self.nodes.items()}
        for name, found in look.on.items():
            for pod in found:
                if (name in look.leaving or name not in known) and not is_ending(pod):
                    await self._delete_all(look.owner, [pod])

    async def _cleared(self, owner: Obj, pod: Obj, node: str) -> bool:
        """Delete a pod that has ended, after a pause where its predecessors failed too; tells whether it is gone."""
        phase, meta = pods.phase_of(pod), pod["metadata"]
        if phase not in pods.ENDED or is_ending(pod):
            return False
        key, name = f"{owner['metadata']['uid']}/{node}", f"{meta['namespace']}/{meta['name']}"
        if phase == "Failed":
            failures = self._killed.get(key, 0)
            ended = (self.clock.now() - parse(meta["creationTimestamp"])).total_seconds()
            wait = min(KILL_FIRST_S * 2 ** min(failures - 1, 30), KILL_LONGEST_S) if failures else 0.0
            if ended < wait:
                self.queue.add_after(queue_key(owner), wait - ended)
                return False
            self._killed[key] = failures + 1
            await self.tell(owner, "FailedDaemonPod", pod=name, node=node)
        else:
            await self.tell(owner, "SucceededDaemonPod", pod=name, node=node)
        await self._delete_all(owner, [pod])
        return self.pods.informer.get(meta["namespace"], meta["name"]) is None

    async def _create(self, look: Look, nodes: list[str]) -> None:
        wanted = (pod_for(look.owner, node, look.digest) for node in nodes)
        refusal = await pods.create_all(self, look.owner, wanted)
        if refusal is not None:
            raise refusal

    async def _roll(self, look: Look) -> None:
        """Replace pods of old templates, as many at a time as the strategy allows."""
        strategy = look.owner["spec"]["updateStrategy"]
        if strategy["type"] != "RollingUpdate":
            return
        rolling = strategy["rollingUpdate"]
        limit = share(rolling.get("maxUnavailable") or rolling.get("maxSurge", 1), len(look.wanted))
        unavailable, broken, candidates = 0, [], []
        for name in look.wanted:
            living = [pod for pod in look.on.get(name, ()) if not is_ending(pod)]
            pod = living[0] if living else None
            if pod is None:
                unavailable += 1
            elif not pods.is_available(self, look.owner, pod):
                unavailable += 1
                broken += [] if look.current(pod) else [pod]
            elif not look.current(pod):
                candidates.append(pod)
        await self._delete_all(look.owner, [*broken, *candidates[: max(0, limit - unavailable)]])

    async def _delete_all(self, owner: Obj, found: list[Obj]) -> None:
        for pod in found:
            await self.remove(owner, self.pods.informer, pod)

    async def _report(self, look: Look) -> None:
        owner = look.owner
        oldest = [look.on[name][0] for name in look.wanted if look.on.get(name)]
        known = {node["metadata"]["name"] for node in self.nodes.items()}
        available = sum(pods.is_available(self, owner, pod) for pod in oldest)
        shown = {
            "currentNumberScheduled": len(oldest),
            "numberMisscheduled": sum(name in known and name not in look.wanted for name in look.on),
            "desiredNumberScheduled": len(look.wanted),
            "numberReady": sum(pods.ready_since(pod) is not None for pod in oldest),
            "observedGeneration": owner["metadata"].get("generation", 1),
        }
        more = {
            "updatedNumberScheduled": sum(look.current(pod) for pod in oldest),
            "numberAvailable": available,
            "numberUnavailable": len(look.wanted) - available,
        }
        status = {name: value for name, value in owner.get("status", {}).items() if name not in more} | shown
        status |= {name: count for name, count in more.items() if count}
        await self.write_status(self.own, owner, status, retries=1)


def placement(owner: Obj, node: Obj) -> tuple[bool, bool]:
    """Tell whether a set's pod shall run on a node, and whether one that is there may stay."""
    spec = owner["spec"]["template"]["spec"]
    if spec.get("nodeName", node["metadata"]["name"]) != node["metadata"]["name"]:
        return False, False
    if not selects_node(spec, NodeState(node)):
        return False, False
    borne = tolerations_of(spec)
    untolerated = {t["effect"] for t in node.get("spec", {}).get("taints") or () if not tolerates(borne, t)}
    return not untolerated & {"NoSchedule", "NoExecute"}, "NoExecute" not in untolerated


def pod_for(owner: Obj, node: str, digest: str) -> Obj:
    """Return a set's pod for one node: bound to it by its affinity, bearing what daemons bear."""
    pod = pods.from_template(owner, owner["spec"]["template"])
    generation = (owner["metadata"].get("annotations") or {}).get(GENERATION, "1")
    pod["metadata"]["labels"] |= {HASH_LABEL: digest, GENERATION_LABEL: generation}
    spec = pod["spec"]
    spec["affinity"] = _bound_to(spec.get("affinity") or {}, node)
    spec["tolerations"] = tolerations_of(spec)
    return pod


def tolerations_of(spec: Obj) -> list[Obj]:
    """Return what a template's pods bear: what it says, and what every daemon bears."""
    marks = [*TOLERATED, *([("network-unavailable", "NoSchedule")] if spec.get("hostNetwork") else [])]
    borne = [{"key": NODE + key, "operator": "Exists", "effect": effect} for key, effect in marks]
    given = spec.get("tolerations") or []
    return [*given, *(entry for entry in borne if entry not in given)]


def _bound_to(affinity: Obj, node: str) -> Obj:
    """Return an affinity that admits one node only, keeping what is preferred."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    own = dict(affinity.get("nodeAffinity") or {})
    own["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": [term]}
    return {**affinity, "nodeAffinity": own}


def node_of(pod: Obj) -> str:
    """Return the node of a daemon's pod, also before it is scheduled."""
    if name := pod["spec"].get("nodeName"):
        return str(name)
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or ():
        for match in term.get("matchFields") or ():
            return str(match["values"][0])
    return ""


def hash_of(obj: Obj) -> str:
    """Return the hash of the template that a pod or a revision is of."""
    return str((obj["metadata"].get("labels") or {}).get(HASH_LABEL, ""))


def _age(pod: Obj) -> tuple[bool, str, str]:
    return "nodeName" not in pod["spec"], pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]


def _placement(node: Obj) -> tuple[object, ...]:
    return (
        node["metadata"].get("labels"),
        node.get("spec", {}).get("taints"),
        node.get("spec", {}).get("unschedulable"),
    )
