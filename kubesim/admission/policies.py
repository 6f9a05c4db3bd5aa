"""ValidatingAdmissionPolicies: CEL that is asked of every matching request, and what follows from the answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kubesim.api import status
from kubesim.api.options import Options
from kubesim.api.selectors import from_struct
from kubesim.auth.attributes import Attributes
from kubesim.auth.users import User, service_account_user
from kubesim.cel import CelError, compiled
from kubesim.errors import ApiError, Obj
from kubesim.schema.registry import Kind

if TYPE_CHECKING:
    from kubesim.api.operations import Operations

GROUP = "admissionregistration.k8s.io"
POLICIES = f"validatingadmissionpolicies.{GROUP}"
BINDINGS = f"validatingadmissionpolicybindings.{GROUP}"
EXEMPT = frozenset({POLICIES, BINDINGS, f"validatingwebhookconfigurations.{GROUP}",
                    f"mutatingwebhookconfigurations.{GROUP}"})  # fmt: skip
CODES = {"Unauthorized": 401, "Forbidden": 403, "Invalid": 422, "RequestEntityTooLarge": 413}
ANY = "*"


@dataclass(frozen=True, slots=True)
class Request:
    """One write, as policies see it."""

    ops: Operations
    kind: Kind
    old: Obj | None
    new: Obj | None
    subresource: str
    options: Options

    @property
    def operation(self) -> str:
        """CREATE, UPDATE or DELETE."""
        return "DELETE" if self.new is None else "CREATE" if self.old is None else "UPDATE"

    @property
    def object(self) -> Obj:
        """The object that is written, or deleted."""
        return self.new if self.new is not None else self.old or {}

    def namespace(self) -> Obj | None:
        """Return the namespace of the object."""
        name = self.object["metadata"].get("namespace")
        return self.ops.store.get(self.ops.registry.by_resource("namespaces"), "", name) if name else None

    def variables(self) -> dict[str, Any]:
        """Return what every expression may speak of."""
        kind, metadata = self.kind, self.object["metadata"]
        resource = {"group": kind.group, "version": kind.version, "resource": kind.plural}
        named = {"group": kind.group, "version": kind.version, "kind": kind.kind}
        user = self.options.requester
        request = {
            "kind": named, "resource": resource, "requestKind": named, "requestResource": resource,
            "subResource": self.subresource, "name": metadata.get("name", ""), "operation": self.operation,
            "namespace": metadata.get("namespace", ""), "dryRun": self.options.dry_run,
            "userInfo": user.info() if user is not None else {"username": self.options.user},
        }  # fmt: skip
        about = {"group": kind.group, "resource": kind.plural, "subresource": self.subresource}
        asked = about | {"namespace": metadata.get("namespace", ""), "name": metadata.get("name", "")}
        return {
            "object": self.new, "oldObject": self.old, "request": request, "namespaceObject": self.namespace(),
            "authorizer": {"requestResource": asked},
        }  # fmt: skip

    def functions(self) -> dict[str, Callable[..., Any]]:
        """Return the functions whose answers depend on who asks."""
        return {"check": self._check}

    def _check(self, question: Obj, verb: str = "") -> Obj:
        """Ask the authorizer what an expression has put together."""
        user = self.options.requester or User(self.options.user)
        if account := question.get("account"):
            namespace, _, name = account.partition(":")
            user = service_account_user(namespace, name, "")
        names = ("group", "resource", "subresource", "namespace", "name", "path")
        asked = Attributes(verb, **{name: str(question.get(name, "")) for name in names})
        return {"allowed": self.ops.allows(user, asked), "reason": ""}


def check(ops: Operations, kind: Kind, old: Obj | None, new: Obj | None, subresource: str, options: Options) -> None:
    """Ask every policy that is bound; raises what the first failure under Deny says, and fills in warnings."""
    if kind.resource in EXEMPT:
        return
    bindings = ops.store.list(ops.registry.by_resource(BINDINGS))
    if not bindings:
        return
    request = Request(ops, kind, old, new, subresource, options)
    for binding in bindings:
        policy = ops.store.get(ops.registry.by_resource(POLICIES), "", binding["spec"].get("policyName", ""))
        if policy is None or not _matches(request, policy["spec"].get("matchConstraints"), rules=True):
            continue
        if _matches(request, binding["spec"].get("matchResources"), rules=False):
            _judge(request, policy, binding)


def _matches(request: Request, wanted: Obj | None, *, rules: bool) -> bool:
    """Tell whether a request is among those that a policy, or a binding (which may leave rules out), speaks of."""
    if wanted is None:
        return not rules
    chosen = wanted.get("resourceRules") or ()
    if (rules or chosen) and not any(_rule_matches(request, rule) for rule in chosen):
        return False
    if any(_rule_matches(request, rule) for rule in wanted.get("excludeResourceRules") or ()):
        return False
    namespace = request.namespace() if request.kind.resource != "namespaces" else request.object
    in_space = namespace is None or from_struct(wanted.get("namespaceSelector") or {}).selects(namespace)
    objects = [obj for obj in (request.new, request.old) if obj is not None]
    return in_space and any(from_struct(wanted.get("objectSelector") or {}).selects(obj) for obj in objects)


def _rule_matches(request: Request, rule: Obj) -> bool:
    kind, sub = request.kind, request.subresource
    full = f"{kind.plural}/{sub}" if sub else kind.plural
    names = rule.get("resourceNames") or ()
    scope = rule.get("scope", ANY)
    known = {full, "*/*", f"*/{sub}" if sub else ANY}
    return (
        _has(rule.get("apiGroups"), kind.group)
        and _has(rule.get("apiVersions"), kind.version)
        and _has(rule.get("operations"), request.operation)
        and not known.isdisjoint(rule.get("resources") or ())
        and (not names or request.object["metadata"].get("name") in names)
        and (scope == ANY or (scope == "Namespaced") == kind.namespaced)
    )


def _has(values: list[str] | None, wanted: str) -> bool:
    return ANY in (values or ()) or wanted in (values or ())


def _judge(request: Request, policy: Obj, binding: Obj) -> None:
    """Ask one policy with every object of parameters that its binding names."""
    spec, actions = policy["spec"], binding["spec"].get("validationActions") or ("Deny",)
    for params in _parameters(request, spec, binding):
        for validation, message in _failures(request, spec, params):
            name, bound = policy["metadata"]["name"], binding["metadata"]["name"]
            said = f"ValidatingAdmissionPolicy '{name}' with binding '{bound}' denied request: {message}"
            if "Deny" in actions:
                raise _refusal(request, validation.get("reason", "Invalid"), said)
            if "Warn" in actions:
                text = f"Validation failed for ValidatingAdmissionPolicy '{name}' with binding '{bound}': {message}"
                request.options.warnings.append(text)


def _refusal(request: Request, reason: str, said: str) -> ApiError:
    kind, name = request.kind, request.object["metadata"].get("name", "")
    details = status.details(kind, name)
    details["causes"] = [{"message": said}]
    message = f'{kind.resource} "{name}" is forbidden: {said}'
    return ApiError(CODES.get(reason, 422), reason, message, details)


def _parameters(request: Request, spec: Obj, binding: Obj) -> Iterator[Obj | None]:
    """Yield the objects that a binding gives to its policy; None where the policy takes none."""
    wanted, reference = spec.get("paramKind"), binding["spec"].get("paramRef")
    if wanted is None or reference is None:
        yield None
        return
    kind = request.ops.registry.by_kind(wanted["apiVersion"], wanted["kind"])
    space = reference.get("namespace") or request.object["metadata"].get("namespace", "") if kind.namespaced else ""
    if name := reference.get("name"):
        one = request.ops.store.get(kind, space, name)
        found = [one] if one is not None else []
    else:
        selector = from_struct(reference.get("selector") or {})
        found = [obj for obj in request.ops.store.list(kind, space) if selector.selects(obj)]
    if not found and reference.get("parameterNotFoundAction", "Deny") == "Deny":
        said = "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
        raise status.forbidden(request.kind, request.object["metadata"].get("name", ""), said)
    yield from found


def _failures(request: Request, spec: Obj, params: Obj | None) -> Iterator[tuple[Obj, str]]:
    """Yield each validation that does not hold, with its message; none where a condition leaves the request out."""
    scope, functions = {**request.variables(), "params": params, "variables": {}}, request.functions()
    fails = spec.get("failurePolicy", "Fail") == "Fail"
    try:
        if not all(
            compiled(entry["expression"]).run(scope, functions) for entry in spec.get("matchConditions") or ()
        ):
            return
    except CelError as error:
        if fails:
            yield {}, str(error)
        return
    broken = _evaluate_variables(spec.get("variables") or (), scope, functions)
    for validation in spec.get("validations") or ():
        expression = validation["expression"]
        try:
            if compiled(expression).run(scope, functions) is not True:
                yield validation, _message(validation, scope)
        except CelError as error:
            why = next((text for name, text in broken.items() if f"variables.{name}" in expression), str(error))
            if fails:
                yield validation, f"expression '{expression}' resulted in error: {why}"


def _evaluate_variables(
    entries: Iterable[Obj], scope: dict[str, Any], functions: dict[str, Callable[..., Any]]
) -> dict[str, str]:
    """Add a policy's own variables to the scope, and return what is said of those that have no value."""
    broken = {}
    for entry in entries:
        name = entry["name"]
        try:
            scope["variables"][name] = compiled(entry["expression"]).run(scope, functions)
        except CelError as error:
            broken[name] = f'composited variable "{name}" fails to evaluate: {error}'
    return broken


def _message(validation: Obj, scope: dict[str, Any]) -> str:
    if text := validation.get("messageExpression"):
        try:
            found = compiled(text).run(scope)
        except CelError:
            found = ""
        if isinstance(found, str) and found.strip():
            return found
    return str(validation.get("message") or f"failed expression: {validation['expression'].strip()}")
