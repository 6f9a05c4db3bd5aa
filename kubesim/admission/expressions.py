"""The expressions of admission policies before they are asked: what they may speak of, and what they must be."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from kubesim.api.status import FieldError, invalid_value
from kubesim.cel.costs import Meter
from kubesim.cel.program import CelError, compiled
from kubesim.cel.types import UNKNOWN, Type, checked, show_whole
from kubesim.errors import ApiError, Obj
from kubesim.schema.kinds import registry as builtin
from kubesim.schema.registry import Kind
from kubesim.schema.types import FieldType, Shape

STRINGS = ("list", "string")
LABELS = ("map", "string", "string")
MOST_TYPES = 10
SCALARS = {"string": "string", "int": "int", "bool": "bool", "float": "double", "bytes": "bytes", "time": "timestamp"}
RESULTS = {"messageExpression": ("string",), "valueExpression": ("string", "null_type")}
"""What the expressions of a field must be; others that are no variables must be true or false."""
OWN = re.compile(r"spec\.variables\[(\d+)\]\.expression")


def fields(**known: Type) -> Type:
    """Return the type of an object with these fields."""
    return ("object", known.get)


NAMED = fields(group="string", version="string", kind="string")
RESOURCE = fields(group="string", version="string", resource="string")
REQUEST = fields(
    kind=NAMED, resource=RESOURCE, subResource="string", requestKind=NAMED, requestResource=RESOURCE,
    requestSubResource="string", name="string", namespace="string", operation="string", dryRun="bool", options="dyn",
    userInfo=fields(username="string", uid="string", groups=STRINGS, extra=("map", "string", STRINGS)),
)  # fmt: skip
NAMESPACE = fields(
    metadata=fields(
        name="string", generateName="string", namespace="string", labels=LABELS, annotations=LABELS, UID="string",
        creationTimestamp="timestamp", deletionGracePeriodSeconds="int", deletionTimestamp="timestamp",
        generation="int", resourceVersion="string", finalizers=STRINGS,
    ),
    spec=fields(finalizers=STRINGS), status=fields(phase="string"),
)  # fmt: skip
COMMON: Mapping[str, Type] = {
    "request": REQUEST, "namespaceObject": NAMESPACE, "authorizer": UNKNOWN, "object": "dyn", "oldObject": "dyn",
}  # fmt: skip


def errors(text: str, where: str, policy: Obj) -> Iterator[FieldError]:
    """Yield what is wrong with an expression at a path of a policy, or of a webhook configuration (no ``spec``)."""
    own = OWN.fullmatch(where)
    most = int(own[1]) if own else None
    names = dict(COMMON) if "matchConditions" in where else _names(policy.get("spec") or {}, most)
    if (policy.get("spec") or {}).get("paramKind"):
        names["params"] = "dyn"
    found = checked(text, names)
    wanted = RESULTS.get(where.rpartition(".")[2], ("bool",))
    if found.faults:
        yield invalid_value(where, text, f"compilation failed: {found.text(text)}")
    elif own is None and found.type != UNKNOWN and found.type not in wanted:
        shown = wanted[0] if len(wanted) == 1 else f"one of [{' '.join(wanted)}]"
        yield invalid_value(where, text, f"must evaluate to {shown} but got {show_whole(found.type)}")


class _Variables:
    """The types of a policy's own variables, of which each knows those before it."""

    def __init__(self, spec: Obj, common: Mapping[str, Type]) -> None:
        self.spec = spec
        self._common = {**common, **({"params": "dyn"} if spec.get("paramKind") else {})}
        self._places: dict[str, list[int]] = {}
        self._types: list[Type] = []
        for entry in spec.get("variables") or ():
            found = checked(entry.get("expression") or "", self.names(None))
            self._places.setdefault(entry.get("name", ""), []).append(len(self._types))
            self._types.append("dyn" if found.faults else found.type)

    def names(self, most: int | None) -> dict[str, Type]:
        """Return what an expression may speak of that knows so many of the variables (None: all)."""
        if not self.spec.get("variables"):
            return dict(self._common)
        return {**self._common, "variables": ("object", partial(self._type, most))}

    def _type(self, most: int | None, name: str) -> Type | None:
        places = self._places.get(name) or []
        known = len(places) if most is None else bisect_left(places, most)
        return self._types[places[known - 1]] if known else None


_seen: list[_Variables] = []
"""The policy whose expressions were looked at last: there are as many expressions as it has lines."""


def _names(spec: Obj, most: int | None = None) -> dict[str, Type]:
    """Return what an expression of a policy may speak of: its own variables too."""
    held = next(iter(_seen), None)
    if held is None or held.spec is not spec:
        held = _Variables(spec, COMMON)
        _seen[:] = [held]
    return held.names(most)


def warnings(policy: Obj) -> list[Obj]:
    """Return what the types of the matched kinds say against a policy's expressions, as its status shows it."""
    spec, found = policy["spec"], []
    shapes = [(kind, of_shape(kind.shape)) for kind in list(_kinds(spec))[:MOST_TYPES] if kind.shape is not None]
    known = [
        (kind, _Variables(spec, {**COMMON, "object": seen, "oldObject": seen}).names(None)) for kind, seen in shapes
    ]
    for at, entry in enumerate(spec.get("validations") or ()):
        for name in ("expression", "messageExpression"):
            text = entry.get(name) or ""
            texts = [said for kind, names in known if (said := _warning(text, kind, names))]
            if texts:
                found.append({"fieldRef": f"spec.validations[{at}].{name}", "warning": "\n".join(texts)})
    return found


def _warning(text: str, kind: Kind, names: dict[str, Type]) -> str:
    if not text:
        return ""
    result = checked(text, names)
    shown = f"{kind.group}/{kind.version}, Kind={kind.kind}"
    return f"{shown}: {result.text(text)}\n" if result.faults else ""


def _kinds(spec: Obj) -> Iterator[Kind]:
    """Yield the built-in kinds that the rules name; what a wildcard means is not looked at."""
    for rule in (spec.get("matchConstraints") or {}).get("resourceRules") or ():
        for group in rule.get("apiGroups") or ():
            for version in rule.get("apiVersions") or ():
                for resource in rule.get("resources") or ():
                    if "*" in (group, version, resource) or "/" in resource:
                        continue
                    try:
                        yield builtin.by_path(group, version, resource)
                    except ApiError:
                        continue


def of_shape(shape: Shape) -> Type:
    """Return a type of the table as expressions see it."""
    if shape.open:
        return "dyn"
    return ("object", lambda name: _field(shape, name))


def _field(shape: Shape, name: str) -> Type | None:
    found = shape.field(name)
    if found is None:
        return "string" if name in ("kind", "apiVersion") else None
    return _of_field(found)


def _of_field(found: FieldType) -> Type:
    item = of_shape(found.shape) if found.shape is not None else SCALARS.get(found.item, "dyn")
    match found.form:
        case "object":
            return item
        case "list":
            return ("list", item)
        case "map":
            return ("map", "string", item)
        case form:
            return SCALARS.get(form, "dyn")


BUDGET, BUDGET_OF_CONDITIONS = 10_000_000, 2_500_000
"""What all expressions of a policy, and all conditions of one, may cost together."""
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
