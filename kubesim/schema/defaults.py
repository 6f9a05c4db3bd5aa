"""Writes the defaults of ``defaults.yaml`` into objects; what is more than a value there is a function here."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from copy import deepcopy
from functools import cache
from typing import Any

from kubesim import data
from kubesim.errors import Obj
from kubesim.imagenames import wrong_reference
from kubesim.schema import facts
from kubesim.schema.paths import condition, dig

_table: data.Reader[dict[str, list[str | Obj]]] = data.beside(__file__, "defaults.yaml")
CLIENT_STAYS_S = 10_800
Step = Callable[[Obj], None]


@cache
def default_of(name: str) -> Step | None:
    """Return what sets the defaults of a type, or None for one that has none."""
    steps = [_step(name, line) for line in _table().get(name, ())]
    if len(steps) < 2:
        return steps[0] if steps else None

    def apply(obj: Obj) -> None:
        for step in steps:
            step(obj)

    return apply


def _step(owner: str, line: str | Obj) -> Step:
    if isinstance(line, str):
        function: Step = globals()[line]
        return function
    if "without" in line:
        return _dropper(line["without"])
    conditions = [condition(*given) for given in line.get("if", {}).items()]
    values = {path: value for path, value in line.items() if path != "if"}
    written = {name for name in values if (owner, name) in facts.WRITTEN}
    flat = [(name, value) for name, value in values.items() if "." not in name]
    deep = [(path.split("."), value) for path, value in values.items() if "." in path]

    def fill(obj: Obj) -> None:
        if not all(holds(obj) for holds in conditions):
            return
        for name, value in flat:
            if name not in obj or (not obj[name] and (name in written or conditions)):
                obj[name] = value.copy() if isinstance(value, dict | list) else value
        for path, value in deep:
            _fill_in(obj, path, value)

    return fill


def _dropper(names: list[str]) -> Step:
    """Return what takes out fields of features that are off."""

    def drop(obj: Obj) -> None:
        for name in names:
            obj.pop(name, None)

    return drop


def _fill_in(obj: Obj, path: list[str], value: Any) -> None:
    """Set what lies deeper."""
    *above, name = path
    for step in above:
        obj = obj.setdefault(step, {})
    obj.setdefault(name, deepcopy(value))


def allocatable_resources(obj: Obj) -> None:
    """A node that says only what it has can give all of it to pods."""
    if "allocatable" not in obj and obj.get("capacity"):
        obj["allocatable"] = dict(obj["capacity"])


def image_pull_policy(obj: Obj) -> None:
    """An image without a tag, or with ``latest``, is always pulled."""
    if "image" in obj:
        obj.setdefault("imagePullPolicy", _pull_policy(obj["image"]))


def _pull_policy(image: str) -> str:
    """Return the pull policy that an image's reference implies."""
    if "@" in image or wrong_reference(image):
        return "IfNotPresent"
    tag = re.search(r":([^/:]+)$", image)
    return "Always" if tag is None or tag[1] == "latest" else "IfNotPresent"


def empty_directory(obj: Obj) -> None:
    """A volume of which nothing is said is an empty directory."""
    if not obj or list(obj) == ["name"]:
        obj["emptyDir"] = {}


def restarts_of_containers(obj: Obj) -> None:
    """Of containers only those that begin before the others may have a policy of their own, and be sidecars."""
    for holder in (*obj.get("containers", ()), *obj.get("ephemeralContainers", ())):
        holder.pop("restartPolicy", None)
    for holder in obj.get("initContainers", ()):
        if holder.get("restartPolicy", "Always") != "Always":
            del holder["restartPolicy"]


def stop_signals(obj: Obj) -> None:
    """Containers have no stop signals of their own yet, nor handlers of which nothing is left."""
    lifecycle = obj.get("lifecycle")
    if lifecycle and lifecycle.pop("stopSignal", None) is not None and not lifecycle:
        del obj["lifecycle"]


def grace(obj: Obj) -> None:
    """A pod that is to have ended before its end has a second."""
    if obj["spec"].get("terminationGracePeriodSeconds", 0) < 0:
        obj["spec"]["terminationGracePeriodSeconds"] = 1


