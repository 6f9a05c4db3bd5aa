"""Programs that somebody wrote to stop the host: each ends, soon, and takes no other cluster along."""

from __future__ import annotations

import itertools

import pytest

from kubesim.kubelet import behaviours, images, python
from kubesim.kubelet.programs import Exit, Line


@pytest.fixture
def busybox():
    return images.pull("busybox:1.36", "amd64")


def ran(run):
    return list(itertools.islice(run(10.0, 1000), 2000))


DEEP = ["print(" + "-" * 20_000 + "1)", "print(" + "+".join("1" * 20_000) + ")", "x" + ".a" * 20_000]


@pytest.mark.parametrize("text", DEEP)
def test_a_python_program_nested_too_deeply_ends_as_in_cpython(text):
    outs = ran(python.script(text, frozenset(), {}, unbuffered=True))
    assert outs[-1] == Exit(outs[-1].at, 1)
    assert [out.text for out in outs[:-1]][-1] == "MemoryError"


WIDE = [
    "print('%1000000000d' % 1)",
    "print('%*d' % (1000000000, 1))",
    "print(f'{1:1000000000}')",
    "print(([0] * 1000000) * 1000000)",
    "a = 'x'\nwhile 1 < 2:\n    a = a + a",
    "a = [1]\nwhile 1 < 2:\n    a += a",
    "for x in 7: print(x)",
    "print(1 < 'a', range('a'), f'{1:zz}')",
    "print(range(1, 2, 0))",
]


@pytest.mark.parametrize("text", WIDE)
def test_a_python_program_makes_nothing_large_and_ends_or_goes_on(text):
    outs = ran(python.script(text, frozenset(), {}, unbuffered=True))
    assert sum(len(out.text) for out in outs if isinstance(out, Line)) < 1000
    assert not outs or isinstance(outs[-1], Exit)


def test_a_word_longer_than_the_kernel_takes_cannot_be_started(busybox):
    program = behaviours.program(busybox, ("sh", "-c", "echo " + "x" * 200_000), (), "amd64", seed="s")
    outs = ran(program.run)
    assert outs[0].text.endswith("argument list too long")
    assert isinstance(outs[-1], Exit)


def test_references_are_not_filled_in_beyond_what_can_be_started(busybox):
    container = {"command": ["sh", "-c", "$(A)" * 200_000], "env": [{"name": "A", "value": "x" * 1_000_000}]}
    words = behaviours.command_line(container, busybox, behaviours.environment(container, {}))
    assert max(map(len, words)) <= 4 * 200_000
