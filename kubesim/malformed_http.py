"""How servers answer what is no HTTP: as Go's net/http does, without a word in the log.

Source: https://go.dev/src/net/http/server.go, (*conn).serve.
"""

from __future__ import annotations

from http import HTTPStatus

from aiohttp import hdrs, web
from aiohttp.http_exceptions import BadStatusLine, HttpProcessingError, LineTooLong
from aiohttp.http_writer import HttpVersion11
from aiohttp.web_protocol import RequestHandler
from aiohttp.web_request import BaseRequest

TOLD_BY_AIOHTTP = (hdrs.SERVER, hdrs.DATE, hdrs.CONTENT_LENGTH)


def _words(error: HttpProcessingError) -> tuple[int, str]:
    """Return status and text for what was wrong."""
    if isinstance(error, LineTooLong):
        return 431, ""
    if isinstance(error, BadStatusLine) and "Invalid HTTP version" in str(error):
        return 505, ": unsupported protocol version"
    return 400, ""


class _Refusal(web.Response):
    """An answer with Go's few headers, after which the connection is closed."""

    def __init__(self, error: HttpProcessingError) -> None:
        status, more = _words(error)
        phrase = {505: "HTTP Version Not Supported"}.get(status, HTTPStatus(status).phrase)
        super().__init__(status=status, reason=f"{phrase}{more}", text=f"{status} {phrase}{more}")
        self.force_close()

    async def _prepare_headers(self) -> None:
        await super()._prepare_headers()
        for name in TOLD_BY_AIOHTTP:
            self.headers.pop(name, None)
        self.headers[hdrs.CONNECTION] = "close"


class Handler(RequestHandler):
    """One connection."""

    def handle_error(
        self, request: BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """Answer what could not be understood; anything else is our mistake, and is logged."""
        if isinstance(exc, HttpProcessingError) and request.writer.output_size == 0:
            request._version = HttpVersion11
            return _Refusal(exc)
        return super().handle_error(request, status, exc, message)


class _Server(web.Server):
    """Makes the connections."""

    def __init__(self, like: web.Server, handler: type[Handler]) -> None:
        self._handler = handler
        super().__init__(
            like.request_handler,
            request_factory=like.request_factory,
            handler_cancellation=like.handler_cancellation,
            loop=like._loop,
            **like._kwargs,
        )

    def __call__(self) -> RequestHandler:
        """Return what serves a new connection."""
        return self._handler(self, loop=self._loop, **self._kwargs)


class Runner(web.AppRunner):
    """Runs an application for clients that know Go's servers."""

    handler = Handler

    async def _make_server(self) -> web.Server:
        return _Server(await super()._make_server(), self.handler)
