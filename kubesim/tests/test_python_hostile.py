"""Hostile Python in containers: it ends at its limits, has no more than its share, and reaches nothing outside."""

import asyncio
import json
import os
import random
import threading
import time
from types import UnionType
from typing import get_args, get_origin, get_type_hints

import pytest

from kubesim.python import execution
from kubesim.python.calls.registry import HANDLERS
from kubesim.shell.files import View
from kubesim.shell.handles import Outside
from kubesim.shell.machine import Process
from kubesim.shell.programs import find
from kubesim.shell.share import Share
from kubesim.tests import shell_world
from kubesim.tests.test_python_sandbox import ran

PATH = {"PATH": "/usr/bin:/bin"}
HOST = "host = __import__('os').getppid.__globals__['ask'].__globals__['wit_world'].host\n"
"""The function below all others, as a program finds it that looks for a way out."""
ENDING = {"exit", "outgrow", "pause", "sleep", "kill", "waitpid", "communicate", "setitimer"}
"""Calls that end the program, or wait for what nobody does."""
VALUES = {
    int: [0, 1, -1, 2, 5, 2**31, 2**62, -(2**63)],
    float: [0.0, -1.0, 1e18],
    str: ["", "x", "/", "/tmp/w", "../../../../etc/passwd", "/dev/null", "\0", "\ud800", "x" * 300, "ü/" * 50],
    bool: [True, False],
    object: [None, 1, "x", [[1]], {"x": None}],
}


def begun(made, source):
    """Start a program; returns its process."""
    view = View(made.files, made.now, "/tmp/w")
    process = Process(
        made, find(view, ["python3", "-c", source], "/usr/bin"), PATH, view, {1: Outside(), 2: Outside()}
    )
    return process.start(made.tools["python3"])


async def late(made, process):
    """Wait until a container has had all that it may compute: little at once, and hardly anything later."""
    made.computing.burst, made.computing.rate = 0.05, 0.001
    async with asyncio.timeout(60):
        while process.status is None and made.computing.debt < made.computing.burst:
            await asyncio.sleep(0.005)


async def still_running(source):
    """Start a program in a container, and return both once it has had all that it may compute."""
    made = shell_world.machine("toolbox")
    process = begun(made, source)
    await late(made, process)
    return made, process


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("x = []\nwhile True:\n    x.append(' ' * 10**6)", "MemoryError"),
        ("x = {i: i for i in range(10**9)}", "MemoryError"),
        ("sorted(range(10**8))", "MemoryError"),
        ("def f(n):\n    return f(n + 1)\nf(0)", "RecursionError: maximum recursion depth exceeded"),
        ("import sys\nsys.setrecursionlimit(10**9)\ndef f(n):\n    return f(n + 1)\nf(0)", "RecursionError: maximum"),
        ("def g():\n    yield from g()\nlist(g())", "RecursionError: maximum recursion depth exceeded"),
        ("class A:\n    def __repr__(self):\n        return repr(self)\nrepr(A())", "RecursionError: "),
        ("eval('(' * 10**5)", "MemoryError: Parser stack overflowed"),
        ("f = open('big', 'w')\nwhile True:\n    f.write('x' * 10**6)", "No space left on device"),
        ("import os\nwhile True:\n    os.pipe()", "Too many open files"),
        ("kept = []\nwhile True:\n    kept.append(open('/dev/null'))", "Too many open files"),
        ("import os\nwhile True:\n    os.dup(1)", "Too many open files"),
        ("str(10**5000)", "Exceeds the limit (4300 digits) for integer string conversion"),
        ("import ctypes", "No module named '_ctypes'"),
        ("import os\nwhile True:\n    os.fork()", "BlockingIOError: [Errno 11] Resource temporarily unavailable"),
        ("import threading\nwhile True:\n    threading.Thread(target=print).start()", "can't start new thread"),
        ("import json\njson.loads('[' * 10**6)", ""),
    ],
)
async def test_it_ends_at_its_limit(source, error):
    text, errors, status = await ran(shell_world.machine("toolbox"), source)
    assert (text, status in (1, 139)) == ("", True)
    assert error in errors


@pytest.mark.parametrize(
    "source",
    [
        "while True: pass",
        "import re\nre.match('(a+)+$', 'a' * 40 + 'b')",
        "import sys\nsys.set_int_max_str_digits(0)\nstr(10 ** 10 ** 7)",
        "10 ** 10 ** 9",
        "import itertools\nsum(itertools.count())",
        "while True: print('x' * 10**5)",
        "import os\ni = 0\nwhile True:\n    open(f'/tmp/{i}', 'w').close()\n    i += 1",
        "import os\nwhile True:\n    os.mkdir('d')\n    os.chdir('d')",
        "import subprocess\nwhile True:\n    subprocess.run(['true'])",
        "import os\nwhile True:\n    os.getcwd()",
    ],
)
async def test_what_never_ends_has_its_share_in_a_thread_of_low_priority_and_is_killed(source):
    made, process = await still_running(source)
    threads = [each.native_id for each in threading.enumerate() if each.name == "python"]
    assert [os.getpriority(os.PRIO_PROCESS, each) for each in threads] == [execution.NICE] * len(threads)
    process.signal("KILL")
    assert await asyncio.wait_for(process.wait(), 30) == 137
    assert made.computing.debt < 0.5


