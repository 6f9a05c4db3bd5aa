"""The registry of kinds: one entry decides how a kind is served, indexed, merged, defaulted and deleted.

``Kind`` holds facts only. Printers, validators and admission steps hang on ``Kind.resource`` in tables of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from kubesim.errors import ApiError
from kubesim.schema.types import Shape, shape_of

if TYPE_CHECKING:
    from kubesim.custom.definitions import CustomType

NO_LABEL = "field label not supported: {label}"
"""The answer of kinds that have field selectors of their own, to a label that they do not know."""
ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True)
class Field:
    """A field that field selectors of its kind know.

    ``label`` is the name in the selector, ``path`` where the value lies, ``empty`` what a missing value reads as;
    ``instead`` is where it is looked for when nothing lies at ``path``.
    """

    label: str
    path: tuple[str, ...]
    empty: str = ""
    instead: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Subresource:
    """A path below an object: its name and the kind that is sent there, if that is another than the object's."""

    name: str
    kind: str = ""
    group: str = ""
    version: str = ""
    verbs: tuple[str, ...] = ("get", "patch", "update")


@dataclass(frozen=True, slots=True)
class Scale:
    """Where a scalable kind keeps its replicas and its selector."""

    spec: tuple[str, ...] = ("spec", "replicas")
    status: tuple[str, ...] = ("status", "replicas")
    selector: tuple[str, ...] = ()
    """Where the selector lies as a text; without it, it is the structure at ``spec.selector``."""


@dataclass(frozen=True, slots=True)
class Immutable:
    """A field that no update changes; ``text`` is the answer, as an invalid value or (``forbidden``) without one.

    ``type_name`` is the type in ``schema/internal.json`` in whose form a structure is shown.
    """

    path: tuple[str, ...]
    text: str = "field is immutable"
    forbidden: bool = False
    type_name: str = ""


@dataclass(frozen=True)
class Kind:
    """One served kind. Two versions of a kind share one ``storage``; ``resource`` is kubectl's name of it."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    schema: str = ""
    """The type in ``schema/types.json`` that its objects have."""
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: tuple[Subresource, ...] = ()
    scale: Scale | None = None
    fields: tuple[Field, ...] = ()
    """What field selectors know beside metadata.name and metadata.namespace."""
    field_error: str = '"{label}" is not a known field selector: only "metadata.name", "metadata.namespace"'
    indexes: tuple[str, ...] = ()
    """Labels of ``fields`` by which the store finds objects without looking at all of them."""
    storage: str = ""
    renames: tuple[tuple[str, str], ...] = ()
    """Fields that another version of the stored kind calls differently: (served, stored)."""
    immutable: tuple[Immutable, ...] = ()
    """What an update may not change."""
    names: str = "subdomain"
    """The rule for metadata.name: subdomain, label or path."""
    generation: bool = False
    """Whether metadata.generation counts the changes of everything but metadata and status."""
    graceful: bool = False
    create_on_update: bool = False
    unconditional_update: bool = True
    returns_deleted: bool = False
    """Whether DELETE answers with the object where others answer with a Status."""
    propagation: str = "Background"
    ttl_s: int = 0
    """Seconds after its last change when an object goes by itself; 0 for never."""
    deprecated: str = ""
    """The warning that every answer carries."""
    virtual: bool = False
    """Answered at once and never stored (access reviews)."""
    cleanup: str = ""
    """The finalizer that every object gets when it is deleted."""
    custom: CustomType | None = None
    """The type of the objects of a CustomResourceDefinition."""
    stored_version: str = ""
    """The version in which objects are stored, where it is not that of ``storage``."""
    storage_key: str = ""
    """The name under which upstream's storage keeps the resource, where it is not its own."""
    kept_beside_status: tuple[str, ...] = ()
    """Parts of metadata that cannot be changed together with a status."""

    def __hash__(self) -> int:
        """Entries are compared whole but looked up by what names them."""
        return hash((self.group, self.version, self.plural))

    @property
    def shape(self) -> Shape | None:
        """The type of its objects, or None where nothing is known of it."""
        return self.custom.shape if self.custom is not None else shape_of(self.schema)

    @cached_property
    def api_version(self) -> str:
        """``v1`` or ``apps/v1``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @cached_property
    def resource(self) -> str:
        """``pods`` or ``deployments.apps``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @cached_property
    def table(self) -> str:
        """The name of the store's table that holds its objects."""
        return self.storage or self.resource

    @cached_property
    def list_kind(self) -> str:
        """``PodList``."""
        return f"{self.kind}List"

    @cached_property
    def selectable(self) -> dict[str, Field]:
        """Every field that its field selectors know, by label."""
        meta = [Field("metadata.name", ("metadata", "name"))]
        if self.namespaced or not self.fields:
            meta.append(Field("metadata.namespace", ("metadata", "namespace")))
        return {field.label: field for field in (*meta, *self.fields)}

    def subresource(self, name: str) -> Subresource | None:
        """Return a subresource by name."""
        return next((sub for sub in self.subresources if sub.name == name), None)

    @cached_property
    def has_status(self) -> bool:
        """Whether ``status`` is written only through its subresource."""
        return self.subresource("status") is not None


class Registry:
    """The kinds that one cluster serves. Look-ups raise the API's own 404."""

    def __init__(self, kinds: Iterable[Kind]) -> None:
        self._by_path: dict[tuple[str, str, str], Kind] = {}
        self._by_resource: dict[str, Kind] = {}
        self._by_kind: dict[tuple[str, str], Kind] = {}
        for kind in kinds:
            self.add(kind)

    def add(self, kind: Kind) -> None:
        """Serve one more kind; the first version that is added is the preferred one."""
        self._by_path[kind.group, kind.version, kind.plural] = kind
        self._by_resource.setdefault(kind.resource, kind)
        self._by_kind[kind.api_version, kind.kind] = kind

    def remove(self, kind: Kind) -> None:
        """Serve a kind no longer."""
        self._by_path.pop((kind.group, kind.version, kind.plural), None)
        self._by_kind.pop((kind.api_version, kind.kind), None)
        if self._by_resource.get(kind.resource) is kind:
            del self._by_resource[kind.resource]

    def by_path(self, group: str, version: str, plural: str) -> Kind:
        """Return the kind behind ``/apis/{group}/{version}/{plural}`` (group "" is the core group)."""
        return _found(self._by_path.get((group, version, plural)))

    def by_resource(self, resource: str) -> Kind:
        """Return the kind that kubectl calls ``pods`` or ``deployments.apps``, in its preferred version."""
        return _found(self._by_resource.get(resource))

    def by_kind(self, api_version: str, kind: str) -> Kind:
        """Return the kind of an object's own apiVersion and kind."""
        return _found(self._by_kind.get((api_version, kind)))

    def all(self) -> list[Kind]:
        """Return every kind in the order of its adding."""
        return list(self._by_path.values())

    def stored(self) -> Iterator[Kind]:
        """Yield one kind per table of the store, in its preferred version."""
        for kind in self._by_resource.values():
            if not kind.virtual and not kind.storage:
                yield kind


def _found(kind: Kind | None) -> Kind:
    if kind is None:
        raise ApiError(404, "NotFound", "the server could not find the requested resource")
    return kind
