"""The verbs on resources: from a request that is allowed to the answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from aiohttp import web

from kubesim import admission
from kubesim.admission.validation.metadata import path_errors
from kubesim.api import bodies, connect, managed, optionrules, streams
from kubesim.api.answers import Encoder, as_asked, include_policy, not_found, with_warnings
from kubesim.api.backend import Backend
from kubesim.api.listing import check_list_version, check_version, listed
from kubesim.api.negotiate import KNOWN, RequestInfo, negotiate, parse_bool, parse_int
from kubesim.api.options import Options
from kubesim.api.status import bad_request, no_resource
from kubesim.asking import answered
from kubesim.auth.authn import readable
from kubesim.auth.noderestriction import restrict_deletion, restrict_eviction, restrict_token
from kubesim.auth.reviews import answer_token_request
from kubesim.auth.users import User
from kubesim.errors import ApiError, Obj
from kubesim.schema.registry import Kind

T = TypeVar("T")
OPTIONS = {"create": "CreateOptions", "update": "UpdateOptions", "patch": "UpdateOptions", "delete": "DeleteOptions",
           "deletecollection": "DeleteOptions"}  # fmt: skip
EVERYWHERE = ("list", "watch")
"""What can be asked of all namespaces at once."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request on a resource: everything its verb needs."""

    request: web.Request
    info: RequestInfo
    kind: Kind
    user: User
    warnings: list[str] = field(default_factory=list)
    """What is told beside the answer, whatever that is."""

    @property
    def namespace(self) -> str:
        """Return the namespace of namespaced kinds, else nothing (a Namespace's own name is none)."""
        return self.info.namespace if self.kind.namespaced else ""

    def query(self, name: str) -> str:
        """Return one parameter of the query."""
        return self.request.query.get(name, "")


