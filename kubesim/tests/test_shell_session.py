"""What somebody sees who types into a shell of a container."""

from __future__ import annotations

import asyncio

import pytest

from kubesim.clock import ManualClock, RealClock, settle
from kubesim.shell.errors import StartError
from kubesim.shell.files import Directory, Mount
from kubesim.shell.machine import Stdio
from kubesim.shell.spawn import spawn
from kubesim.tests import shell_world
from kubesim.tests.shell_world import Keys, Screen, Terminal, begun


class Session(Terminal):
    """A terminal with a shell."""

    def __init__(self, argv=("bash",), kind="toolbox"):
        self.keys, self.screen = Keys(), Screen()
        self.stdio = Stdio(self.keys, self.screen, self.screen, tty=True)
        self.machine = shell_world.machine(kind, RealClock())
        self.process = spawn(self.machine, list(argv), stdio=self.stdio)


@pytest.fixture
async def session():
    async with begun(Session()) as made:
        yield made


async def test_each_shell_has_its_prompt():
    for argv, kind, prompt in (
        ("bash", "toolbox", "root@web-0:/# "),
        ("sh", "busybox", "/ # "),
        ("sh", "debian", "# "),
    ):
        made = Session((argv,), kind)
        await made.screen.shows(prompt)
        made.machine.stop()


async def test_a_command_runs_and_the_next_prompt_comes(session):
    text = await session.does("echo $((6*7))\r", "42\r\nroot@web-0:/# ")
    assert "\r\n42\r\n" in text


async def test_lines_are_edited_with_the_keys_of_emacs(session):
    await session.does("cho hi\x01e\r", "\r\nhi\r\n")
    await session.does("echo wrong\x17right\x15echo done\r", "\r\ndone\r\n")


async def test_a_terminal_without_a_window_has_the_usual_size(session):
    """As ``script`` and ``expect`` give kubectl one: 0 by 0."""
    session.stdio.resize(0, 0)
    text = await session.does("echo $((6*7))\r", "42\r\nroot@web-0:/# ")
    assert "\x1b[1A" not in text


async def test_history_comes_back_with_arrows_and_search(session):
    await session.does("echo first\r", "\r\nfirst\r\n")
    await session.does("\x1b[A\r", "\r\nfirst\r\n")
    await session.does("\x12fir\r", "\r\nfirst\r\n")


async def test_tab_completes_commands_and_files(session):
    await session.does("cat /etc/host\t\tname\r", "hostname")
    await session.does("\x15whoa\t\r", "\r\nroot\r\n")


async def test_control_c_ends_what_runs_and_nothing_else(session):
    session.keys.type("sleep 100\r")
    await session.screen.shows("sleep 100\r\n")
    while len(session.machine.processes) < 2:
        await asyncio.sleep(0)
    await session.does("\x03", "^C\r\nroot@web-0:/# ")
    await session.does("echo $?\r", "\r\n130\r\n")


async def test_control_c_ends_a_busy_loop(session):
    session.keys.type("while :; do :; done\r")
    await session.screen.shows("done\r\n")
    await session.does("\x03", "root@web-0:/# ")


async def test_a_line_that_is_not_finished_goes_on(session):
    await session.does("if true\r", "\r\n> ")
    await session.does("then echo yes; fi\r", "\r\nyes\r\n")


async def test_a_here_document_is_typed_to_its_end(session):
    await session.does("cat <<E | tr a-z A-Z\r", "\r\n> ")
    await session.does("one\r", "\r\n> ")
    await session.does("E\r", "\r\nONE\r\n")


async def test_a_loop_of_several_lines_is_recalled_in_one(session):
    await session.does("for i in 1 2; do\r", "\r\n> ")
    await session.does("echo $i\r", "\r\n> ")
    await session.does("done\r", "\r\n1\r\n2\r\n")
    assert "for i in 1 2; do echo $i; done" in await session.does("\x1b[A\r", "\r\n1\r\n2\r\n")


