"""The rules of statuses that are more than a line of the tables in ``rules/``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kubesim.admission.validation.bounds import amount_errors
from kubesim.admission.validation.checks import repeated
from kubesim.admission.validation.rules import Place, check, errors_of
from kubesim.api.quantity import parse
from kubesim.api.selectors import key_errors
from kubesim.api.status import FieldError, duplicate, invalid_value, unsupported
from kubesim.errors import Obj

NOT_NEGATIVE = "must be greater than or equal to 0"
MOST_DIGITS = 18
"""Of what surely is a number of 64 bits."""
ENDS = ("Complete", "Failed")
CONDITIONS = (*ENDS, "FailureTarget", "SuccessCriteriaMet")
COMPARED = (
    *("active", "ready", "terminating", "startTime", "completionTime", "completedIndexes", "failedIndexes"),
    "uncountedTerminatedPods",
)


@check
def counts(status: Obj, where: str, place: Place, names: Sequence[str]) -> Iterator[FieldError]:
    """Numbers of which none is below nought."""
    prefix = f"{where}." if where else ""
    for name in names:
        if (status.get(name) or 0) < 0:
            yield invalid_value(f"{prefix}{name}", status[name], NOT_NEGATIVE)


@check
def within(
    status: Obj, where: str, place: Place, most: str, those: Sequence[str], called: str = ""
) -> Iterator[FieldError]:
    """Numbers of which none is above another one."""
    for name in those:
        if (status.get(name) or 0) > (status.get(most) or 0):
            why = f"cannot be greater than {called or f'status.{most}'}"
            yield invalid_value(f"{where}.{name}", status.get(name) or 0, why)


def decremented(old: Obj, new: Obj) -> list[FieldError]:
    """How many names were taken already is never forgotten."""
    before, after = (obj.get("status", {}).get("collisionCount") for obj in (old, new))
    if before is None or (after is not None and after >= before):
        return []
    return [invalid_value("status.collisionCount", after or 0, "cannot be decremented")]


@check
def amounts(quantities: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """What a node has; the paths are written as upstream writes them."""
    for name, value in sorted(quantities.items()):
        yield from amount_errors(name, value, f"{where}.{name}")


@check
def addresses(entries: list[Obj], where: str, place: Place) -> Iterator[FieldError]:
    """The addresses of a node, each once."""
    again = repeated(entries)
    for at, entry in enumerate(entries):
        if at in again:
            shown = {"Type": entry.get("type", ""), "Address": entry.get("address", "")}
            yield duplicate(f"{where}[{at}]", shown)


@check
def no_less(quantities: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """Quantities of which none is below nought."""
    for name, value in sorted(quantities.items()):
        yield from _valid(name, value, where)


def _valid(name: str, value: str, where: str) -> Iterator[FieldError]:
    if (amount := parse(value)) < 0:
        yield invalid_value(f"{where}[{name}]", int(amount), "must be a valid resource quantity")


@check
def allocated(quantities: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """What a claim has been given of its growth."""
    for name, value in sorted(quantities.items()):
        yield from _claimed(name, where) or [*_valid(name, value, where)]


@check
def resizes(states: Obj, where: str, place: Place, choices: Sequence[str]) -> Iterator[FieldError]:
    """How far each growth of a claim is."""
    for name, state in sorted(states.items()):
        yield from _claimed(name, where)
        if state not in choices:
            yield unsupported(where, name, tuple(choices))


def _claimed(name: str, where: str) -> list[FieldError]:
    """Return what is wrong with the name of something that a claim can have."""
    errors = [invalid_value(where, name, why) for why in key_errors(name)]
    if not errors and "/" not in name and name != "storage":
        errors.append(unsupported(where, name, ("storage",)))
    return errors


def job_errors(old: Obj, new: Obj) -> list[FieldError]:
    """A job goes forward: what it has come to stays, and fits together."""
    return errors_of("types", "JobStatus", Place(_facts(old, new), "status"))


def _facts(old: Obj, new: Obj) -> Obj:
    """Return a job's status with what the rules ask beside: what holds, what does not, what has changed."""
    before, after, spec = old.get("status", {}), new.get("status", {}), new["spec"]
    was, now = _holding(before, before, spec), _holding(before, after, spec)
    pods = after.get("uncountedTerminatedPods") or {}
    return {
        **after,
        "spec": spec,
        "holding": sorted(now),
        "lacking": sorted({*CONDITIONS, "idle"} - now),
        "was": sorted(was),
        "lacked": sorted({*CONDITIONS} - was),
        "changed": [*(was ^ now), *(name for name in COMPARED if before.get(name) != after.get(name))],
        "uncounted": {part.capitalize(): pods.get(part) for part in ("succeeded", "failed")}
        if any(pods.values())
        else None,
    }


