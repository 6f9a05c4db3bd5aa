"""Real Terraform with Google's provider keeps ``deploy/terraform/cloud`` on the cloud API of a practice cluster."""

import json
import ssl

import pytest

from kubesim.auth.users import Attributes, User
from kubesim.gpu.nodes import network_tags
from kubesim.tests.contract.plain import Plain
from kubesim.tests.contract.terraform import CHANGES, EMPTY, terraform_in
from kubesim.tests.contract.test_terraform import copied
from kubesim.tests.live import serving

pytestmark = pytest.mark.torture
ACCOUNTS = "projects/ml-prod/serviceAccounts"
SUBNETWORK = "projects/ml-prod/regions/us-central1/subnetworks/ml-prod-us-central1"
LAUNCHER = "job-launcher@ml-prod.iam.gserviceaccount.com"
THERE = {
    "module.network.google_compute_network.this": "projects/ml-prod/global/networks/ml-prod",
    "module.network.google_compute_subnetwork.nodes": SUBNETWORK,
    "module.cluster.google_container_cluster.this": "projects/ml-prod/locations/us-central1-a/clusters/ml-prod",
    'module.cluster.google_container_node_pool.this["h100-pool"]': "ml-prod/us-central1-a/ml-prod/h100-pool",
    "google_service_account.nodes": f"{ACCOUNTS}/gke-nodes@ml-prod.iam.gserviceaccount.com",
    "google_service_account.job_launcher": f"{ACCOUNTS}/{LAUNCHER}",
}
"""Addresses in the code, and the names of what a fresh project has."""
USUAL = {
    "nodes": 2,
    "external_access": {"shared": {"tags": ["h100-pool"]}},
    "cluster_access": {"roles/container.developer": [f"serviceAccount:{LAUNCHER}"]},
}
FIREWALL = "/compute/v1/projects/ml-prod/global/firewalls/ml-prod-shared-egress"


@pytest.fixture
def live(tmp_path):
    with serving(tmp_path, nodes=2) as live:
        yield live


@pytest.fixture
def cloud(live, tmp_path):
    """The root ``cloud``, ready to be applied to a project that has its network and cluster already."""
    (tmp_path / "ca.pem").write_text(ssl.DER_cert_to_PEM_cert(live.trust().get_ca_certs(binary_form=True)[0]))
    reached = {"SSL_CERT_FILE": str(tmp_path / "ca.pem"), "GOOGLE_OAUTH_ACCESS_TOKEN": live.token}
    folder = copied(tmp_path) / "cloud"
    terraform = terraform_in(folder, live.kubeconfig, "google", TF_VAR_api=live.url, **reached)
    blocks = [f'import {{\n  to = {address}\n  id = "{name}"\n}}\n' for address, name in THERE.items()]
    (folder / "imports.tf").write_text("".join(blocks))
    Plain("kubesim", live.kubeconfig)("POST", "/api/v1/namespaces", {"metadata": {"name": "platform"}})
    terraform.init()
    return terraform


@pytest.fixture
def apply(cloud):
    """Apply the code with the usual variables, or some others; a plan finds nothing to do afterwards."""

    def run(**changed):
        values = {**USUAL, **changed}
        gpu = {"type": "nvidia-h100-80gb", "count": 8}
        pool = {"machine_type": "a3-highgpu-8g", "node_count": values.pop("nodes"), "gpu": gpu}
        shared = {"project": "ml-prod", "name": "ml-prod", "pools": {"h100-pool": pool}}
        ranges = {"nodes": "10.128.0.0/20", "pods": "10.64.0.0/14", "services": "10.96.0.0/16"}
        shared["ranges"] = {**ranges, "control_plane": "172.16.0.0/28"}
        (cloud.folder / "terraform.tfvars.json").write_text(json.dumps({**shared, **values}))
        said = cloud("apply", "-auto-approve")
        assert cloud.plan() == EMPTY
        return said

    return run


def gets_out(cluster):
    """Tell whether the nodes get at a registry, and at each other."""
    node = next(iter(cluster.nodes.listed()))
    wall, tags = cluster.nodes.fabric.firewall, network_tags(node)
    return wall.passes(tags, "44.208.254.194", 443), wall.passes(tags, "10.128.0.3", 10250)


def may_start_jobs(cluster):
    return cluster.operations.allows(User(LAUNCHER), Attributes("create", "batch", "v1", "jobs", namespace="default"))


def test_the_cloud_is_taken_over_changed_and_repaired(live, cloud, apply):
    assert "6 imported" in apply()
    assert live.ask(gets_out) == (True, True)

    said = apply(external_access={"cpu": {"tags": ["cpu-pool"]}}, cluster_access={})
    assert "1 added, 0 changed, 2 destroyed" in said
    assert live.ask(gets_out) == (False, True)
    assert not live.ask(may_start_jobs)

    apply(nodes=3)
    assert live.ask(gets_out) == (True, True)
    assert live.ask(may_start_jobs)
    assert len(live.ask(lambda cluster: [*cluster.nodes.listed()])) == 3

    by_hand = Plain("kubesim", live.kubeconfig)("PATCH", FIREWALL, {"disabled": True})
    assert by_hand.code == 200
    assert cloud.plan() == CHANGES
    apply(nodes=1)
    assert live.ask(gets_out) == (True, True)
    assert len(live.ask(lambda cluster: [*cluster.nodes.listed()])) == 1


def test_what_practice_clusters_cannot_do_is_refused_in_a_sentence(cloud, apply):
    apply()
    router = 'resource "google_compute_router" "this" {\n  name    = "nat"\n  network = "ml-prod"\n}\n'
    (cloud.folder / "router.tf").write_text(router)
    refused = cloud.run("apply", "-auto-approve")
    assert refused.returncode == 1
    assert "is not supported on practice clusters" in refused.stderr
