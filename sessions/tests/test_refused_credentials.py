"""A cluster that stops accepting our credentials: told in words, tried again, and mended by another kubeconfig."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest
from django.urls import reverse

from faults import crypto
from faults import practice as practice_clusters
from faults import services as fault_services
from faults.errors import FaultError
from faults.kube.client import Kube
from faults.kube.config import parse, render
from faults.models import Cluster
from faults.services.credentials import REFUSED_AFTER
from sessions import clock, services
from sessions.access_enforcer import AccessEnforcer
from sessions.errors import SessionError
from sessions.models import ClockEntry, InterviewSession
from sessions.observer.cluster import ClusterWatch
from sessions.observer.session_watch import SessionWatch
from sessions.tests.test_access_enforcer import look, may_read
from sessions.tests.test_view_panel import draw

pytestmark = pytest.mark.django_db(transaction=True)
State = InterviewSession.State
ADMIN = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "faultline", "namespace": "kube-system"}}


@pytest.fixture
def root_kube(practice):
    """A cluster that stands for a real one, with all rights."""
    name = f"r-{uuid.uuid4().hex[:8]}"
    made = fault_services.ensure_practice_cluster(name=name, deadline=clock.now() + timedelta(hours=1))
    kube = Kube(parse(crypto.unseal(made.kubeconfig)))
    made.delete()
    kube.create(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "faultline"},
            "subjects": [{"kind": "ServiceAccount", "name": "faultline", "namespace": "kube-system"}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        }
    )
    yield kube
    kube.close()
    practice_clusters.drop(name)


@pytest.fixture
def issue(root_kube):
    """Return a function that makes new credentials, which are refused once ``revoke`` was called."""

    def issue():
        root_kube.create(ADMIN)
        token, _ = root_kube.token_request("kube-system", "faultline", seconds=3600)
        access = root_kube.access
        return render(server=access.server, ca_pem=access.ca_pem, token=token, namespace="", user="faultline")

    return issue


@pytest.fixture
def revoke(root_kube):
    return lambda: root_kube.delete("v1", "ServiceAccount", "faultline", "kube-system")


@pytest.fixture
def lab(issue):
    return fault_services.save_cluster(cluster=None, name="lab-1", tier="dedicated", kubeconfig=issue())


@pytest.fixture
def live(ada, lab):
    """A live session that has the cluster, and nothing but an environment in it."""
    until = clock.now() + timedelta(hours=1)
    run = fault_services.plan_environment_run(cluster=lab, namespaces={"workloads": "ml-training"}, deadline=until)
    run = fault_services.inject_run(run_id=run.pk, holder="test")
    session = InterviewSession.objects.create(
        **{"owner": ada, "candidate_name": "Sam", "title": "GPU", "minutes": 60, "state": State.LIVE},
        **{"cluster": lab, "environment": run, "tier": "dedicated", "prepared_at": clock.now()},
    )
    session.interviewers.add(ada)
    ClockEntry.objects.create(session=session, kind=ClockEntry.Kind.START, at=clock.now())
    fault_services.lease_cluster(cluster=lab, holder=session.uuid)
    return session


@pytest.fixture
def watch(live):
    """The observer's watch of the session, whose looks are the test's."""
    marked = set()
    cluster = ClusterWatch(Kube(parse(crypto.unseal(live.cluster.kubeconfig))), (), clock.now)
    watch = SessionWatch(live, cluster, lambda _, names: marked.update(names), clock.now)
    watch.marked = marked
    yield watch
    watch.cluster.close()


def look_again(watch, stepping, seconds):
    stepping.advance(seconds)
    watch.look()


@pytest.fixture
def stepping():
    """The present, until the test moves it."""
    stepping = clock.SteppingClock(clock.now())
    with clock.use(stepping):
        yield stepping


def test_it_is_told_to_interviewers_and_staff_until_another_kubeconfig_is_stored(
    stepping, live, watch, revoke, issue, client, root
):
    watch.look()
    revoke()
    look_again(watch, stepping, 6)
    assert "refuses" not in draw(fresh(live), "notices")  # an authenticator that restarts says the same
    look_again(watch, stepping, REFUSED_AFTER.total_seconds())
    told = draw(fresh(live), "notices")
    assert "lab-1 refuses Faultline's credentials since" in told
    assert "replaces the kubeconfig under Clusters" in told
    assert "nothing counts against Sam" in told
    assert "notices" in watch.marked
    client.force_login(root)
    for url in (reverse("session-list"), reverse("admin:index")):
        assert "lab-1 refuses Faultline's credentials" in client.get(url).content.decode()

    stored = Cluster.objects.get()
    fault_services.save_cluster(cluster=stored, name="lab-1", tier="dedicated", kubeconfig=issue())
    look_again(watch, stepping, 2)
    assert watch.must_be_renewed
    assert "refuses" not in draw(fresh(live), "notices")


def test_what_only_we_are_refused_is_no_outage_of_the_candidates(stepping, live, watch, revoke):
    watch.look()
    revoke()
    for _ in range(6):
        look_again(watch, stepping, 6)
    outage = live.outages.get()
    assert outage.ended_at is not None
    assert (outage.ended_at - outage.began_at) <= REFUSED_AFTER + timedelta(seconds=12)


def test_an_end_meanwhile_is_carried_out_as_soon_as_the_credentials_are_replaced(live, revoke, issue, ada):
    kube = Kube(parse(services.candidate_credentials(session=live).kubeconfig))
    enforcer = AccessEnforcer()
    look(enforcer)
    revoke()
    services.end(session=live, actor=ada)
    Cluster.objects.update(refused_at=clock.now() - REFUSED_AFTER)
    for _ in range(2):
        look(enforcer)
    assert may_read(kube)
    assert "Sam's access cannot be ended before that." in draw(fresh(live), "notices")

    fault_services.save_cluster(cluster=Cluster.objects.get(), name="lab-1", tier="dedicated", kubeconfig=issue())
    look(enforcer)
    assert not may_read(kube)
    assert draw(fresh(live), "notices").count("notice ") == 0
    kube.close()


def test_a_phase_that_waits_for_it_says_what_helps(live, revoke, issue, ada):
    services.end(session=live, actor=ada)
    services.release(session=live, actor=ada)
    revoke()
    services.run_release(session_id=live.pk)
    cut = live.phases.get(key="cut")
    assert cut.status == "waiting"
    assert cut.next_try_at is not None
    assert "The cluster lab-1 refuses Faultline's credentials (401)" in cut.error
    assert "replaces its kubeconfig under Clusters" in draw(fresh(live), "phases")

    fault_services.save_cluster(cluster=Cluster.objects.get(), name="lab-1", tier="dedicated", kubeconfig=issue())
    services.release(session=live, actor=ada)  # "Try again now"
    until_released(live)
    assert (live.residue, live.release_outcome) == ([], "reverted")


def until_released(session):
    for _ in range(100):
        services.run_release(session_id=session.pk)
        session.refresh_from_db()
        if session.released_at is not None:
            return
        session.phases.update(next_try_at=None)
    raise AssertionError(list(session.phases.values("key", "status", "error")))


def test_while_a_session_has_the_cluster_only_its_own_server_is_taken(live, lab, issue, revoke, root, client):
    other = render(
        server="https://127.0.0.1:9", ca_pem="-----BEGIN CERTIFICATE-----", token="t", namespace="", user="u"
    )
    for change in ({"kubeconfig": other}, {"tier": "shared", "kubeconfig": ""}):
        with pytest.raises(FaultError, match="A session has this cluster now"):
            fault_services.save_cluster(cluster=lab, **{"name": "lab-1", "tier": "dedicated", **change})
    client.force_login(root)
    url = reverse("admin:faults_cluster_change", args=[lab.pk])
    typed = {"name": "lab-1", "tier": "dedicated", "prometheus_url": ""}
    refused = client.post(url, {**typed, "kubeconfig": other}).content.decode()
    assert "only another kubeconfig for https://" in refused
    revoke()
    page = client.post(url, {**typed, "kubeconfig": issue()}, follow=True).content.decode()
    assert "The kubeconfig was replaced." in page
    assert "Sessions can use this cluster." in page


def test_a_cluster_that_refuses_us_is_refused_to_new_sessions(lab, ada, scenario_version):
    Cluster.objects.update(refused_at=clock.now() - REFUSED_AFTER)
    lab.refresh_from_db()
    with pytest.raises(SessionError, match="replaces its kubeconfig under Clusters") as caught:
        services.create_session(owner=ada, candidate_name="Sam", scenario_versions=[scenario_version], cluster=lab)
    assert caught.value.field == "cluster"


def test_a_practice_clusters_401_is_its_host_that_starts(db):
    cluster = Cluster.objects.create(name="p-1", tier="practice")
    fault_services.note_credentials(cluster=cluster, accepted=False)
    cluster.refresh_from_db()
    assert cluster.refused_at is None


def fresh(session):
    """Return the session as the observer reads it."""
    return InterviewSession.objects.select_related("owner", "cluster", "environment").get(pk=session.pk)
