"""The definitions of one cluster at work: accepted names, served kinds, and the end of a definition's objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kubesim.api.meta import rfc3339
from kubesim.api.operations import Operations
from kubesim.api.options import Options
from kubesim.custom.definition import CLEANUP, RESOURCE, kinds_of
from kubesim.errors import ApiError, Obj
from kubesim.schema.registry import Kind
from kubesim.store import Event, key_of

MANAGER = "kube-apiserver"
Condition = tuple[str, str, str, str]
CHECKED_NAMES = (("plural", "PluralConflict"), ("singular", "SingularConflict"), ("shortNames", "ShortNamesConflict"),
                 ("kind", "KindConflict"), ("listKind", "ListKindConflict"))  # fmt: skip


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
        elif _is(current, "Established"):
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
            if not _is(definition, "Established"):
                established = ("Established", "False", "NotAccepted", "not all names are accepted")
        stored = [version["name"] for version in definition["spec"]["versions"] if version.get("storage")]
        known = status.get("storedVersions") or []
        status["conditions"] = self._conditions(definition, naming, established)
        status["acceptedNames"] = {key: accepted[key] for key in names if key in accepted} or {
            "plural": "",
            "kind": "",
        }
        status["storedVersions"] = [*known, *(version for version in stored if version not in known)]
        return status

    def _conditions(self, definition: Obj, *wanted: Condition) -> list[Obj]:
        known = {c["type"]: c for c in (definition.get("status") or {}).get("conditions") or ()}
        for kind, value, reason, message in wanted:
            before = known.get(kind)
            if before is None or (before["status"], before["reason"], before["message"]) != (value, reason, message):
                moment = rfc3339(self._operations.clock.now())
                known[kind] = {
                    "type": kind, "status": value, "lastTransitionTime": moment, "reason": reason, "message": message
                }  # fmt: skip
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
        if not _is(definition, "Terminating"):
            conditions = self._conditions(definition, text)
            self._write({**definition, "status": {**definition.get("status", {}), "conditions": conditions}})
            return
        for kind in self._served.get(name, ())[:1]:
            self._delete_all(kind)
        self._finish(name)

    def _finish(self, name: str) -> None:
        """Let a definition go that waits for its objects and has none left."""
        definition = self._operations.store.get(self._kind, "", name)
        if definition is None or not _is(definition, "Terminating"):
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
            try:
                self._operations.delete(kind, *key_of(obj))
            except ApiError as error:
                if error.code != 404:
                    raise


def _is(definition: Obj, condition: str) -> bool:
    found = (definition.get("status") or {}).get("conditions") or ()
    return any(entry["type"] == condition and entry["status"] == "True" for entry in found)
