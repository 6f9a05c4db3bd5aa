"""The images that a cluster brings along: from its file, over the control API, and in packs."""

from pathlib import Path

import pytest
import yaml

from kubesim import clusterfile, kubelet
from kubesim.kubelet import behaviours, imagefile
from kubesim.kubelet.imagefile import WrongImage
from kubesim.kubelet.images import Catalogue
from kubesim.kubelet.programs import FOREVER_S, SCAN_LIMIT
from kubesim.located import FileError
from kubesim.tests import hosts
from kubesim.tests.containers import log, run, state
from kubesim.tests.hosts import make, token_of, until
from kubesim.tests.world import container, pod, world

API = "registry.example.com/team/embedding-api"
SERVER = {
    "name": API, "tags": ["1.*", "latest"], "newest": "1.5", "from": "python:3.12-slim",
    "env": {"MODEL": "bge-{version}"}, "entrypoint": ["embedding-api", "--port", "8080"],
    "log": [
        {"at": 0.5, "text": "loading {{model}}"}, {"at": 2, "text": "ready", "stream": "stderr"},
        {"from": 4, "every": 2, "text": "step {step}"},
    ],
    "load": {"cpu": [1.5, 1.5], "memory": 800, "needs": 100, "gpu": "inference"},
    "ports": [8080], "opens": 2, "pages": {"/health": {"body": "ok\n"}},
    "metrics": [{"name": "served_total", "help": "Served.", "rate": 4.5, "labels": {"model": "bge"}},
                {"name": "queue_depth", "value": 3}],
}  # fmt: skip
JOB = {
    "name": "registry.example.com/team/job", "from": "busybox:1.36", "workdir": "/app",
    "files": {"/app/names.txt": "ada\ngrace\n"},
    "script": "#!/bin/sh\nfor name in $(cat names.txt); do echo hello $name; done\nexit 3\n",
}  # fmt: skip


async def start_anew(w, *images, present=()):
    """Let the nodes of a world reach registries that have some images."""
    await w.kubelets.stop()
    state = {f"images/{name}": present for name in w.node_names}
    catalogue = Catalogue(imagefile.read([*images]))
    w.kubelets = await kubelet.start(w.client, w.clock, *w.node_names, state=state, catalogue=catalogue)


async def test_a_described_program_logs_serves_and_uses_what_its_cluster_says():
    async with world(1) as w:
        await start_anew(w, SERVER, present=["python:3.12-slim", "nicolaka/netshoot"])
        gpu = {"limits": {"nvidia.com/gpu": "1"}}
        await w.create("pods", pod("api", container(f"{API}:1.4", resources=gpu)))
        await w.create("pods", pod("box", container("nicolaka/netshoot", "sleep", "9999")))
        await w.tick(10)
        assert log(w, "api").splitlines()[:4] == ["loading {model}", "ready", "step 100", "step 200"]
        ip = (await w.pod("api"))["status"]["podIP"]
        assert (await run(w, "box", "curl", "-s", f"{ip}:8080/health"))[1] == "ok\n"
        status, text, _ = await run(w, "box", "curl", "-s", f"{ip}:8080/metrics")
        assert '# HELP served_total Served.\n# TYPE served_total counter\nserved_total{model="bge"} ' in text
        assert 30 < float(text.split('{model="bge"} ')[1].split()[0]) < 50
        assert text.endswith("# HELP queue_depth queue_depth\n# TYPE queue_depth gauge\nqueue_depth 3\n")
        digest = (await run(w, "box", "crane", "digest", f"{API}:1.4"))[1]
        assert state(await w.pod("api"))["imageID"] == f"{API}@{digest.strip()}"
        await w.tick(30)
        worker = w.kubelets._workers["default/api"]
        assert w.kubelets.gpus(w.node_names[0]).board.devices[0].tasks
        assert (await run(w, "api", "sh", "-c", "echo $MODEL; ps"))[1].startswith("bge-1.4\n")
        assert worker.record.images[f"{API}:1.4"].size == 49716432


async def test_a_pull_of_an_own_image_brings_only_its_own_layers():
    async with world(1) as w:
        await start_anew(w, SERVER, {**JOB, "pullSeconds": 42}, present=["python:3.12-slim"])
        await w.create("pods", pod("api", container(f"{API}:1.4")))
        await w.create("pods", pod("job", container(JOB["name"]), restartPolicy="Never"))
        await w.tick(45)
        texts = sorted(await w.messages("Pulled"))
        assert " in 350ms (350ms including waiting)" in texts[0]
        assert " in 42s (42s including waiting)" in texts[1]


async def test_a_script_is_a_file_of_its_image_and_runs():
    async with world(1) as w:
        await start_anew(w, JOB)
        await w.create("pods", pod("job", container(JOB["name"]), restartPolicy="Never"))
        await w.create("pods", pod("look", container(JOB["name"], "sleep", "9999")))
        await w.tick(5)
        assert log(w, "job") == "hello ada\nhello grace\n"
        assert state(await w.pod("job"))["state"]["terminated"]["exitCode"] == 3
        assert (await run(w, "look", "cat", "/usr/local/bin/job"))[1] == JOB["script"]
        assert (await run(w, "look", "ls", "-l", "/usr/local/bin/job"))[1].startswith("-rwxr-xr-x")


