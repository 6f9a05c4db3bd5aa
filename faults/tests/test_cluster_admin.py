"""Adding a real cluster in the admin, and its preflight."""

from __future__ import annotations

import uuid

import pytest
from django.contrib.auth.models import User

from faults import crypto, services
from faults.errors import ClusterBusy
from faults.kube.addresses import AddressRefused, check_url
from faults.models import Cluster

URL = "/admin/faults/cluster/add/"


@pytest.fixture
def root(db):
    return User.objects.create_superuser("root")


def typed(kubeconfig, **fields):
    return {"name": "lab-1", "tier": "dedicated", "kubeconfig": kubeconfig, "prometheus_url": "", **fields}


def test_an_admin_adds_a_cluster_and_sees_its_preflight(client, root, cluster):
    client.force_login(root)
    kubeconfig = crypto.unseal(cluster.kubeconfig)
    page = client.post(URL, typed(kubeconfig), follow=True)
    added = Cluster.objects.get(name="lab-1")
    assert added.kept
    assert kubeconfig.split("token:")[1].strip()[:40].encode() not in page.content
    for words in (b"Kubernetes v1.", b"that are needed are held", b"24 on 3 of", b"plugin is at work"):
        assert words in page.content, words
    services.lease_cluster(cluster=added, holder=uuid.uuid4())
    with pytest.raises(ClusterBusy, match="Another session has the cluster lab-1"):
        services.lease_cluster(cluster=added, holder=uuid.uuid4())
    services.release_cluster(cluster=added)
    added.refresh_from_db()
    assert added.kubeconfig


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "2130706433", "0177.0.0.1", "0x7f.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0"]
    + ["169.254.169.254", "[fe80::1]", "[::ffff:a9fe:a9fe]", "2852039166", "[64:ff9b::a9fe:a9fe]", "224.0.0.1"],
)
def test_addresses_of_this_machine_and_of_metadata_services_are_refused(host):
    with pytest.raises(AddressRefused):
        check_url(f"https://{host}:6443", loopback=False)


def test_loopback_is_allowed_where_the_deployment_says_so_and_metadata_never():
    assert check_url("https://127.0.0.1:6443", loopback=True) == ["127.0.0.1"]
    with pytest.raises(AddressRefused):
        check_url("https://169.254.169.254", loopback=True)


def test_an_interviewer_may_not_and_nobody_without_a_login(client, db):
    assert client.get(URL).status_code == 302
    client.force_login(User.objects.create_user("ada", is_staff=True))
    assert client.get(URL).status_code == 403
    assert client.post(URL, typed("x")).status_code == 403
