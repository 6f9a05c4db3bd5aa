"""Containers from inside: what a pod's spec puts into them, and what is refused where it cannot."""

import pytest

from kubesim.errors import ApiError
from kubesim.streaming.seam import Refused, RuntimeFailure
from kubesim.tests.containers import agnhost, cat, log, run, settings, state
from kubesim.tests.world import container, pod, world


async def test_a_command_runs_beside_the_containers_own_process():
    async with world() as w:
        await w.create("pods", pod("web", container("nginx:1.27")))
        await w.tick(2)
        assert await run(w, "web", "echo", "hi") == (0, "hi\n", "")
        assert (await run(w, "web", "false"))[0] == 1
        with pytest.raises(RuntimeFailure, match='exec: "nosuch": executable file not found in \\$PATH: unknown'):
            await run(w, "web", "nosuch")


async def test_only_a_running_container_is_entered():
    async with world() as w:
        await w.create("pods", pod("once", container("busybox:1.36", "true"), restartPolicy="Never"))
        await w.tick(3)
        with pytest.raises(Refused, match='container not found \\("main"\\)') as refused:
            await run(w, "once", "true")
        assert refused.value.code == 500


async def test_config_maps_secrets_and_fields_of_the_pod_become_files():
    async with world() as w:
        await settings(w)
        volumes = [
            {
                "name": "c",
                "configMap": {"name": "settings", "items": [{"key": "color", "path": "a/b", "mode": 0o400}]},
            },
            {"name": "s", "secret": {"secretName": "key"}},
            {
                "name": "d",
                "downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]},
            },
        ]
        mounts = [{"name": volume["name"], "mountPath": f"/m/{volume['name']}"} for volume in volumes]
        await w.create("pods", pod("web", container("nginx:1.27", volumeMounts=mounts), volumes=volumes))
        await w.tick(2)
        assert await cat(w, "web", "/m/c/a/b", "/m/s/token", "/m/d/labels") == 'bluesesameapp="web"'
        account = "/var/run/secrets/kubernetes.io/serviceaccount"
        assert await cat(w, "web", f"{account}/namespace", f"{account}/ca.crt") == "defaultthe authority"
        assert (await cat(w, "web", f"{account}/token")).count(".") == 2


async def test_mounted_files_follow_their_config_map():
    async with world() as w:
        await settings(w)
        volumes = [{"name": "c", "configMap": {"name": "settings"}}]
        mounts = [{"name": "c", "mountPath": "/c"}, {"name": "c", "mountPath": "/one", "subPath": "color"}]
        await w.create("pods", pod("web", container("nginx:1.27", volumeMounts=mounts), volumes=volumes))
        await w.tick(2)
        assert await cat(w, "web", "/c/color", "/one") == "blueblue"
        await w.client.patch(
            "configmaps", "settings", "default", {"data": {"color": "red", "size": None, "new": "x"}}
        )
        await w.tick(90)
        assert await cat(w, "web", "/c/color", "/c/new", "/one") == "redxblue"  # a subPath never changes
        assert (await run(w, "web", "cat", "/c/size"))[0] == 1


async def test_containers_share_an_empty_directory():
    async with world() as w:
        shared = [{"name": "data", "mountPath": "/data"}]
        writer = agnhost("mounttest", "--new_file_0644=/data/file", name="writer", volumeMounts=shared)
        spec = pod("two", container("nginx:1.27", volumeMounts=shared), volumes=[{"name": "data", "emptyDir": {}}])
        spec["spec"]["initContainers"] = [writer]
        await w.create("pods", spec)
        await w.tick(4)
        assert await cat(w, "two", "/data/file") == "mount-tester new file\n"


async def test_a_mount_that_may_only_be_read_cannot_be_written_to():
    async with world() as w:
        mounts = [{"name": "data", "mountPath": "/data", "readOnly": True}]
        main = agnhost("mounttest", "--new_file_0644=/data/file", volumeMounts=mounts)
        await w.create("pods", pod("ro", main, volumes=[{"name": "data", "emptyDir": {}}], restartPolicy="Never"))
        await w.tick(3)
        assert (await w.pod())["status"]["phase"] == "Failed"
        assert log(w, "ro") == 'error writing new file "/data/file": open /data/file: read-only file system\n'


async def test_the_environment_comes_from_everywhere():
    async with world() as w:
        await settings(w)
        service = {"metadata": {"name": "data-base"}, "spec": {"ports": [{"name": "sql", "port": 5432}]}}
        made = await w.create("services", service)
        env = [
            {"name": "COLOR", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "color"}}},
            {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "key", "key": "token"}}},
            {"name": "NONE", "valueFrom": {"configMapKeyRef": {"name": "no", "key": "x", "optional": True}}},
            {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
            {"name": "ALL", "value": "$(COLOR)-$(NAME)-$$(COLOR)-$(UNKNOWN)"},
        ]
        main = agnhost(
            "netexec", env=env, envFrom=[{"prefix": "P_", "configMapRef": {"name": "settings"}}],
            resources={"limits": {"cpu": "1500m"}},
        )  # fmt: skip
        await w.create("pods", pod("web", main))
        await w.tick(2)
        worker = w.kubelets.containers._worker("default/web")
        found = worker.sandbox.boxes["main"].env
        assert found["ALL"] == "blue-web-$(COLOR)-$(UNKNOWN)"
        assert (found["TOKEN"], found["P_size"], found["CPU"], "NONE" in found) == ("sesame", "7", "1500", False)
        address = made["spec"]["clusterIP"]
        assert found["DATA_BASE_SERVICE_HOST"] == address
        assert found["DATA_BASE_SERVICE_PORT_SQL"] == "5432"
        assert found["DATA_BASE_PORT_5432_TCP"] == f"tcp://{address}:5432"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"configMapKeyRef": {"name": "nope", "key": "x"}}, 'configmap "nope" not found'),
        ({"configMapKeyRef": {"name": "settings", "key": "x"}}, "couldn't find key x in ConfigMap default/settings"),
        ({"secretKeyRef": {"name": "nope", "key": "x"}}, 'secret "nope" not found'),
        ({"secretKeyRef": {"name": "key", "key": "x"}}, "couldn't find key x in Secret default/key"),
    ],
)
async def test_a_container_waits_for_what_its_environment_comes_from(source, message):
    async with world() as w:
        await settings(w)
        await w.create("pods", pod("web", container("nginx:1.27", env=[{"name": "X", "valueFrom": source}])))
        await w.tick(2)
        waiting = state(await w.pod())["state"]["waiting"]
        assert waiting == {"reason": "CreateContainerConfigError", "message": message}
        assert await w.messages("Failed") == [f"Error: {message}"]
        await w.check_models()


