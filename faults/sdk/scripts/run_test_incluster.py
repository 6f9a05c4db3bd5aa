"""Runs a test of GPU faults in a pod of the cluster, shows its log, and ends with its exit code.

python scripts/run_test_incluster.py examples/test_xid_94_ecc_error.py

The pod has Python and nothing else: the test and the SDK reach it in a ConfigMap, which goes with the Job.
Ctrl-C ends the test, which cleans up first.
"""

from __future__ import annotations

import argparse
import os
import re
import secrets
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SDK = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(SDK))

from helpers import pods  # noqa: E402
from helpers.kube_access import AccessError  # noqa: E402
from helpers.kube_client import CONFIG_MAP, JOB, POD, Kind, Kube, KubeError  # noqa: E402

NAMESPACE, ACCOUNT = "fault-injection-system", "fault-injection-api"
IMAGE = "python:3.12-slim"
HOME = "/opt/fault-tests"
CLUSTER_API = f"http://fault-injection-api.{NAMESPACE}.svc.cluster.local:8080"
FRONTEND = "http://vllm-v1-disagg-router-frontend.{}.svc.cluster.local:8000"
PATTERNS = ("*.py", "helpers/*.py", "scripts/in_pod.py", "cuda-fault-injection/fake_cuda_xid79.c")
KEPT_S, GRACE_S, START_S = 3600, 120, 300
ACCOUNTS = Kind("v1", "serviceaccounts", "ServiceAccount")
NO_TEST, NO_CLUSTER, INTERRUPTED = 2, 3, 130
Obj = dict[str, Any]


class NotRunError(Exception):
    """The test could not be started or followed; the message says what to do."""


