"""Plain requests to kubesim, each of whose answers must load in the models of the newest official client."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kubernetes import client as official

from kubesim.errors import ApiError
from kubesim.schema.kinds import registry
from kubesim.tests.contract.plain import Answer, Plain


class Checked(Plain):
    """A cluster whose every object is loaded, in whatever state a test has brought it."""

    def __call__(self, method: str, path: str, body: Any = None, **options: Any) -> Answer:
        """Send one request and return the whole answer."""
        answer = super().__call__(method, path, body, **options)
        if isinstance(answer.json, dict) and answer.code < 300:
            check_models(answer.json)
        return answer


def check_models(answer: Mapping[str, Any]) -> None:
    """Load an object, or every object of a list; the models refuse what a real API server would never send."""
    for schema, obj in _typed(answer):
        getattr(official, schema).from_dict(obj)


def _typed(answer: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    kind = str(answer.get("kind", ""))
    for obj in answer.get("items") or () if kind.endswith("List") else [answer]:
        try:
            found = registry.by_kind(str(answer.get("apiVersion", "")), kind.removesuffix("List"))
        except ApiError:
            continue
        if hasattr(official, found.schema):
            yield found.schema, obj
