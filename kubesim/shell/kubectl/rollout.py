"""kubectl rollout: the progress of a workload, starting its pods anew, its history, and going back to a revision."""

from __future__ import annotations

from urllib.parse import urlencode

from kubesim.shell.kubectl.client import Client, KubectlError, Obj, Resource
from kubesim.shell.kubectl.deleting import end_of
from kubesim.shell.kubectl.flags import TEXTS, Flags
from kubesim.shell.kubectl.results import change
from kubesim.shell.kubectl.tabs import table
from kubesim.shell.kubectl.targets import JSON, chosen, place
from kubesim.shell.machine import Process

REVISION = "deployment.kubernetes.io/revision"
KEPT = (
    *("kubectl.kubernetes.io/last-applied-configuration", REVISION, f"{REVISION}-history"),
    *("deployment.kubernetes.io/desired-replicas", "deployment.kubernetes.io/max-replicas"),
    "deprecated.deployment.rollback.to",
)
"""Annotations that a deployment keeps when it goes back."""
CAUSE = "kubernetes.io/change-cause"
NONE = "<none>"
HASH = "pod-template-hash"
RESTARTED = "kubectl.kubernetes.io/restartedAt"
WORDS = {"undo": "rollbacker", "history": "history viewer", "restart": "restarting"}
WORKLOADS = ("Deployment", "DaemonSet", "StatefulSet")


async def _targets(process: Process, client: Client, opts: Flags) -> list[tuple[Resource, Obj]]:
    verb = opts.command.split()[1]
    if len(opts.args) == 1 and "/" not in opts.args[0] and verb == "restart":
        opts.given.setdefault("all", ["true"])
    found = await chosen(process, client, opts, opts.args)
    if not found and verb in ("restart", "status"):
        await process.error(f"No resources found in {client.namespace} namespace.\n")
    for kind, obj in found:
        if kind.kind not in WORKLOADS:
            if verb in ("undo", "history"):
                raise KubectlError(f'error: no {WORDS[verb]} has been implemented for "{kind.kind}"')
            if verb == "status":
                shown = f"{kind.kind}.{kind.group}".removesuffix(".")
                raise KubectlError(f"error: no status viewer has been implemented for {shown}")
            name = obj["metadata"]["name"]
            raise KubectlError(f'error: {kind.collection} "{name}" {WORDS[verb]} is not supported')
    return found


async def restart(process: Process, client: Client, opts: Flags) -> int:
    """Start every pod of workloads anew."""
    now = process.machine.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    body = {"spec": {"template": {"metadata": {"annotations": {RESTARTED: now}}}}}
    for kind, obj in await _targets(process, client, opts):
        if obj["spec"].get("paused"):
            name = obj["metadata"]["name"]
            raise KubectlError(
                f'error: {kind.collection} "{name}" can\'t restart paused deployment (run rollout resume first)'
            )
        await change(process, client, opts, kind, obj, body, "restarted")
    return 0


async def status(process: Process, client: Client, opts: Flags) -> int:
    """Tell how far workloads are, and wait until they are done."""
    for kind, obj in await _targets(process, client, opts):
        await _status(process, client, opts, kind, obj)
    return 0


async def _status(process: Process, client: Client, opts: Flags, kind: Resource, obj: Obj) -> None:
    end = end_of(process, opts)
    last, path = "", place(client, kind, obj)
    while True:
        text, done = _progress(kind, obj)
        if text != last:
            await process.write(text + "\n")
        last = text
        if done or not opts.on("watch", True):
            return
        if process.machine.now() >= end:
            raise KubectlError("error: timed out waiting for the condition")
        await process.sleep(min(0.5, end - process.machine.now()))
        obj = await client.request("GET", path)


def _progress(kind: Resource, obj: Obj) -> tuple[str, bool]:
    """Return what kubectl says of a rollout, and whether it is over."""
    spec, state, name = obj.get("spec", {}), obj.get("status", {}), obj["metadata"]["name"]
    if state.get("observedGeneration", 0) < obj["metadata"].get("generation", 0):
        return f"Waiting for {_noun(kind)} spec update to be observed...", False
    if kind.kind == "Deployment":
        return _deployment(spec, state, name)
    if kind.kind == "DaemonSet":
        return _daemonset(state, name)
    return _statefulset(spec, state, name)


def _noun(kind: Resource) -> str:
    return {"DaemonSet": "daemon set"}.get(kind.kind, kind.singular)


def _deployment(spec: Obj, state: Obj, name: str) -> tuple[str, bool]:
    waiting = f'Waiting for deployment "{name}" rollout to finish: '
    late = [each for each in state.get("conditions", []) if each.get("reason") == "ProgressDeadlineExceeded"]
    if late:
        raise KubectlError(f'error: deployment "{name}" exceeded its progress deadline')
    want, updated = spec.get("replicas", 1), state.get("updatedReplicas", 0)
    total, available = state.get("replicas", 0), state.get("availableReplicas", 0)
    if updated < want:
        return f"{waiting}{updated} out of {want} new replicas have been updated...", False
    if total > updated:
        return f"{waiting}{total - updated} old replicas are pending termination...", False
    if available < updated:
        return f"{waiting}{available} of {updated} updated replicas are available...", False
    return f'deployment "{name}" successfully rolled out', True


