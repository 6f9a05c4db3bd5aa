"""systemctl and reboot: the services of a node, and the node itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from kubesim.shell.hostside import BOOT_S, HostSide
from kubesim.shell.journals import entries
from kubesim.shell.machine import Process, Tool
from kubesim.shell.services import Service
from kubesim.shell.tools import kit
from kubesim.shell.tools.hosts import host_of
from kubesim.shell.tools.journalctl import shown

MARKS = {"active": "●", "failed": "×", "inactive": "○", "activating": "●"}
SHOWN_LINES = 10
WANTS = "/etc/systemd/system/multi-user.target.wants"


async def systemctl(process: Process) -> int:
    """Tell of the node's services, start and stop them."""
    side = host_of(process)
    if side is None:
        await process.error(kit.told("units_offline"))
        return 1
    call = _Call(process, side, await kit.options(process))
    verb, *words = call.opts.args or ["list-units"]
    names = [_name(word) for word in words]
    if verb == "list-units":
        return await _units(call)
    if verb == "reboot":
        side.reboot()
    if verb in ("daemon-reload", "reboot"):
        return 0
    if not names and verb in {*ASKING, *JUDGING, *CHANGING}:
        await process.error("Too few arguments.\n")
        return 1
    status = 0
    for name in names:
        status = await _one(call, verb, name) or status
    return status


async def reboot(process: Process) -> int:
    """Turn the machine off and on again, as systemctl does."""
    process.argv[1:] = ["reboot"]
    return await systemctl(process)


@dataclass(frozen=True)
class _Call:
    """One command line, and the node that it is about."""

    process: Process
    side: HostSide
    opts: kit.Options


def _name(word: str) -> str:
    name = word.removesuffix(".service")
    return "ssh" if name == "sshd" else name


async def _one(call: _Call, verb: str, name: str) -> int:
    if name not in call.side.units:
        return await _unknown(call, verb, name)
    if verb in ASKING or verb in JUDGING:
        return await _ask(call, verb, name)
    if verb not in CHANGING:
        await call.process.error(f"Unknown command verb {verb}.\n")
        return 1
    why = _enroll(call, verb, name) if verb in QUIET else _run(call, verb, name)
    await call.process.error(why)
    return int(bool(why)) if verb not in QUIET else 0


# What is asked.


async def _ask(call: _Call, verb: str, name: str) -> int:
    judged = verb.startswith("is-")
    text, status = _judge(call, verb, name) if judged else ASKING[verb](call, name)
    quiet = judged and "q" in call.opts
    wanted = call.opts.get("n")
    if verb == "status" and wanted != "0":
        most = int(wanted) if wanted.isdecimal() and len(wanted) < 6 else SHOWN_LINES
        found = (await entries(call.side, [name]))[-most:]
        text += "\n" + "".join(f"{shown(entry, call.side.name)}\n" for entry in found)
    await call.process.write("" if quiet else text)
    return status


def _judge(call: _Call, verb: str, name: str) -> tuple[str, int]:
    """Answer is-active, is-failed and is-enabled."""
    service = call.side.services.of(name)
    said = service.enabled if verb == "is-enabled" else service.active
    wrong = 3 if verb == "is-active" else 1
    return f"{said}\n", 0 if said == verb.removeprefix("is-") else wrong


def _cat(call: _Call, name: str) -> tuple[str, int]:
    unit = call.side.units[name]
    again = "" if unit.again_s is None else f"Restart=always\nRestartSec={unit.again_s:g}\n"
    kind = "" if unit.kind == "simple" else f"Type={unit.kind}\n"
    return kit.told("units_file", unit=unit, kind=kind, again=again), 0


def _status(call: _Call, name: str) -> tuple[str, int]:
    side, unit = call.side, call.side.units[name]
    service = side.services.of(name)
    since = service.since or _started(side)
    ago = _ago((side.now() - since).total_seconds())
    program = unit.command.split()[0].rpartition("/")[2].rstrip(":")
    pid = side.services.pid(name)
    lines = [
        f"{MARKS[service.active]} {name}.service - {unit.description}",
        f"     Loaded: loaded ({unit.path}; {service.enabled}; vendor preset: enabled)",
        f"     Active: {_state(service)} since {since:%a %Y-%m-%d %H:%M:%S} UTC; {ago} ago",
    ]
    if service.active == "active":
        fresh = service.since is not None
        lines += [
            f"   Main PID: {pid} ({program})",
            f"      Tasks: {unit.tasks} (limit: 629145)",
            f"     Memory: {unit.memory}",
            f"        CPU: {'1.204s' if fresh else unit.cpu}",
            f"     CGroup: /system.slice/{name}.service",
            f"             └─{pid} {unit.command}",
        ]
        return "\n".join(lines) + "\n", 0
    ending = service.ending.replace("status=9/KILL", "signal=KILL")
    lines += [f"    Process: {pid} ExecStart={unit.command} ({ending})", f"   Main PID: {pid} ({ending})"]
    lines.append(f"        CPU: {unit.cpu if service.result == 'success' else '86ms'}")
    return "\n".join(lines) + "\n", 3