async def test_a_version_that_the_image_does_not_have_is_not_found():
    async with world(1) as w:
        await start_anew(w, SERVER)
        await w.create("pods", pod("api", container(f"{API}:1.9")))
        await w.create("pods", pod("other", container("registry.example.com/team/other:1")))
        await w.tick(2)
        assert state(await w.pod("api"))["state"]["waiting"]["message"].endswith(f"{API}:1.9: not found")
        assert "insufficient_scope" in state(await w.pod("other"))["state"]["waiting"]["message"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"colour": "red"}, "images[0].colour: there is no such field; known are name, tags, "),
        ({"size": "big"}, "images[0].size: Invalid value"),
        ({"size": 2000}, "images[0].size: it is less than the 45716432 bytes of python:3.12-slim"),
        ({"platforms": ["windows/amd64"]}, "images[0].platforms[0]: Invalid value"),
        ({"from": "python:9.9"}, 'images[0].from: failed to pull and unpack image "docker.io/library/python:9.9"'),
        ({"log": [{"text": "x"}]}, "images[0].log[0]: give at, or from and every"),
        ({"log": [{"at": 1, "text": '{"a": 1}'}]}, "images[0].log[0].text: { stands alone: write {{"),
        ({"log": [{"at": 1, "text": "{n:>99999999}"}]}, "images[0].log[0].text: { stands alone: write {{"),
        ({"script": "#!/bin/sh\n"}, "images[0].log: leave it out"),
        ({"script": "print(1)"}, "images[0].script: Invalid value"),
        ({"ports": [99999]}, "images[0].ports[0]: Invalid value"),
        ({"metrics": [{"name": "a b"}]}, "images[0].metrics[0].name: Invalid value"),
        ({"name": "Team/App"}, "images[0].name: Invalid value"),
    ],
)
def test_what_is_wrong_is_told_with_the_field_in_which_it_stands(change, told):
    with pytest.raises(WrongImage) as caught:
        imagefile.read([{**SERVER, **change}])
    assert str(caught.value).startswith(told)


def test_a_cluster_file_says_at_which_line_an_image_cannot_be_used(tmp_path):
    path = tmp_path / "lab.yaml"
    path.write_text("images:\n- name: registry.example.com/a/b\n  tags: [x]\n  size: none\npresent: [nginx:1.27]\n")
    with pytest.raises(FileError, match=r"lab.yaml:4: images\[0\].size: Invalid value"):
        clusterfile.read(path)
    path.write_text("nodes: [{count: 1}]\npresent:\n- nginx:9.9\n")
    with pytest.raises(FileError, match=r"lab.yaml:2: present\[0\]: .*nginx:9.9: not found"):
        clusterfile.read(path)


def test_a_pack_describes_images_in_the_same_words_as_a_cluster_file():
    root = Path(imagefile.__file__).parents[2]
    packs = yaml.safe_load((root / "faults/packs/schema.yaml").read_text())
    assert packs["$defs"]["image"] == imagefile.schema()


def test_every_value_that_a_log_may_name_is_there():
    assert {*imagefile.VALUES} == {*behaviours._values(0, 0, 0, 0, behaviours.DEFAULTS)}


async def test_the_control_api_makes_clusters_with_images_of_their_own(tmp_path):
    with hosts.running(tmp_path) as host:
        async with host.control() as client:
            job = {**JOB, "script": "#!/bin/sh\necho here\nsleep 9999\n"}
            status, refused = await make(client, name="bad", images=[{**JOB, "size": "x"}])
            assert (status, refused["error"].partition(": I")[0]) == (422, "images[0].size")
            made = (await make(client, name="own", images=[job], present=[job["name"], "redis:7"]))[1]
        async with host.client(token_of(made)) as user:
            async with user.get("/api/v1/nodes") as response:
                (*_, node) = (await response.json())["items"]
            listed = [name for image in node["status"]["images"] for name in image["names"]]
            assert {"registry.example.com/team/job:latest", "docker.io/library/redis:7"} <= {*listed}
            spec = pod("job", container(job["name"], imagePullPolicy="IfNotPresent"))
            async with user.post("/api/v1/namespaces/default/pods", json=spec) as response:
                assert response.status == 201, await response.text()
            path = "/api/v1/namespaces/default/pods/job/log"

            async def logged():
                async with user.get(path) as response:
                    return await response.text() == "here\n"

            await until(logged)


def test_many_repeated_lines_cost_no_more_to_look_through_than_one():
    lines = [{"from": at, "every": 0.1, "text": "{n}"} for at in range(500)]
    entries = imagefile.read([{"name": API, "from": "python:3.12-slim", "log": lines}])
    image = Catalogue(entries).pull(API, "amd64")
    found = behaviours.described(image, "seed")
    assert sum(1 for _ in found.run(FOREVER_S, SCAN_LIMIT)) <= SCAN_LIMIT
    assert found.ending is None
