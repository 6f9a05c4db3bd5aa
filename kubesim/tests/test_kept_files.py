"""What somebody has written in containers outlives a restart of the process that simulates them."""

from contextlib import asynccontextmanager

import orjson

from kubesim import kubelet
from kubesim.tests.containers import cat, run
from kubesim.tests.world import container, pod, world

MOUNT = {"volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}]}
SCRATCH = {"volumes": [{"name": "scratch", "emptyDir": {}}]}


@asynccontextmanager
async def kept(name, *containers, **spec):
    """Run a pod whose changes are kept; yields the world, and what restarts its kubelets from what was kept."""
    async with world(count=1) as w:
        state = orjson.loads(orjson.dumps(w.kubelets.changes()))
        touched = []
        w.kubelets.touch = lambda: touched.append(True)
        await w.create("pods", pod(name, *containers, **spec))
        await w.tick(5)

        async def restart():
            state.update(orjson.loads(orjson.dumps(w.kubelets.changes())))
            await w.kubelets.stop()
            held = {name: value for name, value in state.items() if value is not None}
            w.kubelets = await kubelet.start(w.client, w.clock, *w.node_names, state=held, fabric=w.kubelets.fabric)
            w.kubelets.changes()
            w.kubelets.touch = lambda: touched.append(True)
            await w.tick(5)

        yield w, restart, touched


async def sh(w, name, script):
    status, out, errors = await run(w, name, "sh", "-c", script)
    assert (status, errors) == (0, "")
    return out


async def test_files_are_there_again_with_their_modes_links_and_gaps():
    async with kept("web", container("nginx:1.27", **MOUNT), **SCRATCH) as (w, restart, touched):
        await sh(
            w, "web", "mkdir -p /opt/a/b; printf '\\377x' > /opt/a/b/raw; echo hi > /scratch/note; rm /etc/passwd"
        )
        await sh(w, "web", "echo '#!/bin/sh' > /opt/run; chmod 750 /opt/run; ln -s /opt/run /opt/link")
        assert touched
        for _ in range(2):
            await restart()
            assert await sh(w, "web", "base64 /opt/a/b/raw; cat /scratch/note") == "/3g=\nhi\n"
            assert await sh(w, "web", "stat -c %a /opt/run; readlink /opt/link; ls /etc/passwd 2>&1 || true") == (
                "750\n/opt/run\nls: cannot access '/etc/passwd': No such file or directory\n"
            )


async def test_what_a_script_runs_into_later_is_what_somebody_has_written():
    script = "while [ ! -f /scratch/stop ]; do sleep 1; done; cat /scratch/stop"
    async with kept(
        "wait", container("busybox:1.36", "sh", "-c", script, **MOUNT), restartPolicy="Never", **SCRATCH
    ) as (
        w,
        restart,
        _,
    ):
        await sh(w, "wait", "echo one > /tmp/one")
        await restart()
        assert await cat(w, "wait", "/tmp/one") == "one\n"
        await sh(w, "wait", "echo enough > /scratch/stop")
        await w.tick(5)
        assert w.kubelets.logs("default", "wait", "main") == b"enough\n"


async def test_the_files_of_a_life_that_is_over_do_not_come_back():
    async with kept("web", container("busybox:1.36", "sh", "-c", "sleep 20; exit 1")) as (w, restart, _):
        await sh(w, "web", "echo mine > /tmp/mine")
        for _ in range(2):
            await w.tick(30)
            assert (await w.pod())["status"]["containerStatuses"][0]["restartCount"] > 0
            assert (await run(w, "web", "cat", "/tmp/mine"))[0] == 1
            await restart()


async def test_a_layer_that_is_too_large_keeps_what_fits():
    async with kept("web", container("nginx:1.27")) as (w, restart, _):
        await sh(w, "web", "dd if=/dev/zero of=/tmp/large bs=1024 count=300 2>/dev/null; echo small > /tmp/small")
        await restart()
        assert await sh(w, "web", "ls /tmp; cat /tmp/small") == "small\nsmall\n"


async def test_who_only_looks_has_nothing_kept():
    async with kept("web", container("nginx:1.27")) as (w, _, touched):
        await sh(w, "web", "cat /etc/passwd > /dev/null; ls -lR /etc > /dev/null")
        assert not touched or w.kubelets.changes()["files/" + (await w.pod())["metadata"]["uid"]]["containers"] == {
            "main": {"id": (await w.pod())["status"]["containerStatuses"][0]["containerID"][13:], "files": []}
        }


async def test_what_lies_on_a_node_is_still_there():
    volumes = [{"name": "host", "hostPath": {"path": "/var/lib/thing", "type": "DirectoryOrCreate"}}]
    mounts = [{"name": "host", "mountPath": "/thing"}]
    async with kept("web", container("nginx:1.27", volumeMounts=mounts), volumes=volumes) as (w, restart, _):
        await sh(w, "web", "mkdir /thing/deep; echo rows > /thing/deep/rows")
        await restart()
        assert await cat(w, "web", "/thing/deep/rows") == "rows\n"
