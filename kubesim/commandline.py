"""The command line: ``python -m kubesim serve``, ``host`` and ``nodes``."""

from __future__ import annotations

import argparse
import asyncio
import logging
import re
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from importlib import import_module
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import TypeAlias

from kubesim import clusterfile, listener
from kubesim.changelog import ChangeLogError
from kubesim.clock import Clock
from kubesim.cluster import PARTS, ClusterSpec
from kubesim.gpu.nodes import PRODUCTS
from kubesim.hosting import run_host
from kubesim.kubeconfig import KubeconfigError
from kubesim.located import FileError
from kubesim.manual import Manual
from kubesim.outside import LOOPBACK, Network
from kubesim.pki import PkiError
from kubesim.pools import MAX_GPUS, MAX_NODES, PROFILES, Pool
from kubesim.serve import Address, ServeError, run_single

REFUSALS = (ServeError, PkiError, ChangeLogError, KubeconfigError, FileError)
Commands: TypeAlias = "argparse._SubParsersAction[Manual]"


def parser() -> Manual:
    """Return the command line's grammar."""
    main = Manual(prog="python -m kubesim", page="kubesim")
    commands = main.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=Manual)
    _add_serve(commands)
    _add_host(commands)
    _add_nodes(commands)
    _add_recordings(commands)
    return main


def _add_serve(commands: Commands) -> None:
    """Add the command ``serve``."""
    serve = commands.add_parser("serve", page="serve")
    add = serve.add_argument
    add("--kubeconfig", type=Path, required=True, metavar="FILE", help="file for the administrator's kubeconfig")
    name = _word(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,61}[A-Za-z0-9])?", "up to 63 letters, digits, dots and hyphens")
    add("--name", type=name, default="ml-prod", help="the cluster's name (default: %(default)s)")
    add("--nodes", type=_count(MAX_NODES), metavar="N", help="number of nodes (default: 3)")
    add("--gpus", type=_count(MAX_GPUS), metavar="N", help="GPUs of every node (default: 8)")
    add("--product", choices=sorted(PRODUCTS), help="GPU product (default: H100)")
    add("--cluster-file", type=Path, metavar="YAML", help="nodes, namespaces and manifests of a fresh cluster")
    add(
        "--addon",
        choices=clusterfile.known_addons(),
        action="append",
        default=[],
        metavar="NAME",
        help=f"what a fresh cluster brings, once for each of: {', '.join(clusterfile.known_addons())}",
    )
    _add_address(serve)
    add("--data", type=Path, metavar="DIR", help="folder to keep the cluster in (default: nothing is kept)")
    add("--history", action="store_true", help="keep also all that the cluster was, for replay and fork")
    add(
        "--kubelets",
        type=_networks,
        default=LOOPBACK,
        metavar="NETWORK,...",
        help="networks in which nodes that join may be; none: nowhere (default: this machine's loopback)",
    )
    add("--speed", type=_speed, default=1.0, metavar="FACTOR", help="how fast its time passes (default: 1)")
    add(
        "--without",
        type=_parts,
        default=frozenset(),
        metavar="PART,...",
        help=f"parts to leave out, because other programs run in their place: {', '.join(PARTS)} (default: none)",
    )


def _add_host(commands: Commands) -> None:
    """Add the command ``host``."""
    host = commands.add_parser("host", page="host")
    _add_address(host)
    folder = "folder for the authority, the control token and all clusters"
    host.add_argument("--data", type=Path, required=True, metavar="DIR", help=folder)
    host.add_argument("--history", action="store_true", help="keep of new clusters also all that they were")