@pytest.mark.parametrize(
    "source",
    [
        "import subprocess, sys\nwhile True:\n    subprocess.Popen([sys.executable, '-c', 'while True: pass'])",
        "import subprocess\nwhile True:\n    subprocess.Popen(['sleep', '1000'])",
        "import os\nos.system('f() { f | f & }; f')",
    ],
)
async def test_a_fork_bomb_ends_with_its_container(source):
    made, process = await still_running(source)
    made.stop()
    await asyncio.wait_for(process.wait(), 30)
    while made.processes:
        await asyncio.sleep(0)


async def test_a_busy_script_takes_nothing_of_the_event_loop_nor_of_other_containers():
    share = Share()
    busy, other = shell_world.machine("toolbox"), shell_world.machine("toolbox")
    for made in (busy, other):
        made.join(share)
    before = time.thread_time()
    process = begun(busy, "while True: pass")
    await late(busy, process)
    assert time.thread_time() - before < 0.5 * busy.computing.debt + 0.1
    now = time.perf_counter()
    assert (busy.computing.wait(now) > 0, other.computing.wait(now)) == (True, 0)
    busy.stop()
    await asyncio.wait_for(process.wait(), 30)


async def test_malformed_calls_of_the_host_are_refused():
    source = """
for name in ("open", "nosuch", "open_", "__class__", "getcwd", "tls"):
    for args in ("", "{", "[]", "null", "5", '"x"', '{"process": 1}', '{"path": 5, "flags": 1}', "[" * 10**5,
                 '{"path": "x", "flags": "y"}', '{"path": "x", "flags": 1e400}',
                 '{"path": "x", "flags": 1' + "0" * 5000 + "}",
                 '{"path": ["x"], "flags": 0}', '{"path": "x", "flags": 0, "mode": null}', '{"a" : 1}'):
        print(host(name, args))
"""
    text, errors, status = await ran(shell_world.machine("toolbox"), HOST + source)
    assert (errors, status) == ("", 0)
    assert [line for line in text.splitlines() if "TypeError" not in line] == []


def example(hint, chance):
    """Return a value that fits a type."""
    inner = get_args(hint)
    if get_origin(hint) is UnionType:
        return example(chance.choice(inner), chance)
    if get_origin(hint) is list:
        return [example(inner[0], chance) for _ in range(chance.randrange(3))]
    if get_origin(hint) is dict:
        return {example(str, chance): example(inner[1], chance) for _ in range(chance.randrange(3))}
    return None if hint is type(None) else chance.choice(VALUES[hint])


async def test_whatever_fits_a_call_is_answered():
    chance, unanswered = random.Random(5), []
    for name in sorted(HANDLERS.keys() - ENDING):
        hints = get_type_hints(HANDLERS[name])
        names = hints.keys() - {"process", "return"}
        calls = [
            json.dumps({key: 0 if key == "until" else example(hints[key], chance) for key in sorted(names)})
            for _ in range(25)
        ]
        source = f"""
answers = [host({name!r}, each) for each in {calls!r}]
__import__("os")._exit(42 if all(each[:5] in ('{{"ok"', '{{"err') for each in answers) else 1)"""
        if (status := (await ran(shell_world.machine("toolbox"), HOST + source))[2]) != 42:
            unanswered.append((name, status))
    assert unanswered == []


async def test_no_file_variable_or_name_of_this_machine_is_seen(monkeypatch, tmp_path):
    monkeypatch.setenv("HOST_SECRET", "seen")
    secret = tmp_path / "secret"
    secret.write_text("seen")
    source = f"""
import os, socket, sys, time
print(os.environ.get("HOST_SECRET"), os.path.exists({str(secret)!r}), os.path.exists({os.getcwd()!r}), sys.path[-1])
print([each for each in ("/0", "/python", "/world", "/bundled") if os.path.exists(each)], socket.gethostname())
for name in ({str(secret)!r}, "/proc/1/environ", "../" * 40 + {str(secret)[1:]!r}):
    try:
        print("seen" in open(name).read())
    except OSError as error:
        print(type(error).__name__)
print([name for name in sys.modules if name in ("machine", "files", "program", "wit_world", "app", "modules")])
"""
    text, errors, status = await ran(shell_world.machine("toolbox"), source)
    assert "True" not in text
    assert "seen" not in text
    assert (errors, status, text.splitlines()[-1]) == ("", 0, "[]")
