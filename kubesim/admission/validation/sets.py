"""The rules of stateful sets, daemon sets, cron jobs and replication controllers."""

from __future__ import annotations

from collections.abc import Iterator
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from kubesim.admission.validation.rules import all_errors, dns, least, need, one_of
from kubesim.admission.validation.workloads import JOB_COUNTS, always_errors, selector_errors, template_errors
from kubesim.api import cron
from kubesim.api.status import FieldError, forbidden_field, invalid_value, required, unsupported
from kubesim.errors import Obj

COUNTS = tuple(least(f"spec.{name}") for name in ("replicas", "minReadySeconds"))
POLICY = "spec.persistentVolumeClaimRetentionPolicy"
STATEFUL = (
    *COUNTS,
    least("spec.updateStrategy.rollingUpdate.partition"),
    least("spec.ordinals.start"),
    dns("spec.serviceName", "label"),
    one_of(f"{POLICY}.whenDeleted", "Retain", "Delete"),
    one_of(f"{POLICY}.whenScaled", "Retain", "Delete"),
)
CRON = (
    need("spec.schedule"),
    one_of("spec.concurrencyPolicy", "Allow", "Forbid", "Replace"),
    least("spec.startingDeadlineSeconds"),
    least("spec.successfulJobsHistoryLimit"),
    least("spec.failedJobsHistoryLimit"),
    *(least(f"spec.jobTemplate.spec.{name}") for name in JOB_COUNTS),
)
LONGEST_CRON = 52
UNCHANGED = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)
FREE = (
    *("replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit", "minReadySeconds"),
    "persistentVolumeClaimRetentionPolicy",
)


def _shown(strategy: Obj, *fields: str) -> Obj:
    """Return an update strategy as the API server has it in memory."""
    rolling = strategy.get("rollingUpdate")
    inner = {name[:1].upper() + name[1:]: rolling.get(name) for name in fields} if rolling else None
    return {"Type": strategy.get("type", ""), "RollingUpdate": inner}


def stateful_set_errors(obj: Obj) -> list[FieldError]:
    """Return what is wrong with a StatefulSet."""
    spec, name = obj.get("spec") or {}, obj["metadata"].get("name", "")
    errors = [invalid_value("metadata.name", name, "must not contain dots")] if "." in name else []
    policy, strategy = spec.get("podManagementPolicy"), spec.get("updateStrategy") or {}
    if policy not in ("OrderedReady", "Parallel"):
        why = "must be 'OrderedReady' or 'Parallel'"
        errors.append(invalid_value("spec.podManagementPolicy", policy or "", why))
    if strategy.get("type") == "OnDelete" and strategy.get("rollingUpdate"):
        shown = _shown(strategy, "partition", "maxUnavailable")["RollingUpdate"]
        why = "only allowed for updateStrategy 'RollingUpdate'"
        errors.append(invalid_value("spec.updateStrategy.rollingUpdate", shown, why))
    elif strategy.get("type") not in ("OnDelete", "RollingUpdate"):
        shown = _shown(strategy, "partition", "maxUnavailable")
        errors.append(invalid_value("spec.updateStrategy", shown, "must be 'RollingUpdate' or 'OnDelete'"))
    errors += all_errors(STATEFUL, obj)
    return [*errors, *selector_errors(_with_claims(spec), "statefulset"), *always_errors(spec)]


def _with_claims(spec: Obj) -> Obj:
    """Return the specification with a volume for each claim, as its pods will have it."""
    template, claims = spec.get("template") or {}, spec.get("volumeClaimTemplates")
    if not claims:
        return spec
    pod = template.get("spec") or {}
    names = [claim.get("metadata", {}).get("name", "") for claim in claims]
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
    kept = [volume for volume in pod.get("volumes") or () if volume.get("name") not in names]
    return {**spec, "template": {**template, "spec": {**pod, "volumes": [*kept, *volumes]}}}


def stateful_set_update_errors(old: Obj, new: Obj) -> list[FieldError]:
    """A stateful set keeps its selector, its service and its claims."""
    kept = [{k: v for k, v in obj["spec"].items() if k not in FREE} for obj in (old, new)]
    for spec in kept:
        spec["volumeClaimTemplates"] = [
            {name: value for name, value in template.items() if name != "status"}
            for template in spec.get("volumeClaimTemplates", ())
        ]
    return [] if kept[0] == kept[1] else [forbidden_field("spec", UNCHANGED)]


