"""CPython in containers: what a program prints when, and how it is stopped."""

import asyncio

from kubesim.python import build
from kubesim.python.engine import engine, running_programs
from kubesim.shell.files import View
from kubesim.shell.handles import Outside
from kubesim.shell.machine import Process
from kubesim.shell.programs import find
from kubesim.streaming.pipe import Pipe
from kubesim.tests import shell_world
from kubesim.tests.test_gpu_workloads import log
from kubesim.tests.world import container, pod, world


async def ran(made, source):
    """Return what a program prints, on both streams, and its status."""
    streams = [shell_world.Screen(), shell_world.Screen()]
    view = View(made.files, made.now, "/tmp")
    program = find(view, ["python3", "-c", source], "/usr/bin")
    fds = {0: Outside(), 1: Outside(writer=streams[0]), 2: Outside(writer=streams[1])}
    process = Process(made, program, {"PATH": "/usr/bin:/bin", "HOME": "/root"}, view, fds)
    process.start(made.tools[program.tool])
    status = await asyncio.wait_for(process.wait(), 60)
    return streams[0].text, streams[1].text, status


async def test_a_containers_program_prints_when_its_buffer_is_flushed():
    async with world(count=1) as w:
        source = "import time\nprint('a')\ntime.sleep(5)\nprint('b')\ntime.sleep(1000)"
        await w.create("pods", pod("late", container("python:3.12", "python3", "-c", source)))
        await w.create("pods", pod("soon", container("python:3.12", "python3", "-u", "-c", source)))
        await w.tick(60)
        assert (log(w, "late"), log(w, "soon")) == ("", "a\nb\n")


async def test_an_endless_loop_ends_with_its_process():
    made = shell_world.machine("toolbox")
    text, status = await shell_world.run("timeout 0.3 python3 -c 'while True: pass'; echo $?", made=made)
    assert (text, status) == ("124\n", 0)


async def test_the_prompt_keeps_its_names_and_goes_on_after_an_error_and_an_interrupt():
    made, screen = shell_world.machine("toolbox"), shell_world.Screen()
    keys = Pipe(lambda: None)
    stdio = shell_world.Stdio(keys, screen, screen, tty=True)
    process = shell_world.spawn(made, ["python3"], cwd="/tmp", stdio=stdio)
    keys.feed(b"x = 20\n1/0\nx + 1\nimport time\n")
    await screen.shows("21\r\n")
    keys.feed(b"print('asleep', x * 5); time.sleep(1000)\n")
    await screen.shows("asleep 100\r\n")
    keys.feed(b"\x03")
    await screen.shows("KeyboardInterrupt")
    keys.feed(b"exit()\n")
    assert await asyncio.wait_for(process.wait(), 30) == 0
    assert 'File "<stdin>", line 1, in <module>\r\nZeroDivisionError: division by zero\r\n' in screen.text


async def test_nothing_counts_epochs_while_programs_only_sleep():
    made, screen = shell_world.machine("toolbox"), shell_world.Screen()
    stdio = shell_world.Stdio(Pipe(lambda: None), screen, screen, tty=True)
    source = "import time; print('asleep', flush=True); time.sleep(1000)"
    process = shell_world.spawn(made, ["python3", "-c", source], cwd="/tmp", stdio=stdio)
    await screen.shows("asleep")
    running = await asyncio.to_thread(engine, build.component)
    async with asyncio.timeout(30):
        while running.computing:
            await asyncio.sleep(0)
    assert running_programs() > 0
    process.signal("KILL")
    await process.wait()
