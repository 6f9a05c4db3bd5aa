"""kubectl's verbs about the cluster and this account: version, kinds, rights, configuration, usage."""

from __future__ import annotations

from kubesim.shell.kubectl.client import Client, KubectlError, Obj
from kubesim.shell.kubectl.describe_node import amount
from kubesim.shell.kubectl.flags import Flags
from kubesim.shell.kubectl.tabs import table
from kubesim.shell.kubectl.targets import needs, query
from kubesim.shell.machine import Process
from kubesim.shell.tools.jq import yaml_text

EMPTY: Obj = {
    "apiVersion": "v1",
    "clusters": None,
    "contexts": None,
    "current-context": "",
    "kind": "Config",
    "preferences": {},
    "users": None,
}


async def api_resources(process: Process, client: Client, opts: Flags) -> int:
    """List the kinds."""
    kinds = sorted(await client.resources(), key=lambda kind: (kind.group, kind.plural))
    if "namespaced" in opts:
        kinds = [kind for kind in kinds if kind.namespaced == opts.on("namespaced")]
    if "api-group" in opts:
        kinds = [kind for kind in kinds if kind.group == opts.get("api-group")]
    if opts.get("output") == "name":
        await process.write("".join(f"{kind.plural}{'.' + kind.group if kind.group else ''}\n" for kind in kinds))
        return 0
    found = [] if opts.on("no-headers") else [["NAME", "SHORTNAMES", "APIVERSION", "NAMESPACED", "KIND"]]
    for each in kinds:
        found.append([each.plural, ",".join(each.short), each.api_version, str(each.namespaced).lower(), each.kind])
    await process.write(table(found))
    return 0


async def api_versions(process: Process, client: Client, opts: Flags) -> int:
    """List the versions of the API."""
    await process.write(
        "".join(f"{each}\n" for each in sorted({kind.api_version for kind in await client.resources()}))
    )
    return 0


async def version(process: Process, client: Client, opts: Flags) -> int:
    """Show versions."""
    await process.write("Client Version: v1.34.4\nKustomize Version: v5.7.1\n")
    if not opts.on("client"):
        server = await client.request("GET", "/version")
        await process.write(f"Server Version: {server.get('gitVersion', '')}\n")
    return 0


async def whoami(process: Process, client: Client, opts: Flags) -> int:
    """Tell who this account is."""
    found = await client.request(
        "POST",
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        body={"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"},
    )
    user = found.get("status", {}).get("userInfo", {})
    lines = [["ATTRIBUTE", "VALUE"], ["Username", user.get("username", "")]]
    lines += [["UID", user["uid"]]] if user.get("uid") else []
    lines.append(["Groups", f"[{' '.join(user.get('groups', []))}]"])
    lines += [[f"Extra: {key}", f"[{' '.join(value)}]"] for key, value in sorted((user.get("extra") or {}).items())]
    await process.write(table(lines))
    return 0


