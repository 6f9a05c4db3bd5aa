"""apt and nvcc in containers: no archive answers, and what an image has decides."""

import pytest

from kubesim.clock import RealClock
from kubesim.tests import shell_world
from kubesim.tests.containers import run
from kubesim.tests.world import container, pod, world


async def says(text):
    return await shell_world.run(text, made=shell_world.machine("toolbox", RealClock(10_000.0)))


async def test_an_update_says_that_no_archive_answered_and_goes_on():
    out, status = await says("apt-get update -qq 2>&1")
    assert status == 0
    assert out.endswith("W: Some index files failed to download. They have been ignored, or old ones used instead.\n")


async def test_a_package_that_no_list_has_cannot_be_installed():
    out, status = await says("apt-get install -y strace")
    assert status == 100
    assert out.endswith("E: Unable to locate package strace\n")


async def test_a_wrong_command_is_apts_error():
    assert await says("apt frobnicate") == ("E: Invalid operation frobnicate\n", 100)


@pytest.mark.parametrize(
    ("image", "release"),
    [
        ("nvcr.io/nvidia/pytorch:25.01-py3", "release 12.8, V12.8.61"),
        ("nvidia/cuda:12.4.1-devel-ubuntu22.04", "release 12.4, V12.4.131"),
    ],
)
async def test_images_for_building_have_the_compiler_of_their_cuda(image, release):
    async with world() as w:
        await w.create("pods", pod("dev", container(image, "sleep", "3600")))
        await w.tick(900)
        assert release in (await run(w, "dev", "nvcc", "--version"))[1]
        assert (await run(w, "dev", "sh", "-c", "touch a.cu; nvcc a.cu 2>&1"))[1].endswith(
            "Failed to preprocess host compiler properties.\n"
        )


async def test_images_for_running_have_no_compiler():
    async with world() as w:
        await w.create("pods", pod("run", container("nvidia/cuda:12.4.1-base-ubuntu22.04", "sleep", "3600")))
        await w.tick(900)
        assert "not found" in (await run(w, "run", "sh", "-c", "nvcc --version 2>&1"))[1]
