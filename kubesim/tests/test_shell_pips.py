"""pip in containers: it agrees with the image, and with what Python says."""

import pytest

from kubesim.clock import RealClock
from kubesim.tests import shell_world
from kubesim.tests.containers import run
from kubesim.tests.world import container, pod, world

NGC = "nvcr.io/nvidia/pytorch:25.01-py3"


async def says(text, libraries=None):
    made = shell_world.machine("toolbox", RealClock(1000.0))
    made.libraries = {"python": "3.12.3", "torch": "2.6.0", "numpy": "1.26.4"} if libraries is None else libraries
    return await shell_world.run(text, made=made)


async def test_pip_python_and_torch_tell_the_versions_of_the_image():
    async with world() as w:
        await w.create("pods", pod("train", container(NGC, "sleep", "3600")))
        await w.tick(900)
        shown = (await run(w, "train", "pip", "show", "torch"))[1]
        assert "Version: 2.6.0a0+ecf3bae40a\n" in shown
        assert "Location: /usr/local/lib/python3.12/dist-packages\n" in shown
        assert "Required-by: \n" not in shown
        assert (await run(w, "train", "python3", "--version"))[1] == "Python 3.12.3\n"
        version = await run(w, "train", "pip", "--version")
        assert version[1] == "pip 24.0 from /usr/local/lib/python3.12/dist-packages/pip (python 3.12)\n"
        told = await run(w, "train", "python3", "-c", "import sys, torch; print(sys.version.split()[0])")
        assert told[1] == "3.12.3\n"
        listed = (await run(w, "train", "python3", "-m", "pip", "list"))[1].splitlines()
        assert listed[0].split() == ["Package", "Version"]
        assert {"torch", "numpy", "tqdm", "pip"} <= {line.split()[0] for line in listed}


async def test_an_image_without_libraries_has_pip_alone():
    assert await says("python3 -m pip list", {}) == ("Package Version\n------- -------\npip     24.0\n", 0)
    assert await says("python3 -m pip show torch", {}) == ("WARNING: Package(s) not found: torch\n", 1)


async def test_what_is_there_is_not_installed_again():
    out, status = await says("python3 -m pip install torch numpy==1.26.4")
    assert status == 0
    assert out.count("Requirement already satisfied: ") == 2


@pytest.mark.parametrize("name", ["flash-attn", "numpy==2.0.0"])
async def test_what_is_missing_fails_in_pips_words(name):
    out, status = await says(f"python3 -m pip install {name}")
    assert status == 1
    assert out.endswith(
        f"ERROR: Could not find a version that satisfies the requirement {name} (from versions: none)\n"
        f"ERROR: No matching distribution found for {name}\n"
    )


async def test_what_is_downloaded_is_asked_of_the_index_even_where_it_is_installed():
    out, status = await says("python3 -m pip download torch")
    assert status == 1
    assert out.endswith("ERROR: No matching distribution found for torch\n")


@pytest.mark.parametrize("text", ["frobnicate", "install", "show"])
async def test_a_wrong_command_line_is_pips_error(text):
    out, status = await says(f"python3 -m pip {text}")
    assert status == 1
    assert "ERROR: " in out
