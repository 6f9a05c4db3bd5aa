"""MPIJobs: a launcher and its workers, from their objects to the GPUs that they use, and how they fail."""

from __future__ import annotations

import re

import pytest

from kubesim.errors import ApiError
from kubesim.gpu.readings import read
from kubesim.tests.containers import run
from kubesim.tests.installed import install
from kubesim.tests.test_gpu_containers import PYTORCH
from kubesim.tests.test_network import policy
from kubesim.tests.world import container, world

JOBS = "mpijobs.kubeflow.org"
PI = "mpioperator/mpi-pi:openmpi"
MPIRUN = ("mpirun", "--allow-run-as-root")


def mpi_job(
    name="train", workers=2, gpus=8, image=PYTORCH, command=(*MPIRUN, "-np", "16", "python", "train.py"), **spec
):
    limits = {"resources": {"limits": {"nvidia.com/gpu": str(gpus)}}} if gpus else {}
    launcher = {"template": {"spec": {"containers": [container(image, *command)]}}}
    worker = {
        "replicas": workers,
        "template": {"spec": {"containers": [{"name": "worker", "image": image, **limits}]}},
    }
    body = {"slotsPerWorker": gpus or 1, "mpiReplicaSpecs": {"Launcher": launcher, "Worker": worker}, **spec}
    return {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {"name": name}, "spec": body}


@pytest.fixture
async def operated():
    async with world(count=2) as w:
        await install(w, "mpi-operator")
        yield w


async def conditions(w, name="train"):
    found = (await w.client.get(JOBS, name, "default")).get("status", {}).get("conditions") or []
    return {item["type"]: item for item in found if item["status"] == "True"}


def utils(w):
    boards = [w.kubelets.gpus(name).board for name in w.node_names]
    return [read(device, w.clock.now()).util for board in boards for device in board.devices]


async def launcher_log(w):
    found = [p for p in await w.items("pods") if "-launcher-" in p["metadata"]["name"]]
    return w.kubelets.logs("default", found[0]["metadata"]["name"], "main").decode()


async def test_a_job_has_workers_a_launcher_a_service_and_a_host_file(operated):
    await operated.create(JOBS, mpi_job())
    await operated.tick(30)
    names = sorted(pod["metadata"]["name"] for pod in await operated.items("pods"))
    assert names[1:] == ["train-worker-0", "train-worker-1"]
    assert names[0].startswith("train-launcher-")
    hosts = (await operated.client.get("configmaps", "train-config", "default"))["data"]["hostfile"]
    assert hosts == "train-worker-0.train.default.svc slots=8\ntrain-worker-1.train.default.svc slots=8\n"
    assert (await operated.client.get("services", "train", "default"))["spec"]["clusterIP"] == "None"
    await operated.check_models()


async def test_the_launcher_sets_every_workers_gpus_to_work(operated):
    await operated.create(JOBS, mpi_job())
    await operated.tick(60)
    assert all(value > 80 for value in utils(operated))
    assert (await conditions(operated))["Running"]["message"] == "MPIJob default/train is running."
    assert await operated.messages("MPIJobCreated") == ["MPIJob default/train is created."]
    assert "INFO:root:step" in await launcher_log(operated)
    await operated.client.delete(JOBS, "train", "default")
    await operated.tick(60)
    assert not any(utils(operated))
    assert not await operated.items("pods")


async def test_a_job_that_is_through_has_succeeded_and_leaves_its_workers(operated):
    await operated.create(JOBS, mpi_job("pi", gpus=0, image=PI, command=(*MPIRUN, "-n", "2", "/home/mpiuser/pi")))
    await operated.tick(40)
    assert (await conditions(operated, "pi"))["Succeeded"]["message"] == "MPIJob default/pi successfully completed."
    log = await launcher_log(operated)
    assert "Workers: 2\n" in log
    assert "Rank 1 on host pi-worker-1\n" in log
    assert "pi is approximately 3.141" in log
    assert len(await operated.items("pods")) == 3


@pytest.mark.parametrize("clean", ["Running", "All"])
async def test_workers_go_where_the_job_says_so(operated, clean):
    job = mpi_job(
        "pi", gpus=0, image=PI, command=(*MPIRUN, "-n", "2", "/home/mpiuser/pi"), runPolicy={"cleanPodPolicy": clean}
    )
    await operated.create(JOBS, job)
    await operated.tick(80)
    assert len(await operated.items("pods")) == 1


