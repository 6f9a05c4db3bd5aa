"""kubectl auth reconcile: roles and bindings that have at least what manifests say."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from kubesim.shell.kubectl.applying import current
from kubesim.shell.kubectl.client import Client, KubectlError, Obj, Resource
from kubesim.shell.kubectl.flags import Flags
from kubesim.shell.kubectl.results import dry, report
from kubesim.shell.kubectl.targets import place, sources
from kubesim.shell.machine import Process

GROUP = "rbac.authorization.k8s.io"
PROTECTED = f"{GROUP}/autoupdate"
RULE = ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")
SUBJECT = ("kind", "apiGroup", "name", "namespace")


@dataclass
class Change:
    """What an object is to become, and what that adds to it and takes from it."""

    operation: str
    after: Obj
    missing: list[Obj] = field(default_factory=list)
    extra: list[Obj] = field(default_factory=list)


async def reconcile(process: Process, client: Client, opts: Flags) -> int:
    """Bring roles and bindings to what manifests say."""
    if not opts.files:
        raise KubectlError("error: must specify one of -f and -k")
    if opts.args:
        raise KubectlError("error: no arguments are allowed")
    if dry(opts) == "server":
        raise KubectlError("error: --dry-run=server for command reconcile is not supported yet")
    wrong: list[str] = []
    for obj, source in await sources(process, opts):
        kind = await client.of_object(obj, source)
        try:
            if kind.group == GROUP:
                await _one(process, client, opts, kind, obj)
        except KubectlError as error:
            wrong.append(error.text)
    if wrong:
        plain = [text.removeprefix("error: ") for text in wrong] if len(wrong) > 1 else wrong
        raise KubectlError("\n".join(plain))
    return 0


async def _one(process: Process, client: Client, opts: Flags, kind: Resource, wanted: Obj) -> None:
    """Bring one object to what a manifest says; the command line's namespace is none of its own."""
    path, nowhere = place(client, kind, wanted), kind.namespaced and not wanted["metadata"].get("namespace")
    before = None if nowhere else await current(client, path)
    change = _changed(before, wanted, kind, opts)
    guarded = ((before or {}).get("metadata", {}).get("annotations") or {}).get(PROTECTED) == "false"
    after = change.after
    if nowhere and not dry(opts):
        raise KubectlError("error: resource name may not be empty")
    if not guarded and not dry(opts):
        if change.operation == "recreate":
            await client.request("DELETE", path)
        if change.operation in ("create", "recreate"):
            after = await client.request("POST", path.rpartition("/")[0], body=after)
        elif change.operation == "update":
            after = await client.request("PUT", path, body=after)
    await report(process, opts, kind, after, "reconciled")
    await process.flush()
    await process.error(_told(change, kind, opts, guarded=guarded))


def _changed(before: Obj | None, wanted: Obj, kind: Resource, opts: Flags) -> Change:
    binding = kind.kind.endswith("Binding")
    part = "subjects" if binding else "rules"
    if before is None:
        return Change("create", wanted, list(wanted.get(part) or []))
    if binding and before.get("roleRef") != wanted.get("roleRef"):
        return Change("recreate", wanted)
    after, operation = {**before, "metadata": dict(before["metadata"])}, ""
    for key in ("annotations", "labels"):
        known = before["metadata"].get(key) or {}
        whole = {**(wanted["metadata"].get(key) or {}), **known}
        if whole != known:
            after["metadata"][key], operation = whole, "update"
    old, new = before.get(part) or [], wanted.get(part) or []
    missing, extra = (_subjects(new, old), _subjects(old, new)) if binding else (_rules(new, old), _rules(old, new))
    if opts.on("remove-extra-subjects" if binding else "remove-extra-permissions"):
        if missing or extra:
            after[part], operation = new, "update"
    elif missing:
        after[part], operation = [*old, *missing], "update"
    return Change(operation, after, missing, extra)


def _subjects(some: list[Obj], others: list[Obj]) -> list[Obj]:
    found: list[Obj] = []
    found += [each for each in some if each not in others and each not in found]
    return found


def _rules(some: list[Obj], others: list[Obj]) -> list[Obj]:
    """Return what some rules allow and others do not, each a rule of one verb and one resource."""
    return [rule for rule in _simple(some) if not any(_covers(other, rule) for other in others)]


def _simple(rules: Iterable[Obj]) -> list[Obj]:
    found = []
    for rule in rules:
        verbs = rule.get("verbs") or []
        for group, plural, verb in product(rule.get("apiGroups") or [], rule.get("resources") or [], verbs):
            base = {"apiGroups": [group], "resources": [plural], "verbs": [verb]}
            names = rule.get("resourceNames") or []
            found += [{**base, "resourceNames": [name]} for name in names] or [base]
        found += [
            {"nonResourceURLs": [url], "verbs": [verb]}
            for url, verb in product(rule.get("nonResourceURLs") or [], verbs)
        ]
    return found


def _covers(owner: Obj, rule: Obj) -> bool:
    def has(key: str, word: str) -> bool:
        known = owner.get(key) or []
        below = key == "resources" and "/" in word and f"*/{word.partition('/')[2]}" in known
        under = key == "nonResourceURLs" and any(each.endswith("*") and word.startswith(each[:-1]) for each in known)
        return word in known or "*" in known or below or under

    names = owner.get("resourceNames") or []
    named = not names or bool(rule.get("resourceNames")) and set(rule["resourceNames"]) <= set(names)
    keys = [key for key in RULE if key != "resourceNames" and rule.get(key)]
    return named and all(has(key, word) for key in keys for word in rule[key])


def _told(change: Change, kind: Resource, opts: Flags, *, guarded: bool) -> str:
    if not change.operation:
        return ""
    caveat = f", but object opted out ({PROTECTED.replace('k8s', 'kubernetes')}: false)" if guarded else ""
    text = f"\treconciliation required {change.operation}{caveat}\n"
    binding = kind.kind.endswith("Binding")
    word, fields = ("subjects", SUBJECT) if binding else ("rules", RULE)
    parts = [(f"missing {word} added", change.missing)]
    if opts.on("remove-extra-subjects" if binding else "remove-extra-permissions"):
        parts.append((f"extra {word} removed", change.extra))
    for title, items in parts:
        if items:
            text += f"\t{title}:\n" + "".join(f"\t\t{_go(each, fields)}\n" for each in items)
    return text


def _go(item: Obj, fields: Iterable[str]) -> str:
    """Return a rule or subject as Go prints a struct."""

    def shown(value: Any) -> str:
        return f"[{' '.join(value)}]" if isinstance(value, list) else str(value or "")

    empty: Any = [] if "verbs" in fields else ""
    titles = {"apiGroups": "APIGroups", "apiGroup": "APIGroup", "nonResourceURLs": "NonResourceURLs"}
    pairs = [f"{titles.get(key, key[0].upper() + key[1:])}:{shown(item.get(key, empty))}" for key in fields]
    return "{" + " ".join(pairs) + "}"
