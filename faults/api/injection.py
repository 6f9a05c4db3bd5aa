"""The fault injection API: faults on GPUs of one cluster, injected, listed and recovered by programs.

Its addresses and bodies are those of Dynamo's fault injection service, so that what was written for that works here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import orjson
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.urls import URLPattern, re_path
from django.views.decorators.csrf import csrf_exempt
from ninja import NinjaAPI, Router, Status
from ninja.errors import HttpError, ValidationError
from ninja.parser import Parser
from ninja.responses import NinjaJSONEncoder

from faults import clock, services
from faults.api.access import guarded
from faults.api.invalid import invalid
from faults.api.metrics import router as metrics_router
from faults.api.network import router as network_router
from faults.api.problems import ApiProblem, answer, not_found, problem_of
from faults.api.recording import caller_of, recorded
from faults.api.schemas import (
    REFUSED,
    FaultListOut,
    FaultOut,
    GpuFaultIn,
    HealthOut,
    InjectedOut,
    RecoveredOut,
    XidIn,
    XidTypesOut,
    injected,
    shown,
)
from faults.errors import ClusterError, FaultError, NotYet
from faults.jobs import holder_name
from faults.models import InjectedFault
from faults.services.api_tokens import INJECT, READ
from faults.xids import Xid, xids

MAX_LISTED = 500
router = Router(tags=["faults"])


class StrictParser(Parser):
    """Reads JSON as RFC 8259 has it: no NaN, no half characters, no nesting without end."""

    def parse_body(self, request: HttpRequest) -> Any:
        """Return the body; ninja answers 400 for a ValueError."""
        return orjson.loads(request.body)


def health(request: HttpRequest) -> HttpResponse:
    """Tell that the API answers. Needs no token."""
    if request.method not in ("GET", "HEAD"):
        return _wrong_method("GET")
    body = {"status": "healthy", "service": "fault-injection-api", "timestamp": clock.now()}
    return JsonResponse(body, encoder=NinjaJSONEncoder)


@router.get("/health", response=HealthOut, summary="Sign of life", tags=["service"])
def read_health(request: HttpRequest) -> Any:
    """Tell that the API answers."""
    return {"status": "healthy", "service": "fault-injection-api", "timestamp": clock.now()}


@router.get("/faults/gpu/xid-types", response={200: XidTypesOut, **REFUSED}, **guarded(READ), summary="List Xids")
def list_xid_types(request: HttpRequest) -> Any:
    """Return the Xids that can be injected."""
    return {"xid_types": [_xid_type(xid) for xid in xids().values()]}


@router.post(
    "/faults/gpu/inject/xid-{int:code}",
    response={200: InjectedOut, **REFUSED},
    **guarded(INJECT),
    summary="Inject an Xid",
)
def inject_xid(request: HttpRequest, code: int, body: XidIn) -> Any:
    """Let an Xid happen on a GPU of a node. The answer comes when the node's agent shows it."""
    if body.xid_type not in (None, code):
        raise ApiProblem(
            422, "xid_mismatch", f"The address says Xid {code}, the body {body.xid_type}.", "Let them say the same."
        )
    return _inject(request, code, body.node_name, body.gpu_id, body.layers, body.duration, {})


@router.post(
    "/faults/gpu/inject", response={200: InjectedOut, **REFUSED}, **guarded(INJECT), summary="Inject a GPU fault"
)
def inject_gpu_fault(request: HttpRequest, body: GpuFaultIn) -> Any:
    """Let a GPU fault of one type happen. The answer comes when the node's agent shows it."""
    wanted = body.parameters
    details = {"fault_type": body.fault_type, "severity": body.severity}
    if wanted.xid_type is not None:
        layers = wanted.layers or "log"
        return _inject(request, wanted.xid_type, body.node_name, wanted.gpu_id, layers, body.duration, details)
    caller = caller_of(request)
    fault = recorded(
        caller,
        "fault.inject",
        f"gpu_{body.fault_type} {body.node_name}/gpu{wanted.gpu_id}",
        lambda: services.inject_gpu_trouble(
            cluster=caller.cluster,
            place=services.GpuPlace(body.node_name, wanted.gpu_id),
            effect=body.fault_type,
            seconds=body.duration,
            by=caller.name,
            holder=holder_name(),
            details=details,
        ),
    )
    return injected(fault, f"{body.fault_type} injected on GPU {wanted.gpu_id} of {body.node_name}")


@router.get("/faults", response={200: FaultListOut, **REFUSED}, **guarded(READ), summary="List faults")
def list_faults(request: HttpRequest, active_only: bool = False) -> Any:
    """Return the newest 500 faults, all or those that are not over."""
    faults = InjectedFault.objects.filter(cluster=caller_of(request).cluster).select_related("run").order_by("-id")
    if active_only:
        faults = faults.filter(recovered_at__isnull=True)
    found = [shown(fault) for fault in faults[:MAX_LISTED]]
    return {"faults": found, "count": len(found)}


@router.get("/faults/{fault_id}", response={200: FaultOut, **REFUSED}, **guarded(READ), summary="Read a fault")
def read_fault(request: HttpRequest, fault_id: str) -> Any:
    """Return the record of one fault."""
    return shown(services.find_fault(cluster=caller_of(request).cluster, fault_id=fault_id))


@router.post(
    "/faults/{fault_id}/recover",
    response={200: RecoveredOut, 202: RecoveredOut, **REFUSED},
    **guarded(INJECT),
    summary="Recover a fault",
)
def recover_fault(request: HttpRequest, fault_id: str) -> Any:
    """End a fault. 202 while the cluster takes its time; the site goes on with it by itself."""
    return _recover(request, fault_id)


