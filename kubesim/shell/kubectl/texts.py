"""Objects as text: YAML and JSON as Go's libraries write them."""

from __future__ import annotations

import json
import re
from typing import Any

from kubesim.goyaml import OLD, WORDS, to_yaml

__all__ = ["to_yaml"]


def to_json(value: Any, indent: int = 4) -> str:
    """Return a value as JSON over several lines."""
    return escaped(json.dumps(value, indent=indent, sort_keys=True, ensure_ascii=False)) + "\n"


def compact(value: Any) -> str:
    """Return JSON in one line without blanks."""
    return escaped(json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False))


def escaped(text: str) -> str:
    """Return JSON with what HTML knows escaped."""
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def to_kyaml(value: Any) -> str:
    """Return a value as KYAML: YAML in braces, its texts quoted, its keys plain where they can be."""
    return f"---\n{_kyaml(value, '')}\n"


def _kyaml(value: Any, space: str) -> str:
    below = space + "  "
    if isinstance(value, dict) and value:
        lines = [f"{below}{_key(key)}: {_kyaml(each, below)},\n" for key, each in sorted(value.items())]
        return f"{{\n{''.join(lines)}{space}}}"
    if isinstance(value, list) and value:
        if all(isinstance(each, dict | list) and each for each in value):
            return f"[{', '.join(_kyaml(each, space) for each in value)}]"
        return f"[\n{''.join(f'{below}{_kyaml(each, below)},{chr(10)}' for each in value)}{space}]"
    text = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, str) or "\n" not in value:
        return text
    lines = [f"{below} {json.dumps(line, ensure_ascii=False)[1:-1]}" for line in value.splitlines(keepends=True)]
    return '"\\\n' + "\\\n".join(lines) + f'\\\n{below}"'


def _key(text: str) -> str:
    plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_./-]*", text) and not any(
        rule.fullmatch(text) for rule in (OLD, WORDS)
    )
    return text if plain else json.dumps(text, ensure_ascii=False)
