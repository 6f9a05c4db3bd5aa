"""The OpenAPI documents of custom kinds, as far as they are those kinds' own.

``python -m kubesim.tests.contract.custom_openapi --kubeconfig FILE`` records those of a real control plane anew.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from kubesim.tests.contract.plain import Plain

DEFINITIONS = [*yaml.safe_load_all(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))]
ANSWERS = Path(__file__).with_name("custom_openapi.answers.json")
GROUP, VERSIONS = "shop.example.com", ("v1", "v1alpha1")
DEFINED = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MINE = "com.example.shop."
ATTEMPTS, PAUSE_S = 100, 0.2


def documents(cluster: Plain) -> dict[str, Any]:
    """Return both versions' documents and what version 2 says, once they speak of every definition."""
    for definition in DEFINITIONS:
        made = cluster("POST", DEFINED, json.dumps(definition).encode())
        assert made.code in (201, 409), made.body
    found = {f"v3/{version}": _when(lambda v=version: _third(cluster, v), _whole) for version in VERSIONS}
    return {**found, "v2": _when(lambda: _second(cluster), _whole)}


def _when(ask: Callable[[], Any], ready: Callable[[Any], bool]) -> Any:
    for _ in range(ATTEMPTS):
        if ready(found := ask()):
            return found
        time.sleep(PAUSE_S)  # the real one publishes a second later, and tells nobody
    raise AssertionError("the documents never spoke of the definitions")


def _whole(found: Any) -> bool:
    return f"/apis/{GROUP}" in str(found) and (f"{MINE}v1." not in str(found) or "v1.ShopList" in str(found))


def _third(cluster: Plain, version: str) -> Any:
    found = cluster("GET", f"/openapi/v3/apis/{GROUP}/{version}").json or {"paths": {}, "components": {"schemas": {}}}
    schemas = found["components"].pop("schemas")
    own = {name: schema for name, schema in schemas.items() if name.startswith(MINE)}
    return _without_texts({**found, "schemas": own, "others": sorted(set(schemas) - set(own))})


def _second(cluster: Plain) -> Any:
    found = cluster("GET", "/openapi/v2", headers={"Accept": "application/json"}).json
    own = {name: schema for name, schema in found["definitions"].items() if name.startswith(MINE)}
    paths = {path: item for path, item in found["paths"].items() if GROUP in path and not path.endswith(f"{GROUP}/")}
    return _without_texts({"definitions": own, "paths": paths}, found.get("parameters", {}))


def _without_texts(value: Any, shared: dict[str, Any] | None = None) -> Any:
    """Return a document with its parameters in full, in the order of their names and without their texts."""
    if isinstance(value, list):
        found = [_without_texts(each, shared) for each in value]
        named = all(isinstance(each, dict) and {"name", "in"} <= each.keys() for each in found)
        return sorted(found, key=lambda each: each["name"]) if found and named else found
    if not isinstance(value, dict):
        return value
    if str(value.get("$ref", "")).startswith("#/parameters/"):
        value = (shared or {})[value["$ref"].rpartition("/")[2]]
    gone = {"description"} if {"name", "in"} <= value.keys() else set()
    return {name: _without_texts(inner, shared) for name, inner in value.items() if name not in gone}


def main(arguments: list[str] | None = None) -> int:
    """Record what a real control plane publishes."""
    parser = argparse.ArgumentParser(description="Record the OpenAPI documents of custom kinds.")
    parser.add_argument("--kubeconfig", type=Path, required=True)
    cluster = Plain("real", parser.parse_args(arguments).kubeconfig)
    ANSWERS.write_text(json.dumps(documents(cluster), indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
