"""Programs that people write and run against a cluster do their work: Python clients old and new, and Terraform."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from kubernetes.aio import client as aio
from kubernetes.aio import config as aio_config
from kubernetes.aio import watch as aio_watch

WORK = Path(__file__).with_name("client_work.py")
PYTHONS = [sys.executable, *filter(None, os.environ.get("CONTRACT_PYTHONS", "").split(os.pathsep))]
"""This interpreter, and others that have other versions of the client: ``CONTRACT_PYTHONS=DIR/bin/python:...``."""
TERRAFORM = """
terraform {
  required_providers { kubernetes = { source = "hashicorp/kubernetes" } }
}
provider "kubernetes" { config_path = "%s" }
resource "kubernetes_namespace_v1" "space" {
  metadata { name = "%s" }
}
resource "kubernetes_config_map_v1" "settings" {
  metadata {
    name      = "settings"
    namespace = kubernetes_namespace_v1.space.metadata[0].name
  }
  data = { key = "value" }
}
resource "kubernetes_service_v1" "web" {
  metadata {
    name      = "web"
    namespace = kubernetes_namespace_v1.space.metadata[0].name
  }
  spec {
    selector = { app = "web" }
    port {
      port        = 80
      target_port = 8080
    }
  }
}
resource "kubernetes_role_v1" "reader" {
  metadata {
    name      = "reader"
    namespace = kubernetes_namespace_v1.space.metadata[0].name
  }
  rule {
    api_groups = [""]
    resources  = ["pods"]
    verbs      = ["get", "list"]
  }
}
resource "kubernetes_deployment_v1" "web" {
  metadata {
    name      = "web"
    namespace = kubernetes_namespace_v1.space.metadata[0].name
  }
  spec {
    replicas = 2
    selector { match_labels = { app = "web" } }
    template {
      metadata { labels = { app = "web" } }
      spec {
        container {
          name  = "main"
          image = "nginx:1.27"
        }
      }
    }
  }
}
"""


def provider_folder():
    """Return the filesystem mirror that has the provider, or None."""
    folder = Path(os.environ.get("TF_PLUGIN_DIR", "/nowhere"))
    return folder if any(folder.glob("**/hashicorp/kubernetes/**/terraform-provider-kubernetes*")) else None


@pytest.mark.parametrize("python", PYTHONS, ids=lambda path: "this" if path == sys.executable else path)
def test_the_python_client_does_its_work(cluster, namespace, python):
    command = [python, "-W", "ignore", str(WORK), str(cluster.kubeconfig), namespace]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "done\n", done.stderr


def test_another_version_of_the_client_is_tried():
    if len(PYTHONS) == 1:
        pytest.skip("no interpreter with another client (31, for one) in CONTRACT_PYTHONS")


async def test_the_asynchronous_client_lists_watches_and_deletes(cluster, namespace):
    api = await aio_config.new_client_from_config(str(cluster.kubeconfig))
    async with api:
        core = aio.CoreV1Api(api)
        await core.create_namespaced_config_map(namespace, {"metadata": {"name": "a"}, "data": {"k": "v"}})
        async with aio_watch.Watch() as stream:
            events = stream.stream(core.list_namespaced_config_map, namespace, timeout_seconds=10)
            names = [(await anext(events))["object"].metadata.name for _ in range(2)]
        assert "a" in names
        await core.delete_namespaced_config_map("a", namespace)
        with pytest.raises(aio.ApiException) as caught:
            await core.read_namespaced_config_map("a", namespace)
    assert caught.value.status == 404


def test_terraform_applies_finds_nothing_to_change_and_destroys(cluster, tmp_path):
    terraform, folder = shutil.which("terraform"), provider_folder()
    if terraform is None or folder is None:
        pytest.skip("needs terraform on PATH, and hashicorp/kubernetes in the filesystem mirror TF_PLUGIN_DIR")
    name = f"terraform-{secrets.token_hex(4)}"
    (tmp_path / "main.tf").write_text(TERRAFORM % (cluster.kubeconfig, name))

    def run(*arguments):
        environment = {**os.environ, "TF_IN_AUTOMATION": "1", "CHECKPOINT_DISABLE": "1"}
        command = [terraform, *arguments]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=180, check=False
        )

    for command in (("init", f"-plugin-dir={folder}"), ("validate",), ("apply", "-auto-approve")):
        done = run(*command)
        assert done.returncode == 0, done.stdout + done.stderr
    again = run("plan", "-detailed-exitcode", "-no-color")
    assert again.returncode == 0, again.stdout
    destroyed = run("destroy", "-auto-approve")
    assert destroyed.returncode == 0, destroyed.stdout + destroyed.stderr
    assert cluster("GET", f"/api/v1/namespaces/{name}").code == 404
