"""One CustomResourceDefinition: the kinds that it stands for, and what each knows of its objects."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import orjson

from kubesim.api.patch import go_print
from kubesim.api.status import FieldError, invalid_value
from kubesim.custom import rules, structural, values
from kubesim.custom.columns import columns_of
from kubesim.custom.conversion import Converter
from kubesim.errors import Obj
from kubesim.schema.columns import Column
from kubesim.schema.decode import DecodeError, Decoder, go_kind, json_name
from kubesim.schema.registry import NO_LABEL, Field, Kind, Scale, Subresource
from kubesim.schema.types import Shape, shape_of
from kubesim.store import Stored

RESOURCE = "customresourcedefinitions.apiextensions.k8s.io"
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
VERSION = re.compile(r"v([1-9]\d*)(?:(alpha|beta)([1-9]\d*)?)?")
SUBRESOURCES = (Subresource("status"), Subresource("scale", "Scale", "autoscaling", "v1"))
MOST_REPLICAS = 2**31 - 1
STAGES = {"alpha": 0, "beta": 1, None: 2}


@dataclass(frozen=True, eq=False)
class CustomType:
    """What the version of a custom kind knows of its objects."""

    schema: Obj
    columns: tuple[Column, ...]
    scale: Scale | None = None
    converter: Converter | None = None

    def unconverted(self) -> CustomType:
        """Return the type of the same objects as they are kept, in whatever version."""
        return CustomType({"x-kubernetes-preserve-unknown-fields": True}, self.columns, self.scale)

    def decode(self, obj: Obj, unknown: list[str]) -> Obj:
        """Return an object with what its schema knows, and with defaults. Raises DecodeError for bad metadata."""
        kept: Obj = structural.prune(obj, self.schema, "", unknown, whole=True)
        metadata = shape_of("V1ObjectMeta")
        if not isinstance(kept.get("metadata"), dict):
            what = json_name(kept.get("metadata"))
            raise DecodeError(f"json: cannot unmarshal {what} into Go value of type v1.ObjectMeta")
        if metadata is not None:
            decoder = Decoder()
            kept["metadata"] = decoder.object(metadata, kept["metadata"], "metadata")
            unknown[:0] = decoder.unknown
        structural.add_defaults(kept, self.schema)
        return kept

    def read(self, obj: Obj) -> Obj:
        """Return a stored object as the schema of today has it; what it was made for one version is kept with it."""
        found = obj.memo.get(self) if isinstance(obj, Stored) else None
        if found is None:
            kept: Obj = structural.prune(obj, self.schema, "", [], whole=True)
            structural.add_defaults(kept, self.schema)
            found = obj if kept == obj else Stored.seal(kept)
            if isinstance(obj, Stored):
                obj.memo[self] = found
        return found

    def errors(self, obj: Obj, old: Obj | None, told: list[str]) -> Iterator[FieldError]:
        """Yield everything that is wrong with an object, or with a change of ``old``, but what is as it was.

        Of rules that did not hold before either it is written into ``told``.
        """
        found = list(values.errors_of(obj, self.schema, old=old))
        yield from found
        yield from values.list_errors(obj, self.schema)
        if self.scale is not None:
            yield from _replicas_errors(obj, self.scale.spec)
            yield from _replicas_errors(obj, self.scale.status)
        if not self._has_rules:
            return
        if any(error.reason in values.BLOCKING for error in found):
            yield invalid_value(values.ROOT, None, values.UNCHECKED)
        elif not found:
            yield from rules.rule_errors(obj, old, self.schema, told)

    @cached_property
    def _has_rules(self) -> bool:
        return rules.has_rules(self.schema)

    @cached_property
    def shape(self) -> Shape:
        """How objects merge."""
        return structural.shape_from(self.schema, "", whole=True)

    @cached_property
    def digest(self) -> str:
        """Another text for another schema."""
        return hashlib.sha256(orjson.dumps(self.schema, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _replicas_errors(obj: Obj, path: tuple[str, ...]) -> Iterator[FieldError]:
    """Yield what is wrong with a number of replicas."""
    value: Any = obj
    where = "".join(f".{step}" for step in path)
    for at, step in enumerate(path):
        if not isinstance(value, dict):
            here, wanted = "".join(f".{done}" for done in path[: at + 1]), "map[string]interface{}"
            yield invalid_value(where, 0, _accessor(where if here == where else here, value, wanted))
            return
        if step not in value:
            return
        value = value[step]
    if not isinstance(value, int) or isinstance(value, bool):
        yield invalid_value(where, 0, _accessor(where, value, "int64"))
    elif value < 0:
        yield invalid_value(where, value, "should be a non-negative integer")
    elif value > MOST_REPLICAS:
        yield invalid_value(where, value, f"should be less than or equal to {MOST_REPLICAS}")


def _accessor(path: str, value: Any, wanted: str) -> str:
    return f"{path} accessor error: {go_print(value)} is of the type {go_kind(value)}, expected {wanted}"


def kinds_of(definition: Obj) -> list[Kind]:
    """Return the kinds that a definition serves, the preferred version first: its name is that of the stored kind."""
    served = [version for version in definition["spec"]["versions"] if version.get("served")]
    served.sort(key=lambda version: _priority(version["name"]), reverse=True)
    converter = _converter(definition["spec"])
    return [
        replace(
            _kind(definition, version, converter, first=not at),
            deprecated=_deprecation(definition["spec"], version, served),
        )
        for at, version in enumerate(served)
    ]


def _converter(spec: Obj) -> Converter | None:
    """Return the webhook that converts a definition's objects, where there is one."""
    conversion = spec.get("conversion") or {}
    if conversion.get("strategy") != "Webhook":
        return None
    stored = next(version["name"] for version in spec["versions"] if version.get("storage"))
    return Converter(conversion["webhook"], f"{spec['group']}/{stored}")


