"""The types of CEL expressions, as far as upstream's checker finds fault with them before they are ever run.

Types are their names in errors, or tuples: ``("list", item)``, ``("map", key, value)``, ``("type", of what)``,
``("optional_type", of what)``, ``("object", fields)`` whose fields have types of their own (and perhaps a name).
``dyn`` and ``any`` may be anything when they are run; ``UNKNOWN`` is what is not known here, with which no fault is
found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kubesim.cel.functions import FUNCTIONS, NAMESPACES
from kubesim.cel.syntax import Node, SyntaxFault, parse

Type = Any
UNKNOWN = "?"
LOOSE = ("dyn", "any", UNKNOWN)
NUMBERS = ("int", "uint", "double")
ORDERED = (*NUMBERS, "string", "bool", "bytes", "timestamp", "duration")
TYPES = ("bool", "bytes", "double", "int", "list", "map", "null_type", "string", "timestamp", "type", "uint", "dyn")
MACROS = {"all": "bool", "exists": "bool", "exists_one": "bool", "existsOne": "bool", "filter": "", "map": "",
          "transformList": "", "transformMap": "",
          "transformMapEntry": ""}  # fmt: skip
RESULTS = {
    "size": "int", "startsWith": "bool", "endsWith": "bool", "matches": "bool", "contains": "bool",
    "string": "string",
    "int": "int", "uint": "uint", "double": "double", "bool": "bool", "bytes": "bytes", "has": "bool",
    "lowerAscii": "string", "upperAscii": "string", "trim": "string", "substring": "string", "charAt": "string",
    "format": "string", "join": "string", "split": ("list", "string"), "allowed": "bool", "isURL": "bool",
    "isIP": "bool", "isCIDR": "bool", "isQuantity": "bool", "hasValue": "bool",
    "isGreaterThan": "bool", "isLessThan": "bool", "isSorted": "bool", "find": "string", "duration": "duration",
    "quantity": "kubernetes.Quantity", "semver": "kubernetes.Semver", "ip": "net.IP", "cidr": "net.CIDR",
    "url": "kubernetes.URL", "compareTo": "int", "isSemver": "bool", "isInteger": "bool", "asInteger": "int",
    "asApproximateFloat": "double", "sign": "int", "dyn": "dyn", "major": "int", "minor": "int",
    "patch": "int",
    "timestamp": "timestamp", "exists": "bool", "all": "bool", "containsIP": "bool", "containsCIDR": "bool",
}  # fmt: skip
"""What a function returns, where that is always the same."""
OTHERS = frozenset((
    "type", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getFullYear", "getHours", "getMilliseconds",
    "getMinutes", "getMonth", "getSeconds", "orValue", "or", "value", "optMap", "optFlatMap", "of", "none",
    "ofNonZeroValue", "optional", "check", "indexOf", "lastIndexOf", "replace", "first", "last", "errored", "error",
))  # fmt: skip
SPACES = frozenset(NAMESPACES)
OF_STRINGS = ("startsWith", "endsWith", "matches")
FROM_STRINGS = ("quantity", "semver", "ip", "cidr", "url", "isQuantity", "isSemver", "isIP", "isCIDR", "isURL")
OPTIONAL = "optional_type"
OF_OPTIONALS = ("or", "orValue", "value")
COMPARING = ("compareTo", "isGreaterThan", "isLessThan")
WHOLE = {"any": "google.protobuf.Any", "timestamp": "google.protobuf.Timestamp",
         "duration": "google.protobuf.Duration"}  # fmt: skip
"""What types are called in full."""


@dataclass(slots=True)
class Checked:
    """What came of looking at an expression: its type, and each fault with its place."""

    type: Type = UNKNOWN
    faults: list[tuple[int, str]] = field(default_factory=list)

    def text(self, expression: str) -> str:
        """Return the faults as the checker prints them."""
        shown = []
        for at, said in sorted(self.faults):
            before = expression[:at]
            line, column = before.count("\n") + 1, at - (before.rfind("\n") + 1)
            source = expression.split("\n")[line - 1]
            shown.append(f"ERROR: <input>:{line}:{column + 1}: {said}\n | {source}\n | {'.' * column}^")
        return "\n".join(shown)


def optional(kind: Type) -> Type:
    """Return the type of what may be of this type."""
    return kind if isinstance(kind, tuple) and kind[0] == OPTIONAL else (OPTIONAL, kind)


def held(kind: Type) -> Type:
    """Return the type of what an optional holds, if it is one."""
    return kind[1] if isinstance(kind, tuple) and kind[0] == OPTIONAL else kind


def show(found: Type) -> str:
    """Return a type as errors name it."""
    return _show(found, {"null_type": "null"})


def show_whole(found: Type) -> str:
    """Return a type as it is called in full."""
    return _show(found, WHOLE)


def _apart(one: Type, other: Type) -> bool:
    """Tell whether no value can be of both types."""
    if one in LOOSE or other in LOOSE:
        return False
    kinds = {kind[0] if isinstance(kind, tuple) else kind for kind in (one, other)}
    if len(kinds) > 1:
        return kinds != {"object", "null_type"}
    if not isinstance(one, tuple) or one[0] in ("object", "type"):
        return False
    return any(map(_apart, one[1:], other[1:]))


def _applied(given: Sequence[Type]) -> str:
    """Return what a method is called on, and with what."""
    return f"{show(given[0])}.({', '.join(map(show, given[1:]))})"


def _show(found: Type, names: Mapping[str, str]) -> str:
    if not isinstance(found, tuple):
        return names.get(str(found), str(found))
    if found[0] == "object":
        return str(found[2]) if len(found) > 2 else "object"
    return f"{found[0]}({', '.join(_show(part, names) for part in found[1:])})"


def checked(expression: str, names: Mapping[str, Type]) -> Checked:
    """Look at an expression that may speak of ``names``; what does not parse has no type and no faults."""
    found = Checked()
    try:
        tree = parse(expression)
    except SyntaxFault:
        return found
    checker = _Checker(found)
    found.type = checker.type_of(tree, dict(names))
    return found


class _Checker:
    def __init__(self, found: Checked) -> None:
        self.found = found
        self.mixed = 0
        """In how many lists of what is formatted this is, which may hold values of different types."""
        self.kinds: dict[str, Callable[[Node, dict[str, Type]], Type]] = {
            "literal": lambda node, names: node.text, "name": self.name, "select": self.select, "index": self.index,
            "call": self.call, "list": self.list_of, "map": self.map_of, "choice": self.choice, "maybe": self.maybe,
        }  # fmt: skip

    def type_of(self, node: Node, names: dict[str, Type]) -> Type:
        return self.kinds[node.kind](node, names)

    def fault(self, node: Node, said: str) -> Type:
        self.found.faults.append((node.at, said))
        return UNKNOWN

    def overload(self, node: Node, *given: Type) -> Type:
        shown = ", ".join(map(show, given))
        return self.fault(node, f"found no matching overload for '{node.text}' applied to '({shown})'")

    def name(self, node: Node, names: dict[str, Type]) -> Type:
        if node.text in names:
            return names[node.text]
        if node.text in TYPES:
            return ("type", node.text)
        return self.fault(node, f"undeclared reference to '{node.text}' (in container '')")

    def select(self, node: Node, names: dict[str, Type]) -> Type:
        base = node.parts[0]
        if base.kind == "name" and base.text in SPACES and base.text not in names:
            return UNKNOWN
        return self.member(node, self.type_of(base, names))

    def member(self, node: Node, holder: Type) -> Type:
        """Return the type of what a select names in what has this type."""
        if isinstance(holder, tuple) and holder[0] == OPTIONAL:
            return optional(self.member(node, holder[1]))
        if isinstance(holder, tuple) and holder[0] == "map":
            return holder[2]
        if isinstance(holder, tuple) and holder[0] == "object":
            found = holder[1](node.text)
            return self.fault(node, f"undefined field '{node.text}'") if found is None else found
        if holder in LOOSE:
            return holder
        opaque = isinstance(holder, str) and "." in holder
        why = f"type '{show(holder)}' does not support field selection"
        return self.fault(node, f"unexpected failed resolution of '{holder}'" if opaque else why)

    def index(self, node: Node, names: dict[str, Type]) -> Type:
        holder, key = (self.type_of(part, names) for part in node.parts)
        if isinstance(holder, tuple) and holder[0] in ("list", "map"):
            wanted = holder[1] if holder[0] == "map" else "int"
            wrong = not isinstance(key, tuple) and key not in (wanted, *LOOSE)
            return self.overload(node, holder, key) if wrong and wanted not in LOOSE else holder[-1]
        if holder in LOOSE:
            return holder
        nameless = isinstance(holder, tuple) and len(holder) < 3
        return UNKNOWN if nameless else self.overload(node, holder, key)

    def maybe(self, node: Node, names: dict[str, Type]) -> Type:
        return held(self.type_of(node.parts[0], names))

    def may_be(self, node: Node, names: dict[str, Type]) -> Type:
        """Return the type of what may be there, by its name or key."""
        holder, key = node.parts
        inside = held(self.type_of(holder, names))
        if node.text == "_?._":
            return optional(self.member(replace(node, text=key.source[1:-1]), inside))
        self.type_of(key, names)
        keyed = isinstance(inside, tuple) and inside[0] in ("list", "map")
        return optional(inside[-1] if keyed else UNKNOWN)

    def list_of(self, node: Node, names: dict[str, Type]) -> Type:
        kinds = [self.type_of(part, names) for part in node.parts]
        self.alike(node.parts, kinds)
        return ("list", kinds[0] if kinds and all(kind == kinds[0] for kind in kinds) else "dyn")

    def map_of(self, node: Node, names: dict[str, Type]) -> Type:
        kinds = [[self.type_of(part, names) for part in entry.parts] for entry in node.parts]
        for at in (0, 1):
            self.alike([entry.parts[at] for entry in node.parts], [kind[at] for kind in kinds])
        same = bool(kinds) and all(kind == kinds[0] for kind in kinds)
        return ("map", *kinds[0]) if same else UNKNOWN if kinds else ("map", "dyn", "dyn")

    def alike(self, parts: Sequence[Node], kinds: list[Type]) -> None:
        """Find fault with what is of another type than the first in a list or map."""
        for part, kind in zip(parts, kinds, strict=True) if not self.mixed else ():
            if _apart(kinds[0], kind) or (
                (kinds[0] == "dyn") is not (kind == "dyn") and UNKNOWN not in (kinds[0], kind)
            ):
                self.fault(part, f"expected type '{show(kinds[0])}' but found '{show(kind)}'")

    def choice(self, node: Node, names: dict[str, Type]) -> Type:
        condition, one, other = (self.type_of(part, names) for part in node.parts)
        if condition not in ("bool", *LOOSE):
            return self.overload(node, condition, one, other)
        plain = {kind for kind in (one, other) if isinstance(kind, str) and kind not in ("null_type", *LOOSE)}
        if len(plain) > 1:
            return self.overload(node, condition, one, other)
        return one if one == other else UNKNOWN

    def call(self, node: Node, names: dict[str, Type]) -> Type:
        if node.method and node.text in MACROS:
            return self.comprehension(node, names)
        if node.text in ("_?._", "_[?_]"):
            return self.may_be(node, names)
        if node.text[0] in "_!-@":
            return self.operator(node, [self.type_of(part, names) for part in node.parts])
        if node.text == "has" and not node.method and len(node.parts) == 1:
            self.type_of(replace(node.parts[0], at=node.at), names)
            return "bool"
        if node.text in ("optMap", "optFlatMap") and node.method and len(node.parts) == 3:
            inner = self.type_of(
                node.parts[2], {**names, node.parts[1].text: held(self.type_of(node.parts[0], names))}
            )
            return inner if node.text == "optFlatMap" else optional(inner)
        if node.text in ("optMap", "optFlatMap"):
            return UNKNOWN
        if node.text == "format" and node.method and len(node.parts) == 2 and node.parts[1].kind == "list":
            self.mixed += 1
            kinds = [self.type_of(part, names) for part in (node.parts[0], *node.parts[1].parts)]
            self.mixed -= 1
            return "string" if kinds[0] in ("string", *LOOSE) else self.result(node, [kinds[0], ("list", "dyn")])
        owner = node.parts[0] if node.method else None
        if owner is not None and owner.kind == "name" and owner.text in SPACES and owner.text not in names:
            arguments = [self.type_of(part, names) for part in node.parts[1:]]
            if owner.text == "optional":
                return optional(arguments[0] if arguments else UNKNOWN)
            return RESULTS.get(node.text, UNKNOWN)
        arguments = [self.type_of(part, names) for part in node.parts]
        if node.text not in FUNCTIONS and node.text not in RESULTS and node.text not in OTHERS:
            return self.fault(node, f"undeclared reference to '{node.text}' (in container '')")
        return self.result(node, arguments)

    def result(self, node: Node, given: list[Type]) -> Type:
        """Return the type of a function's value."""
        if node.text == "type" and len(given) == 1:
            return ("type", *given)
        may_miss = bool(given) and isinstance(given[0], tuple) and given[0][0] == OPTIONAL
        if node.text in OF_OPTIONALS and node.method and not may_miss and given[0] not in LOOSE:
            return self.fault(node, f"found no matching overload for '{node.text}' applied to '{_applied(given)}'")
        if node.text in OF_OPTIONALS and may_miss:
            return given[0] if node.text == "or" else given[0][1] if given[0][1] != UNKNOWN else given[-1]
        strings = node.text in (OF_STRINGS if node.method else FROM_STRINGS)
        wrong = strings and any(kind not in ("string", *LOOSE) for kind in given[: 1 + node.method])
        if node.text == "size" and len(given) == 1:
            wrong = given[0] in (*NUMBERS, "bool", "null_type") or "." in given[0]
        known = [kind for kind in given if kind not in LOOSE]
        if node.method and (wrong or (node.text in COMPARING and any(kind != known[0] for kind in known))):
            return self.fault(node, f"found no matching overload for '{node.text}' applied to '{_applied(given)}'")
        return self.overload(node, *given) if wrong else RESULTS.get(node.text, UNKNOWN)

    def comprehension(self, node: Node, names: dict[str, Type]) -> Type:
        over = self.type_of(node.parts[0], names)
        *variables, body = node.parts[1:] or (node,)
        known = isinstance(over, tuple) and over[0] in ("list", "map")
        item: Type = over[1] if known else UNKNOWN
        if not isinstance(over, tuple) and over not in LOOSE:
            why = "(must be list, map, or dynamic)"
            return self.fault(
                node.parts[0], f"expression of type '{show(over)}' cannot be range of a comprehension {why}"
            )
        two = node.text.startswith("transform") or (node.text not in ("map", "filter") and len(variables) == 2)
        loop = [("int" if over[0] == "list" else item) if known else UNKNOWN, over[-1] if known else UNKNOWN]
        kinds = loop if two else [item]
        filters = variables[len(kinds) :]
        names = {**names, **{part.text: kind for part, kind in zip(variables, kinds, strict=False)}}
        for part in filters:
            self.type_of(part, names)
        if body is not node:
            made = self.type_of(body, names)
            if node.text in ("all", "exists") and made not in ("bool", *LOOSE):
                self.fault(body, f"expected type 'bool' but found '{show(made)}'")
            if node.text in ("map", "transformList"):
                return ("list", made)
            if node.text == "transformMap":
                return ("map", kinds[0], made)
        return MACROS[node.text] or (over if node.text == "filter" else UNKNOWN)

    def operator(self, node: Node, given: list[Type]) -> Type:
        """Return the type of an operator's value."""
        known = [kind for kind in given if kind not in LOOSE]
        match node.text:
            case "_&&_" | "_||_":
                for part, kind in zip(node.parts, given, strict=True):
                    if kind not in ("bool", *LOOSE):
                        self.fault(part, f"expected type 'bool' but found '{show(kind)}'")
                return "bool"
            case "!_":
                return self.overload(node, *given) if known not in ([], ["bool"]) else "bool"
            case "@in":
                one, many = given
                held = many[1] if isinstance(many, tuple) and many[0] in ("list", "map") else many
                lone = held is many and held not in LOOSE and not isinstance(held, tuple)
                return self.overload(node, *given) if lone or _apart(one, held) else "bool"
            case "_==_" | "_!=_":
                return self.overload(node, *given) if _apart(*given) else "bool"
            case "_<_" | "_<=_" | "_>_" | "_>=_":
                bad = any(isinstance(kind, tuple) or kind not in ORDERED for kind in known)
                mixed = len({*map(show, known)}) > 1 and not all(kind in NUMBERS for kind in known)
                return self.overload(node, *given) if bad or mixed else "bool"
            case "-_":
                return self.overload(node, *given) if given[0] not in ("int", "double", *LOOSE) else given[0]
        return self.arithmetic(node, given, known)

    def arithmetic(self, node: Node, given: list[Type], known: list[Type]) -> Type:
        plain = [kind for kind in known if not isinstance(kind, tuple)]
        timed = any(kind in ("timestamp", "duration") for kind in plain)
        if timed or any(isinstance(kind, tuple) for kind in known):
            return UNKNOWN
        right = (*NUMBERS, "string", "bytes") if node.text == "_+_" else NUMBERS
        if len({*plain}) > 1 or any(kind not in right for kind in plain):
            return self.overload(node, *given)
        return plain[0] if plain else UNKNOWN if UNKNOWN in given else "dyn"