def _daemonset(state: Obj, name: str) -> tuple[str, bool]:
    waiting = f'Waiting for daemon set "{name}" rollout to finish: '
    want, updated = state.get("desiredNumberScheduled", 0), state.get("updatedNumberScheduled", 0)
    if updated < want:
        return f"{waiting}{updated} out of {want} new pods have been updated...", False
    if state.get("numberAvailable", 0) < want:
        return f"{waiting}{state.get('numberAvailable', 0)} of {want} updated pods are available...", False
    return f'daemon set "{name}" successfully rolled out', True


def _statefulset(spec: Obj, state: Obj, name: str) -> tuple[str, bool]:
    want = spec.get("replicas", 1)
    if state.get("readyReplicas", 0) < want:
        return f"Waiting for {want - state.get('readyReplicas', 0)} pods to be ready...", False
    partition = (spec.get("updateStrategy", {}).get("rollingUpdate") or {}).get("partition", 0)
    updated = state.get("updatedReplicas", 0)
    if partition > 0 and updated < want - partition:
        text = f"{updated} out of {want - partition} new pods have been updated..."
        return f"Waiting for partitioned roll out to finish: {text}", False
    if partition > 0:
        return f"partitioned roll out complete: {updated} new pods have been updated...", True
    if state.get("updateRevision") != state.get("currentRevision"):
        at = f"{updated} pods at revision {state.get('updateRevision')}..."
        return f"waiting for statefulset rolling update to complete {at}", False
    at = f"{state.get('currentReplicas', 0)} pods at revision {state.get('currentRevision')}..."
    return f"statefulset rolling update complete {at}", True


async def _revisions(client: Client, kind: Resource, obj: Obj) -> dict[int, tuple[Obj, Obj]]:
    """Return the templates of every revision, with the annotations of what keeps them."""
    labels = obj["spec"].get("selector", {}).get("matchLabels") or {}
    text = urlencode({"labelSelector": ",".join(f"{key}={value}" for key, value in labels.items())})
    plural = "replicasets" if kind.kind == "Deployment" else "controllerrevisions"
    namespace = obj["metadata"]["namespace"]
    answer = await client.request("GET", f"/apis/apps/v1/namespaces/{namespace}/{plural}?{text}")
    found: dict[int, tuple[Obj, Obj]] = {}
    for item in answer.get("items", []):
        owners = [each["uid"] for each in item["metadata"].get("ownerReferences", [])]
        notes = item["metadata"].get("annotations") or {}
        if obj["metadata"]["uid"] not in owners:
            continue
        number = int(notes.get(REVISION, 0)) if kind.kind == "Deployment" else item.get("revision", 0)
        inner = item["spec"]["template"] if kind.kind == "Deployment" else item["data"]["spec"]["template"]
        found[number] = inner, notes
    return dict(sorted(found.items()))


async def history(process: Process, client: Client, opts: Flags) -> int:
    """List the revisions of workloads."""
    for kind, obj in await _targets(process, client, opts):
        rows = [
            [str(number), notes.get(CAUSE, NONE)]
            for number, (_, notes) in (await _revisions(client, kind, obj)).items()
        ]
        await process.write(f"{kind.qualified}/{obj['metadata']['name']} \n")
        await process.write(table([["REVISION", "CHANGE-CAUSE"], *rows]) + "\n")
    return 0


async def undo(process: Process, client: Client, opts: Flags) -> int:
    """Go back to a revision."""
    wanted = int(opts.get("to-revision") or 0)
    for kind, obj in await _targets(process, client, opts):
        name = obj["metadata"]["name"]
        if obj["spec"].get("paused"):
            raise KubectlError(TEXTS["paused rollback"])
        found = await _revisions(client, kind, obj)
        numbers = list(found)
        if not wanted and len(numbers) < 2:
            raise KubectlError(f'error: no rollout history found for {kind.singular} "{name}"')
        if wanted and wanted not in found:
            raise KubectlError(f"error: unable to find specified revision {wanted} in history")
        number = wanted or numbers[-2]
        template, notes = found[number]
        template = {key: value for key, value in template.items() if key != "$patch"}
        metadata = dict(template.get("metadata") or {})
        metadata["labels"] = {key: value for key, value in (metadata.get("labels") or {}).items() if key != HASH}
        template["metadata"] = metadata
        now = obj["spec"]["template"]
        if template.get("spec") == now.get("spec") and metadata["labels"] == now["metadata"].get("labels"):
            await process.write(
                f"{kind.qualified}/{name} skipped rollback (current template already matches revision {number})\n"
            )
            continue
        body = [{"op": "replace", "path": "/spec/template", "value": template}]
        if kind.kind == "Deployment":
            own = {key: value for key, value in (obj["metadata"].get("annotations") or {}).items() if key in KEPT}
            kept = {key: value for key, value in notes.items() if key not in KEPT}
            body.append({"op": "replace", "path": "/metadata/annotations", "value": {**own, **kept}})
        after = {**obj, "spec": {**obj["spec"], "template": template}}
        await change(process, client, opts, kind, obj, body, "rolled back", sort=JSON, local=after)
    return 0
