"""Objects that are wrong in one place each, and what a real control plane says of them.

``wrongs/AREA.yaml`` holds one rich object for each path that it may be created at (several, where something stands
after a # that is no part of the path). From it, objects are made that
differ in one field: it is missing, empty, too long, of a wrong form or out of range, a list is empty or has an entry
twice. Each is sent with ``dryRun=All``. ``wrongs/AREA.answers.json`` says what came back: the causes in their order
("field: message"), or, of what is taken, a digest of the object with its defaults. It is recorded from a real control
plane and never written by hand: ``python -m kubesim.tests.contract.wrongs --kubeconfig FILE [AREA ...]``; with
``--compare`` nothing is written, and what another cluster says differently is printed.
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import json
import re
import tempfile
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from http.client import HTTPConnection, RemoteDisconnected
from itertools import islice
from pathlib import Path
from typing import Any

from kubesim import data
from kubesim.tests.contract import nodes
from kubesim.tests.contract.plain import Plain

FOLDER = Path(__file__).with_name("wrongs")
TEXTS = ("", "A b", "a/b/c", "x" * 260, "-a", "*")
NUMBERS = (-1, 0, 99999, 2147483647, "a")
MAPS = ("labels", "matchLabels", "annotations", "data", "hard", "nodeSelector", "limits", "requests", "capacity")
FIXED = ("apiVersion", "kind")
LONG = re.compile(r"(.)\1{30,}")
DRAWN = (
    (re.compile(r"kube-api-access-\w{5}"), "kube-api-access-"),
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "<uid>"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "<time>"),
)
NONE = "no answer"
"""Where a real API server stumbles over its own feet, anything but a crash is right."""
UNTYPED = "undeclared reference to"
"""Answers of the type checker of expressions; kubesim has none, takes them, and they fail when asked."""
UNRULED = re.compile(
    r"windowsOptions|hostProcess|iscsi|initiatorName|flexVolume|tokenRequests|topologyKeys|scheduling\.tolerations|"
    r"^capacity|apparmor\.security|seccomp\.security|annotation and field must match|"
    r"^spec\.securityContext( |\.appArmorProfile)|"
    r"onExitCodes|successPolicy|managedBy|maxFailedIndexes|invalid DNS label|backoffLimitPerIndex to be set|"
    r"volumeDevices|recursiveReadOnly|volumeClaimTemplate\.metadata|PVC name|dataSource|'recycle'|provisioner|"
    r"allowedTopologies|resources\.claims|resourceClaims|hugepages|[sS]ysctls|searches|divisor|"
    r"^parameters|unmasked|atchLabelKeys|minDomains|topologySpreadConstraints.*Duplicate|pod-deletion-cost|"
    r"config\.mirror|overhead|preStop\.sleep|initContainers\W\d+\W+ports.*hostPort|^spec\.resources|podCIDRs|"
    r"[lL]oad-?[bB]alancer-?[sS]ource-?[rR]anges|ipFamil|clusterIPs|topology-mode|ingress\.class|policyTypes: |"
    r"webhooks\W\d+\W+name|admissionReviewVersions|clientConfig\.(url|service\.path)|auditAnnotations|"
    r"ules\W\d+\W+resource(s|Names)|matchConditions.*Duplicate|paramKind\.apiVersion|spec\.version\+|signerName|"
    r"invalid label selector|api-approved|selectableFields|containerResource\.name|given metric source only|"
    r"kubernetes-list-type|projected.*downwardAPI|conflicting duplicate paths|LimitRequestRatio|"
    r"storage value is required|timeZone"
)
"""Fields of which kubesim asks no more than their types, or less than upstream, and words of rules that it lacks."""
OWN = ("uid", "creationTimestamp", "managedFields", "resourceVersion", "generation")
Place = tuple[str | int, ...]


def areas() -> list[str]:
    """Return the names of all areas."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


@cache
def bases(area: str) -> dict[str, dict[str, Any]]:
    """Return the objects of an area by the path that they are created at."""
    found: dict[str, dict[str, Any]] = data.read(FOLDER / f"{area}.yaml")
    return found


@cache
def answers(area: str) -> dict[str, dict[str, Any]]:
    """Return what the real control plane answered, by path and by what was wrong."""
    path = FOLDER / f"{area}.answers.json"
    found: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


