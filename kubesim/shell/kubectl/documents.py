"""YAML documents as kubectl's library reads them: dates are texts, and y and n are booleans, too."""

from __future__ import annotations

import re
from typing import Any

import yaml

from kubesim.data import Bounded

MAX_DEPTH = 60


class _Manifests(Bounded):
    """YAML with dates left as text, and more words for booleans."""


_Manifests.yaml_implicit_resolvers = {
    key: [(tag, pattern) for tag, pattern in rows if tag != "tag:yaml.org,2002:timestamp"]
    for key, rows in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
for letter in "yYnN":
    _Manifests.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"(?:y|Y|n|N)$"), [letter])
_Manifests.bool_values = {**Bounded.bool_values, "y": True, "n": False}


def documents(text: str) -> list[Any]:
    """Parse YAML documents. Raises yaml.YAMLError or ValueError."""
    return [_jsonable(each, 0) for each in yaml.load_all(text, _Manifests)]


def _key(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else "null" if value is None else str(value)


def _jsonable(value: Any, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise ValueError("too deep")
    if isinstance(value, dict):
        return {_key(key): _jsonable(each, depth + 1) for key, each in value.items()}
    if isinstance(value, list):
        return [_jsonable(each, depth + 1) for each in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)
