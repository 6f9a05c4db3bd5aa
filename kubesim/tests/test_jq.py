"""jq in containers: libjq's own answers, from a process that can do nothing else."""

from __future__ import annotations

import errno
import json
import resource
import subprocess
import sys

import pytest

from kubesim.shell import jq_process, jq_worker
from kubesim.tests import shell_world

REQUEST = {
    "program": "",
    "variables": {},
    "null": True,
    "slurp": False,
    "stream": False,
    "environment": {},
    "now": 0.0,
    "texts": [],
}


@pytest.mark.parametrize(
    ("line", "shown", "status"),
    [
        ("""echo '{"a":1}' | jq '.a | foo'""", "foo/0 is not defined at <top-level>, line 1, column 6:", 3),
        (
            """printf '{"a":1}\\n3\\n' | jq -c .a.b""",
            'jq: error (at <stdin>:2): Cannot index number with string ("b")',
            5,
        ),
        ("""jq -n '"no such thing\\n" | halt_error(3)'""", "no such thing\n", 3),
        ("""jq -n '{a:1} | error'""", 'jq: error (at <unknown>) (not a string): {"a":1}\n', 5),
        ("""printf '1 {' | jq .""", "1\njq: parse error: Unfinished JSON term at EOF", 2),
        ("""echo '1 2 3' | jq -n '[inputs] | add'""", "6\n", 0),
        ("""echo '{"inputs":[1]}{"inputs":[2]}' | jq -c .inputs""", "[1]\n[2]\n", 0),
        ("""echo '[1]' | jq -c --stream .""", "[[0],1]\n[[0]]\n", 0),
        ("A=5 jq -n '$ENV.A, env.A'", '"5"\n"5"\n', 0),
        ("jq -n --argjson x '{\"y\":[1,2]}' '$x.y[1], $ARGS.named.x.y[0]'", "2\n1\n", 0),
        ("jq -en false", "false\n", 1),
        ("jq -en 0", "0\n", 0),
        ("jq . nosuch", "jq: error: Could not open nosuch: No such file or directory\n", 2),
        ("jq --indent 9 . </dev/null", "jq: Cannot indent more than 7 characters\n", 2),
        ("jq --nosuch . </dev/null", "jq: Unknown option: --nosuch\nUse jq --help", 2),
    ],
)
async def test_a_filter_says_what_libjq_says(line, shown, status):
    text, ended = await shell_world.run(line)
    assert shown in text
    assert ended == status


async def test_now_is_the_time_of_the_cluster_and_the_environment_that_of_the_container():
    text, _ = await shell_world.run("date +%s; jq -n 'now | floor'; jq -n '$ENV | has(\"VIRTUAL_ENV\", \"USER\")'")
    first, second, *rest = text.split()
    assert abs(int(first) - int(second)) < 60
    assert rest == ["false", "false"]


async def test_what_nobody_reads_any_more_is_not_computed_to_its_end():
    assert await shell_world.run("jq -n 'repeat(1)' | head -n 2") == ("1\n1\n", 0)


async def test_filters_that_wait_for_other_filters_do_not_stop_each_other():
    script = "jq -n 'range(30000)' | (for i in 1 2 3; do jq -n 1; done; cat >/dev/null) & "
    text, _ = await shell_world.run(script * 3 + "wait")
    assert text.count("1\n") == 9


def _worker(program, command=None):
    """Run the worker itself; return its events."""
    request = json.dumps({**REQUEST, "program": program}).encode()
    done = subprocess.run(command or jq_process.worker_command(), input=request, capture_output=True, check=False)
    return [json.loads(line) for line in done.stdout.splitlines()], done.returncode


def test_a_filter_learns_nothing_of_the_files_of_the_host(tmp_path):
    (tmp_path / "secret.json").write_text('"of the host"')
    events, _ = _worker(f'# a comment\nimport "secret" as $s {{search: "{tmp_path}"}}; $s')
    assert events[0] == ["refused", "jq: error: module not found: secret\n\njq: 1 compile error"]


def test_a_worker_opens_neither_files_nor_pipes(tmp_path):
    seen = tmp_path / "seen"
    seen.touch()
    code = (
        "import os, sys; from kubesim.shell import jq_worker; jq_worker.confine()\n"
        "for what in (lambda: open(sys.argv[1]), os.pipe):\n"
        "    try: what()\n"
        "    except OSError as error: print(error.errno)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, seen], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(errno.EMFILE)] * 2


@pytest.mark.parametrize(
    "program",
    [
        "[range(1e9)] | length",
        "def f: f; f",
        *(
            pytest.param(more, marks=pytest.mark.torture)
            for more in ('"x" * 1e9 | length', "[limit(1e9; repeat(0))]")
        ),
    ],
)
def test_a_hostile_filter_ends_at_its_limits(program):
    """Of half the time: a filter of a container's whole time ends below."""
    quick = f"jq_worker.LIMITS = (({resource.RLIMIT_CPU}, 1), *jq_worker.LIMITS[1:])"
    script = f"from kubesim.shell import jq_worker; {quick}; jq_worker.main()"
    events, status = _worker(program, [sys.executable, "-c", script, jq_process.worker_command()[-1]])
    assert status < 0 or events[0][0] in ("error", "used")


async def test_a_killed_filter_says_so_and_its_time_counts_as_the_containers():
    made = shell_world.machine("toolbox")
    made.computing.rate, made.computing.burst = 1e-9, 1e9  # nothing is forgotten, nobody waits
    text, status = await shell_world.run("jq -n '[range(1e9)] | length'; exit $?", made=made)
    assert (text, status) == ("Killed\n", 137)
    assert made.computing.debt >= jq_worker.MAX_CPU_S
