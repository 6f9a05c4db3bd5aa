"""What describe says of volumes, and of classes of storage and ingress; lines with tabs, to be aligned."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from kubesim.api.durations import since
from kubesim.shell.kubectl import describe_parts as parts
from kubesim.shell.kubectl.client import Client, Obj

SHORT = (("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP"))
DEFAULTS = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")


def _pairs(found: Obj | None) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted((found or {}).items())) or "<none>"


def _flag(value: Any) -> str:
    return "<unset>" if value is None else str(bool(value))


def modes(found: list[str] | None) -> str:
    """Return access modes in their short forms and upstream's order."""
    return ",".join(short for mode, short in SHORT if mode in (found or []))


def _term(title: str, requirements: list[Obj], space: str) -> str:
    lines = []
    for each in requirements:
        values = f" [{', '.join(each['values'])}]" if each.get("values") else ""
        lines.append(f"{each['key']} {each.get('operator', 'In').lower()}{values}\n")
    return f"{space}{title}:\t" + (f"{space}\t".join(lines) or "<none>\n")


async def volume(client: Client, obj: Obj, now: datetime) -> str:
    """Describe a persistent volume."""
    spec, status, metadata = obj["spec"], obj.get("status") or {}, obj["metadata"]
    gone = metadata.get("deletionTimestamp")
    state = f"Terminating (lasts {since(gone, now)})" if gone else status.get("phase", "")
    claim = spec.get("claimRef") or {}
    shown = f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else ""
    out = f"Name:\t{metadata['name']}\n" + parts.marks(metadata)
    out += f"Finalizers:\t[{' '.join(metadata.get('finalizers') or [])}]\n"
    out += f"StorageClass:\t{spec.get('storageClassName', '')}\nStatus:\t{state}\nClaim:\t{shown}\n"
    out += f"Reclaim Policy:\t{spec.get('persistentVolumeReclaimPolicy', '')}\n"
    out += f"Access Modes:\t{modes(spec.get('accessModes'))}\n"
    out += f"VolumeMode:\t{spec['volumeMode']}\n" if spec.get("volumeMode") else ""
    out += f"Capacity:\t{(spec.get('capacity') or {}).get('storage', '0')}\n"
    out += _affinity(spec.get("nodeAffinity")) + f"Message:\t{status.get('message', '')}\nSource:\n"
    kind = next((key for key in parts.VOLUMES if key in spec), "")
    if kind == "csi":
        return out + parts.csi(spec["csi"], "volumeHandle")
    return out + (parts.source(kind, spec[kind]) if kind else "  <unknown>\n")


def _affinity(found: Obj | None) -> str:
    if not found:
        return "Node Affinity:\t<none>\n"
    out = "Node Affinity:\t\n"
    if "required" in found:
        terms = found["required"].get("nodeSelectorTerms") or []
        out += "  Required Terms:\t" + ("\n" if terms else "<none>\n")
        for at, term in enumerate(terms):
            out += _term(f"Term {at}", term.get("matchExpressions") or [], "    ")
    return out


async def storage_class(client: Client, obj: Obj, now: datetime) -> str:
    """Describe a class of storage."""
    notes = obj["metadata"].get("annotations") or {}
    default = "Yes" if any(notes.get(name) == "true" for name in DEFAULTS) else "No"
    out = f"Name:\t{obj['metadata']['name']}\nIsDefaultClass:\t{default}\nAnnotations:\t{_pairs(notes)}\n"
    out += f"Provisioner:\t{obj.get('provisioner', '')}\nParameters:\t{_pairs(obj.get('parameters'))}\n"
    out += f"AllowVolumeExpansion:\t{_flag(obj.get('allowVolumeExpansion'))}\n"
    options = obj.get("mountOptions") or []
    out += "MountOptions:\n" + "".join(f"  {each}\n" for each in options) if options else "MountOptions:\t<none>\n"
    for title, key in (("ReclaimPolicy", "reclaimPolicy"), ("VolumeBindingMode", "volumeBindingMode")):
        out += f"{title}:\t{obj[key]}\n" if key in obj else ""
    if "allowedTopologies" in obj:
        out += "AllowedTopologies:\t\n"
        for at, term in enumerate(obj["allowedTopologies"]):
            out += _term(f"Term {at}", term.get("matchLabelExpressions") or [], "  ")
    return out


async def ingress_class(client: Client, obj: Obj, now: datetime) -> str:
    """Describe a class of ingresses."""
    out = f"Name:\t{obj['metadata']['name']}\n" + parts.marks(obj["metadata"])
    out += f"Controller:\t{obj['spec'].get('controller', '')}\n"
    if found := obj["spec"].get("parameters"):
        out += "Parameters:\n" + (f"  APIGroup:\t{found['apiGroup']}\n" if found.get("apiGroup") else "")
        out += f"  Kind:\t{found.get('kind', '')}\n  Name:\t{found.get('name', '')}\n"
    return out
