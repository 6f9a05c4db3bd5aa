"""jq's functions of plain values."""

from __future__ import annotations

import base64
import binascii
import html
import itertools
import json
import math
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cmp_to_key
from typing import Any
from urllib.parse import quote as url_quote

from kubesim.shell import regexes
from kubesim.shell.tools.jq_values import JqError, compare, describe, dumps, get, kind, limited, put, remove

LONGEST = 1 << 20
MOST_COMPARED = 10_000_000
"""How many pairs of elements a function may look at without a pause."""
_SORT = cmp_to_key(compare)


def operate(op: str, left: Any, right: Any) -> Any:
    """Do an arithmetic or comparing operator."""
    if op not in "+/":
        limited(left, right)
    if op in ("==", "!=", "<", "<=", ">", ">="):
        found = compare(left, right)
        return {
            "==": found == 0,
            "!=": found != 0,
            "<": found < 0,
            "<=": found <= 0,
            ">": found > 0,
            ">=": found >= 0,
        }[op]
    numbers = kind(left) == kind(right) == "number"
    if op == "+":
        return _plus(left, right)
    if op == "-":
        if isinstance(left, list) and isinstance(right, list):
            _look_at(left, right)
            return [each for each in left if each not in right]
        if numbers:
            return _exact(left - right)
        raise JqError(f"{describe(left)} and {describe(right)} cannot be subtracted")
    if op == "*":
        return _times(left, right)
    if op == "/" and isinstance(left, str) and isinstance(right, str):
        return left.split(right) if right else list(left)
    if not numbers:
        raise JqError(f"{describe(left)} and {describe(right)} cannot be divided")
    if op == "/":
        if right == 0:
            raise JqError(f"{describe(left)} and {describe(right)} cannot be divided because the divisor is zero")
        return _exact(left / right)
    if int(right) == 0:
        raise JqError(f"{describe(left)} and {describe(right)} cannot be divided because the divisor is zero")
    return int(math.fmod(int(left), abs(int(right))))


def _look_at(left: list[Any], right: list[Any]) -> None:
    """Raise JqError where two lists have too many pairs of elements."""
    if len(left) * len(right) > MOST_COMPARED:
        raise JqError("out of memory")


def _exact(value: float) -> int | float:
    if isinstance(value, int):
        return value if abs(value) < 10**17 else float(value)
    return int(value) if math.isfinite(value) and value == int(value) and abs(value) < 1e17 else value


def _plus(left: Any, right: Any) -> Any:
    if left is None:
        return right
    if right is None:
        return left
    if kind(left) == kind(right) == "number":
        return _exact(left + right)
    if kind(left) == kind(right) and isinstance(left, str | list):
        if len(left) + len(right) > LONGEST:
            raise JqError("out of memory")
        return [*left, *right] if isinstance(left, list) else left + right
    if isinstance(left, dict) and isinstance(right, dict):
        return {**left, **right}
    raise JqError(f"{describe(left)} and {describe(right)} cannot be added")


def _times(left: Any, right: Any) -> Any:
    if kind(left) == kind(right) == "number":
        return _exact(left * right)
    if isinstance(right, str) and kind(left) == "number":
        left, right = right, left
    if isinstance(left, str) and kind(right) == "number":
        if len(left) * right > LONGEST:
            raise JqError("Repeat string result too long")
        return left * max(int(right), 1) if right > 0 else None
    if isinstance(left, dict) and isinstance(right, dict):
        return _merge(left, right, 0)
    raise JqError(f"{describe(left)} and {describe(right)} cannot be multiplied")


def _merge(left: dict[str, Any], right: dict[str, Any], depth: int) -> dict[str, Any]:
    out = dict(left)
    for key, value in right.items():
        both = isinstance(out.get(key), dict) and isinstance(value, dict) and depth < 100
        out[key] = _merge(out[key], value, depth + 1) if both else value
    return out


def getpath(value: Any, path: tuple[Any, ...]) -> Any:
    """Return what is at a path, null where something on it is missing."""
    for key in path:
        if value is None:
            return None
        value = get(value, key)
    return value


def formatted(form: str, value: Any) -> str:
    """Do ``@csv`` and its like."""
    text = value if isinstance(value, str) else dumps(value)
    if form == "@text":
        return text
    if form == "@json":
        return dumps(value)
    if form in ("@csv", "@tsv", "@sh"):
        return _row(form, value)
    if form == "@base64":
        return base64.b64encode(text.encode("utf-8", "surrogateescape")).decode()
    if form == "@base64d":
        try:
            return base64.b64decode(text + "=" * (-len(text) % 4)).decode("utf-8", "replace")
        except (binascii.Error, ValueError) as error:
            raise JqError(f"{describe(value)} is not valid base64 data") from error
    if form == "@uri":
        return url_quote(text, safe="-_.~")
    if form == "@html":
        return html.escape(text).replace("&#x27;", "&#39;")
    raise JqError(f"{form[1:]} is not a valid format")


