"""Adding a real cluster in the admin, and its preflight."""

from __future__ import annotations

import dataclasses
import socket
import time
import uuid
from pathlib import Path

import certifi
import pytest
from django.contrib.auth.models import User

from faults import clock, crypto, selectors, services
from faults.errors import ClusterBusy, Unreachable
from faults.kube.addresses import AddressRefused, check_url
from faults.kube.client import Kube
from faults.kube.config import parse, render
from faults.kube.watch import Streams
from faults.models import Cluster
from faults.services import inspection
from faults.tests.variants import FIRST_PACK

IMAGES = FIRST_PACK
URL = "/admin/faults/cluster/add/"


FOREIGN_CA = "-----BEGIN" + Path(certifi.where()).read_text(encoding="utf-8").split("-----BEGIN")[1]


@pytest.fixture
def port_of_nobody():
    """A port on which nobody listens, and nobody else will."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        yield closed.getsockname()[1]


@pytest.fixture
def root(db):
    return User.objects.create_superuser("root")


def typed(kubeconfig, **fields):
    return {"name": "lab-1", "tier": "dedicated", "kubeconfig": kubeconfig, "prometheus_url": "", **fields}


NO_TOOLBOX_GPU = b"None, since no node with a GPU has the label node-role.kubernetes.io/toolbox and the taint"


def test_an_admin_adds_a_cluster_and_sees_its_preflight(client, root, cluster):
    client.force_login(root)
    kubeconfig = crypto.unseal(cluster.kubeconfig)
    page = client.post(URL, typed(kubeconfig), follow=True)
    added = Cluster.objects.get(name="lab-1")
    assert added.kept
    assert kubeconfig.split("token:")[1].strip()[:40].encode() not in page.content
    for words in (
        b"Kubernetes v1.",
        b"that are needed are held",
        b"24 on 3 of",
        b"plugin is at work",
        NO_TOOLBOX_GPU,
    ):
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


def kubeconfig_of(server, ca_pem="-----BEGIN CERTIFICATE-----"):
    return render(server=server, ca_pem=ca_pem, token="t", namespace="", user="u")


def open_page(client, root, kubeconfig):
    """Add a cluster and open its page; return it with the cluster."""
    client.force_login(root)
    page = client.post(URL, typed(kubeconfig), follow=True)
    assert page.status_code == 200
    return page.content.decode(), Cluster.objects.get()


def test_a_cluster_that_answers_is_stored_as_good_and_a_paper_one_without_gpus_as_well(client, root, kube, cluster):
    for node in kube.list("v1", "Node"):
        kube.delete("v1", "Node", node["metadata"]["name"])
    client.force_login(root)
    page = client.post(URL, typed(crypto.unseal(cluster.kubeconfig)), follow=True)
    added = Cluster.objects.get(name="lab-1")
    assert (added.preflight_error, added.preflight_at is not None) == ("", True)
    assert "0 on 0 of 0 nodes" in page.content.decode()
    assert "Sessions can use this cluster." in page.content.decode()


def test_a_dead_cluster_is_told_in_words_and_soon(client, root, port_of_nobody):
    began = time.monotonic()
    page, added = open_page(client, root, kubeconfig_of(f"https://127.0.0.1:{port_of_nobody}"))
    assert "cannot be reached" in page
    assert "No session can use this cluster before that is put right." in page
    assert added.preflight_error.startswith("Connection: ")
    assert time.monotonic() - began < sum(inspection.TIMEOUT_S)


def test_a_cluster_that_accepts_and_says_nothing_is_given_up(client, root, monkeypatch):
    monkeypatch.setattr(inspection, "TIMEOUT_S", (0.2, 0.2))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        page, added = open_page(client, root, kubeconfig_of(f"https://127.0.0.1:{silent.getsockname()[1]}"))
    assert "cannot be reached" in page
    assert added.preflight_error


@pytest.mark.parametrize("fault", ["token", "authority", "secret key"])
def test_what_a_cluster_or_our_own_key_refuses_is_told_in_words(client, root, cluster, settings, fault):
    access = parse(crypto.unseal(cluster.kubeconfig))
    stranger = FOREIGN_CA if fault == "authority" else access.ca_pem
    kubeconfig = render(server=access.server, ca_pem=stranger, token="wrong", namespace="", user="u")
    client.force_login(root)
    client.post(URL, typed(kubeconfig))
    added = Cluster.objects.get(name="lab-1")
    if fault == "secret key":
        settings.SECRET_KEY = "another"
        client.force_login(root)
    page = client.get(f"/admin/faults/cluster/{added.pk}/change/")
    added.refresh_from_db()
    words = {"token": "Unauthorized", "authority": "certificate", "secret key": "SECRET_KEY is not the one"}[fault]
    assert page.status_code == 200
    assert words in added.preflight_error
    assert words in page.content.decode()


def test_another_kubeconfig_or_tier_needs_a_new_preflight(db):
    told = {"preflight_at": clock.now(), "preflight_error": "Version: Kubernetes v1.20; 1.30 is needed"}
    lab = Cluster.objects.create(name="lab-1", tier="dedicated", kept=True, **told)
    services.save_cluster(cluster=lab, name="lab-2", tier="dedicated", kubeconfig="")
    assert "failed" in services.preflight_refusal(lab)
    services.save_cluster(cluster=lab, name="lab-2", tier="shared", kubeconfig="")
    assert services.preflight_refusal(lab) == ""


@pytest.fixture
def moved(cluster, settings):
    """A cluster that an admin added under a name which has come to lead to this machine."""
    Cluster.objects.filter(pk=cluster.pk).update(kept=True)
    settings.BIND = "0.0.0.0"
    cluster.refresh_from_db()
    return cluster


def test_a_name_that_leads_elsewhere_by_now_is_refused_when_it_is_connected_to(moved):
    for kube in (selectors.kube_for(moved), selectors.impatient_kube_for(moved)):
        with pytest.raises(Unreachable, match="this machine itself"):
            kube.version()


async def test_watches_refuse_it_as_well(moved_access):
    streams = Streams(Kube(moved_access))
    try:
        with pytest.raises(Unreachable, match="this machine itself"):
            await streams.list("v1", "Namespace", "")
    finally:
        await streams.close()


@pytest.fixture
def moved_access(moved):
    return selectors.kube_for(moved).access


def test_what_is_refused_learns_no_token(moved_access):
    received = []
    with socket.create_server(("127.0.0.1", 0)) as trap:
        port = trap.getsockname()[1]
        kube = Kube(dataclasses.replace(moved_access, server=f"https://127.0.0.1:{port}"), max_repeat_s=0)
        with pytest.raises(Unreachable):
            kube.version()
        peer, _ = trap.accept()
        with peer:
            peer.settimeout(5)
            received.append(peer.recv(1))
    assert received == [b""], "not even the beginning of TLS"
