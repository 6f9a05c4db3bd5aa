"""jq, and yq, which is the same on YAML."""

from __future__ import annotations

import json
import re
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import yaml

from kubesim.data import Bounded
from kubesim.shell.errors import FileError, Leave
from kubesim.shell.jq_process import run_filter
from kubesim.shell.jq_worker import mentions
from kubesim.shell.machine import Process, Tool
from kubesim.shell.tools import kit

LARGEST = 8 << 20
FLAGS = "rjacesnSRCMhVif:L:"
LONG = {
    "raw-output": "r",
    "join-output": "j",
    "ascii-output": "a",
    "compact-output": "c",
    "exit-status": "e",
    "slurp": "s",
    "null-input": "n",
    "sort-keys": "S",
    "raw-input": "R",
    "tab": "tab",
    "indent=": "indent",
    "color-output": "C",
    "monochrome-output": "M",
    "from-file=": "f",
    "version": "V",
    "stream": "stream",
    "yaml-output": "y",
    "output-format=": "o",
    "input-format=": "p",
    "raw-output0": "r",
    "in-place": "i",
    "unwrapScalar": "r",
    "prettyPrint": "P",
    "no-colors": "M",
}


async def _arguments(process: Process, variables: dict[str, Any]) -> list[str]:
    """Take ``--arg`` and its relatives, which have two values, out of the command line."""
    words, kept = list(process.argv[1:]), []
    while words:
        word = words.pop(0)
        if word in ("--arg", "--argjson", "--slurpfile", "--rawfile") and len(words) > 1:
            name, text = words.pop(0), words.pop(0)
            variables[name] = await _bound(process, word, name, text)
        elif word in ("--args", "--jsonargs"):
            variables["ARGS"] = {"positional": words[1:], "named": {}}
            kept += words[:1]
            words = []
        else:
            kept.append(word)
    variables.setdefault("ARGS", {"positional": [], "named": {}})
    variables["ARGS"]["named"] = {name: value for name, value in variables.items() if name != "ARGS"}
    return kept


async def _bound(process: Process, flag: str, name: str, text: str) -> Any:
    if flag == "--arg":
        return text
    try:
        if flag == "--argjson":
            return json.loads(text)
        data = kit.text(process.view.read(text))
        return data if flag == "--rawfile" else _values(data)
    except FileError as error:
        raise Leave(
            await process.fail(
                f"error: Bad JSON in --{flag[2:]} {name} {text}: Could not open {text}: {error.text}", 2
            )
        ) from error
    except (ValueError, RecursionError) as error:
        raise Leave(
            await process.fail(
                f"error: Invalid JSON text passed to {flag}\n"
                f"Use {process.name} --help for help with command-line options,\n"
                f"or see the jq manpage, or online docs  at https://jqlang.github.io/jq",
                2,
            )
        ) from error


def _values(text: str) -> list[Any]:
    """Parse JSON values one after the other. Raises ValueError."""
    decoder, found = json.JSONDecoder(), []
    while text := text.lstrip():
        value, at = decoder.raw_decode(text)
        found.append(value)
        text = text[at:]
    return found


async def jq(process: Process) -> int:
    """Run a filter over JSON, or over YAML as yq."""
    variables: dict[str, Any] = {}
    yq = process.name == "yq"
    opts = await kit.parsed(
        process, FLAGS + ("yPp:o:" if yq else ""), LONG, argv=await _arguments(process, variables)
    )
    if "V" in opts:
        await process.write("yq (https://github.com/mikefarah/yq/) version v4.44.3\n" if yq else "jq-1.8.2\n")
        return 0
    source, names = _source(process, opts, opts.args)
    if source is None:
        await process.error(
            "jq - commandline JSON processor [version 1.8.2]\n\nUsage:\tjq [OPTIONS] FILTER [FILES...]\n"
        )
        return 2
    unread = "n" in opts and not mentions("inputs?", source)
    texts, status = ([], 0) if unread else await _texts(process, names)
    request = {
        "program": source,
        "variables": variables,
        "null": "n" in opts,
        "slurp": "s" in opts and "R" not in opts,
        "stream": "stream" in opts,
        "environment": dict(process.env),
        "now": process.machine.now(),
    }
    try:
        request |= _inputs(opts, texts, yaml_in=yq and opts.get("p") != "json")
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        return await _plain(process, f"Error: bad file '-': {str(error)[:200]}")
    place = "<unknown>" if "n" in opts else f"<stdin>:{''.join(texts).count(chr(10))}"
    return await _run(process, opts, request, Run(names, place, status))


def _source(process: Process, opts: kit.Options, args: list[str]) -> tuple[str | None, list[str]]:
    """Return the filter, None where there is none, and the names of files."""
    yq = process.name == "yq"
    if yq and args[:1] in (["e"], ["eval"], ["ea"], ["eval-all"]):
        args = args[1:]
    if "f" in opts:
        return kit.text(process.view.read(opts.get("f"))), args
    if yq and (not args or process.view.find(args[0]) and not args[0].startswith(".")):
        return ".", args
    return (args[0], args[1:]) if args else (None, [])


async def _texts(process: Process, names: list[str]) -> tuple[list[str], int]:
    """Read the input files; 2 after a message where one cannot be read."""
    texts: list[str] = []
    status = 0
    for name in names or ["-"]:
        try:
            handle = process.fds[0] if name == "-" else process.open(name)
            texts.append(kit.text(await kit.everything(process, handle, LARGEST)))
        except FileError as error:
            if process.name == "yq":
                status = await _plain(process, f"Error: open {name}: {error.text.lower()}")
            else:
                status = await process.fail(f"error: Could not open {name}: {error.text}", 2)
    return texts, status