def _row(form: str, value: Any) -> str:
    if form == "@sh":
        items = value if isinstance(value, list) else [value]
        if any(isinstance(each, list | dict) for each in items):
            raise JqError(
                f"{describe(next(each for each in items if isinstance(each, list | dict)))} "
                "can not be escaped for shell"
            )
        return " ".join(
            "'" + each.replace("'", "'\\''") + "'" if isinstance(each, str) else dumps(each) for each in items
        )
    if not isinstance(value, list):
        raise JqError(f"{describe(value)} cannot be {form[1:]}-formatted, only an array can be")
    cells = []
    for each in value:
        if isinstance(each, list | dict):
            raise JqError(f"{describe(each)} is not valid in a {form[1:]} row")
        if isinstance(each, str) and form == "@csv":
            cells.append('"' + each.replace('"', '""') + '"')
        elif isinstance(each, str):
            cells.append(each.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r"))
        else:
            cells.append("" if each is None else dumps(each))
    return ("," if form == "@csv" else "\t").join(cells)


def matches(text: Any, pattern: Any, flags: Any) -> list[dict[str, Any]]:
    """Return what ``match`` yields."""
    if isinstance(pattern, list):
        pattern, flags = pattern[0], pattern[1] if len(pattern) > 1 else flags
    if not isinstance(text, str) or not isinstance(pattern, str):
        raise JqError(f"{describe(text)} cannot be matched, as it is not a string")
    flags = flags or ""
    source = ("(?x)" if "x" in flags else "") + ("(?s)" if "s" in flags else "") + pattern
    try:
        compiled = regexes.compile_perl(source, ignore_case="i" in flags)
        found = []
        at = 0
        while at <= len(text) and (match := regexes.search(compiled, text, at)):
            found.append(_match(match))
            at = match.end() + (match.end() == match.start())
            if "g" not in flags or len(found) > 20_000:
                break
    except regexes.RegexError as error:
        raise JqError(f"{pattern} (at offset 0) is not a valid regex: {error}") from error
    return found


def _match(match: Any) -> dict[str, Any]:
    names = {index: name for name, index in match.re.groupindex.items()}
    captures = [
        {
            "offset": match.start(at),
            "length": max(match.end(at) - match.start(at), 0),
            "string": match[at],
            "name": names.get(at),
        }
        for at in range(1, match.re.groups + 1)
    ]
    return {"offset": match.start(), "length": match.end() - match.start(), "string": match[0], "captures": captures}


def _error(value: Any, given: Any = None, *, own: bool = True) -> Any:
    raise JqError(value if own else given)


def _length(value: Any) -> Any:
    if value is None:
        return 0
    if isinstance(value, bool):
        raise JqError(f"{describe(value)} has no length")
    return abs(value) if kind(value) == "number" else len(value)


def _keys(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return sorted(value)
    if isinstance(value, list):
        return list(range(len(value)))
    raise JqError(f"{describe(value)} has no keys")


def _has(value: Any, key: Any) -> bool:
    if isinstance(value, dict) and isinstance(key, str):
        return key in value
    if isinstance(value, list) and kind(key) == "number":
        return bool(0 <= key < len(value))
    raise JqError(f"Cannot check whether {kind(value)} has a {kind(key)} key")


def _contains(value: Any, part: Any) -> bool:
    if kind(value) != kind(part):
        raise JqError(f"{describe(value)} and {describe(part)} cannot have their containment checked")
    if isinstance(value, dict):
        return all(
            key in value and kind(value[key]) == kind(each) and _contains(value[key], each)
            for key, each in part.items()
        )
    if isinstance(value, list):
        _look_at(value, part)
        return all(any(kind(mine) == kind(each) and _contains(mine, each) for mine in value) for each in part)
    return bool(part in value if isinstance(value, str) else value == part)


def _tonumber(value: Any) -> Any:
    if kind(value) == "number":
        return value
    try:
        if isinstance(value, str) and len(value) < 400:
            return _exact(float(value)) if not value.strip().isdecimal() or len(value) > 16 else int(value)
    except (ValueError, OverflowError):
        pass
    raise JqError(f"{describe(value)} cannot be parsed as a number")


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise JqError(f"{describe(value)} cannot be sorted, as it is not an array")
    return value


def _unique(value: Any) -> list[Any]:
    out: list[Any] = []
    for each in sorted(_list(value), key=_SORT):
        if not out or compare(out[-1], each):
            out.append(each)
    return out


def _add(value: Any) -> Any:
    items = list(value.values()) if isinstance(value, dict) else value
    if not isinstance(items, list):
        raise JqError(f"Cannot iterate over {describe(value)}")
    if items and all(isinstance(each, str) for each in items):
        return "".join(items)[:LONGEST]
    if items and all(isinstance(each, list) for each in items):
        return list(itertools.islice(itertools.chain.from_iterable(items), LONGEST))
    found: Any = None
    for each in items:
        found = _plus(found, each)
    return found


def _flatten(value: Any, depth: float = 50) -> list[Any]:
    out: list[Any] = []
    for each in value:
        if isinstance(each, list) and depth > 0:
            out += _flatten(each, depth - 1)
        else:
            out.append(each)
    return out


def _join(value: Any, joint: Any) -> str:
    parts = []
    for each in value:
        if isinstance(each, list | dict):
            raise JqError(f"{describe(joint)} and {describe(each)} cannot be added")
        parts.append("" if each is None else each if isinstance(each, str) else dumps(each))
    return str(joint).join(parts)


def _split(value: Any, separator: Any) -> list[str]:
    if not isinstance(value, str) or not isinstance(separator, str):
        raise JqError("split input and separator must be strings")
    return ([] if not value else value.split(separator)) if separator else list(value)


def _split_regex(value: Any, pattern: Any, flags: Any) -> list[str]:
    out, at = [], 0
    for match in matches(value, pattern, "g" + (flags or "")):
        out.append(value[at : match["offset"]])
        at = match["offset"] + match["length"]
    return [*out, value[at:]]


def _text(function: Callable[[str], Any]) -> Callable[[Any], Any]:
    def apply(value: Any) -> Any:
        if not isinstance(value, str):
            raise JqError(f"{describe(value)} cannot be processed, as it is not a string")
        return function(value)

    return apply


def _math(function: Callable[[float], float]) -> Callable[[Any], Any]:
    def apply(value: Any) -> Any:
        if kind(value) != "number":
            raise JqError(f"{describe(value)} number required")
        try:
            return _exact(function(value))
        except (ValueError, OverflowError):
            return math.nan

    return apply


def _fromjson(value: Any) -> Any:
    try:
        return json.loads(value)
    except (ValueError, TypeError, RecursionError) as error:
        raise JqError(f"{str(value)[:40]} (while parsing '{str(value)[:40]}')") from error


def _tostring(value: Any) -> str:
    return value if isinstance(value, str) else dumps(value)


def _trim(value: Any, word: Any, *, left: bool) -> Any:
    if not isinstance(value, str) or not isinstance(word, str):
        return value
    return value.removeprefix(word) if left else value.removesuffix(word)


def _ends(value: Any, word: Any, *, start: bool) -> bool:
    if not isinstance(value, str) or not isinstance(word, str):
        raise JqError(f"{'startswith' if start else 'endswith'}() requires string inputs")
    return value.startswith(word) if start else value.endswith(word)


def _indices(value: Any, part: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, str):
        return [at for at in range(len(value)) if value.startswith(part, at)][:20_000] if part else None
    if isinstance(part, list):
        _look_at(value, part)
    return [
        at
        for at in range(len(value))
        if (value[at : at + len(part)] == part if isinstance(part, list) else value[at] == part)
    ]


def _at(found: Any, index: int) -> Any:
    return found[index] if found else None


def _date(value: Any, form: str = "%Y-%m-%dT%H:%M:%SZ") -> Any:
    try:
        moment = datetime.strptime(value, form).replace(tzinfo=UTC).timestamp()
    except (ValueError, TypeError) as error:
        raise JqError(f'date "{value}" does not match format "{form}"') from error
    return _exact(moment)


def _strftime(value: Any, form: Any) -> str:
    if kind(value) != "number" or not 0 <= value < 4e11:
        raise JqError("strftime/1 requires parsed datetime inputs")
    return datetime.fromtimestamp(float(value), UTC).strftime(str(form)[:500])


def _delpaths(value: Any, paths: Any) -> Any:
    if isinstance(value, list | dict) and len(value) * len(paths) > MOST_COMPARED:
        raise JqError("out of memory")
    for path in sorted(paths, key=_SORT, reverse=True):
        value = remove(value, tuple(path))
    return value


def _extreme(value: Any, *, largest: bool) -> Any:
    return (max if largest else min)(_list(value), key=_SORT, default=None)


def _transpose(value: Any) -> Any:
    wide = max((len(row) for row in value), default=0)
    if wide * len(value) > LONGEST:
        raise JqError("out of memory")
    return [[row[at] if at < len(row) else None for row in value] for at in range(wide)]


def _implode(value: Any) -> str:
    return "".join(chr(int(each)) for each in value if 0 <= each < 0x110000)


def _tojson(value: Any) -> str:
    return dumps(value)


TABLE: dict[tuple[str, int], Callable[..., Any]] = {
    ("error", 0): _error,
    ("error", 1): lambda value, given: _error(value, given, own=False),
    ("halt_error", 1): lambda value, status: _error(value),
    ("length", 0): _length,
    ("utf8bytelength", 0): _text(lambda text: len(text.encode("utf-8", "surrogateescape"))),
    ("keys", 0): _keys,
    ("keys_unsorted", 0): lambda value: list(value) if isinstance(value, dict) else _keys(value),
    ("has", 1): _has,
    ("contains", 1): _contains,
    ("type", 0): kind,
    ("add", 0): _add,
    ("tonumber", 0): _tonumber,
    ("tostring", 0): _tostring,
    ("tojson", 0): _tojson,
    ("fromjson", 0): _fromjson,
    ("sort", 0): lambda value: sorted(_list(value), key=_SORT),
    ("unique", 0): _unique,
    ("reverse", 0): lambda value: value[::-1] if value is not None else [],
    ("min", 0): lambda value: _extreme(value, largest=False),
    ("max", 0): lambda value: _extreme(value, largest=True),
    ("flatten", 0): _flatten,
    ("flatten", 1): _flatten,
    ("join", 1): _join,
    ("split", 1): _split,
    ("split", 2): _split_regex,
    ("ascii_downcase", 0): _text(str.lower),
    ("ascii_upcase", 0): _text(str.upper),
    ("ltrimstr", 1): lambda value, word: _trim(value, word, left=True),
    ("rtrimstr", 1): lambda value, word: _trim(value, word, left=False),
    ("startswith", 1): lambda value, word: _ends(value, word, start=True),
    ("endswith", 1): lambda value, word: _ends(value, word, start=False),
    ("trim", 0): _text(str.strip),
    ("ltrim", 0): _text(str.lstrip),
    ("rtrim", 0): _text(str.rstrip),
    ("explode", 0): _text(lambda text: [ord(char) for char in text]),
    ("implode", 0): _implode,
    ("test", 2): lambda value, pattern, flags: bool(matches(value, pattern, flags)),
    ("_match", 2): matches,
    ("_scan", 2): lambda value, pattern, flags: [
        [each["string"] for each in found["captures"]] if found["captures"] else found["string"]
        for found in matches(value, pattern, "g" + (flags or ""))
    ],
    ("floor", 0): _math(math.floor),
    ("ceil", 0): _math(math.ceil),
    ("round", 0): _math(lambda value: math.floor(value + 0.5)),
    ("sqrt", 0): _math(math.sqrt),
    ("fabs", 0): _math(abs),
    ("log", 0): _math(math.log),
    ("log2", 0): _math(math.log2),
    ("log10", 0): _math(math.log10),
    ("exp", 0): _math(math.exp),
    ("pow", 2): lambda value, base, power: _math(lambda each: math.pow(each, power))(base),
    ("infinite", 0): lambda value: math.inf,
    ("nan", 0): lambda value: math.nan,
    ("isnan", 0): lambda value: isinstance(value, float) and math.isnan(value),
    ("isinfinite", 0): lambda value: isinstance(value, float) and math.isinf(value),
    ("isnormal", 0): lambda value: bool(value) and math.isfinite(value),
    ("indices", 1): _indices,
    ("index", 1): lambda value, part: _at(_indices(value, part), 0),
    ("rindex", 1): lambda value, part: _at(_indices(value, part), -1),
    ("setpath", 2): lambda value, path, new: put(value, tuple(path), new),
    ("delpaths", 1): _delpaths,
    ("fromdateiso8601", 0): _date,
    ("todateiso8601", 0): lambda value: _strftime(value, "%Y-%m-%dT%H:%M:%SZ"),
    ("strptime", 1): _date,
    ("mktime", 0): lambda value: value,
    ("gmtime", 0): lambda value: value,
    ("strftime", 1): _strftime,
    ("transpose", 0): _transpose,
    ("builtins", 0): lambda value: [f"{name}/{count}" for name, count in TABLE],
    ("splits", 1): lambda value, pattern: _split_regex(value, pattern, ""),
}
