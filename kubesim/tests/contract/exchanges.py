"""Requests and the answers that a real control plane gave to them, as data.

``exchanges/AREA.yaml`` says what is sent, ``exchanges/AREA.answers.json`` what came back, normalised. The second
file is recorded from a real control plane and never written by hand:
``python -m kubesim.tests.contract.exchanges --kubeconfig FILE [AREA ...]``.

A scene is a list of steps that follow one another in a fresh namespace. A step is ``METHOD path`` and may say
``body`` (an object) or ``raw`` (text) with its ``type``, ``headers``, ``accept``, ``user`` (who is impersonated),
``save`` (a name to be used as ``{name}`` from then on: the dotted path of a value in the answer), ``show`` (only
these parts of the answer count), ``lines`` (how many events of a watch to read), ``quiet`` (a preparation whose
answer does not count) and ``until`` (send it again until this is the code, or is found in the answer). ``{ns}``
stands for the namespace.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from kubesim import data
from kubesim.tests.contract import nodes
from kubesim.tests.contract.plain import Answer, Plain

FOLDER = Path(__file__).with_name("exchanges")
INTERNAL = 500
TRIES = 2000
"""How often a step is sent until its answer is the expected one; a real API server takes a second to serve a kind."""
CONTEXT, SHOWN = 60, 400
"""How many characters of a difference are shown before and from where it begins."""
LETTERS = "bcdfghjklmnpqrstvwxz"
HEADERS = ("Warning", "Retry-After", "Allow")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_RULES = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "<uid>"),
    (TIME, "<time>"),
    (re.compile(r"\beyJ[\w-]+\.[\w-]+\.[\w-]+"), "<token>"),
    (re.compile(r"\b10\.96(\.\d+){2}\b(?!/)"), "<address>"),
    (re.compile(r"(the ResourceVersion in record) \(\d+\)"), r"\1 (<version>)"),
    (re.compile(r'(?s)Invalid value: "\{\\"(apiVersion|kind)\\".*?\}": '), 'Invalid value: "<object>": '),
    (re.compile(r"(Too large resource version: \d+, current: )\d+"), r"\1<version>"),
    (re.compile(r"(https://kubernetes\.default\.svc)\.cluster\.local"), r"\1"),
    (re.compile(r"\bkube-api-access-\w{5}\b"), "kube-api-access-<random>"),
)
AGE = re.compile(r"\d+[sd]|\d+d\d+h")
CELLS = re.compile(r"cells(\.\d+)?$")
_VERSIONS = frozenset({"resourceVersion", "uid", "continue", "selfLink"})
_UNORDERED = frozenset({"nonResourceRules", "managedFields"})
"""Lists without an order to hold to: rules come from a cache of bindings as they lie there, and managers
are sorted by the second in which each last wrote, which may be the same for two of them or not."""


@dataclass(frozen=True)
class Scene:
    """Some requests that follow one another."""

    area: str
    name: str
    steps: tuple[dict[str, Any], ...]


@cache
def load(area: str) -> tuple[Scene, ...]:
    """Return the scenes of an area."""
    document = data.read(FOLDER / f"{area}.yaml")
    return tuple(Scene(area, name, tuple(_step(step) for step in steps)) for name, steps in document.items())


@cache
def answers(area: str) -> dict[str, list[Any]]:
    """Return what the real control plane answered, by scene."""
    path = FOLDER / f"{area}.answers.json"
    recorded = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    shown: dict[str, list[Any]] = normalised(recorded, "")
    return shown


def areas() -> list[str]:
    """Return the names of all areas."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def _step(entry: str | dict[str, Any]) -> dict[str, Any]:
    if isinstance(entry, str):
        return {"send": entry}
    (method,) = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} & entry.keys()
    return {**{key: value for key, value in entry.items() if key != method}, "send": f"{method} {entry[method]}"}


def play(scene: Scene, cluster: Plain) -> list[Any]:
    """Run a scene in a namespace of its own and return its normalised answers."""
    with_namespace = any("{ns}" in json.dumps(step) for step in scene.steps)
    known = {"ns": f"contract-{''.join(random.choices(LETTERS, k=8))}"}
    if with_namespace:
        make_namespace(cluster, known["ns"])
    try:
        return [found for step in scene.steps if (found := _play(step, cluster, known)) is not None]
    finally:
        if with_namespace:
            cluster("DELETE", f"/api/v1/namespaces/{known['ns']}")


