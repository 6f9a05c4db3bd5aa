"""The lines that describe makes of objects, as ``describe.yaml`` lays them out; with tabs, to be aligned."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from kubesim import data
from kubesim.api.durations import since
from kubesim.shell.kubectl.client import Obj

ACRONYMS = ("API", "URL", "UID", "OSB", "GUID")
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
LONGEST_NOTE = 140
PROBES = {"livenessProbe": "Liveness", "readinessProbe": "Readiness", "startupProbe": "Startup"}
STATES = {
    "Init Containers": "initContainerStatuses",
    "Containers": "containerStatuses",
    "Ephemeral Containers": "ephemeralContainerStatuses",
}
ROLE = "node-role.kubernetes.io/"
LAYOUT: dict[str, dict[str, Any]] = data.table(__file__, "describe.yaml")


def page(name: str, obj: Obj, indent: str = "") -> str:
    """Return an object as a layout has it."""
    out = ""
    for title, given in LAYOUT[name].items():
        where, *default = given if isinstance(given, list) else [given]
        path, _, form = where.partition(" ")
        value = at(obj, path)
        if form == "rows":
            out += _rows(title, value or [], *default)
        elif form in BLOCKS:
            out += BLOCKS[form](indent + title, value, obj)
        elif value not in (None, "", [], {}):
            out += f"{indent}{title}:\t{flat(FORMS[form](value) if form else value)}\n"
        elif default:
            out += f"{indent}{title}:\t{default[0]}\n"
    return out


def _rows(title: str, found: list[Obj], head: str, line: str, empty: str = "") -> str:
    """Return a table of a list's entries: its head, and what a line of it is."""
    times = [{key: moment(value) for key, value in each.items() if key.endswith("Time")} for each in found]
    lines = [line.format_map(_Row(each | when)) + "\n" for each, when in zip(found, times, strict=True)]
    return f"{title}:\n{head}{''.join(lines)}" if found else empty


class _Row(dict[str, Any]):
    """An entry, in which nothing is missing."""

    def __missing__(self, key: str) -> str:
        return moment(None) if key.endswith("Time") else ""


def at(obj: Any, path: str) -> Any:
    """Return what stands at a path with dots; None where there is nothing."""
    for part in filter(None, path.split(".")):
        obj = obj.get(part) if isinstance(obj, dict) else None
    return obj if path else None