def _deprecation(spec: Obj, version: Obj, served: list[Obj]) -> str:
    """Return the warning that a deprecated version carries; ``served`` begins with the best."""
    if not version.get("deprecated"):
        return ""
    if text := version.get("deprecationWarning"):
        return str(text)
    better = [other["name"] for other in served[: served.index(version)] if not other.get("deprecated")]
    group, kind = spec["group"], spec["names"]["kind"]
    use = f"; use {group}/{better[0]} {kind}" if better else ""
    return f"{group}/{version['name']} {kind} is deprecated{use}"


def _priority(name: str) -> tuple[int, int, int, str]:
    """Order versions as Kubernetes does: v2, v1, v1beta2, v1beta1, v1alpha1, then whatever is no such name."""
    found = VERSION.fullmatch(name)
    if found is None:
        return -1, 0, 0, "".join(chr(0x10FFFF - ord(letter)) for letter in name)
    return STAGES[found[2]], int(found[1]), int(found[3] or 0), ""


def _kind(definition: Obj, version: Obj, converter: Converter | None, *, first: bool) -> Kind:
    spec = definition["spec"]
    names = {**spec["names"], **definition.get("status", {}).get("acceptedNames", {})}
    below = version.get("subresources") or {}
    resource = f"{names['plural']}.{spec['group']}"
    schema, scale = version["schema"]["openAPIV3Schema"], _scale(below["scale"]) if "scale" in below else None
    return Kind(
        spec["group"], version["name"], names["kind"], names["plural"], spec["scope"] == "Namespaced",
        singular=names.get("singular", ""), short_names=tuple(names.get("shortNames", ())),
        categories=tuple(names.get("categories", ())), generation=True, storage="" if first else resource,
        subresources=tuple(found for found in SUBRESOURCES if found.name in below),
        scale=scale, field_error=NO_LABEL,
        stored_version=next(other["name"] for other in spec["versions"] if other.get("storage")),
        fields=tuple(_selectable(entry["jsonPath"]) for entry in version.get("selectableFields", ())),
        custom=CustomType(schema, columns_of(version.get("additionalPrinterColumns")), scale, converter),
        unconditional_update=False,
    )  # fmt: skip


def _scale(paths: Obj) -> Scale:
    return Scale(
        _path(paths["specReplicasPath"]),
        _path(paths["statusReplicasPath"]),
        _path(paths.get("labelSelectorPath") or ""),
    )


def _path(text: str) -> tuple[str, ...]:
    return tuple(step for step in text.split(".") if step)


def _selectable(path: str) -> Field:
    steps = _path(path)
    return Field(".".join(steps), steps)
