"""YAML from people: plain data only, with limits that no text can get around."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import yaml

from faults.packs.errors import PackError
from faults.plain_text import plain

try:  # LibYAML's, which every wheel of PyYAML has, is eight times as fast
    from yaml import CSafeLoader as _Parser
except ImportError:
    from yaml import SafeLoader as _Parser  # type: ignore[assignment]

MAX_BYTES = 64 * 1024
MAX_DEPTH = 20
MAX_NODES = 5000


class _PlainLoader(_Parser):
    """The safe loader, without dates (JSON has none) and without repeated keys (YAML forbids them)."""

    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in rules if tag != "tag:yaml.org,2002:timestamp"]
        for first, rules in _Parser.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "a key must be a plain text", key.start_mark)
            if key.value in seen:
                problem = f"the key {key.value!r} is there twice"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def load_all(file: str, text: str) -> list[Any]:
    """Return the documents of a YAML text, empty ones left out. Raises ``PackError`` with the line."""
    if len(text.encode()) > MAX_BYTES:
        raise PackError(file, "", f"is larger than {MAX_BYTES // 1024} KiB")
    try:
        check_limits(file, text)
        return [document for document in yaml.load_all(text, _PlainLoader) if document is not None]
    except yaml.MarkedYAMLError as exc:
        raise PackError(file, _line(exc.problem_mark), exc.problem or "is not YAML") from exc
    except yaml.YAMLError as exc:
        raise PackError(file, "", str(exc).splitlines()[0]) from exc
    except (RecursionError, ValueError) as exc:
        raise PackError(file, "", "is nested too deeply or holds a value that YAML cannot read") from exc


def load_one(file: str, text: str) -> Any:
    """Return the only document of a YAML text."""
    documents = load_all(file, text)
    if len(documents) != 1:
        raise PackError(file, "", f"must hold one document, not {len(documents)}")
    return documents[0]


def check_text(file: str, text: str, where: str = "") -> None:
    """Raise ``PackError`` where a text holds characters that act instead of showing (``faults.plain_text``)."""
    shown = plain(text)
    if shown != text:
        unseen = next((old for old, new in zip(text, shown, strict=False) if old != new), text[-1])
        raise PackError(file, where, f"holds the character U+{ord(unseen):04X}, which nobody sees; take it out")


def check_limits(file: str, text: str) -> None:
    """Raise ``PackError`` where a text is nested too deeply, holds too much, or repeats itself by aliases.

    Counts over the event stream, which is flat, before anything nested is built: composing 20,000 brackets takes
    seconds, and ends in a RecursionError.
    """
    depth = nodes = 0
    for event in yaml.parse(text, _Parser):
        if isinstance(event, yaml.AliasEvent):
            raise PackError(file, _line(event.start_mark), "aliases (*name) are not allowed; write the value out")
        if isinstance(event, yaml.ScalarEvent):
            check_text(file, event.value, _line(event.start_mark))
        if isinstance(event, yaml.NodeEvent):
            nodes += 1
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            raise PackError(file, _line(event.start_mark), f"is nested deeper than {MAX_DEPTH} levels")
        if nodes > MAX_NODES:
            raise PackError(file, _line(event.start_mark), f"holds more than {MAX_NODES} values")


def _line(mark: Any) -> str:
    return f"line {mark.line + 1}" if mark else ""
