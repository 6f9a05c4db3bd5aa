"""What describe says of cron jobs, autoscalers and replication controllers; lines with tabs, to be aligned."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from kubesim.shell.kubectl import describe_parts as parts
from kubesim.shell.kubectl.client import Client, Obj
from kubesim.shell.kubectl.describe_more import pods_by_phase

UNKNOWN = "<unknown>"


def _head(metadata: Obj) -> str:
    return f"Name:\t{metadata['name']}\nNamespace:\t{metadata.get('namespace', '')}\n"


def _or_unset(value: Any, suffix: str = "") -> str:
    return "<unset>" if value is None else f"{value}{suffix}"


async def cron_job(client: Client, obj: Obj, now: datetime) -> str:
    """Describe a cron job."""
    spec, status = obj["spec"], obj.get("status") or {}
    job = (spec.get("jobTemplate") or {}).get("spec") or {}
    out = _head(obj["metadata"]) + parts.marks(obj["metadata"])
    out += f"Schedule:\t{spec.get('schedule', '')}\nConcurrency Policy:\t{spec.get('concurrencyPolicy', '')}\n"
    out += f"Suspend:\t{_or_unset(spec.get('suspend'))}\n"
    out += f"Successful Job History Limit:\t{_or_unset(spec.get('successfulJobsHistoryLimit'))}\n"
    out += f"Failed Job History Limit:\t{_or_unset(spec.get('failedJobsHistoryLimit'))}\n"
    out += f"Starting Deadline Seconds:\t{_or_unset(spec.get('startingDeadlineSeconds'), 's')}\n"
    out += f"Selector:\t{parts.selector(job['selector']) if job.get('selector') else '<unset>'}\n"
    out += f"Parallelism:\t{_or_unset(job.get('parallelism'))}\nCompletions:\t{_or_unset(job.get('completions'))}\n"
    limit = job.get("activeDeadlineSeconds")
    out += f"Active Deadline Seconds:\t{limit}s\n" if limit is not None else ""
    out += parts.template(job.get("template") or {})
    last = status.get("lastScheduleTime")
    out += f"Last Schedule Time:\t{parts.moment(last) if last else '<unset>'}\n"
    return out + f"Active Jobs:\t{', '.join(each['name'] for each in status.get('active') or []) or '<none>'}\n"


async def replication_controller(client: Client, obj: Obj, now: datetime) -> str:
    """Describe a replication controller."""
    spec, status = obj["spec"], obj.get("status") or {}
    chosen = ",".join(f"{key}={value}" for key, value in sorted((spec.get("selector") or {}).items()))
    out = _head(obj["metadata"]) + f"Selector:\t{chosen or '<none>'}\n" + parts.marks(obj["metadata"])
    out += f"Replicas:\t{status.get('replicas', 0)} current / {spec.get('replicas', 1)} desired\n"
    out += await pods_by_phase(client, {**obj, "spec": {"selector": {"matchLabels": spec.get("selector") or {}}}})
    out += parts.template(spec.get("template") or {})
    found = status.get("conditions") or []
    lines = "".join(f"  {each['type']} \t{each['status']}\t{each.get('reason', '')}\n" for each in found)
    return out + ("Conditions:\n  Type\tStatus\tReason\n  ----\t------\t------\n" + lines if found else "")


async def autoscaler(client: Client, obj: Obj, now: datetime) -> str:
    """Describe a horizontal pod autoscaler."""
    spec, status, metadata = obj["spec"], obj.get("status") or {}, obj["metadata"]
    target = spec["scaleTargetRef"]
    out = _head(metadata) + parts.marks(metadata)
    out += f"CreationTimestamp:\t{parts.moment(metadata['creationTimestamp'])}\n"
    out += f"Reference:\t{target['kind']}/{target['name']}\nMetrics:\t( current / target )\n"
    current = status.get("currentMetrics") or []
    for at, metric in enumerate(spec.get("metrics") or []):
        out += _metric(metric, current[at] if at < len(current) else {})
    out += f"Min replicas:\t{_or_unset(spec.get('minReplicas'))}\nMax replicas:\t{spec['maxReplicas']}\n"
    if "behavior" in spec:
        out += "Behavior:\n"
        for title, key in (("Scale Up", "scaleUp"), ("Scale Down", "scaleDown")):
            out += _behaviour(title, spec["behavior"][key]) if key in spec["behavior"] else ""
    counts = f"{status.get('currentReplicas', 0)} current / {status.get('desiredReplicas', 0)} desired"
    out += f"{target['kind']} pods:\t{counts}\n"
    found = status.get("conditions") or []
    out += "Conditions:\n  Type\tStatus\tReason\tMessage\n  ----\t------\t------\t-------\n" if found else ""
    for each in found:
        out += f"  {each['type']}\t{each['status']}\t{each.get('reason', '')}\t{each.get('message', '')}\n"
    return out


def _metric(metric: Obj, now: Obj) -> str:
    kind = metric["type"]
    key = kind[:1].lower() + kind[1:]
    wanted, current = metric.get(key) or {}, (now.get(key) or {}).get("current") or {}
    target = wanted.get("target") or {}
    average = target.get("averageValue")
    amount = current.get("averageValue" if average is not None else "value", UNKNOWN)
    goal = average if average is not None else target.get("value")
    name = (wanted.get("metric") or {}).get("name", "")
    if kind == "Pods":
        return f'  "{name}" on pods:\t{current.get("averageValue", UNKNOWN)} / {average}\n'
    if kind in ("Object", "External"):
        place = wanted.get("describedObject") or {}
        where = f" on {place.get('kind')}/{place.get('name')}" if kind == "Object" else ""
        sort = "target average value" if average is not None else "target value"
        return f'  "{name}"{where} ({sort}):\t{amount} / {goal}\n'
    if kind not in ("Resource", "ContainerResource"):
        return f'  <unknown metric type "{kind}">\n'
    inside = f' of container "{wanted["container"]}"' if kind == "ContainerResource" else ""
    head = f"  resource {wanted['name']}{inside} on pods"
    if average is not None:
        return f"{head}:\t{amount} / {average}\n"
    used = current.get("averageUtilization")
    shown = f"{used}% ({current.get('averageValue', '0')})" if used is not None else UNKNOWN
    part = f"{target['averageUtilization']}%" if "averageUtilization" in target else "<auto>"
    return f"{head}  (as a percentage of request):\t{shown} / {part}\n"


def _behaviour(title: str, rules: Obj) -> str:
    out = f"  {title}:\n"
    seconds = rules.get("stabilizationWindowSeconds")
    out += f"    Stabilization Window: {seconds} seconds\n" if seconds is not None else ""
    found = rules.get("policies") or []
    out += f"    Select Policy: {rules.get('selectPolicy') or 'Max'}\n    Policies:\n" if found else ""
    for each in found:
        period = f"Period: {each['periodSeconds']} seconds"
        out += f"      - Type: {each['type']}\tValue: {each['value']}\t{period}\n"
    return out
