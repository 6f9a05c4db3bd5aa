"""Python in containers, as tests run it there."""

from __future__ import annotations

import asyncio

from kubesim.tests.containers import run

TOLD = """
{header}
for expression in {expressions!r}:
    try:
        print(eval(expression))
    except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        print(type(error).__name__ + ":", error)
    print("--")
"""


async def python(w, text, name="train"):
    """Return how a program ends in a pod, and what it prints, while time passes."""
    running = asyncio.ensure_future(run(w, name, "python3", "-c", text))
    while not running.done():
        await w.tick(1)
    status, out, errors = running.result()
    return status, out + errors


async def wrong(w, header, printed, name="train"):
    """Return the expressions for which a pod's Python prints something else than is listed, with both."""
    status, said = await python(w, TOLD.format(header=header, expressions=list(printed)), name)
    pairs = zip(printed.items(), said.split("\n--\n")[:-1], strict=True)
    return status, {key: (got, want) for (key, want), got in pairs if got != want}