def service_account(obj: Obj) -> None:
    """``serviceAccount`` is the old name of ``serviceAccountName``."""
    name = obj.get("serviceAccountName") or obj.get("serviceAccount")
    if name:
        obj["serviceAccountName"] = obj["serviceAccount"] = name


def requests_and_ports(obj: Obj) -> None:
    """Requests default to limits, and host ports to the container's, in pods only and not in their templates."""
    spec = obj["spec"]
    for holder in (*spec.get("containers", ()), *spec.get("initContainers", ())):
        for port in holder.get("ports", ()) if spec.get("hostNetwork") else ():
            port.setdefault("hostPort", port.get("containerPort"))
        resources = holder["resources"]
        if limits := resources.get("limits"):
            resources["requests"] = {**limits, **resources.get("requests", {})}


def addresses_of_pod(obj: Obj) -> None:
    """The one address of a pod is the first of all its addresses, and has the last word."""
    first, every = obj.get("podIP"), obj.get("podIPs")
    if first and (not every or every[0].get("ip") != first):
        obj["podIPs"] = [{"ip": first}]
    elif every and not first:
        obj["podIP"] = every[0].get("ip", "")


def node_ranges(obj: Obj) -> None:
    """The one range of a node's pods, which counts, is the first of its ranges."""
    one, several = obj.get("podCIDR"), obj.get("podCIDRs")
    if one and (not several or several[0] != one):
        obj["podCIDRs"] = [one]
    elif several:
        obj["podCIDR"] = several[0]


def own_labels(obj: Obj) -> None:
    """A job without labels takes those of its pod template."""
    labels = dig(obj, "spec.template.metadata.labels")
    if labels and not dig(obj, "metadata.labels"):
        obj.setdefault("metadata", {})["labels"] = dict(labels)


def labels_of_template(obj: Obj) -> None:
    """The labels and the selector of a replication controller default to the labels of the template."""
    own_labels(obj)
    if labels := dig(obj, "spec.template.metadata.labels"):
        obj["spec"]["selector"] = obj["spec"].get("selector") or dict(labels)


def claim_templates(obj: Obj) -> None:
    """The templates of claims say what they are."""
    for template in obj.get("volumeClaimTemplates", ()):
        template |= {"kind": "PersistentVolumeClaim", "apiVersion": "v1"}


def string_data(obj: Obj) -> None:
    """``stringData`` is a way to write ``data`` and is never read back."""
    plain = obj.pop("stringData", None)
    if plain:
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in plain.items()}
        obj["data"] = {**obj.get("data", {}), **encoded}


def session_affinity(obj: Obj) -> None:
    """Clients stay with their pod for some hours, where they stay at all."""
    if obj["sessionAffinity"] == "None":
        obj.pop("sessionAffinityConfig", None)
    elif obj["sessionAffinity"] == "ClientIP" and dig(obj, "sessionAffinityConfig.clientIP.timeoutSeconds") is None:
        obj["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": CLIENT_STAYS_S}}


def target_port(obj: Obj) -> None:
    """A port is its own target."""
    if obj.get("targetPort") in (None, "", 0) and "port" in obj:
        obj["targetPort"] = obj["port"]


def limits_and_requests(obj: Obj) -> None:
    """For containers, limits default to the maximum and requests to the limits, else to the minimum."""
    if obj.get("type") != "Container":
        return
    limits = {**obj.get("max", {}), **obj.get("default", {})}
    requests = {**obj.get("min", {}), **limits, **obj.get("defaultRequest", {})}
    for name, value in (("default", limits), ("defaultRequest", requests)):
        if value:
            obj[name] = value


def rules_or_backend(obj: Obj) -> None:
    """That there are no rules is seen only where nothing else answers either."""
    if not obj.get("rules") and obj.get("defaultBackend") is not None:
        obj.pop("rules", None)


def names_of_kind(obj: Obj) -> None:
    """The names of one and of many objects follow from the kind."""
    if kind := obj.get("kind"):
        obj["singular"] = obj.get("singular") or kind.lower()
        obj["listKind"] = obj.get("listKind") or f"{kind}List"
