"""Frames that are written to a WebSocket as they are, over real connections to uvicorn."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys

import pytest
import uvicorn
from websockets.asyncio.client import connect

from interview_site import processes
from interview_site.websocket_protocol import SharedFrameProtocol
from sessions import live
from sessions.shared_frames import WRITE_ENCODED, encode

LARGE = encode("x" * 4_000_000)


class Application:
    """Accepts a socket once it is told to, and keeps the way to write to it."""

    def __init__(self) -> None:
        self.may_accept, self.accepted, self.ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def __call__(self, scope, receive, send):
        self.write = scope["extensions"][WRITE_ENCODED]
        await receive()
        self.early = self.write(encode("early"))
        await self.may_accept.wait()
        await send({"type": "websocket.accept"})
        self.accepted.set()
        while (await receive())["type"] != "websocket.disconnect":
            await send({"type": "websocket.send", "text": "answer"})
        self.ended.set()


@pytest.fixture
async def application():
    return Application()


@pytest.fixture
async def url(application):
    options = {"lifespan": "off", "log_config": None, "ws_per_message_deflate": False}
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(application, ws=SharedFrameProtocol, **options))
        server.capture_signals = contextlib.nullcontext
        task = asyncio.create_task(server.serve(sockets=[listener]))
        while not server.started:
            await asyncio.sleep(0)
        yield f"ws://127.0.0.1:{listener.getsockname()[1]}/"
        server.should_exit = server.force_exit = True
        await task


async def test_an_encoded_frame_is_a_message_among_those_that_the_application_sends(application, url):
    application.may_accept.set()
    async with connect(url) as browser:
        await application.accepted.wait()
        assert application.write(encode("<p>é</p>"))
        await browser.send("question")
        assert application.write(encode("x" * 70_000))
        assert {await browser.recv(), await browser.recv(), await browser.recv()} == {
            "<p>é</p>",
            "answer",
            "x" * 70_000,
        }


async def test_nothing_is_written_before_the_handshake_nor_after_the_end(application, url):
    application.may_accept.set()
    async with connect(url):
        await application.accepted.wait()
        assert not application.early
    await application.ended.wait()
    assert not application.write(encode("late"))


async def test_a_browser_that_does_not_read_is_left_to_its_task(application, url):
    application.may_accept.set()
    async with connect(url, max_size=None, max_queue=1) as browser:
        await application.accepted.wait()
        for _ in range(100):
            if not application.write(LARGE):
                break
        else:
            pytest.fail("a browser that reads nothing was written 400 MB")
        browser.transport.abort()


def test_the_web_process_speaks_this_protocol_and_compresses_for_nobody_alone():
    web = next(command for command in processes.commands() if command.name == "web")
    options = dict(zip(web.argv, web.argv[1:], strict=False))
    assert options["--ws"] == f"{SharedFrameProtocol.__module__}:{SharedFrameProtocol.__name__}"
    assert options["--ws-per-message-deflate"] == "false"


def test_a_process_that_brings_frames_to_browsers_lets_its_threads_take_turns_promptly():
    """A computing thread would otherwise hold up every hop of a frame by 5 ms."""
    before = sys.getswitchinterval()
    try:
        live.switch_threads_promptly()
        assert sys.getswitchinterval() <= 0.001
    finally:
        sys.setswitchinterval(before)