def changed(base: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the object itself and those that are wrong in one place, each with its name."""
    yield "as it is", base
    for place, value in _places(base):
        where = ".".join(map(str, place))
        if place[0] in FIXED:
            continue
        yield f"{where} missing", _with(base, place, None, missing=True)
        for wrong in _wrong(place, value):
            yield f"{where} = {_short(json.dumps(wrong))}", _with(base, place, wrong)


def _places(value: Any, place: Place = ()) -> Iterator[tuple[Place, Any]]:
    entries: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in entries:
        yield from _places(inner, (*place, key))
    if place:
        yield place, value


def _wrong(place: Place, value: Any) -> Iterator[Any]:
    match value:
        case bool():
            yield not value
        case int():
            yield from NUMBERS
        case str():
            yield from (*TEXTS, "-1") if value[:1].isdigit() else TEXTS
        case list():
            yield []
            yield [*value, copy.deepcopy(value[0])]
        case dict():
            yield {}
            if place[-1] in MAPS:
                yield from ({**value, "A b/c d": "x"}, {**value, "k" * 70: "1"})


def _with(base: Any, place: Place, value: Any, *, missing: bool = False) -> Any:
    """Return an object with another value in one place; all that is beside the way there is the object's own."""
    made, (key, *rest) = copy.copy(base), place
    if rest:
        made[key] = _with(base[key], tuple(rest), value, missing=missing)
    elif missing:
        del made[key]
    else:
        made[key] = value
    return made


def _short(text: str) -> str:
    return LONG.sub(lambda run: f"{run[1]}*{len(run[0])}", text)


def play(path: str, base: dict[str, Any], cluster: Plain, every: int = 1) -> dict[str, Any]:
    """Send an object and its changes, or each n-th of them; return what came back by their names."""
    with closing(cluster.connect()) as connection:
        played = islice(changed(base), 0, None, every)
        return {name: _answer(connection, cluster, path, obj) for name, obj in played}


def _answer(connection: HTTPConnection, cluster: Plain, path: str, obj: dict[str, Any]) -> Any:
    headers = {"Content-Type": "application/json", **cluster.credentials}
    connection.request("POST", f"{path.partition('#')[0]}?dryRun=All", json.dumps(obj).encode(), headers)
    try:
        answer = connection.getresponse()
    except RemoteDisconnected:
        connection.close()  # and the next request opens it again
        return NONE
    text = answer.read().decode()
    for pattern, instead in DRAWN:
        text = pattern.sub(instead, text)
    named = bool((obj.get("metadata") or {}).get("name"))
    return told(answer.status, json.loads(text), named=named)


def told(code: int, body: dict[str, Any], *, named: bool = True) -> Any:
    """Return what counts of an answer."""
    if code < 300:
        own = OWN if named else (*OWN, "name")
        meta = {name: value for name, value in body["metadata"].items() if name not in own}
        kept = json.dumps({**body, "metadata": meta}, sort_keys=True)
        return f"taken: {hashlib.sha256(kept.encode()).hexdigest()[:12]}"
    causes = (body.get("details") or {}).get("causes") or ()
    if code == 422 and causes:
        return [_short(f"{cause.get('field', '')}: {cause.get('message', '')}") for cause in causes]
    return f"{code}: {_short(body.get('message', ''))}"


def differences(found: dict[str, Any], recorded: dict[str, Any]) -> Iterator[str]:
    """Yield what is answered differently."""
    for name, answer in found.items():
        wanted = _ruled(recorded.get(name))
        if UNTYPED in str(wanted) or UNRULED.search(name) or wanted == []:
            continue
        stumbled = str(wanted).startswith((NONE, "500"))
        if _ruled(answer) != wanted and (not stumbled or str(answer).startswith("500")):
            yield f"{name}\n    answered {answer}\n    recorded {recorded.get(name)}"


def _ruled(answer: Any) -> Any:
    """Return the causes of an answer that kubesim has rules for."""
    return [cause for cause in answer if not UNRULED.search(cause)] if isinstance(answer, list) else answer


def record(area: str, cluster: Plain) -> None:
    """Write what a cluster answers."""
    found = {path: play(path, base, cluster) for path, base in bases(area).items()}
    text = json.dumps(found, indent=0, ensure_ascii=False)
    (FOLDER / f"{area}.answers.json").write_text(text + "\n", encoding="utf-8")


def compare(area: str, cluster: Plain) -> None:
    """Print what a cluster answers differently."""
    for path, base in bases(area).items():
        apart = list(differences(play(path, base, cluster), answers(area).get(path, {})))
        print("\n".join([*apart, f"{path}: {len(apart)} of {sum(1 for _ in changed(base))} differ", ""]))


def main(arguments: list[str] | None = None) -> int:
    """Record the named areas, or all; or compare."""
    parser = argparse.ArgumentParser(description="Record what a real control plane says of wrong objects.")
    parser.add_argument("--kubeconfig", type=Path, required=True, help="the cluster to ask")
    parser.add_argument("--compare", action="store_true", help="write nothing; print what is answered differently")
    parser.add_argument("areas", nargs="*", help="areas (default: all)")
    options = parser.parse_args(arguments)
    if options.compare:
        for area in options.areas or areas():
            compare(area, Plain("other", options.kubeconfig))
        return 0
    with (
        tempfile.TemporaryDirectory() as folder,
        nodes.administrator(Plain("real", options.kubeconfig), Path(folder)) as kubeconfig,
    ):
        for area in options.areas or areas():
            record(area, Plain("real", kubeconfig))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
