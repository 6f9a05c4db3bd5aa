"""Admission webhooks: who is asked about a request, what they are asked, and what follows from the answer.

Mutating ones are asked one after the other, and again where a later one has changed the object; validating ones all
at once. The texts are upstream's.
"""

from __future__ import annotations

import base64
import binascii
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from kubesim.admission.policies import unmet
from kubesim.admission.requests import EXEMPT, GROUP, Request
from kubesim.api import status
from kubesim.api.patch import json_patch
from kubesim.asking import Answer, Key, Question
from kubesim.cel.program import CelError, compiled
from kubesim.errors import ApiError, Obj
from kubesim.schema.registry import Kind

if TYPE_CHECKING:
    from kubesim.api.operations import Operations

MUTATING, VALIDATING = f"mutatingwebhookconfigurations.{GROUP}", f"validatingwebhookconfigurations.{GROUP}"
VERSIONS = ("v1", "v1beta1")
"""The reviews that are spoken."""
HARMLESS = ("None", "NoneOnDryRun")
SET_LATER = ("uid", "creationTimestamp", "generation")
"""Metadata that a new object has only after webhooks have seen it."""
HIDDEN = ("status",)
Rework = Callable[[Obj], Obj]
"""Takes what a patch has made of an object, in the version of a webhook; returns it as it is stored."""


@dataclass(frozen=True, slots=True)
class Hook:
    """One webhook that is to be asked, and the kind as which it sees the request."""

    config: str
    spec: Obj
    kind: Kind

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.spec["name"])

    def key(self, request: Request, stage: str) -> Key:
        """Return what its answer is kept under: one for each version of an object."""
        version = (request.old or {}).get("metadata", {}).get("resourceVersion", "")
        return (stage, self.config, self.name, request.kind.table, request.space, request.name, version)


def check_conditions(kind: Kind, obj: Obj) -> None:
    """Refuse (422) a configuration with conditions that are no expressions."""
    errors = [
        error
        for at, hook in enumerate(obj.get("webhooks") or ())
        for number, entry in enumerate(hook.get("matchConditions") or ())
        for error in _expression_errors(entry, f"webhooks[{at}].matchConditions[{number}]")
    ]
    if errors:
        raise status.invalid(kind, obj["metadata"].get("name", ""), errors)


def _expression_errors(entry: Obj, path: str) -> Iterator[status.FieldError]:
    text = entry.get("expression") or ""
    if not entry.get("name"):
        yield status.required(f"{path}.name")
    if not text.strip():
        yield status.required(f"{path}.expression")
        return
    try:
        compiled(text)
    except CelError as error:
        yield status.invalid_value(f"{path}.expression", text, f"compilation failed: {error}")


def none(ops: Operations) -> bool:
    """Tell quickly that nobody has to be asked."""
    return not (ops.store.has(MUTATING) or ops.store.has(VALIDATING))


def mutate(request: Request, rework: Rework, builtin: Callable[[], bool]) -> bool:
    """Let webhooks change the new object, in place; True where one has.

    ``builtin`` completes what they have made of it as the built-in plugins do, and tells whether that changed
    anything. Raises Unanswered, and what a webhook refuses.
    """
    if request.options.talk is None or request.stored.resource in EXEMPT:
        return False
    asked: list[Hook] = []
    again: list[Hook] = []
    changed = False
    for hook in _hooks(request, MUTATING):
        if _call(request, hook, rework, "mutate"):
            changed = True
            again += [earlier for earlier in asked if earlier not in again]
        if hook.spec.get("reinvocationPolicy") == "IfNeeded":
            asked.append(hook)
    if changed and builtin():
        again = asked
    for hook in _hooks(request, MUTATING) if again else ():
        if any((hook.config, hook.name) == (other.config, other.name) for other in again):
            _call(request, hook, rework, "mutate again")
            builtin()
    return changed


