"""Commands that people are told to run, about objects whose names candidates have chosen."""

from __future__ import annotations

import shlex
import subprocess

import pytest

from faults.engine import Target, kubectl_name
from faults.services.reverting import _with_command

RBAC = "rbac.authorization.k8s.io/v1"
HOSTILE = ["$(reboot)", "a; reboot", "`reboot`", "a' b", "a && b", "#none", "*", "~", "a|b>c"]


@pytest.mark.parametrize("name", [*HOSTILE, "web", "system:node-proxier"])
def test_a_shell_takes_any_name_for_one_word(name):
    target = Target(RBAC, "Role", "lab", name)
    assert shlex.split(f"kubectl delete {kubectl_name(target)}") == ["kubectl", "delete", "role", name, "-n", "lab"]


def test_a_shell_replaces_nothing_in_a_name():
    for name in ("$(reboot)", "`reboot`", "$HOME", "*", "~"):
        assert kubectl_name(Target(RBAC, "ClusterRole", "", name)) == f"clusterrole '{name}'"


def test_no_terminal_is_driven_by_a_name():
    """Pasted, a control character would end the line, and the next one would run."""
    name = "it's\x03\nréboot\u202e\\n"
    word = kubectl_name(Target(RBAC, "ClusterRole", "", name)).partition(" ")[2]
    assert word.isprintable()
    shell = ["env", "LC_ALL=C.UTF-8", "bash", "-c", f"printf %s {word}"]
    assert subprocess.run(shell, capture_output=True, check=True).stdout.decode() == name


def test_kubectl_takes_no_name_for_an_option():
    assert kubectl_name(Target(RBAC, "ClusterRole", "", "--all")) == "clusterrole/--all"
    assert kubectl_name(Target(RBAC, "Role", "lab", "-A x")) == "role/'-A x' -n lab"


def test_what_is_left_over_is_deleted_by_a_harmless_command():
    line = _with_command(f"{RBAC}/ClusterRole x; reboot is left over")
    assert line.endswith("; run: kubectl delete clusterrole 'x; reboot'")
