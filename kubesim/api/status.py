"""The answers other than success, worded as k8s.io/apimachinery/pkg/api/errors words them."""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from kubesim import data
from kubesim.errors import ApiError, Obj
from kubesim.schema.registry import Kind

TEXTS: dict[str, str] = data.table(__file__, "texts.yaml")
"""Longer sentences of upstream's, by what they are about."""


@dataclass(frozen=True, slots=True)
class FieldError:
    """One cause of a 422: ``field: detail`` with the reason that goes into details.causes."""

    field: str
    reason: str
    detail: str

    def text(self) -> str:
        """Return the sentence as it stands in the Status' message."""
        return f"{self.field}: {self.detail}" if self.field else self.detail


def required(field: str, detail: str = "") -> FieldError:
    """A value that is missing."""
    return FieldError(field, "FieldValueRequired", f"Required value: {detail}" if detail else "Required value")


def invalid_value(field: str, value: object, detail: str) -> FieldError:
    """A value that breaks a rule; ``value`` is shown as Go shows it."""
    return FieldError(field, "FieldValueInvalid", f"Invalid value: {show(value)}{detail and f': {detail}'}")


def unsupported(field: str, value: object, choices: tuple[str, ...]) -> FieldError:
    """A value outside its enumeration."""
    allowed = ", ".join(f'"{choice}"' for choice in choices)
    return FieldError(
        field, "FieldValueNotSupported", f"Unsupported value: {show(value)}: supported values: {allowed}"
    )


def forbidden_field(field: str, detail: str) -> FieldError:
    """A field that may not be set, or not now."""
    return FieldError(field, "FieldValueForbidden", f"Forbidden: {detail}")


def duplicate(field: str, value: object) -> FieldError:
    """A list entry that repeats another's key."""
    return FieldError(field, "FieldValueDuplicate", f"Duplicate value: {show(value)}")


def not_found_field(field: str, value: object) -> FieldError:
    """A reference to something that is not there, such as a volume."""
    return FieldError(field, "FieldValueNotFound", f"Not found: {show(value)}")


_HTML = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})
"""What Go escapes in JSON."""


def show(value: object) -> str:
    """Return a value as field errors print it: strings quoted, structures as JSON."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
            return f'"{escaped}"'
        case dict() | list():
            return orjson.dumps(value).decode().translate(_HTML)
        case _:
            return str(value)


def not_found(kind: Kind, name: str) -> ApiError:
    """404 ``pods "x" not found``."""
    return ApiError(404, "NotFound", f"{kind.resource} {show(name)} not found", details(kind, name))


def no_resource() -> ApiError:
    """404 of a path that serves nothing."""
    return ApiError(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(kind: Kind, name: str, *, ending: bool = False) -> ApiError:
    """409 on create; ``ending`` says that the object of that name is being deleted."""
    message = ("object is being deleted: " if ending else "") + f'{kind.resource} "{name}" already exists'
    return ApiError(409, "AlreadyExists", message, details(kind, name))


def conflict(kind: Kind, name: str, why: str = "") -> ApiError:
    """409 on a write with a stale resourceVersion, or a failed precondition (``why``)."""
    why = why or "the object has been modified; please apply your changes to the latest version and try again"
    message = f'Operation cannot be fulfilled on {kind.resource} "{name}": {why}'
    return ApiError(409, "Conflict", message, details(kind, name))


def invalid(kind: Kind, name: str, errors: list[FieldError]) -> ApiError:
    """422 with every cause; the message says only once what several of them say."""
    texts = list(dict.fromkeys(error.text() for error in errors))
    text = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
    suffix = f".{kind.group}" if kind.group else ""
    causes = [{"reason": e.reason, "message": e.detail, "field": e.field} for e in errors]
    info: Obj = {"name": name} if name else {}
    info |= ({"group": kind.group} if kind.group else {}) | {"kind": kind.kind, "causes": causes}
    return ApiError(422, "Invalid", f"{kind.kind}{suffix} {show(name)} is invalid: {text}", info)


def forbidden(kind: Kind, name: str, why: str, causes: list[Obj] | None = None) -> ApiError:
    """403 of an admission step."""
    what = f'{kind.resource} "{name}"' if name else kind.resource
    info = details(kind, name)
    if causes:
        info["causes"] = causes
    return ApiError(403, "Forbidden", f"{what} is forbidden: {why}", info)


def bad_request(message: str) -> ApiError:
    """400."""
    return ApiError(400, "BadRequest", message)


def expired(asked: int, oldest: int) -> ApiError:
    """410: the history no longer reaches back to ``asked``."""
    return ApiError(410, "Expired", f"too old resource version: {asked} ({oldest})")


def details(kind: Kind, name: str) -> Obj:
    """Return a Status' details of one resource."""
    body: Obj = {"name": name} if name else {}
    if kind.group:
        body["group"] = kind.group
    body["kind"] = kind.plural
    return body