def _state(service: Service) -> str:
    result = "" if service.result == "success" else f" (Result: {service.result})"
    if service.active == "activating":
        return f"activating (auto-restart){result}"
    return f"failed{result}" if service.active == "failed" else f"{service.active} ({service.sub})"


Answer = Callable[[_Call, str], tuple[str, int]]
ASKING: dict[str, Answer] = {
    "status": _status,
    "cat": _cat,
}
"""Verb -> what it answers, and its exit status."""
JUDGING = ("is-active", "is-failed", "is-enabled")


# What is changed.


RUNNING = ("start", "stop", "restart", "try-restart", "reload", "reload-or-restart")
QUIET = ("enable", "disable", "mask", "unmask")
"""Verbs that say what they have done."""
CHANGING = (*RUNNING, *QUIET)


def _run(call: _Call, verb: str, name: str) -> str:
    """Start, stop or signal a service; return what is said on standard error."""
    services = call.side.services
    runs, masked = services.runs(name), services.of(name).enabled == "masked"
    if verb == "reload":
        return kit.told("units_not_reloaded", name=name)
    if verb == "stop":
        services.stop(name)
    elif verb != "try-restart" or runs:
        if masked:
            return f"Failed to start {name}.service: Unit {name}.service is masked.\n"
        if verb != "start":
            services.stop(name)
        return "" if services.start(name) else kit.told("units_not_started", name=name)
    return ""


def _enroll(call: _Call, verb: str, name: str) -> str:
    """Say whether a service starts with the machine, or may at all; return what is said on standard error."""
    services, unit = call.side.services, call.side.units[name]
    was, link = services.of(name).enabled, f"/etc/systemd/system/{name}.service"
    if verb == "enable" and was == "masked":
        return f"Failed to enable unit: Unit file {unit.path} is masked.\n"
    if verb == "unmask" and was != "masked":
        return ""
    services.enable(name, {"disable": "disabled", "mask": "masked"}.get(verb, "enabled"))
    if "now" in call.opts and verb in ("disable", "mask"):
        services.stop(name)
    if verb == "enable":
        said = "" if was == "enabled" else f"Created symlink {WANTS}/{name}.service → {unit.path}.\n"
        return said + (_run(call, "start", name) if "now" in call.opts else "")
    if verb == "disable":
        return f"Removed {WANTS}/{name}.service.\n" if was == "enabled" else ""
    if verb == "unmask":
        return f"Removed {link}.\n"
    return "" if was == "masked" else f"Created symlink {link} → /dev/null.\n"


async def _unknown(call: _Call, verb: str, name: str) -> int:
    process = call.process
    if verb in ("is-active", "is-failed"):
        await process.write("" if "q" in call.opts else "inactive\n")
        return 3 if verb == "is-active" else 1
    if verb == "is-enabled":
        await process.error(f"Failed to get unit file state for {name}.service: No such file or directory\n")
        return 1
    if verb == "cat":
        await process.error(f"No files found for {name}.service.\n")
        return 1
    if verb in QUIET:
        await process.error(f"Failed to {verb} unit: Unit file {name}.service does not exist.\n")
        return 1
    text = f"Failed to {verb} {name}.service: Unit {name}.service not found.\n"
    await process.error(f"Unit {name}.service could not be found.\n" if verb == "status" else text)
    return 4 if verb == "status" else 5


async def _units(call: _Call) -> int:
    process, services = call.process, call.side.services
    names = {f"{name}.service": unit for name, unit in call.side.units.items()}
    state = "failed" if "failed" in call.opts else call.opts.get("state")
    every = "a" in call.opts
    states = {name: services.of(_name(name)) for name in names}
    chosen = {
        name: each
        for name, each in states.items()
        if (state in (each.active, each.sub) if state else every or each.active != "inactive")
    }
    wide = max([len(name) for name in chosen] or [4])
    if chosen:
        await process.write(f"  {'UNIT':<{wide}} LOAD   {'ACTIVE':<10} SUB          DESCRIPTION\n")
    for name, each in chosen.items():
        mark = "●" if each.active == "failed" else " "
        row = f"{mark} {name:<{wide}} loaded {each.active:<10} {each.sub:<12} {names[name].description}"
        await process.write(f"{row}\n")
    if "no-legend" not in call.opts:
        legend = kit.told("units_legend") if chosen else ""
        tail = "To show all installed unit files use 'systemctl list-unit-files'.\n" if chosen else ""
        await process.write(f"{legend}{len(chosen)} loaded units listed.\n{tail}")
    return 0


def _started(side: HostSide) -> datetime:
    return side.booted + timedelta(seconds=BOOT_S)


def _ago(seconds: float) -> str:
    days, rest = divmod(int(seconds), 86400)
    hours, rest = divmod(rest, 3600)
    minutes, rest = divmod(rest, 60)
    parts = (
        [f"{days} day{'s' if days > 1 else ''}"] * bool(days)
        + [f"{hours}h"] * bool(hours)
        + [f"{minutes}min"] * bool(minutes)
    )
    if not days and not hours:
        parts += [f"{rest}s"]
    return " ".join(parts[:2])


TOOLS: dict[str, Tool] = {"reboot": reboot, "systemctl": systemctl}
