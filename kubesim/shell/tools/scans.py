"""nmap: which ports of a host answer, asked one after another as a full connection."""

from __future__ import annotations

from kubesim.shell.errors import NetworkError
from kubesim.shell.machine import Process, Tool
from kubesim.shell.sockets import network, resolve
from kubesim.shell.tools import kit

VERSION = "Nmap 7.97 ( https://nmap.org )"
SERVICES = {
    21: "ftp", 22: "ssh", 23: "telnet", 25: "smtp", 53: "domain", 80: "http", 110: "pop3", 111: "rpcbind",
    143: "imap", 443: "https", 445: "microsoft-ds", 993: "imaps", 995: "pop3s", 2222: "EtherNetIP-1", 3000: "ppp",
    3306: "mysql", 3389: "ms-wbt-server", 5201: "targus-getdata1", 5432: "postgresql", 5900: "vnc", 6379: "redis",
    6443: "sun-sr-https", 8000: "http-alt", 8080: "http-proxy", 8443: "https-alt", 9090: "zeus-admin",
    9100: "jetdirect", 9400: "sec-pki", 10250: "unknown", 27017: "mongod",
}  # fmt: skip
"""The names of /usr/share/nmap/nmap-services for ports that are commonly looked for."""
SCANNED = 1000
"""The number of ports that nmap scans where none are given; those that nobody names here are closed everywhere."""
MAX_PORTS = 1 << 16
WRONG = (
    'Your port specifications are illegal.  Example of proper form: "-100,200-1024,T:3000-4000,U:60000-"\nQUITTING!\n'
)


def _ports(text: str) -> list[int]:
    """Return the ports of a list such as ``22,80-90``; raises ValueError."""
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.removeprefix("T:").partition("-")
        low, high = int(first or 1), int(last or MAX_PORTS - 1) if dash else int(first)
        if not 0 < low <= high < MAX_PORTS:
            raise ValueError(part)
        found += range(low, high + 1)
    return found


async def _state(process: Process, address: str, port: int) -> str:
    try:
        await network(process).connect(address, port)
    except NetworkError as error:
        return "filtered" if error.kind in ("timeout", "unreachable") else "closed"
    return "open"


async def nmap(process: Process) -> int:
    """Scan hosts."""
    words = [word for word in process.argv[1:] if not (word[:2] in ("-T", "-P", "-s") and len(word) == 3)]
    opts = await kit.options(process, argv=words)
    if "V" in opts:
        await process.write(f"Nmap version {VERSION.removeprefix('Nmap ')}\n")
        return 0
    try:
        asked = _ports(opts.get("p")) if "p" in opts else sorted(SERVICES)
    except ValueError:
        await process.error(WRONG)
        return 1
    await process.write(f"Starting {VERSION} at {process.machine.clock.now():%Y-%m-%d %H:%M} +0000\n")
    began, up = process.machine.now(), 0
    if not opts.args:
        await process.error("WARNING: No targets were specified, so 0 hosts scanned.\n")
    for name in opts.args:
        up += await _scan(process, name, asked, SCANNED if "p" not in opts else len(asked), "open" in opts)
    hosts = f"{len(opts.args)} IP address{'es' if len(opts.args) != 1 else ''} ({up} host{'s' if up != 1 else ''} up)"
    await process.write(f"Nmap done: {hosts} scanned in {process.machine.now() - began + 0.11:.2f} seconds\n")
    return 0


async def _scan(process: Process, name: str, asked: list[int], count: int, only_open: bool) -> int:
    """Scan one host; returns how many are up."""
    try:
        address = (await resolve(process, name))[0]
        way = await network(process).path(address)
    except NetworkError:
        await process.error(f'Failed to resolve "{name}".\n')
        return 0
    states = {port: await _state(process, address, port) for port in asked}
    here = bool(way) and way[-1].address == address
    if not here and set(states.values()) <= {"filtered"}:
        await process.sleep(3.0)
        await process.write("Note: Host seems down. If it is really up, but blocking our ping probes, try -Pn\n")
        return 0
    await process.sleep(1.2 if "filtered" in states.values() else 0.1)
    shown = name if name == address else f"{name} ({address})"
    delay = f" ({way[-1].rtt / 1000:.2g}s latency)" if here else ""
    await process.write(f"Nmap scan report for {shown}\nHost is up{delay}.\n")
    await process.write(_table(states, count, only_open))
    return 1


def _table(states: dict[int, str], count: int, only_open: bool) -> str:
    calm = "filtered" if [*states.values()].count("filtered") > len(states) / 2 else "closed"
    hidden = [port for port, state in states.items() if state == calm] if count > 25 else []
    unseen = len(hidden) + count - len(states)
    why = "(no-response)" if calm == "filtered" else "(reset)"
    text = f"Not shown: {unseen} {calm} tcp ports {why}\n" if unseen and len(hidden) < len(states) else ""
    if hidden and len(hidden) == len(states):
        return f"All {count} scanned ports are in ignored states.\nNot shown: {count} {calm} tcp ports {why}\n\n"
    rows = [
        (port, state) for port, state in states.items() if port not in hidden and not (only_open and state != "open")
    ]
    wide = max([len(f"{port}/tcp") for port, _ in rows] + [4])
    text += f"{'PORT':<{wide}} STATE{' ' * 4}SERVICE\n" if rows else ""
    lines = (f"{f'{port}/tcp':<{wide}} {state:<8} {SERVICES.get(port, 'unknown')}\n" for port, state in rows)
    return text + "".join(lines) + "\n"


TOOLS: dict[str, Tool] = {"nmap": nmap}
