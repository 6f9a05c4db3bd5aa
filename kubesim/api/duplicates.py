"""Fields that a body says twice: parsers take the last one, and strict decoding tells of the others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson
import yaml

ENDS = (b'":', b'" :')
"""How the name of a field ends."""


@dataclass(frozen=True, slots=True)
class Repeated:
    """What a body says twice: texts by the path of the field, and where in the body each path stands."""

    texts: dict[str, str] = field(default_factory=dict)
    order: dict[str, int] = field(default_factory=dict)
    in_yaml: bool = False

    def with_unknown(self, unknown: list[str], *, patch: bool) -> list[str]:
        """Return all warnings: in the body's order, or (of a patch, or in YAML) repeated fields first."""
        known = [(self.order.get(path, 0), path, f'unknown field "{path}"') for path in unknown]
        if patch or self.in_yaml:
            return [*self.texts.values(), *(text for _, _, text in known)]
        twice = [
            (self.order[f"{path} again"], path, text) for path, text in self.texts.items() if path not in unknown
        ]
        return [text for _, _, text in sorted([*twice, *known])] if twice else [text for _, _, text in known]


NOTHING = Repeated()


class _Pairs(list[tuple[str, Any]]):
    """An object of which every field is kept."""


def in_json(body: bytes, value: Any, *, json_patch: bool = False) -> Repeated:
    """Return what a JSON body says twice; ``value`` is what it says. The first look costs next to nothing."""
    written = sum(map(body.count, ENDS))
    if written == orjson.dumps(value).count(ENDS[0]):
        return NOTHING
    found = Repeated()
    prefix = "json patch " if json_patch else ""
    for path, again in _walk(json.loads(body.decode(errors="replace"), object_pairs_hook=_Pairs), ""):
        if again:
            found.texts[path] = f'{prefix}duplicate field "{path}"'
        found.order[f"{path} again" if again else path] = len(found.order)
    return found


def _walk(value: Any, path: str) -> Iterator[tuple[str, bool]]:
    """Yield (path, whether it was there before) of every field, in the body's order."""
    if isinstance(value, _Pairs):
        seen = set()
        for name, item in value:
            here = f"{path}.{name}" if path else name
            yield here, name in seen
            seen.add(name)
            yield from _walk(item, here)
    elif isinstance(value, list):
        for at, item in enumerate(value):
            yield from _walk(item, f"{path}[{at}]")


def in_yaml(body: bytes) -> Repeated:
    """Return the keys that a YAML body sets twice, by their lines; each node is looked at once."""
    found: list[str] = []
    root = yaml.compose(body, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    pending, looked = [root], set()
    while pending:
        node = pending.pop()
        if id(node) in looked or isinstance(node, yaml.ScalarNode | None):
            continue
        looked.add(id(node))
        keys = [key for key, _ in node.value] if isinstance(node, yaml.MappingNode) else []
        pending += [item for _, item in node.value] if keys else node.value
        first = {key.value: key for key in reversed(keys)}
        found += [
            f'line {key.start_mark.line + 1}: key "{key.value}" already set in map'
            for key in keys
            if first[key.value] is not key
        ]
    return Repeated({text: text for text in sorted(found)}, in_yaml=True)


def strict_text(texts: list[str], repeated: Repeated) -> str:
    """Return the error of strict decoding."""
    intro = "yaml: unmarshal errors:\n  " if repeated.in_yaml and repeated.texts else ""
    return f"strict decoding error: {intro}" + ", ".join(texts)
