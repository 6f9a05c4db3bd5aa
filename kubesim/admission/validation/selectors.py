"""What may be said to choose objects and nodes: selectors, tolerations, spreading and affinity."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from kubesim.admission.validation.checks import first_places
from kubesim.admission.validation.rules import Place, check
from kubesim.api.selectors import key_errors, value_errors
from kubesim.api.status import FieldError, duplicate, invalid_value, required
from kubesim.errors import Obj
from kubesim.schema.paths import dig

MAX_REPEATS_TOLD = 1_000
"""Upstream tells of every pair of terms that are alike: of very many, no more than these."""


@check
def topologies(terms: list[Obj], where: str, place: Place) -> Iterator[FieldError]:
    """Where volumes may be made: upstream takes a term without expressions for one that it knows already."""
    known = Counter({frozenset(): len(terms)})  # type: Counter[frozenset[tuple[str, frozenset[str]]]]
    told = 0
    for at, term in enumerate(terms):
        path, found = f"{where}[{at}].matchLabelExpressions", {}  # type: str, dict[str, frozenset[str]]
        for number, entry in enumerate(term.get("matchLabelExpressions") or ()):
            yield from _topology_errors(entry, f"{path}[{number}]")
            if entry.get("key", "") in found:
                yield duplicate(f"{path}[{number}].key", entry.get("key", ""))
            found[entry.get("key", "")] = frozenset(entry.get("values") or ())
        term_key = frozenset(found.items())
        again = min(known[term_key], MAX_REPEATS_TOLD - told)
        yield from (duplicate(path, "") for _ in range(again))
        told += again
        known[term_key] += 1


def _topology_errors(entry: Obj, path: str) -> Iterator[FieldError]:
    values, key = entry.get("values") or [], entry.get("key", "")
    if not values:
        yield required(f"{path}.values")
    first = first_places(values)
    for at, value in enumerate(values):
        if first[value] < at:
            yield duplicate(f"{path}.values[{at}]", value)
    yield from (invalid_value(f"{path}.key", key, why) for why in key_errors(key))


@check
def tolerated(value: str, where: str, place: Place) -> Iterator[FieldError]:
    """The value of a taint that a pod tolerates; all that is wrong with it is one error."""
    if wrong := value_errors(value):
        yield invalid_value(where, value, ";".join(wrong))


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
