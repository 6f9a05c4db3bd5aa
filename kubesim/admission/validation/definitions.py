"""What is wrong with a CustomResourceDefinition, in the order and the words of k8s.io/apiextensions-apiserver.

Upstream checks its internal form, in which what all versions have in common stands once for all of them: the paths of
its answers are those of that form.
"""

from __future__ import annotations

from collections.abc import Iterator

from kubesim.admission.validation.metadata import dns_errors
from kubesim.admission.validation.rules import Place, check, errors_of
from kubesim.api.status import FieldError, invalid_value, required
from kubesim.custom.schemas import schema_errors
from kubesim.errors import Obj

PARTS = {"schema": "validation", "subresources": "subresources",
         "additionalPrinterColumns": "additionalPrinterColumns", "selectableFields": "selectableFields"}  # fmt: skip
"""The parts of a version, and where they stand when all versions have the same."""
SHOWN = ("Schema", "Subresources", "AdditionalPrinterColumns", "SelectableFields")


@check
def definition_name(name: str, where: str, place: Place) -> Iterator[FieldError]:
    """A definition is named by what it defines."""
    spec = place.value.get("spec") or {}
    if name and name != f"{spec.get('names', {}).get('plural', '')}.{spec.get('group', '')}":
        yield invalid_value(where, name, 'must be spec.names.plural+"."+spec.group')


@check
def common_parts(versions: list[Obj], where: str, place: Place) -> Iterator[FieldError]:
    """What all versions have in common."""
    with_status = any(_has_status(version) for version in versions)
    return _part_errors(_shared(versions), "spec", PARTS["schema"], with_status=with_status)


def _shared(versions: list[Obj]) -> Obj:
    """Return the parts that are the same in all versions."""
    first = versions[0] if versions else {}
    return {
        part: first[part] for part in PARTS if part in first and all(v.get(part) == first[part] for v in versions)
    }


@check
def versions(versions: list[Obj], where: str, place: Place) -> Iterator[FieldError]:
    """The versions of a definition, one of which is stored."""
    shared = _shared(versions)
    for at, version in enumerate(versions):
        if (version.get("schema") or {}).get("openAPIV3Schema") is None:
            yield required(f"spec.versions[{at}].schema.openAPIV3Schema")
    for at, version in enumerate(versions):
        path, name = f"spec.versions[{at}]", version.get("name", "")
        if wrong := dns_errors(name, "dns1035"):
            yield invalid_value(f"{path}.name", name, ",".join(wrong))
        yield from _part_errors(
            {part: value for part, value in version.items() if part not in shared},
            path,
            "schema",
            with_status=_has_status(version),
        )
    shown = [_shown(version) for version in versions]
    if len({version.get("name") for version in versions}) < len(versions):
        yield invalid_value("spec.versions", shown, "must contain unique version names")
    if sum(bool(version.get("storage")) for version in versions) != 1:
        yield invalid_value(
            "spec.versions",
            shown if "versions" in place.value else None,
            "must have exactly one version marked as storage version",
        )
    first = versions[0].get("name", "") if versions else ""
    if first and (wrong := dns_errors(first, "dns1035")):  # which stands in the definition itself, too
        yield invalid_value("spec.version", first, ",".join(wrong))


def _shown(version: Obj) -> Obj:
    """Return a version as upstream shows it where the rest of it is common to all."""
    head = {"Name": version.get("name", ""), "Served": bool(version.get("served"))}
    marks = {"Storage": bool(version.get("storage")), "Deprecated": bool(version.get("deprecated"))}
    return head | marks | {"DeprecationWarning": version.get("deprecationWarning")} | dict.fromkeys(SHOWN)


def _has_status(version: Obj) -> bool:
    return (version.get("subresources") or {}).get("status") is not None


def _part_errors(parts: Obj, path: str, schema_name: str, *, with_status: bool) -> Iterator[FieldError]:
    """Yield what is wrong with the parts of one version, or with those that all have in common."""
    schema = (parts.get("schema") or {}).get("openAPIV3Schema")
    if schema is not None:
        where = f"{path}.{schema_name}.openAPIV3Schema"
        yield from schema_errors(schema, where, with_status=with_status)
    if scale := (parts.get("subresources") or {}).get("scale"):
        yield from errors_of("types", "Scale", Place(scale, f"{path}.subresources.scale"))
    for at, column in enumerate(parts.get("additionalPrinterColumns") or ()):
        yield from errors_of("types", "Column", Place(column, f"{path}.additionalPrinterColumns[{at}]"))
    for at, field in enumerate(parts.get("selectableFields") or ()):
        if not field.get("jsonPath"):
            yield required(f"{path}.selectableFields[{at}].jsonPath")
