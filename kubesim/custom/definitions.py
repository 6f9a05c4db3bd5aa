"""CustomResourceDefinitions: the kinds that each stands for, accepted names, and the end of its objects."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import orjson

from kubesim.api.operations import Operations
from kubesim.api.options import Options
from kubesim.api.patch import go_print
from kubesim.api.status import FieldError, invalid_value
from kubesim.conditions import renewed, said
from kubesim.custom import rules, values
from kubesim.custom.columns import columns_of
from kubesim.custom.conversion import Converter
from kubesim.errors import Obj, tolerating
from kubesim.schema.columns import Column
from kubesim.schema.decode import DecodeError, Decoder, go_kind, json_name
from kubesim.schema.paths import is_true
from kubesim.schema.registry import NO_LABEL, Field, Kind, Scale, Subresource
from kubesim.schema.types import Shape, shape_of
from kubesim.store import Event, Stored, key_of

MANAGER = "kube-apiserver"
Condition = tuple[str, str, str, str]
CHECKED_NAMES = (("plural", "PluralConflict"), ("singular", "SingularConflict"), ("shortNames", "ShortNamesConflict"),
                 ("kind", "KindConflict"), ("listKind", "ListKindConflict"))  # fmt: skip
RESOURCE = "customresourcedefinitions.apiextensions.k8s.io"
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
VERSION = re.compile(r"v([1-9]\d*)(?:(alpha|beta)([1-9]\d*)?)?")
SUBRESOURCES = (Subresource("status"), Subresource("scale", "Scale", "autoscaling", "v1"))
MOST_REPLICAS = 2**31 - 1
STAGES = {"alpha": 0, "beta": 1, None: 2}


class Definitions:
    """Follows the CustomResourceDefinitions of a store and keeps the registry as they say."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        self._registry = operations.registry
        self._kind = self._registry.by_resource(RESOURCE)
        self._served: dict[str, list[Kind]] = {}
        operations.store.subscribe(None, self._changed)

    def restore(self, objects: Mapping[str, Iterable[Obj]]) -> None:
        """Serve the kinds of the definitions in a snapshot (objects by the names of their tables)."""
        for definition in objects.get(RESOURCE, ()):
            self._serve(definition)

    def _changed(self, event: Event) -> None:
        if event.kind.table == RESOURCE:
            self._definition_changed(event)
        elif event.type == "DELETED" and event.kind.custom is not None:
            self._finish(event.kind.table)

    def _definition_changed(self, event: Event) -> None:
        name = event.object["metadata"]["name"]
        if event.type == "DELETED":
            self._withdraw(name)
            return
        current = self._operations.store.get(self._kind, "", name)
        if current is None or current["metadata"]["resourceVersion"] != event.object["metadata"]["resourceVersion"]:
            return
        if current["metadata"].get("deletionTimestamp"):
            self._end(current)
            return
        wanted = self._status(current)
        if wanted != current.get("status"):
            self._write({**current, "status": wanted})
        elif is_true(current, "Established"):
            self._serve(current)

    def _serve(self, definition: Obj) -> None:
        name = definition["metadata"]["name"]
        self._withdraw(name)
        self._served[name] = kinds_of(definition)
        for kind in self._served[name]:
            self._registry.add(kind)

    def _withdraw(self, name: str) -> None:
        for kind in self._served.pop(name, ()):
            self._registry.remove(kind)

    def _write(self, definition: Obj) -> None:
        options = Options(user="system:apiserver", field_manager=MANAGER)
        name = definition["metadata"]["name"]
        self._operations.update(self._kind, "", name, definition, subresource="status", options=options)

    def _status(self, definition: Obj) -> Obj:
        """Return the status of a definition: the names that it may have, and whether it is served."""
        names, status = definition["spec"]["names"], dict(definition.get("status") or {})
        accepted, problem = self._accepted(definition)
        naming: Condition = ("NamesAccepted", "True", "NoConflicts", "no conflicts found")
        established: Condition = (
            "Established", "True", "InitialNamesAccepted", "the initial names have been accepted"
        )  # fmt: skip
        if problem is not None:
            naming = ("NamesAccepted", "False", *problem)
            if not is_true(definition, "Established"):
                established = ("Established", "False", "NotAccepted", "not all names are accepted")
        stored = [version["name"] for version in definition["spec"]["versions"] if version.get("storage")]
        known = status.get("storedVersions") or []
        status["conditions"] = self._conditions(definition, naming, established)
        named = {key: accepted[key] for key in names if key in accepted}
        status["acceptedNames"] = named or {"plural": "", "kind": ""}
        status["storedVersions"] = [*known, *(version for version in stored if version not in known)]
        return status

    def _conditions(self, definition: Obj, *wanted: Condition) -> list[Obj]:
        known = {c["type"]: c for c in (definition.get("status") or {}).get("conditions") or ()}
        for kind, value, reason, message in wanted:
            before = known.get(kind)
            if before is None or said(before) != (value, reason, message):
                known[kind] = renewed({}, kind, (value, reason, message), self._operations.clock.now())
        return list(known.values())

    def _accepted(self, definition: Obj) -> tuple[Obj, tuple[str, str] | None]:
        """Return the names that nobody else in the group has, and (reason, message) of the last that somebody has."""
        names, taken = definition["spec"]["names"], self._taken(definition)
        accepted: dict[str, Any] = dict((definition.get("status") or {}).get("acceptedNames") or {})
        problem: tuple[str, str] | None = None
        for field, reason in CHECKED_NAMES:
            given = names.get(field)
            used = taken["kinds" if field in ("kind", "listKind") else "resources"]
            clashes = [name for name in ([given] if isinstance(given, str) else given or ()) if name in used]
            if clashes:
                texts = [f'"{name}" is already in use' for name in clashes]
                problem = (reason, texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")
            elif given:
                accepted[field] = given
        if names.get("categories"):
            accepted["categories"] = names["categories"]
        return accepted, problem

    def _taken(self, definition: Obj) -> dict[str, set[str]]:
        taken: dict[str, set[str]] = {"resources": set(), "kinds": set()}
        for other in self._operations.store.list(self._kind):
            same = other["metadata"]["name"] == definition["metadata"]["name"]
            if same or other["spec"]["group"] != definition["spec"]["group"]:
                continue
            names = other.get("status", {}).get("acceptedNames", {})
            taken["resources"] |= {names.get("plural", ""), names.get("singular", ""), *names.get("shortNames", ())}
            taken["kinds"] |= {names.get("kind", ""), names.get("listKind", "")}
        return {what: names - {""} for what, names in taken.items()}

    def _end(self, definition: Obj) -> None:
        """Delete every object of a definition that goes; it goes itself when none is left."""
        if CLEANUP not in definition["metadata"].get("finalizers", ()):
            return
        name = definition["metadata"]["name"]
        text = ("Terminating", "True", "InstanceDeletionInProgress", "CustomResource deletion is in progress")
        if not is_true(definition, "Terminating"):
            conditions = self._conditions(definition, text)
            self._write({**definition, "status": {**definition.get("status", {}), "conditions": conditions}})
            return
        for kind in self._served.get(name, ())[:1]:
            self._delete_all(kind)
        self._finish(name)

    def _finish(self, name: str) -> None:
        """Let a definition go that waits for its objects and has none left."""
        definition = self._operations.store.get(self._kind, "", name)
        if definition is None or not is_true(definition, "Terminating"):
            return
        kinds = self._served.get(name, ())
        if any(self._operations.store.count(kind) for kind in kinds[:1]):
            return
        metadata = dict(definition["metadata"])
        metadata["finalizers"] = [text for text in metadata.get("finalizers", ()) if text != CLEANUP]
        options = Options(user="system:apiserver", field_manager=MANAGER)
        self._operations.update(self._kind, "", name, {**definition, "metadata": metadata}, options=options)

    def _delete_all(self, kind: Kind) -> None:
        for obj in self._operations.store.list(kind):
            if obj["metadata"].get("deletionTimestamp"):
                continue
            with tolerating(404):
                self._operations.delete(kind, *key_of(obj))


@dataclass(frozen=True, eq=False)
class CustomType:
    """The type of the objects of one version of a custom kind."""

    schema: Obj
    columns: tuple[Column, ...]
    scale: Scale | None = None
    converter: Converter | None = None

    def unconverted(self) -> CustomType:
        """Return the type of the same objects as they are kept, in whatever version."""
        return CustomType({"x-kubernetes-preserve-unknown-fields": True}, self.columns, self.scale)

    def decode(self, obj: Obj, unknown: list[str]) -> Obj:
        """Return an object with what its schema knows, and with defaults. Raises DecodeError for bad metadata."""
        kept: Obj = values.prune(obj, self.schema, "", unknown, whole=True)
        metadata = shape_of("V1ObjectMeta")
        if not isinstance(kept.get("metadata"), dict):
            what = json_name(kept.get("metadata"))
            raise DecodeError(f"json: cannot unmarshal {what} into Go value of type v1.ObjectMeta")
        if metadata is not None:
            decoder = Decoder()
            kept["metadata"] = decoder.object(metadata, kept["metadata"], "metadata")
            unknown[:0] = decoder.unknown
        values.add_defaults(kept, self.schema)
        return kept

    def read(self, obj: Obj) -> Obj:
        """Return a stored object as the schema of today has it; what it was made for one version is kept with it."""
        found = obj.memo.get(self) if isinstance(obj, Stored) else None
        if found is None:
            kept: Obj = values.prune(obj, self.schema, "", [], whole=True)
            values.add_defaults(kept, self.schema)
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
        """Return the way in which objects merge."""
        return values.shape_from(self.schema, "", whole=True)

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
