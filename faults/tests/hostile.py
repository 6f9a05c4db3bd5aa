"""Requests of a candidate who wants out of the namespace, each with the words of its refusal."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from faults import environment

Obj = dict[str, Any]
PSS = "violates PodSecurity"
VAP = "denied request: "
RBAC = "cannot "
TOKEN = {"serviceAccountToken": {"path": "token"}}


def pod(name: str, namespace: str, **spec: Any) -> Obj:
    """Return an ordinary pod, as ``kubectl run`` makes it, with some fields of its spec replaced."""
    container = {"name": "main", "image": "busybox:1.36", "command": ["sleep", "60"]}
    meta = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container], **spec}}


def _in_pod(**fields: Any) -> Obj:
    return fields


def _in_container(**fields: Any) -> Obj:
    return {"containers": [{"name": "main", "image": "busybox:1.36", **fields}]}


def _in_init(**fields: Any) -> Obj:
    return {"initContainers": [{"name": "first", "image": "busybox:1.36", **fields}]}


def _context(**fields: Any) -> Obj:
    return {"securityContext": fields}


def _volume(**source: Any) -> Obj:
    return {"volumes": [{"name": "v", **source}]}


def _mounted(volume: Obj, **mount: Any) -> Obj:
    return {**volume, **_in_container(volumeMounts=[{"name": "v", "mountPath": "/host", **mount}])}


def _host(path: str, **source: Any) -> Obj:
    return _volume(hostPath={"path": path, **source})


def _port(**fields: Any) -> list[Obj]:
    return [{"containerPort": 8080, **fields}]


def _sysctl(name: str) -> Obj:
    return _in_pod(**_context(sysctls=[{"name": name, "value": "1"}]))


def _many(count: int) -> list[Obj]:
    return [{"name": f"c{number}", "image": "busybox:1.36"} for number in range(count)]


SPECS: dict[str, tuple[str, Obj]] = {
    "host network": (PSS, _in_pod(hostNetwork=True)),
    "host processes": (PSS, _in_pod(hostPID=True)),
    "host IPC": (PSS, _in_pod(hostIPC=True)),
    "all of the host": (PSS, _in_pod(hostNetwork=True, hostPID=True, hostIPC=True)),
    "privileged": (PSS, _in_container(**_context(privileged=True))),
    "privileged at the start": (PSS, _in_init(**_context(privileged=True))),
    "privileged sidecar": (PSS, _in_init(restartPolicy="Always", **_context(privileged=True))),
    "every capability": (PSS, _in_container(**_context(capabilities={"add": ["ALL"]}))),
    "SYS_ADMIN": (PSS, _in_container(**_context(capabilities={"add": ["SYS_ADMIN"]}))),
    "SYS_ADMIN after dropping all": (
        PSS, _in_container(**_context(capabilities={"drop": ["ALL"], "add": ["SYS_ADMIN"]}))),
    "NET_ADMIN": (PSS, _in_container(**_context(capabilities={"add": ["NET_ADMIN"]}))),
    "NET_RAW": (PSS, _in_container(**_context(capabilities={"add": ["NET_RAW"]}))),
    "SYS_PTRACE": (PSS, _in_container(**_context(capabilities={"add": ["CHOWN", "SYS_PTRACE"]}))),
    "SYS_MODULE at the start": (PSS, _in_init(**_context(capabilities={"add": ["SYS_MODULE"]}))),
    "BPF": (PSS, _in_container(**_context(capabilities={"add": ["BPF", "PERFMON"]}))),
    "a capability in small letters": (PSS, _in_container(**_context(capabilities={"add": ["sys_admin"]}))),
    "the node's root": (PSS, _mounted(_host("/"))),
    "the node's root, read only": (PSS, _mounted(_host("/"), readOnly=True)),
    "a folder of the node for everybody": (PSS, _mounted(_host("/tmp"))),
    "a folder of the node, created": (PSS, _mounted(_host("/opt/x", type="DirectoryOrCreate"))),
    "the runtime's socket": (PSS, _mounted(_host("/run/containerd/containerd.sock", type="Socket"))),
    "the kubelet's folder": (PSS, _mounted(_host("/var/lib/kubelet"), subPath="pods")),
    "the node's devices": (PSS, _mounted(_host("/dev"))),
    "a GPU's device": (PSS, _mounted(_host("/dev/nvidia0", type="CharDevice"))),
    "the node's processes": (PSS, _mounted(_host("/proc"))),
    "a host path that nothing mounts": (PSS, _host("/etc/kubernetes")),
    "a host path at the start": (
        PSS, {**_host("/"), **_in_init(volumeMounts=[{"name": "v", "mountPath": "/host"}])}),
    "a host path beside a harmless volume": (
        PSS, _in_pod(volumes=[{"name": "a", "emptyDir": {}}, {"name": "b", "hostPath": {"path": "/"}}])),
    "a port of the node": (PSS, _in_container(ports=_port(hostPort=80))),
    "a port of the node's loopback": (PSS, _in_container(ports=_port(hostPort=10250, hostIP="127.0.0.1"))),
    "a port of the node at the start": (PSS, _in_init(ports=_port(hostPort=6443))),
    "the second port is the node's": (
        PSS, _in_container(ports=[{"containerPort": 1}, {"containerPort": 2, "hostPort": 2}])),
    "no seccomp": (PSS, _in_pod(**_context(seccompProfile={"type": "Unconfined"}))),
    "no seccomp in a container": (PSS, _in_container(**_context(seccompProfile={"type": "Unconfined"}))),
    "no seccomp at the start": (PSS, _in_init(**_context(seccompProfile={"type": "Unconfined"}))),
    "an unmasked /proc": (PSS, _in_pod(hostUsers=False, **_in_container(**_context(procMount="Unmasked")))),
    "an unmasked /proc at the start": (PSS, _in_pod(hostUsers=False, **_in_init(**_context(procMount="Unmasked")))),
    "a kernel setting": (PSS, _sysctl("kernel.msgmax")),
    "a setting of the node's network": (PSS, _sysctl("net.core.somaxconn")),
    "a setting of its memory": (PSS, _sysctl("vm.overcommit_memory")),
    "an unsafe setting behind a safe one": (
        PSS, _in_pod(**_context(sysctls=[{"name": "kernel.shm_rmid_forced", "value": "1"},
                                         {"name": "net.ipv4.ip_forward", "value": "1"}]))),
    "SELinux: super privileged": (PSS, _in_pod(**_context(seLinuxOptions={"type": "spc_t"}))),
    "SELinux: another type in a container": (
        PSS, _in_container(**_context(seLinuxOptions={"type": "container_runtime_t"}))),
    "SELinux: a user": (PSS, _in_container(**_context(seLinuxOptions={"user": "system_u"}))),
    "SELinux: a role": (PSS, _in_init(**_context(seLinuxOptions={"role": "sysadm_r"}))),
    "no AppArmor": (PSS, _in_pod(**_context(appArmorProfile={"type": "Unconfined"}))),
    "no AppArmor in a container": (PSS, _in_container(**_context(appArmorProfile={"type": "Unconfined"}))),
    "Windows: a host process": (PSS, {
        "hostNetwork": True, "os": {"name": "windows"},
        "securityContext": {"windowsOptions": {"hostProcess": True, "runAsUserName": "NT AUTHORITY\\SYSTEM"}}}),
    "Windows: a host process in a container": (PSS, {
        "hostNetwork": True,
        **_in_container(**_context(windowsOptions={"hostProcess": True})),
        **_in_init(**_context(windowsOptions={"hostProcess": True}))}),
    "a probe of the node": (
        PSS, _in_container(livenessProbe={"httpGet": {"host": "127.0.0.1", "port": 10255, "path": "/pods"}})),
    "a probe of the metadata server": (
        PSS, _in_container(readinessProbe={"tcpSocket": {"host": "169.254.169.254", "port": 80}})),
    "a hook to the metadata server": (
        PSS, _in_container(lifecycle={"postStart": {"httpGet": {"host": "169.254.169.254", "port": 80}}})),
    "its account's token": (VAP, _in_pod(automountServiceAccountToken=True)),
    "the candidate's own account": (
        VAP, _in_pod(automountServiceAccountToken=True, serviceAccountName=environment.SERVICE_ACCOUNT)),
    "a projected token": (VAP, _mounted(_volume(projected={"sources": [TOKEN]}))),
    "a token for a foreign audience": (
        VAP, _volume(projected={"sources": [{"serviceAccountToken": {"path": "t", "audience": "vault"}}]})),
    "a token that lasts for a year": (
        VAP, _volume(projected={"sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 31536000}}]})),
    "a token behind something harmless": (
        VAP, _volume(projected={"sources": [{"configMap": {"name": "kube-root-ca.crt"}}, TOKEN]})),
    "a token of the candidate's account": (
        VAP, _in_pod(serviceAccountName=environment.SERVICE_ACCOUNT, **_volume(projected={"sources": [TOKEN]}))),
    "a node by name": (VAP, _in_pod(nodeName="${node}")),
    "a node by name, tolerating everything": (
        VAP, _in_pod(nodeName="${node}", tolerations=[{"operator": "Exists"}])),
    "a node that is not there": (VAP, _in_pod(nodeName="control-plane-0")),
    "the priority of a node's own pods": (VAP, _in_pod(priorityClassName="system-node-critical")),
    "the priority of the cluster's own pods": (VAP, _in_pod(priorityClassName="system-cluster-critical")),
    "a thousand containers": (VAP, _in_pod(containers=_many(1000))),
    "many containers at the start": (VAP, _in_pod(initContainers=_many(20))),
    "a priority as a number": ("priority", _in_pod(priority=2_000_001_000)),
    "a runtime class that nobody made": ("runtime class|RuntimeClass", _in_pod(runtimeClassName="untrusted")),
    "an account that is not there": ("serviceaccount", _in_pod(serviceAccountName="cluster-admin")),
    "an account of another namespace": ("may not contain", _in_pod(serviceAccountName="kube-system/default")),
    "ephemeral containers from the start": (
        "ephemeral", _in_pod(ephemeralContainers=[{"name": "d", "image": "busybox", **_context(privileged=True)}])),
    "more GPUs than the quota": (
        "exceeded quota", _in_container(resources={"limits": {"nvidia.com/gpu": "10000"}})),
}  # fmt: skip

ANNOTATIONS: dict[str, tuple[str, Obj]] = {
    "no AppArmor, the old way": (PSS, {"container.apparmor.security.beta.kubernetes.io/main": "unconfined"}),
    "a mirror pod": ("nodeName", {"kubernetes.io/config.mirror": "x"}),
}


def pods(namespace: str, node: str) -> Iterator[tuple[str, str, Obj]]:
    """Yield (what it tries, words of the refusal, pod)."""
    for number, (title, (words, spec)) in enumerate(SPECS.items()):
        spec = copy.deepcopy(spec)
        if spec.get("nodeName") == "${node}":
            spec["nodeName"] = node
        yield title, words, pod(f"hostile-{number}", namespace, **spec)
    for number, (title, (words, notes)) in enumerate(ANNOTATIONS.items()):
        made = pod(f"annotated-{number}", namespace)
        made["metadata"]["annotations"] = notes
        yield title, words, made


def objects(namespace: str) -> Iterator[tuple[str, str, Obj]]:
    """Yield (what it tries, words of the refusal, object) for what is no pod."""
    host_path = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/"}}
    local = {**host_path, "local": {"path": "/"}}
    del local["hostPath"]
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": ""}
    port = [{"port": 80}]
    me = [{"kind": "ServiceAccount", "name": environment.SERVICE_ACCOUNT, "namespace": namespace}]
    admin = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    yield "a volume of the node", RBAC, _object("v1", "PersistentVolume", "", spec=host_path)
    yield "a local volume of the node", RBAC, _object("v1", "PersistentVolume", "", spec=local)
    yield "a claim", RBAC, _object("v1", "PersistentVolumeClaim", namespace, spec=claim)
    yield (
        "a claim for a volume by name",
        RBAC,
        _object("v1", "PersistentVolumeClaim", namespace, spec={**claim, "volumeName": "hostile"}),
    )
    yield "pods on every node", RBAC, _object("apps/v1", "DaemonSet", namespace, spec=_workload())
    yield "pods by the clock", RBAC, _object("batch/v1", "CronJob", namespace, spec={"schedule": "* * * * *"})
    yield (
        "a secret with a token",
        RBAC,
        {**_object("v1", "Secret", namespace), "type": "kubernetes.io/service-account-token"},
    )
    yield "an account", RBAC, _object("v1", "ServiceAccount", namespace)
    yield (
        "a binding",
        RBAC,
        _object("rbac.authorization.k8s.io/v1", "RoleBinding", namespace, roleRef=admin, subjects=me),
    )
    yield (
        "a network policy that allows all",
        RBAC,
        _object(
            "networking.k8s.io/v1",
            "NetworkPolicy",
            namespace,
            spec={"podSelector": {}, "ingress": [{}], "egress": [{}], "policyTypes": ["Ingress", "Egress"]},
        ),
    )
    yield "a runtime class", RBAC, _object("node.k8s.io/v1", "RuntimeClass", "", handler="runc")
    yield "a priority class", RBAC, _object("scheduling.k8s.io/v1", "PriorityClass", "", value=10**9)
    yield "a namespace without limits", RBAC, _object("v1", "Namespace", "")
    yield (
        "a load balancer",
        "exceeded quota",
        _object("v1", "Service", namespace, spec={"type": "LoadBalancer", "ports": port}),
    )
    yield (
        "an address outside",
        VAP,
        _object(
            "v1", "Service", namespace, spec={"externalIPs": ["1.1.1.1"], "ports": port, "selector": {"app": "x"}}
        ),
    )


def _object(api_version: str, kind: str, namespace: str, **fields: Any) -> Obj:
    meta = {"name": "hostile", **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": meta, **fields}


def _workload() -> Obj:
    template = {"metadata": {"labels": {"app": "x"}}, "spec": pod("x", "x")["spec"]}
    return {"selector": {"matchLabels": {"app": "x"}}, "template": template}


def workload(kind: str, namespace: str, **pod_spec: Any) -> Obj:
    """Return a Deployment or a Job whose pods have these fields."""
    template = {"metadata": {"labels": {"app": "hostile"}}, "spec": pod("x", namespace, **pod_spec)["spec"]}
    if kind == "Job":
        template["spec"]["restartPolicy"] = "Never"
        return _object("batch/v1", "Job", namespace, spec={"template": template})
    return _object(
        "apps/v1",
        "Deployment",
        namespace,
        spec={**_workload(), "template": {**template, "metadata": {"labels": {"app": "x"}}}},
    )
