"""What happens to an object between its decoding and the store: completion, admission, validation.

The order is upstream's: the kind's own preparation, then the admission steps that change or refuse, then validation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import orjson

from kubesim.admission import limits, platform, pods, podsecurity, policies, prepare, quota, warnings, webhooks
from kubesim.admission.requests import Request
from kubesim.admission.validation import check_finalizers, podchanges, validate_new, validate_status, validate_update
from kubesim.api import status
from kubesim.api.convert import to_stored
from kubesim.api.duplicates import strict_text
from kubesim.api.options import Options
from kubesim.errors import ApiError, Obj
from kubesim.schema.decode import DecodeError, Decoder
from kubesim.schema.kinds import registry as builtin
from kubesim.schema.registry import Kind
from kubesim.schema.types import shape_of

if TYPE_CHECKING:
    from kubesim.api.operations import Operations
    from kubesim.custom.definitions import CustomType

CHANGING = ("services", "persistentvolumeclaims")
"""Kinds that can come to ask for more of a quota when they change."""


@dataclass(frozen=True, slots=True)
class Patched:
    """Where an object came from that is decoded after a patch: ``shown`` returns what an error calls the patch."""

    shown: Callable[[], str]
    strategic: bool = False

    def refused(self, why: str) -> ApiError:
        """422: what the patch makes of the object is no object of its kind."""
        cause = status.invalid_value("patch", self.shown(), why)
        causes = [{"reason": cause.reason, "message": cause.detail, "field": cause.field}]
        return ApiError(422, "Invalid", f' "" is invalid: {cause.text()}', {"causes": causes})


def decode(kind: Kind, obj: Obj, options: Options, patch: Patched | None = None) -> Obj:
    """Copy an object as its kind's type has it, with defaults.

    Raises 400 where it says that it is of another kind, where a field has another type, and for unknown fields under
    Strict (422 where they came in a patch); under Warn these become ``options.warnings``.
    """
    if not isinstance(obj, dict):
        raise status.bad_request(f"{_cannot(kind)}: json: cannot unmarshal into Go value of type {kind.kind}")
    obj = {"kind": kind.kind, "apiVersion": kind.api_version, **obj}
    obj["metadata"] = {} if obj.get("metadata") is None else obj["metadata"]
    _check_kind(kind, obj, patch)
    if kind.custom is not None:
        return _decode_custom(kind, kind.custom, obj, options, patch)
    shape = kind.shape
    if shape is None:
        copied: Obj = orjson.loads(orjson.dumps(obj))
        return copied
    decoder = Decoder(wraps=patch is not None and patch.strategic)
    try:
        decoded = decoder.object(shape, obj)
    except DecodeError as exc:
        if patch is not None:
            raise patch.refused(exc.conversion if patch.strategic else str(exc)) from exc
        raise status.bad_request(f"{_cannot(kind)}: {exc}") from exc
    _answer_unknown(kind, decoder.unknown, options, patch)
    if kind.resource == "namespaces" and decoded["metadata"].get("name"):
        prepare.label(decoded)
    return decoded


def _decode_custom(kind: Kind, own: CustomType, obj: Obj, options: Options, patch: Patched | None) -> Obj:
    """Copy a custom object as its schema has it; what is wrong with its values is found when it is validated."""
    unknown: list[str] = []
    try:
        decoded = own.decode(obj, unknown)
    except DecodeError as exc:
        raise status.bad_request(f"{_cannot(kind)}: {exc}") from exc
    _answer_unknown(kind, unknown, options, patch)
    return decoded


def decode_body(name: str, body: object) -> Obj:
    """Read what is posted to a subresource, or the options of a delete, as a type of the table. Raises 400."""
    shape = shape_of(f"V1{name}")
    assert shape is not None
    if not isinstance(body, dict):
        raise status.bad_request(f"json: cannot unmarshal into Go value of type v1.{name}")
    try:
        return Decoder().object(shape, body)
    except DecodeError as exc:
        raise status.bad_request(str(exc)) from exc


def _check_kind(kind: Kind, obj: Obj, patch: Patched | None) -> None:
    given, named = obj["apiVersion"], obj["kind"]
    if patch is not None and kind.custom is None and (given, named) != (kind.api_version, kind.kind):
        raise patch.refused(_no_conversion(kind, given, named))
    if given != kind.api_version and kind.custom is not None:
        message = "the API version in the data ({}) does not match the expected API version ({})"
        raise status.bad_request(message.format(given, kind.api_version))
    if named != kind.kind and kind.custom is not None:
        error = status.invalid_value("kind", named, f"must be {kind.kind}")
        raise status.invalid(replace(kind, kind=named), obj["metadata"].get("name", ""), [error])
    if (given, named) != (kind.api_version, kind.kind):
        what = f'{named} in version "{str(given).rpartition("/")[2]}" cannot be handled as a {kind.kind}'
        raise status.bad_request(f"{what}: {_no_conversion(kind, given, named)}")


def _no_conversion(kind: Kind, version: str, named: str) -> str:
    """Say that a patch has made of an object one of another kind, or of none."""
    if any(known.api_version == version and known.kind == named for known in builtin.all()):
        package = kind.group.partition(".")[0] or "core"
        return f"converting ({str(version).replace('/', '.')}.{named}) to ({package}.{kind.kind}): unknown conversion"
    return f'no kind "{named}" is registered for version "{version}" in scheme "pkg/runtime/scheme.go:110"'


def _cannot(kind: Kind) -> str:
    return f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'


def _answer_unknown(kind: Kind, unknown: list[str], options: Options, patch: Patched | None) -> None:
    texts = options.repeated.with_unknown(unknown, patch=patch is not None)
    if not texts or options.field_validation == "Ignore":
        return
    if options.field_validation == "Warn":
        options.warnings += texts
        return
    error = strict_text(texts, options.repeated)
    if patch is None:
        raise status.bad_request(f"{_cannot(kind)}: {error}")
    raise patch.refused(error)


def on_create(ops: Operations, kind: Kind, new: Obj, options: Options) -> None:
    """Complete a new object and refuse what may not be (403, 404, 422)."""
    for check in ops.checks:
        check(ops, kind, None, new, "", options)
    prepare.check_namespace(ops, kind, new)
    _complete(ops, kind, new, options)
    if options.talk is not None and not webhooks.none(ops):
        _mutate(ops, kind, new, options)
    if kind.resource == "persistentvolumeclaims":
        limits.check_claim(ops, kind, new)
    validate_new(kind, new, options.served)
    prepare.settle(kind, new)
    if kind.resource in (webhooks.MUTATING, webhooks.VALIDATING):
        webhooks.check_conditions(kind, new)
    if options.requester is not None:  # nobody reads what the control plane would be told
        options.warnings += warnings.of_new(kind, new)
    podsecurity.check(ops, kind, None, new, "", options)
    validate(ops, kind, None, new, "", options)
    quota.check(ops, kind, new)


def _complete(ops: Operations, kind: Kind, new: Obj, options: Options) -> None:
    """Set what the kind's strategy and the built-in plugins set."""
    prepare.create(ops, kind, new)
    platform.complete(ops, kind.resource, new, options)
    if kind.resource == "pods":
        pods.admit(ops, kind, new)


