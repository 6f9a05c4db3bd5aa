"""ssh and sshd of OpenSSH 9.6: commands in other pods, over the cluster's network. Sources: ssh(1), sshd(8)."""

from __future__ import annotations

import asyncio
import hashlib
from base64 import b64decode, b64encode
from fnmatch import fnmatchcase
from zlib import crc32

from kubesim.shell.errors import FileError, NetworkError
from kubesim.shell.handles import CHUNK, Stdio
from kubesim.shell.machine import Process, Tool
from kubesim.shell.remote import Refused, SshServer, keys, reach, user_of
from kubesim.shell.sockets import UNKNOWN, network
from kubesim.shell.tools import kit
from kubesim.shell.tools.users import home_of

FAILED = 255
MIN_PORT, PORTS = 32768, 28232
"""Of the ports that a client is given."""
HANDSHAKE_S, CONFIG = 0.15, "/etc/ssh/sshd_config"
SSH_PORT, SYN_S = 22, 127.0
"""Seconds for which the kernel knocks where nobody answers, if ``ConnectTimeout`` says nothing."""
WHY = {"timeout": "Connection timed out", "refused": "Connection refused", "unreachable": "No route to host"}


class Stream:
    """A writer and reader that is a process' own descriptor."""

    def __init__(self, process: Process, fd: int) -> None:
        self._process, self._fd = process, fd

    async def read(self, count: int = CHUNK) -> bytes:
        """Return what the process reads."""
        return await self._process.fds[self._fd].read(count)

    async def write(self, data: bytes) -> None:
        """Write where the process writes."""
        if self._fd in self._process.fds:
            await self._process.fds[self._fd].write(data)


async def ssh(process: Process) -> int:
    """Run a command, or a shell, on another machine."""
    opts = await kit.options(process)
    if "V" in opts:
        await process.error(kit.told("ssh_version"))
        return 0
    if not opts.args:
        await process.error(kit.told("ssh_usage"))
        return FAILED
    if not user_of(process).strip("0123456789"):
        await process.error(f"No user exists for uid {process.view.uid}\r\n")
        return FAILED
    user, _, host = opts.args[0].removeprefix("ssh://").rpartition("@")
    said = _settings(process, host, opts)
    asked = opts.get("p", said.get("port", str(SSH_PORT)))
    port = int(asked) if asked.isascii() and asked.isdecimal() and len(asked) < 6 else 0
    if not 0 < port < 1 << 16:
        await process.error(f"Bad port '{asked}'\r\n")
        return FAILED
    try:
        server, address = await _knock(process, host, port, said)
    except NetworkError as error:
        await process.error(_unreached(error, host, port) + "\r\n")
        return FAILED
    if wrong := await _check_host_key(process, server, host, port, said):
        await process.error(wrong)
        return FAILED
    user = user or opts.get("l", said.get("user", user_of(process)))
    return await _session(process, server, (user, host, address), opts)


def _settings(process: Process, host: str, opts: kit.Options) -> dict[str, str]:
    """Return what -o, the user's and the system's ssh_config say of a host, by lower-case keyword."""
    rows = [word.replace("=", " ", 1) for word in opts.all("o")]
    home = home_of(process.view, user_of(process))
    for path in [opts.get("F")] if "F" in opts else [f"{home}/.ssh/config", "/etc/ssh/ssh_config"]:
        try:
            rows += ["host *", *process.view.read(path).decode("utf-8", "replace").splitlines()]
        except FileError:
            continue
    found: dict[str, str] = {}
    applies = True
    for row in rows:
        keyword, _, value = row.strip().partition(" ")
        if keyword.lower() == "host":
            applies = any(fnmatchcase(host, pattern) for pattern in value.split())
        elif keyword and not keyword.startswith("#") and applies:
            found.setdefault(keyword.lower(), value.strip())
    return found


async def _knock(process: Process, host: str, port: int, said: dict[str, str]) -> tuple[SshServer, str]:
    """Return the server of a host, tried as often as ``ConnectionAttempts`` says. Raises ``NetworkError``."""
    tries, wait = (said.get(name, default) for name, default in (("connectionattempts", "1"), ("connecttimeout", "")))
    for left in range(max(int(tries[:4]) if tries.isdecimal() else 1, 1) - 1, -1, -1):
        try:
            return await reach(process, host, port)
        except NetworkError as error:
            if error.kind == "timeout":
                await process.sleep(float(wait[:6]) if wait.isdecimal() else SYN_S)
            if not left or error.kind in UNKNOWN:
                raise
            await process.sleep(1.0)
    raise NetworkError("refused")


def _unreached(error: NetworkError, host: str, port: int) -> str:
    if error.kind in UNKNOWN:
        return f"ssh: Could not resolve hostname {host}: {UNKNOWN[error.kind]}"
    if error.kind == "reset":
        return "kex_exchange_identification: read: Connection reset by peer"
    return f"ssh: connect to host {host} port {port}: {WHY.get(error.kind, WHY['refused'])}"


