"""How kubectl prints: the server's tables, JSON, YAML, names, JSONPath."""

from __future__ import annotations

import re
from typing import Any

from kubesim.shell.kubectl.client import KubectlError, Obj
from kubesim.shell.machine import Process
from kubesim.shell.tools.jq import yaml_text
from kubesim.shell.tools.jq_parse import JqSyntaxError, Parser
from kubesim.shell.tools.jq_run import Runner
from kubesim.shell.tools.jq_values import JqError, dumps


def table(rows: list[list[str]]) -> str:
    """Return rows in columns that are three spaces apart."""
    wide = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))] if rows else []
    lines = ["   ".join(cell.ljust(size) for cell, size in zip(row, wide, strict=True)).rstrip() for row in rows]
    return "".join(line + "\n" for line in lines)


def rows(
    answer: Obj, *, wide: bool, namespaces: bool, prefix: str = "", labels: bool = False, headers: bool = True
) -> list[list[str]]:
    """Return the cells of a server's Table."""
    chosen = [at for at, column in enumerate(answer["columnDefinitions"]) if wide or not column.get("priority")]
    head = [answer["columnDefinitions"][at]["name"].upper() for at in chosen]
    found = [["NAMESPACE"] * namespaces + head + ["LABELS"] * labels] if headers else []
    for row in answer.get("rows") or []:
        meta = row.get("object", {}).get("metadata", {})
        cells = [_cell(row["cells"][at]) for at in chosen]
        if prefix and cells:
            cells[0] = f"{prefix}/{cells[0]}"
        tail = ",".join(f"{key}={value}" for key, value in sorted((meta.get("labels") or {}).items())) or "<none>"
        found.append([meta.get("namespace", "")] * namespaces + cells + [tail] * labels)
    return found


def _cell(value: Any) -> str:
    return "<none>" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


async def formatted(process: Process, form: str, obj: Obj, name: str) -> str:
    """Return an object as ``-o`` asks."""
    kind, _, rest = form.partition("=")
    if kind == "json":
        return dumps(obj, indent=4, sort=True) + "\n"
    if kind == "yaml":
        return yaml_text(obj, sort=True)
    if kind == "name":
        return name + "\n"
    if kind == "jsonpath":
        return await jsonpath(process, rest, obj)
    raise KubectlError(
        f'error: unable to match a printer suitable for the output format "{form}", allowed formats are: '
        "json,jsonpath,name,wide,yaml"
    )


async def jsonpath(process: Process, template: str, obj: Obj) -> str:
    """Fill a JSONPath template: text and ``{...}``, with ``{range}`` over one list."""
    ranged = re.fullmatch(r"(.*?)\{range (.*?)\}(.*)\{end\}(.*)", template, re.DOTALL)
    if ranged:
        items = await _values(process, ranged[2], obj)
        middle = [await jsonpath(process, ranged[3], item) for item in items]
        return await jsonpath(process, ranged[1], obj) + "".join(middle) + await jsonpath(process, ranged[4], obj)
    out = []
    for text, expression in re.findall(r"([^{]+)|\{([^}]*)\}", template):
        if text:
            out.append(text)
        elif expression[:1] in ("'", '"'):
            out.append(expression[1:-1].replace("\\n", "\n").replace("\\t", "\t"))
        else:
            found = await _values(process, expression, obj)
            out.append(" ".join(each if isinstance(each, str) else dumps(each) for each in found if each is not None))
    return "".join(out)


async def _values(process: Process, expression: str, obj: Any) -> list[Any]:
    """Evaluate a JSONPath by jq, whose paths are much the same."""
    source = expression.strip().removeprefix("$") or "."
    source = re.sub(r"\[\?\(@(.*?)\)\]", r"[] | select(\1) | .", source).replace("[*]", "[]").replace("['", '["')
    source = source.replace("']", '"]').replace("\\.", "\0")
    source = re.sub(r"\.([\w\0/-]*[\0/-][\w\0/-]*)", lambda match: f'["{match[1]}"]', source).replace("\0", ".")
    source = re.sub(r"\| \.(?=$|\[)", "| .", source).replace("| ..", "| .")
    try:
        node = Parser(source if source.startswith(".") else "." + source).parse()
        return [value async for value in Runner(process, {}).run(node, obj)]
    except JqSyntaxError as error:
        raise KubectlError(
            f"error: error parsing jsonpath {{{expression}}}, unrecognized character in action"
        ) from error
    except JqError:
        return []