def make_namespace(cluster: Plain, name: str) -> None:
    """Create a namespace and wait until a pod could be made in it."""
    made = cluster("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    assert made.code == 201, made.body
    accounts = f"/api/v1/namespaces/{name}/serviceaccounts?fieldSelector=metadata.name%3Ddefault&watch=1"
    assert cluster.events(f"{accounts}&timeoutSeconds=20", 1), "no service account came"
    maps = f"/api/v1/namespaces/{name}/configmaps?fieldSelector=metadata.name%3Dkube-root-ca.crt&watch=1"
    assert cluster.events(f"{maps}&timeoutSeconds=20", 1), "no certificate of the cluster came"


def _play(step: dict[str, Any], cluster: Plain, known: dict[str, str]) -> Any:
    method, _, path = _filled(step["send"], known).partition(" ")
    headers = {str(key): str(value) for key, value in _filled(step.get("headers", {}), known).items()}
    if "accept" in step:
        headers["Accept"] = step["accept"]
    if "user" in step:
        headers["Impersonate-User"] = _filled(step["user"], known)
    if "lines" in step:
        found: Any = {"events": cluster.events(path, step["lines"], **headers)}
    else:
        kind, tries = step.get("type", "application/json"), TRIES
        answer = cluster(method, path, _body(step, known), kind=kind, headers=headers)
        while not _expected(answer, step.get("until", answer.code)) and (tries := tries - 1):
            answer = cluster(method, path, _body(step, known), kind=kind, headers=headers)
        for name, where in step.get("save", {}).items():
            known[name] = str(_at(answer.json, where))
        found = told(answer)
    if step.get("quiet"):
        assert found.get("code", 200) < 400, found
        return None
    if "show" in step:
        found = {"code": found.get("code")} | {where: _at(found, where) for where in step["show"]}
    return normalised(found, known["ns"])


def _expected(answer: Answer, until: int | str) -> bool:
    return answer.code == until if isinstance(until, int) else until in answer.body.decode(errors="replace")


def _body(step: dict[str, Any], known: dict[str, str]) -> Any:
    if "raw" in step:
        return str(_filled(step["raw"], known)).encode()
    return _filled(step["body"], known) if "body" in step else None


def told(answer: Answer) -> dict[str, Any]:
    """Return the parts of an answer that count."""
    headers = {name: answer.headers[name] for name in HEADERS if name in answer.headers}
    body = answer.json if answer.json is not None else answer.body.decode(errors="replace")
    told = {"code": answer.code, "type": answer.headers.get("Content-Type", ""), **headers, "body": body}
    if answer.code != INTERNAL or (isinstance(body, dict) and body.get("reason")):
        return told
    return _blamed(told | {"type": "application/json", "body": _spoken(body)})


def _spoken(body: Any) -> dict[str, Any]:
    """Return a Status, also of a text that says of which request it speaks, and the reason."""
    if isinstance(body, dict):
        return body
    message = re.sub(r'Internal Server Error: "[^"]*": ', "", body).removesuffix("\n")
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message}


def _blamed(told: dict[str, Any]) -> dict[str, Any]:
    """Return a mistake of the client's that a real API server owns up to: kubesim says the same with code 400."""
    return {**told, "code": 400, "body": {**told["body"], "code": 400, "reason": "BadRequest"}}


def _filled(value: Any, known: dict[str, str]) -> Any:
    """Return a value with every ``{name}`` that is known replaced."""
    if isinstance(value, str):
        return re.sub(r"\{(\w+)\}", lambda match: known.get(match[1], match[0]), value)
    if isinstance(value, dict):
        return {_filled(key, known): _filled(part, known) for key, part in value.items()}
    return [_filled(part, known) for part in value] if isinstance(value, list) else value


def _at(value: Any, where: str) -> Any:
    """Return the part of an answer that a dotted path names; None where there is none.

    ``*`` goes through a list; a dot within a name is written ``\\.``.
    """
    head, _, rest = (part.replace("\0", ".") for part in where.replace("\\.", "\0").partition("."))
    if head == "*":
        return [_at(part, rest) if rest else part for part in value or []]
    if isinstance(value, list):
        inner = value[int(head)] if int(head) < len(value) else None
    else:
        inner = value.get(head) if isinstance(value, dict) else None
    return _at(inner, rest) if rest and inner is not None else inner