async def _check_host_key(process: Process, server: SshServer, host: str, port: int, said: dict[str, str]) -> str:
    """Take a host's key, or return why not: there is nobody to ask."""
    checking = said.get("stricthostkeychecking", "ask").lower()
    digest = hashlib.sha256(f"host key of {server.daemon.machine.hostname}".encode()).digest()
    entry = f"{host if port == SSH_PORT else f'[{host}]:{port}'} ssh-ed25519 {b64encode(digest * 2).decode()[:68]}\n"
    path = said.get("userknownhostsfile", f"{home_of(process.view, user_of(process))}/.ssh/known_hosts").split()[0]
    try:
        if entry.encode() in process.view.read(path):
            return ""
    except FileError:
        pass
    if checking not in ("no", "off", "accept-new"):
        return "Host key verification failed.\r\n"
    if path != "/dev/null":
        try:
            await process.open(path, "a").write(entry.encode())
        except FileError as error:
            await process.error(f"Failed to add the host to the list of known hosts ({path}).\r\n" * bool(error))
    shown = entry.split(" ")[0]
    await process.error(f"Warning: Permanently added '{shown}' (ED25519) to the list of known hosts.\r\n")
    return ""


async def _session(process: Process, server: SshServer, at: tuple[str, str, str], opts: kit.Options) -> int:
    """Log in, and pass on what the session prints and how it ends."""
    user, host, address = at
    command, terminal = " ".join(opts.args[1:]), process.tty(0)
    remote = terminal if terminal is not None and ("t" in opts or not command) and "T" not in opts else None
    stdin = None if "n" in opts else Stream(process, 0)
    tty, size = remote is not None, remote.size if remote else (24, 80)
    stdio = Stdio(stdin, Stream(process, 1), Stream(process, 1 if tty else 2), tty=tty, size=size)
    port = MIN_PORT + crc32(f"{process.machine.hostname}/{process.pid}/{process.started}".encode()) % PORTS
    source, own = process.machine.address, keys(process, opts.all("i") or None)
    await process.sleep(HANDSHAKE_S)
    try:
        session = server.login(user, own, command, stdio, (f"{source} {port}", address))
    except Refused:
        await server.told(f"Connection closed by authenticating user {user} {source} port {port} [preauth]")
        await process.error(f"{user}@{host}: Permission denied (publickey,password).\r\n")
        return FAILED
    mark = b64encode(hashlib.sha256(b64decode(own[0].split()[1])).digest()).decode().rstrip("=")
    kind = own[0].split()[0].removeprefix("ssh-").partition("-")[0].upper()
    await server.told(f"Accepted publickey for {user} from {source} port {port} ssh2: {kind} SHA256:{mark}")
    if remote is not None:
        remote.mode(raw=True)
        remote.processed = False
    try:
        status = await session.wait()
        if server.daemon.status is not None:
            await process.error(f"Connection to {host} closed by remote host.\r\n")
            return FAILED
        await server.told(f"Received disconnect from {source} port {port}:11: disconnected by user")
        await server.told(f"Disconnected from user {user} {source} port {port}")
        return status
    finally:
        server.hang_up(session)
        if remote is not None:
            remote.mode(raw=False)
            remote.processed = True


async def sshd(process: Process) -> int:
    """Let in who has a key, until told to stop."""
    opts = await kit.options(process)
    if "V" in opts:
        await process.error(kit.told("ssh_version"))
        return 0
    if not process.argv[0].startswith("/"):
        await process.error("sshd re-exec requires execution with an absolute path\r\n")
        return 1
    try:
        port = _port(process, opts)
    except FileError as error:
        await process.error(f"{opts.get('f')}: {error.text}\r\n")
        return 1
    if "t" in opts:
        return 0
    if port in range(1, 1024) and process.view.uid:
        await process.error(
            f"Bind to port {port} on 0.0.0.0 failed: Permission denied.\r\nCannot bind any address.\r\n"
        )
        return FAILED
    if "D" in opts or "d" in opts:
        return await _serve(process, port, logging=bool(opts.any("de")))

    async def daemon(itself: Process) -> int:
        return await _serve(itself, port, logging=False)

    process.child(process.program).start(daemon)
    return 0


def _port(process: Process, opts: kit.Options) -> int:
    """Return the port to listen on. Raises ``FileError`` where the configuration file cannot be read."""
    path = opts.get("f", CONFIG if process.view.find(CONFIG) is not None else "")
    text = process.view.read(path).decode("utf-8", "replace") if path else ""
    rows = [*(word.replace("=", " ", 1) for word in opts.all("o")), *text.splitlines()]
    found = next((row.split()[1] for row in rows if row.lower().split()[:1] == ["port"] and len(row.split()) > 1), "")
    chosen = opts.get("p", found)
    return int(chosen) if chosen.isdecimal() and len(chosen) < 6 else SSH_PORT


async def _serve(process: Process, port: int, *, logging: bool) -> int:
    async def tell(text: str) -> None:
        if logging:
            await process.error(text + "\r\n")

    server, over = SshServer(process, tell), asyncio.Event()
    process.handlers |= dict.fromkeys(("TERM", "INT"), lambda name: over.set())
    network(process).listen(port, server)
    try:
        await tell(f"Server listening on 0.0.0.0 port {port}.")
        await tell(f"Server listening on :: port {port}.")
        await over.wait()
        await tell("Received signal 15; terminating.")
        return FAILED
    finally:
        network(process).close(port, server)


TOOLS: dict[str, Tool] = {"ssh": ssh, "sshd": sshd}
