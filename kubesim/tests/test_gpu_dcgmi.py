"""dcgmi: what it says of healthy and of broken devices."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kubesim.gpu import dcgmi
from kubesim.gpu.access import Access
from kubesim.gpu.board import GPU, Board
from kubesim.gpu.products import products

BOOT = datetime(2026, 11, 2, 8, 0, tzinfo=UTC)


@pytest.fixture
def board() -> Board:
    return Board("node-a", products()["H100"], 4, BOOT)


def ask(board: Board, line: str) -> tuple[str, int]:
    return dcgmi.run(Access(board, "", privileged=True).view(BOOT), line.split())


def test_it_lists_the_devices(board):
    out, status = ask(board, "discovery -l")
    assert (out.splitlines()[0], status) == ("4 GPU(s) found.", 0)
    assert {len(line) for line in out.splitlines()[1:]} == {80}


@pytest.mark.parametrize(
    ("code", "text"),
    [(48, "double-bit ECC"),
     (63, "row remappings are pending"), (64, "row remapping failed"), (74, "link 2 is currently down"),
          (79, "is not responding"), (119, "is not responding"), (95, "Detected XID 95")],
)  # fmt: skip
def test_its_watches_see_what_an_event_has_done(board, code, text):
    assert "Healthy" in ask(board, "health -c")[0]
    assert ask(board, "diag -r 1")[1] == 0
    board.xid(1, code, BOOT)
    out, _ = ask(board, "health -c")
    joined = "".join(line[30:86].strip() + " " for line in out.splitlines())
    assert text in " ".join(joined.split())
    assert {len(line) for line in out.splitlines()} == {88}
    assert ask(board, "diag -r 2")[1] == 226


def test_fields_are_shown_by_number(board):
    out, _ = ask(board, "dmon -e 150,203,252 -i 0")
    assert out.splitlines()[0].split() == ["#Entity", "TMPTR", "GPUTL", "FBUSD"]
    assert out.splitlines()[2].split() == ["GPU", "0", "29", "0", "0"]
    assert ask(board, "dmon -e 99999")[1] == 1
    assert ask(board, "dmon -e")[1] == 1


def test_what_it_does_not_know_is_answered_with_its_usage(board):
    assert ask(board, "frobnicate")[1] == 1
    assert ask(board, "")[0].startswith("Usage: dcgmi")


def test_only_who_was_given_devices_has_the_driver(board):
    assert not Access(board, "ml/a/main").has_driver
    board.allocate("ml/a/main", GPU, 1, BOOT)
    assert Access(board, "ml/a/main").has_driver
    assert Access(board, "ml/a/main").log is None
    assert Access(board, "x/y/z", privileged=True).log is board.log
