"""Lines of known programs say when they were printed, as their loggers do; what a user's program prints stays."""

from datetime import UTC, datetime

import pytest

from kubesim.kubelet import behaviours
from kubesim.kubelet.logfile import stamped
from kubesim.tests.containers import log
from kubesim.tests.world import container, pod, world

AT = datetime(2026, 3, 9, 7, 5, 1, 20_300, UTC)
CASES = {
    'I main.go:235] "x"': 'I0309 07:05:01.020300       1 main.go:235] "x"',
    'level=INFO msg="x"': 'time=2026-03-09T07:05:01.020Z level=INFO msg="x"',
    "level=info caller=a.go:1": "ts=2026-03-09T07:05:01.020Z level=info caller=a.go:1",
    '{"level":"INFO","msg":"x"}': '{"time":"2026-03-09T07:05:01.020300Z","level":"INFO","msg":"x"}',
    '{"level":"info","msg":"x"}': '{"level":"info","ts":"2026-03-09T07:05:01Z","msg":"x"}',
    '{"severity":"info","msg":"x"}': '{"severity":"info","timestamp":"2026-03-09T07:05:01.020Z","msg":"x"}',
    "[notice] 1#1: start": "2026/03/09 07:05:01 [notice] 1#1: start",
    "[core:notice] [pid 1] x": "[Mon Mar 09 07:05:01.020300 2026] [core:notice] [pid 1] x",
    "INFO [config.py] x": "INFO 03-09 07:05:01 [config.py] x",
    "INFO api_server.py:528] x": "INFO 03-09 07:05:01 api_server.py:528] x",
    "I server.cc:611] x": "I0309 07:05:01.020300 1 server.cc:611] x",
    " INFO launcher: x": "2026-03-09T07:05:01.020300Z  INFO launcher: x",
    "[INFO] plugin/reload: x": "[INFO] plugin/reload: x",
    "INFO:     Uvicorn": "INFO:     Uvicorn",
}


VALUES = {
    "torch": "2.7.0", "vllm": "0.10.1", "dtype": "bfloat16", "attention": "Flash Attention", "weights": 15.0,
    "free": 50.0, "kv": 400_000, "blocks": 25_000, "users": 48.8,
}  # fmt: skip


@pytest.mark.parametrize("text", CASES)
def test_every_logger_writes_the_moment_in_its_own_form(text):
    assert stamped(text, AT) == CASES[text]


def test_no_known_program_prints_a_line_whose_logger_nobody_knows():
    unstamped = [
        line.text
        for name in behaviours._table()
        for line in behaviours.workload(name, "a", **VALUES).lines(60)
        if line.text.startswith(("I ", "level=", "{", "[notice]")) and stamped(line.text, AT) == line.text
    ]
    assert unstamped == []


async def test_a_known_program_stamps_its_lines_and_a_users_program_does_not():
    async with world(count=1) as w:
        say = """python3 -c 'print("level=INFO x", flush=True)'; sleep 60"""
        await w.create("pods", pod("own", container("python:3.12-slim", "sh", "-c", say)))
        await w.create("pods", pod("web", container("nginx:1.27")))
        await w.tick(5)
        assert log(w, "own") == "level=INFO x\n"
        assert f"{w.clock.now():%Y/%m/%d} " in log(w, "web")