async def test_a_container_starts_once_its_config_map_is_there():
    async with world() as w:
        source = {"configMapKeyRef": {"name": "settings", "key": "color"}}
        await w.create("pods", pod("web", container("nginx:1.27", env=[{"name": "X", "valueFrom": source}])))
        await w.tick(5)
        await settings(w)
        await w.tick(20)
        obj = await w.pod()
        assert obj["status"]["phase"] == "Running"
        assert state(obj)["restartCount"] == 0


@pytest.mark.parametrize(
    ("volume", "message"),
    [
        ({"configMap": {"name": "nope"}}, 'configmap "nope" not found'),
        ({"secret": {"secretName": "nope"}}, 'secret "nope" not found'),
        (
            {"configMap": {"name": "settings", "items": [{"key": "x", "path": "x"}]}},
            "configmap references non-existent config key: x",
        ),
        (
            {"secret": {"secretName": "key", "items": [{"key": "x", "path": "x"}]}},
            "references non-existent secret key: x",
        ),
        (
            {"hostPath": {"path": "/nope", "type": "Directory"}},
            "hostPath type check failed: /nope is not a directory",
        ),
    ],
)
async def test_a_pod_waits_for_its_volumes_and_says_so(volume, message):
    async with world() as w:
        await settings(w)
        mounts = [{"name": "v", "mountPath": "/v"}]
        await w.create(
            "pods", pod("web", container("nginx:1.27", volumeMounts=mounts), volumes=[{"name": "v", **volume}])
        )
        await w.tick(20)
        obj = await w.pod()
        assert state(obj)["state"] == {"waiting": {"reason": "ContainerCreating"}}
        assert await w.messages("FailedMount") == [f'MountVolume.SetUp failed for volume "v" : {message}']
        assert (await w.events("FailedMount"))[0]["count"] == 6  # after 0, 0.5, 1.5, 3.5, 7.5 and 15.5 seconds


async def test_a_root_that_may_only_be_read_keeps_its_mounts_writable():
    async with world() as w:
        context = {"readOnlyRootFilesystem": True}
        mounts = [{"name": "data", "mountPath": "/data"}]
        main = container("busybox:1.36", "sleep", "1000", securityContext=context, volumeMounts=mounts)
        await w.create("pods", pod("ro", main, volumes=[{"name": "data", "emptyDir": {}}]))
        await w.tick(2)
        assert (await run(w, "ro", "sh", "-c", "echo x > /file"))[2].endswith("Read-only file system\n")
        assert await run(w, "ro", "sh", "-c", "echo x > /data/file; cat /data/file") == (0, "x\n", "")


async def test_kernel_parameters_of_a_pod_are_checked_and_read():
    async with world() as w:
        wanted = [{"name": "kernel.shm_rmid_forced", "value": "1"}]
        main = container("busybox:1.36", "/bin/sysctl", "kernel.shm_rmid_forced")
        await w.create("pods", pod("s", main, restartPolicy="Never", securityContext={"sysctls": wanted}))
        await w.tick(3)
        assert log(w, "s") == "kernel.shm_rmid_forced = 1\n"
        wrong = [{"name": "bar..", "value": "1"}]
        with pytest.raises(ApiError, match=r'spec\.securityContext\.sysctls\[0\]\.name: Invalid value: "bar\.\."'):
            await w.create("pods", pod("t", main, securityContext={"sysctls": wrong}))


async def test_the_hosts_file_is_the_kubelets_unless_the_pod_mounts_its_own():
    async with world() as w:
        volumes = [{"name": "hosts", "hostPath": {"path": "/etc/hosts", "type": "FileOrCreate"}}]
        aliases = [{"ip": "1.2.3.4", "hostnames": ["foo", "bar"]}]
        own = {**container("nginx:1.27", volumeMounts=[{"name": "hosts", "mountPath": "/etc/hosts"}]), "name": "own"}
        spec = pod("web", container("nginx:1.27"), own, volumes=volumes, hostAliases=aliases)
        await w.create("pods", spec)
        await w.create("pods", pod("host", container("nginx:1.27"), hostNetwork=True))
        await w.tick(2)
        managed = await cat(w, "web", "/etc/hosts")
        assert managed.startswith("# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n")
        assert managed.endswith("\tweb\n\n# Entries added by HostAliases.\n1.2.3.4\tfoo\tbar\n")
        plain = (await run(w, "web", "cat", "/etc/hosts", where="own"))[1]
        assert plain.startswith("127.0.0.1\tlocalhost\n")
        assert await cat(w, "host", "/etc/hosts") == f"# Kubernetes-managed hosts file (host network).\n{plain}"
