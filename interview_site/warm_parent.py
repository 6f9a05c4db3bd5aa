"""The site's processes, forked from one parent that has imported all of Django and our code.

Each of them shares the parent's memory until it changes a page of it, and begins to work at once. The parent does
nothing else: it has one thread, no connection, and ends with its supervisor; its children end with it. Linux only:
the frameworks of macOS do not survive a fork, so there every process starts by itself.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import sys
import threading
import warnings
from contextlib import suppress
from functools import partial
from selectors import EVENT_READ, DefaultSelector
from typing import NoReturn

from django.core.management import get_commands
from django.db import connections
from django.template.loader import get_template

from interview_site import env

MAX_REQUEST = 1 << 16
PR_SET_PDEATHSIG = 1
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
LARGE_BYTES = 64 * 1024
# What the processes import first of all. Importing must open nothing and start no thread.
MODULES = (
    "interview_site.asgi",
    "interview_site.http_protocol",
    "interview_site.websocket_protocol",
    "interview_site.urls",
    "interview_site.readiness",
    "interview_site.worker",
    "sessions.observer.loop",
    "sessions.jobs",
    "faults.jobs",
    "kubernetes.client",  # which faults.kube reads only once a cluster is spoken to
    "uvicorn.main",
    "uvicorn.loops.uvloop",
    "uvicorn.protocols.http.httptools_impl",
    "django.core.management.commands.check",
    "interview_site.management.commands.announce",
    "interview_site.management.commands.work",
    "sessions.management.commands.observe",
)
TEMPLATES = ("base.html", "sessions/live.html", "sessions/list.html", "candidate/live.html")


def is_supported() -> bool:
    """Return whether processes may be forked on this system."""
    return sys.platform.startswith("linux")


def serve(channel: socket.socket) -> None:
    """Fork a process for every request until the supervisor closes the channel. Returns in no process but this one.

    A request is a JSON object with ``argv``, and the descriptor that becomes standard output and error. The answers
    are ``{"pid"}`` for each request, and ``{"pid", "returncode"}`` for each child that has ended.
    """
    os.setsid()  # Ctrl-C is the supervisor's business
    end_with_parent()
    wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    _give_memory_back()
    _import_everything()
    selector = DefaultSelector()
    selector.register(channel, EVENT_READ)
    selector.register(wake_read, EVENT_READ)
    while True:
        ready = {key.fd for key, _ in selector.select()}
        if wake_read in ready:
            with suppress(BlockingIOError):
                os.read(wake_read, MAX_REQUEST)
            _report_ended(channel)
        if channel.fileno() in ready:
            request, descriptors, _, _ = socket.recv_fds(channel, MAX_REQUEST, 1)
            if not request:
                return
            argv = json.loads(request)["argv"]
            if (pid := os.fork()) == 0:
                selector.close()
                os.close(wake_read)
                os.close(wake_write)
                channel.close()
                _become(argv, descriptors[0])
            os.close(descriptors[0])
            channel.send(json.dumps({"pid": pid}).encode())


def end_with_parent() -> None:
    """Let Linux end this process when the one that made it has died."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM))


def _give_memory_back() -> None:
    """Have glibc return large pieces at once, and all threads share one arena: a process keeps what it once used."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for option, value in ((M_TRIM_THRESHOLD, LARGE_BYTES), (M_MMAP_THRESHOLD, LARGE_BYTES), (M_ARENA_MAX, 1)):
            mallopt(option, value)


def _import_everything() -> None:
    for module in MODULES:
        importlib.import_module(module)
    get_commands()  # a search of every application, which each process would do anew
    for name in TEMPLATES:
        get_template(name)
    connections.close_all()
    if (count := threading.active_count()) != 1:
        raise RuntimeError(f"{count} threads run after the imports; a process with threads must not be forked")
    gc.collect()
    gc.freeze()  # else the collector would write into every object, and so copy every page


def _report_ended(channel: socket.socket) -> None:
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            ended = {"pid": pid, "returncode": os.waitstatus_to_exitcode(status)}
            with suppress(OSError):  # the supervisor has gone; so will this process
                channel.send(json.dumps(ended).encode())


def _become(argv: list[str], output: int) -> NoReturn:
    """Turn a fresh fork into the process of a command line: ``python [-W ignore] SCRIPT|-m MODULE ARGUMENTS``."""
    parent = os.getppid()
    os.setsid()
    end_with_parent()
    if os.getppid() != parent:
        os._exit(1)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _connect_standard_streams(output)
    set_title(argv)
    warnings.simplefilter("ignore")
    rest = argv[3:] if argv[1:3] == ["-W", "ignore"] else argv[1:]
    is_module = rest[0] == "-m"
    name, sys.argv = (rest[1], rest[1:]) if is_module else (rest[0], rest)
    run = partial(runpy.run_module, alter_sys=True) if is_module else runpy.run_path
    run(name, run_name="__main__")
    raise SystemExit(0)


def _connect_standard_streams(output: int) -> None:
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(nowhere)
    os.close(output)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]


def set_title(argv: list[str]) -> None:
    """Show a command line in place of the parent's in lists of processes.

    Linux keeps the arguments of a process right in front of its environment, and reads on into it where the last byte
    of the arguments is not zero. libc's pointers into that environment are renewed before it is overwritten.
    """
    with open("/proc/self/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    start, end, environment_end = int(fields[45]), int(fields[46]), int(fields[48])
    env.copy_for_c()
    room = environment_end - start
    text = " ".join(argv).encode()[: room - 1]
    if len(text) < end - start:
        text = text.ljust(end - start - 1)
    ctypes.memmove(start, text.ljust(room, b"\0"), room)
