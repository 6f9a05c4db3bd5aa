"""The webhooks of ``agnhost``: ``webhook`` admits and changes objects, ``crd-conversion-webhook`` converts them."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from kubesim.errors import Obj
from kubesim.kubelet.python_serving import serve
from kubesim.network.fabric import Request, Response
from kubesim.shell.errors import FileError
from kubesim.shell.machine import Process

from .serving import Handler, Handlers

Judge = Callable[[Obj], Obj]
PORT = 443
DELAY_S = 5.0
ALLOWED: Obj = {"allowed": True}
UNWANTED, KEEPING = "webhook-disallow", "webhook-nondeletable"
LABEL = "webhook-e2e-test"
JSON = {"Content-Type": "application/json"}


class Secured(Handlers):
    """A server that shows a certificate."""

    def __init__(self, process: Process, paths: dict[str, Handler], certificate: bytes) -> None:
        super().__init__(process, paths, log=False)
        self.certificate = certificate
        """PEM, its own first."""


async def webhook(process: Process, given: dict[str, str]) -> int:
    """Serve admission reviews."""
    judges: dict[str, Judge] = {
        "/always-deny": lambda asked: _denied(message="this webhook denies all requests"),
        "/add-label": _add_label,
        "/pods": _pods,
        "/pods/attach": _attaching,
        "/mutating-pods": _add_init_container,
        "/mutating-pods-sidecar": lambda asked: _add_sidecar(asked, given.get("sidecar-image", "")),
        "/configmaps": lambda asked: _keep_out(asked, "configmap", "and value"),
        "/mutating-configmaps": _stages,
        "/custom-resource": lambda asked: _keep_out(asked, "custom resource", "data"),
        "/mutating-custom-resource": _stages,
        "/crd": _definition,
    }
    paths = {path: _reviewing(process, judge) for path, judge in judges.items()}
    paths["/always-allow-delay-5s"] = _reviewing(process, lambda asked: ALLOWED, DELAY_S)
    return await _serve(process, given, paths)


async def conversion_webhook(process: Process, given: dict[str, str]) -> int:
    """Serve conversion reviews of a kind with a hostPort in v1, and with host and port in v2."""

    async def convert(request: Request) -> Response:
        try:
            review = orjson.loads(request.body)
            asked = review["request"]
            response = _converted(asked)
        except (orjson.JSONDecodeError, KeyError, TypeError):
            return Response(400, b"failed to deserialize body")
        answer = {"kind": review["kind"], "apiVersion": review["apiVersion"], "response": response}
        return Response(200, orjson.dumps(answer), JSON)

    return await _serve(process, given, {"/crdconvert": convert})


async def _serve(process: Process, given: Mapping[str, str], paths: dict[str, Handler]) -> int:
    async def ready(request: Request) -> Response:
        return Response(200, b"ok")

    try:
        certificate = process.view.read(given.get("tls-cert-file", ""))
    except FileError as error:
        return await process.fail(f"panic: open {given.get('tls-cert-file', '')}: {error}")
    port = int(given["port"]) if given.get("port", "").isdecimal() else PORT
    return await serve(process, {port: Secured(process, {**paths, "/readyz": ready}, certificate)})


def _reviewing(process: Process, judge: Judge, delay: float = 0.0) -> Handler:
    """Return what answers a review with what a function says of its request."""

    async def review(request: Request) -> Response:
        try:
            found = orjson.loads(request.body)
            asked = found["request"]
            if delay:
                await process.machine.clock.sleep(delay)
            if _waits_for_ever(asked):
                await asyncio.get_running_loop().create_future()
            response = {**judge(asked), "uid": asked["uid"]}
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
            return Response(400, f"Request could not be decoded: {error}\n".encode())
        answer = {"kind": "AdmissionReview", "apiVersion": found["apiVersion"], "response": response}
        return Response(200, orjson.dumps(answer), JSON)

    return review


def _denied(**said: str) -> Obj:
    return {"allowed": False, "status": {"metadata": {}, **said}}


def _patched(*operations: Obj) -> Obj:
    patch = base64.b64encode(orjson.dumps(list(operations))).decode()
    return {"allowed": True, "patch": patch, "patchType": "JSONPatch"}


def _adding(path: str, value: Any) -> Obj:
    return _patched({"op": "add", "path": path, "value": value})


def _labels(asked: Obj) -> Mapping[str, str]:
    return ((asked.get("object") or {}).get("metadata") or {}).get("labels") or {}


def _waits_for_ever(asked: Obj) -> bool:
    return (asked.get("object") or {}).get("kind") == "Pod" and _labels(asked).get(LABEL) == "wait-forever"


def _add_label(asked: Obj) -> Obj:
    labels = _labels(asked)
    if not labels:
        return _adding("/metadata/labels", {"added-label": "yes"})
    return ALLOWED if labels.get("added-label") == "yes" else _adding("/metadata/labels/added-label", "yes")


def _pods(asked: Obj) -> Obj:
    """Deny pods with a label, or with a container of a name."""
    told = ["the pod contains unwanted label;"] if _labels(asked).get(LABEL) == UNWANTED else []
    for container in asked["object"]["spec"].get("containers") or ():
        if UNWANTED in container["name"]:
            told.append("the pod contains unwanted container name;")
    return _denied(message=" ".join(told)) if told else ALLOWED


def _attaching(asked: Obj) -> Obj:
    options = asked["object"]
    if asked["name"] != "to-be-attached-pod" or not options.get("stdin") or options.get("container") != "container1":
        return ALLOWED
    return _denied(message="attaching to pod 'to-be-attached-pod' is not allowed")


def _add_init_container(asked: Obj) -> Obj:
    pod, name = asked["object"], "webhook-added-init-container"
    there = any(container["name"] == name for container in pod["spec"].get("initContainers") or ())
    if pod["metadata"].get("name") != "webhook-to-be-mutated" or there:
        return ALLOWED
    return _adding("/spec/initContainers", [{"image": "webhook-added-image", "name": name, "resources": {}}])


def _add_sidecar(asked: Obj, image: str) -> Obj:
    if not image:
        said = _denied(message="No image specified by the sidecar-image parameter", status="Failure")
        return {**said, "status": {**said["status"], "code": 500}}
    name = "webhook-added-sidecar"
    if any(container["name"] == name for container in asked["object"]["spec"]["containers"]):
        return ALLOWED
    return _adding("/spec/containers/-", {"image": image, "name": name, "resources": {}})


def _keep_out(asked: Obj, what: str, end: str) -> Obj:
    """Deny objects whose data says that they are unwanted, or are to stay."""
    deleting = asked["operation"] == "DELETE"
    value = ((asked["oldObject"] if deleting else asked["object"]).get("data") or {}).get(LABEL)
    if value == UNWANTED and not deleting:
        return _denied(reason=f"the {what} contains unwanted {'key and value' if end == 'and value' else end}")
    if value == KEEPING and deleting:
        return _denied(reason=f"the {what} cannot be deleted because it contains unwanted key and value")
    return ALLOWED


def _stages(asked: Obj) -> Obj:
    data = asked["object"].get("data") or {}
    if data.get("mutation-stage-1") == "yes":
        return _adding("/data/mutation-stage-2", "yes")
    return _adding("/data/mutation-stage-1", "yes") if data.get("mutation-start") == "yes" else ALLOWED


def _definition(asked: Obj) -> Obj:
    if _labels(asked).get(LABEL) == UNWANTED:
        return _denied(message="the crd contains unwanted label")
    return ALLOWED


def _converted(asked: Obj) -> Obj:
    """Answer a ConversionRequest."""
    wanted = asked["desiredAPIVersion"]
    for obj in asked["objects"]:
        if obj["apiVersion"] == wanted:
            why = f"conversion from a version to itself should not call the webhook: {wanted}"
            return {"uid": asked["uid"], "convertedObjects": None, "result": {"status": "Failure", "message": why}}
    objects = [{**_between(obj), "apiVersion": wanted} for obj in asked["objects"]]
    return {"uid": asked["uid"], "convertedObjects": objects, "result": {"metadata": {}, "status": "Success"}}


def _between(obj: Obj) -> Obj:
    """Return an object with its hostPort parted, or put together."""
    rest = {name: value for name, value in obj.items() if name not in ("hostPort", "host", "port")}
    if "hostPort" in obj:
        host, _, port = str(obj["hostPort"]).partition(":")
        return {**rest, "host": host, "port": port}
    if "host" in obj or "port" in obj:
        return {**rest, "hostPort": f"{obj.get('host', '')}:{obj.get('port', '')}"}
    return rest
