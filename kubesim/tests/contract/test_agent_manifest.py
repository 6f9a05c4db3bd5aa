"""The manifest of real nodes' agents, as an administrator applies it: every field is one that API servers know."""

import json
from pathlib import Path

import pytest
import yaml

MANIFEST = (Path(__file__).parents[3] / "deploy/node-agent.yaml").read_text(encoding="utf-8")
STRICT = "dryRun=All&fieldValidation=Strict"
SPACE, AGENTS = yaml.safe_load_all(
    MANIFEST.replace("REGISTRY", "registry.example.com/team").replace("SECRET", "k3f9")
)


def dry_run(cluster, path, obj):
    return cluster("POST", f"{path}?{STRICT}", obj)


def test_the_namespace_and_the_daemon_set_of_agents_are_taken_field_by_field(cluster, namespace):
    assert dry_run(cluster, "/api/v1/namespaces", SPACE).code == 201
    placed = AGENTS | {"metadata": AGENTS["metadata"] | {"namespace": namespace}}
    answer = dry_run(cluster, f"/apis/apps/v1/namespaces/{namespace}/daemonsets", placed)
    assert answer.code == 201, answer.message
    pod = answer.json["spec"]["template"]["spec"]
    assert pod["containers"][0]["securityContext"] == {"privileged": True, "readOnlyRootFilesystem": True}
    assert pod["automountServiceAccountToken"] is False
    assert not {"hostNetwork", "hostPID", "hostIPC"} & {key for key, value in pod.items() if value}


@pytest.mark.parametrize("field", ["hostPaths", "readOnlyRootFileSystem"])
def test_a_field_that_no_api_server_knows_would_be_found(cluster, namespace, field):
    broken = json.loads(json.dumps(AGENTS)) | {"metadata": AGENTS["metadata"] | {"namespace": namespace}}
    broken["spec"]["template"]["spec"]["containers"][0]["securityContext"][field] = True
    answer = dry_run(cluster, f"/apis/apps/v1/namespaces/{namespace}/daemonsets", broken)
    assert (answer.code, field in answer.message) == (400, True)
