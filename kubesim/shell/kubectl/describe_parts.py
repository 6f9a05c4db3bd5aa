"""What describe says of containers, volumes, labels and events; lines with tabs, to be aligned."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kubesim import data
from kubesim.api.durations import since
from kubesim.shell.kubectl.client import Obj

ACRONYMS = ("API", "URL", "UID", "OSB", "GUID")
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
LONGEST_NOTE = 140
PROBES = {"livenessProbe": "Liveness", "readinessProbe": "Readiness", "startupProbe": "Startup"}
VOLUMES: dict[str, Obj] = data.read(Path(__file__).with_name("volumes.yaml"))


def flat(value: Any) -> str:
    """Return a value as Go prints it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def moment(text: str | None) -> str:
    """Return a time as RFC 1123 writes it."""
    when = datetime.fromisoformat(text) if text else datetime(1, 1, 1, tzinfo=UTC)
    return when.strftime("%a, %d %b ") + f"{when.year:04d}" + when.strftime(" %H:%M:%S +0000")


def labels(title: str, found: Obj | None) -> str:
    """Return labels, one a line."""
    lines = [f"{key}={value}" for key, value in sorted((found or {}).items())] or ["<none>"]
    return f"{title}:\t" + "\n\t".join(lines) + "\n"


def notes(title: str, found: Obj | None) -> str:
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


def controller(metadata: Obj) -> str:
    """Return the line of an object's controller, if it has one."""
    owner = next((each for each in metadata.get("ownerReferences") or [] if each.get("controller")), None)
    return f"Controlled By:\t{owner['kind']}/{owner['name']}\n" if owner else ""


def selector(found: Obj | None) -> str:
    """Return a label selector as text."""
    if not found:
        return "<none>"
    parts = [(key, f"{key}={value}") for key, value in (found.get("matchLabels") or {}).items()]
    for each in found.get("matchExpressions") or []:
        word, values = each["operator"], f"({','.join(sorted(each.get('values') or []))})"
        shown = {"In": f"{each['key']} in {values}", "NotIn": f"{each['key']} notin {values}"}
        parts.append((each["key"], shown.get(word, each["key"] if word == "Exists" else f"!{each['key']}")))
    return ",".join(text for _, text in sorted(parts, key=lambda pair: str(pair[0]))) or "<none>"


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


def containers(title: str, found: list[Obj], states: list[Obj] | None, space: str, pod: Obj | None) -> str:
    """Return containers with their states; ``pod`` is where their field references lead."""
    known = {state["name"]: state for state in states or []}
    out = f"{space}{title}:{'' if found else ' <none>'}\n"
    for container in found:
        out += f"  {' ' if space else ''}{container['name']}:\n"
        out += _basic(container, known.get(container["name"]))
        out += _words(container)
        state = known.get(container["name"])
        if state:
            out += _state("State", state.get("state") or {})
            if "terminated" in (state.get("lastState") or {}):
                out += _state("Last State", state["lastState"])
            out += f"    Ready:\t{bool(state.get('ready'))}\n    Restart Count:\t{state.get('restartCount', 0)}\n"
        out += resources(container.get("resources"), 2)
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
    ended = state["terminated"]
    lines = [(name, ended.get(name.lower())) for name in ("Reason", "Message")]
    lines += [("Exit Code", str(ended.get("exitCode", 0))), ("Signal", ended.get("signal"))]
    lines += [("Started", moment(ended.get("startedAt"))), ("Finished", moment(ended.get("finishedAt")))]
    return f"    {title}:\tTerminated\n" + "".join(f"      {name}:\t{value}\n" for name, value in lines if value)


def resources(found: Obj | None, level: int) -> str:
    """Return limits and requests."""
    out, space = "", "  " * level
    for title in ("Limits", "Requests"):
        amounts = sorted(((found or {}).get(title.lower()) or {}).items())
        out += (
            f"{space}{title}:\n" + "".join(f"{space}  {key}:\t{value}\n" for key, value in amounts) if amounts else ""
        )
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
    value: Any = pod or {}
    for part in head.split("."):
        value = value.get(part, "") if isinstance(value, dict) else ""
    return str(value.get(key, "") if key and isinstance(value, dict) else value)


def _mounts(container: Obj) -> str:
    mounts = sorted(container.get("volumeMounts") or [], key=lambda mount: str(mount["mountPath"]))
    out = f"    Mounts:{'' if mounts else chr(9) + '<none>'}\n"
    for mount in mounts:
        flags = ("ro" if mount.get("readOnly") else "rw") + (
            f',path="{mount["subPath"]}"' if mount.get("subPath") else ""
        )
        out += f"      {mount['mountPath']} from {mount['name']} ({flags})\n"
    return out


