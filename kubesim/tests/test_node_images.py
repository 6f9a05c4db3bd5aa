"""The images of nodes: who pulls what for how long, and that everybody tells of the same sizes and digests."""

import orjson

from kubesim import kubelet
from kubesim.kubelet import behaviours, images
from kubesim.kubelet.images import STANDARD, parse_reference, pull
from kubesim.tests.containers import log, run, state
from kubesim.tests.test_rooted import chrooted, debugger
from kubesim.tests.world import container, pod, world

SLEEP = ("sleep", "9999")
AMD64, DEVICE_QUERY = "linux/amd64", "nvcr.io/nvidia/k8s/cuda-sample:devicequery-cuda12.5.0"


async def images_of(w, at=0):
    found = (await w.client.get("nodes", w.node_names[at]))["status"]["images"]
    return {name: image["sizeBytes"] for image in found for name in image["names"]}


async def test_events_status_runtime_and_registry_tell_the_same_of_an_image():
    async with world(1, present=()) as w:
        await w.create("pods", pod("web", container("nginx:1.28")))
        await w.create("pods", debugger())
        await w.tick(15)
        size, ident = pull("nginx:1.28", "amd64").size, pull("nginx:1.28", "amd64").id
        (told,) = [text for text in await w.messages("Pulled") if "nginx" in text]
        assert told.endswith(f"Image size: {size} bytes.")
        digest = state(await w.pod("web"))["imageID"]
        listed = await images_of(w)
        assert listed["docker.io/library/nginx:1.28"] == listed[digest] == size
        (row,) = [line.split() for line in (await chrooted(w, "crictl images")).splitlines() if "nginx" in line]
        assert row == ["docker.io/library/nginx", "1.28", ident.removeprefix("sha256:")[:13], "73MB"]
        assert ident.removeprefix("sha256:")[:13] in await chrooted(w, "crictl ps --name main")


async def test_a_nodes_status_lists_its_fifty_largest_images():
    few = [f"busybox:1.{minor}.{patch}" for minor in range(20, 30) for patch in range(6)]
    async with world(1, present=["python:3.12-slim", "nginx:1.27", *few]) as w:
        listed = (await w.client.get("nodes", w.node_names[0]))["status"]["images"]
        assert len(listed) == 50
        sizes = [image["sizeBytes"] for image in listed]
        assert sizes == sorted(sizes, reverse=True)
        assert listed[0]["names"] == [pull("nginx:1.27", "amd64").image_id, "docker.io/library/nginx:1.27"]


async def test_layers_that_are_there_are_not_pulled_again():
    async with world(1, present=["python:3.11-slim"]) as w:
        await w.create("pods", pod("same", container("python:3.11.14-slim", *SLEEP)))
        await w.tick(1)
        assert (await w.messages("Pulled"))[0].startswith(
            'Successfully pulled image "python:3.11.14-slim" in 300ms (300ms including waiting). Image size: 45716432'
        )
        await w.create("pods", pod("other", container("python:3.12-slim", *SLEEP)))
        await w.tick(2)
        base, whole = (pull("python:3.12-slim", "amd64").layers[0].size, pull("python:3.12-slim", "amd64").size)
        took = round(300 + (whole - base) / 80e3)
        assert abs(int((await w.messages("Pulled"))[-1].split(" in ")[1].partition("ms")[0]) - took) <= 1


async def test_three_images_are_pulled_at_a_time_and_the_fourth_waits():
    async with world(1, present=()) as w:
        names = ["python:3.12", "golang:1.25", "node:22", "nginx:1.27"]
        for at, image in enumerate(names):
            await w.create("pods", pod(f"p{at}", container(image, *SLEEP)))
        await w.tick(20)
        told = {
            text.split('"')[1]: text.split(" in ")[1].split(" including")[0] for text in await w.messages("Pulled")
        }
        took, waited = told["nginx:1.27"].split(" (")
        assert took == "1.212s"
        assert float(waited.removesuffix("s")) > 4
        alone = told["golang:1.25"].split(" (")
        assert alone[0] == alone[1]