def main(words: list[str] | None = None) -> int:
    """Run the test that the command line names; return its exit code."""
    options = _options(words)
    if not options.test.is_file():
        print(f"error: there is no file {options.test}", file=sys.stderr)
        return NO_TEST
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        return run(Kube(), options.test, settings(options), options.timeout)
    except KeyboardInterrupt:
        return INTERRUPTED
    except (AccessError, KubeError, NotRunError) as exc:
        print(f"error: {exc}", file=sys.stderr)
        return NO_CLUSTER


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def _options(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Run a test of GPU faults in a pod of the cluster.")
    parser.add_argument("test", type=Path, help="a Python file, such as examples/test_xid_94_ecc_error.py")
    parser.add_argument("--app-namespace", default=os.environ.get("APP_NAMESPACE", "dynamo-oviya"))
    parser.add_argument("--api-url", default=CLUSTER_API, help="the fault injection API as pods reach it")
    parser.add_argument("--frontend-url", default=None, help="the model's front end as pods reach it")
    parser.add_argument("--timeout", type=int, default=1800, help="seconds until the test is ended (1800)")
    return parser.parse_args(words)


def settings(options: argparse.Namespace) -> dict[str, str]:
    """Return the variables by which the test finds everything; some of ours reach it, as a token does."""
    found = {
        "API_URL": options.api_url,
        "FRONTEND_URL": options.frontend_url or FRONTEND.format(options.app_namespace),
        "APP_NAMESPACE": options.app_namespace,
        "FORCE_COLOR": os.environ.get("FORCE_COLOR", "1" if sys.stdout.isatty() else "0"),
        "PYTHONPATH": f"{HOME}:{HOME}/examples",
    }
    handed_on = ("FAULT_API_TOKEN", "DEPLOYMENT", "TARGET_NODE", "PATIENCE")
    return found | {name: os.environ[name] for name in handed_on if name in os.environ}


def run(kube: Kube, test: Path, variables: dict[str, str], seconds: float) -> int:
    """Start the test in a Job, print its log until it ends, and return its exit code."""
    if kube.find(ACCOUNTS, NAMESPACE, ACCOUNT) is None:
        raise NotRunError(f"There is no service account {ACCOUNT} in {NAMESPACE}: see README.md, In the cluster.")
    name = _name_of(test)
    with _job(kube, name, test, variables, seconds):
        end = time.monotonic() + seconds + START_S
        pod = _await_start(kube, name)
        print(f"{name}: running in pod {NAMESPACE}/{pod}", flush=True)
        return _follow(kube, name, pod, end)


def _name_of(test: Path) -> str:
    slug = re.sub(r"[^a-z0-9]+", "-", test.stem.lower()).strip("-")[:40]
    return f"{slug}-{secrets.token_hex(3)}"


def files(test: Path) -> dict[str, Path]:
    """Return what the pod is given: where each file is to be, and where it is."""
    found = {str(path.relative_to(SDK)): path for pattern in PATTERNS for path in sorted(SDK.glob(pattern))}
    return found | {f"examples/{path.name}": path for path in (test, *test.resolve().parent.glob("gpu_test.py"))}


@contextmanager
def _job(kube: Kube, name: str, test: Path, variables: dict[str, str], seconds: float) -> Iterator[None]:
    """Have the Job and its files; after the block they are kept for an hour, unless it was interrupted."""
    given = files(test)
    keys = {place: place.replace("/", "--") for place in given}
    data = {keys[place]: path.read_text(encoding="utf-8") for place, path in given.items()}
    kube.create(CONFIG_MAP, NAMESPACE, {"metadata": {"name": name}, "data": data})
    try:
        made = kube.create(JOB, NAMESPACE, job(name, test, keys, variables, seconds))
        kube.change(CONFIG_MAP, NAMESPACE, name, lambda found: _owned(found, made))
    except BaseException:
        kube.delete(CONFIG_MAP, NAMESPACE, name)
        raise
    try:
        yield
    except BaseException:
        kube.delete(JOB, NAMESPACE, name, propagationPolicy="Background")
        raise


def _owned(found: Obj, owner: Obj) -> Obj:
    """Let the files go with the Job."""
    keys = {"apiVersion": "batch/v1", "kind": "Job"}
    found["metadata"]["ownerReferences"] = [{**keys, **{key: owner["metadata"][key] for key in ("name", "uid")}}]
    return found


def job(name: str, test: Path, keys: dict[str, str], variables: dict[str, str], seconds: float) -> Obj:
    """Return the Job. It keeps away from nodes with GPUs where it can: the test may have them emptied or rebooted."""
    items = [{"key": key, "path": place} for place, key in keys.items()]
    elsewhere = {"matchExpressions": [{"key": "nvidia.com/gpu.present", "operator": "NotIn", "values": ["true"]}]}
    container = {
        "name": "test",
        "image": IMAGE,
        "command": ["python3", "-u", f"{HOME}/scripts/in_pod.py", f"{HOME}/examples/{test.name}"],
        "workingDir": HOME,
        "env": [{"name": key, "value": value} for key, value in variables.items()],
        "volumeMounts": [{"name": "files", "mountPath": HOME, "readOnly": True}],
    }
    away = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": elsewhere}]}
    spec = {
        "serviceAccountName": ACCOUNT,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": GRACE_S,
        "affinity": {"nodeAffinity": away},
        "containers": [container],
        "volumes": [{"name": "files", "configMap": {"name": name, "items": items}}],
    }
    labels = {"app": "fault-injection-test"}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": int(seconds),
            "ttlSecondsAfterFinished": KEPT_S,
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def _await_start(kube: Kube, name: str) -> str:
    """Return the name of the pod as soon as it has a log."""

    def has_begun(found: list[Obj]) -> bool:
        return any(pod["status"].get("phase") in ("Running", "Succeeded", "Failed") for pod in found)

    seen = pods.await_pods(kube, NAMESPACE, f"job-name={name}", START_S, has_begun)
    if not has_begun(seen):
        advice = f"kubectl describe pods -n {NAMESPACE} -l job-name={name}"
        raise NotRunError(f"The test's pod did not start within {START_S} s; `{advice}` says why.")
    return pods.name_of(seen[0])


def _follow(kube: Kube, name: str, pod: str, end: float) -> int:
    """Print the log, on from where it broke off if it does, and return the container's exit code."""
    printed = 0
    while time.monotonic() < end:
        for at, line in enumerate(kube.follow_log(NAMESPACE, pod, end - time.monotonic())):
            if at >= printed:
                print(line, flush=True)
                printed += 1
        code = _exit_code(kube, name, pod)
        if code is not None:
            return code
    raise NotRunError(f"{name} has not ended in its time.")


def _exit_code(kube: Kube, name: str, pod: str) -> int | None:
    """Return how the test ended, waiting a moment for the kubelet to tell; None while it goes on."""

    def is_over(found: list[Obj]) -> bool:
        return not found or any(map(pods.is_over, found))

    pods.await_pods(kube, NAMESPACE, f"job-name={name}", 10, is_over)
    found = kube.find(POD, NAMESPACE, pod)
    if found is None:
        raise NotRunError(f"The test's pod {pod} was deleted.")
    if not pods.is_over(found):
        return None
    for status in found["status"].get("containerStatuses") or []:
        if ended := (status.get("state") or {}).get("terminated"):
            return int(ended["exitCode"])
    return 0 if found["status"]["phase"] == "Succeeded" else 1


if __name__ == "__main__":
    sys.exit(main())