def volumes(found: list[Obj] | None, space: str) -> str:
    """Return volumes."""
    out = f"{space}Volumes:{'' if found else chr(9) + '<none>'}\n"
    for volume in found or []:
        out += f"  {' ' if space else ''}{volume['name']}:\n"
        kind = next((key for key in volume if key != "name"), "")
        given = volume.get(kind) or {}
        out += _projected(given) if kind == "projected" else _source(kind, given)
    return out


def _source(kind: str, given: Obj) -> str:
    """Return the origin of a volume; of kinds without a description of their own, every field."""
    if kind not in VOLUMES:
        return f"    Type:\t{_title(kind)}\n" + content(given, 2)
    fields = VOLUMES[kind]["fields"].items()
    lines = "".join(f"    {title}:\t{flat(given.get(*field))}\n" for title, field in fields)
    return f"    Type:\t{VOLUMES[kind]['type']}\n{lines}"


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


def endpoints(slices: list[Obj], port: str) -> str:
    """Return the first three addresses of a service's port, and how many more are ready."""
    if not slices:
        return "<none>"
    found = [
        f"{endpoint['addresses'][0]}:{each['port']}"
        for piece in slices
        for each in piece.get("ports") or []
        if each.get("name", "") == port
        for endpoint in piece.get("endpoints") or []
        if (endpoint.get("conditions") or {}).get("ready", True)
    ]
    return ",".join(found[:3]) + (f" + {len(found) - 3} more..." if len(found) > 3 else "")


def _projected(source: Obj) -> str:
    out = "    Type:\tProjected (a volume that contains injected data from multiple sources)\n"
    for each in source.get("sources") or []:
        kind, inner = next(iter(each.items()))
        title = {"secret": "SecretName", "configMap": "ConfigMapName"}.get(kind)
        if title:
            out += f"    {title}:\t{inner.get('name', '')}\n    Optional:\t{flat(bool(inner.get('optional')))}\n"
        elif kind == "downwardAPI":
            out += "    DownwardAPI:\ttrue\n"
        elif kind == "serviceAccountToken":
            out += f"    TokenExpirationSeconds:\t{inner.get('expirationSeconds', 3600)}\n"
    return out


def tolerations(title: str, found: list[Obj] | None) -> str:
    """Return tolerations, by key."""
    lines = []
    for each in sorted(found or [], key=lambda one: str(one.get("key", ""))):
        key, value, effect = each.get("key", ""), each.get("value", ""), each.get("effect", "")
        text = key + (f"={value}" if value else "") + (f":{effect}" if effect else "")
        if each.get("operator") == "Exists" and not value:
            text += " op=Exists" if key or effect else "op=Exists"
        seconds = each.get("tolerationSeconds")
        lines.append(text + (f" for {seconds}s" if seconds is not None else ""))
    return f"{title}:\t" + "\n\t".join(lines or ["<none>"]) + "\n"


def template(found: Obj) -> str:
    """Return a pod template."""
    metadata, spec = found.get("metadata") or {}, found.get("spec") or {}
    out = "Pod Template:\n" + labels("  Labels", metadata.get("labels"))
    out += notes("  Annotations", metadata["annotations"]) if metadata.get("annotations") else ""
    out += f"  Service Account:\t{spec['serviceAccountName']}\n" if spec.get("serviceAccountName") else ""
    if spec.get("initContainers"):
        out += containers("Init Containers", spec["initContainers"], None, "  ", None)
    out += containers("Containers", spec.get("containers") or [], None, "  ", None)
    out += volumes(spec.get("volumes"), "  ")
    out += spread("  Topology Spread Constraints", spec.get("topologySpreadConstraints"))
    out += f"  Priority Class Name:\t{spec['priorityClassName']}\n" if spec.get("priorityClassName") else ""
    return (
        out
        + labels("  Node-Selectors", spec.get("nodeSelector"))
        + tolerations("  Tolerations", spec.get("tolerations"))
    )


def spread(title: str, found: list[Obj] | None) -> str:
    """Return how pods are to be spread, by topology."""
    lines = []
    for each in sorted(found or [], key=lambda one: str(one["topologyKey"])):
        text = f"{each['topologyKey']}:{each['whenUnsatisfiable']} when max skew {each['maxSkew']} is exceeded"
        lines.append(text + (f" for selector {selector(each['labelSelector'])}" if "labelSelector" in each else ""))
    return f"{title}:\t" + "\n\t".join(lines) + "\n" if lines else ""


def marks(metadata: Obj) -> str:
    """Return the lines of labels and annotations."""
    return labels("Labels", metadata.get("labels")) + notes("Annotations", metadata.get("annotations"))
