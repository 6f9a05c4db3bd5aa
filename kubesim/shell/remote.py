"""Processes on other machines of the cluster, started as ssh starts them: through the network, by the sshd there.

A program that starts the processes of a job on other pods needs two calls::

    server = await reach(process, "worker-1.train", 22)     # names, services, policies decide; raises NetworkError
    session = server.login(user, key, "hostname", Stdio(None, out, err), source)   # raises Refused
    status = await session.wait()                           # of the command; session.signal("KILL") ends it

``python train.py`` started so is a process of that machine: it sees that container's files, devices and limits, and
the environment of a login (sshd's, not the container's), as it does there. Processes that must find each other
afterwards connect to a port of one of them: ``find`` returns the very object that ``listen`` has put there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from kubesim.shell.errors import FileError, NetworkError
from kubesim.shell.handles import Stdio
from kubesim.shell.machine import Process
from kubesim.shell.programs import Program
from kubesim.shell.sockets import network, resolve
from kubesim.shell.terminal import Terminal
from kubesim.shell.tools.users import home_of, name_of, number_of

BANNER = b"SSH-2.0-OpenSSH_9.6p1 Ubuntu-3ubuntu13.5\r\n"
LOGIN_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/games:/usr/local/games:/snap/bin"
KEY_NAMES = ("id_rsa", "id_ecdsa", "id_ed25519")


class Refused(Exception):
    """The server does not let this user in with these keys."""


class Peer:
    """A server on a port of a container that speaks a protocol of its own; a stranger's connection is closed."""

    async def respond(self, request: Any) -> Any:
        """Refuse HTTP."""
        raise NetworkError("reset")

    async def converse(self, connection: Any, source: str) -> None:
        """Hang up at the first word."""
        await connection.read(1)


class SshServer(Peer):
    """The sshd of one container. ``told`` takes the lines of its log."""

    def __init__(self, daemon: Process, told: Callable[[str], Awaitable[None]]) -> None:
        self.daemon = daemon
        self.told = told

    async def converse(self, connection: Any, source: str) -> None:
        """Say who it is, and hang up on who speaks no SSH."""
        await connection.write(BANNER)
        await connection.read(1)

    def login(self, user: str, keys: list[str], command: str, stdio: Stdio, ends: tuple[str, str]) -> Process:
        """Start the session of a user who has one of these public keys; without a command a login shell.

        ``ends`` are the client's address with its port, and the server's address. Raises ``Refused``.
        """
        machine, view = self.daemon.machine, self.daemon.view
        uid = number_of(view, user)
        if uid is None or not _known(self.daemon, user, keys) or (machine.uid and uid != machine.uid):
            raise Refused
        terminal = Terminal(stdio) if stdio.tty else None
        argv = (f"sshd: {user}@{'pts/0' if terminal else 'notty'}",)
        session = self.daemon.child(Program("", "", argv[0], argv), fds=stdio.handles(terminal))
        session.group, session.handlers = session.pid, {}
        session.view.uid, session.view.cwd = uid, home_of(view, user)
        if view.find(session.view.cwd) is None:
            session.view.cwd = "/"
        client, server = ends
        env = {
            "USER": user,
            "LOGNAME": user,
            "HOME": session.view.cwd,
            "PATH": LOGIN_PATH,
            "SHELL": _shell(self.daemon),
            "SSH_CLIENT": f"{client} 22",
            "SSH_CONNECTION": f"{client} {server} 22",
        }
        if terminal:
            env |= {"SSH_TTY": "/dev/pts/0", "TERM": "xterm"}
            session.terminal = terminal
            terminal.attach(machine, session)
        words = [env["SHELL"], "-c", command] if command else [env["SHELL"], "-l"]

        async def serve(itself: Process) -> int:
            return await itself.run(words, env=env).wait()

        return session.start(serve)

    def hang_up(self, session: Process) -> None:
        """End what is left of a session."""
        for member in [*self.daemon.machine.processes.values()]:
            if member.group == session.pid:
                member.signal("KILL")


async def reach(process: Process, host: str, port: int) -> tuple[SshServer, str]:
    """Return the sshd that listens at a host's port, with the host's address. Raises ``NetworkError``."""
    address = (await resolve(process, host))[0]
    found = await network(process).find(address, port)
    if not isinstance(found, SshServer):
        raise NetworkError("reset")
    return found, address


def keys(process: Process, paths: list[str] | None = None) -> list[str]:
    """Return the public keys, without comment, of a user's private ones."""
    folder = f"{home_of(process.view, user_of(process))}/.ssh"
    found = [_public(process, path) for path in paths or [f"{folder}/{name}" for name in KEY_NAMES]]
    return [key for key in found if key]


def user_of(process: Process) -> str:
    """Return the name of a process' user."""
    return name_of(process.view, process.view.uid)


def _public(process: Process, path: str) -> str:
    try:
        text = process.view.read(path)
        private = serialization.load_ssh_private_key(text, None) if b"OPENSSH" in text else _pem(text)
        form = (serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
        return str(private.public_key().public_bytes(*form).decode())
    except (FileError, ValueError, UnsupportedAlgorithm, TypeError):
        return ""


def _pem(text: bytes) -> Any:
    return serialization.load_pem_private_key(text, None)


def _known(daemon: Process, user: str, keys: list[str]) -> bool:
    try:
        text = daemon.view.read(f"{home_of(daemon.view, user)}/.ssh/authorized_keys").decode("utf-8", "replace")
    except FileError:
        return False
    return any(" ".join(row.split()[:2]) in keys for row in text.splitlines())


def _shell(daemon: Process) -> str:
    return next((path for path in ("/bin/bash", "/bin/sh") if daemon.view.find(path) is not None), "/bin/sh")
