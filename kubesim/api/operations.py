"""The verbs of the API server for one request, after authorisation and before encoding. Synchronous, no I/O.

Every method takes the ``Kind`` first, raises ``ApiError`` in upstream's words, and answers with objects of the store,
which must not be changed. ``namespace`` is "" for cluster-scoped kinds, and for a list of every namespace.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import orjson

from kubesim import admission
from kubesim.admission.quota import Ledger
from kubesim.api import apply, deletion, managed, meta, optionrules, status, subresources
from kubesim.api.apply import check_typed
from kubesim.api.convert import all_served, at_rest, stored_kind, to_served, to_stored
from kubesim.api.options import Options, PatchType
from kubesim.api.patch import check_depth, go_print, json_patch, merge_patch, strategic_patch
from kubesim.api.selectors import FieldSelector, LabelSelector, matcher, parse_fields, parse_labels
from kubesim.asking import Answer, Ask, Question
from kubesim.auth.users import MASTERS, Attributes, User
from kubesim.client import ObjectList
from kubesim.clock import Clock
from kubesim.errors import ApiError, Obj
from kubesim.schema.kinds import registry as builtin
from kubesim.schema.registry import Kind, Registry
from kubesim.schema.types import shape_of
from kubesim.store import SPACE, SPACE_PER_NODE, Objects, Store, Stored, key_of

NAME_ATTEMPTS = 8
SWEEP = timedelta(minutes=1)
APISERVER = "system:apiserver"
Check = Callable[["Operations", Kind, Obj | None, Obj, str, Options], None]
"""Takes the operations, the kind, the object before (None: a new one) and after, the subresource and the options."""


class Operations:
    """The verbs of one cluster's API."""

    def __init__(self, store: Store, clock: Clock, registry: Registry | None = None) -> None:
        """Serve the built-in kinds, or those of ``registry``; a cluster's own kinds are added to its own copy."""
        self.store = store
        self.ledger = Ledger(store)
        self.clock = clock
        self.registry = registry or Registry(builtin.all())
        self._nodes = builtin.by_resource("nodes")
        self.checks: list[Check] = []
        """What is asked before every create and update, beside the rules of the kinds; each raises to refuse."""
        self.allows: Callable[[User, Attributes], bool] = lambda user, asked: False
        """Whether somebody may do something, for those rules that ask."""
        self.ask: Ask = _nobody
        """Who carries questions to webhooks."""
        self._next_sweep: dict[str, datetime] = {}

    def get(self, kind: Kind, namespace: str, name: str, *, subresource: str = "") -> Obj:
        """Return one object (or its Scale). Raises 404."""
        obj = to_served(kind, self._existing(kind, namespace, name))
        return subresources.scale_of(kind, obj) if subresource == "scale" else obj

    def current(self, kind: Kind, namespace: str, name: str) -> Stored | None:
        """Return an object to work on: where a webhook converts it, in the kind's version. Raises Unanswered."""
        found = self.store.get(kind, namespace, name)
        if found is None or kind.custom is None or kind.custom.converter is None:
            return found
        served = to_served(kind, found)
        return served if isinstance(served, Stored) else Stored.seal(served)

    def list(
        self,
        kind: Kind,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        version: int | None = None,
    ) -> ObjectList:
        """Return the selected objects by namespace and name, as they are or as they were at ``version``.

        Raises 400 for a selector that makes no sense and 410 for a version that is forgotten.
        """
        labels, fields = parse_labels(label_selector), parse_fields(field_selector, kind)
        if version is None or version == self.store.resource_version:
            selected = self._selected(kind, namespace, labels, fields)
        else:
            selects = matcher(labels, fields)
            listed = self._worked_on(kind, self.store.list_at(kind, namespace, version))
            selected = [obj for obj in listed if selects(obj)]
        return ObjectList(all_served(kind, selected), str(version or self.store.resource_version))

    def _worked_on(self, kind: Kind, objects: Objects) -> Objects:
        """Return objects as selectors look at them: where a webhook converts them, in the kind's version."""
        converter = kind.custom.converter if kind.custom is not None else None
        return objects if converter is None else converter.served(objects, kind.api_version)

    def create(
        self,
        kind: Kind,
        namespace: str,
        obj: Obj,
        *,
        name: str = "",
        subresource: str = "",
        options: Options | None = None,
    ) -> Obj:
        """Create an object, or post ``obj`` to the binding or eviction subresource of ``name``."""
        options = options or Options()
        if subresource:
            return subresources.post(self, kind, namespace, name, subresource, obj, options)
        served = self._decoded(kind, obj, options)
        stored, options.served = stored_kind(self.registry, kind), kind
        new = to_stored(kind, stored, served)
        options.generated = not new.get("metadata", {}).get("name")
        for attempt in range(NAME_ATTEMPTS):
            try:
                return to_served(kind, self._create(stored, namespace, dict(new), options), options.talk)
            except ApiError as exc:
                if exc.reason != "AlreadyExists" or not options.generated or attempt == NAME_ATTEMPTS - 1:
                    raise
        raise AssertionError("unreachable")

    def update(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        obj: Obj,
        *,
        subresource: str = "",
        options: Options | None = None,
    ) -> Obj:
        """Replace an object, its status, its scale or (of a namespace) its finalizers. Raises 404, 409, 422."""
        options = options or Options()
        if subresource == "scale":
            return subresources.replace_scale(self, kind, namespace, name, obj, options)
        _check_subresource(kind, subresource)
        stored, options.served = stored_kind(self.registry, kind), kind
        options.disowned = _disowned(obj)
        new = to_stored(kind, stored, self._decoded(kind, obj, options))
        meta.check_named(new, name)
        meta.check_name(new["metadata"], name)
        meta.check_namespace(kind, new["metadata"], namespace)
        old = self.current(stored, namespace, name)
        if old is None:
            return to_served(kind, self._create_by_update(stored, namespace, new, options))
        return to_served(kind, self.save(stored, old, new, subresource, options))

    def patch(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        change: Any,
        *,
        patch_type: PatchType = "merge",
        subresource: str = "",
        options: Options | None = None,
    ) -> Obj:
        """Change some fields. Raises 404 (except for apply, which creates), 409, 422."""
        options = options or Options()
        _check_subresource(kind, subresource)
        stored, options.served = stored_kind(self.registry, kind), kind
        current = self.current(stored, namespace, name)
        if current is None:
            if patch_type == "apply" and not subresource:
                return self._create_by_apply(kind, namespace, name, change, options)
            raise status.not_found(kind, name)
        if subresource == "scale" and patch_type == "apply":
            return self._apply_scale(kind, stored, current, change, options)
        if subresource == "scale":
            scale = self._patched(subresources.scale_of(stored, current), change, patch_type, "V1Scale")
            return subresources.replace_scale(self, kind, namespace, name, scale, options)
        if patch_type == "apply":
            served = self._applied(kind, to_served(kind, current), change, subresource, options)
        else:
            served = self._patched(to_served(kind, current), change, patch_type, kind.schema)
        if patch_type != "apply":
            meta.check_named(served, name)
        options.disowned = _disowned(served)
        described = _described(served, change, patch_type)
        new = to_stored(kind, stored, _decoded_change(kind, current, served, subresource, options, described))
        meta.check_uid(kind, current, new)
        meta.check_name(new["metadata"], name)
        meta.check_namespace(kind, new["metadata"], namespace)
        return to_served(kind, self.save(stored, current, new, subresource, options))

    def delete(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        *,
        delete_options: Obj | None = None,
        options: Options | None = None,
    ) -> Obj:
        """Delete an object and return the answer's body: a Status, or the object where it lives on.

        ``delete_options`` is the meta/v1 DeleteOptions: gracePeriodSeconds, preconditions, propagationPolicy.
        """
        options = options or Options()
        stored, options.served = stored_kind(self.registry, kind), kind
        wanted = admission.decode_body("DeleteOptions", delete_options or {})
        optionrules.check_delete(wanted)
        obj = self._existing(stored, namespace, name)
        if options.talk is not None:
            to_served(kind, obj)  # what has to be asked, is asked before anything is written
        options.dry_run = options.dry_run or "All" in wanted.get("dryRun", ())
        answer = deletion.delete(self, stored, obj, wanted, options)
        if answer["kind"] == "Status" or (kind.custom is not None and kind.custom.converter is not None):
            return answer
        return to_served(kind, answer)

    def delete_collection(
        self,
        kind: Kind,
        namespace: str,
        *,
        label_selector: str = "",
        field_selector: str = "",
        delete_options: Obj | None = None,
        options: Options | None = None,
    ) -> ObjectList:
        """Delete every selected object and return what was selected."""
        selected = self._to_delete(kind, namespace, label_selector, field_selector, options)
        for obj in selected.items:
            space, name = obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
            if self.store.get(kind, space, name) is not None:
                self.delete(kind, space, name, delete_options=delete_options, options=options)
        return selected

    def _to_delete(self, kind: Kind, namespace: str, labels: str, fields: str, options: Options | None) -> ObjectList:
        """Return what a deletion of many selects: also when it is begun again, what it was in the beginning."""
        talk = options.talk if options is not None else None
        if talk is not None and talk.selected is not None:
            return talk.selected
        selected = self.list(kind, namespace, label_selector=labels, field_selector=fields)
        if talk is not None:
            talk.selected = selected
        return selected

    def save(self, kind: Kind, old: Stored, new: Obj, subresource: str, options: Options) -> Obj:
        """Write a changed object of a stored kind: carry over, admit, validate; nothing where nothing changed."""
        if options.requester is not None:  # the control plane's own changes are small
            self._check_space(options)
        meta.check_version(kind, old, new)
        meta.carry_over(old, new)
        new, claimed = subresources.of_change(self, kind, old, new, subresource, options)
        admission.on_update(self, kind, old, new, subresource, options)
        new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        if kind.generation and subresource != "status" and admission.desire(old) != admission.desire(new):
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        new = meta.ordered(new)
        same = _unmanaged(new) == _unmanaged(old)
        if same and options.wanted is None and not options.disowned and _managers(new) in (_managers(old), []):
            return old
        claimed = new if claimed is None else claimed
        managed.record(kind, old, claimed, options.through or subresource, options, self.clock.now())
        meta.set_managers(new, claimed)
        apply.note_applied(new, options)
        if same and _unmanaged(new) == _unmanaged(old) and _managers(new) == _managers(old):
            return old
        if options.dry_run:
            return new
        kept = at_rest(kind, new, options.talk)
        if deletion.is_due(kind, new):
            return self._as_worked_on(new, kept, self.store.delete(kind, *key_of(new), last=kept))
        return self._as_worked_on(new, kept, self.store.update(kind, kept))

    def _as_worked_on(self, new: Obj, kept: Obj, written: Stored) -> Obj:
        """Return what was written in the version in which it was worked on."""
        if kept is new:
            return written
        version = written["metadata"]["resourceVersion"]
        return Stored.seal({**new, "metadata": {**new["metadata"], "resourceVersion": version}})

    def _create(self, kind: Kind, namespace: str, new: Obj, options: Options) -> Obj:
        new["metadata"] = dict(new.get("metadata") or {})
        meta.prepare_new(kind, new, namespace, self.clock.now())
        managed.record_new(kind, new, options, self.clock.now())
        admission.on_create(self, kind, new, options)
        name = new["metadata"]["name"]
        if not options.dry_run:
            meta.check_unversioned(new["metadata"])
        there = self.store.get(kind, new["metadata"].get("namespace", ""), name)
        if there is not None:
            raise status.already_exists(kind, name, ending=bool(there["metadata"].get("deletionTimestamp")))
        new = meta.ordered(new)
        if options.dry_run:
            return new
        if kind.ttl_s:
            self._forget_old(kind)
        self._check_space(options)
        kept = at_rest(kind, new, options.talk)
        return self._as_worked_on(new, kept, self.store.create(kind, kept))

    def _check_space(self, options: Options) -> None:
        """Raise 500, as over a full etcd, where a cluster has grown too large; administrators can still mend it."""
        trusted = options.user == APISERVER or (options.requester is not None and MASTERS in options.requester.groups)
        space = SPACE + SPACE_PER_NODE * self.store.count(self._nodes)
        if self.store.size > space and not trusted:
            raise ApiError(500, "InternalError", "etcdserver: mvcc: database space exceeded")

    def _forget_old(self, kind: Kind) -> None:
        """Delete what has outlived its kind's time; looked at once a minute at most, when more is created."""
        now = self.clock.now()
        if now < self._next_sweep.get(kind.table, now):
            return
        self._next_sweep[kind.table] = now + SWEEP
        oldest = meta.rfc3339(now - timedelta(seconds=kind.ttl_s))
        for obj in self.store.oldest(kind, lambda obj: obj["metadata"]["creationTimestamp"] < oldest):
            if (obj.get("lastTimestamp") or "") < oldest:
                self.store.delete(kind, *key_of(obj))

    def _create_by_update(self, kind: Kind, namespace: str, new: Obj, options: Options) -> Obj:
        name = new["metadata"]["name"]
        if not kind.create_on_update or new["metadata"].get("uid"):
            raise status.not_found(kind, name)
        new["metadata"].pop("resourceVersion", None)
        options.created = True
        return self._create(kind, namespace, new, options)

    def _create_by_apply(self, kind: Kind, namespace: str, name: str, change: Any, options: Options) -> Obj:
        options.created, options.wanted = True, self._wanted(kind, change)
        options.given |= {"kind": "CreateOptions"} if options.given else {}
        applied = self._decoded(kind, change, options)
        applied["metadata"].pop("resourceVersion", None)
        if uid := applied["metadata"].get("uid"):
            why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            raise status.conflict(kind, name, why)
        meta.check_name(applied["metadata"], name)
        return self.create(kind, namespace, applied, options=options)

    def _applied(self, kind: Kind, current: Obj, change: Any, subresource: str, options: Options) -> Obj:
        options.wanted = self._wanted(kind, change)
        return apply.applied(kind, current, options.wanted, subresource, options)

    def _apply_scale(self, kind: Kind, stored: Kind, current: Stored, change: Any, options: Options) -> Obj:
        """Apply a Scale as what it says of the object itself."""
        options.wanted, options.through = subresources.scaled(kind, self._wanted_scale(change)), "scale"
        if kind.scale is not None and not options.force:
            apply.check_unowned_scale(current, options.wanted, kind.scale.spec)
        new = to_stored(kind, stored, apply.applied(kind, to_served(kind, current), options.wanted, "scale", options))
        return subresources.scale_of(stored, self.save(stored, current, dict(new), "", options))

    def _wanted_scale(self, change: Any) -> Obj:
        """Check what an apply asks for of a Scale. Raises 400."""
        if not isinstance(change, dict):
            raise status.bad_request("error decoding YAML: the configuration is not an object")
        return admission.decode_body("Scale", change)

    def _wanted(self, kind: Kind, change: Any) -> Obj:
        """Check what an apply asks for. Raises 400."""
        check_depth(change)
        if not isinstance(change, dict):
            raise status.bad_request("error decoding YAML: the configuration is not an object")
        given = change.get("apiVersion") or "/", change.get("kind") or ""
        if given != (kind.api_version, kind.kind):
            version = given[0] if "/" in given[0] else f"/{given[0]}"
            raise status.bad_request(f"invalid object type: {version}, Kind={given[1]}")
        check_typed(kind, change)
        admission.decode(kind, change, Options())
        if (change.get("metadata") or {}).get("managedFields") is not None:
            raise status.bad_request("metadata.managedFields must be nil")
        return change

    def _existing(self, kind: Kind, namespace: str, name: str) -> Stored:
        obj = self.store.get(kind, namespace, name)
        if obj is None:
            raise status.not_found(kind, name)
        return obj

    def _selected(self, kind: Kind, namespace: str, labels: LabelSelector, fields: FieldSelector) -> Objects:
        name = fields.value("metadata.name")
        if name and (namespace or not kind.namespaced):
            found = self.store.get(kind, namespace, name)
            candidates = [found] if found else []
        else:
            indexed = next((label for label in kind.indexes if not kind.storage and fields.value(label)), "")
            candidates = (
                self.store.select(kind, indexed, fields.value(indexed))
                if indexed
                else self.store.list(kind, namespace)
            )
            if indexed and namespace:
                candidates = [obj for obj in candidates if obj["metadata"].get("namespace") == namespace]
        if not labels.requirements and not fields.terms:
            return candidates
        candidates = self._worked_on(kind, candidates)
        selects = matcher(labels, fields)
        return [obj for obj in candidates if selects(obj)]

    def _decoded(self, kind: Kind, obj: Obj, options: Options) -> Obj:
        """Copy what a client sent, and check that it is of the kind that the path says."""
        return admission.decode(kind, obj, options)

    def _patched(self, current: Obj, change: Any, patch_type: PatchType, schema: str) -> Obj:
        check_depth(change)
        match patch_type:
            case "json":
                return json_patch(current, change)
            case "merge":
                if not isinstance(change, dict):
                    raise status.bad_request("error decoding patch: the patch is not an object")
                merged: Obj = merge_patch(current, change)
                return merged
            case _:
                return strategic_patch(current, change, shape_of(schema))


