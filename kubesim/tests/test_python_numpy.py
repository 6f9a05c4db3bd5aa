"""numpy in the sandbox prints what NumPy 1.26.4 printed on a machine of its own; large arrays are estimated."""

from pathlib import Path

import yaml

from kubesim.tests.containers import run
from kubesim.tests.guest_python import python, wrong
from kubesim.tests.world import container, pod, world

NGC = "nvcr.io/nvidia/pytorch:25.01-py3"
PRINTED = yaml.safe_load((Path(__file__).parent / "python" / "numpy.yaml").read_text("utf-8"))
"""Expressions with what NumPy 1.26.4 and Python 3.11 print for them."""
LARGE = """
import time, numpy as np
begin = time.perf_counter()
a = np.random.rand(4000, 4000)
b = a @ a
took = time.perf_counter() - begin
print(b.shape, 990 < b.mean() < 1010, 0.1 < took < 60, (np.ones((3000, 3000)) * 2).sum(), np.arange(10**6).sum())
"""


async def test_expressions_print_what_numpy_prints():
    async with world(count=1) as w:
        await w.create("pods", pod("train", container(NGC, "sleep", "3600")))
        await w.tick(900)
        assert await wrong(w, "import numpy as np", PRINTED) == (0, {})


async def test_large_arrays_take_the_machines_time_and_not_this_ones():
    async with world(count=1) as w:
        await w.create("pods", pod("train", container(NGC, "sleep", "3600")))
        await w.tick(900)
        assert await python(w, LARGE) == (0, "(4000, 4000) True True 18000000.0 499999500000\n")


async def test_numpy_has_the_images_version_and_only_what_is_named():
    async with world(count=1) as w:
        await w.create("pods", pod("train", container(NGC, "sleep", "3600")))
        await w.create("pods", pod("plain", container("python:3.12", "sleep", "3600")))
        await w.tick(900)
        assert await python(w, "import numpy; print(numpy.__version__)") == (0, "1.26.4\n")
        assert (await run(w, "train", "pip", "show", "numpy"))[1].splitlines()[1] == "Version: 1.26.4"
        assert "module 'numpy' has no attribute 'fleur'" in (await python(w, "import numpy; numpy.fleur"))[1]
        assert "ModuleNotFoundError: No module named 'numpy'" in (await python(w, "import numpy", "plain"))[1]
