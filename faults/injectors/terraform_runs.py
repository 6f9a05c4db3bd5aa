"""Terraform in a session's toolbox: the code is brought there, and applied under Terraform's own account.

Whoever is at work is the ``terraform`` of the toolbox's image, so that a real cluster and a practice cluster are
changed in the same way, and what a candidate types afterwards finds the same state.
"""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NoReturn

from faults.engine.model import CommandLimits
from faults.engine.ports import ClusterPort, Obj
from faults.errors import Invalid, NotFound, Unreachable
from faults.terraform_state import lease_name, read_state, secret_name
from faults.toolbox_place import CODE, NAME, NAMESPACE

LIMITS = CommandLimits(seconds=120.0, output_bytes=256 * 1024)
MAX_SAID = 1500
"""Of what Terraform wrote; the end says why."""
LEASE = ("coordination.k8s.io/v1", "Lease")
_LOCKED = "Error acquiring the state lock"
_AT_WORK = "/tmp/.at-work"  # noqa: S108 - a mark without content, where one user works
_AGAIN = "An earlier attempt was cut off."
_GONE = r"kubernetes_namespace(_v1)?[.].* (will be destroyed|must be replaced)"
_OLDER = (
    "The code in the toolbox is older than what was applied: it would delete a namespace. Bring it up to date first."
)
_FLAGS = "-input=false -no-color"


def apply_root(cluster: ClusterPort, namespace: str, root: str, imports: Mapping[str, str]) -> str:
    """Initialise a root, take over what is there already, and apply it; return what Terraform said.

    An earlier attempt may have taken some of it over: what the state knows is left alone. Raises ClusterError; a lock
    that an earlier attempt has left is released for the next one.
    """
    try:
        return run(cluster, " && ".join([*_beginning(root, imports), f"terraform apply {_FLAGS} -auto-approve"]))
    except Invalid as exc:
        if _LOCKED not in exc.message:
            raise
        _release(cluster, namespace, root, exc)


def apply_over(cluster: ClusterPort, namespace: str, root: str, imports: Mapping[str, str]) -> str:
    """Apply a root whose code somebody else works on, too; return what Terraform said. Raises ClusterError.

    What they have locked stays so, and is waited for; a lock of an attempt of ours that was cut off is released. Code
    that would delete a tenant is not applied: then what is applied was written somewhere else.
    """
    own = f"/tmp/{secrets.token_hex(16)}"  # noqa: S108 - made anew, and refused where it is there
    commands = [
        *_beginning(root, imports),
        f"mkdir -m 700 {own}",
        f"{{ terraform plan {_FLAGS} -out={own}/plan > {own}/said 2>&1 || {{ cat {own}/said; false; }}; }}",
        f"{{ ! grep -E '{_GONE}' {own}/said || {{ echo '{_OLDER}'; false; }}; }}",
        f"terraform apply {_FLAGS} {own}/plan",
    ]
    told = f'test $code = 0 || test -z "$again" || echo "{_AGAIN}"; exit $code'
    try:
        return run(
            cluster,
            f"again=; test ! -e {_AT_WORK} || again=yes; touch {_AT_WORK}; "
            f"( {' && '.join(commands)} ); code=$?; rm -rf {own}; rm -f {_AT_WORK}; {told}",
        )
    except Invalid as exc:
        if _LOCKED not in exc.message:
            raise
        if _AGAIN not in exc.message:
            raise Unreachable(f"The state of {root} is locked: somebody's Terraform is at work.") from exc
        _release(cluster, namespace, root, exc)


def _beginning(root: str, imports: Mapping[str, str]) -> list[str]:
    taken = [
        f"{{ {_has(at)} || terraform import {_FLAGS} {shlex.quote(at)} {shlex.quote(name)}; }}"
        for at, name in imports.items()
    ]
    known = ["{ known=$(terraform state list 2>/dev/null) || true; }"] if taken else []
    return [f"cd {CODE}/{root}", f"terraform init {_FLAGS}", *known, *taken]


def _release(cluster: ClusterPort, namespace: str, root: str, cause: Invalid) -> NoReturn:
    forget(cluster, namespace, root, LEASE)
    raise Unreachable(f"The state of {root} was still locked by an earlier attempt.") from cause


def _has(address: str) -> str:
    return f"""printf '%s\\n' "$known" | grep -qxF {shlex.quote(address)}"""


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


def require_rights(cluster: ClusterPort, namespace: str) -> None:
    """Raise Invalid where Terraform's account may not write its state, as after the end of an interview."""
    run(cluster, f"kubectl --kubeconfig $KUBE_CONFIG_PATH auth can-i update secrets -n {namespace}")


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


def versions(cluster: ClusterPort, namespace: str, roots: Sequence[str]) -> Obj:
    """Return which version each root's state is, by which an apply of ours is told from those of others."""
    found = {}
    for root in roots:
        for secret in states(cluster, namespace, [root]):
            state = read_state(secret)
            found[root] = {"serial": state.serial, "lineage": state.lineage}
    return found
