"""The plainest of what new objects are made of: their name, numbers of flags, a container."""

from __future__ import annotations

import re
from typing import Any

from kubesim.shell.kubectl.client import KubectlError, Obj
from kubesim.shell.kubectl.flags import Flags

RBAC = "rbac.authorization.k8s.io"


def wrong(text: str) -> KubectlError:
    """Return a refusal of kubectl's own."""
    return KubectlError(f"error: {text}")


def number(opts: Flags, name: str) -> int:
    """Return a flag's whole number; 0 where it is not given. Raises KubectlError in the parser's words."""
    text = opts.get(name, "0")
    if not re.fullmatch(r"[+-]?\d{1,18}", text):
        reason = f'strconv.ParseInt: parsing "{text}": invalid syntax'
        raise wrong(
            f'invalid argument "{text}" for "--{name}" flag: {reason}\nSee \'kubectl {opts.command} --help\' '
            f"for usage."
        )
    return int(text)


def made(api_version: str, kind: str, name: str, **parts: Any) -> Obj:
    """Return an object without what is None."""
    found = {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **parts}
    return {key: value for key, value in found.items() if value is not None}


def container(name: str, image: str, **more: Any) -> Obj:
    """Return a container without what is empty, as clients write one."""
    return {"name": name, "image": image, "resources": {}, **{key: value for key, value in more.items() if value}}


def subjects(opts: Flags) -> list[Obj]:
    """Return whom the flags name. Raises KubectlError."""
    found: list[Obj] = [
        {"apiGroup": RBAC, "kind": kind, "name": name}
        for kind, flag in (("User", "user"), ("Group", "group"))
        for name in opts.words(flag)
    ]
    for text in opts.words("serviceaccount"):
        space, colon, name = text.partition(":")
        if not colon or not name or ":" in name:
            raise wrong("serviceaccount must be <namespace>:<name>")
        found.append({"kind": "ServiceAccount", "name": name, "namespace": space})
    return found
