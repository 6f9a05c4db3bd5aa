"""The checks that people type at python3 in a container."""

import pytest

from kubesim.shell.errors import NetworkError
from kubesim.shell.files import Directory
from kubesim.tests import shell_world
from kubesim.tests.containers import run
from kubesim.tests.world import container, pod, world


class Names:
    """Knows one name."""

    async def resolve(self, name):
        if name != "web":
            raise NetworkError("nxdomain")
        return ["10.96.0.7"]


async def says(text, *, torch=False):
    made = shell_world.machine("toolbox")
    made.network = Names()
    if torch:
        folder = made.files.walk("/usr/lib/python3/dist-packages").directory
        folder.put("torch", Directory())
    return await shell_world.run(f"python3 -c '{text}'", made=made)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('import socket; print(socket.gethostbyname("web"))', "10.96.0.7\n"),
        ('import os; print(os.environ.get("HOME"), os.environ["HOME"])', "/root /root\n"),
        ("import socket; print(socket.gethostname())", "web-0\n"),
    ],
)
async def test_names_and_the_environment_are_asked(text, shown):
    assert await says(text) == (shown, 0)


async def test_a_name_that_there_is_not_raises():
    text, status = await says('import socket; socket.gethostbyname("nosuch")')
    assert (status, text.splitlines()[-1]) == (1, "socket.gaierror: [Errno -2] Name or service not known")


async def test_without_torch_there_is_none():
    text, status = await says("import torch; print(torch.cuda.is_available())")
    assert (status, text.splitlines()[-1]) == (1, "ModuleNotFoundError: No module named 'torch'")


async def test_torch_sees_the_containers_devices():
    limits = {"limits": {"nvidia.com/gpu": "2"}}
    script = (
        "import torch; print(torch.cuda.is_available(), torch.cuda.device_count(), torch.version.cuda); "
        "print(torch.cuda.get_device_name(0)); print(torch.cuda.nccl.version())"
    )
    async with world(1) as w:
        image = "pytorch/pytorch:2.5.1-cuda12.4-cudnn9-runtime"
        await w.create("pods", pod("train", container(image, "sleep", "999", resources=limits)))
        await w.tick(60)
        _, out, err = await run(w, "train", "python3", "-c", script)
        assert (out, err) == ("True 2 12.4\nNVIDIA H100 80GB HBM3\n(2, 21, 5)\n", "")


@pytest.mark.parametrize(
    ("image", "versions"),
    [
        ("nvcr.io/nvidia/pytorch:24.07-py3", "2.4.0a0+3bcc3cddb5 12.5 90201 (2, 22, 3)"),
        ("pytorch/pytorch:2.3.1-cuda12.1-cudnn8-runtime", "2.3.1 12.1 8902 (2, 20, 5)"),
    ],
)
async def test_torch_tells_the_versions_of_its_image_as_pip_does(image, versions):
    script = (
        "import torch; print(torch.__version__, torch.version.cuda, torch.backends.cudnn.version(), "
        "torch.cuda.nccl.version())"
    )
    async with world(1) as w:
        await w.create("pods", pod("train", container(image, "sleep", "999")))
        await w.tick(900)
        _, out, err = await run(w, "train", "python3", "-c", script)
        assert (out, err) == (f"{versions}\n", "")
        shown = (await run(w, "train", "pip", "show", "torch"))[1]
        assert f"Version: {versions.split()[0]}\n" in shown
