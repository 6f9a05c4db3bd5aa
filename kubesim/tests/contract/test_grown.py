"""Every case of bad input costs time in proportion to its size: for eight times the body less than 13 times the CPU.

Measured is the least of many attempts over a real connection, in which the client has its small share.
"""

from __future__ import annotations

import gc
import http.client
import time

import pytest

from kubesim.tests.contract import bad_input, grown
from kubesim.tests.contract.plain import Plain

pytestmark = pytest.mark.torture
FACTOR = 8
MAX_GROWTH = 1.6 * FACTOR
FLOOR_S = 0.002
"""What a request costs at least, whatever is in it."""
ATTEMPTS = 12


@pytest.fixture
def plain(live, monkeypatch):
    """Plain requests, whose answers nobody loads."""
    monkeypatch.setattr(http.client, "_MAXHEADERS", 1_000)  # upstream sends a few hundred short warnings, too
    return Plain("kubesim", live.kubeconfig)


def cpu_s(plain, case):
    """Measure the CPU time of one request and its answer."""
    gc.collect()
    gc.disable()
    began = time.process_time()
    try:
        answer = plain(case.method, case.path, case.body, kind=case.type, headers=case.headers)
    finally:
        gc.enable()
    took = time.process_time() - began
    assert answer.code < 500, answer.body[:200]
    return took


@pytest.mark.parametrize("case", bad_input.cases(), ids=lambda case: case.name)
def test_bad_input_that_is_eight_times_as_large_takes_eight_times_as_long(plain, case):
    for growth in grown.growths(case):
        small, large = growth.at(1), growth.at(FACTOR)
        took_small = took_large = 1e9
        for _ in range(ATTEMPTS):
            took_small = min(took_small, cpu_s(plain, small))
            took_large = min(took_large, cpu_s(plain, large))
            if took_large < MAX_GROWTH * max(took_small, FLOOR_S):
                break
        else:
            ratio = took_large / max(took_small, FLOOR_S)
            pytest.fail(
                f"{growth.name}: {took_small * 1e3:.1f} ms becomes {took_large * 1e3:.1f} ms, {ratio:.1f} times"
            )
