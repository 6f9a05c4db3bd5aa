"""Checks of the options of a request, by the rules in ``admission/validation/rules/options.yaml``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kubesim.admission.validation.rules import Place, check, errors_of
from kubesim.api.negotiate import parse_bool
from kubesim.api.status import FieldError, invalid, invalid_value, unsupported
from kubesim.errors import Obj
from kubesim.schema.registry import Kind

NAMES = {"create": "CreateOptions", "update": "UpdateOptions", "patch": "PatchOptions"}
MAX_MANAGER = 128


def check_write(verb: str, given: Obj) -> None:
    """Raise 422 with everything that is wrong with the options of a create, update or patch.

    ``given`` has them as the query does; ``applies`` says that it is a server-side apply.
    """
    _check(NAMES[verb], given, "WriteOptions")


def check_delete(wanted: Obj) -> None:
    """Raise 422 with everything that is wrong with DeleteOptions."""
    _check("DeleteOptions", wanted, "DeleteOptions")


def check_read(query: Mapping[str, str], *, watch: bool) -> bool | None:
    """Return sendInitialEvents; raise 422 for combinations with resourceVersionMatch that mean nothing."""
    given = query.get("sendInitialEvents")
    initial = None if given is None else parse_bool(given)
    _check("ListOptions", {**query, "sendInitialEvents": initial}, "WatchOptions" if watch else "ListOptions")
    return initial


def check_log(pod: str, query: Obj) -> None:
    """Raise 422 with everything that is wrong with the options of a request for a pod's log."""
    _check("PodLogOptions", query, "LogOptions", pod, group="")


def _check(name: str, options: Obj, rules: str, of: str = "", group: str = "meta.k8s.io") -> None:
    errors = errors_of("types", rules, Place(options))
    if errors:
        raise invalid(Kind(group, "v1", name, ""), of, errors)


@check
def manager(name: str, where: str, place: Place) -> Iterator[FieldError]:
    """The name of a field manager: not long, and printable."""
    if len(name.encode()) > MAX_MANAGER:
        yield FieldError(where, "FieldValueTooLong", f"Too long: may not be more than {MAX_MANAGER} bytes")
    at = 0
    for mark in name:
        if not mark.isprintable():
            yield invalid_value(where, name, f"invalid character U+{ord(mark):04X} (at position {at})")
        at += len(mark.encode(errors="surrogateescape"))


@check
def dry_run(values: list[str], where: str, place: Place) -> Iterator[FieldError]:
    """The parts of a request that are only tried: all of them."""
    if set(values) - {"All"}:
        yield unsupported(where, values, ("All",))
