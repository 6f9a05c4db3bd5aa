"""Programs that somebody wrote to stop the host: each ends, soon, and takes no other cluster along."""

from __future__ import annotations

import itertools

import pytest

from kubesim.kubelet import behaviours, images
from kubesim.kubelet.programs import Exit


@pytest.fixture
def busybox():
    return images.pull("busybox:1.36", "amd64")


def ran(run):
    return list(itertools.islice(run(10.0, 1000), 2000))


def test_a_word_longer_than_the_kernel_takes_cannot_be_started(busybox):
    program = behaviours.program(busybox, ("sh", "-c", "echo " + "x" * 200_000), (), "amd64", seed="s")
    outs = ran(program.run)
    assert outs[0].text.endswith("argument list too long")
    assert isinstance(outs[-1], Exit)


def test_references_are_not_filled_in_beyond_what_can_be_started(busybox):
    container = {"command": ["sh", "-c", "$(A)" * 200_000], "env": [{"name": "A", "value": "x" * 1_000_000}]}
    words = behaviours.command_line(container, busybox, behaviours.environment(container, {}))
    assert max(map(len, words)) <= 4 * 200_000