def _mutate(ops: Operations, kind: Kind, new: Obj, options: Options) -> None:
    """Let webhooks change a new object, and complete what they have made of it."""

    def builtin() -> bool:
        before = orjson.dumps(new, option=orjson.OPT_SORT_KEYS)
        _complete(ops, kind, new, options)
        return orjson.dumps(new, option=orjson.OPT_SORT_KEYS) != before

    request = replace(Request.of(ops, kind, None, new, "", options), early=True)
    webhooks.mutate(request, reworker(ops, kind, options), builtin)


def reworker(ops: Operations, kind: Kind, options: Options) -> webhooks.Rework:
    """Return what takes in an object that a webhook has patched, as from a client."""

    def rework(patched: Obj) -> Obj:
        seen = ops.registry.by_kind(patched.get("apiVersion", ""), patched.get("kind", ""))
        decoded = decode(seen, patched, Options())
        if kind.custom is not None and kind.custom.converter is not None:
            converted: Obj = kind.custom.converter.converted(decoded, kind.api_version, options.talk)
            return converted
        return dict(to_stored(seen, kind, decoded))

    return rework


def of_deletion(ops: Operations, kind: Kind, obj: Obj, options: Options) -> None:
    """Ask whether an object may go. Those who change objects are asked as well."""
    if options.talk is not None and not webhooks.none(ops):
        request = Request.of(ops, kind, obj, None, "", options)
        webhooks.mutate(request, reworker(ops, kind, options), lambda: False)
    validate(ops, kind, obj, None, "", options)


def of_connection(request: Request) -> None:
    """Ask whether a connection, or what is posted to a subresource, may be. Raises what is refused."""
    ops = request.ops
    if bindings := ops.store.list(ops.registry.by_resource(policies.BINDINGS)):
        policies.ask(request, bindings)
    if request.options.talk is not None and not webhooks.none(ops):
        webhooks.mutate(request, lambda patched: patched, lambda: False)
        webhooks.validate(request)


def validate(
    ops: Operations, kind: Kind, old: Obj | None, new: Obj | None, subresource: str, options: Options
) -> None:
    """Ask the policies, then the webhooks that may only refuse."""
    policies.check(ops, kind, old, new, subresource, options)
    if options.talk is not None and not webhooks.none(ops):
        webhooks.validate(Request.of(ops, kind, old, new, subresource, options))


def on_update(ops: Operations, kind: Kind, old: Obj, new: Obj, subresource: str, options: Options) -> None:
    """Complete a changed object and refuse what may not change (422)."""
    for check in ops.checks:
        check(ops, kind, old, new, subresource, options)
    if subresource == "finalize":
        check_finalizers(kind, new)
    if subresource == "approval":
        platform.stamp_conditions(ops, old, new)
    if subresource == "":
        prepare.update(ops, kind, old, new)
        platform.update(ops, kind.resource, old, new, options)
        if kind.resource == "pods":
            pods.add_tolerations(new["spec"])
            pods.keep_priority(old["spec"], new["spec"])
        validate_update(kind, old, new, options.served, options.warnings)
        prepare.settle(kind, new)
        if kind.resource in (webhooks.MUTATING, webhooks.VALIDATING):
            webhooks.check_conditions(kind, new)
        if options.requester is not None:
            options.warnings += warnings.of_change(kind, old, new)
        if kind.resource == "persistentvolumeclaims":
            limits.check_growth(ops, kind, old, new)
        if kind.resource in CHANGING:
            quota.check(ops, kind, new, old)
    elif subresource == "status":
        validate_status(kind, old, new, options.warnings)
    elif subresource == "ephemeralcontainers":
        if errors := podchanges.ephemeral_errors(old, new):
            raise status.invalid(kind, new["metadata"]["name"], errors)
        quota.check(ops, kind, new, old)
    podsecurity.check(ops, kind, old, new, subresource, options)
    validate(ops, kind, old, new, subresource, options)


def desire(obj: Obj) -> Obj:
    """Return what metadata.generation counts: all but metadata and status, of Deployments the annotations too."""
    counted = {name: value for name, value in obj.items() if name not in ("metadata", "status")}
    notes = obj["metadata"].get("annotations") if obj["kind"] == "Deployment" else None
    return counted | ({"annotations": notes} if notes else {})
