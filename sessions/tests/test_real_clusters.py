"""Whole sessions on clusters that an admin added: a dedicated one, and a shared one with two sessions at once.

The cluster is a ``kubesim serve`` of its own; where ``CONTRACT_KUBECONFIG`` names a real control plane, that one as
well (``make contract-real``), with a simulated GPU node.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from conftest import ROOT, stop, wait_until
from faults import crypto
from faults.errors import ClusterError, Forbidden, NotFound
from faults.kube import mirror
from faults.kube.client import Kube
from faults.kube.config import parse
from faults.models import Cluster, FaultRun
from faults.tests.clusters import CLUSTERS, eventually, flat, refused
from sessions import jobs, services
from sessions.models import InterviewSession
from sessions.services import phases as phase_services
from sessions.tests.test_view_panel import draw

pytestmark = pytest.mark.django_db
REAL = os.environ.get("CONTRACT_KUBECONFIG", "")


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    """The kubeconfig of a cluster of its own, which knows nothing of practice clusters."""
    file = tmp_path_factory.mktemp("serve") / "admin.kubeconfig"
    with running("serve", "--kubeconfig", str(file), "--bind", "127.0.0.1", "--nodes", "2") as process:
        wait_until(lambda: file.exists() and answers(file), process)
        yield flat(file).strip()


@pytest.fixture(scope="module")
def real():
    """The kubeconfig of the real control plane, with a simulated node, which other files' tests would count."""
    file = Path(REAL)
    with running("nodes", "--kubeconfig", str(file), "--nodes", "1", "--untainted") as process:
        kube = Kube(parse(flat(file)))
        wait_until(lambda: all(map(is_ready, kube.list("v1", "Node") or [{}])), process)
        kube.close()
        yield flat(file).strip()
    with running("nodes", "--kubeconfig", str(file), "--remove") as process:
        assert process.wait(timeout=60) == 0


