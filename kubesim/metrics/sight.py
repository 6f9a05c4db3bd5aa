"""What an exporter's account lets it see: a resource that it may not list is missing until it may."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from kubesim.client import Client
from kubesim.clock import Clock
from kubesim.errors import ApiError
from kubesim.informer import cancel

AGAIN_S = 30.0


class Sight:
    """Asks for each resource until it may be listed; from then on its cache goes on, as a reflector's does."""

    def __init__(self, api: Client, clock: Clock, resources: Iterable[str], more: Callable[[], None]) -> None:
        """``more`` is called where something is seen that was not before."""
        self.seen: set[str] = set()
        self._api = api
        self._clock = clock
        self._more = more
        self._task = asyncio.ensure_future(self._look([*resources]))

    async def stop(self) -> None:
        """Ask no more."""
        await cancel(self._task)

    async def _look(self, wanted: list[str]) -> None:
        while wanted := [resource for resource in wanted if not await self._lists(resource)]:
            await self._clock.sleep(AGAIN_S)

    async def _lists(self, resource: str) -> bool:
        try:
            await self._api.list(resource)
        except ApiError as error:
            return error.code == 404  # a resource that the cluster does not have will not be missed
        except ConnectionError:
            return False
        self.seen.add(resource)
        self._more()
        return True