@router.delete(
    "/faults/{fault_id}",
    response={200: RecoveredOut, 202: RecoveredOut, **REFUSED},
    **guarded(INJECT),
    summary="Delete a fault",
)
def delete_fault(request: HttpRequest, fault_id: str) -> Any:
    """End a fault, as recover does. Its record stays."""
    return _recover(request, fault_id)


def _xid_type(xid: Xid) -> dict[str, Any]:
    errors = (
        f"CUDA error {xid.running} for running processes, {xid.new} for new ones" if xid.running else "no CUDA error"
    )
    path = f"cordons the node, then {xid.sentinel.repair}" if xid.sentinel.cordons else "does not cordon the node"
    told = f"{xid.name}: {errors}. NVIDIA's action: {xid.catalog}. NVSentinel {path}."
    return {"code": xid.code, "name": xid.name, "severity": xid.severity, "description": told}


def _inject(
    request: HttpRequest, xid: int, node: str, gpu: int, layers: str, seconds: int | None, details: dict[str, Any]
) -> Any:
    if xid not in xids():
        known = ", ".join(map(str, xids()))
        raise ApiProblem(404, "xid_unknown", f"Xid {xid} cannot be injected.", f"Use one of {known}.")
    if refusal := xids()[xid].refusal(layers):
        raise ApiProblem(422, "no_cuda_effect", refusal, 'Choose "layers": "log" or "combined".')
    caller = caller_of(request)
    fault = recorded(
        caller,
        "fault.inject",
        f"gpu_xid_{xid} {node}/gpu{gpu}",
        lambda: services.inject_xid(
            cluster=caller.cluster,
            node=node,
            xid=xid,
            gpu=gpu,
            seconds=seconds,
            layers=layers,
            by=caller.name,
            holder=holder_name(),
            details=details,
        ),
    )
    return injected(fault, f"XID {xid} ({xids()[xid].name}) injected on GPU {gpu} of {node}")


def _recover(request: HttpRequest, fault_id: str) -> Any:
    caller = caller_of(request)

    def recover() -> InjectedFault:
        try:
            return services.recover_fault(
                cluster=caller.cluster, fault_id=fault_id, holder=holder_name(), by=caller.name
            )
        except NotYet:
            return services.find_fault(cluster=caller.cluster, fault_id=fault_id)

    fault = recorded(caller, "fault.recover", fault_id, recover)
    if fault.run.manual_command:
        raise ApiProblem(409, "needs_a_person", fault.run.error, f"Run: {fault.run.manual_command}")
    done = fault.recovered_at is not None
    said = "recovered" if done else "recovers; the site goes on with it"
    body = {
        "fault_id": fault_id,
        "status": "recovered" if done else "recovering",
        "recovered_at": fault.recovered_at,
        "message": f"{fault.target} {said}",
    }
    return Status(200 if done else 202, body)


class OpenApi(NinjaAPI):
    """An API whose description asks for no token where none is needed."""

    needs_token = True

    def get_openapi_schema(self, **more: Any) -> Any:
        """Return the description."""
        schema = super().get_openapi_schema(**more)
        if not self.needs_token:
            schema["components"].pop("securitySchemes", None)
            for methods in schema["paths"].values():
                for about in methods.values():
                    about.pop("security", None)
        return schema


def make_api(docs_decorator: Callable[[Any], Any] | None = None, *, needs_token: bool = True) -> NinjaAPI:
    """Return the API with its refusals in one shape."""
    api = OpenApi(
        title="Fault injection API",
        version="1",
        urls_namespace="fault-injection",
        docs_url=None,
        parser=StrictParser(),
        docs_decorator=docs_decorator,
    )
    api.needs_token = needs_token
    api.add_router("", router)
    api.add_router("/faults/network", network_router)
    api.add_router("/metrics", metrics_router)
    for kind in (ApiProblem, ClusterError, FaultError):
        api.add_exception_handler(kind, _refused)
    api.add_exception_handler(ValidationError, _invalid)
    api.add_exception_handler(HttpError, _http_error)
    api.add_exception_handler(Http404, lambda request, exc: not_found(request))
    return api


def urls_of(api: NinjaAPI) -> list[Any]:
    """Return the API's addresses; those that are none of it, and wrong methods, are answered in its own shape."""
    patterns = [_with_own_405(pattern) for pattern in api.urls[0]]
    return [*patterns, re_path(r"^(?P<path>.*)$", csrf_exempt(not_found))]


def _with_own_405(pattern: Any) -> Any:
    if isinstance(pattern, URLPattern):
        pattern.callback = _answering_405(pattern.callback)
    return pattern


def _answering_405(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    @wraps(view)
    def answered(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        response = view(request, *args, **kwargs)
        return _wrong_method(response.headers.get("Allow", "")) if response.status_code == 405 else response

    return answered


def _wrong_method(allowed: str) -> HttpResponse:
    response = answer(ApiProblem(405, "wrong_method", "The address does not take this method.", f"Use {allowed}."))
    response.headers["Allow"] = allowed
    return response


def _refused(request: HttpRequest, exc: Any) -> HttpResponse:
    return answer(problem_of(exc))


def _invalid(request: HttpRequest, exc: Any) -> HttpResponse:
    return answer(invalid(exc.errors[0]))


def _http_error(request: HttpRequest, exc: Any) -> HttpResponse:
    return answer(ApiProblem(exc.status_code, "bad_request", str(exc), "Send a JSON object."))
