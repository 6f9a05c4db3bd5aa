"""The rules of flow schemas and priority levels that are more than a line of the tables in ``rules/``."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from kubesim.admission.validation.metadata import dns_errors
from kubesim.admission.validation.rules import Place, check
from kubesim.api.status import FieldError, invalid_value, unsupported
from kubesim.errors import Obj

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch")
METHODS = ("ByNamespace", "ByUser")
MOST_BITS = 60
"""How many bits of a hash there are to deal a hand of queues."""
MEMBER = "each member of this list must be '*' or a DNS-1123 label; "


@check
def known_verbs(verbs: list[str], where: str, place: Place) -> Iterable[FieldError]:
    """Verbs that requests have, or all."""
    known = not verbs or "*" in verbs or {*verbs} <= {*VERBS}
    return () if known else (unsupported(where, verbs, VERBS),)


@check
def distinguisher(method: Obj, where: str, place: Place) -> Iterable[FieldError]:
    """What flows are told apart by; the answer shows the whole of it."""
    kind = method.get("type", "")
    return () if kind in METHODS else (unsupported(f"{where}.type", {"Type": kind}, METHODS),)


@check
def flow_namespaces(names: list[str], where: str, place: Place) -> Iterator[FieldError]:
    """Names of namespaces, or all."""
    for at, name in enumerate(names if "*" not in names else ()):
        yield from (invalid_value(f"{where}[{at}]", name, MEMBER + why) for why in dns_errors(name, "label"))


@check
def flow_paths(paths: list[str], where: str, place: Place) -> Iterator[FieldError]:
    """Paths that are no resources, or all."""
    for at, path in enumerate(paths if "*" not in paths else ()):
        if why := _wrong_path(path):
            yield invalid_value(f"{where}[{at}]", path, why)


def _wrong_path(path: str) -> str:
    if not path:
        return "must not be empty"
    if not path.startswith("/"):
        return "must start with slash"
    for sign, text in ((" ", "must not contain white-space"), ("//", "must not contain double slash")):
        if sign in path:
            return text
    stars = path.count("*")
    wrong = stars > 1 or (stars == 1 and not path.endswith("/*"))
    return "wildcard can only do suffix matching" if wrong else ""


@check
def hand(size: int, where: str, place: Place) -> Iterator[FieldError]:
    """A hand of queues that there are, and that a hash can deal."""
    queues = place.value.get("queues", 0)
    if size > queues and size > 0:
        yield invalid_value(where, size, f"should not be greater than queues ({queues})")
    elif size > 0 and math.ceil(math.log2(queues) * size) > MOST_BITS:
        wanted = f"required entropy bits of deckSize {queues} and handSize {size}"
        yield invalid_value(where, size, f"{wanted} should not be greater than {MOST_BITS}")