def _inputs(opts: kit.Options, texts: list[str], *, yaml_in: bool) -> dict[str, Any]:
    """Return the inputs as the worker takes them: texts of JSON, or values. Raises ValueError or yaml.YAMLError."""
    if "R" in opts:
        whole = "".join(texts)
        return {"values": [whole] if "s" in opts else whole.splitlines()}
    return {"values": [each for text in texts for each in documents(text)]} if yaml_in else {"texts": texts}


async def _plain(process: Process, text: str) -> int:
    await process.error(text + "\n")
    return 1


class _Loader(Bounded):
    """YAML with dates left as text."""


_Loader.yaml_implicit_resolvers = {
    key: [(tag, pattern) for tag, pattern in rows if tag != "tag:yaml.org,2002:timestamp"]
    for key, rows in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


class _Manifests(_Loader):
    """YAML as kubectl's library reads it, to which y and n are booleans, too."""


_Manifests.yaml_implicit_resolvers = {
    **_Loader.yaml_implicit_resolvers,
    **{
        letter: [
            ("tag:yaml.org,2002:bool", re.compile(r"(?:y|Y|n|N)$")),
            *_Loader.yaml_implicit_resolvers.get(letter, []),
        ]
        for letter in "yYnN"
    },
}
_Manifests.bool_values = {**_Loader.bool_values, "y": True, "n": False}


def documents(text: str, *, manifests: bool = False) -> list[Any]:
    """Parse YAML documents, as kubectl does where they are ``manifests``. Raises yaml.YAMLError or ValueError."""
    return [_jsonable(each, 0) for each in yaml.load_all(text, _Manifests if manifests else _Loader)]


def _key(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else "null" if value is None else str(value)


def _jsonable(value: Any, depth: int) -> Any:
    if depth > 60:
        raise ValueError("too deep")
    if isinstance(value, dict):
        return {_key(key): _jsonable(each, depth + 1) for key, each in value.items()}
    if isinstance(value, list):
        return [_jsonable(each, depth + 1) for each in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)


@dataclass
class Run:
    """One run of a filter, and what has come of it so far."""

    names: list[str]
    place: str
    """The place in the input that errors name."""
    status: int
    last: Any = None
    some: bool = False
    kept: list[str] = field(default_factory=list)


async def _run(process: Process, opts: kit.Options, request: dict[str, Any], run: Run) -> int:
    async with aclosing(run_filter(process, request)) as events:
        async for kind, *told in events:
            if kind == "value":
                run.some, run.last = True, told[0]
                text = _shown(process, told[0], opts)
                if "i" in opts and process.name == "yq":
                    run.kept.append(text)
                else:
                    await process.write(text)
            elif kind == "halt":
                await process.error(told[0] if isinstance(told[0], str) else dumps(told[0]) + "\n")
                return int(told[1])
            else:
                run.status = await _report(process, kind, told, run.place)
    if "i" in opts and process.name == "yq" and run.names:
        process.view.write(run.names[0], kit.data("---\n".join(run.kept)))
    if "e" in opts and not run.status:
        return 4 if not run.some else int(run.last is None or run.last is False)
    return run.status


async def _report(process: Process, kind: str, told: list[Any], place: str) -> int:
    """Word what went wrong; return the status."""
    if kind == "killed":
        await process.error("Killed\n")
        return 137
    value = told[0]
    shown = f": {value}" if isinstance(value, str) else f" (not a string): {dumps(value)}"
    if process.name == "yq":
        return await _plain(process, f"Error{shown}")
    if kind == "refused":
        await process.error(f"{value}\n")
        return 3
    await process.error(f"jq: {value}\n" if kind == "broken" else f"jq: error (at {place}){shown}\n")
    return 2 if kind == "broken" else 5


def dumps(value: Any, *, indent: int | str | None = None, sort: bool = False, ascii_only: bool = False) -> str:
    """Return a value as JSON, compact unless indented."""
    separators = (",", ":") if indent is None else (",", ": ")
    text = json.dumps(value, indent=indent, sort_keys=sort, ensure_ascii=ascii_only, separators=separators)
    return text.replace("\x7f", "\\u007f")


def _shown(process: Process, value: Any, opts: kit.Options) -> str:
    if process.name == "yq" and opts.get("o") not in ("json", "j") and "c" not in opts:
        return yaml_text(value)
    if isinstance(value, str) and opts.any("rj"):
        return value + ("" if "j" in opts else "\n")
    indent: int | str | None = (
        "\t" if "tab" in opts else int(opts.get("indent", "2")) if opts.get("indent", "2").isdecimal() else 2
    )
    if "c" in opts or indent == 0:
        indent = None
    text = dumps(
        value, indent=min(indent, 7) if isinstance(indent, int) else indent, sort="S" in opts, ascii_only="a" in opts
    )
    return text + ("" if "j" in opts else "\n")


class _Dumper(yaml.SafeDumper):
    """Lists indented under their keys."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:
        return True


def yaml_text(value: Any, *, sort: bool = False) -> str:
    """Return a value as YAML."""
    if isinstance(value, str):
        return value + "\n"
    text: str = yaml.dump(
        value, Dumper=_Dumper, sort_keys=sort, default_flow_style=False, allow_unicode=True, width=10_000
    )
    return text.removesuffix("...\n")


TOOLS: dict[str, Tool] = {"jq": jq, "yq": jq}