async def test_a_kubelet_that_pulls_one_by_one_does_so():
    async with world(1, present=()) as w:
        w.kubelets.watches.of(w.node_names[0]).configure({"serializeImagePulls": True})
        for at, image in enumerate(("golang:1.25", "busybox:1.36")):
            await w.create("pods", pod(f"p{at}", container(image, *SLEEP)))
        await w.tick(10)
        waited = (await w.messages("Pulled"))[-1].split(" in ")[1]
        assert waited == "328ms (4.441s including waiting). Image size: 2206213 bytes."


async def test_what_nobody_waits_for_any_more_makes_room_for_the_next():
    async with world(1, present=()) as w:
        w.kubelets.watches.of(w.node_names[0]).configure({"serializeImagePulls": True})
        await w.create("pods", pod("huge", container("nvcr.io/nvidia/pytorch:25.01-py3", *SLEEP)))
        await w.tick(1)
        await w.create("pods", pod("small", container("busybox:1.36", *SLEEP)))
        await w.tick(5)
        assert "running" not in state(await w.pod("small"))["state"]
        await w.client.delete("pods", "huge", "default", grace_seconds=0)
        await w.tick(2)
        assert "running" in state(await w.pod("small"))["state"]


async def test_the_containers_of_a_pod_share_one_pull():
    async with world(1, present=()) as w:
        second = {**container("nginx:1.27", *SLEEP), "name": "second"}
        await w.create("pods", pod("both", container("nginx:1.27", *SLEEP), second))
        await w.tick(3)
        assert len(await w.messages("Pulling")) == 1
        pulled, there = await w.messages("Pulled")
        assert pulled.startswith("Successfully pulled")
        assert there == 'Container image "nginx:1.27" already present on machine'


async def test_an_image_is_pulled_by_each_of_its_digests_and_stays_over_a_restart():
    async with world(1, present=()) as w:
        whole, platform = pull("python:3.12-slim", "amd64").digest, pull("python:3.12-slim", "amd64").manifest
        assert whole != platform
        for name, digest in (("index", whole), ("manifest", platform)):
            await w.create("pods", pod(name, container(f"python@{digest}", *SLEEP)))
        await w.create("pods", pod("wrong", container("python@sha256:" + "0" * 64, *SLEEP)))
        await w.tick(5)
        assert state(await w.pod("index"))["imageID"] == f"docker.io/library/python@{whole}"
        assert "running" in state(await w.pod("manifest"))["state"]
        assert state(await w.pod("wrong"))["state"]["waiting"]["message"].endswith(": not found")
        kept = orjson.loads(orjson.dumps(w.kubelets.changes()))
        STANDARD._digests.clear()
        await w.kubelets.stop()
        w.kubelets = await kubelet.start(w.client, w.clock, *w.node_names, state=kept)
        await w.create("pods", pod("again", container(f"python@{whole}", *SLEEP, imagePullPolicy="IfNotPresent")))
        await w.tick(2)
        assert "running" in state(await w.pod("again"))["state"]
        assert (await w.messages("Pulled"))[-1].endswith("already present on machine")


async def test_the_digest_of_a_manifest_is_that_of_its_bytes():
    async with world(1) as w:
        await w.create("pods", pod("box", container("nicolaka/netshoot:latest", *SLEEP)))
        await w.tick(5)
        image = "nvcr.io/nvidia/pytorch:25.03-py3"
        script = f"crane digest {image}; crane manifest {image} | sha256sum"
        _, out, _ = await run(w, "box", "sh", "-c", script)
        digest, _, summed = out.partition("\n")
        assert digest == f"sha256:{summed.split()[0]}" == pull(image, "amd64").digest
        script = f"crane manifest --platform linux/amd64 {image} | jq '.config.size + ([.layers[].size] | add)'"
        assert (await run(w, "box", "sh", "-c", script))[1] == f"{pull(image, 'amd64').size}\n"


def test_a_tag_and_the_version_that_it_stands_for_are_one_image():
    assert pull("python:3.12-slim", "amd64").digest == pull("python:3.12.12-slim", "amd64").digest
    assert pull("python:3.12-slim", "amd64").digest != pull("python:3.13-slim", "amd64").digest
    assert parse_reference("python:3.12@sha256:ab").whole == "docker.io/library/python:3.12@sha256:ab"


