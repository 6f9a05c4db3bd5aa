"""Terraform in a session's toolbox: the code is brought there, and applied under Terraform's own account.

Whoever is at work is the ``terraform`` of the toolbox's image, so that a real cluster and a practice cluster are
changed in the same way, and what a candidate types afterwards finds the same state.
"""

from __future__ import annotations

import base64
import gzip
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress

from faults.engine.model import CommandLimits
from faults.engine.ports import ClusterPort, Obj
from faults.errors import Invalid, NotFound, Unreachable
from faults.terraform_state import lease_name, secret_name
from faults.toolbox_place import CODE, NAME, NAMESPACE

LIMITS = CommandLimits(seconds=120.0, output_bytes=256 * 1024)
PART = 2000
"""Characters that one command carries: it travels in the address of a request."""
MAX_SAID = 1500
"""Of what Terraform wrote; the end says why."""
LEASE = ("coordination.k8s.io/v1", "Lease")
_LOCKED = "Error acquiring the state lock"
_END = "END-OF-FILE"
_BUNDLE = "/tmp/.code"  # noqa: S108 - of the toolbox, where one user works
_KNOWN = "/tmp/.known"  # noqa: S108 - likewise
_FLAGS = "-input=false -no-color"
_FOLDER = "workspace/"  # of packs, before the paths of the code


def bring(cluster: ClusterPort, code: Mapping[str, str], *, clear: bool = True) -> None:
    """Lay the code into the toolbox; with ``clear`` in the place of all that is there. Raises ClusterError."""
    script = (f"rm -rf {CODE}\n" if clear else "") + script_of(code)
    packed = base64.b64encode(gzip.compress(script.encode(), mtime=0)).decode()
    for start in range(0, len(packed), PART):
        sign = ">>" if start else ">"
        run(cluster, f'printf %s "$1" {sign} {_BUNDLE}', packed[start : start + PART])
    run(cluster, f"base64 -d {_BUNDLE} | gunzip > {_BUNDLE}.sh && sh {_BUNDLE}.sh && rm -f {_BUNDLE} {_BUNDLE}.sh")


def script_of(code: Mapping[str, str]) -> str:
    """Return the lines of a shell that write the files; each ends with the end of a line."""
    folders = sorted({f"{CODE}/{_below(path)}".rpartition("/")[0] for path in code})
    lines = [f"mkdir -p {shlex.quote(folder)}" for folder in folders]
    for path, text in sorted(code.items()):
        ending, end = "" if text.endswith("\n") else "\n", _END
        while end in text:
            end += "-"
        lines.append(f"cat > {shlex.quote(f'{CODE}/{_below(path)}')} <<'{end}'\n{text}{ending}{end}")
    return "\n".join(lines) + "\n"


def _below(path: str) -> str:
    return path.removeprefix(_FOLDER)


def apply_root(cluster: ClusterPort, namespace: str, root: str, imports: Mapping[str, str]) -> str:
    """Initialise a root, take over what is there already, and apply it; return what Terraform said.

    An earlier attempt may have taken some of it over: what the state knows is left alone. Raises ClusterError; a lock
    that an earlier attempt has left is released for the next one.
    """
    taken = [
        f"{{ {_has(at)} || terraform import {_FLAGS} {shlex.quote(at)} {shlex.quote(name)}; }}"
        for at, name in imports.items()
    ]
    known = [f"{{ terraform state list > {_KNOWN} 2>/dev/null || true; }}"] if taken else []
    commands = [
        f"cd {CODE}/{root}",
        f"terraform init {_FLAGS}",
        *known,
        *taken,
        f"terraform apply {_FLAGS} -auto-approve",
    ]
    try:
        return run(cluster, " && ".join(commands))
    except Invalid as exc:
        if _LOCKED not in exc.message:
            raise
        forget(cluster, namespace, root, LEASE)
        raise Unreachable(f"The state of {root} was still locked by an earlier attempt.") from exc


def _has(address: str) -> str:
    return f"grep -qxF {shlex.quote(address)} {_KNOWN}"


def run(cluster: ClusterPort, script: str, *words: str) -> str:
    """Run a script in the toolbox; return what it wrote. Raises Invalid with that where it fails."""
    command: Sequence[str] = ("bash", "-o", "pipefail", "-c", script, NAME, *words)
    try:
        code, output = cluster.run_command(NAMESPACE, NAME, NAME, command, LIMITS)
    except NotFound as exc:
        raise Unreachable(f"The toolbox does not run yet: {exc.message}") from exc
    if code:
        raise Invalid(f"In the toolbox: {output.strip()[-MAX_SAID:] or 'it wrote nothing'} (exit code {code})")
    return output


def forget(cluster: ClusterPort, namespace: str, root: str, kind: tuple[str, str]) -> None:
    """Delete the lock of a root's state, or the state itself."""
    name = lease_name(root) if kind == LEASE else secret_name(root)
    with suppress(NotFound):
        cluster.delete(*kind, name, namespace)


def states(cluster: ClusterPort, namespace: str, roots: Sequence[str]) -> list[Obj]:
    """Return the Secrets that hold the states of roots, as far as there are any."""
    found = []
    for root in roots:
        with suppress(NotFound):
            found.append(cluster.get("v1", "Secret", secret_name(root), namespace))
    return found
