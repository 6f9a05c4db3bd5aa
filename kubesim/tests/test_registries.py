"""crane in the toolbox: platforms, digests and the refusals of registries."""

import json

import pytest

from kubesim.kubelet.images import pull
from kubesim.shell.errors import NetworkError
from kubesim.tests import shell_world


class Net:
    """The way out: open, or lost where ``kind`` says how."""

    def __init__(self, kind=""):
        self.kind = kind

    async def resolve(self, name):
        if self.kind == "nxdomain":
            raise NetworkError("nxdomain")
        return ["203.0.113.7"]

    async def connect(self, host, port):
        if self.kind:
            raise NetworkError(self.kind)


async def says(script, kind=""):
    made = shell_world.machine("toolbox")
    made.network = Net(kind)
    return await shell_world.run(script, made=made)


async def test_an_index_lists_its_platforms():
    text, _ = await says("crane manifest python:3.12 | jq -r '.manifests[].platform.architecture' | sort -u")
    assert {"amd64", "arm64"} <= set(text.split())
    text, _ = await says("crane manifest arm64v8/python:3.9 | jq -c '.manifests[].platform'")
    assert text == '{"architecture":"arm64","os":"linux","variant":"v8"}\n'


async def test_the_digest_is_the_one_that_nodes_report():
    text, _ = await says("crane digest busybox:1.36")
    assert text.strip() == pull("busybox:1.36", "amd64").image_id.partition("@")[2]


async def test_an_image_for_another_architecture_is_told():
    assert await says("crane config arm64v8/python:3.9") == (
        "Error: fetching config arm64v8/python:3.9: no child with platform linux/amd64 in index "
        "index.docker.io/arm64v8/python:3.9\n",
        1,
    )
    script = "crane config --platform linux/arm64 arm64v8/python:3.9 | jq -r .architecture"
    assert await says(script) == ("arm64\n", 0)


async def test_a_manifest_alone_shows_its_architecture_in_its_configuration():
    text, _ = await says("crane config arm64v8/python:3.6 | jq -r .architecture; crane manifest arm64v8/python:3.6")
    assert text.startswith("arm64\n")
    assert "manifests" not in json.loads(text.partition("\n")[2])


@pytest.mark.parametrize(
    ("script", "error"),
    [
        (
            "crane digest nosuch/thing",
            "Error: GET https://index.docker.io/v2/nosuch/thing/manifests/latest: UNAUTHORIZED: authentication "
            "required; "
            "[map[Action:pull Class: Name:nosuch/thing Type:repository]]\n",
        ),
        (
            "crane manifest busybox:nosuch",
            "Error: fetching manifest busybox:nosuch: GET "
            "https://index.docker.io/v2/library/busybox/manifests/nosuch: "
            "MANIFEST_UNKNOWN: manifest unknown; unknown tag=nosuch\n",
        ),
        ("crane frobnicate x", 'Error: unknown command "frobnicate" for "crane"\nRun \'crane --help\' for usage.\n'),
    ],
)
async def test_what_a_registry_refuses_is_worded_as_the_tools_word_it(script, error):
    assert await says(script) == (error, 1)


async def test_a_registry_without_a_name_is_not_found():
    assert await says("crane digest registry.example.com/train:1", "nxdomain") == (
        'Error: Get "https://registry.example.com/v2/": dial tcp: lookup registry.example.com on 10.96.0.10:53: '
        "no such host\n",
        1,
    )


async def test_a_registry_that_refuses_connections_is_told():
    text, _ = await says("crane digest busybox", "refused")
    assert "dial tcp 203.0.113.7:443: connect: connection refused" in text


async def test_tags_are_listed():
    text, _ = await says("crane ls busybox")
    assert "latest" in text.split()
