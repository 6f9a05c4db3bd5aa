"""Options and operands that a tool does not know: its own error, and an exit code that says so."""

from __future__ import annotations

import pytest

from kubesim.shell import rootfs
from kubesim.shell.files import File
from kubesim.shell.tools import TOOLS
from kubesim.tests.shell_world import machine, run

TAKES_ANYTHING = {
    "echo": "prints its arguments",
    "printf": "prints its arguments",
    "true": "ignores its arguments",
    "false": "ignores its arguments, and fails in silence",
    "test": "takes one word for a text that is not empty",
    "[": "takes a missing bracket for the error",
    "pi": "an example of MPI that reads no arguments",
}
WRONG_OPERANDS = {
    "crictl": "", "date": "date: invalid date 'no-such-operand'",
    "df": "df: no-such-operand: No such file or directory",
    "dkms": "Error! Unknown action specified: no-such-operand",
    "free": "free: unrecognized argument 'no-such-operand'", "getent": "Unknown database: no-such-operand",
    "hostname": "hostname: sethostname: Operation not permitted",
    "journalctl": "journalctl: Failed to add match 'no-such-operand': Invalid argument",
    "lscpu": "lscpu: bad usage", "lsmod": "Usage: lsmod",
    "nproc": "nproc: extra operand 'no-such-operand'",
    "ps": "error: unsupported option (BSD syntax)",
    "sync": "sync: error opening 'no-such-operand': No such file or directory",
    "uname": "uname: extra operand 'no-such-operand'",
    "whoami": "whoami: extra operand 'no-such-operand'",
}  # fmt: skip


async def called(name, argument):
    """Call a tool in a container that has it; returns what it says, and its status."""
    made = machine("toolbox")
    folder = rootfs._folder(made.files.root, "usr/bin")
    folder.put(name, File(mode=0o755, program=f"gnu:{name}", data=b"\x7fELF"))
    return await run(f"'/usr/bin/{name}' {argument} </dev/null", made=made)


@pytest.mark.parametrize("name", sorted({*TOOLS} - TOOLS.added))
async def test_an_option_that_a_tool_does_not_know_is_its_error(name):
    said, status = await called(name, "--no-such-flag")
    if name in TAKES_ANYTHING:
        return
    assert said.strip()
    assert status != 0


@pytest.mark.parametrize("name", sorted(WRONG_OPERANDS))
async def test_an_operand_that_a_tool_does_not_know_is_its_error(name):
    said, status = await called(name, "no-such-operand")
    assert said.startswith(WRONG_OPERANDS[name])
    assert status != 0


async def test_what_a_tool_knows_is_still_taken():
    for line in (
        "nproc --all", "uptime -p", "ps -ef", "ps aux", "ps -eo pid,comm", "ss -tlnp", "netstat -tulpn",
        "hostname -i", "which -a sh", "lscpu", "date +%s", "date -u", "df -h /", "free -h", "uname -a", "ip -br a",
        "ip -4 addr", "dirname /a/b", "printenv PATH", "ps -u root", "sync /tmp",
    ):  # fmt: skip
        name, _, rest = line.partition(" ")
        said, status = await called(name, rest)
        assert status == 0, (line, said)


async def test_ps_refuses_a_column_that_it_does_not_know():
    said, status = await called("ps", "-o pid,nosuch")
    assert (said.splitlines()[0], status) == ('error: unknown user-defined format specifier "nosuch"', 1)
    said, status = await called("ps", "-o pid=,user:20,etimes")
    assert (said.split()[:2], status) == (["USER", "ELAPSED"], 0)
