"""Objects as text: YAML and JSON as Go's libraries write them."""

from __future__ import annotations

import json
import re
from typing import Any

import yaml

_Base: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|0[xX][0-9a-fA-F_]+|0[oO]?[0-7_]+|0b[01_]+")
WORDS = re.compile(r"|~|null|Null|NULL|true|True|TRUE|false|False|FALSE|<<|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
OLD = re.compile(r"y|Y|yes|Yes|YES|n|N|no|No|NO|on|On|ON|off|Off|OFF|[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?")
_TIME = re.compile(r"\d{4}-\d\d?-\d\d?([Tt ]\s*\d\d?:\d\d:\d\d(\.\d*)?\s*(Z|[-+]\d\d?(:\d\d)?)?)?")


class _Dumper(_Base):  # type: ignore[misc]
    """Lists under their keys without indentation, texts in the quotes that Go's library chooses."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: Any, value: str) -> Any:
    style = None
    if any(rule.fullmatch(value) for rule in (WORDS, _NUMBER, OLD, _TIME)):
        style = '"'
    elif "\n" in value:
        style = "|"
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def to_yaml(value: Any) -> str:
    """Return a value as YAML, its keys sorted."""
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=True, default_flow_style=False, allow_unicode=True)
    return text.removesuffix("...\n")


def to_json(value: Any, indent: int = 4, *, sort: bool = True) -> str:
    """Return a value as JSON over several lines."""
    return escaped(json.dumps(value, indent=indent, sort_keys=sort, ensure_ascii=False)) + "\n"


def compact(value: Any) -> str:
    """Return JSON in one line without blanks."""
    return escaped(json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False))


def escaped(text: str) -> str:
    """Return JSON with what HTML knows escaped."""
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