async def test_a_script_on_standard_input_has_here_documents():
    keys, screen = Keys(), Screen()
    for char in [*"cat <<E\necho two\nE\necho three\n", ""]:
        keys.type(char)
    made = shell_world.machine("debian")
    process = spawn(made, ["sh"], stdio=Stdio(keys, screen, screen))
    await process.wait()
    assert screen.text == "echo two\nthree\n"


async def test_a_job_is_stopped_and_brought_back(session):
    session.keys.type("sleep 100\r")
    while len(session.machine.processes) < 2:
        await asyncio.sleep(0)
    await session.does("\x1a", "Stopped")
    await session.does("jobs\r", "[1]+  Stopped                 sleep 100")
    session.keys.type("fg\r")
    await session.screen.shows("sleep 100\r\n", len(session.screen.text) - 20)
    await session.does("\x03", "# ")


async def test_the_window_has_the_size_it_was_given(session):
    session.stdio.resize(50, 132)
    await session.does("stty size\r", "50 132")


async def test_exit_and_the_end_of_input_leave(session):
    await session.does("exit 3\r", "exit")
    assert await session.process.wait() == 3


@pytest.mark.parametrize(
    ("argv", "text", "code"),
    [
        (["nope"], 'exec: "nope": executable file not found in $PATH', 127),
        (["/nope"], 'exec: "/nope": stat /nope: no such file or directory', 127),
        (["/etc/passwd"], 'exec: "/etc/passwd": permission denied', 126),
    ],
)
async def test_what_cannot_start_is_told_in_the_runtimes_words(argv, text, code):
    with pytest.raises(StartError) as caught:
        spawn(shell_world.machine("busybox"), argv)
    assert (caught.value.text, caught.value.code) == (text, code)


async def test_an_image_without_a_shell_has_none():
    with pytest.raises(StartError, match="executable file not found"):
        spawn(shell_world.machine("distroless"), ["sh"])


async def test_the_first_process_takes_only_signals_that_it_handles():
    clock = ManualClock()
    plain = spawn(shell_world.machine("busybox", clock), ["sleep", "100"])
    trapping = spawn(
        shell_world.machine("busybox", clock), ["sh", "-c", "trap 'exit 5' TERM; while :; do sleep 1; done"]
    )
    await settle()
    plain.signal("TERM")
    trapping.signal("TERM")
    await clock.advance(2)
    assert (plain.status, trapping.status) == (None, 5)
    plain.signal("KILL")
    assert await plain.wait() == 137


async def test_sleeping_takes_the_time_of_the_clock():
    clock = ManualClock()
    process = spawn(shell_world.machine("busybox", clock), ["sh", "-c", "sleep 3600; exit 4"])
    await clock.advance(3599)
    assert process.status is None
    await clock.advance(2)
    assert process.status == 4


async def test_containers_share_a_mounted_volume_and_nothing_else():
    volume = Directory()
    first, second = shell_world.machine("busybox"), shell_world.machine("busybox")
    for made in (first, second):
        made.files.mount("/data", Mount(volume))
    await shell_world.run("echo shared > /data/x; echo own > /tmp/y", "ash", made=first)
    assert await shell_world.run("cat /data/x; cat /tmp/y", "ash", made=second) == (
        "shared\ncat: /tmp/y: No such file or directory\n",
        1,
    )


async def test_a_read_only_mount_refuses_writes():
    made = shell_world.machine("toolbox")
    made.files.mount("/conf", Mount(Directory(), readonly=True))
    text, _ = await shell_world.run("echo x > /conf/x", made=made)
    assert text == "bash: line 1: /conf/x: Read-only file system\n"


async def test_a_follower_sees_what_is_appended():
    clock = ManualClock()
    made = shell_world.machine("busybox", clock)
    screen = Screen()
    spawn(made, ["sh", "-c", "echo a > /tmp/log; tail -f /tmp/log"], stdio=Stdio(None, screen, screen))
    await clock.advance(1)
    node = made.files.walk("/tmp/log").node
    node.data = bytes(node.data) + b"b\n"
    await clock.advance(2)
    made.stop()
    assert screen.text == "a\nb\n"