def validate(request: Request) -> None:
    """Ask those who may only refuse. Raises Unanswered, and what the first of them says."""
    if request.options.talk is None or request.stored.resource in EXEMPT:
        return
    hooks = list(_hooks(request, VALIDATING))
    questions = {hook.key(request, "validate"): _question(request, hook) for hook in hooks if _may_ask(request, hook)}
    answers = request.options.talk.ask(questions, request.new) if questions else []
    for hook, answer in zip(hooks, answers, strict=True):
        _verdict(request, hook, answer, mutating=False)


def _hooks(request: Request, resource: str) -> Iterator[Hook]:
    """Yield the webhooks that are to be asked: their conditions are looked at when it is their turn."""
    for config in request.ops.store.list(request.ops.registry.by_resource(resource)):
        for spec in config.get("webhooks") or ():
            if not request.selected(spec):
                continue
            kind = request.matched(spec, spec.get("rules") or [])
            if kind is not None and _conditions_hold(request, spec, kind):
                yield Hook(config["metadata"]["name"], spec, kind)


def _conditions_hold(request: Request, spec: Obj, kind: Kind) -> bool:
    """Ask the CEL conditions: one that is false leaves the webhook out. Raises 403 where one fails under Fail."""
    conditions = spec.get("matchConditions") or ()
    if not conditions:
        return True
    left_out, errors = unmet(conditions, request.variables(kind), request.functions())
    if left_out:
        return False
    if errors and spec.get("failurePolicy", "Fail") == "Fail":
        text = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
        raise status.forbidden(request.kind, request.name, text)
    return not errors


def _may_ask(request: Request, hook: Hook) -> bool:
    """Raise 400 for a dry run that would leave traces."""
    if request.options.dry_run and hook.spec.get("sideEffects") not in HARMLESS:
        raise status.bad_request(f'admission webhook "{hook.name}" does not support dry run')
    return True


def _call(request: Request, hook: Hook, rework: Rework, stage: str) -> bool:
    """Ask a mutating webhook and do what it says; True where that changes the object."""
    _may_ask(request, hook)
    assert request.options.talk is not None
    question = _question(request, hook)
    answer = request.options.talk.ask({hook.key(request, stage): question}, request.new)[0]
    patch = _verdict(request, hook, answer, mutating=True)
    if not patch:
        return False
    if request.new is None or request.connection is not None or request.posted is not None:
        why = "attempted to modify the object, which is not supported for this operation"
        raise _internal(f'admission webhook "{hook.name}" {why}')
    return _apply(request, hook, patch, rework)


def _apply(request: Request, hook: Hook, patch: list[Any], rework: Rework) -> bool:
    """Change the object as a webhook's patch says."""
    assert request.new is not None
    shown = _shown(request, hook.kind)[0]
    assert shown is not None
    try:
        patched = rework(json_patch(shown, patch))
    except ApiError as error:
        raise _internal(error.message) from error
    before = orjson.dumps(request.new, option=orjson.OPT_SORT_KEYS)
    kept = {name: value for name, value in request.new.items() if name in HIDDEN and name not in patched}
    metadata = {name: value for name, value in request.new["metadata"].items() if name in (*SET_LATER, "namespace")}
    if request.options.generated:
        metadata["name"] = request.new["metadata"]["name"]
    patched["metadata"] = {**patched["metadata"], **metadata}
    request.new.clear()
    request.new.update(patched | kept)
    return orjson.dumps(request.new, option=orjson.OPT_SORT_KEYS) != before


def _shown(request: Request, kind: Kind) -> tuple[Obj | None, Obj | None]:
    """Return object and old object as webhooks see them; a new one has not yet got all of its metadata."""
    obj, old = request.shown(kind)
    if not request.early or obj is None:
        return obj, old
    hidden = {*SET_LATER, "name"} if request.options.generated else {*SET_LATER}
    metadata = {name: value for name, value in obj["metadata"].items() if name not in hidden}
    shown = {**obj, "metadata": metadata}
    if kind.custom is None and "status" in obj:
        shown["status"] = {}
    return shown, old