async def test_a_launcher_without_all_its_workers_fails_as_ssh_does(operated):
    job = mpi_job(workers=3, runPolicy={"backoffLimit": 0})
    await operated.create(JOBS, job)
    await operated.tick(60)
    log = await launcher_log(operated)
    assert "ssh: Could not resolve hostname train-worker-2.train.default.svc: Name or service not known" in log
    assert "ORTE was unable to reliably start one or more daemons." in log
    failed = (await conditions(operated))["Failed"]
    assert failed["message"] == "Job train-launcher failed: Job has reached the specified backoff limit"


async def test_a_launcher_can_wait_for_its_workers(operated):
    await operated.create(JOBS, mpi_job(workers=3, launcherCreationPolicy="WaitForWorkersReady"))
    await operated.tick(60)
    assert not [p for p in await operated.items("pods") if "launcher" in p["metadata"]["name"]]


async def test_a_policy_between_launcher_and_workers_times_out(operated):
    await operated.create("networkpolicies.networking.k8s.io", policy("deny"))
    await operated.create(JOBS, mpi_job(runPolicy={"backoffLimit": 0}))
    await operated.tick(60)
    assert not await launcher_log(operated)
    await operated.tick(1300)  # ten attempts, each until the kernel gives up
    host = "train-worker-0.train.default.svc"
    assert f"ssh: connect to host {host} port 22: Connection timed out" in await launcher_log(operated)


async def test_a_gpu_that_fails_a_rank_fails_the_job(operated):
    await operated.create(JOBS, mpi_job(runPolicy={"backoffLimit": 0}))
    await operated.tick(60)
    operated.kubelets.gpus(operated.node_names[1]).board.xid(4, 79, operated.clock.now())
    await operated.tick(30)
    assert "mpirun detected that one or more processes exited with non-zero status" in await launcher_log(operated)
    assert "Failed" in await conditions(operated)
    assert not any(utils(operated))


async def test_a_policy_between_the_workers_lets_all_ranks_hang_until_the_watchdog_ends_them(operated):
    command = (*MPIRUN, "-np", "2", "python", "train.py")
    await operated.create(JOBS, mpi_job(gpus=1, command=command, runPolicy={"backoffLimit": 0}))
    await operated.tick(60)
    ssh = [{"ports": [{"port": 22}]}]
    await operated.create("networkpolicies.networking.k8s.io", policy("ssh-only", ingress=ssh))
    await operated.tick(30)
    silent = await launcher_log(operated)
    await operated.tick(120)
    assert await launcher_log(operated) == silent
    assert sorted(utils(operated))[-3:] == [0, 100, 100]
    await operated.tick(500)
    found = await launcher_log(operated)
    assert re.search(r"\[Rank \d+\] Watchdog caught collective operation timeout: WorkNCCL\(SeqNum=", found)
    assert re.search(
        r"mpirun noticed that process rank \d+ with PID \d+ on node train-worker-. exited on signal 6", found
    )
    assert "Failed" in await conditions(operated)


async def test_without_its_operator_a_job_stays_as_it_is(operated):
    await operated.client.patch("deployments.apps", "mpi-operator", "mpi-operator", {"spec": {"replicas": 0}})
    await operated.tick(40)
    await operated.create(JOBS, mpi_job())
    await operated.tick(30)
    assert not await operated.items("pods")


async def test_the_ranks_stand_in_the_workers_and_the_launcher_tells_who_was_killed(operated):
    command = (*MPIRUN, "python", "train.py")
    await operated.create(JOBS, mpi_job(workers=1, gpus=2, command=command, runPolicy={"backoffLimit": 0}))
    await operated.tick(60)
    shown = (await run(operated, "train-worker-0", "ps", "-eo", "pid,ppid,args", where="worker"))[1]
    assert "orted -mca ess env -mca ess_base_jobid" in shown
    second = [line.split()[0] for line in shown.splitlines() if line.endswith("python train.py")][1]
    await run(operated, "train-worker-0", "kill", "-9", second, where="worker")
    await operated.tick(10)
    told = f"process rank 1 with PID {second} on node train-worker-0 exited on signal 9 (Killed)."
    assert told in await launcher_log(operated)