async def can_i(process: Process, client: Client, opts: Flags) -> int:
    """Ask what this account may do."""
    needs(
        opts,
        2,
        "you must specify two arguments: verb resource or verb resource/resourceName.\n"
        "See 'kubectl auth can-i -h' for help and examples.",
    )
    kind, _, name = opts.args[1].partition("/")
    attributes = {
        "namespace": "" if opts.on("all-namespaces") else client.namespace,
        "verb": opts.args[0],
        "name": name,
    }
    attributes["subresource"] = opts.get("subresource")
    try:
        resource = await client.resource(kind)
        attributes |= {"group": resource.group, "resource": resource.plural}
        if not resource.namespaced:
            group = f" in group '{resource.group}'" if resource.group else ""
            await process.error(f"Warning: resource '{resource.plural}' is not namespace scoped{group}\n\n")
            attributes["namespace"] = ""
    except KubectlError:
        attributes["resource"] = kind
        if kind != "*":
            await process.error(f"Warning: the server doesn't have a resource type '{kind}'\n\n")
        else:
            attributes["group"] = "*"
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    found = await client.request("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body=body)
    allowed = bool(found.get("status", {}).get("allowed"))
    if not opts.on("quiet"):
        await process.write("yes\n" if allowed else "no\n")
    return int(not allowed)


async def config_view(process: Process, client: Client, opts: Flags) -> int:
    """Show the configuration: in a pod there is none, the account's token serves."""
    await process.write(yaml_text(EMPTY, sort=True))
    return 0


async def current_context(process: Process, client: Client, opts: Flags) -> int:
    """Name the current context."""
    raise KubectlError("error: current-context is not set")


async def get_contexts(process: Process, client: Client, opts: Flags) -> int:
    """List the contexts."""
    if opts.get("output") != "name" and not opts.on("no-headers"):
        await process.write(table([["CURRENT", "NAME", "CLUSTER", "AUTHINFO", "NAMESPACE"]]))
    return 0


async def cluster_info(process: Process, client: Client, opts: Flags) -> int:
    """Tell where the cluster's services are."""
    path = "/api/v1/namespaces/kube-system/services?labelSelector=kubernetes.io%2Fcluster-service%3Dtrue"
    found = (await client.request("GET", path)).get("items", [])
    server = client.kube.server.removesuffix(":443")
    green, blue, yellow, plain = "\x1b[0;32m", "\x1b[0;34m", "\x1b[0;33m", "\x1b[0m"
    if not process.tty(1):
        green = blue = yellow = plain = ""
    del blue
    await process.write(f"{green}Kubernetes control plane{plain} is running at {yellow}{server}{plain}\n")
    for service in found:
        metadata, ports = service["metadata"], service["spec"].get("ports") or []
        name = (metadata.get("labels") or {}).get("kubernetes.io/name") or metadata["name"]
        port = f":{ports[0].get('name')}" if ports and ports[0].get("name") else ""
        url = f"{server}/api/v1/namespaces/{metadata['namespace']}/services/{metadata['name']}{port}/proxy"
        await process.write(f"{green}{name}{plain} is running at {yellow}{url}{plain}\n")
    await process.write("\nTo further debug and diagnose cluster problems, use 'kubectl cluster-info dump'.\n")
    return 0


async def top(process: Process, client: Client, opts: Flags) -> int:
    """Show what nodes or pods use."""
    served = {kind.plural for kind in await client.resources() if kind.group == "metrics.k8s.io"}
    plural = "nodes" if opts.command == "top node" else "pods"
    if plural not in served:
        raise KubectlError("error: Metrics API not available")
    space = "" if opts.on("all-namespaces") or plural == "nodes" else f"/namespaces/{client.namespace}"
    name = f"/{opts.args[0]}" if opts.args else ""
    found = await client.request("GET", f"/apis/metrics.k8s.io/v1beta1{space}/{plural}{name}{query(opts)}")
    items = found.get("items", [found])
    if not items:
        await process.error(f"No resources found{' in ' + client.namespace + ' namespace.' if space else ''}\n")
        return 0
    if plural == "nodes":
        return await _top_nodes(process, client, opts, items)
    head = ["NAMESPACE"] * (not space) + ["POD"] * opts.on("containers") + ["NAME", "CPU(cores)", "MEMORY(bytes)"]
    lines = [] if opts.on("no-headers") else [head]
    for item in sorted(items, key=lambda each: (each["metadata"]["namespace"], each["metadata"]["name"])):
        where = [item["metadata"]["namespace"]] * (not space)
        rows = [[each] for each in item["containers"]] if opts.on("containers") else [item["containers"]]
        for row in rows:
            names = (
                [item["metadata"]["name"], row[0]["name"]] if opts.on("containers") else [item["metadata"]["name"]]
            )
            lines.append([*where, *names, *_used([each["usage"] for each in row])])
    await process.write(table(lines))
    return 0


def _used(usages: list[Obj]) -> list[str]:
    cpu = sum(amount(each.get("cpu", "0")) for each in usages)
    memory = sum(amount(each.get("memory", "0")) for each in usages)
    return [f"{-int(-cpu * 1000 // 1)}m", f"{int(memory / (1 << 20))}Mi"]


async def _top_nodes(process: Process, client: Client, opts: Flags, items: list[Obj]) -> int:
    nodes = {
        each["metadata"]["name"]: each for each in (await client.request("GET", "/api/v1/nodes")).get("items", [])
    }
    lines = [] if opts.on("no-headers") else [["NAME", "CPU(cores)", "CPU(%)", "MEMORY(bytes)", "MEMORY(%)"]]
    for item in sorted(items, key=lambda each: str(each["metadata"]["name"])):
        name = item["metadata"]["name"]
        whole = nodes.get(name, {}).get("status", {}).get("allocatable", {})
        cpu, memory = _used([item["usage"]])
        parts = [int(amount(item["usage"][key]) * 100 / amount(whole.get(key, "1"))) for key in ("cpu", "memory")]
        lines.append([name, cpu, f"{parts[0]}%", memory, f"{parts[1]}%"])
    await process.write(table(lines))
    return 0
