"""An operator: controllers of the cluster's add-ons, which work as long as the pod in which they run."""

from __future__ import annotations

import asyncio
import logging
import tomllib
from collections.abc import Callable
from typing import Any

from kubesim.controllers.base import Context, Controller
from kubesim.errors import ApiError, Obj
from kubesim.informer import Informers
from kubesim.kubelet.duties import Post

log = logging.getLogger(__name__)
MOMENT_S, RETRY_S = 1.0, 5.0
"""How long an operator waits for its kinds to be defined, or for the right to read them."""
Make = Callable[[Context, Post], Controller]


class Operator:
    """Runs controllers until ``stop``."""

    def __init__(self, post: Post, *makers: Make) -> None:
        self._post = post
        self._makers = makers
        self._task = asyncio.ensure_future(self._run())

    def stop(self) -> None:
        """End it at once."""
        self._task.cancel()

    async def _run(self) -> None:
        api = self._post.api
        informers = Informers(api, self._post.clock)
        context = Context(api, self._post.clock, informers)
        controllers = [make(context, self._post) for make in self._makers]
        try:
            await self._fill(informers)
            for controller in controllers:
                controller.listen()
                controller.queue.start()
            await asyncio.Event().wait()
        finally:
            for controller in controllers:
                await controller.queue.stop()
            await informers.stop()

    async def _fill(self, informers: Informers) -> None:
        while True:
            try:
                await informers.start()
            except (ApiError, ConnectionError):
                await self._post.clock.sleep(RETRY_S)
            else:
                return


class Discovery:
    """A program that tells what its node has, after a moment, and again as often as ``every_s`` says; 0: once.

    Subclasses say what in ``tell``.
    """

    every_s, moment_s = 0.0, MOMENT_S

    def __init__(self, post: Post) -> None:
        self.post = post
        self._task = asyncio.ensure_future(self._run())

    def stop(self) -> None:
        """Leave what it has told."""
        self._task.cancel()

    async def tell(self) -> None:
        """Write what has changed. Raises ``ApiError``."""

    async def _run(self) -> None:
        await self.post.clock.sleep(self.moment_s)
        done = False
        while self.every_s or not done:
            try:
                await self.tell()
                done = True
            except (ApiError, ConnectionError) as error:
                log.info("the features of %s could not be told: %s", self.post.node, error)
            await self.post.clock.sleep(self.every_s or RETRY_S)


async def settings(post: Post, key: str) -> dict[str, Any]:
    """Return a TOML file of the config maps that the operator's pod mounts; empty where there is none to be read."""
    meta = post.pod["metadata"]
    for volume in post.pod["spec"].get("volumes") or ():
        if "configMap" not in volume:
            continue
        try:
            found = await post.client.get("configmaps", volume["configMap"]["name"], meta["namespace"])
            return tomllib.loads((found.get("data") or {})[key])
        except (ApiError, KeyError, tomllib.TOMLDecodeError):
            continue
    return {}


async def ensure(client: Any, resource: str, obj: Obj) -> Obj | None:
    """Create an object that may be there already; None where it is."""
    try:
        made: Obj = await client.create(resource, obj, namespace=obj["metadata"].get("namespace", ""))
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise
        return None
    return made
