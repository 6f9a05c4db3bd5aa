"""kubectl auth and certificate: who this account is, what it may do, and whose requests are granted."""

from __future__ import annotations

from kubesim.goyaml import to_json
from kubesim.shell.kubectl.client import Client, KubectlError, Obj
from kubesim.shell.kubectl.flags import Flags
from kubesim.shell.kubectl.results import report
from kubesim.shell.kubectl.tabs import table
from kubesim.shell.machine import Process

AUTHORIZATION = "/apis/authorization.k8s.io/v1"


async def whoami(process: Process, client: Client, opts: Flags) -> int:
    """Tell who this account is."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    found = await client.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body=body)
    user = found.get("status", {}).get("userInfo", {})
    if opts.get("output") == "json":
        ordered = {key: user[key] for key in ("username", "uid", "groups", "extra") if key in user}
        head = {key: found[key] for key in ("kind", "apiVersion", "metadata") if key in found}
        await process.write(to_json({**head, "status": {"userInfo": ordered}}, sort=False))
        return 0
    if opts.get("output"):
        await report(process, opts, await client.resource("selfsubjectreviews"), found, "")
        return 0
    lines = [["ATTRIBUTE", "VALUE"], ["Username", user.get("username", "")]]
    lines += [["UID", user["uid"]]] if user.get("uid") else []
    lines.append(["Groups", f"[{' '.join(user.get('groups', []))}]"])
    lines += [[f"Extra: {key}", f"[{' '.join(value)}]"] for key, value in sorted((user.get("extra") or {}).items())]
    await process.write(table(lines))
    return 0


async def can_i(process: Process, client: Client, opts: Flags) -> int:
    """Ask what this account may do."""
    if opts.on("list"):
        return await _listed(process, client, opts)
    if opts.args[1].startswith("/"):
        spec: Obj = {"nonResourceAttributes": {"path": opts.args[1], "verb": opts.args[0]}}
    else:
        spec = {"resourceAttributes": await _attributes(process, client, opts)}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": spec}
    found = (await client.request("POST", f"{AUTHORIZATION}/selfsubjectaccessreviews", body=body)).get("status", {})
    allowed = bool(found.get("allowed"))
    if not opts.on("quiet"):
        text = "yes" if allowed else "no"
        text += f" - {found['reason']}" if found.get("reason") and not allowed else ""
        text += f" - {found['evaluationError']}" if found.get("evaluationError") else ""
        await process.write(text + "\n")
    return int(not allowed)


async def _attributes(process: Process, client: Client, opts: Flags) -> Obj:
    """Return what is asked of a resource; warns of what the server does not have."""
    word, _, below = opts.args[1].partition("/")
    name = opts.args[2] if len(opts.args) > 2 else below
    space = "" if opts.on("all-namespaces") else client.namespace
    attributes: Obj = {"namespace": space, "verb": opts.args[0], "name": name, "subresource": opts.get("subresource")}
    if word == "*":
        return {**attributes, "resource": "*", "group": "*"}
    try:
        kind = await client.resource(word)
    except KubectlError:
        await process.error(f"Warning: the server doesn't have a resource type '{word}'\n\n")
        plural, _, group = word.partition(".")
        return {**attributes, "resource": plural, "group": group}
    attributes |= {"group": kind.group, "resource": kind.plural}
    if not kind.namespaced:
        group = f" in group '{kind.group}'" if kind.group else ""
        await process.error(f"Warning: resource '{kind.plural}' is not namespace scoped{group}\n\n")
        attributes["namespace"] = ""
    if opts.args[0] not in ("*", *kind.verbs) and opts.args[0] not in SPECIAL:
        await process.error(f"Warning: verb '{opts.args[0]}' is not a known verb\n\n")
    return attributes


SPECIAL = {
    "use", "bind", "escalate", "impersonate", "approve", "sign", "attest", "proxy",
    "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection",
}  # fmt: skip
"""Verbs that a role may name whatever the kind says."""


async def _listed(process: Process, client: Client, opts: Flags) -> int:
    spec = {"namespace": client.namespace}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": spec}
    found = (await client.request("POST", f"{AUTHORIZATION}/selfsubjectrulesreviews", body=body)).get("status", {})
    if found.get("incomplete"):
        text = f": {found['evaluationError']}" if found.get("evaluationError") else ""
        await process.error(f"warning: the list may be incomplete{text}\n")
    merged: dict[tuple[str, str], dict[str, None]] = {}
    for rule in found.get("resourceRules") or []:
        names = _bracketed(rule.get("resourceNames"))
        for group in rule.get("apiGroups") or [""]:
            for plural in rule.get("resources") or []:
                merged.setdefault((_qualified(plural, group), names), {}).update(dict.fromkeys(rule["verbs"]))
    rows = [[plural, "[]", names, _bracketed([*verbs])] for (plural, names), verbs in merged.items()]
    rows += [
        ["", f"[{url}]", "[]", _bracketed(rule["verbs"])]
        for rule in found.get("nonResourceRules") or []
        for url in rule.get("nonResourceURLs") or []
    ]
    rows.sort(key=_order)
    head = [] if opts.on("no-headers") else [["Resources", "Non-Resource URLs", "Resource Names", "Verbs"]]
    await process.write(table(head + rows))
    return 0


def _qualified(resource: str, group: str) -> str:
    plural, slash, below = resource.partition("/")
    return plural + (f".{group}" if group else "") + slash + below


def _order(row: list[str]) -> tuple[str, ...]:
    """Return what rules are sorted by: their text in Go, which begins with the verbs."""
    plural, _, group = row[0].partition(".")
    return row[3], f"[{group}]", f"[{plural}]", row[2], row[1]


def _bracketed(words: list[str] | None) -> str:
    return f"[{' '.join(words or [])}]"
