"""The process of the node agent: its arguments, its order of giving up privileges, its end."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

from faults.agent import gpus, kernel_log
from faults.agent.api import AgentApi
from faults.agent.clocks import NodeClock
from faults.agent.cuda_control import FAULTCTL, CudaControl
from faults.agent.http_server import HttpServer, Respond
from faults.agent.kernel_log import KernelLog
from faults.agent.node_faults import NodeFaults
from faults.agent.privileges import StillPrivileged, drop_privileges, prepare_file, prepare_folder
from faults.agent.refusals import Refusal
from faults.agent.state import StateFile

PORT = 8083
STATE = Path("/var/lib/node-agent")
BASE_PATH = re.compile(r"(/[A-Za-z0-9_-]+)?")
TICK_S = 1.0
"""Between two looks for faults that are over."""
log = logging.getLogger("node-agent")


def main(arguments: list[str] | None = None) -> int:
    """Serve until a signal says to stop. Faults stay as they are then, for the agent that comes next."""
    given = _parser().parse_args(arguments)
    logging.basicConfig(level="INFO", stream=sys.stdout, format='level=%(levelname)s msg="%(message)s"')
    clock = NodeClock()
    kernel = KernelLog(clock, given.kmsg, module=given.module)
    try:
        if os.geteuid() == 0:
            prepare_folder(given.state)
            if given.cuda_control:
                prepare_file(given.cuda_control)
            drop_privileges()
        cuda = CudaControl(given.cuda_control, given.faultctl) if given.cuda_control else None
        faults = NodeFaults(clock, kernel, StateFile(given.state), given.gpus, cuda)
    except (OSError, StillPrivileged) as error:
        log.error("%s", error)
        return 1
    if kernel.refusal:
        log.warning("%s", kernel.refusal)
    api = AgentApi(given.node, given.base_path, clock, faults)
    respond = _logged(api.respond) if given.log_requests else api.respond
    asyncio.run(_serve(respond, faults, given.listen, given.port))
    return 0


def run() -> None:
    """Begin the process: the entry of the file that the image has."""
    sys.exit(main())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="node-agent", allow_abbrev=False)
    parser.add_argument("--base-path", type=_base_path, default="", help="answer below this path alone")
    parser.add_argument("--state", type=Path, default=STATE, help="the folder of the node that outlives the agent")
    parser.add_argument("--kmsg", type=Path, default=kernel_log.DEVICE, help="the kernel log, or a file in its place")
    parser.add_argument("--module", type=Path, default=kernel_log.MODULE, help="the device of deploy/driver-log")
    parser.add_argument("--gpus", type=Path, default=gpus.FOLDER, help="the folder in which the driver lists GPUs")
    parser.add_argument("--cuda-control", type=Path, help="the control file of the CUDA fault library, on the node")
    parser.add_argument("--faultctl", type=Path, default=FAULTCTL, help="the program that writes it")
    parser.add_argument("--listen", default="0.0.0.0", help="address to listen on")  # noqa: S104 - in a pod
    parser.add_argument("--log-requests", action="store_true", help="tell of every change that is asked for")
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument("--node", default=os.uname().nodename, help="the name of the node")
    return parser


def _base_path(text: str) -> str:
    if not BASE_PATH.fullmatch(text):
        raise argparse.ArgumentTypeError("such as /k3f9 is expected")
    return text


def _logged(respond: Respond) -> Respond:
    """Return ``respond``, which tells of every POST and its outcome. The base path is a secret, and left out."""

    def answer(method: str, path: str, body: bytes, source: str) -> tuple[int, dict[str, Any]]:
        route = path.rpartition("/")[2] if path.count("/") > 1 and path.isprintable() else "?"
        try:
            status, document = respond(method, path, body, source)
        except Refusal as refusal:
            log.info("%s %s %s: %s", method, route, refusal.status, refusal)
            raise
        if method == "POST":
            log.info("POST %s %s: %s", route, status, json.dumps(document))
        return status, document

    return answer


async def _serve(respond: Respond, faults: NodeFaults, address: str, port: int) -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    server = await HttpServer(respond).start(address, port)
    bound = server.sockets[0].getsockname()
    log.info("listening addr=%s:%s", *bound[:2])
    watch, stop = asyncio.create_task(_watch_deadlines(faults)), asyncio.create_task(stopped.wait())
    await asyncio.wait((watch, stop), return_when=asyncio.FIRST_COMPLETED)
    server.close()
    if watch.done():
        watch.result()  # raises: an agent that watches no deadline is not to serve
    watch.cancel()


async def _watch_deadlines(faults: NodeFaults) -> None:
    """End faults in time, though nobody asks any more."""
    while True:
        faults.expire()
        await asyncio.sleep(TICK_S)


if __name__ == "__main__":
    run()