def flat(value: Any) -> str:
    """Return a value as Go prints it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def moment(text: str | None) -> str:
    """Return a time as RFC 1123 writes it."""
    when = datetime.fromisoformat(text) if text else datetime(1, 1, 1, tzinfo=UTC)
    return when.strftime("%a, %d %b ") + f"{when.year:04d}" + when.strftime(" %H:%M:%S +0000")


def labels(title: str, found: Obj | None, obj: Obj | None = None) -> str:
    """Return labels, one a line."""
    lines = [f"{key}={value}" for key, value in sorted((found or {}).items())] or ["<none>"]
    return f"{title}:\t" + "\n\t".join(lines) + "\n"


def notes(title: str, found: Obj | None, obj: Obj | None = None) -> str:
    """Return annotations, long ones below their names."""
    lines: list[str] = []
    for key, value in sorted((found or {}).items()):
        text = value.removesuffix("\n")
        if key == LAST_APPLIED:
            continue
        if len(text) + len(key) + 2 <= LONGEST_NOTE and "\n" not in text:
            lines.append(f"{key}: {text}")
            continue
        lines.append(f"{key}:")
        most = LONGEST_NOTE - 2
        lines += [f"  {part[:most]}..." if len(part) > most else f"  {part}" for part in text.split("\n")]
    return f"{title}:\t" + "\n\t".join(lines or ["<none>"]) + "\n"


def _controller(title: str, found: list[Obj] | None, obj: Obj) -> str:
    owner = next((each for each in found or [] if each.get("controller")), None)
    return f"{title}:\t{owner['kind']}/{owner['name']}\n" if owner else ""


def selector(found: Obj) -> str:
    """Return a label selector as text."""
    parts = [(key, f"{key}={value}") for key, value in (found.get("matchLabels") or {}).items()]
    for each in found.get("matchExpressions") or []:
        word, values = each["operator"], f"({','.join(sorted(each.get('values') or []))})"
        shown = {"In": f"{each['key']} in {values}", "NotIn": f"{each['key']} notin {values}"}
        parts.append((each["key"], shown.get(word, each["key"] if word == "Exists" else f"!{each['key']}")))
    return ",".join(text for _, text in sorted(parts, key=lambda pair: str(pair[0])))


def events(items: list[Obj], now: datetime) -> str:
    """Return the events of an object."""
    if not items:
        return "Events:\t<none>\n"
    items = sorted(items, key=lambda event: event.get("firstTimestamp") or event.get("eventTime") or "")
    out = "Events:\n  Type\tReason\tAge\tFrom\tMessage\n  ----\t------\t----\t----\t-------\n"
    for event in items:
        first = since(event.get("eventTime") or event.get("firstTimestamp"), now)
        series, count = event.get("series"), event.get("count") or 0
        if series:
            first = f"{since(series.get('lastObservedTime'), now)} (x{series.get('count')} over {first})"
        elif count > 1:
            first = f"{since(event.get('lastTimestamp'), now)} (x{count} over {first})"
        source = (event.get("source") or {}).get("component") or event.get("reportingComponent") or ""
        message = (event.get("message") or "").strip()
        out += f"  {event.get('type', '')}\t{event.get('reason', '')}\t{first}\t{source}\t{message}\n"
    return out


def _containers(title: str, found: list[Obj] | None, obj: Obj) -> str:
    name, space = title.strip(), title[: -len(title.strip())]
    if not found and name != "Containers":
        return ""
    pod = obj if "kind" in obj else None
    known = {state["name"]: state for state in at(obj, f"status.{STATES[name]}") or []}
    out = f"{title}:{'' if found else ' <none>'}\n"
    for container in found or []:
        out += f"  {' ' if space else ''}{container['name']}:\n"
        out += _basic(container, known.get(container["name"]))
        out += _words(container)
        state = known.get(container["name"])
        if state:
            out += _state("State", state.get("state") or {})
            if "terminated" in (state.get("lastState") or {}):
                out += _state("Last State", state["lastState"])
            out += f"    Ready:\t{bool(state.get('ready'))}\n    Restart Count:\t{state.get('restartCount', 0)}\n"
        out += _resources("    ", container.get("resources"), {})
        out += "".join(f"    {name}:\t{_probe(container[key])}\n" for key, name in PROBES.items() if key in container)
        out += _environment(container, pod) + _mounts(container)
    return out


def _basic(container: Obj, state: Obj | None) -> str:
    out = f"    Container ID:\t{state.get('containerID', '')}\n" if state else ""
    out += f"    Image:\t{container.get('image', '')}\n"
    out += f"    Image ID:\t{state.get('imageID', '')}\n" if state else ""
    for title, key in (("Port", "containerPort"), ("Host Port", "hostPort")):
        ports = [
            f"{port.get(key, 0)}/{port.get('protocol', 'TCP')}" + (f" ({port['name']})" if port.get("name") else "")
            for port in container.get("ports") or []
        ]
        out += f"    {title}{'s' if len(ports) > 1 else ''}:\t{', '.join(ports) or '<none>'}\n"
    profile = (container.get("securityContext") or {}).get("seccompProfile")
    return out + (f"    SeccompProfile:\t{profile['type']}\n" if profile else "")


def _words(container: Obj) -> str:
    out = ""
    for title, key in (("Command", "command"), ("Args", "args")):
        lines = [line for word in container.get(key) or [] for line in word.split("\n")]
        out += f"    {title}:\n" + "".join(f"      {line}\n" for line in lines) if lines else ""
    return out


def _state(title: str, state: Obj) -> str:
    if "running" in state:
        return f"    {title}:\tRunning\n      Started:\t{moment(state['running'].get('startedAt'))}\n"
    if "terminated" not in state:
        reason = (state.get("waiting") or {}).get("reason")
        return f"    {title}:\tWaiting\n" + (f"      Reason:\t{reason}\n" if reason else "")
    return f"    {title}:\tTerminated\n" + page("Terminated", state["terminated"], "      ")


def _resources(title: str, found: Obj | None, obj: Obj) -> str:
    space = title if title.isspace() else "  "
    out = "" if title.isspace() or not found else f"{title}:\n"
    for name in ("Limits", "Requests"):
        amounts = sorted(((found or {}).get(name.lower()) or {}).items())
        out += f"{space}{name}:\n" if amounts else ""
        out += "".join(f"{space}  {key}:\t{value}\n" for key, value in amounts)
    return out


def _probe(probe: Obj) -> str:
    attributes = (
        f"delay={probe.get('initialDelaySeconds', 0)}s timeout={probe.get('timeoutSeconds', 1)}s "
        f"period={probe.get('periodSeconds', 10)}s #success={probe.get('successThreshold', 1)} "
        f"#failure={probe.get('failureThreshold', 3)}"
    )
    if "exec" in probe:
        return f"exec [{' '.join(probe['exec'].get('command') or [])}] {attributes}"
    if "httpGet" in probe:
        to = probe["httpGet"]
        where = f"{to.get('scheme', 'HTTP').lower()}://{to.get('host', '')}:{to.get('port')}"
        return f"http-get {where}{to.get('path', '')} {attributes}"
    if "tcpSocket" in probe:
        return f"tcp-socket {probe['tcpSocket'].get('host', '')}:{probe['tcpSocket'].get('port')} {attributes}"
    if "grpc" in probe:
        return f"grpc <pod>:{probe['grpc'].get('port')} {probe['grpc'].get('service') or ''} {attributes}"
    return f"unknown {attributes}"


def _environment(container: Obj, pod: Obj | None) -> str:
    out = ""
    if container.get("envFrom"):
        out += "    Environment Variables from:\n"
        for each in container["envFrom"]:
            kind = "ConfigMap" if "configMapRef" in each else "Secret"
            ref = each.get("configMapRef") or each.get("secretRef") or {}
            prefix = f" with prefix '{each['prefix']}'" if each.get("prefix") else ""
            out += f"      {ref.get('name', '')}\t{kind}{prefix}\tOptional: {flat(bool(ref.get('optional')))}\n"
    out += f"    Environment:{'' if container.get('env') else chr(9) + '<none>'}\n"
    return out + "".join(_variable(each, container, pod) for each in container.get("env") or [])


def _variable(each: Obj, container: Obj, pod: Obj | None) -> str:
    source, name = each.get("valueFrom") or {}, each["name"]
    if not source:
        return f"      {name}:\t" + (each.get("value") or "").replace("\n", "\n      \t") + "\n"
    if "fieldRef" in source:
        path = source["fieldRef"]["fieldPath"]
        return f"      {name}:\t{_field(path, pod)} ({source['fieldRef'].get('apiVersion', 'v1')}:{path})\n"
    if "resourceFieldRef" in source:
        wanted = source["resourceFieldRef"]["resource"]
        kind, _, amount = wanted.partition(".")
        value = ((container.get("resources") or {}).get(kind) or {}).get(amount, "0")
        shown = "node allocatable" if value == "0" and wanted in ("limits.cpu", "limits.memory") else value
        return f"      {name}:\t{shown} ({wanted})\n"
    kind, ref = next(iter(source.items()))
    where = "in secret" if kind == "secretKeyRef" else "of config map"
    optional = flat(bool(ref.get("optional")))
    return f"      {name}:\t<set to the key '{ref['key']}' {where} '{ref.get('name', '')}'>\tOptional: {optional}\n"


def _field(path: str, pod: Obj | None) -> str:
    head, _, key = path.removesuffix("']").partition("['")
    value = at(pod, head)
    found = value.get(key) if key and isinstance(value, dict) else value
    return "" if found is None else str(found)


def _mounts(container: Obj) -> str:
    mounts = sorted(container.get("volumeMounts") or [], key=lambda mount: str(mount["mountPath"]))
    out = f"    Mounts:{'' if mounts else chr(9) + '<none>'}\n"
    for mount in mounts:
        flags = ("ro" if mount.get("readOnly") else "rw") + (
            f',path="{mount["subPath"]}"' if mount.get("subPath") else ""
        )
        out += f"      {mount['mountPath']} from {mount['name']} ({flags})\n"
    return out


def _volumes(title: str, found: list[Obj] | None, obj: Obj) -> str:
    out = f"{title}:{'' if found else chr(9) + '<none>'}\n"
    for volume in found or []:
        out += f"  {' ' if title.startswith(' ') else ''}{volume['name']}:\n"
        kind = next((key for key in volume if key != "name"), "")
        given = volume.get(kind) or {}
        out += page(kind, given, "    ") if kind in LAYOUT else f"    Type:\t{_title(kind)}\n" + content(given, 2)
    return out


def _sources(title: str, found: list[Obj] | None, obj: Obj) -> str:
    pairs = [next(iter(each.items())) for each in found or []]
    return "".join(page(f"projected {kind}", inner, "    ") for kind, inner in pairs if f"projected {kind}" in LAYOUT)


def content(found: Obj, level: int) -> str:
    """Return an object field by field."""
    out, space = "", "  " * level
    for field, value in sorted(found.items()):
        if isinstance(value, dict):
            out += f"{space}{_title(field)}:\n" + content(value, level + 1)
        elif isinstance(value, list):
            out += f"{space}{_title(field)}:\n"
            for item in value:
                out += content(item, level + 1) if isinstance(item, dict) else f"{space}  {flat(item)}\n"
        else:
            out += f"{space}{_title(field)}:\t{'<nil>' if value is None else flat(value)}\n"
    return out


def _title(field: str) -> str:
    if not re.fullmatch(r"[A-Za-z-]+", field):
        return field
    words = re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|-+", field)
    return " ".join(word.upper() if word.upper() in ACRONYMS else word[:1].upper() + word[1:] for word in words)


def _tolerations(title: str, found: list[Obj] | None, obj: Obj) -> str:
    lines = []
    for each in sorted(found or [], key=lambda one: str(one.get("key", ""))):
        key, value, effect = each.get("key", ""), each.get("value", ""), each.get("effect", "")
        text = key + (f"={value}" if value else "") + (f":{effect}" if effect else "")
        if each.get("operator") == "Exists" and not value:
            text += " op=Exists" if key or effect else "op=Exists"
        seconds = each.get("tolerationSeconds")
        lines.append(text + (f" for {seconds}s" if seconds is not None else ""))
    return f"{title}:\t" + "\n\t".join(lines or ["<none>"]) + "\n"


def _spread(title: str, found: list[Obj] | None, obj: Obj) -> str:
    lines = []
    for each in sorted(found or [], key=lambda one: str(one["topologyKey"])):
        text = f"{each['topologyKey']}:{each['whenUnsatisfiable']} when max skew {each['maxSkew']} is exceeded"
        lines.append(
            text + (f" for selector {selector(each['labelSelector']) or '<none>'}" if "labelSelector" in each else "")
        )
    return f"{title}:\t" + "\n\t".join(lines) + "\n" if lines else ""


def _pairs(found: Obj) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(found.items()))


def _roles(found: Obj) -> str:
    return ",".join(sorted({key.removeprefix(ROLE) for key in found if key.startswith(ROLE)})) or "<none>"


Block = Callable[[str, Any, Obj], str]
FORMS: dict[str, Callable[[Any], str]] = {
    "moment": moment,
    "selector": selector,
    "seconds": "{}s".format,
    "joined": ",".join,
    "pairs": _pairs,
    "roles": _roles,
}
"""Forms of one value."""
_BLOCKS = (labels, notes, _controller, _containers, _resources, _volumes, _sources, _tolerations, _spread)
BLOCKS: dict[str, Block] = {
    **{block.__name__.removeprefix("_"): block for block in _BLOCKS},
    "some_notes": lambda title, found, obj: notes(title, found) if found else "",
    "page": lambda title, found, obj: f"{title}:\n" + page(title.strip(), found or {}, "  "),
}
"""Forms that may have several lines, or none."""
