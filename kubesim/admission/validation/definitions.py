"""What is wrong with a CustomResourceDefinition, in the order and the words of k8s.io/apiextensions-apiserver.

Upstream checks its internal form, in which what all versions have in common stands once for all of them: the paths of
its answers are those of that form.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kubesim.admission.validation.metadata import dns_errors
from kubesim.api.status import FieldError, duplicate, forbidden_field, invalid_value, required, unsupported
from kubesim.custom.schemas import schema_errors
from kubesim.errors import Obj

SCOPES = ("Cluster", "Namespaced")
STRATEGIES = ("None", "Webhook")
PARTS = {"schema": "validation", "subresources": "subresources",
         "additionalPrinterColumns": "additionalPrinterColumns", "selectableFields": "selectableFields"}  # fmt: skip
"""The parts of a version, and where they stand when all versions have the same."""
SHOWN = ("Schema", "Subresources", "AdditionalPrinterColumns", "SelectableFields")
COLUMN_TYPES = "boolean,date,integer,number,string"
SELECTABLE = ("string", "boolean", "integer")
APPROVED = "api-approved.kubernetes.io"
PROTECTED = (".k8s.io", ".kubernetes.io")
NOT_APPROVED = (
    f'protected groups must have approval annotation "{APPROVED}", see '
    "https://github.com/kubernetes/enhancements/pull/1111"
)
NO_SCALAR = (
    "must point to a field of type string, boolean or integer. "
    "Enum string fields and strings with formats are allowed."
)
SCALE = {"specReplicasPath": (".spec.",), "statusReplicasPath": (".status.",),
         "labelSelectorPath": (".spec.", ".status.")}  # fmt: skip
"""The paths of a scale, and what each must begin with."""
PRESERVES = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"


def definition_errors(definition: Obj) -> list[FieldError]:
    """Return what is wrong with a definition."""
    spec, name = definition.get("spec") or {}, definition["metadata"].get("name", "")
    names, group, versions = spec.get("names", {}), spec.get("group", ""), spec.get("versions") or []
    found = []
    if name != f"{names.get('plural', '')}.{group}":
        found.append(invalid_value("metadata.name", name, 'must be spec.names.plural+"."+spec.group'))
    found += _group_errors(group)
    found += _choice("spec.scope", spec.get("scope"), SCOPES)
    found += _version_errors(versions)
    found += _name_errors(names)
    shared = _shared(versions)
    found += _part_errors(shared, "spec", PARTS["schema"])
    found += _conversion_errors(spec.get("conversion") or {})
    found += _stored_errors(versions)
    notes = definition["metadata"].get("annotations") or {}
    if f".{group}".endswith(PROTECTED) and APPROVED not in notes:
        found.append(required(f"metadata.annotations[{APPROVED}]", NOT_APPROVED))
    if spec.get("preserveUnknownFields"):
        found.append(invalid_value("spec.preserveUnknownFields", True, PRESERVES))
    return found


def _shared(versions: list[Obj]) -> Obj:
    """Return the parts that are the same in all versions."""
    first = versions[0] if versions else {}
    return {
        part: first[part] for part in PARTS if part in first and all(v.get(part) == first[part] for v in versions)
    }


def _group_errors(group: str) -> Iterator[FieldError]:
    if not group:
        yield required("spec.group")
    elif wrong := dns_errors(group, "subdomain"):
        yield invalid_value("spec.group", group, ",".join(wrong))
    elif "." not in group:
        yield invalid_value("spec.group", group, "should be a domain with at least one dot")


def _choice(path: str, value: str | None, choices: tuple[str, ...]) -> list[FieldError]:
    if not value:
        return [required(path)]
    return [] if value in choices else [unsupported(path, value, choices)]


def _version_errors(versions: list[Obj]) -> Iterator[FieldError]:
    shared = _shared(versions)
    for at, version in enumerate(versions):
        if not (version.get("schema") or {}).get("openAPIV3Schema"):
            yield required(f"spec.versions[{at}].schema.openAPIV3Schema")
    for at, version in enumerate(versions):
        path, name = f"spec.versions[{at}]", version.get("name", "")
        if wrong := dns_errors(name, "dns1035"):
            yield invalid_value(f"{path}.name", name, ",".join(wrong))
        if version.get("deprecationWarning") is not None and not version.get("deprecated"):
            why = "can only be set for deprecated versions"
            yield invalid_value(f"{path}.deprecationWarning", version["deprecationWarning"], why)
        yield from _part_errors(
            {part: value for part, value in version.items() if part not in shared}, path, "schema"
        )
    shown = [_shown(version) for version in versions]
    if len({version.get("name") for version in versions}) < len(versions):
        yield invalid_value("spec.versions", shown, "must contain unique version names")
    if sum(bool(version.get("storage")) for version in versions) != 1:
        yield invalid_value("spec.versions", shown, "must have exactly one version marked as storage version")


def _shown(version: Obj) -> Obj:
    """Return a version as upstream shows it where the rest of it is common to all."""
    head = {"Name": version.get("name", ""), "Served": bool(version.get("served"))}
    marks = {"Storage": bool(version.get("storage")), "Deprecated": bool(version.get("deprecated"))}
    return head | marks | {"DeprecationWarning": version.get("deprecationWarning")} | dict.fromkeys(SHOWN)


def _part_errors(parts: Obj, path: str, schema_name: str) -> Iterator[FieldError]:
    """Yield what is wrong with the parts of one version, or with those that all have in common."""
    schema = (parts.get("schema") or {}).get("openAPIV3Schema")
    if schema:
        yield from schema_errors(schema, f"{path}.{schema_name}.openAPIV3Schema")
    if scale := (parts.get("subresources") or {}).get("scale"):
        yield from _scale_errors(scale, f"{path}.subresources.scale")
    for at, column in enumerate(parts.get("additionalPrinterColumns") or ()):
        yield from _column_errors(column, f"{path}.additionalPrinterColumns[{at}]")
    fields, where = parts.get("selectableFields") or (), f"{path}.selectableFields"
    if fields and not schema:
        why = "may only be set when `version.schema.openAPIV3Schema` is not included"
        yield invalid_value(
            where, "", "may only be set when validations.schema is included" if path == "spec" else why
        )
    elif fields and schema:
        yield from _selectable_errors(fields, schema, where)


def _scale_errors(scale: Obj, path: str) -> Iterator[FieldError]:
    for name, homes in SCALE.items():
        value, where = scale.get(name) or "", f"{path}.{name}"
        if not value:
            yield from () if name == "labelSelectorPath" else (required(where),)
        elif not value.startswith("."):
            yield invalid_value(where, value, "must be a simple json path starting with .")
        elif not value.startswith(homes):
            home = "either .spec or .status" if len(homes) > 1 else homes[0].rstrip(".")
            yield invalid_value(where, value, f"should be a json path under {home}")


def _column_errors(column: Obj, path: str) -> Iterator[FieldError]:
    kind, where = column.get("type"), column.get("jsonPath") or ""
    if not column.get("name"):
        yield required(f"{path}.name")
    if not kind:
        yield required(f"{path}.type", f"must be one of {COLUMN_TYPES}")
    elif kind not in COLUMN_TYPES.split(","):
        yield invalid_value(f"{path}.type", kind, f"must be one of {COLUMN_TYPES}")
    if not where:
        yield required(f"{path}.JSONPath")
    elif not where.startswith("."):
        yield invalid_value(f"{path}.JSONPath", where, "must be a simple json path starting with .")


def _selectable_errors(fields: list[Obj], schema: Obj, path: str) -> Iterator[FieldError]:
    seen = set()
    for at, field in enumerate(fields):
        where, value = f"{path}[{at}].jsonPath", field.get("jsonPath") or ""
        if not value:
            yield required(where)
            continue
        found = _schema_at(schema, value)
        if found is None:
            yield invalid_value(where, value, "is an invalid path: does not refer to a valid field")
            continue
        if value.startswith(".metadata"):
            yield invalid_value(where, value, "must not point to fields in metadata")
        if found.get("type") not in SELECTABLE:
            yield invalid_value(where, value, NO_SCALAR)
        if value in seen:
            yield duplicate(where, value)
        seen.add(value)


def _schema_at(schema: Obj, path: str) -> Any:
    """Return the schema of the field at a path, or None."""
    found: Any = schema
    for step in path.split(".")[1:]:
        found = (found.get("properties") or {}).get(step) if isinstance(found, dict) else None
    return found


def _conversion_errors(conversion: Obj) -> Iterator[FieldError]:
    strategy, hook = conversion.get("strategy"), conversion.get("webhook")
    yield from _choice("spec.conversion.strategy", strategy, STRATEGIES)
    if strategy != "Webhook":
        if hook:
            why = "should not be set when strategy is not set to Webhook"
            yield forbidden_field("spec.conversion.webhookClientConfig", why)
        return
    client = (hook or {}).get("clientConfig")
    if not client:
        yield required("spec.conversion.webhookClientConfig", "required when strategy is set to Webhook")
    elif bool(client.get("url")) == bool(client.get("service")):
        yield required("spec.conversion.webhookClientConfig", "exactly one of url or service is required")
    if not (hook or {}).get("conversionReviewVersions"):
        yield required("spec.conversion.conversionReviewVersions")


def _stored_errors(versions: list[Obj]) -> Iterator[FieldError]:
    """Yield what is wrong with the versions in which objects are to be stored; each counts once."""
    stored = [version.get("name", "") for version in versions if version.get("storage")]
    if not stored:
        yield invalid_value("status.storedVersions", None, "must have at least one stored version")
    for name in stored[1:]:
        yield invalid_value("status.storedVersions", stored[:1], f"must have the storage version {name}")


def _name_errors(names: Obj) -> Iterator[FieldError]:
    path, fields = "spec.names", ("plural", "singular", "kind", "listKind")
    yield from (required(f"{path}.{field}") for field in fields if not names.get(field))
    for field in fields:
        value, mixed = names.get(field, ""), field in ("kind", "listKind")
        if value and (wrong := dns_errors(value.lower() if mixed else value, "dns1035")):
            lead = "may have mixed case, but should otherwise match: " if mixed else ""
            yield invalid_value(f"{path}.{field}", value, lead + ",".join(wrong))
    yield from _each_name(names, "shortNames")
    if names.get("kind") and names["kind"] == names.get("listKind"):
        yield invalid_value(f"{path}.listKind", names["listKind"], "kind and listKind may not be the same")
    yield from _each_name(names, "categories")


def _each_name(names: Obj, field: str) -> Iterator[FieldError]:
    for at, name in enumerate(names.get(field) or ()):
        if wrong := dns_errors(name, "dns1035"):
            yield invalid_value(f"spec.names.{field}[{at}]", name, ",".join(wrong))