async def refusal(w, job):
    with pytest.raises(ApiError) as caught:
        await w.create(JOBS, job)
    return caught.value.message


async def test_a_number_where_a_word_belongs_is_refused_by_the_schema(operated):
    where = "spec.mpiReplicaSpecs.Launcher.template.spec.containers[0].command[2]"
    message = await refusal(operated, mpi_job(command=("mpirun", "-np", 16, "hostname")))
    assert message.startswith('MPIJob.kubeflow.org "train" is invalid: ')
    assert f'{where}: Invalid value: "integer": {where} in body must be of type string: "integer"' in message
    job = mpi_job()
    worker = job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]
    worker["containers"][0]["env"] = [{"value": "x"}]
    assert "containers[0].env[0].name: Required value" in await refusal(operated, job)
    del job["spec"]["mpiReplicaSpecs"]
    assert "spec.mpiReplicaSpecs: Required value" in await refusal(operated, job)


async def test_what_only_the_operator_knows_to_be_wrong_is_told_in_an_event(operated):
    job = mpi_job()
    del job["spec"]["mpiReplicaSpecs"]["Launcher"]
    await operated.create(JOBS, job)
    await operated.tick(20)
    wrong = "spec.mpiReplicaSpecs[Launcher]: Required value: must have Launcher replica spec"
    assert await operated.messages("ValidationError") == [f"Found validation errors: {wrong}"]
    assert not await operated.items("pods")


async def test_a_worker_that_cannot_be_created_is_told_in_events_and_in_the_operators_log(operated):
    quota = {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "1"}}}
    await operated.create("resourcequotas", quota)
    await operated.tick(5)
    await operated.create(JOBS, mpi_job())
    await operated.tick(20)
    refused = (
        'pods "train-worker-1" is forbidden: exceeded quota: few, requested: pods=1, used: pods=1, limited: pods=1'
    )
    assert f"worker pod created failed: {refused}" in await operated.messages("MPIJobFailed")
    (name,) = [pod["metadata"]["name"] for pod in await operated.items("pods", "mpi-operator")]
    told = operated.kubelets.logs("mpi-operator", name, "mpi-operator").decode()
    assert '"Unhandled Error" err="error syncing \'default/train\': pods \\"train-worker-1\\" is forbidden' in told


async def test_the_example_of_the_operator_runs_as_it_is_written_for_a_user_without_rights(operated):
    user = {"runAsUser": 1000}
    launcher = {"name": "mpi-launcher", "image": PI, "securityContext": user, "command": ["mpirun"]}
    launcher["args"] = ["-n", "2", "/home/mpiuser/pi"]
    worker = {"name": "mpi-worker", "image": PI, "securityContext": user, "command": ["/usr/sbin/sshd"]}
    worker |= {"args": ["-De", "-f", "/home/mpiuser/.sshd_config"]}
    job = mpi_job("pi", runPolicy={"cleanPodPolicy": "Running"}, sshAuthMountPath="/home/mpiuser/.ssh", gpus=0)
    for role, each in (("Launcher", launcher), ("Worker", worker)):
        job["spec"]["mpiReplicaSpecs"][role]["template"]["spec"]["containers"] = [each]
    await operated.create(JOBS, job)
    await operated.tick(60)
    name = next(p["metadata"]["name"] for p in await operated.items("pods") if "launcher" in p["metadata"]["name"])
    told = operated.kubelets.logs("default", name, "mpi-launcher").decode()
    assert "Permanently added '[pi-worker-1.pi.default.svc]:2222' (ED25519)" in told
    assert "pi is approximately 3.141" in told
    assert "Succeeded" in await conditions(operated, "pi")


async def test_a_job_that_is_suspended_has_no_pods_until_it_is_resumed(operated):
    await operated.create(JOBS, mpi_job())
    await operated.tick(60)
    await operated.client.patch(JOBS, "train", "default", {"spec": {"runPolicy": {"suspend": True}}})
    await operated.tick(60)
    assert not await operated.items("pods")
    assert (await conditions(operated))["Suspended"]["message"] == "MPIJob default/train is suspended."
    assert not any(utils(operated))
    await operated.client.patch(JOBS, "train", "default", {"spec": {"runPolicy": {"suspend": False}}})
    await operated.tick(60)
    assert "Running" in await conditions(operated)
    assert all(value > 80 for value in utils(operated))