class Resources:
    """Answers the requests on resources of one cluster."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._verbs: dict[str, Callable[[Call], Awaitable[web.StreamResponse]]] = {
            "get": self._get,
            "list": self._list,
            "watch": self._watch,
            "create": self._create,
            "update": self._update,
            "patch": self._patch,
            "delete": self._delete,
            "deletecollection": self._delete_collection,
        }

    async def answer(self, request: web.Request, info: RequestInfo, user: User) -> web.StreamResponse:
        """Answer one request."""
        try:
            kind = self._backend.operations.registry.by_path(info.group, info.version, info.resource)
        except ApiError as error:
            if any(known.group == info.group for known in self._backend.operations.registry.all()):
                raise no_resource() from error
            return not_found()
        call = Call(request, info, kind, user)
        if connect.serves(kind, info):
            return await connect.answer(self._backend, request, info, kind, user)
        if not self._exists(call):
            raise no_resource()
        if why := path_errors(info.name):
            raise bad_request(f'Name parameter invalid: "{info.name}": {", ".join(why)}')
        verb = self._verbs.get(info.verb)
        reads = info.verb in ("get", "list", "watch")
        if (reads and request.method != "GET") or verb is None or not self._permits(call):
            message = "the server does not allow this method on the requested resource"
            raise ApiError(405, "MethodNotAllowed", message, {})
        deprecated = [kind.deprecated] if kind.deprecated else []
        try:
            response = await verb(call)
        except ApiError as error:
            error.warnings = [*deprecated, *call.warnings]
            raise
        return response if response.prepared else as_asked(request, with_warnings(response, deprecated))

    def _exists(self, call: Call) -> bool:
        """Tell whether the path leads anywhere: scope and subresource must be the kind's."""
        info, kind = call.info, call.kind
        if info.rest or (info.subresource and kind.subresource(info.subresource) is None):
            return False
        if kind.virtual and info.name and not info.subresource and "get" not in kind.verbs:
            return False
        if kind.namespaced:
            return bool(info.namespace) or not info.name or info.verb in ("list", "watch")
        return not info.namespace or (kind.plural == "namespaces" and info.name == info.namespace)

    def _permits(self, call: Call) -> bool:
        """Tell whether the kind, or its subresource, has the verb."""
        sub = call.kind.subresource(call.info.subresource) if call.info.subresource else None
        if call.info.verb == "create" and bool(call.info.name) != bool(sub):
            return False
        if call.info.verb in ("update", "patch") and not call.info.name:
            return False
        if call.kind.namespaced and not call.namespace and call.info.verb not in EVERYWHERE:
            return sub is None and call.kind.virtual and call.info.verb in call.kind.verbs
        return call.info.verb in (sub.verbs if sub else call.kind.verbs)

    def _encoder(self, call: Call) -> Encoder:
        """Return the encoder for what the client accepts."""
        verb = call.info.verb
        answer = negotiate(
            call.request.headers.get("Accept", ""), streams=verb in ("list", "watch"), watched=verb == "watch"
        )
        policy = include_policy(call.query("includeObject"))
        return Encoder(call.kind, answer, policy, self._backend.clock.now())

    def _options(self, call: Call, *, applies: bool = False) -> Options:
        """Read what a write says beside its body."""
        dry_run = call.request.query.getall("dryRun", [])
        validation, force = call.query("fieldValidation"), call.request.query.get("force")
        forced = parse_bool(force)
        if call.info.verb in optionrules.NAMES:
            given = {"fieldManager": call.query("fieldManager"), "dryRun": dry_run, "fieldValidation": validation}
            optionrules.check_write(call.info.verb, {**given, "force": force, "applies": applies})
        agent = readable(call.request.headers.get("User-Agent", "unknown")).partition("/")[0]
        return Options(
            user=call.user.name,
            requester=call.user,
            field_manager=call.query("fieldManager") or agent[:128],
            field_validation=validation or "Warn",
            dry_run="All" in dry_run and call.info.verb not in ("delete", "deletecollection"),
            force=forced,
            warnings=call.warnings,
            given=_given(call, dry_run),
        )

    async def _write(self, options: Options, write: Callable[..., T]) -> T:
        """Write with these options, asking those who have to be asked."""
        return await answered(self._backend.operations.ask, lambda: write(options=options), options)

    async def _change(
        self, call: Call, sent: Any, write: Callable[..., Obj], *, applies: bool = False
    ) -> web.StreamResponse:
        """Make or change an object by what was sent, and answer with it."""
        options = self._options(call, applies=applies)
        if options.field_validation != "Ignore":
            options.repeated = await bodies.repeated(call.request, sent)
        obj = await self._write(options, write)
        made = options.created or call.info.verb == "create"
        return self._encoder(call).response(obj, 201 if made else 200, options.warnings)

    async def _get(self, call: Call) -> web.StreamResponse:
        """Answer GET of one object."""
        info = call.info
        if info.subresource == "log":
            return await streams.log(self._backend, call.request, info, call.user)
        check_version(self._backend.operations, call.query("resourceVersion"))
        shown = "scale" if info.subresource == "scale" else ""
        operations = self._backend.operations
        obj = await answered(
            operations.ask, lambda: operations.get(call.kind, call.namespace, info.name, subresource=shown)
        )
        return self._encoder(call).response(obj)

    async def _list(self, call: Call) -> web.StreamResponse:
        """Answer GET of a collection."""
        encoder = self._encoder(call)
        optionrules.check_read(call.request.query, watch=False)
        operations = self._backend.operations
        found, meta = await answered(
            operations.ask, lambda: listed(operations, call.kind, call.namespace, call.request.query)
        )
        return encoder.list_response(found, meta)

    async def _watch(self, call: Call) -> web.StreamResponse:
        """Answer a watch."""
        return await streams.watch(
            self._backend, call.request, call.info, call.kind, call.namespace, self._encoder(call), call.user
        )

    async def _create(self, call: Call) -> web.StreamResponse:
        """Answer POST."""
        kind, info, operations = call.kind, call.info, self._backend.operations
        custom = kind.custom is not None and info.subresource in ("", "status")
        obj = await bodies.read_object(call.request, *bodies.kind_of(kind, info.subresource), custom=custom)
        if kind.resource == "bindings":
            kind = self._backend.operations.registry.by_resource("pods")
            name = (obj.get("metadata") or {}).get("name", "")
            bind = partial(operations.create, kind, call.namespace, obj, name=name, subresource="binding")
            return self._encoder(call).response(await self._write(self._options(call), bind), 201)
        if kind.virtual:
            self._plain_only(call)
            admission.decode(kind, obj, self._options(call))
            now = self._backend.clock.now()
            answer = self._backend.reviewer.answer(kind, obj, call.user, call.namespace, now)
            if answer.get("spec"):
                asked = {name: value for name, value in answer.items() if name != "status"}
                managed.record_new(kind, asked, self._options(call), now)
            return self._encoder(call).response(answer, 201)
        if info.subresource == "token":
            return self._encoder(call).response(self._token(call, obj), 201)
        if info.subresource == "eviction":
            restrict_eviction(self._backend.operations, call.user, kind, call.namespace, info.name)
        create = partial(operations.create, kind, call.namespace, obj, name=info.name, subresource=info.subresource)
        return await self._change(call, obj, create)

    def _plain_only(self, call: Call) -> None:
        """Raise 406 for a Table of what has no metadata."""
        if negotiate(call.request.headers.get("Accept", "")).shape != "object":
            raise ApiError(406, "NotAcceptable", f"only the following media types are accepted: {KNOWN}")

    def _token(self, call: Call, review: Obj) -> Obj:
        """Answer a TokenRequest."""
        backend, now = self._backend, self._backend.clock.now()
        registry, name = backend.operations.registry, call.info.name
        restrict_token(backend.operations, call.user, call.kind, call.namespace, name, review)
        return answer_token_request(backend.store, registry, backend.signer, now, call.namespace, name, review)

    async def _update(self, call: Call) -> web.StreamResponse:
        """Answer PUT."""
        kind, info = call.kind, call.info
        custom = kind.custom is not None and info.subresource in ("", "status")
        obj = await bodies.read_object(call.request, *bodies.kind_of(kind, info.subresource), custom=custom)
        update, sub = self._backend.operations.update, info.subresource
        return await self._change(call, obj, partial(update, kind, call.namespace, info.name, obj, subresource=sub))

    async def _patch(self, call: Call) -> web.StreamResponse:
        """Answer PATCH."""
        kind, info = call.kind, call.info
        patch_type, patch = await bodies.read_patch(call.request, custom=kind.custom is not None)
        target = kind, call.namespace, info.name, patch
        how: Obj = {"patch_type": patch_type, "subresource": info.subresource}
        write = partial(self._backend.operations.patch, *target, **how)
        return await self._change(call, patch, write, applies=patch_type == "apply")

    async def _delete(self, call: Call) -> web.StreamResponse:
        """Answer DELETE of one object."""
        options, wanted = self._options(call), await self._delete_options(call)
        restrict_deletion(self._backend.operations, call.user, call.kind, call.namespace, call.info.name)
        options.given |= wanted
        delete = self._backend.operations.delete
        gone = await self._write(
            options, partial(delete, call.kind, call.namespace, call.info.name, delete_options=wanted)
        )
        waits = wanted.get("orphanDependents") is False and gone.get("kind") == call.kind.kind
        return self._encoder(call).response(gone, 202 if waits else 200, options.warnings)

    async def _delete_collection(self, call: Call) -> web.StreamResponse:
        """Answer DELETE of a collection."""
        options, wanted = self._options(call), await self._delete_options(call)
        self._check_selection(call)
        encoder = self._encoder(call)
        options.given |= wanted
        chosen: Obj = {"label_selector": call.query("labelSelector"), "field_selector": call.query("fieldSelector")}
        delete = partial(self._backend.operations.delete_collection, call.kind, call.namespace, **chosen)
        gone = await self._write(options, partial(delete, delete_options=wanted))
        meta = {"resourceVersion": gone.resource_version}
        return with_warnings(encoder.list_response(gone, meta), options.warnings)

    def _check_selection(self, call: Call) -> None:
        """Raise 400 or 422 for a query that could choose nothing, in a list or for a deletion."""
        for name in ("limit", "timeoutSeconds"):
            parse_int(name, call.query(name))
        optionrules.check_read(call.request.query, watch=False)
        check_list_version(call.query("resourceVersion"))

    async def _delete_options(self, call: Call) -> Obj:
        """Return the DeleteOptions of the body, or those of the query where there is no body."""
        wanted: dict[str, Any] | None = await bodies.read_options(call.request)
        if wanted is not None:
            return wanted
        wanted = {}
        grace = parse_int("gracePeriodSeconds", call.query("gracePeriodSeconds"))
        if grace is not None:
            wanted["gracePeriodSeconds"] = grace
        if policy := call.query("propagationPolicy"):
            wanted["propagationPolicy"] = policy
        if dry_run := call.request.query.getall("dryRun", []):
            wanted["dryRun"] = dry_run
        return wanted


def _given(call: Call, dry_run: list[str]) -> Obj:
    """Return the meta/v1 options of a write."""
    said: Obj = {"kind": OPTIONS.get(call.info.verb, "UpdateOptions"), "apiVersion": "meta.k8s.io/v1"}
    said |= {"dryRun": dry_run} if dry_run else {}
    return said | {name: call.query(name) for name in ("fieldManager", "fieldValidation") if call.query(name)}
