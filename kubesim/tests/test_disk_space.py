"""Pods that write more than they may have of their node's disk: the kubelet ends them, and says what was too much."""

import pytest

from kubesim.tests.containers import run, state
from kubesim.tests.world import container, pod, world

SMALL = {"limits": {"ephemeral-storage": "1Mi"}}
SCRATCH = {"volumes": [{"name": "scratch", "emptyDir": {"sizeLimit": "512Ki"}}]}
MOUNT = [{"name": "scratch", "mountPath": "/scratch"}]


async def write(w, path, kilobytes):
    assert (await run(w, "web", "dd", "if=/dev/zero", f"of={path}", "bs=1024", f"count={kilobytes}"))[0] == 0


@pytest.mark.parametrize(
    ("spec", "path", "message"),
    [
        (
            {"resources": SMALL},
            "/tmp/core",
            "Pod ephemeral local storage usage exceeds the total limit of containers 1Mi. ",
        ),
        ({"volumeMounts": MOUNT}, "/scratch/core", 'Usage of EmptyDir volume "scratch" exceeds the limit "512Ki". '),
    ],
)
async def test_a_pod_that_writes_too_much_is_evicted(spec, path, message):
    async with world(count=1) as w:
        await w.create("pods", pod("web", container("nginx:1.27", **spec), **SCRATCH))
        await w.tick(5)
        await write(w, path, 300)
        await w.tick(30)
        assert (await w.pod())["status"]["phase"] == "Running"
        await write(w, path, 1200)
        await w.tick(30)
        found = await w.pod()
        assert {k: found["status"][k] for k in ("phase", "reason", "message")} == {
            "phase": "Failed",
            "reason": "Evicted",
            "message": message,
        }
        assert "terminated" in state(found)["state"]
        assert await w.messages("Evicted") == [message]
        assert await w.messages("Killing") == ["Stopping container main"]


async def test_one_of_several_containers_may_not_take_the_space_of_another():
    async with world(count=1) as w:
        roomy = {"limits": {"ephemeral-storage": "4Mi"}}
        two = [container("nginx:1.27", resources=SMALL), {**container("redis:7", resources=roomy), "name": "cache"}]
        await w.create("pods", {**pod("web", *two)})
        await w.tick(5)
        await write(w, "/tmp/core", 1200)
        await w.tick(30)
        message = 'Container main exceeded its local ephemeral storage limit "1Mi". '
        assert (await w.pod())["status"]["message"] == message


async def test_what_a_script_writes_counts_as_well():
    async with world(count=1) as w:
        script = "while sleep 1; do dd if=/dev/zero bs=1024 count=100 >> /tmp/app 2>/dev/null; done"
        await w.create("pods", pod("web", container("busybox:1.36", "sh", "-c", script, resources=SMALL)))
        await w.tick(8)
        assert (await w.pod())["status"]["phase"] == "Running"
        await w.tick(30)
        assert (await w.pod())["status"]["reason"] == "Evicted"


async def test_the_files_of_an_image_are_nobodys():
    async with world(count=1) as w:
        await w.create(
            "pods", pod("web", container("nginx:1.27", resources={"limits": {"ephemeral-storage": "64Ki"}}))
        )
        await w.tick(5)
        assert (await run(w, "web", "sh", "-c", "cat /etc/* > /dev/null; ls -lR / > /dev/null"))[0] in (0, 1)
        await w.tick(30)
        assert (await w.pod())["status"]["phase"] == "Running"


async def test_files_in_memory_are_the_memory_of_who_writes_them_and_no_larger_than_their_volume():
    limits = {"resources": {"limits": {"memory": "256Mi"}}}
    mount = [{"name": "cache", "mountPath": "/cache"}, {"name": "wide", "mountPath": "/wide"}]
    volumes = [
        {"name": "cache", "emptyDir": {"medium": "Memory", "sizeLimit": "100Mi"}},
        {"name": "wide", "emptyDir": {"medium": "Memory"}},
    ]
    async with world(1) as w:
        main = container("ubuntu:22.04", "sleep", "1d", volumeMounts=mount, **limits)
        await w.create("pods", pod("writer", main, volumes=volumes))
        await w.tick(5)
        refused = "fallocate: fallocate failed: No space left on device\n"
        assert (await run(w, "writer", "fallocate", "-l", "101M", "/cache/x"))[2] == refused
        assert (await run(w, "writer", "fallocate", "-l", "65M", "/dev/shm/y"))[2] == refused
        _, out, _ = await run(w, "writer", "sh", "-c", "fallocate -l 90M /cache/x; df -m /cache /dev/shm")
        rows = [line.split()[1:5] for line in out.splitlines()[1:]]
        assert rows == [["100", "90", "10", "90%"], ["64", "0", "64", "0%"]]
        assert (await run(w, "writer", "sh", "-c", "rm /cache/x; fallocate -l 250M /wide/z"))[0] == 0
        await run(w, "writer", "fallocate", "-l", "9M", "/cache/x")
        await w.tick(5)
        status = (await w.pod("writer"))["status"]["containerStatuses"][0]
        assert status["lastState"]["terminated"]["reason"] == "OOMKilled"
