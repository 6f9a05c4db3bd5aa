"""The rules of events: new ones, which have an eventTime, say who reports what was done; old ones just lie right."""

from __future__ import annotations

from collections.abc import Iterator

from kubesim.admission.validation.rules import Place, check
from kubesim.api.selectors import key_errors
from kubesim.api.status import FieldError, invalid_value, required
from kubesim.errors import Obj

MOST = {"reportingInstance": 128, "action": 128, "reason": 128, "message": 1024}
ELSEWHERE = "does not match event.namespace"
UNSET = ("firstTimestamp", "lastTimestamp", "count", "source")


@check
def event(value: Obj, where: str, place: Place, reporter: str) -> Iterator[FieldError]:
    """An event; ``reporter`` is how the version that is asked calls who reports it."""
    namespace, about = (
        value["metadata"].get("namespace", ""),
        (value.get("involvedObject") or {}).get("namespace", ""),
    )
    if not value.get("eventTime"):
        if namespace != about and (about or namespace != "default"):
            yield invalid_value("involvedObject.namespace", about, ELSEWHERE)
        return
    if not about and namespace not in ("default", "kube-system"):
        yield invalid_value("involvedObject.namespace", about, ELSEWHERE)
    name = value.get("reportingComponent", "")
    if not name:
        yield required(reporter)
    yield from (invalid_value(reporter, name, why) for why in key_errors(name))
    for field, most in MOST.items():
        text = value.get(field, "")
        if not text and field != "message":
            yield required(field)
        if len(text.encode()) > most:
            yield invalid_value(field, "", f"can have at most {most} characters")


@check
def strict_event(value: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """An event of the newer API, in which nothing is left of the older one."""
    series = value.get("series")
    if series is not None and series.get("count", 0) < 2:
        yield invalid_value("series.count", "", "should be at least 2")
    if series is not None and not series.get("lastObservedTime"):
        yield required("series.lastObservedTime")
    if not value.get("eventTime"):
        yield required("eventTime")
    if value.get("type", "") not in ("Normal", "Warning"):
        yield invalid_value("type", "", f"has invalid value: {value.get('type', '')}")
    yield from (invalid_value(field, "", "needs to be unset") for field in UNSET if value.get(field))
