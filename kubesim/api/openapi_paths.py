"""The paths of the OpenAPI documents: which operations a kind has, what they take and what they answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kubesim import data
from kubesim.errors import Obj
from kubesim.schema.openapi_table import REFERENCE
from kubesim.schema.registry import Kind, Subresource

META = "io.k8s.apimachinery.pkg.apis.meta.v1."
FORMS = ("application/json", "application/vnd.kubernetes.protobuf", "application/yaml")
CUSTOM_FORMS = ("application/json", "application/yaml")
"""What custom kinds are taken and answered in: they have no protobuf, and no strategic merge."""
WATCHED = ("application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch")
CUSTOM_PATCHES = ("application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json")
PATCHES = (*CUSTOM_PATCHES, "application/strategic-merge-patch+json")
_TABLE = data.table(__file__, "openapi_paths.yaml")
OPERATIONS: dict[str, Obj] = _TABLE["operations"]
LIST: list[str] = OPERATIONS["list"]["parameters"]
TYPES: dict[str, str] = {name: form for form, names in _TABLE["types"].items() for name in names}
TEXT: Obj = {"schema": {"type": "string"}}
STREAMED = ("attach", "exec", "portforward", "proxy")
"""Subresources that are no objects, of which the documents say nothing."""
TEXTS = {"200": "OK", "201": "Created", "202": "Accepted", "401": "Unauthorized"}


def paths(kind: Kind, schema: str, others: dict[tuple[str, str, str], str]) -> Iterator[tuple[str, Obj]]:
    """Yield each path of a kind with its operations; ``schema`` names its type, ``others`` those of subresources."""
    root = f"/apis/{kind.api_version}" if kind.group else f"/api/{kind.version}"
    scope = "/namespaces/{namespace}" if kind.namespaced else ""
    many, one = f"{root}{scope}/{kind.plural}", f"{root}{scope}/{kind.plural}/{{name}}"
    make = _Maker(kind, schema)
    yield many, make.item(("list", "create", "deletecollection"))
    if "get" in kind.verbs:
        yield one, make.item(("get", "update", "delete", "patch"), named=True)
    for sub in kind.subresources:
        if sub.name in STREAMED:
            continue
        identity = (sub.group if sub.version else kind.group, sub.version or kind.version, sub.kind or kind.kind)
        shown = (kind.group, kind.version, kind.kind) if kind.custom is not None else identity
        yield f"{one}/{sub.name}", make.under(sub, others.get(identity, schema), shown)
    if "watch" in kind.verbs and kind.namespaced:
        yield f"{root}/{kind.plural}", make.everywhere()


def root_path(kind: Kind) -> tuple[str, Obj]:
    """Return the path that lists the kinds of a kind's group and version."""
    make = _Maker(kind, "")
    operation = {
        "tags": [make.tag],
        "description": "get available resources",
        "operationId": f"get{make.title}APIResources",
        "responses": _responses(("200",), f"{META}APIResourceList", FORMS),
    }
    return f"/apis/{kind.api_version}/" if kind.group else f"/api/{kind.version}/", {"get": operation}