async def test_the_vector_sample_asks_the_driver_of_its_container():
    image = "nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda12.5.0"
    async with world(1) as w:
        gpu = {"limits": {"nvidia.com/gpu": "1"}}
        await w.create("pods", pod("gpu", container(image, resources=gpu), restartPolicy="Never"))
        await w.create("pods", pod("without", container(image), restartPolicy="Never"))
        await w.create("pods", pod("query", container(DEVICE_QUERY, resources=gpu), restartPolicy="Never"))
        await w.tick(15)
        assert log(w, "gpu") == (
            "[Vector addition of 50000 elements]\nCopy input data from the host memory to the CUDA device\n"
            "CUDA kernel launch with 196 blocks of 256 threads\n"
            "Copy output data from the CUDA device to the host memory\nTest PASSED\nDone\n"
        )
        assert state(await w.pod("gpu"))["state"]["terminated"]["exitCode"] == 0
        assert log(w, "without") == (
            "[Vector addition of 50000 elements]\nFailed to allocate device vector A "
            "(error code CUDA driver version is insufficient for CUDA runtime version)!\n"
        )
        assert state(await w.pod("without"))["state"]["terminated"]["exitCode"] == 1
        assert 'Device 0: "NVIDIA H100 80GB HBM3"' in log(w, "query")
        assert log(w, "query").endswith("Result = PASS\n")


async def test_programs_that_are_no_part_of_the_simulation_tell_their_version_and_fail():
    async with world(1) as w:
        await w.create("pods", pod("gcc", container("gcc:13", *SLEEP)))
        terraform = container("hashicorp/terraform:1.9", args=["version"])
        await w.create("pods", pod("tf", terraform, restartPolicy="Never"))
        await w.tick(20)
        assert (await run(w, "gcc", "gcc", "--version"))[1].startswith("gcc (GCC) 13.4.0\n")
        assert (await run(w, "gcc", "gcc", "-c", "a.c"))[0] == 1
        assert log(w, "tf") == "Terraform v1.9.8\non linux_amd64\n"


async def test_every_image_of_the_catalogue_does_something_by_itself():
    for repository, entries in images._standard()["images"].items():
        for entry in entries:
            found = images.Catalogue()._image(
                parse_reference(f"{repository}:x"), images.STANDARD._built(entry), AMD64
            )
            argv = found.entrypoint + found.cmd
            if not argv or behaviours.interpreted(found, argv, "amd64"):
                continue
            run_of = behaviours.program(found, argv, (), "amd64", seed="x")
            ending = run_of.ending
            assert ending is None or ending.code or ending.at > 0.04, (repository, argv)
            assert not run_of.start_error


async def test_registries_serve_manifests_over_http_as_the_tools_show_them():
    async with world(1, present=["nicolaka/netshoot"]) as w:
        await w.create("pods", pod("box", container("nicolaka/netshoot", *SLEEP, imagePullPolicy="IfNotPresent")))
        await w.tick(5)
        hub = "https://registry-1.docker.io/v2/library/python"
        script = (
            f"curl -s -o /dev/null -w '%{{http_code}} ' {hub}/manifests/3.12-slim; "
            "token=$(curl -s 'https://auth.docker.io/token?service=registry.docker.io&scope=repository:library/python:pull'"
            " | jq -r .token); "
            f'curl -s -H "Authorization: Bearer $token" {hub}/manifests/3.12-slim | sha256sum; '
            f'curl -s -H "Authorization: Bearer $token" {hub}/manifests/9.9 | jq -r .errors[0].code; '
            "curl -s https://registry.k8s.io/v2/pause/manifests/3.10 | jq -r '.manifests[].platform.architecture'"
        )
        _, out, err = await run(w, "box", "sh", "-c", script)
        digest = pull("python:3.12-slim", "amd64").digest.removeprefix("sha256:")
        assert out.split() == ["401", digest, "-", "MANIFEST_UNKNOWN", "amd64", "arm64"]
        assert err == ""
