"""Programs that people write and run against a cluster do their work: Python clients old and new."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from kubernetes.aio import client as aio
from kubernetes.aio import config as aio_config
from kubernetes.aio import watch as aio_watch

WORK = Path(__file__).with_name("client_work.py")
PYTHONS = [sys.executable, *filter(None, os.environ.get("CONTRACT_PYTHONS", "").split(os.pathsep))]
"""This interpreter, and others that have other versions of the client: ``CONTRACT_PYTHONS=DIR/bin/python:...``."""


@pytest.mark.parametrize("python", PYTHONS, ids=lambda path: "this" if path == sys.executable else path)
def test_the_python_client_does_its_work(cluster, namespace, python):
    command = [python, "-W", "ignore", str(WORK), str(cluster.kubeconfig), namespace]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "done\n", done.stderr


def test_another_version_of_the_client_is_tried():
    if len(PYTHONS) == 1:
        pytest.skip("no interpreter with another client (31, for one) in CONTRACT_PYTHONS")


async def test_the_asynchronous_client_lists_watches_and_deletes(cluster, namespace):
    api = await aio_config.new_client_from_config(str(cluster.kubeconfig))
    async with api:
        core = aio.CoreV1Api(api)
        await core.create_namespaced_config_map(namespace, {"metadata": {"name": "a"}, "data": {"k": "v"}})
        async with aio_watch.Watch() as stream:
            events = stream.stream(core.list_namespaced_config_map, namespace, timeout_seconds=10)
            names = [(await anext(events))["object"].metadata.name for _ in range(2)]
        assert "a" in names
        await core.delete_namespaced_config_map("a", namespace)
        with pytest.raises(aio.ApiException) as caught:
            await core.read_namespaced_config_map("a", namespace)
    assert caught.value.status == 404