def normalised(value: Any, namespace: str, key: str = "") -> Any:
    """Return an answer without what no two runs share: versions, uids, times and the namespace's name."""
    if isinstance(value, dict):
        return {_clean(name, namespace): normalised(part, namespace, name) for name, part in value.items()}
    if isinstance(value, list):
        parts = [normalised(part, namespace, key) for part in value]
        return sorted(parts, key=_spelled) if key in _UNORDERED or _are_conflicts(parts) else parts
    if not isinstance(value, str):
        return value
    if CELLS.search(key) and AGE.fullmatch(value):
        return "<age>"
    if key in _VERSIONS and value:
        return f"<{key}>"
    return _clean(value, namespace)


def _spelled(part: Any) -> str:
    return json.dumps(part, sort_keys=True)


def _are_conflicts(parts: list[Any]) -> bool:
    """Tell the causes of a conflict of managers, whose order a real API server draws."""
    return any(isinstance(part, dict) and part.get("reason") == "FieldManagerConflict" for part in parts)


@lru_cache(8192)  # most are names of fields
def _clean(value: str, namespace: str) -> str:
    text = value.replace(namespace, "{ns}") if namespace else value
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text


def differences(scene: Scene, found: list[Any], wanted: list[Any]) -> Iterator[str]:
    """Yield, step by step, where answers are not the recorded ones."""
    counted = [step for step in scene.steps if not step.get("quiet")]
    for number, (step, one, other) in enumerate(zip(counted, found, wanted, strict=True), 1):
        parts = [f"  {where}: answered {ours}, recorded {theirs}" for where, ours, theirs in compared(one, other)]
        if parts:
            yield "\n".join([f"{number}. {step['send']} {json.dumps(step.get('body', ''))}", *parts])


def compared(ours: Any, theirs: Any, where: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield (path, ours, theirs) for every part of two JSON values that is not the same."""
    kinds = [found.get("kind") if isinstance(found, dict) else None for found in (ours, theirs)]
    if kinds[0] != kinds[1] and "Status" in kinds and None not in kinds:
        yield where, _shown(ours.get("message", kinds[0])), _shown(theirs.get("message", kinds[1]))
    elif isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted(ours.keys() | theirs.keys()):
            yield from compared(ours.get(key, _NONE), theirs.get(key, _NONE), f"{where}.{key}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for index, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from compared(one, other, f"{where}[{index}]")
    elif type(ours) is not type(theirs) or _in_order(ours) != _in_order(theirs):
        yield where, *_apart(_shown(ours), _shown(theirs))


def _in_order(value: Any) -> Any:
    """Return a text that lists errors with its lines sorted, for upstream lists them in the order of a Go map."""
    if isinstance(value, str) and "errors:\n" in value:
        head, _, lines = value.partition("errors:\n")
        return [head, *sorted(lines.splitlines())]
    return value


def _apart(ours: str, theirs: str) -> tuple[str, str]:
    """Return two texts without most of what they share."""
    same = len(os.path.commonprefix([ours, theirs]))
    start = max(0, same - CONTEXT)
    return ours[start : same + SHOWN], theirs[start : same + SHOWN]


class _Nothing:
    """What stands for a part that is not there."""


_NONE = _Nothing()


def _shown(value: Any) -> str:
    return "nothing" if value is _NONE else json.dumps(value, ensure_ascii=False)


def record(area: str, cluster: Plain) -> None:
    """Write what a cluster answers to an area's scenes."""
    found = {scene.name: play(scene, cluster) for scene in load(area)}
    text = json.dumps(found, indent=1, sort_keys=True, ensure_ascii=False)
    (FOLDER / f"{area}.answers.json").write_text(text + "\n", encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    """Record the named areas, or all."""
    parser = argparse.ArgumentParser(description="Record a real control plane's answers.")
    parser.add_argument(
        "--kubeconfig", type=Path, required=True, help="a real control plane of the version we follow"
    )
    parser.add_argument("areas", nargs="*", help="areas to record (default: all)")
    options = parser.parse_args(arguments)
    owner = Plain("real", options.kubeconfig)
    with tempfile.TemporaryDirectory() as folder, nodes.administrator(owner, Path(folder)) as kubeconfig:
        for area in options.areas or areas():
            record(area, Plain("real", kubeconfig))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