class _Maker:
    """Makes the operations of one kind."""

    def __init__(self, kind: Kind, schema: str) -> None:
        self.kind = kind
        self.schema = schema
        self.identity = _identity(kind.group, kind.version, kind.kind)
        words = kind.group.removesuffix(".k8s.io").split(".") if kind.group else ["core"]
        group = words[0] + "".join(word.capitalize() for word in words[1:])
        self.tag = f"{group}_{kind.version}"
        self.title = f"{group[0].upper()}{group[1:]}{kind.version.capitalize()}"
        self.scope = "Namespaced" if kind.namespaced else ""
        self.forms = FORMS if kind.custom is None else CUSTOM_FORMS
        self.streams = (*FORMS, *WATCHED) if kind.custom is None else CUSTOM_FORMS

    def item(self, verbs: tuple[str, ...], *, named: bool = False) -> Obj:
        """Return a path's operations, and the parameters that they share."""
        item: Obj = {"parameters": self._shared(named=named)}
        for verb in verbs:
            if verb in self.kind.verbs:
                item[OPERATIONS[verb]["method"]] = self._operation(verb, self.schema, self.identity)
        return item

    def under(self, sub: Subresource, schema: str, identity: tuple[str, str, str]) -> Obj:
        """Return the operations of a subresource."""
        item: Obj = {"parameters": self._shared(named=True)}
        for verb in sub.verbs:
            operation = self._operation(verb, schema, _identity(*identity))
            operation["operationId"] += sub.name.capitalize()
            operation["description"] = _text(verb, self.kind.kind, sub.name)
            item[OPERATIONS[verb]["method"]] = operation
        if sub.name == "log":
            item["parameters"] += [parameter(name) for name in _TABLE["log"]]
            item["get"]["responses"]["200"]["content"] = dict.fromkeys((*FORMS, "text/plain"), TEXT)
        elif "create" in sub.verbs and len(sub.verbs) == 1:
            item["parameters"] += item["post"].pop("parameters")
        return item

    def everywhere(self) -> Obj:
        """Return the operation over all namespaces."""
        operation = {
            "tags": [self.tag],
            "description": self._listing(),
            "operationId": f"list{self.title}{self.kind.kind}ForAllNamespaces",
            "responses": _responses(("200",), f"{self.schema}List", self.streams),
            "x-kubernetes-action": "list",
            "x-kubernetes-group-version-kind": self.identity,
        }
        return {"get": operation, "parameters": [parameter(each) for each in sorted((*LIST, "pretty"))]}

    def _listing(self) -> str:
        watched = self.kind.custom is None and "watch" in self.kind.verbs
        return f"list {'or watch ' * watched}objects of kind {self.kind.kind}"

    def _operation(self, verb: str, schema: str, identity: Obj) -> Obj:
        how, custom = OPERATIONS[verb], self.kind.custom is not None
        parameters = how.get("custom", how["parameters"]) if custom else how["parameters"]
        codes = how["codes"][:1] if custom and verb == "patch" else how["codes"]
        many = "Collection" if verb == "deletecollection" else ""
        answer = {"list": f"{schema}List", "deletecollection": f"{META}Status"}.get(verb, schema)
        if verb == "delete" and not self.kind.returns_deleted:
            answer = f"{META}Status"
        operation: Obj = {
            "tags": [self.tag],
            "description": self._listing() if verb == "list" else _text(verb, self.kind.kind),
            "operationId": f"{how['id']}{self.title}{many}{self.scope}{self.kind.kind}",
            "responses": _responses(codes, answer, self.streams if verb == "list" else self.forms),
            "x-kubernetes-action": how["action"],
            "x-kubernetes-group-version-kind": identity,
        }
        if parameters:
            operation["parameters"] = [parameter(each) for each in parameters]
        return operation | _body(verb, schema, custom=custom)

    def _shared(self, *, named: bool) -> list[Obj]:
        """Return the parameters that stand in the path, and one of the query."""
        names = [*(["name"] if named else []), *(["namespace"] if self.kind.namespaced else [])]
        return [*({**parameter(name), "in": "path", "required": True} for name in names), parameter("pretty")]


def _identity(group: str, version: str, kind: str) -> Obj:
    return {"group": group, "version": version, "kind": kind}


def parameter(name: str) -> Obj:
    """Return a parameter of the query."""
    return {"name": name, "in": "query", "schema": {"type": TYPES.get(name, "string"), "uniqueItems": True}}


def _text(verb: str, kind: str, part: str = "") -> str:
    """Return the sentence that tells of an operation, as upstream's installer words it."""
    plural = kind.endswith("s") and not kind.endswith("ss")
    one = kind if plural else f"an {kind}" if kind[0] in "AEIOU" else f"a {kind}"
    match verb:
        case "create":
            return f"create {part} of {one}" if part else f"create {one}"
        case "delete":
            return f"delete {one}"
        case "deletecollection":
            return f"delete collection of {kind}"
    name = {"get": "read", "update": "replace", "patch": "partially update"}[verb]
    return f"{name} {part} of the specified {kind}" if part else f"{name} the specified {kind}"


def _body(verb: str, schema: str, *, custom: bool) -> Obj:
    """Return what an operation takes."""
    forms, patches = (CUSTOM_FORMS, CUSTOM_PATCHES) if custom else (("*/*",), PATCHES)
    match verb:
        case "create" | "update":
            return {"requestBody": {"content": _content(forms, schema), "required": True}}
        case "patch":
            return {"requestBody": {"content": _content(patches, f"{META}Patch"), "required": True}}
        case "deletecollection" if custom:
            return {}
        case "delete" | "deletecollection":
            return {"requestBody": {"content": _content(forms, f"{META}DeleteOptions")}}
    return {}


def _responses(codes: Iterable[str], schema: str, forms: tuple[str, ...]) -> Obj:
    answers: Obj = {code: {"description": TEXTS[code], "content": _content(forms, schema)} for code in codes}
    return answers | {"401": {"description": TEXTS["401"]}}


def _content(forms: tuple[str, ...], schema: str) -> Obj:
    return {form: {"schema": {"$ref": REFERENCE + schema}} for form in forms}
