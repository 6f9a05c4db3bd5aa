"""Refusals of requests that do not fit the API's description: the field, what is wrong with it, and what fits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

from faults.api.problems import ApiProblem
from faults.services.injected_faults import MAX_SECONDS

DESCRIBED = "/api/v1/docs describes the request"
ACTIONS = {
    "duration": f"Send whole seconds from 1 to {MAX_SECONDS}, or null: until it is deleted, eight hours at most.",
    "gpu_id": "Send the GPU's number as `nvidia-smi -L` has it, from 0 on.",
    "node_name": "Send the node's name as `kubectl get nodes` prints it.",
    "xid_type": "Send an Xid of GET /api/v1/faults/gpu/xid-types as a number.",
    "namespace": "Send the namespace's name as `kubectl get namespaces` prints it.",
    "active_only": "Send true or false.",
}
"""The values that fit, by the name of the field."""


def _no_text(value: Any) -> Any:
    """Refuse what pydantic would take for a number: true would be GPU 1."""
    if isinstance(value, bool | str):
        raise PydanticCustomError("int_type", "Input should be a number, without quotes")
    return value


Number = Annotated[int, BeforeValidator(_no_text)]
"""A whole number of a body, as JSON writes one."""


def invalid(error: Mapping[str, Any]) -> ApiProblem:
    """Return the refusal for what pydantic has found first."""
    field = ".".join(str(part) for part in error["loc"][1:] if part != "body")
    return ApiProblem(422, "invalid_request", _detail(error, field), _action(error, field))


def _detail(error: Mapping[str, Any], field: str) -> str:
    said = str(error["msg"]).removeprefix("Value error, ")
    match error["type"]:
        case "missing":
            return f"{field} is missing." if field else "The request has no body."
        case "extra_forbidden":
            return f"{field} is no field of this request."
    return f"{field}: {said}" if field else said


def _action(error: Mapping[str, Any], field: str) -> str:
    if error["type"] == "extra_forbidden":
        return f"Take it out, or correct its spelling; {DESCRIBED}."
    known = ACTIONS.get(field.rpartition(".")[2])
    return known or f"Correct {field or 'the body'}, then send the request again; {DESCRIBED}."
