"""kubectl's verbs about the cluster and itself: version, kinds, configuration, help."""

from __future__ import annotations

from kubesim.goyaml import to_json, to_yaml
from kubesim.shell.kubectl.client import VERSION, Client, KubectlError, Obj
from kubesim.shell.kubectl.flags import FLAGS, NAMES, SECTIONS, TEXTS, Flags
from kubesim.shell.kubectl.tabs import table
from kubesim.shell.machine import Process

COMPILER = {
    "buildDate": "2026-02-10T12:56:59Z", "compiler": "gc", "gitTreeState": "clean", "goVersion": "go1.24.12",
    "major": "1", "minor": "34", "platform": "linux/amd64",
}  # fmt: skip


def usage_of(command: str) -> str:
    """Return the help of a command: what may follow it."""
    known = {name.removeprefix(f"{command} ".lstrip()): text for name, text in NAMES.items() if _below(name, command)}
    text = f"{NAMES[command]}.\n\n" if command in NAMES else "" if known else f"Unknown help topic [`{command}`]\n\n"
    if not command:
        listed = [_listed(title, known, names.split()) for title, names in SECTIONS.items()]
        text = "\n".join([TEXTS["help"], *listed])
    elif known:
        text += _listed("Available Commands:", known, sorted(known))
    if command in FLAGS:
        names = sorted(spec.partition("=")[0].partition("/")[0] for spec in FLAGS[command].split() if spec[0] != "-")
        text += "Options:\n" + "".join(f"    --{name}\n" for name in names) if names else ""
    shown = f"kubectl {command}".strip()
    text = text.rstrip("\n") + f"\n\nUsage:\n  {shown} [flags] [options]\n\n"
    if known:
        text += f'Use "{shown} <command> --help" for more information about a given command.\n'
    return text + 'Use "kubectl options" for a list of global command-line options (applies to all commands).\n'


def _below(name: str, command: str) -> bool:
    start = f"{command} ".lstrip()
    return name.startswith(start) and " " not in name.removeprefix(start) and name != command


def _listed(title: str, known: dict[str, str], names: list[str]) -> str:
    wide = max(map(len, names), default=0) + 2
    return f"{title}\n" + "".join(f"  {name:<{wide}}{known[name]}\n" for name in names if name in known)


async def api_resources(process: Process, client: Client, opts: Flags) -> int:
    """List the kinds."""
    form = opts.get("output")
    by = opts.get("sort-by")
    kinds = sorted(await client.resources(), key=lambda kind: (kind.group, kind.plural))
    if by:
        kinds = sorted(kinds, key=lambda kind: kind.plural if by == "name" else kind.kind)
    if "namespaced" in opts:
        kinds = [kind for kind in kinds if kind.namespaced == opts.on("namespaced")]
    if "api-group" in opts:
        kinds = [kind for kind in kinds if kind.group == opts.get("api-group")]
    kinds = [kind for kind in kinds if {*opts.words("verbs")} <= {*kind.verbs}]
    kinds = [kind for kind in kinds if kind.verbs and {*opts.words("categories")} <= {*kind.categories}]
    if form == "name":
        await process.write("".join(f"{kind.plural}{'.' + kind.group if kind.group else ''}\n" for kind in kinds))
        return 0
    wide = form == "wide"
    head = ["NAME", "SHORTNAMES", "APIVERSION", "NAMESPACED", "KIND", *(["VERBS", "CATEGORIES"] if wide else [])]
    found = [] if opts.on("no-headers") else [head]
    for each in kinds:
        line = [each.plural, ",".join(each.short), each.api_version, str(each.namespaced).lower(), each.kind]
        found.append(line + [",".join(sorted(each.verbs)), ",".join(each.categories)] * wide)
    await process.write(table(found))
    return 0


async def api_versions(process: Process, client: Client, opts: Flags) -> int:
    """List the versions of the API."""
    found = set((await client.request("GET", "/api")).get("versions") or [])
    for group in (await client.request("GET", "/apis")).get("groups") or []:
        found |= {each["groupVersion"] for each in group.get("versions") or []}
    await process.write("".join(f"{each}\n" for each in sorted(found)))
    return 0


async def version(process: Process, client: Client, opts: Flags) -> int:
    """Show versions."""
    form = opts.get("output")
    server = {} if opts.on("client") else await client.request("GET", "/version")
    if not form:
        await process.write(f"Client Version: {VERSION}\nKustomize Version: v5.7.1\n")
        await process.write(f"Server Version: {server.get('gitVersion', '')}\n" if server else "")
        return 0
    commit = server.get("gitCommit", "")
    own = COMPILER | {"gitCommit": commit, "gitVersion": VERSION}
    whole: Obj = {"clientVersion": own, "kustomizeVersion": "v5.7.1", **({"serverVersion": server} if server else {})}
    await process.write(to_json(whole, 2) if form == "json" else to_yaml(whole) + "\n")
    return 0


async def cluster_info(process: Process, client: Client, opts: Flags) -> int:
    """Tell where the cluster's services are."""
    path = "/api/v1/namespaces/kube-system/services?labelSelector=kubernetes.io%2Fcluster-service%3Dtrue"
    found = (await client.request("GET", path)).get("items", [])
    server = client.kube.server.removesuffix(":443")
    green, yellow, plain = ("\x1b[0;32m", "\x1b[0;33m", "\x1b[0m") if process.tty(1) else ("", "", "")
    await process.write(f"{green}Kubernetes control plane{plain} is running at {yellow}{server}{plain}\n")
    for service in found:
        metadata, ports = service["metadata"], service["spec"].get("ports") or []
        name = (metadata.get("labels") or {}).get("kubernetes.io/name") or metadata["name"]
        port = f":{ports[0].get('name')}" if ports and ports[0].get("name") else ""
        url = f"{server}/api/v1/namespaces/{metadata['namespace']}/services/{metadata['name']}{port}/proxy"
        await process.write(f"{green}{name}{plain} is running at {yellow}{url}{plain}\n")
    await process.write("\nTo further debug and diagnose cluster problems, use 'kubectl cluster-info dump'.\n")
    return 0


SCRIPT = """\
# bash completion for kubectl                              -*- shell-script -*-
complete -o default -F __start_kubectl kubectl
"""


async def completion(process: Process, opts: Flags) -> int:
    """Print the script that completes kubectl's words: the shell here completes them by itself."""
    if opts.args != ["bash"]:
        raise KubectlError("error: this kubectl completes words in bash only")
    await process.write(SCRIPT)
    return 0
