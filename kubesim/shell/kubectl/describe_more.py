"""What describe says of configuration, rights, quotas and addresses; lines with tabs, to be aligned."""

from __future__ import annotations

import base64
from datetime import datetime
from urllib.parse import urlencode

from kubesim.api.durations import since
from kubesim.shell.kubectl import describe_parts as parts
from kubesim.shell.kubectl.client import Client, Obj


def _head(obj: Obj, *, marks: bool = True, space: bool = True) -> str:
    metadata = obj["metadata"]
    text = f"Name:\t{metadata['name']}\n"
    text += f"Namespace:\t{metadata.get('namespace', '')}\n" if space else ""
    if marks:
        text += parts.marks(metadata)
    return text


async def secret(client: Client, obj: Obj, now: datetime) -> str:
    """Describe a secret: what it has, not what that is."""
    out = _head(obj) + f"\nType:\t{obj.get('type', '')}\n\nData\n====\n"
    for key, text in sorted((obj.get("data") or {}).items()):
        data = base64.b64decode(text)
        shown = (
            data.decode("utf-8", "replace") if obj.get("type") == TOKEN and key == "token" else f"{len(data)} bytes"
        )
        out += f"{key}:\t{shown}\n"
    return out


TOKEN = "kubernetes.io/service-account-token"  # noqa: S105


async def config_map(client: Client, obj: Obj, now: datetime) -> str:
    """Describe a config map."""
    out = _head(obj) + "\nData\n====\n"
    for key, text in sorted((obj.get("data") or {}).items()):
        out += f"{key}:\n----\n{text}\n\n"
    out += "\nBinaryData\n====\n"
    for key, text in sorted((obj.get("binaryData") or {}).items()):
        out += f"{key}: {len(base64.b64decode(text))} bytes\n"
    return out + "\n"


def _hard(obj: Obj, indent: str, rule: str) -> str:
    status = obj.get("status") or {}
    used = status.get("used") or {}
    rows = [
        f"{indent}{name}\t{used.get(name, '0')}\t{hard}\n"
        for name, hard in sorted((status.get("hard") or {}).items())
    ]
    return f"{indent}Resource\tUsed\tHard\n{indent}--------\t{rule}\t{rule}\n" + "".join(rows)


SCOPES = {
    "Terminating": "Matches all pods that have an active deadline. These pods have a limited lifespan on a node "
    "before "
    "being actively terminated by the system.",
    "NotTerminating": "Matches all pods that do not have an active deadline. These pods usually include long "
    "running pods "
    "whose container command is not expected to terminate.",
    "BestEffort": "Matches all pods that do not have resource requirements set. These pods have a best effort "
    "quality of "
    "service.",
    "NotBestEffort": "Matches all pods that have at least one resource requirement set. These pods have a "
    "burstable or "
    "guaranteed quality of service.",
}


def _scopes(obj: Obj, indent: str, mark: str) -> str:
    scopes = sorted((obj.get("spec") or {}).get("scopes") or [])
    text = f"{indent}Scopes:\t{', '.join(scopes)}\n" if scopes else ""
    return text + "".join(f"{mark}{SCOPES[each]}\n" for each in scopes if each in SCOPES)


async def quota(client: Client, obj: Obj, now: datetime) -> str:
    """Describe a quota."""
    return _head(obj, marks=False) + _scopes(obj, "", " * ") + _hard(obj, "", "----")


def _limits(obj: Obj, indent: str) -> str:
    rows = ""
    for each in obj["spec"].get("limits") or []:
        columns = [each.get(key) or {} for key in ("min", "max", "defaultRequest", "default", "maxLimitRequestRatio")]
        for name in sorted({name for column in columns for name in column}):
            cells = [str(column.get(name, "-")) for column in columns]
            rows += f"{indent}{each.get('type', '')}\t{name}\t" + "\t".join(cells) + "\n"
    return rows


LIMITS = (
    "Type\tResource\tMin\tMax\tDefault Request\tDefault Limit\tMax Limit/Request Ratio\n",
    "----\t--------\t---\t---\t---------------\t-------------\t-----------------------\n",
)


async def limit_range(client: Client, obj: Obj, now: datetime) -> str:
    """Describe a range of limits."""
    return _head(obj, marks=False) + "".join(LIMITS) + _limits(obj, "")


