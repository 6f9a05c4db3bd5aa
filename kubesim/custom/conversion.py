"""Conversion between the versions of a custom kind by a webhook: the reviews, and what may come back."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import orjson

from kubesim.asking import Answer, Question, Talk, Unanswered
from kubesim.errors import ApiError, Obj
from kubesim.store import Stored

SECONDS = 30.0
VERSIONS = ("v1", "v1beta1")
OWN = ("labels", "annotations")
"""Fields of the metadata that it may change."""


@dataclass(frozen=True, eq=False)
class Converter:
    """The webhook that converts the objects of a definition. ``storage`` is the apiVersion in which they are kept."""

    webhook: Obj
    storage: str

    def served(self, objects: Iterable[Stored], api_version: str) -> list[Stored]:
        """Return stored objects in another version, which each keeps. Raises Unanswered for all that are missing."""
        objects = list(objects)
        missing = [obj for obj in objects if obj["apiVersion"] != api_version and (self, api_version) not in obj.memo]
        if missing:
            question = self._question(missing, api_version)
            raise Unanswered([(question, lambda answer: self._keep(missing, api_version, answer))])
        return [self._kept(obj, api_version) for obj in objects]

    def converted(self, obj: Obj, api_version: str, talk: Talk | None) -> Obj:
        """Return an object in another version. Raises Unanswered; 500 where the webhook does not do its work."""
        if obj["apiVersion"] == api_version:
            return obj
        if isinstance(obj, Stored):
            return self.served([obj], api_version)[0]
        if talk is None:
            raise _failed(obj, "failed: nobody can be asked")
        said = {name: value for name, value in obj.items() if name != "metadata"}
        key = ("convert", api_version, obj["metadata"].get("resourceVersion", ""), orjson.dumps(said))
        answer = talk.ask({key: self._question([obj], api_version)}, obj)[0]
        return _result([obj], answer, api_version)[0]

    def _keep(self, objects: list[Stored], api_version: str, answer: Answer) -> None:
        for obj, converted in zip(objects, _result(objects, answer, api_version), strict=True):
            obj.memo[self, api_version] = Stored.seal(converted)

    def _kept(self, obj: Stored, api_version: str) -> Stored:
        if obj["apiVersion"] == api_version:
            return obj
        found: Stored = obj.memo[self, api_version]
        return found

    def _question(self, objects: list[Any], api_version: str) -> Question:
        spoken = [version for version in self.webhook.get("conversionReviewVersions") or () if version in VERSIONS]
        request = {
            "uid": str(uuid.uuid4()),
            "desiredAPIVersion": api_version,
            "objects": [dict(obj) for obj in objects],
        }
        version = f"apiextensions.k8s.io/{spoken[0] if spoken else VERSIONS[0]}"
        empty: Obj = {"uid": "", "convertedObjects": None, "result": {"metadata": {}}}
        review = {"kind": "ConversionReview", "apiVersion": version, "request": request, "response": empty}
        return Question(self.webhook["clientConfig"], review, SECONDS)


def _failed(obj: Obj, why: str) -> ApiError:
    """Return the 500 of a conversion that failed."""
    message = f"conversion webhook for {obj['apiVersion']}, Kind={obj['kind']} {why}"
    return ApiError(500, "", message)


def _result(objects: list[Any], answer: Answer, api_version: str) -> list[Obj]:
    """Return what came back. Raises 500 with what is wrong with it."""
    try:
        found = _objects(answer)
    except ValueError as error:
        raise _failed(objects[0], f"failed: {error}") from error
    if len(found) != len(objects):
        raise _failed(objects[0], f"returned {len(found)} objects, expected {len(objects)}")
    return [_checked(obj, new, at, api_version) for at, (obj, new) in enumerate(zip(objects, found, strict=True))]


def _objects(answer: Answer) -> list[Any]:
    """Return the objects of a review. Raises ValueError."""
    if answer.review is None:
        raise ValueError(answer.error)
    version, kind = str(answer.review.get("apiVersion", "")), str(answer.review.get("kind", ""))
    shown = f"{version if '/' in version else '/' + version}, Kind={kind}"
    if kind != "ConversionReview" or not version.startswith("apiextensions.k8s.io/v1"):
        raise ValueError(f"expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got {shown}")
    response = answer.review.get("response")
    if not isinstance(response, dict):
        raise ValueError("no response provided")
    if version.endswith("/v1") and response.get("uid") != answer.uid:
        raise ValueError(f'expected response.uid="{answer.uid}", got "{response.get("uid") or ""}"')
    result = response.get("result") or {}
    if result.get("status") != "Success":
        raise ValueError(
            result.get("message") or f"response.result.status was '{result.get('status') or ''}', not 'Success'"
        )
    return list(response.get("convertedObjects") or ())


def _checked(obj: Obj, new: Any, at: int, api_version: str) -> Obj:
    """Return a converted object with the metadata of the one that it was."""
    invalid = f"returned invalid object at index {at}: "
    if not isinstance(new, dict) or new.get("apiVersion") != api_version:
        received = new.get("apiVersion", "") if isinstance(new, dict) else ""
        raise _failed(obj, f"{invalid}invalid groupVersion (expected {api_version}, received {received})")
    if new.get("kind") != obj["kind"]:
        raise _failed(obj, f"{invalid}invalid kind (expected {obj['kind']}, received {new.get('kind') or ''})")
    metadata, given = obj["metadata"], new.get("metadata")
    if not isinstance(given, dict):
        raise _failed(obj, "returned invalid metadata: missing metadata in converted object")
    for name in ("name", "namespace", "uid"):
        if (metadata.get(name) or "") != (given.get(name) or ""):
            shown = "UID" if name == "uid" else name
            why = f"must have the same {shown}: {metadata.get(name) or ''} != {given.get(name) or ''}"
            raise _failed(obj, f"returned invalid object: {why}")
    kept = {name: value for name, value in metadata.items() if name not in OWN}
    kept |= {name: given[name] for name in OWN if given.get(name)}
    return {**new, "metadata": kept}