def _holding(before: Obj, status: Obj, spec: Obj) -> set[str]:
    """Return the conditions that are true of a job, and other words of the table for what holds."""
    found = {entry.get("type", "") for entry in status.get("conditions") or () if entry.get("status") == "True"}
    begun, ended, ended_before = (status.get("startTime"), status.get("completionTime"), before.get("completionTime"))
    resuming = _suspended(before, "True") and _suspended(status, "False")
    same = spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism")
    return found | {
        word
        for word, holds in {
            "finished": found & {*ENDS},
            "idle": spec.get("suspend") and spec.get("completions") == 0,
            "complete before start": begun and ended and ended < begun,
            "more ready than active": (status.get("ready") or 0) > (status.get("active") or 0),
            "less failed": status.get("failed", 0) < before.get("failed", 0),
            "less succeeded": status.get("succeeded", 0) < before.get("succeeded", 0) and not same,
            "other completion": ended and ended_before and ended != ended_before,
            "other start": before.get("startTime") not in (None, begun) and not spec.get("suspend") and not resuming,
        }.items()
        if holds
    }


def _suspended(status: Obj, state: str) -> bool:
    found = status.get("conditions") or ()
    return any((entry.get("type"), entry.get("status")) == ("Suspended", state) for entry in found)


@check
def uncounted(pods: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """The uids of pods that have ended, each once."""
    seen: set[str] = set()
    for part in ("succeeded", "failed"):
        for at, uid in enumerate(pods.get(part) or ()):
            if not uid:
                yield invalid_value(f"{where}.{part}[{at}]", uid, "must not be empty")
            elif uid in seen:
                yield duplicate(f"{where}.{part}[{at}]", uid)
            seen.add(uid)


@check
def indexes(text: str, where: str, place: Place, name: str) -> Iterator[FieldError]:
    """Indexes of an indexed job: ``0,2-4``."""
    last = -1
    for part in text.split(",") if text else ():
        low, high, why = interval(part, place.value["spec"]["completions"])
        if not why and last >= low:
            why = f"non-increasing order, previous: {last}, current: {low}"
        if why:
            yield invalid_value(where, text, f"error parsing {name}: {why}")
            return
        last = high


def interval(text: str, completions: int) -> tuple[int, int, str]:
    """Return (first, last, what is wrong) of a part of a list of indexes like ``0,2-4``."""
    limits = text.split("-")
    if len(limits) > 2:
        rule = "violates the requirement that an index interval can have at most two parts separated by '-'"
        return 0, 0, f'the fragment "{text}" {rule}'
    numbers = [limit.removeprefix("+") for limit in limits]
    for limit, digits in zip(limits, numbers, strict=True):
        if not digits.isascii() or not digits.isdigit() or len(digits.lstrip("0")) > MOST_DIGITS:
            return 0, 0, f'cannot convert string to integer for index: "{limit}"'
        if int(digits.lstrip("0") or "0") >= completions:
            return 0, 0, f'too large index: "{limit}"'
    low, high = (int(numbers[at].lstrip("0") or "0") for at in (0, -1))
    if len(limits) == 2 and low >= high:
        return 0, 0, f"non-increasing order, previous: {low}, current: {high}"
    return low, high, ""


@check
def apart(failed: str, where: str, place: Place) -> Iterator[FieldError]:
    """No index has both failed and been completed; what cannot be read is told elsewhere."""
    texts = (place.value.get("completedIndexes") or "", failed)
    done, lost = (_readable(text, place.value["spec"]["completions"]) for text in texts)
    while done and lost:
        (low, high), (other_low, other_high) = done[-1], lost[-1]
        if low <= other_high and other_low <= high:
            why = f"failedIndexes and completedIndexes overlap at index: {max(low, other_low)}"
            yield invalid_value(where, failed, why)
            return
        (done if low <= other_low else lost).pop()


def _readable(text: str, completions: int) -> list[tuple[int, int]]:
    """Return the intervals of such a list that can be read, the first one last."""
    found = (interval(part, completions) for part in reversed(text.split(",")))
    return [(low, high) for low, high, why in found if not why]
