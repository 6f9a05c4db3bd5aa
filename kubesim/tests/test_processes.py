"""The processes of a node and of its containers: everybody who looks sees the same, by the same numbers."""

import asyncio

import pytest

from kubesim.kubelet.torchrun import Numbers, crew
from kubesim.tests.containers import log, run, state
from kubesim.tests.test_rooted import chrooted, debugger
from kubesim.tests.world import container, pod, world

PYTORCH = "nvcr.io/nvidia/pytorch:25.03-py3"


def trainer(*command, gpus=4, **more):
    limits = {"resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
    return pod("train", container(PYTORCH, *command, **limits, **more), restartPolicy="Never")


async def training(w, *command, **more):
    await w.create("pods", trainer(*(command or ("torchrun", "--nproc-per-node=4", "train.py", "--lr=1")), **more))
    await w.create("pods", debugger())
    await w.tick(10)


def rows(text):
    """Return the processes that ``ps -eo pid,ppid,args`` shows, by number."""
    found = [line.split(None, 2) for line in text.splitlines()[1:]]
    return {int(pid): (int(parent), args) for pid, parent, args in found}


async def compute_apps(w):
    shown = await chrooted(w, "nvidia-smi --query-compute-apps=pid,name --format=csv,noheader")
    return [tuple(line.split(", ")) for line in shown.splitlines()]


async def test_the_ranks_of_torchrun_stand_below_it_with_their_own_environment():
    async with world(1) as w:
        await training(w)
        found = rows((await run(w, "train", "ps", "-eo", "pid,ppid,args"))[1])
        assert "/usr/local/bin/torchrun --nproc-per-node=4" in found[1][1]
        ranks = [pid for pid, (parent, _) in found.items() if parent == 1]
        assert len(ranks) == 4
        assert {found[pid][1] for pid in ranks} == {"/usr/bin/python3 -u train.py --lr=1"}
        environ = (await run(w, "train", "cat", f"/proc/{ranks[2]}/environ"))[1]
        assert {"RANK=2", "LOCAL_RANK=2", "WORLD_SIZE=4"} <= {*environ.split("\0")}


async def test_nvidia_smi_names_the_processes_that_ps_shows_on_the_node():
    async with world(1) as w:
        await training(w)
        apps, shown = await compute_apps(w), rows(await chrooted(w, "ps -eo pid,ppid,args"))
        assert [name for _, name in apps] == ["/usr/bin/python3"] * 4
        assert {shown[int(pid)][1] for pid, _ in apps} == {"/usr/bin/python3 -u train.py --lr=1"}
        (parent,) = {shown[int(pid)][0] for pid, _ in apps}
        assert "torchrun" in shown[parent][1]
        assert "containerd-shim" in shown[shown[parent][0]][1]
        assert apps == await compute_apps(w)


async def test_nothing_of_another_container_is_seen_from_inside_one():
    async with world(1) as w:
        await training(w)
        assert (await run(w, "train", "nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader"))[1] == ""
        assert "kubelet" not in (await run(w, "train", "ps", "-ef"))[1]


async def test_proc_of_the_node_tells_whose_a_process_is():
    async with world(1) as w:
        await training(w)
        pid = (await compute_apps(w))[1][0]
        each = state(await w.pod("train"))
        uid = (await w.pod("train"))["metadata"]["uid"].replace("-", "_")
        cgroup = await chrooted(w, f"cat /proc/{pid}/cgroup")
        assert f"pod{uid}.slice/cri-containerd-{each['containerID'].rpartition('/')[2]}.scope" in cgroup
        assert f"NSpid:\t{pid}\t68" in await chrooted(w, f"cat /proc/{pid}/status")
        assert "LOCAL_RANK=1" in (await chrooted(w, f"cat /proc/{pid}/environ")).split("\0")


async def test_who_kills_a_rank_from_the_node_ends_the_job_as_torchrun_tells():
    async with world(1) as w:
        await training(w)
        pid = (await compute_apps(w))[3][0]
        await chrooted(w, f"kill -9 {pid}")
        await w.tick(5)
        assert state(await w.pod("train"))["state"]["terminated"]["exitCode"] == 1
        said = log(w, "train")
        assert "exitcode  : -9 (pid: 70)" in said
        assert "rank      : 3 (local_rank: 3)" in said
        assert "Signal 9 (SIGKILL) received by PID 70" in said
        assert await compute_apps(w) == []


async def test_who_kills_a_rank_from_inside_ends_the_job_too():
    async with world(1) as w:
        await training(w)
        await run(w, "train", "kill", "67")
        await w.tick(5)
        assert "Signal 15 (SIGTERM) received by PID 67" in log(w, "train")


async def test_a_containers_first_process_dies_by_the_nodes_hand_and_not_by_its_own():
    async with world(1) as w:
        await training(w, "python", "train.py")
        await run(w, "train", "kill", "-9", "1")
        await w.tick(5)
        assert "running" in state(await w.pod("train"))["state"]
        ((pid, name),) = {*(await compute_apps(w))}
        assert name == "python"
        await chrooted(w, f"kill -9 {pid}")
        await w.tick(5)
        assert state(await w.pod("train"))["state"]["terminated"]["exitCode"] == 137


async def test_what_a_shell_starts_has_one_number_everywhere():
    async with world(1) as w:
        await training(w, "sleep", "9999")
        script = "torchrun --nproc-per-node=2 train.py & sleep 5; ps -eo pid,ppid,args; kill %1"
        task = asyncio.ensure_future(run(w, "train", "bash", "-c", script))
        await w.tick(2)
        apps, shown = await compute_apps(w), rows(await chrooted(w, "ps -eo pid,ppid,args"))
        assert len(apps) == 2
        assert all("train.py" in shown[int(pid)][1] for pid, _ in apps)
        await w.tick(10)
        assert (await task)[1].count("/usr/bin/python3 -u train.py") == 2
        assert await compute_apps(w) == []


async def test_a_pod_that_shares_the_nodes_processes_has_its_own_among_them():
    async with world(1) as w:
        await training(w)
        own = int((await run(w, "look", "sh", "-c", "echo $$"))[1])
        shown = (await run(w, "look", "sh", "-c", "ps; cat /proc/$$/cmdline"))[1]
        assert own > 4200
        assert "/usr/bin/kubelet" in shown
        assert shown.count("train.py") >= 4
        pid = (await compute_apps(w))[0][0]
        await run(w, "look", "kill", "-9", pid)
        await w.tick(5)
        assert "terminated" in state(await w.pod("train"))["state"]


async def test_a_container_starts_in_the_directory_of_its_image():
    async with world(1) as w:
        await training(w)
        assert (await run(w, "train", "pwd"))[1] == "/workspace\n"
        await w.create("pods", pod("odd", container("busybox:1.36", "sleep", "99", workingDir="/../../..")))
        await w.create("pods", pod("new", container("busybox:1.36", "sleep", "99", workingDir="/not/there")))
        await w.tick(5)
        assert (await run(w, "odd", "pwd"))[1] == "/\n"
        assert (await run(w, "new", "pwd"))[1] == "/not/there\n"


@pytest.mark.parametrize(
    ("argv", "ranks", "words"),
    [
        (("python", "train.py"), 0, ""),
        (("torchrun", "train.py"), 1, "/usr/bin/python3 -u train.py"),
        (("torchrun", "--nproc_per_node", "gpu", "a/b.py", "-x"), 8, "/usr/bin/python3 -u a/b.py -x"),
        (("torchrun", "--nproc-per-node=2", "-m", "pkg.train"), 2, "/usr/bin/python3 -u -m pkg.train"),
        (("python", "-m", "torch.distributed.run", "t.py"), 1, "/usr/bin/python3 -u t.py"),
        (("torchrun", "--nproc-per-node=1000", "t.py"), 64, "/usr/bin/python3 -u t.py"),
    ],
)
def test_a_command_line_tells_what_it_starts(argv, ranks, words):
    found = crew(argv, {}, 8)
    assert len(found) == ranks
    assert {" ".join(each.argv) for each in found} == ({words} if ranks else set())


def test_a_number_is_given_once_and_kept(clock):
    numbers = Numbers()
    first = [numbers.of(key, 1, clock.now()) for key in "abcdefgh"]
    assert len({*first}) == 8
    assert [numbers.of(key, 1, clock.now()) for key in "abcdefgh"] == first
    numbers.keep(["a"])
    assert numbers.of("a", 1, clock.now()) == first[0]


async def test_who_debugs_a_container_sees_its_processes_and_files():
    async with world(1) as w:
        await training(w)
        look = {"name": "dbg", "image": "busybox:1.36", "command": ["sleep", "999"], "targetContainerName": "main"}
        found = await w.pod("train")
        debugged = {**found, "spec": {**found["spec"], "ephemeralContainers": [look]}}
        await w.client.update("pods", debugged, subresource="ephemeralcontainers")
        await w.tick(5)
        shown = (await run(w, "train", "ps", where="dbg"))[1]
        assert shown.count("/usr/bin/python3 -u train.py") == 4
        assert "sleep 999" in shown
        assert "workspace" in (await run(w, "train", "ls", "/proc/1/root", where="dbg"))[1]
        assert "sleep 999" in (await run(w, "train", "ps", "-ef"))[1]
        await run(w, "train", "kill", "68", where="dbg")
        await w.tick(5)
        assert "Signal 15 (SIGTERM) received by PID 68" in log(w, "train")


async def test_containers_that_share_their_processes_see_each_other():
    async with world(1) as w:
        first, second = container("busybox:1.36", "sleep", "111"), container("busybox:1.36", "sleep", "222")
        both = {"metadata": {"name": "two"}, "spec": {**pod("two", first)["spec"], "shareProcessNamespace": True}}
        both["spec"]["containers"] = [first, {**second, "name": "side"}]
        await w.create("pods", both)
        await w.tick(5)
        shown = (await run(w, "two", "ps"))[1]
        assert shown.splitlines()[1].split() == ["1", "65535", "0:00", "/pause"]
        assert "sleep 111" in shown
        assert "sleep 222" in shown
        assert "sleep 111" in (await run(w, "two", "ps", where="side"))[1]
