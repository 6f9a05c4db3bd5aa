"""How a pod's images come onto its node: present already, pulled, or refused and tried again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from kubesim.clock import Clock
from kubesim.imagenames import wrong_reference
from kubesim.kubelet import timings
from kubesim.kubelet.images import REGISTRY_PORT, Image, PullError, endpoint, unreachable
from kubesim.kubelet.node_images import Download, Downloads, NodeImages
from kubesim.kubelet.records import Container
from kubesim.kubelet.status import PodRecord
from kubesim.network.dns import hosts
from kubesim.times import go_milliseconds

Tell = Callable[[Container, str, str], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Pulls:
    """The images of one pod. ``images`` are those on the node; ``tell`` and ``warn`` record events."""

    record: PodRecord
    clock: Clock
    images: NodeImages
    downloads: Downloads
    tell: Tell
    warn: Tell
    wake: Callable[[], None]
    passes: Callable[[str, int], bool] = lambda address, port: True
    """Whether the node's network lets it reach an address and port."""
    lenient: bool = False
    """Whether what the simulated registries do not know is taken to be there: a real cluster's own agents."""
    running: dict[str, Download] = field(default_factory=dict)
    """The pulls under way, by container."""

    @property
    def now(self) -> datetime:
        """The time."""
        return self.clock.now()

    def ends(self, container: Container) -> datetime:
        """When the pull under way answers."""
        found = self.running.get(container.name)
        if found is None:
            found = self.running[container.name] = self._download(container)
        return found.ends

    def _download(self, container: Container) -> Download:
        """Begin a pull; one that was under way when the kubelet was started again begins anew."""
        image = self.record.spec(container)["image"]
        answer, took = self._try(container), timings.PULL_FAILURE_S
        if self._lost(image) is not None:
            took = timings.PULL_TIMEOUT_S
        found = answer if isinstance(answer, Image) else None
        return self.downloads.begin(self, container.name, image, found, took, container.since, self.wake)

    def stop(self) -> None:
        """Pull nothing any more: the pod is gone."""
        self.downloads.cancel(self, self.now)

    def wait_moves(self, container: Container) -> datetime:
        """When the next pull begins, or the kubelet next says that it waits for it."""
        ends = (container.failed_at or container.since) + timedelta(seconds=container.pull_backoff.delay)
        return min(ends, (container.told_at or container.since) + timedelta(seconds=timings.BACKOFF_EVENT_S))

    async def begin(self, container: Container) -> None:
        """See to the image."""
        spec = self.record.spec(container)
        image, policy = spec["image"], spec.get("imagePullPolicy", "IfNotPresent")
        container.refusal = ""
        if wrong := wrong_reference(image):
            text = f'Failed to apply default image tag "{image}": {wrong}'
            await self._refuse(container, "InvalidImageName", "InspectFailed", text)
        elif image in self.images and policy != "Always":
            self.remember(image)
            await self.tell(container, "Pulled", f'Container image "{image}" already present on machine')
            container.enter("creating", self.now)
        elif policy == "Never":
            text = f'Container image "{image}" is not present with pull policy of Never'
            await self._refuse(container, "ErrImageNeverPull", "ErrImageNeverPull", text)
        elif policy != "Always" and (under_way := self._under_way(image)) is not None:
            self.running[container.name] = under_way
            container.enter("pulling", self.now)
        else:
            await self.tell(container, "Pulling", f'Pulling image "{image}"')
            container.enter("pulling", self.now)

    def _under_way(self, image: str) -> Download | None:
        """Return the pull of an image for another container of the pod, which is made before this one."""
        return next((each for each in self.running.values() if each.text == image), None)

    async def _refuse(self, container: Container, reason: str, event: str, text: str) -> None:
        """Pull nothing, and say why."""
        await self.warn(container, event, text)
        await self.warn(container, "Failed", f"Error: {reason}")
        container.refusal, container.pull_error = reason, text
        container.enter("refused", self.now)

    async def pulled(self, container: Container) -> None:
        """Take the answer of the registry."""
        image = self.record.spec(container)["image"]
        found = self._try(container)
        if isinstance(found, PullError):
            self.running.pop(container.name, None)
            container.pull_error = str(found)
            await self._failed(container, image)
            return
        container.pull_error = ""
        pulled = self.running.pop(container.name, None) or self._download(container)
        if pulled.container != container.name and image in self.images:
            await self.begin(container)
            return
        took, waited = go_milliseconds(pulled.took), go_milliseconds(pulled.waited)
        text = f'Successfully pulled image "{image}" in {took} ({waited} including waiting).'
        await self.tell(container, "Pulled", f"{text} Image size: {found.size} bytes.")
        self.images.add(found)
        self.record.images[image] = found
        container.enter("creating", self.now)

    async def _failed(self, container: Container, image: str) -> None:
        container.failed_at = self.now
        container.pull_backoff.next(self.now, self.now)
        await self.warn(container, "Failed", f'Failed to pull image "{image}": {container.pull_error}')
        await self.warn(container, "Failed", "Error: ErrImagePull")
        container.enter("pullFailed", self.now)

    async def backs_off(self, container: Container) -> None:
        """Wait for the next pull, saying so, or begin it."""
        image = self.record.spec(container)["image"]
        failed_at = container.failed_at or container.since
        if container.state == "pullWaiting" and container.pull_backoff.remaining(failed_at, self.now) <= 0:
            await self.tell(container, "Pulling", f'Pulling image "{image}"')
            container.enter("pulling", self.now)
            return
        await self.tell(container, "BackOff", f'Back-off pulling image "{image}"')
        await self.warn(container, "Failed", "Error: ImagePullBackOff")
        container.told_at = self.now
        if container.state != "pullWaiting":
            container.enter("pullWaiting", self.now)

    def _try(self, container: Container) -> Image | PullError:
        """Return what a pull answers."""
        image = self.record.spec(container)["image"]
        try:
            if (lost := self._lost(image)) is not None:
                raise lost
            return self.images.fetch(image, lenient=self.lenient)
        except PullError as error:
            return error

    def _lost(self, image: str) -> PullError | None:
        """Return what is said of a registry from which nothing comes back; None where something does."""
        addresses = hosts().get(endpoint(image)) or [""]
        if not addresses[0] or self.passes(addresses[0], REGISTRY_PORT):
            return None
        return unreachable(image, addresses[0])

    def remember(self, image: str) -> None:
        """Know an image that is on the node already."""
        if image not in self.record.images:
            found = self.record.images[image] = self.images.find(image) or self.images.look_up(image)
            self.images.add(found)
