"""The command line: ``python -m kubesim serve``, ``host`` and ``nodes``."""

from __future__ import annotations

import argparse
import asyncio
import logging
import re
import sys
import textwrap
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import import_module
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from kubesim import clusterfile, data, listener
from kubesim.changelog import ChangeLogError
from kubesim.clock import Clock
from kubesim.cluster import PARTS, ClusterSpec
from kubesim.errors import Obj
from kubesim.gpu.nodes import PRODUCTS
from kubesim.hosting import run_host
from kubesim.kubeconfig import KubeconfigError
from kubesim.located import FileError
from kubesim.pki import PkiError
from kubesim.pools import MAX_GPUS, MAX_NODES, PROFILES, Pool
from kubesim.serve import Address, ServeError, run_single

WIDTH, INDENT = 80, 7
REFUSALS = (ServeError, PkiError, ChangeLogError, KubeconfigError, FileError)


class Manual(argparse.ArgumentParser):
    """A parser whose help is a page of the manual: what argparse knows, and the ``page`` of ``manual.yaml``."""

    def __init__(self, *, page: str, **more: Any) -> None:
        formatter = partial(argparse.HelpFormatter, width=WIDTH - INDENT, max_help_position=24)
        super().__init__(formatter_class=formatter, allow_abbrev=False, **more)
        self._page = page

    def format_help(self) -> str:
        """Return the page."""
        options = self._get_formatter()
        options.add_arguments(action for action in self._actions if action.option_strings)
        texts: dict[str, str] = data.table(__file__, "manual.yaml")[self._page]
        sections = {
            "NAME": f"{self.prog} - {texts.pop('PURPOSE')}",
            "SYNOPSIS": self.format_usage().removeprefix("usage: "),
            "DESCRIPTION": texts.pop("DESCRIPTION"),
            "OPTIONS": options.format_help(),
            **texts,
        }
        return "\n".join(
            f"{title}\n{textwrap.indent(text.rstrip(), ' ' * INDENT)}\n" for title, text in sections.items()
        )


def parser() -> Manual:
    """Return the command line's grammar."""
    main = Manual(prog="python -m kubesim", page="kubesim")
    commands = main.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=Manual)
    for name, groups in data.table(__file__, "options.yaml").items():
        command = commands.add_parser(name, page=name)
        for options in groups:
            if "exclusive" in options:
                _add(command.add_mutually_exclusive_group(required=True), options["exclusive"])
            else:
                _add(command, options)
    return main


def _add(group: argparse._ActionsContainer, options: dict[str, Obj]) -> None:
    """Add options as ``options.yaml`` describes them."""
    choices = {"products": sorted(PRODUCTS), "profiles": PROFILES, "addons": clusterfile.known_addons()}
    listed = {"addons": ", ".join(choices["addons"]), "parts": ", ".join(PARTS)}
    for option, given in options.items():
        more = {"help": given["help"].format(**listed)}
        more |= {"type": TYPES[given["type"]]} if "type" in given else {}
        more |= {"choices": choices[given["choices"]]} if "choices" in given else {}
        group.add_argument(option, **{**given, **more})


def _speed(text: str) -> float:
    """Return a factor from 0.01 to 3600."""
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0.01 <= found <= 3600:
        raise argparse.ArgumentTypeError(f"give a number from 0.01 to 3600, not {text!r}")
    return found


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


TYPES: dict[str, Callable[[str], Any]] = {
    "path": Path,
    "cluster": _word(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,61}[A-Za-z0-9])?", "up to 63 letters, digits, dots and hyphens"),
    "word": _word(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?", "up to 32 lower-case letters, digits and inner hyphens"),
    "nodes": _count(MAX_NODES),
    "gpus": _count(MAX_GPUS),
    "port": _count(65535),
    "host": _host,
    "parts": _parts,
    "speed": _speed,
}


def main(arguments: list[str] | None = None) -> int:
    """Run a command; returns the exit status: 0 after a signal, 1 when it could not start."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    given = parser().parse_args(arguments)
    listener.raise_limit()
    try:
        if given.command == "host":
            return run_host(Address(given.bind, given.port, given.public_host), given.data, guide=given.guide)
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
    content = clusterfile.read(given.cluster_file) if given.cluster_file else None
    if content and content.pools is not None and {given.nodes, given.gpus, given.product} != {None}:
        raise ServeError(f"{given.cluster_file} says what nodes there are; leave out --nodes, --gpus and --product")
    content = clusterfile.with_addons(given.addon, content)
    await run_single(
        lambda clock: _spec(given, clock),
        Address(given.bind, given.port, given.public_host),
        given.kubeconfig,
        given.data,
        content,
        speed=given.speed,
    )


async def _nodes(given: argparse.Namespace) -> None:
    """Join a cluster, or remove what has joined it."""
    command = import_module("kubesim.nodes.command")  # read when wanted: the others start sooner
    plain = Pool(given.nodes, given.gpus, given.product, given.profile, given.name or "")
    file = clusterfile.read(given.cluster_file) if given.cluster_file else clusterfile.ClusterFile(Path(), (plain,))
    if not file.pools or file.objects or file.images:
        raise ServeError(f"{file.path} may have nodes and present, and nothing else: the cluster is there already")
    options = command.Options(
        given.group, file.pools, given.kubeconfig, given.context, not given.untainted, given.address, given.bind,
        given.port, file.present, given.guide,
    )  # fmt: skip
    await (command.leave if given.remove else command.run)(options)


def _spec(given: argparse.Namespace, clock: Clock) -> ClusterSpec:
    """Return the cluster that the command line describes."""
    asked = {name: getattr(given, name) for name in ("nodes", "gpus", "product") if getattr(given, name) is not None}
    return ClusterSpec(given.name, clock.now(), without=given.without, **asked)