async def _nobody(question: Question) -> Answer:
    return Answer(error="nobody can be asked")


def _decoded_change(
    kind: Kind, current: Obj, served: Obj, subresource: str, options: Options, patch: admission.Patched | None
) -> Obj:
    """Return a patched object as its type has it; what stays the same beside a status needs no second look."""
    spec, metadata = current.get("spec"), current["metadata"]
    kept = subresource == "status" and kind.custom is None and not kind.storage and spec is not None
    if not kept or served.get("spec") is not spec:
        return admission.decode(kind, served, options, patch)
    same: Obj = {"spec": spec}
    if options.wanted is None and _is_same(served.get("metadata"), metadata):
        same["metadata"] = dict(metadata)
    return admission.decode(kind, {**served, **dict.fromkeys(same, {})}, options, patch) | same


def _is_same(one: Any, other: Obj) -> bool:
    """Tell whether two values are the same as JSON; for Python, 1 is true as well."""
    return one == other and orjson.dumps(one) == orjson.dumps(other)


def _described(patched: Obj, change: Any, patch_type: PatchType) -> admission.Patched:
    """Tell how an error speaks of a patch: of what it says, or of the whole object that it makes."""
    strategic = patch_type == "strategic"
    return admission.Patched(lambda: go_print(change) if strategic else orjson.dumps(patched).decode(), strategic)


def _unmanaged(obj: Obj) -> Obj:
    """Return an object without its managedFields, which change with the time of a write that changes nothing."""
    return {**obj, "metadata": {name: value for name, value in obj["metadata"].items() if name != "managedFields"}}


def _managers(obj: Obj) -> list[Obj]:
    """Return who set what, but not when: to apply again what is there already changes nothing."""
    entries = obj["metadata"].get("managedFields") or []
    return [{name: value for name, value in entry.items() if name != "time"} for entry in entries]


def _disowned(obj: Any) -> bool:
    """Tell whether an object says that nobody owns anything of it: its list of managers is there, but names none."""
    metadata = obj.get("metadata") if isinstance(obj, dict) else None
    return isinstance(metadata, dict) and metadata.get("managedFields") in ([], [{}])


def _check_subresource(kind: Kind, name: str) -> None:
    """Raise 404 for a subresource that the kind does not have."""
    if name and kind.subresource(name) is None:
        raise status.no_resource()
