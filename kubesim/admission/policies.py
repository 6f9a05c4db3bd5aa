"""ValidatingAdmissionPolicies: CEL that is asked of every matching request, and what follows from the answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from kubesim.admission.requests import EXEMPT, GROUP, Request
from kubesim.api import status
from kubesim.api.options import Options
from kubesim.api.selectors import from_struct
from kubesim.cel.program import CelError, compiled
from kubesim.cel.run import Meter
from kubesim.errors import ApiError, Obj
from kubesim.schema.registry import Kind

if TYPE_CHECKING:
    from kubesim.api.operations import Operations

POLICIES = f"validatingadmissionpolicies.{GROUP}"
BINDINGS = f"validatingadmissionpolicybindings.{GROUP}"
LONGEST_MESSAGE = 5 * 1024
CODES = {"Unauthorized": 401, "Forbidden": 403, "Invalid": 422, "RequestEntityTooLarge": 413}


def check(ops: Operations, kind: Kind, old: Obj | None, new: Obj | None, subresource: str, options: Options) -> None:
    """Ask every policy that is bound; raises what the first failure under Deny says, and fills in warnings."""
    if kind.resource in EXEMPT:
        return
    bindings = ops.store.list(ops.registry.by_resource(BINDINGS))
    if not bindings:
        return
    ask(Request.of(ops, kind, old, new, subresource, options), bindings)


def ask(request: Request, bindings: Iterable[Obj]) -> None:
    """Ask every policy; raises what the first failure under Deny says, and fills in warnings."""
    ops, denied = request.ops, None
    for binding in sorted(bindings, key=lambda found: found["spec"].get("policyName", "")):
        policy = ops.store.get(ops.registry.by_resource(POLICIES), "", binding["spec"].get("policyName", ""))
        kind = _matched(request, policy["spec"].get("matchConstraints")) if policy is not None else None
        if policy is None or kind is None or not _bound(request, binding["spec"].get("matchResources")):
            continue
        for error in _judge(request, kind, policy, binding):
            denied = denied or error
    if denied is not None:
        raise denied


def _matched(request: Request, wanted: Obj | None) -> Kind | None:
    """Return the kind as which a policy speaks of a request."""
    if wanted is None or not request.selected(wanted) or _excluded(request, wanted):
        return None
    return request.matched(wanted, wanted.get("resourceRules") or [])


def _bound(request: Request, wanted: Obj | None) -> bool:
    """Tell whether a binding, which may leave rules out, speaks of a request."""
    if wanted is None:
        return True
    rules = wanted.get("resourceRules") or []
    chosen = not rules or request.matched(wanted, rules) is not None
    return chosen and request.selected(wanted) and not _excluded(request, wanted)


def _excluded(request: Request, wanted: Obj) -> bool:
    return request.matched(wanted, wanted.get("excludeResourceRules") or []) is not None


def _judge(request: Request, kind: Kind, policy: Obj, binding: Obj) -> Iterator[ApiError]:
    """Ask one policy with every object of parameters that its binding names; yield what it denies."""
    spec, actions = policy["spec"], binding["spec"].get("validationActions") or ("Deny",)
    try:
        found = list(_parameters(request, spec, binding))
    except ValueError as error:
        if spec.get("failurePolicy", "Fail") == "Fail":
            bound = f"ValidatingAdmissionPolicy '{policy['metadata']['name']}'"
            bound += f" with binding '{binding['metadata']['name']}'" if "binding" in str(error) else ""
            yield _refusal(request, "Invalid", f"{bound} denied request: failed to configure {error}")
        return
    for params in found:
        for validation, message in _failures(request, kind, spec, params):
            name, bound = policy["metadata"]["name"], binding["metadata"]["name"]
            said = f"ValidatingAdmissionPolicy '{name}' with binding '{bound}' denied request: {message}"
            if "Deny" in actions:
                yield _refusal(request, validation.get("reason", "Invalid"), said)
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
    """Yield the objects that a binding gives to its policy; None where the policy takes none.

    Raises ValueError where there are none, or are not to be had.
    """
    wanted, reference = spec.get("paramKind"), binding["spec"].get("paramRef")
    if wanted is None or reference is None:
        yield None
        return
    try:
        kind = request.ops.registry.by_kind(wanted["apiVersion"], wanted["kind"])
    except ApiError as error:
        named = f"{wanted['apiVersion']}, Kind={wanted['kind']}"
        raise ValueError(f"policy: failed to find resource referenced by paramKind: '{named}'") from error
    space = reference.get("namespace") or request.object["metadata"].get("namespace", "") if kind.namespaced else ""
    if name := reference.get("name"):
        one = request.ops.store.get(kind, space, name)
        found = [one] if one is not None else []
    else:
        selector = from_struct(reference.get("selector") or {})
        found = [obj for obj in request.ops.store.list(kind, space) if selector.selects(obj)]
    if not found and reference.get("parameterNotFoundAction", "Deny") == "Deny":
        raise ValueError("binding: no params found for policy binding with `Deny` parameterNotFoundAction")
    yield from found


def _failures(request: Request, kind: Kind, spec: Obj, params: Obj | None) -> Iterator[tuple[Obj, str]]:
    """Yield each validation that does not hold, with its message; none where a condition leaves the request out."""
    scope, functions = {**request.variables(kind), "params": params}, request.functions()
    fails = spec.get("failurePolicy", "Fail") == "Fail"
    left_out, wrong = unmet(spec.get("matchConditions") or (), scope, functions)
    if left_out or wrong:
        if wrong and fails:
            yield {}, wrong[0] if len(wrong) == 1 else f"[{', '.join(wrong)}]"
        return
    asked = Asked(scope, functions, BUDGET)
    scope["variables"] = Variables(spec.get("variables") or (), asked.run)
    try:
        yield from _broken(spec, asked, fails=fails)
    except OutOfBudget as error:
        if fails:
            yield {}, str(error)


def _broken(spec: Obj, asked: Asked, *, fails: bool) -> Iterator[tuple[Obj, str]]:
    """Yield each validation that does not hold, or has no value where that counts (``fails``)."""
    for validation in spec.get("validations") or ():
        expression = validation["expression"]
        try:
            if asked.run(expression) is not True:
                yield validation, _message(validation, asked)
        except OutOfBudget:
            raise
        except CelError as error:
            if fails:
                yield {}, f"expression '{expression}' resulted in error: {error}"
    if fails:
        yield from (({}, text) for text in _unsaid(spec, asked))


def _unsaid(spec: Obj, asked: Asked) -> Iterator[str]:
    """Yield what is wrong with what a policy would write into the audit log; nobody keeps one here."""
    for entry in spec.get("auditAnnotations") or ():
        text = entry["valueExpression"]
        try:
            asked.run(text)
        except OutOfBudget:
            raise
        except CelError as error:
            yield f"valueExpression '{text}' resulted in error: {error}"


def _message(validation: Obj, asked: Asked) -> str:
    """Return what is said of a validation that does not hold: one line, and not too long."""
    if text := validation.get("messageExpression"):
        try:
            found = asked.run(text)
        except CelError:
            found = ""
        said = found.strip() if isinstance(found, str) else ""
        if said and "\n" not in said and len(said) <= LONGEST_MESSAGE:
            return said
    said = (validation.get("message") or "").strip()
    return said or f"failed expression: {validation['expression'].strip()}"


BUDGET, BUDGET_OF_CONDITIONS = 10_000_000, 2_500_000
"""Most that all expressions of a policy, and all conditions of one, may cost together."""
SPENT = "validation failed due to running out of cost budget, no further validation rules will be run"


class OutOfBudget(CelError):
    """Expressions have cost more than all of them may."""


class Asked:
    """Runs expressions about one request until they have cost too much together."""

    def __init__(self, scope: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]], budget: int) -> None:
        self.scope = scope
        self._functions = functions
        self._left = budget

    def run(self, text: str) -> Any:
        """Return an expression's value. Raises CelError, and OutOfBudget when nothing more is to be asked."""
        meter = Meter()
        try:
            return compiled(text).run(self.scope, self._functions, meter)
        finally:
            self._left -= meter.spent
            if self._left < 0:
                raise OutOfBudget(SPENT)


class Variables(Mapping[str, Any]):
    """A policy's own variables, each of which is evaluated when it is first asked for."""

    def __init__(self, entries: Iterable[Obj], run: Callable[[str], Any]) -> None:
        self._texts = {entry["name"]: entry["expression"] for entry in entries}
        self._run = run
        self._known: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._known:
            try:
                self._known[name] = self._run(self._texts[name])
            except CelError as error:
                self._known[name] = CelError(f'composited variable "{name}" fails to evaluate: {error}')
        if isinstance(found := self._known[name], CelError):
            raise found
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._texts

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)


def unmet(
    conditions: Iterable[Obj], scope: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]]
) -> tuple[bool, list[str]]:
    """Tell whether a condition leaves a request out, and what went wrong with others."""
    wrong, asked = [], Asked(scope, functions, BUDGET_OF_CONDITIONS)
    for condition in conditions:
        try:
            if asked.run(condition["expression"]) is not True:
                return True, []
        except OutOfBudget as error:
            return False, [str(error)]
        except CelError as error:
            wrong.append(f"expression '{condition['expression']}' resulted in error: {error}")
    return False, wrong