async def namespace(client: Client, obj: Obj, now: datetime) -> str:
    """Describe a namespace with its quotas and limits."""
    out = _head(obj, space=False) + f"Status:\t{(obj.get('status') or {}).get('phase', '')}\n"
    name = obj["metadata"]["name"]
    conditions = (obj.get("status") or {}).get("conditions") or []
    if conditions:
        out += "Conditions:\n  Type\tStatus\tLastTransitionTime\tReason\tMessage\n"
        out += "  ----\t------\t------------------\t------\t-------\n"
        for each in conditions:
            cells = [each["type"], each["status"], parts.moment(each.get("lastTransitionTime"))]
            out += "  " + "\t".join([*cells, each.get("reason", ""), each.get("message", "")]) + "\n"
    quotas = (await client.request("GET", f"/api/v1/namespaces/{name}/resourcequotas")).get("items") or []
    out += "\nResource Quotas\n" if quotas else "\nNo resource quota.\n"
    for each in quotas:
        out += f"  Name:\t{each['metadata']['name']}\n" + _scopes(each, "  ", "  * ") + _hard(each, "  ", "---")
    ranges = (await client.request("GET", f"/api/v1/namespaces/{name}/limitranges")).get("items") or []
    if not ranges:
        return out + "\nNo LimitRange resource.\n"
    return (
        out
        + "\nResource Limits\n"
        + "".join(f" {line}" for line in LIMITS)
        + "".join(_limits(e, " ") for e in ranges)
    )


def _order(row: tuple[list[str], str, str, list[str], list[str]]) -> str:
    """Return what rules are sorted by: their text in Go, which begins with the verbs."""
    verbs, group, resource, names, urls = row
    return f"Verbs:[{' '.join(verbs)}],[{group}],[{resource}],[{' '.join(names)}],[{' '.join(urls)}]"


