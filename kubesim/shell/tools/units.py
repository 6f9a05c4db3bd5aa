"""systemctl: the services of a node."""

from __future__ import annotations

from datetime import timedelta

from kubesim.shell.hostside import BOOT_S, HostSide, journal
from kubesim.shell.machine import Process, Tool
from kubesim.shell.tools.hosts import host_of, shown_line

OFFLINE = (
    "System has not been booted with systemd as init system (PID 1). Can't operate.\nFailed to connect to "
    "bus: Host is down\n"
)
NOT_STARTED = (
    "Job for {0}.service failed because the control process exited with error code.\n"
    'See "systemctl status {0}.service" and "journalctl -xeu {0}.service" for details.\n'
)
LEGEND = (
    "\nLOAD   = Reflects whether the unit definition was properly loaded.\n"
    "ACTIVE = The high-level unit activation state, i.e. generalization of SUB.\n"
    "SUB    = The low-level unit activation state, values depend on unit type.\n"
)


async def systemctl(process: Process) -> int:
    """Tell of the node's services."""
    side = host_of(process)
    if side is None:
        await process.error(OFFLINE)
        return 1
    quiet = bool({"-q", "--quiet"} & {*process.argv})
    words = [word for word in process.argv[1:] if not word.startswith("-")]
    verb, names = (words[0], [word.removesuffix(".service") for word in words[1:]]) if words else ("list-units", [])
    if verb in ("list-units", "list-unit-files"):
        return await _units(process, side, [word for word in process.argv if word.startswith("-")], verb)
    if verb in ("daemon-reload", "reset-failed"):
        return 0
    if verb == "is-system-running":
        await process.write("running\n")
        return 0
    if verb == "status" and not names:
        return await _whole(process, side)
    status = 0
    for name in names:
        status = await _one(process, side, verb, name, quiet=quiet) or status
    return status


async def _one(process: Process, side: HostSide, verb: str, name: str, *, quiet: bool) -> int:
    known = side.units.get("ssh" if name == "sshd" else name)
    if known is None:
        return await _unknown(process, verb, name, quiet=quiet)
    if verb == "status":
        await _status(process, side, "ssh" if name == "sshd" else name)
    elif verb in ("is-active", "is-enabled", "is-failed"):
        answer = {"is-active": "active", "is-enabled": "enabled", "is-failed": "active"}[verb]
        await process.write("" if quiet else f"{answer}\n")
        return int(verb == "is-failed")
    elif verb == "cat":
        await process.write(_file(side, name))
    elif verb == "show":
        await process.write(
            f"Id={name}.service\nDescription={known.description}\nLoadState=loaded\nActiveState=active\nSubState=running\n"
            f"MainPID={known.pid}\nFragmentPath={known.path}\nUnitFileState=enabled\nTasksCurrent={known.tasks}\n"
        )
    elif verb in ("restart", "try-restart") and name == "kubelet":
        if why := side.restart():
            await process.error(NOT_STARTED.format(name))
            side.devices.board.log.write(process.machine.clock.now(), f"kubelet[{known.pid}]: {why}", 3)
            return 1
    elif verb in ("restart", "stop", "start", "reload", "try-restart", "kill"):
        await process.error(
            f"Failed to {verb} {name}.service: Access denied\nSee system logs and 'systemctl status {name}.service' "
            "for details.\n"
        )
        return 4
    else:
        await process.error(f"Unknown command verb {verb}.\n")
        return 1
    return 0


async def _unknown(process: Process, verb: str, name: str, *, quiet: bool) -> int:
    if verb in ("is-active", "is-failed"):
        await process.write("" if quiet else "inactive\n")
        return 4 if verb == "is-active" else 1
    if verb == "is-enabled":
        await process.error(f"Failed to get unit file state for {name}.service: No such file or directory\n")
        return 1
    if verb == "cat":
        await process.error(f"No files found for {name}.service.\n")
        return 1
    text = f"Failed to {verb} {name}.service: Unit {name}.service not found.\n"
    await process.error(f"Unit {name}.service could not be found.\n" if verb == "status" else text)
    return 4 if verb == "status" else 5


def _file(side: HostSide, name: str) -> str:
    unit = side.units["ssh" if name == "sshd" else name]
    return (
        f"# {unit.path}\n[Unit]\nDescription={unit.description}\nAfter=network-online.target\n\n[Service]\n"
        f"ExecStart={unit.command}\n"
        "Restart=always\nRestartSec=10\n\n[Install]\nWantedBy=multi-user.target\n"
    )


async def _units(process: Process, side: HostSide, flags: list[str], verb: str) -> int:
    names = {f"{name}.service": unit for name, unit in side.units.items()}
    if any("failed" in flag for flag in flags):
        names = {}
    if verb == "list-unit-files":
        await process.write(f"{'UNIT FILE':<32} STATE   VENDOR PRESET\n")
        for name in names:
            await process.write(f"{name:<32} enabled enabled\n")
        await process.write(f"\n{len(names)} unit files listed.\n")
        return 0
    wide = max([len(name) for name in names] or [4])
    if names:
        await process.write(f"  {'UNIT':<{wide}} LOAD   ACTIVE SUB     DESCRIPTION\n")
    for name, unit in names.items():
        await process.write(f"  {name:<{wide}} loaded active running {unit.description}\n")
    if not any("no-legend" in flag for flag in flags):
        tail = "To show all installed unit files use 'systemctl list-unit-files'.\n" if names else ""
        await process.write(f"{LEGEND if names else ''}{len(names)} loaded units listed.\n{tail}")
    return 0


async def _whole(process: Process, side: HostSide) -> int:
    """Say how the node is as a whole."""
    ago = _ago((process.machine.clock.now() - side.booted).total_seconds())
    await process.write(
        f"● {side.name}\n    State: running\n     Jobs: 0 queued\n   Failed: 0 units\n"
        f"    Since: {side.booted:%a %Y-%m-%d %H:%M:%S} UTC; {ago} ago\n   CGroup: /\n"
    )
    return 0


async def _status(process: Process, side: HostSide, name: str) -> None:
    unit, since = side.units[name], side.booted + timedelta(seconds=BOOT_S)
    ago = _ago((process.machine.clock.now() - since).total_seconds())
    program = unit.command.split()[0].rpartition("/")[2].rstrip(":")
    await process.write(
        f"● {name}.service - {unit.description}\n     Loaded: loaded ({unit.path}; enabled; vendor preset: enabled)\n"
        f"     Active: active (running) since {since:%a %Y-%m-%d %H:%M:%S} UTC; {ago} ago\n"
        f"   Main PID: {unit.pid} ({program})\n      Tasks: {unit.tasks} (limit: 629145)\n"
        f"     Memory: {unit.memory}\n        CPU: {unit.cpu}\n"
        f"     CGroup: /system.slice/{name}.service\n             └─{unit.pid} {unit.command}\n\n"
    )
    for line in (await journal(side, name))[-10:]:
        await process.write(shown_line(line, side.name) + "\n")


def _ago(seconds: float) -> str:
    days, rest = divmod(int(seconds), 86400)
    hours, rest = divmod(rest, 3600)
    minutes, rest = divmod(rest, 60)
    parts = (
        [f"{days} day{'s' if days > 1 else ''}"] * bool(days)
        + [f"{hours}h"] * bool(hours)
        + [f"{minutes}min"] * bool(minutes)
    )
    return " ".join(parts[:2]) or f"{rest}s"


TOOLS: dict[str, Tool] = {"systemctl": systemctl}
