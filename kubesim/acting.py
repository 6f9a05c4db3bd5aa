"""The seam with the rights of a service account: whoever works in a pod may do what its account may, and no more.

Every verb is asked of the cluster's authorizer first; on nodes that have joined a cluster it is sent with
a token of the account. What is refused is told as client-go does.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import asdict
from datetime import datetime

from kubesim.auth.users import Attributes, forbidden, service_account_user
from kubesim.client import Client, ObjectList, WatchEvent, Write
from kubesim.clock import Clock
from kubesim.errors import ApiError, Obj
from kubesim.schema.kinds import registry

REVIEWS = "subjectaccessreviews.authorization.k8s.io"
REFLECTED = (
    'E{at}       1 reflector.go:205] "Failed to watch" err="failed to list {what}: {error}" logger="UnhandledError" '
    'reflector="k8s.io/client-go/informers/factory.go:160" type="{what}"'
)
RECONCILED = 'E{at}       1 controller.go:474] "Reconciler error" err="{error}"'
AGAIN_S = 30.0
"""The same refusal is told this often at most."""


class ActingClient(Client):
    """``client.Client`` as a service account; ``say`` takes the lines that a refusal leaves in a program's log."""

    def __init__(self, client: Client, clock: Clock, pod: Obj, say: Callable[[str], None]) -> None:
        namespace, account = pod["metadata"]["namespace"], pod["spec"].get("serviceAccountName") or "default"
        own = client.as_account(pod)
        self._trusted, self._client = own is None, own or client
        self._clock = clock
        self._user = service_account_user(namespace, account, "")
        self._say = say
        self._told: dict[str, datetime] = {}

    async def get(self, resource: str, name: str, namespace: str = "") -> Obj:
        """Return one object."""
        await self._ask("get", resource, namespace, name)
        with self._telling("get", resource):
            return await self._client.get(resource, name, namespace)

    async def list(
        self, resource: str, namespace: str = "", *, label_selector: str = "", field_selector: str = ""
    ) -> ObjectList:
        """Return all objects of a resource; an empty namespace means every namespace."""
        await self._ask("list", resource, namespace)
        with self._telling("list", resource):
            return await self._client.list(
                resource, namespace, label_selector=label_selector, field_selector=field_selector
            )

    async def watch(
        self, resource: str, namespace: str = "", *, field_selector: str = "", resource_version: str = ""
    ) -> AsyncGenerator[WatchEvent, None]:
        """Yield every change, as long as it may be seen: who may list no longer learns of nothing more."""
        await self._ask("watch", resource, namespace)
        events = self._client.watch(
            resource, namespace, field_selector=field_selector, resource_version=resource_version
        )
        async with aclosing(events):
            async for event in events:
                await self._ask("list", resource, namespace)
                yield event

    async def write(self, write: Write) -> Obj:
        """Send what a verb comes down to, if it may be done."""
        await self._ask(write.verb, write.resource, write.namespace, write.name, write.subresource)
        with self._telling(write.verb, write.resource):
            return await self._client.write(write)

    async def _ask(self, verb: str, resource: str, namespace: str, name: str = "", subresource: str = "") -> None:
        """Raise the 403 of the API where the account may not do something, and tell of it."""
        plural, _, group = resource.partition(".")
        asked = Attributes(verb, group, "", plural, subresource, namespace, name)
        with self._telling(verb, resource):
            if self._trusted and not await self._allows(asked):
                raise forbidden(self._user, asked)

    @contextmanager
    def _telling(self, verb: str, resource: str) -> Iterator[None]:
        try:
            yield
        except ApiError as error:
            if error.code == 403:
                self._tell(error, resource, reading=verb in ("list", "watch"))
            raise

    async def _allows(self, asked: Attributes) -> bool:
        wanted = {key: value for key, value in asdict(asked).items() if value}
        spec = {"user": self._user.name, "groups": [*self._user.groups], "resourceAttributes": wanted}
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        return bool((await self._client.create(REVIEWS, review))["status"]["allowed"])

    def _tell(self, error: ApiError, resource: str, *, reading: bool) -> None:
        now, text = self._clock.now(), error.message.replace('"', '\\"')
        told = self._told.get(text)
        if told is not None and (now - told).total_seconds() < AGAIN_S:
            return
        self._told[text] = now
        line = REFLECTED if reading else RECONCILED
        self._say(line.format(at=f"{now:%m%d %H:%M:%S.%f}", what=_go_type(resource), error=text))


def acting(client: Client, clock: Clock, pod: Obj, say: Callable[[str], None]) -> ActingClient:
    """Return the API as the programs of a pod have it."""
    return ActingClient(client, clock, pod, say)


def _go_type(resource: str) -> str:
    """Return how client-go names the type of a resource's objects: ``*v1.Pod``; of custom ones it knows no other."""
    known = next((kind for kind in registry.all() if kind.resource == resource), None)
    return f"*{known.version}.{known.kind}" if known else "*unstructured.Unstructured"
