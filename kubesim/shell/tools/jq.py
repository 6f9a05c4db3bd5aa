"""jq, and yq, which is the same on YAML."""

from __future__ import annotations

import json
import re
from typing import Any

import yaml

from kubesim.data import Bounded
from kubesim.shell.errors import FileError, Leave
from kubesim.shell.machine import Process, Tool
from kubesim.shell.tools import kit
from kubesim.shell.tools.jq_names import Break
from kubesim.shell.tools.jq_parse import JqSyntaxError, Parser
from kubesim.shell.tools.jq_run import Runner
from kubesim.shell.tools.jq_values import JqError, dumps, truth

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
        return data if flag == "--rawfile" else list(_documents(data))
    except FileError as error:
        raise Leave(
            await process.fail(
                f"error: Bad JSON in --{flag[2:]} {name} {text}: Could not open {text}: {error.text}", 2
            )
        ) from error
    except (ValueError, RecursionError) as error:
        raise Leave(
            await process.fail(
                f"error: Invalid JSON text passed to --argjson\n"
                f"Use {process.name} --help for help with command-line options,\n"
                f"or see the jq manpage, or online docs  at https://jqlang.github.io/jq",
                2,
            )
        ) from error


def _documents(text: str) -> list[Any]:
    """Parse JSON values one after the other; raises ValueError with what could be read as its second argument."""
    decoder = json.JSONDecoder()
    found: list[Any] = []
    at = 0
    space = re.compile(r"[ \t\r\n]*")
    while True:
        match = space.match(text, at)
        at = match.end() if match else at
        if at >= len(text):
            return found
        try:
            value, at = decoder.raw_decode(text, at)
        except ValueError as error:
            line = text.count("\n", 0, at) + 1
            column = len(text[:at].rpartition("\n")[2]) + 1
            reason = (
                "Invalid numeric literal"
                if text[at].isalnum()
                else "Unfinished JSON term"
                if text[at] in '[{"'
                else "Invalid literal"
            )
            raise ValueError(f"{reason} at line {line}, column {column}", found) from error
        found.append(value)


async def jq(process: Process) -> int:
    """Run a filter over JSON."""
    variables: dict[str, Any] = {}
    opts = await kit.options(
        process, FLAGS + ("yPp:o:" if process.name == "yq" else ""), LONG, argv=await _arguments(process, variables)
    )
    if "V" in opts:
        await process.write(
            "jq-1.7.1\n" if process.name == "jq" else "yq (https://github.com/mikefarah/yq/) version v4.44.3\n"
        )
        return 0
    args = opts.args
    if process.name == "yq" and args[:1] in (["e"], ["eval"], ["ea"], ["eval-all"]):
        args = args[1:]
    if "f" in opts:
        source = kit.text(process.view.read(opts.get("f"))) if process.view.find(opts.get("f")) else "."
    elif process.name == "yq" and args and process.view.find(args[0]) and not args[0].startswith("."):
        source = "."
    else:
        if not args and process.name == "jq":
            await process.error(
                "jq - commandline JSON processor [version 1.7.1]\n\nUsage:\tjq [OPTIONS] FILTER [FILES...]\n"
            )
            return 2
        source = args.pop(0) if args else "."
    try:
        node = Parser(source).parse()
    except JqSyntaxError as error:
        text = f"syntax error, unexpected {error} at <top-level>, line 1:\n{source}"
        await process.error(
            f"jq: error: {text}\njq: 1 compile error\n" if process.name == "jq" else f"Error: {error}\n"
        )
        return 3 if process.name == "jq" else 1
    runner = Runner(process, variables)
    return await _run(process, opts, runner, node, args)


async def _inputs(process: Process, opts: kit.Options, names: list[str]) -> tuple[list[Any], int]:
    """Read the input; 2 after a message where it is no JSON."""
    if "n" in opts and not names:
        names = []
    texts: list[str] = []
    status = 0
    for name in names or ([] if "n" in opts else ["-"]):
        try:
            handle = process.fds[0] if name == "-" else process.open(name)
            texts.append(kit.text(await kit.everything(process, handle, LARGEST)))
        except FileError as error:
            text = (
                f"error: Could not open {name}: {error.text}"
                if process.name == "jq"
                else f"Error: open {name}: {error.text.lower()}"
            )
            status = await (process.fail(text, 2) if process.name == "jq" else _plain(process, text))
    if "R" in opts:
        whole = "".join(texts)
        return ([whole] if "s" in opts else whole.splitlines()), status
    found: list[Any] = []
    for text in texts:
        try:
            found += documents(text) if process.name == "yq" and opts.get("p") != "json" else _documents(text)
        except (ValueError, yaml.YAMLError, RecursionError) as error:
            if isinstance(error, ValueError) and len(error.args) > 1:
                found += error.args[1]
            await process.error(
                f"jq: parse error: {error.args[0] if error.args else 'Exceeds depth limit for parsing'}\n"
                if process.name == "jq"
                else f"Error: bad file '-': {str(error)[:200]}\n"
            )
            status = 2 if process.name == "jq" else 1
    return ([found] if "s" in opts else found), status


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


async def _run(process: Process, opts: kit.Options, runner: Runner, node: Any, names: list[str]) -> int:
    runner.inputs, status = await _inputs(process, opts, names)
    last: Any = None
    some = False
    out: list[str] = []
    while runner.inputs or "n" in opts:
        value = None if "n" in opts else runner.inputs.pop(0)
        try:
            async for found in runner.run(node, value):
                some, last = True, found
                text = _shown(process, found, opts)
                if "i" in opts and process.name == "yq":
                    out.append(text)
                else:
                    await process.write(text)
        except JqError as error:
            runner.depth = 0
            status = await _report(process, error)
        except (Break, RecursionError):
            status = await process.fail("error: stack overflow", 5)
        if "n" in opts:
            break
    if "i" in opts and process.name == "yq" and names:
        process.view.write(names[0], kit.data("---\n".join(out)))
    if "e" in opts and not status:
        return 4 if not some else int(not truth(last))
    return status


async def _report(process: Process, error: JqError) -> int:
    if process.name == "yq":
        return await _plain(process, f"Error: {error.value}")
    if "is not defined" in str(error.value):
        await process.error(f"jq: error: {error.value} at <top-level>, line 1:\njq: 1 compile error\n")
        return 3
    shown = error.value if isinstance(error.value, str) else f"(not a string): {dumps(error.value)}"
    joint = "" if isinstance(error.value, str) else " "
    await process.error(f"jq: error (at <stdin>:1){':' if not joint else ''} {shown}\n")
    return 5


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