@contextmanager
def running(*arguments):
    """Run a kubesim command as long as the block."""
    quiet = {**os.environ, "PYTHONWARNINGS": "ignore"}
    process = subprocess.Popen(
        [sys.executable, "-m", "kubesim", *arguments], cwd=ROOT, env=quiet, stdout=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        stop(process)


def answers(file):
    kube = Kube(parse(flat(file)))
    try:
        return bool(kube.version())
    except ClusterError:
        return False
    finally:
        kube.close()


def is_ready(node):
    """Return whether pods run there and their logs can be read: nodes of other tests' would get some of the pods."""
    status = node.get("status", {})
    conditions = {row["type"]: row["status"] for row in status.get("conditions", [])}
    has_gpus = "nvidia.com/gpu" in status.get("allocatable", {})
    return conditions.get("Ready") == "True" and has_gpus and bool(status.get("addresses"))


@pytest.fixture(params=[*(["simulated"] if "kubesim" in CLUSTERS else []), *(["real"] if REAL else [])])
def kubeconfig(request):
    return request.getfixturevalue(request.param)


@pytest.fixture(autouse=True)
def _patient(monkeypatch):
    """Let jobs finish in place, on a busy machine too: no observer comes back to what takes longer."""
    monkeypatch.setattr(phase_services, "HOLD_S", 60.0)
    monkeypatch.setattr("faults.kube.client.TIMEOUT", (10.0, 60.0))


@pytest.fixture
def add(client, root, kubeconfig):
    """Add the cluster in the admin and look at its preflight; return it."""

    def add(tier):
        client.force_login(root)
        typed = {"name": "lab-1", "tier": tier, "kubeconfig": kubeconfig, "prometheus_url": ""}
        page = client.post("/admin/faults/cluster/add/", typed, follow=True)
        assert "Sessions can use this cluster." in page.content.decode()
        return Cluster.objects.get(name="lab-1")

    return add


@pytest.fixture
def create(client, ada, scenario_version):
    """Send the form for a session on a cluster; return the session, prepared."""

    def create(cluster):
        client.force_login(ada)
        typed = {
            "candidate_name": "Sam",
            "row": ["part:a", f"s:{scenario_version.scenario.slug}"],
            "cluster": cluster.uuid,
            "prepare": "",
        }
        known = list(InterviewSession.objects.values_list("pk", flat=True))
        response = client.post("/sessions/new/", typed)
        assert response.status_code == 302, response.context["form"].errors
        session = InterviewSession.objects.exclude(pk__in=known).get()
        jobs.prepare_session(session.pk)
        session.refresh_from_db()
        assert session.state == "ready", list(session.phases.values("key", "status", "error"))
        return session

    return create


def release(session, ada):
    """End a session and release it; return it."""
    services.end(session=session, actor=ada)
    jobs.end_session_access(session.pk)
    services.release(session=session, actor=ada)
    jobs.release_session(session.pk)
    session.refresh_from_db()
    assert session.released_at is not None, list(session.phases.values("key", "status", "error"))
    return session


@contextmanager
def candidate(session):
    """The candidate's own client."""
    access = services.candidate_credentials(session=session)
    kube = Kube(parse(access.kubeconfig))
    try:
        yield kube, access.namespace
    finally:
        kube.close()


def leases(cluster):
    return [(lease.holder, lease.given_back_at is None) for lease in cluster.leases.order_by("id")]


def namespaces(kubeconfig):
    """Return those that stay: a control plane takes its time to remove what earlier tests have deleted."""
    kube = Kube(parse(kubeconfig))
    try:
        metas = [found["metadata"] for found in kube.list("v1", "Namespace")]
        return {meta["name"] for meta in metas if "deletionTimestamp" not in meta}
    finally:
        kube.close()


def test_a_session_on_a_dedicated_cluster_gives_it_back_as_it_was(add, create, ada, kubeconfig):
    before, lab = namespaces(kubeconfig), add("dedicated")
    session = create(lab)
    assert leases(lab) == [(session.uuid, True)]
    assert (session.cluster, session.tier) == (lab, "dedicated")

    services.start(session=session, actor=ada)
    services.consume_join_token(services.issue_join_link(session=session, actor=ada).strip("/").rpartition("/")[2])
    claims_nothing_about_kubectl(InterviewSession.objects.get(pk=session.pk))
    with candidate(session) as (kube, home):
        assert kube.list("v1", "Pod", home)
        services.end(session=session, actor=ada)
        jobs.end_session_access(session.pk)
        eventually(lambda: refused(kube, home))
    release(session, ada)

    assert (session.residue, session.release_outcome) == ([], "reverted")
    assert set(FaultRun.objects.values_list("status", flat=True)) == {"reverted"}
    assert namespaces(kubeconfig) == before
    assert leases(lab) == [(session.uuid, False)]
    lab.refresh_from_db()
    assert (crypto.unseal(lab.kubeconfig), lab.released_at) == (kubeconfig, None)


def claims_nothing_about_kubectl(session):
    """A cluster that is not ours keeps no record of a token's first use."""
    assert "On the page." in draw(session, "link")
    assert "kubectl request" not in draw(session, "link")
    assert "No kubectl yet" not in draw(session, "header")


def test_a_dedicated_cluster_has_one_session_and_is_the_next_ones_when_it_is_given_back(
    add, create, ada, client, scenario_version
):
    lab = add("dedicated")
    made = {"owner": ada, "candidate_name": "Kim", "scenario_versions": [scenario_version], "cluster": lab}
    rival = services.prepare(session=services.create_session(**made), actor=ada)  # before anybody has it
    first = create(lab)
    typed = {
        "candidate_name": "Lee",
        "row": ["part:a", f"s:{scenario_version.scenario.slug}"],
        "cluster": lab.uuid,
        "prepare": "",
    }
    response = client.post("/sessions/new/", typed)
    assert response.status_code == 422
    assert "has the cluster lab-1 until" in response.context["form"].errors["cluster"][0]

    jobs.prepare_session(rival.pk)
    phase = rival.phases.get(key="cluster")
    assert (phase.status, "Another session has the cluster lab-1" in phase.error) == ("failed", True)
    assert leases(lab) == [(first.uuid, True)]
    assert release(first, ada).residue == []
    services.retry_preparation(session=rival, actor=ada)
    jobs.prepare_session(rival.pk)
    assert InterviewSession.objects.get(pk=rival.pk).state == "ready"
    assert release(rival, ada).residue == []


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["first ends first", "second ends first"])
def test_two_sessions_share_a_cluster_and_neither_sees_the_other(add, create, ada, kubeconfig, order):
    before, lab = namespaces(kubeconfig), add("shared")
    sessions = [create(lab), create(lab)]
    assert leases(lab) == [(session.uuid, True) for session in sessions]
    homes = [home for session in sessions for home in session.environment.namespaces.values()]
    assert len(set(homes)) == 2
    assert namespaces(kubeconfig) - before == {*homes, mirror.NAMESPACE}
    for session, other in zip(sessions, reversed(homes), strict=True):
        services.start(session=session, actor=ada)
        sees_only_its_own(session, other)
    last = sessions[order[1]]
    assert release(sessions[order[0]], ada).residue == []
    with candidate(last) as (kube, home):
        assert kube.list("v1", "Pod", home), "the other session goes on"
    assert release(last, ada).residue == []
    assert namespaces(kubeconfig) == before
    assert not any(held for _, held in leases(lab))


def sees_only_its_own(session, other):
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine", "namespace": other}}
    with candidate(session) as (kube, home):
        assert kube.list("v1", "Pod", home)
        assert kube.get("v1", "Namespace", home)
        for attempt in (
            lambda: kube.list("v1", "Pod", other),
            lambda: kube.list("v1", "Pod"),
            lambda: kube.list("v1", "Namespace"),
            lambda: kube.get("v1", "Namespace", other),
            lambda: kube.create(config),
            lambda: kube.list("v1", "ConfigMap", mirror.NAMESPACE),
        ):
            with pytest.raises((Forbidden, NotFound)):
                attempt()