def daemon_set_errors(obj: Obj) -> list[FieldError]:
    """Return what is wrong with a DaemonSet."""
    spec = obj.get("spec") or {}
    strategy, path = spec.get("updateStrategy") or {}, "spec.updateStrategy.rollingUpdate"
    errors = [
        *all_errors((*COUNTS, least("spec.revisionHistoryLimit")), obj),
        *selector_errors(spec, "daemonset"),
        *always_errors(spec),
    ]
    if strategy.get("type") not in ("OnDelete", "RollingUpdate"):
        shown = _shown(strategy, "maxUnavailable", "maxSurge")
        errors.append(unsupported("spec.updateStrategy", shown, ("RollingUpdate", "OnDelete")))
    rolling = strategy.get("rollingUpdate") or {}
    away, more = (rolling.get(name, 0) not in (0, "0", "0%") for name in ("maxUnavailable", "maxSurge"))
    if strategy.get("type") == "RollingUpdate" and not away and not more:
        errors.append(required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0"))
    elif away and more:
        why = "may not be set when maxUnavailable is non-zero"
        errors.append(invalid_value(f"{path}.maxSurge", rolling["maxSurge"], why))
    template = (spec.get("template") or {}).get("spec") or {}
    if template.get("activeDeadlineSeconds") is not None:
        why = "activeDeadlineSeconds in DaemonSet is not Supported"
        errors.append(forbidden_field("spec.template.spec.activeDeadlineSeconds", why))
    return errors


def replication_controller_errors(obj: Obj) -> list[FieldError]:
    """Return what is wrong with a ReplicationController."""
    spec = obj.get("spec") or {}
    errors = all_errors(COUNTS[:2], obj)
    if not spec.get("selector"):
        errors.append(required("spec.selector"))
    if not spec.get("template"):
        return [*errors, required("spec.template")]
    labels = (spec["template"].get("metadata") or {}).get("labels") or {}
    if not (spec.get("selector") or {}).items() <= labels.items():
        why = "`selector` does not match template `labels`"
        errors.append(invalid_value("spec.template.metadata.labels", labels or None, why))
    return [*errors, *template_errors(spec), *always_errors(spec)]


def cron_job_errors(obj: Obj) -> list[FieldError]:
    """Return what is wrong with a CronJob."""
    spec, name = obj.get("spec") or {}, obj["metadata"].get("name", "")
    errors = [*all_errors(CRON, obj), *_schedule_errors(spec), *_zone_errors(spec)]
    template, path = (spec.get("jobTemplate") or {}).get("spec") or {}, "spec.jobTemplate.spec"
    errors += template_errors(template, path)
    policy = ((template.get("template") or {}).get("spec") or {}).get("restartPolicy")
    if policy == "Always":
        errors.append(required(f"{path}.template.spec.restartPolicy", 'valid values: "OnFailure", "Never"'))
    elif policy is not None and policy not in ("OnFailure", "Never"):
        errors.append(unsupported(f"{path}.template.spec.restartPolicy", policy, ("OnFailure", "Never")))
    if len(name) > LONGEST_CRON:
        errors.append(invalid_value("metadata.name", name, f"must be no more than {LONGEST_CRON} characters"))
    return errors


def _schedule_errors(spec: Obj) -> Iterator[FieldError]:
    schedule = spec.get("schedule", "")
    if "TZ" in schedule:
        why = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        yield invalid_value("spec.schedule", schedule, why)
    elif schedule:
        try:
            cron.parse(schedule)
        except cron.ScheduleError as error:
            yield invalid_value("spec.schedule", schedule, str(error))


def _zone_errors(spec: Obj) -> Iterator[FieldError]:
    zone = spec.get("timeZone")
    if zone is None:
        return
    if zone == "":
        yield invalid_value("spec.timeZone", zone, "timeZone must be nil or non-empty string")
    elif zone.lower() == "local":
        why = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        yield invalid_value("spec.timeZone", zone, why)
    else:
        try:
            ZoneInfo(zone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            yield invalid_value("spec.timeZone", zone, f"unknown time zone {zone}")
