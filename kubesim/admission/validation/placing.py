"""Where a pod may run: tolerations, spreading and affinity, beyond the lines of the tables in ``rules/``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kubesim.admission.validation.rules import Place, check
from kubesim.api.selectors import key_errors, value_errors
from kubesim.api.status import FieldError, duplicate, forbidden_field, invalid_value
from kubesim.errors import Obj
from kubesim.schema.paths import dig

NO_SELECTOR = "must not be specified when labelSelector is not set"


@check
def tolerated(value: str, where: str, place: Place) -> Iterator[FieldError]:
    """The value of a taint that a pod tolerates; all that is wrong with it is one error."""
    if wrong := value_errors(value):
        yield invalid_value(where, value, ";".join(wrong))


@check
def gates(values: list[Obj], where: str, place: Place) -> Iterator[FieldError]:
    """What a pod waits for before it is scheduled, each once."""
    seen: set[str] = set()
    for at, gate in enumerate(values):
        name = gate.get("name", "")
        yield from (invalid_value(f"{where}[{at}]", name, why) for why in key_errors(name))
        if name in seen:
            yield duplicate(f"{where}[{at}]", name)
        seen.add(name)


@check
def label_keys(keys: list[str], where: str, place: Place) -> Iterator[FieldError]:
    """Keys of a pod's own labels, by which others are told from it."""
    if keys and place.value.get("labelSelector") is None:
        yield forbidden_field(where, NO_SELECTOR)
        return
    for at, key in enumerate(keys):
        yield from (invalid_value(f"{where}[{at}]", key, why) for why in key_errors(key))


@check
def selected_once(keys: list[str], where: str, place: Place) -> Iterator[FieldError]:
    """Keys of labels that are chosen by in one way: by the pod's own, by others', or by the selector."""
    selector = place.value.get("labelSelector") or {}
    places = {key: at for at, key in enumerate(keys)}
    known = set(selector.get("matchLabels") or ())
    for term in selector.get("matchExpressions") or ():
        key = term.get("key", "")
        if key in places and key in known:
            why = "exists in both matchLabelKeys and labelSelector"
            yield invalid_value(f"{place.path}[{places[key]}]", key, why)
        known.add(key)
    others = set(place.value.get("mismatchLabelKeys") or ())
    for at, key in enumerate(keys):
        if key in others:
            yield invalid_value(f"{where}[{at}]", key, "exists in both matchLabelKeys and mismatchLabelKeys")


@check
def unlike_those_after(entry: Obj, where: str, place: Place, fields: Sequence[str]) -> Iterator[FieldError]:
    """An entry of a list, none of which after it has the same in some fields together."""
    path, _, at = place.path.removesuffix("]").rpartition("[")
    above = place.above
    shown = [entry.get(field, "") for field in fields]

    def find() -> dict[tuple[str, ...], int]:
        siblings = dig(above.value, path[len(above.path) :].removeprefix(".")) if above else ()
        return {tuple(other.get(field, "") for field in fields): number for number, other in enumerate(siblings)}

    if above is not None and above.known(f"last {fields} of {path}", find)[tuple(shown)] > int(at):
        yield duplicate(f"{where}.{{{', '.join(fields)}}}", f"{{{', '.join(shown)}}}")


@check
def few_domains(count: int, where: str, place: Place) -> Iterator[FieldError]:
    """The least number of domains, which only a constraint that must be fulfilled has."""
    action = place.value.get("whenUnsatisfiable", "")
    if action != "DoNotSchedule":
        why = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        yield invalid_value(where, count, why)
