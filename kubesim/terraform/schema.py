"""The schemas of resource types, read from ``resources.yaml``, and what follows from them alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from functools import cache
from typing import Any

from kubesim import data
from kubesim.terraform.values import ConvertError, List, Set, Type, Unknown, convert, made

_table: data.Reader[dict[str, Any]] = data.beside(__file__, "resources.yaml")
TYPES: dict[str, Type] = {
    "s": "string", "n": "number", "b": "bool", "p": "string", "m": ["map", "string"], "q": ["map", "string"],
    "l": ["list", "string"], "t": ["set", "string"],
}  # fmt: skip
SUFFIXES = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}


@dataclass(frozen=True)
class Attribute:
    """An attribute of a resource."""

    name: str
    kind: str
    required: bool = False
    optional: bool = False
    computed: bool = False
    fixed: bool = False
    link: bool = False
    absent: bool = False
    """Whether a provider leaves it out where it is empty."""
    default: Any = None

    @property
    def type(self) -> Type:
        """Its type in the language."""
        return TYPES[self.kind]


@dataclass(frozen=True)
class Block:
    """A resource's body, or a block nested in it."""

    attributes: dict[str, Attribute]
    blocks: dict[str, Block]
    mode: str = "list"
    most: int = 0
    required: bool = False
    computed: bool = False
    fixed: bool = False

    @property
    def names(self) -> list[str]:
        """The names of all there is in it, as a state has them."""
        return sorted([*self.attributes, *self.blocks])


@dataclass(frozen=True)
class ResourceType:
    """A resource type or data source."""

    name: str
    provider: str
    schema: Block
    api: dict[str, Any] = field(default_factory=dict)


@cache
def resource_type(mode: str, name: str) -> ResourceType | None:
    """Return a resource type ("managed") or data source ("data"); None where it is not supported."""
    found = _table()["data" if mode == "data" else "resources"].get(name)
    if found is None:
        return None
    return ResourceType(name, name.partition("_")[0], _block(found["schema"]), found["api"])


def provider_schema(name: str) -> Block | None:
    """Return what a provider's configuration may say."""
    found = _table()["providers"].get(name)
    return _block(found["schema"]) if found else None


def provider_version(name: str) -> str:
    """Return the version of a provider that is imitated."""
    return str(_table()["providers"][name]["version"])


def _block(found: dict[str, Any]) -> Block:
    words = str(found.get("_", "list 1")).split()
    flags = "".join(words[2:])
    attributes = {
        name: _attribute(name, text) for name, text in found.items() if isinstance(text, str) and name != "_"
    }
    blocks = {name: _block(below) for name, below in found.items() if isinstance(below, dict)}
    most = int(words[1]) if len(words) > 1 else 1
    return Block(
        attributes, blocks, words[0], most, "r" in flags, "c" in flags or words[0] == "computed", "f" in flags
    )


def _attribute(name: str, text: str) -> Attribute:
    kind, flags, *rest = text.split()
    default: Any = next((word[1:] for word in rest if word[0] == "="), None)
    if default is not None and kind in "bn":
        default = convert(default, TYPES[kind])
    return Attribute(
        name, kind, "r" in flags, "o" in flags, "c" in flags, "f" in rest, "u" in rest, "z" in rest, default
    )


def empty(value: Any) -> bool:
    """Tell whether the plug-in SDK takes a value for nothing."""
    return value is None or (not isinstance(value, Unknown) and value in ("", 0, False, [], {}))


def quantity(text: Any) -> Decimal | None:
    """Return the number that a quantity stands for; None where it is none."""
    text = str(text)
    try:
        if text[-2:-1] in "KMGTPE" and text.endswith("i"):
            return Decimal(text[:-2]) * Decimal(1024 ** ("KMGTPE".index(text[-2]) + 1))
        if text[-1:] in SUFFIXES and not text[-1:].isdigit():
            return Decimal(text[:-1]).scaleb(SUFFIXES[text[-1]])
        return Decimal(text)
    except (InvalidOperation, ValueError):
        return None


def same(attribute: Attribute | None, one: Any, other: Any) -> bool:
    """Tell whether two values of an attribute mean the same, so that there is nothing to change."""
    if isinstance(one, Unknown) or isinstance(other, Unknown):
        return isinstance(one, Unknown) and isinstance(other, Unknown)
    if empty(one) and empty(other):
        return True
    if attribute is not None and attribute.kind == "q" and isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_amount(one[key], other[key]) for key in one)
    if attribute is not None and attribute.link and isinstance(one, str) and isinstance(other, str):
        return one.rpartition("/")[2] == other.rpartition("/")[2]
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def _amount(one: Any, other: Any) -> bool:
    if isinstance(one, Unknown) or isinstance(other, Unknown):
        return False
    return one == other or (quantity(one) is not None and quantity(one) == quantity(other))


def settled(block: Block, wanted: Any, found: Any) -> Any:
    """Return what a resource has become; what was to be nothing and is empty stays nothing."""
    if not isinstance(wanted, dict) or not isinstance(found, dict):
        return found
    result = dict(found)
    for name in block.attributes:
        if wanted.get(name) is None and found.get(name) in ({}, []):
            result[name] = None
    for name, inner in block.blocks.items():
        old, new = wanted.get(name), found.get(name)
        if isinstance(old, list) and isinstance(new, list) and len(old) == len(new) and inner.mode == "list":
            result[name] = made(
                List, type_of_block(inner), [settled(inner, one, other) for one, other in zip(old, new, strict=True)]
            )
    return result


def type_of_block(block: Block) -> Type:
    """Return the type of a resource, or of what is in a block."""
    found: dict[str, Type] = {name: each.type for name, each in block.attributes.items()}
    for name, below in block.blocks.items():
        inner = type_of_block(below)
        found[name] = inner if below.mode == "single" else ["set" if below.mode == "set" else "list", inner]
    return ["object", found]


def conformed(block: Block, held: dict[str, Any] | None) -> dict[str, Any]:
    """Return what a state holds of a resource with every attribute of its schema, in the kinds of the language."""
    held = held or {}
    found: dict[str, Any] = {}
    for name, each in block.attributes.items():
        try:
            found[name] = convert(held.get(name), each.type)
        except ConvertError:
            found[name] = None
    for name, below in block.blocks.items():
        given = held.get(name)
        if below.mode == "single":
            found[name] = given if given is None or isinstance(given, Unknown) else conformed(below, given)
        elif isinstance(given, Unknown):
            found[name] = given
        else:
            items = [conformed(below, item) for item in given or ()]
            found[name] = made(Set if below.mode == "set" else List, type_of_block(below), items)
    return {name: found[name] for name in sorted(found)}