async def role(client: Client, obj: Obj, now: datetime) -> str:
    """Describe a role or cluster role."""
    out = _head(obj, space=False)
    out += "PolicyRule:\n  Resources\tNon-Resource URLs\tResource Names\tVerbs\n"
    out += "  ---------\t-----------------\t--------------\t-----\n"
    merged: dict[tuple[str, str, tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for rule in obj.get("rules") or []:
        names = tuple(rule.get("resourceNames") or [])
        for group in rule.get("apiGroups") or [""]:
            for resource in rule.get("resources") or []:
                known = merged.setdefault((group, resource, names, ()), [])
                known += [verb for verb in rule["verbs"] if verb not in known]
        for url in rule.get("nonResourceURLs") or []:
            merged.setdefault(("", "", (), (url,)), []).extend(rule["verbs"])
    rows = [(verbs, group, resource, [*names], [*urls]) for (group, resource, names, urls), verbs in merged.items()]
    for verbs, group, resource, named, addresses in sorted(rows, key=_order):
        plural, slash, below = resource.partition("/")
        shown = plural + (f".{group}" if group else "") + slash + below
        out += f"  {shown}\t[{' '.join(addresses)}]\t[{' '.join(named)}]\t[{' '.join(verbs)}]\n"
    return out


async def binding(client: Client, obj: Obj, now: datetime) -> str:
    """Describe a role binding or cluster role binding."""
    out = _head(obj, space=False) + f"Role:\n  Kind:\t{obj['roleRef']['kind']}\n  Name:\t{obj['roleRef']['name']}\n"
    out += "Subjects:\n  Kind\tName\tNamespace\n  ----\t----\t---------\n"
    for each in obj.get("subjects") or []:
        out += f"  {each['kind']}\t{each['name']}\t{each.get('namespace', '')}\n"
    return out


async def pods_by_phase(client: Client, obj: Obj) -> str:
    """Return the line that counts the pods of a workload by phase."""
    labels = (obj["spec"].get("selector") or {}).get("matchLabels") or {}
    query = urlencode({"labelSelector": ",".join(f"{key}={value}" for key, value in labels.items())})
    path = f"/api/v1/namespaces/{obj['metadata']['namespace']}/pods?{query}"
    found = (await client.request("GET", path)).get("items") or []
    uid = obj["metadata"]["uid"]
    own = [pod for pod in found if any(each["uid"] == uid for each in pod["metadata"].get("ownerReferences") or [])]
    phases = [(pod.get("status") or {}).get("phase") for pod in own]
    running, waiting, succeeded, failed = (
        phases.count(name) for name in ("Running", "Pending", "Succeeded", "Failed")
    )
    return f"Pods Status:\t{running} Running / {waiting} Waiting / {succeeded} Succeeded / {failed} Failed\n"


async def daemon_set(client: Client, obj: Obj, now: datetime) -> str:
    """Describe a daemon set."""
    spec, status = obj["spec"], obj.get("status") or {}
    nodes = spec["template"]["spec"].get("nodeSelector") or {}
    out = _head(obj, marks=False) + f"Selector:\t{parts.selector(spec.get('selector'))}\n"
    out += f"Node-Selector:\t{','.join(f'{k}={v}' for k, v in sorted(nodes.items())) or '<none>'}\n"
    metadata = obj["metadata"]
    out += parts.marks(metadata)
    for title, key in (
        ("Desired Number of Nodes Scheduled", "desiredNumberScheduled"),
        ("Current Number of Nodes Scheduled", "currentNumberScheduled"),
        ("Number of Nodes Scheduled with Up-to-date Pods", "updatedNumberScheduled"),
        ("Number of Nodes Scheduled with Available Pods", "numberAvailable"),
        ("Number of Nodes Misscheduled", "numberMisscheduled"),
    ):
        out += f"{title}: {status.get(key, 0)}\n"
    return out + await pods_by_phase(client, obj) + parts.template(spec["template"])


async def stateful_set(client: Client, obj: Obj, now: datetime) -> str:
    """Describe a stateful set."""
    spec, status, metadata = obj["spec"], obj.get("status") or {}, obj["metadata"]
    out = _head(obj, marks=False) + f"CreationTimestamp:\t{parts.moment(metadata['creationTimestamp'])}\n"
    out += f"Selector:\t{parts.selector(spec.get('selector'))}\n"
    out += parts.marks(metadata)
    out += f"Replicas:\t{spec.get('replicas', 1)} desired | {status.get('replicas', 0)} total\n"
    strategy = spec.get("updateStrategy") or {}
    out += f"Update Strategy:\t{strategy.get('type', '')}\n"
    rolling = strategy.get("rollingUpdate") or {}
    out += f"  Partition:\t{rolling['partition']}\n" if "partition" in rolling else ""
    out += await pods_by_phase(client, obj) + parts.template(spec["template"])
    if not spec.get("volumeClaimTemplates"):
        return out + "Volume Claims:\t<none>\n"
    out += "Volume Claims:\n"
    for each in spec["volumeClaimTemplates"]:
        inner = each.get("spec") or {}
        meta = each["metadata"]
        out += f"  Name:\t{meta['name']}\n  StorageClass:\t{inner.get('storageClassName', '')}\n"
        out += (
            "  "
            + parts.labels("Labels", meta.get("labels"))
            + "  "
            + parts.labels("Annotations", meta.get("annotations"))
        )
        storage = ((inner.get("resources") or {}).get("requests") or {}).get("storage", "<default>")
        out += f"  Capacity:\t{storage}\n  Access Modes:\t[{' '.join(inner.get('accessModes') or [])}]\n"
    return out


async def claim(client: Client, obj: Obj, now: datetime) -> str:
    """Describe a claim of a volume."""
    spec, status, metadata = obj["spec"], obj.get("status") or {}, obj["metadata"]
    short = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
    bound = bool(spec.get("volumeName"))
    modes = ",".join(short.get(mode, mode) for mode in (status.get("accessModes") or []) if bound)
    path = f"/api/v1/namespaces/{metadata['namespace']}/pods"
    pods = (await client.request("GET", path)).get("items") or []
    users = [
        pod["metadata"]["name"]
        for pod in pods
        for volume in pod["spec"].get("volumes") or []
        if (volume.get("persistentVolumeClaim") or {}).get("claimName") == metadata["name"]
    ]
    state = (
        f"Terminating (lasts {since(metadata['deletionTimestamp'], now)})"
        if metadata.get("deletionTimestamp")
        else status.get("phase", "")
    )
    out = _head(obj, marks=False) + f"StorageClass:\t{spec.get('storageClassName', '')}\nStatus:\t{state}\n"
    out += f"Volume:\t{spec.get('volumeName', '')}\n"
    out += parts.marks(metadata)
    out += f"Finalizers:\t[{' '.join(metadata.get('finalizers') or [])}]\n"
    out += (
        f"Capacity:\t{(status.get('capacity') or {}).get('storage', '') if bound else ''}\nAccess Modes:\t{modes}\n"
    )
    out += f"VolumeMode:\t{spec.get('volumeMode', '')}\n"
    return out + "Used By:\t" + ("\n\t".join(users) or "<none>") + "\n"


WITHOUT_EVENTS = {"Secret", "ResourceQuota", "LimitRange", "Namespace", "Role", "ClusterRole", "RoleBinding",
                  "ClusterRoleBinding", "NetworkPolicy"}  # fmt: skip
"""The kinds of which describe tells no events."""
