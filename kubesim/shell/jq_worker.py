"""libjq in a process of its own, started as a script with nothing but the folder of the ``jq`` package on its path.

A filter is whatever a candidate types, and libjq is C: before it sees any of it, the process gives up opening files
and sockets, starting processes, more memory and more time. It reads one request and writes an event a line:

- ``["value", v]``: a result; ``["error", v]``: an input failed; ``["halt", v, status]``: the filter ended itself
- ``["refused", text]``: the filter cannot be compiled; ``["broken", text]``: an input is no JSON
- ``["used", seconds]``: the CPU time, at the end
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import sys
import time
from collections.abc import Iterator
from typing import Any

MAX_CPU_S, MAX_MEMORY = 2, 512 << 20
LIMITS = (
    (resource.RLIMIT_CPU, MAX_CPU_S),
    (resource.RLIMIT_AS, MAX_MEMORY),
    (resource.RLIMIT_NOFILE, 0),
    (resource.RLIMIT_NPROC, 0),
    (resource.RLIMIT_FSIZE, 0),
    (resource.RLIMIT_CORE, 0),
)
HALTS = (
    "def halt_error($c): error({__halt: ., __status: $c}); def halt_error: halt_error(5);"
    'def halt: "" | halt_error(0); '
)
MODULE = re.compile(r'(?:^|[;\n])\s*(?:import|include)\s*"([^"]*)')
INPUTS = 'def inputs: $__inputs[]; def input: first(inputs, error("No more inputs")); '


def emit(*event: Any) -> None:
    """Write one event."""
    sys.stdout.buffer.write(json.dumps(event).encode() + b"\n")
    sys.stdout.buffer.flush()


def confine() -> None:
    """Give up what a filter has no need of. A system without one of the limits (macOS has no RLIMIT_AS) keeps it."""
    for which, limit in LIMITS:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(which, (limit, limit))


def inputs(jq: Any, request: dict[str, Any], broken: list[str]) -> Iterator[Any]:
    """Yield the values that the filter is given; add to ``broken`` what cannot be read."""
    if "values" in request:
        yield from request["values"]
        return
    identity = jq.compile("tostream" if request["stream"] else ".")
    for text in request["texts"]:
        try:
            yield from identity.input_text(text.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))
        except ValueError as error:
            broken.append(str(error))


def mentions(name: str, program: str) -> bool:
    """Tell whether a program calls a function, as far as one sees without parsing it."""
    return re.search(rf"(?<![.$\w\"]){name}\b", program) is not None


def run(jq: Any, request: dict[str, Any]) -> None:
    """Compile the filter and run it over its inputs."""
    broken: list[str] = []
    program, variables, values = request["program"], request["variables"], list(inputs(jq, request, broken))
    values = [values] if request["slurp"] else values
    if module := MODULE.search(program):  # libjq would tell which files the host has
        emit("refused", f"jq: error: module not found: {module[1]}\n\njq: 1 compile error")
        return
    prefix = HALTS if mentions("halt(_error)?", program) else ""
    if mentions("now", program):
        prefix += f"def now: {request['now']}; "
    if mentions("inputs?", program):
        prefix += INPUTS
        rest = values if request["null"] else values[1:]
        variables, values = {**variables, "__inputs": rest}, values[:1]
    try:
        jq.compile(program, args=variables)
        whole = jq.compile(f"{prefix}try (({program}\n)|[.]) catch {{error: .}}", args=variables)
    except ValueError as error:
        emit("refused", str(error))
        return
    for value in [None] if request["null"] else values:
        feed(whole, value)
    for text in broken:
        emit("broken", text)


def feed(whole: Any, value: Any) -> None:
    """Run the compiled filter over one input."""
    try:
        for found in whole.input_value(value):
            if isinstance(found, list):
                emit("value", found[0])
            elif isinstance(found["error"], dict) and "__halt" in found["error"]:
                emit("halt", found["error"]["__halt"], found["error"]["__status"])
            else:
                emit("error", found["error"])
    except ValueError as error:
        emit("error", str(error))


def main() -> None:
    """Serve one request, which stands on standard input."""
    sys.path.append(sys.argv[1])
    import jq  # here, because its folder is an argument, and the limits would forbid to load it

    request = json.loads(sys.stdin.buffer.read())
    confine()
    for name, value in request["environment"].items():
        with contextlib.suppress(ValueError, OSError):
            os.putenv(name, value)
    run(jq, request)
    emit("used", time.process_time())


if __name__ == "__main__":
    main()
