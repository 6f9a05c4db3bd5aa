"""The fault injection API of the user guide (port 8080): its pod passes requests on to the program that answers them.

That program runs beside kubesim, and only a host in guide mode knows where: anywhere else the pod answers 503.
"""

from __future__ import annotations

import asyncio

from kubesim.kubelet.duties import Post
from kubesim.network.door import Door
from kubesim.network.fabric import PHRASES, HttpServer, Request, Response
from kubesim.shell.errors import NetworkError

PORT = 8080


class GuideApi(HttpServer):
    """One pod's server. Its log has a line for each request, as uvicorn writes it, and the reason of a refusal."""

    def __init__(self, post: Post) -> None:
        self._post = post
        self._door: Door | None = None

    def stop(self) -> None:
        """Let go of every connection."""
        if self._door is not None:
            self._ending = asyncio.ensure_future(self._door.close())

    async def respond(self, request: Request) -> Response:
        """Answer a request."""
        response = await self._answer(request)
        phrase = PHRASES.get(response.status, "")
        self._post.say(
            f'INFO:     {request.source}:0 - "{request.method} {request.target}" {response.status} {phrase}'
        )
        if response.status >= 400:
            self._post.say(f"WARNING:  {response.body[:500].decode(errors='replace')}")
        return response

    async def _answer(self, request: Request) -> Response:
        try:
            if place := self._post.fabric.guide:
                self._door = self._door or Door(f"http://{place}", b"")
                return await self._door.respond(request)
        except NetworkError:
            pass
        return Response(
            503, b'{"detail":"The fault injection API does not run."}', {"Content-Type": "application/json"}
        )


def begin(post: Post) -> GuideApi:
    """Listen."""
    made = GuideApi(post)
    post.listen(PORT, made)
    return made