def _add_nodes(commands: Commands) -> None:
    """Add the command ``nodes``."""
    nodes = commands.add_parser("nodes", page="nodes")
    way = nodes.add_mutually_exclusive_group(required=True)
    way.add_argument("--kubeconfig", type=Path, metavar="FILE", help="kubeconfig of the cluster to join")
    way.add_argument("--in-cluster", action="store_true", help="join the cluster of the pod that this runs in")
    add = nodes.add_argument
    word = _word(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?", "up to 32 lower-case letters, digits and inner hyphens")
    add("--context", default="", metavar="NAME", help="context of the kubeconfig (default: its current one)")
    add(
        "--group",
        type=word,
        default="simulated",
        metavar="NAME",
        help="what the nodes belong to (default: %(default)s)",
    )
    add("--nodes", type=_count(MAX_NODES), default=3, metavar="N", help="number of nodes (default: %(default)s)")
    add("--gpus", type=_count(MAX_GPUS), default=8, metavar="N", help="GPUs of every node (default: %(default)s)")
    add("--product", choices=sorted(PRODUCTS), default="H100", help="GPU product (default: %(default)s)")
    add("--profile", choices=PROFILES, default="gke", help="whose nodes they look like (default: %(default)s)")
    add("--name", type=word, metavar="NAME", help="first part of their names (default: the profile's)")
    add("--untainted", action="store_true", help="let every pod come, not only those that tolerate the taint")
    address = "address at which the API server reaches the kubelets (default: ours on the way to it)"
    add("--address", type=_host, default="", metavar="ADDRESS", help=address)
    add("--bind", default="", metavar="ADDRESS", help="address to listen on (default: that of --address)")
    add(
        "--port",
        type=_count(65535),
        default=0,
        metavar="N",
        help="port of the first node, the others following (default: free ones)",
    )
    add("--remove", action="store_true", help="remove what a killed run of the group has left, and end")


def _add_recordings(commands: Commands) -> None:
    """Add the commands ``history``, ``replay`` and ``fork``."""
    history, replay, fork = (commands.add_parser(name, page=name) for name in ("history", "replay", "fork"))
    data = "folder that serve has kept the cluster in"
    moment = "a moment, such as 2026-01-31T12:00:00Z (default: the last one)"
    for command in (history, replay, fork):
        command.add_argument("--data", type=Path, required=True, metavar="DIR", help=data)
    for command in (replay, fork):
        command.add_argument("--at", type=_moment, metavar="TIME", help=moment)
    history.add_argument("--each", action="store_true", help="list every moment with what has changed")
    file = "file for the administrator's kubeconfig"
    replay.add_argument("--kubeconfig", type=Path, required=True, metavar="FILE", help=file)
    _add_address(replay)
    fork.add_argument("--to", type=Path, required=True, metavar="DIR", help="new folder for the fork")


def _moment(text: str) -> datetime:
    """Return a moment; without a zone it is UTC."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"give a time such as 2026-01-31T12:00:00Z, not {text!r}") from error
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _networks(text: str) -> tuple[Network, ...]:
    """Return the networks of a list, such as 10.0.0.0/8,fd00::/8; none for the word."""
    try:
        return tuple(ip_network(part.strip()) for part in text.split(",")) if text != "none" else ()
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"give networks such as 10.0.0.0/8,127.0.0.0/8, or none: {error}") from error


def _speed(text: str) -> float:
    """Return a factor from 0.01 to 3600."""
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0.01 <= found <= 3600:
        raise argparse.ArgumentTypeError(f"give a number from 0.01 to 3600, not {text!r}")
    return found


def _add_address(command: argparse.ArgumentParser) -> None:
    """Add the options that say where a server is reached."""
    add = command.add_argument
    add("--bind", default="127.0.0.1", metavar="ADDRESS", help="address to listen on (default: %(default)s)")
    add("--port", type=_count(65535), default=0, metavar="N", help="port to listen on (default: a free one)")
    public = "name or address clients use (default: that of --bind)"
    add("--public-host", type=_host, default="", metavar="HOST", help=public)


def _count(most: int) -> Callable[[str], int]:
    """Return a converter for whole numbers from 0 to ``most``."""

    def convert(text: str) -> int:
        if not text.isdecimal() or int(text) > most:
            raise argparse.ArgumentTypeError(f"give a whole number from 0 to {most}, not {text!r}")
        return int(text)

    return convert


def _parts(text: str) -> frozenset[str]:
    """Return the named parts of the control plane."""
    named = frozenset(text.split(",")) - {""}
    if unknown := sorted(named - set(PARTS)):
        raise argparse.ArgumentTypeError(f"give some of {', '.join(PARTS)}, not {', '.join(unknown)}")
    return named


def _word(pattern: str, wanted: str) -> Callable[[str], str]:
    """Return a converter for texts of a pattern; ``wanted`` says it in words."""

    def convert(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise argparse.ArgumentTypeError(f"give {wanted}, not {text!r}")
        return text

    return convert


def _host(text: str) -> str:
    """Return a bare host name or an IP address, or nothing."""
    if not text:
        return ""
    if ":" in text:
        with suppress(ValueError):
            return str(ip_address(text))
    elif re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?", text):
        return text
    raise argparse.ArgumentTypeError(f"give a bare host name or address, without https:// or a port, not {text!r}")


def main(arguments: list[str] | None = None) -> int:
    """Run a command; returns the exit status: 0 after a signal, 1 when it could not start."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    given = parser().parse_args(arguments)
    listener.raise_limit()
    try:
        if given.command == "host":
            return run_host(Address(given.bind, given.port, given.public_host), given.data, history=given.history)
        asyncio.run(_command(given))
    except REFUSALS as error:
        print(f"kubesim: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        if error.filename is None:
            raise
        print(f"kubesim: {error.filename}: {error.strerror}; choose a path that you may write to", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0
    return 0


async def _command(given: argparse.Namespace) -> None:
    """Run the command that was given, until a signal ends it."""
    if given.command == "nodes":
        await _nodes(given)
        return
    if given.command in ("history", "fork"):
        _look_back(given)
        return
    address = Address(given.bind, given.port, given.public_host)
    if given.command == "replay":
        recordings = import_module("kubesim.recordings")
        await recordings.run_recording(given.data, given.at, address, given.kubeconfig)
        return
    content = clusterfile.read(given.cluster_file) if given.cluster_file else None
    if content and content.pools is not None and {given.nodes, given.gpus, given.product} != {None}:
        raise ServeError(f"{given.cluster_file} says what nodes there are; leave out --nodes, --gpus and --product")
    content = clusterfile.with_addons(given.addon, content)
    if given.history and not given.data:
        raise ServeError("a history needs a folder; name one with --data")
    await run_single(
        lambda clock: _spec(given, clock),
        address,
        given.kubeconfig,
        given.data,
        content,
        speed=given.speed,
        history=given.history,
        kubelets=given.kubelets,
    )


def _look_back(given: argparse.Namespace) -> None:
    """Run ``history`` or ``fork``."""
    recordings = import_module("kubesim.recordings")  # read when wanted: the others start sooner
    if given.command == "fork":
        recordings.fork(given.data, given.at, given.to)
        return
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # whoever reads the list may stop early
    for line in recordings.report(given.data, each=given.each):
        print(line)


async def _nodes(given: argparse.Namespace) -> None:
    """Join a cluster, or remove what has joined it."""
    command = import_module("kubesim.nodes.command")  # read when wanted: the others start sooner
    pool = Pool(given.nodes, given.gpus, given.product, given.profile, given.name or "")
    options = command.Options(
        given.group, pool, given.kubeconfig, given.context, not given.untainted, given.address, given.bind, given.port
    )
    await (command.leave if given.remove else command.run)(options)


def _spec(given: argparse.Namespace, clock: Clock) -> ClusterSpec:
    """Return the cluster that the command line describes."""
    asked = {name: getattr(given, name) for name in ("nodes", "gpus", "product") if getattr(given, name) is not None}
    return ClusterSpec(given.name, clock.now(), without=given.without, **asked)
