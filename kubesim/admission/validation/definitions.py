"""What is wrong with a CustomResourceDefinition."""

from __future__ import annotations

from collections.abc import Iterator

from kubesim.admission.validation.metadata import dns_errors
from kubesim.api.status import FieldError, invalid_value, required, unsupported
from kubesim.custom.schemas import schema_errors
from kubesim.errors import Obj

SCOPES = ("Cluster", "Namespaced")
STRATEGIES = ("None", "Webhook")


def definition_errors(definition: Obj) -> list[FieldError]:
    """Return what is wrong with a definition."""
    spec, name = definition.get("spec") or {}, definition["metadata"].get("name", "")
    names, group = spec.get("names", {}), spec.get("group", "")
    found = []
    if name != f"{names.get('plural', '')}.{group}":
        found.append(invalid_value("metadata.name", name, 'must be spec.names.plural+"."+spec.group'))
    found += _group_errors(group)
    found += _choice("spec.scope", spec.get("scope"), SCOPES)
    found += _version_errors(spec.get("versions", ()))
    found += _choice("spec.conversion.strategy", (spec.get("conversion") or {}).get("strategy"), STRATEGIES)
    found += _name_errors(names)
    if spec.get("preserveUnknownFields"):
        why = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        )
        found.append(invalid_value("spec.preserveUnknownFields", True, why))
    return found


def _group_errors(group: str) -> Iterator[FieldError]:
    if not group:
        yield required("spec.group")
    elif wrong := dns_errors(group, "subdomain"):
        yield from (invalid_value("spec.group", group, why) for why in wrong)
    elif "." not in group:
        yield invalid_value("spec.group", group, "should be a domain with at least one dot")


def _choice(path: str, value: str | None, choices: tuple[str, ...]) -> list[FieldError]:
    if not value:
        return [required(path)]
    return [] if value in choices else [unsupported(path, value, choices)]


def _version_errors(versions: list[Obj]) -> Iterator[FieldError]:
    if sum(bool(version.get("storage")) for version in versions) != 1:
        shown = [{"Name": v.get("name", ""), "Served": bool(v.get("served")), "Storage": bool(v.get("storage"))}
                 for v in versions]  # fmt: skip
        yield invalid_value("spec.versions", shown or None, "must have exactly one version marked as storage version")
        return
    for at, version in enumerate(versions):
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        path = f"spec.versions[{at}].schema.openAPIV3Schema"
        if schema is None:
            yield required(path)
        else:
            yield from schema_errors(schema, "spec.validation.openAPIV3Schema" if len(versions) == 1 else path)


def _name_errors(names: Obj) -> Iterator[FieldError]:
    for field in ("plural", "singular", "kind", "listKind"):
        path, value = f"spec.names.{field}", names.get(field, "")
        mixed = field in ("kind", "listKind")
        if not value:
            yield required(path)
            continue
        for why in dns_errors(value.lower() if mixed else value, "dns1035"):
            said = f"may have mixed case, but should otherwise match: {why}" if mixed else why
            yield invalid_value(path, value, said)
    for at, short in enumerate(names.get("shortNames", ())):
        yield from (invalid_value(f"spec.names.shortNames[{at}]", short, why) for why in dns_errors(short, "dns1035"))
