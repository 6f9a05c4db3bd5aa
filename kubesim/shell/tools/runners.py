"""Programs that run another one, later, for a while, or with other variables; and sleep."""

from __future__ import annotations

import asyncio
import re

from kubesim.shell.errors import StartError
from kubesim.shell.machine import DEFAULT_PATH, Process
from kubesim.shell.programs import find
from kubesim.shell.signals import NAMES, number
from kubesim.shell.tools import kit
from kubesim.shell.tools.system import UNITS


def seconds(word: str) -> float | None:
    """Return a duration such as 1.5m; None for a wrong one."""
    if word in ("infinity", "inf"):
        return 1e9
    match = re.fullmatch(r"(\d{1,12}(?:\.\d{0,9})?|\.\d{1,9})([smhd]?)", word)
    return float(match[1]) * UNITS.get(match[2], 1.0) if match else None


async def sleep(process: Process) -> int:
    """Wait on the clock."""
    if len(process.argv) < 2:
        await kit.usage(process, "missing operand")
    total = 0.0
    for word in process.argv[1:]:
        if word[:1] == "-":
            wrong = f"unrecognized option '{word}'" if word[:2] == "--" else f"invalid option -- '{word[1:2]}'"
            await kit.usage(process, wrong)
        length = seconds(word)
        if length is None:
            await kit.usage(process, f"invalid time interval '{word}'")
        total += length or 0.0
    await process.sleep(total)
    return 0


async def timeout(process: Process) -> int:
    """Run a program for a limited time."""
    opts = await kit.options(process)
    if len(opts.args) < 2:
        await process.error(f"Try '{process.name} --help' for more information.\n")
        return 125
    if "k" in opts and seconds(opts.get("k")) is None:
        await kit.usage(process, f"invalid time interval '{opts.get('k')}'")
    if "s" in opts and number(opts.get("s")) is None:
        await kit.usage(process, f"'{opts.get('s')}': invalid signal")
    length = seconds(opts.args[0])
    if length is None:
        await kit.usage(process, f"invalid time interval '{opts.args[0]}'")
    name = NAMES.get(number(opts.get("s", "TERM")) or 15, "TERM")
    try:
        child = process.run(opts.args[1:])
    except StartError as error:
        return await process.fail(f"failed to run command '{opts.args[1]}': {error.text}", error.code)
    process.handlers["TERM"] = child.signal
    ended = asyncio.ensure_future(child.wait())
    clock = asyncio.ensure_future(process.machine.clock.sleep(length or 1e9))
    try:
        await asyncio.wait({ended, clock}, return_when=asyncio.FIRST_COMPLETED)
        if ended.done():
            return ended.result()
        child.signal(name)
        if "k" in opts:
            later = asyncio.ensure_future(process.machine.clock.sleep(seconds(opts.get("k")) or 0))
            await asyncio.wait({ended, later}, return_when=asyncio.FIRST_COMPLETED)
            later.cancel()
            child.signal("KILL")
        status = await child.wait()
        return status if "p" in opts else 137 if name == "KILL" else 124
    finally:
        ended.cancel()
        clock.cancel()


async def env(process: Process) -> int:
    """Show the environment or run a program in another."""
    opts = await kit.options(process)
    found = {} if "i" in opts else {name: text for name, text in process.env.items() if name not in opts.all("u")}
    args = opts.args
    while args and "=" in args[0]:
        name, _, text = args.pop(0).partition("=")
        found[name] = text
    if not args:
        await process.write("".join(f"{name}={text}\n" for name, text in found.items()))
        return 0
    try:
        program = find(process.view, args, found.get("PATH", DEFAULT_PATH))
    except StartError as error:
        return await process.fail(f"'{args[0]}': {error.text}", error.code)
    return await become(process, program, found)


async def become(process: Process, program: object, env: dict[str, str]) -> int:
    """Go on as another program."""
    process.program, process.env = program, env  # type: ignore[assignment]
    process.argv = list(process.program.argv)
    return await process.machine.tools[process.program.tool](process)


async def nohup(process: Process) -> int:
    """Run a program that hang-ups do not end."""
    process.handlers["HUP"] = None
    words = process.argv[1:]
    try:
        return await become(process, find(process.view, words, process.env.get("PATH", DEFAULT_PATH)), process.env)
    except StartError as error:
        return await process.fail(f"failed to run command '{(words or [''])[0]}': {error.text}", error.code)


async def printenv(process: Process) -> int:
    """Show variables of the environment."""
    if len(process.argv) == 1:
        await process.write("".join(f"{name}={text}\n" for name, text in process.env.items()))
    for name in process.argv[1:]:
        if name not in process.env:
            return 1
        await process.write(process.env[name] + "\n")
    return 0


TOOLS = kit.named(sleep, timeout, env, nohup, printenv)