def _question(request: Request, hook: Hook) -> Question:
    """Return the review that a webhook is sent."""
    versions = [version for version in hook.spec.get("admissionReviewVersions") or () if version in VERSIONS]
    obj, old = _shown(request, hook.kind)
    about = request.about(hook.kind, hook.kind) | {"object": obj, "oldObject": old}
    asked = {"uid": str(uuid.uuid4()), **about, "dryRun": request.options.dry_run}
    if request.options.given:
        asked["options"] = request.options.given
    version = f"admission.k8s.io/{versions[0] if versions else VERSIONS[0]}"
    review = {"kind": "AdmissionReview", "apiVersion": version, "request": asked}
    return Question(hook.spec["clientConfig"], review, float(hook.spec.get("timeoutSeconds") or 10))


def _verdict(request: Request, hook: Hook, answer: Answer, *, mutating: bool) -> list[Any]:
    """Return the patch of an answer. Raises what a webhook refuses, and 500 where none can be had under Fail."""
    try:
        response = _response(answer, mutating=mutating)
        patch = _patch(response) if mutating else []
    except ValueError as error:
        if hook.spec.get("failurePolicy", "Fail") == "Ignore":
            return []
        raise _internal(f'failed calling webhook "{hook.name}": {error}') from error
    request.options.warnings.extend(map(str, response.get("warnings") or ()))
    if response.get("allowed") is not True:
        raise _refusal(hook.name, response.get("status") or response.get("result") or {})
    return patch


def _response(answer: Answer, *, mutating: bool) -> Obj:
    """Check a review that came back. Raises ValueError with what is wrong."""
    if answer.review is None:
        raise ValueError(f"failed to call webhook: {answer.error}")
    response, wrong = answer.review.get("response"), "received invalid webhook response: "
    if not isinstance(response, dict):
        raise ValueError(f"{wrong}webhook response was absent")
    if answer.review.get("apiVersion") == "admission.k8s.io/v1beta1":
        return {**response, "patchType": "JSONPatch"} if mutating and response.get("patch") else response
    if (found := _kind_of(answer.review)) != "admission.k8s.io/v1, Kind=AdmissionReview":
        raise ValueError(
            f"{wrong}expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {found}"
        )
    if response.get("uid") != answer.uid:
        raise ValueError(f'{wrong}expected response.uid="{answer.uid}", got "{response.get("uid") or ""}"')
    patch, patch_type = response.get("patch"), response.get("patchType")
    if not mutating and (patch or patch_type is not None):
        what = "patch" if patch else "patchType"
        raise ValueError(f"{wrong}validating webhook may not return response.{what}")
    if bool(patch) != (patch_type is not None):
        had, lacked = ("patch", "patchType") if patch else ("patchType", "patch")
        raise ValueError(f"{wrong}webhook returned response.{had} but not response.{lacked}")
    return response


def _kind_of(review: Obj) -> str:
    version = str(review.get("apiVersion", ""))
    return f"{version if '/' in version else '/' + version}, Kind={review.get('kind', '')}"


def _patch(response: Obj) -> list[Any]:
    """Return the operations of a patch. Raises ValueError."""
    if not response.get("patch"):
        return []
    if response.get("patchType") != "JSONPatch":
        raise ValueError(f'unsupported patch type "{response.get("patchType")}"')
    try:
        found = orjson.loads(base64.b64decode(str(response["patch"])))
    except (binascii.Error, orjson.JSONDecodeError) as error:
        raise ValueError(f"received undecodable patch in webhook response: {error}") from error
    if not isinstance(found, list):
        raise ValueError("received undecodable patch in webhook response: json: cannot unmarshal object")
    return found


def _refusal(name: str, said: Obj) -> ApiError:
    """Return the Status of a refusal: the webhook's own, completed."""
    code = said["code"] if isinstance(said.get("code"), int) else 0
    denied, reason = f'admission webhook "{name}" denied the request', str(said.get("reason") or "")
    text = (
        f"{denied}: {said.get('message') or reason}"
        if said.get("message") or reason
        else f"{denied} without explanation"
    )
    return ApiError(code if code >= 400 else 400, reason, text, said.get("details"), said.get("metadata"))


def _internal(why: str) -> ApiError:
    message = f"Internal error occurred: {why}"
    return ApiError(500, "InternalError", message, {"causes": [{"message": why}]})
