"""Programs that somebody wrote to stop the host: each ends, soon, and takes no other cluster along."""

from __future__ import annotations

import itertools

import pytest

from kubesim.kubelet import behaviours, images, python, shell
from kubesim.kubelet.programs import Exit, Line


@pytest.fixture
def busybox():
    return images.pull("busybox:1.36", "amd64")


def ran(run):
    return list(itertools.islice(run(10.0, 1000), 2000))


def sh(text):
    return ran(shell.script(text, {}, {}, lambda words: None))


@pytest.mark.parametrize("text", ["if " * 8000, "while " * 8000, "echo " + "$(" * 30_000, "a;" * 300, "x" * 100_000])
def test_a_shell_script_of_any_shape_ends(text):
    assert isinstance(sh(text)[-1], Exit)


def test_a_variable_that_doubles_itself_stays_within_bounds():
    lines = [out for out in sh("a=xxxxxxxx; " + "a=$a$a; " * 40 + "echo $a$a$a") if isinstance(out, Line)]
    assert all(len(line.text) <= shell.LONGEST_EXPANSION for line in lines)


DEEP = ["print(" + "-" * 20_000 + "1)", "print(" + "+".join("1" * 20_000) + ")", "x" + ".a" * 20_000]


@pytest.mark.parametrize("text", DEEP)
def test_a_python_program_nested_too_deeply_ends_as_in_cpython(text):
    outs = ran(python.script(text, frozenset(), {}, unbuffered=True))
    assert outs[-1] == Exit(outs[-1].at, 1)
    assert [out.text for out in outs[:-1]][-1] == "MemoryError"


def test_a_word_longer_than_the_kernel_takes_cannot_be_started(busybox):
    program = behaviours.program(busybox, ("sh", "-c", "echo " + "x" * 200_000), (), "amd64", seed="s")
    outs = ran(program.run)
    assert outs[0].text.endswith("argument list too long")
    assert isinstance(outs[-1], Exit)


def test_references_are_not_filled_in_beyond_what_can_be_started(busybox):
    container = {"command": ["sh", "-c", "$(A)" * 200_000], "env": [{"name": "A", "value": "x" * 1_000_000}]}
    assert max(map(len, behaviours.command_line(container, busybox, behaviours.environment(container, {})))) <= 4 * 200_000
