"""The command line: ``python -m kubesim serve`` and ``python -m kubesim host``."""

from __future__ import annotations

import argparse
import asyncio
import logging
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path

from kubesim.changelog import ChangeLogError
from kubesim.clock import Clock
from kubesim.cluster import PARTS, ClusterSpec
from kubesim.gpu.nodes import PRODUCTS
from kubesim.pki import PkiError
from kubesim.serve import Address, ServeError, run_host, run_single

DESCRIPTION = """\
A Kubernetes cluster with GPU nodes in one process: no Docker, no GPU, no root.
Stock kubectl, the official clients and client-go programs work against it.
"""
EXAMPLES = """\
examples:
  python -m kubesim serve --kubeconfig ./kubeconfig
      one cluster of three nodes with eight GPUs each on a free port of this machine;
      the administrator's kubeconfig is written when it answers. Ctrl-C ends it.
  python -m kubesim serve --kubeconfig ./kubeconfig --port 6443 --nodes 10 --gpus 4 --data ./state
      the same, larger, on a fixed port, and kept in ./state over restarts.
  python -m kubesim host --port 8443 --data ./clusters
      many clusters, each under https://HOST:8443/clusters/NAME, made and dropped with
      POST and DELETE on /control/clusters (bearer token in ./clusters/control-token).
"""


def parser() -> argparse.ArgumentParser:
    """Return the command line's grammar."""
    main = argparse.ArgumentParser(
        prog="python -m kubesim",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = main.add_subparsers(dest="command", required=True, metavar="COMMAND")
    serve = commands.add_parser("serve", help="run one cluster in the foreground", description="Run one cluster.")
    serve.add_argument("--kubeconfig", type=Path, required=True, help="file for the administrator's kubeconfig")
    serve.add_argument("--name", type=_name, default="ml-prod", help="the cluster's name (default: %(default)s)")
    serve.add_argument("--nodes", type=_count(1000), default=3, help="number of nodes (default: %(default)s)")
    serve.add_argument("--gpus", type=_count(16), default=8, help="GPUs of every node (default: %(default)s)")
    serve.add_argument(
        "--product", choices=sorted(PRODUCTS), default="H100", help="GPU product (default: %(default)s)"
    )
    serve.add_argument(
        "--without",
        type=_parts,
        default=frozenset(),
        metavar="PART,...",
        help=f"parts to leave out, because other programs run in their place: {', '.join(PARTS)} (default: none)",
    )
    serve.add_argument("--data", type=Path, help="folder to keep the cluster in (default: nothing is kept)")
    host = commands.add_parser("host", help="run many clusters and a control API", description="Run many clusters.")
    host.add_argument(
        "--data", type=Path, required=True, help="folder for the CA, the control token and all clusters"
    )
    for command in (serve, host):
        command.add_argument("--bind", default="127.0.0.1", help="address to listen on (default: %(default)s)")
        command.add_argument("--port", type=_count(65535), default=0, help="port (default: a free one)")
        command.add_argument(
            "--public-host", type=_host, default="", help="name or address clients use (default: that of --bind)"
        )
    return main


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


def _name(text: str) -> str:
    """Return a cluster's name: letters, digits, dots and hyphens."""
    if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,61}[A-Za-z0-9])?", text):
        raise argparse.ArgumentTypeError(f"give up to 63 letters, digits, dots and hyphens, not {text!r}")
    return text


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
    """Run a command; returns the exit status: 0 after SIGTERM or Ctrl-C, 1 when it could not start."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    given = parser().parse_args(arguments)
    address = Address(given.bind, given.port, given.public_host)
    try:
        if given.command == "host":
            asyncio.run(run_host(address, given.data))
        else:
            asyncio.run(run_single(lambda clock: _spec(given, clock), address, given.data, given.kubeconfig))
    except (ServeError, PkiError, ChangeLogError) as error:
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


def _spec(given: argparse.Namespace, clock: Clock) -> ClusterSpec:
    """Return the cluster that the command line describes."""
    return ClusterSpec(given.name, clock.now(), given.nodes, given.gpus, given.product, without=given.without)


if __name__ == "__main__":
    sys.exit(main())
