"""How kubectl prints: the server's tables, JSON, YAML, names, JSONPath, custom columns."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from kubesim.goyaml import to_json, to_yaml
from kubesim.shell.kubectl import jsonpath
from kubesim.shell.kubectl.client import KubectlError, Obj
from kubesim.shell.kubectl.tabs import table

PLAIN: dict[str, Callable[[Obj], str]] = {"json": to_json, "yaml": to_yaml}

FORMATS = "go-template,go-template-file,json,jsonpath,jsonpath-as-json,jsonpath-file,name,template,templatefile,yaml"
OF_GET = (
    "custom-columns,custom-columns-file,go-template,go-template-file,json,jsonpath,jsonpath-as-json,jsonpath-file,"
    "name,template,templatefile,wide,yaml"
)


def rows(
    answer: Obj,
    *,
    wide: bool,
    namespaces: bool,
    prefix: str = "",
    labels: bool = False,
    columns: list[str] | None = None,
    headers: bool = True,
) -> list[list[str]]:
    """Return the cells of a server's Table; ``columns`` are labels that have columns of their own."""
    chosen = [at for at, column in enumerate(answer["columnDefinitions"]) if wide or not column.get("priority")]
    head = [answer["columnDefinitions"][at]["name"].upper() for at in chosen]
    head += [name.rpartition("/")[2].upper() for name in columns or []]
    found = [["NAMESPACE"] * namespaces + head + ["LABELS"] * labels] if headers else []
    for row in answer.get("rows") or []:
        meta = row.get("object", {}).get("metadata", {})
        cells = [_cell(row["cells"][at]) for at in chosen]
        if prefix and cells:
            cells[0] = f"{prefix}/{cells[0]}"
        known = meta.get("labels") or {}
        cells += [known.get(name, "") for name in columns or []]
        tail = ",".join(f"{key}={value}" for key, value in sorted(known.items())) or "<none>"
        found.append([meta.get("namespace", "")] * namespaces + cells + [tail] * labels)
    return found


def _cell(value: Any) -> str:
    """Return a cell: of text only the first line, and nothing that a terminal takes for a command."""
    text = "<none>" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    first = re.split(r"[\f\n\r\v]", text, maxsplit=1)[0]
    return safe(first) + ("..." if first != text else "")


def safe(text: str) -> str:
    """Return text whose escape sequences a terminal shows instead of doing them."""
    return text.replace("\x1b", "^[").replace("\r", "\\r")


def formatted(form: str, obj: Obj, *, headers: bool = True, allowed: str = FORMATS) -> str:
    """Return an object, or a List, as ``-o`` asks. Raises KubectlError."""
    kind, equals, rest = form.partition("=")
    if form in PLAIN:
        return PLAIN[form](obj)
    if kind in ("jsonpath", "jsonpath-as-json") and not rest:
        raise KubectlError("error: template format specified but no template given")
    if kind.startswith("jsonpath"):
        return jsonpath.fill(rest, obj, as_json=kind == "jsonpath-as-json")
    if kind == "custom-columns":
        return custom_columns(rest, obj, headers=headers)
    raise KubectlError(
        f'error: unable to match a printer suitable for the output format "{form}", allowed formats are: {allowed}'
    )


def custom_columns(spec: str, obj: Obj, *, headers: bool = True) -> str:
    """Return columns that are named with paths, ``NAME:.metadata.name``."""
    if not spec:
        raise KubectlError("error: custom-columns format specified but no custom columns given")
    pairs = [part.partition(":") for part in spec.split(",")]
    for name, colon, path in pairs:
        if not colon or not path:
            raise KubectlError(
                f"error: unexpected custom-columns spec: {name}{colon}{path}, expected <header>:<json-path-expr>"
            )
    items = obj["items"] if obj.get("kind") == "List" else [obj]
    lines = [[name for name, _, _ in pairs]] if headers else []
    lines += [[_field(path, item) for _, _, path in pairs] for item in items]
    return table(lines)


def _field(path: str, item: Obj) -> str:
    found = [safe(jsonpath.shown(value)) for value in jsonpath.values(jsonpath.relaxed(path), item)]
    return ",".join(found) or "<none>"


def sort_key(path: str, obj: Obj) -> tuple[int, Any]:
    """Return what ``--sort-by`` compares: nothing first, numbers by size, text with its numbers by size."""
    found = jsonpath.values(jsonpath.relaxed(path), obj)
    if not found or found[0] is None:
        return 0, ()
    if isinstance(found[0], int | float):
        return 1, found[0]
    parts = re.findall(r"\d+|\D+", str(found[0]))
    return 2, tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts)
