"""Terraform's account in a session's cluster: its token in the toolbox, its rights, and where it may work."""

from __future__ import annotations

import gzip
import json
import shlex
import uuid

import pytest
from django.test import override_settings

from faults import packs, selectors, services
from faults.errors import ClusterError, FaultError
from faults.injectors import terraform_code
from faults.models import Cluster, FaultRun, Outbox
from faults.packs.workspaces import BASE
from faults.tests import workspace_packs
from faults.tests.conftest import deadline
from faults.tests.variants import USUAL_PACKS
from faults.toolbox import NAME, NAMESPACE

pytestmark = pytest.mark.django_db
PACK = packs.parse(workspace_packs.files())
ENFORCE = "pod-security.kubernetes.io/enforce"


def planned(cluster):
    names = {"workloads": "shift"}
    return services.plan_environment_run(cluster=cluster, namespaces=names, deadline=deadline(), packs=[PACK])


@pytest.fixture(scope="module")
def session(practice_host, django_db_setup, django_db_blocker):
    """A session with Terraform for all tests of the module, each of which leaves its rights as they are."""
    with override_settings(**practice_host.settings):
        with django_db_blocker.unblock():
            made = services.ensure_practice_cluster(
                name=f"s-{uuid.uuid4().hex[:10]}", deadline=deadline(), packs=USUAL_PACKS
            )
            run = services.inject_run(run_id=planned(made).pk, holder="test")
        yield run
        with django_db_blocker.unblock():
            services.release_cluster(cluster=made)
            for model in (Outbox, FaultRun, Cluster):
                model.objects.all().delete()


@pytest.fixture
def kube(session, practice):
    return selectors.kube_for(session.cluster)


@pytest.fixture
def plain(session):
    """A session without code, planned and no more."""
    names, until = {"workloads": "shift"}, deadline()
    return services.plan_environment_run(
        cluster=session.cluster, namespaces=names, deadline=until, toolbox_namespace=NAMESPACE
    )


@pytest.fixture
def terraform(session, kube):
    """Run a line in the toolbox with the account of Terraform; return what it wrote."""
    missing = services.missing_toolbox(run=session, hold_s=20)
    assert missing == ""

    def run(line):
        command = ["bash", "-c", f"export KUBECONFIG=$KUBE_CONFIG_PATH; {line}"]
        code, output = kube.run_command(NAMESPACE, NAME, NAME, command)
        return output if code == 0 else f"{code}: {output}"

    return run


def create(kind, name, space="", **fields):
    """Return the line that creates an object."""
    group = {"Namespace": "v1", "ResourceQuota": "v1", "Secret": "v1"}.get(kind, "rbac.authorization.k8s.io/v1")
    meta = {"name": name, **({"namespace": space} if space else {}), "labels": fields.pop("labels", {})}
    obj = {"apiVersion": group, "kind": kind, "metadata": meta, **fields}
    return f"printf %s {shlex.quote(json.dumps(obj))} | kubectl create -f -"


def namespace(name, level="baseline"):
    return create("Namespace", name, labels={ENFORCE: level} if level else {})


def binding(called, /, **subject):
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "all"}
    return create("RoleBinding", called, "tenant-a", roleRef=role, subjects=[subject])


QUOTA = {"spec": {"hard": {"pods": "1"}}}
JOBS = {"rules": [{"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create"]}]}
ALL = {"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}
GROUP = {"kind": "Group", "apiGroup": "rbac.authorization.k8s.io"}


def test_terraform_makes_what_the_packs_name_and_nothing_else(session, kube, terraform):
    assert terraform("kubectl auth whoami -o jsonpath='{.status.userInfo.username}'").endswith("toolbox:terraform")
    assert "created" in terraform(namespace("tenant-a"))
    assert "makes and deletes these namespaces only: tenant-a, tenant-b" in terraform(namespace("other"))
    assert "enforce Pod Security: baseline or restricted" in terraform(namespace("tenant-b", "privileged"))
    assert "enforce Pod Security" in terraform(namespace("tenant-b", ""))
    assert "enforce Pod Security" in terraform(f"kubectl label ns tenant-a --overwrite {ENFORCE}=privileged")
    assert "these namespaces only" in terraform("kubectl delete ns monitoring")
    assert "its own namespaces only" in terraform(create("ResourceQuota", "q", "monitoring", **QUOTA))
    assert "created" in terraform(create("ResourceQuota", "q", "tenant-a", **QUOTA))
    assert "created" in terraform(create("Role", "all", "tenant-a", **ALL))
    assert "created" in terraform(create("ClusterRole", "job-launcher", **JOBS))
    assert "by name only" in terraform(create("ClusterRole", "other", **JOBS))
    assert "by name only" in terraform("kubectl delete clusterrole node-viewer")
    for account in ("platform-oncall", "terraform"):
        line = binding("own", kind="ServiceAccount", name=account, namespace="toolbox")
        assert "may not be given" in terraform(line)
    assert "may not be given" in terraform(binding("own", name="system:serviceaccounts:toolbox", **GROUP))
    assert "created" in terraform(binding("engineers", name="engineers", **GROUP))
    assert "created" in terraform(create("Secret", "tfstate-default-x", "platform"))
    assert "orbidden" in terraform("kubectl get secrets -n kube-system")

    services.revoke_access(run=session)
    assert "orbidden" in terraform("kubectl get ns")
    services.restore_access(run=session)
    assert "tenant-a" in terraform("kubectl get ns")


def cluster_binding(role):
    subject = {"kind": "ServiceAccount", "name": "job-launcher", "namespace": "platform"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    return create("ClusterRoleBinding", "job-launcher", roleRef=reference, subjects=[subject])


def test_terraform_binds_no_role_but_its_own_and_gets_no_token_of_others(terraform, kube):
    """The launcher changes workloads of Terraform's namespaces only, whatever its role."""
    terraform(namespace("tenant-a"))
    terraform("kubectl delete clusterroles,clusterrolebindings job-launcher")
    notes = {"kubernetes.io/service-account.name": "job-launcher"}
    token = {"metadata": {"name": "tfstate-own", "namespace": "platform", "annotations": notes}}
    secret = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token", **token}
    assert "no Secrets but its state" in terraform(f"echo '{json.dumps(secret)}' | kubectl create -f -")
    assert "no Secrets but its state" in terraform(create("Secret", "own", "platform"))
    assert "by name only" in terraform("kubectl create sa own -n platform")
    assert "created" in terraform("kubectl create sa job-launcher -n platform")
    assert "binds its own roles only" in terraform(cluster_binding("cluster-admin"))
    admin = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    assert "binds its own roles only" in terraform(create("RoleBinding", "own", "tenant-a", roleRef=admin))
    assert "may not be given" in terraform(binding("own", kind="ServiceAccount", name="default", namespace="shift"))
    grants = {"rules": [{"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"]}]}
    assert "may not grant roles" in terraform(create("ClusterRole", "job-launcher", **grants))
    own = next(role for role in kube.list("rbac.authorization.k8s.io/v1", "Role", "platform"))
    name = own["metadata"]["name"]
    assert "not Terraform's" in terraform(f"kubectl label role {name} -n platform a=b")

    secrets = {"rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]}
    for rules in (ALL, secrets, {"rules": [{"nonResourceURLs": ["*"], "verbs": ["get"]}]}):
        assert "may reach workloads only" in terraform(create("ClusterRole", "job-launcher", **rules))
    kube.create(
        {"apiVersion": admin["apiGroup"] + "/v1", "kind": "ClusterRole", "metadata": {"name": "job-launcher"}, **ALL}
    )
    assert "created" in terraform(cluster_binding("job-launcher"))
    made, _ = kube.token_request("platform", "job-launcher", seconds=600)

    def launcher(line):
        own = f"sed 's/token: .*/token: {made}/' $KUBECONFIG > /tmp/launcher; export KUBECONFIG=/tmp/launcher"
        return terraform(f"{own}; kubectl {line}")

    assert "created" in launcher("create job one --image=busybox:1.36 -n tenant-a")
    for line in (
        "create sa own -n kube-system",
        "delete clusterrolebinding job-launcher",
        "delete secret tfstate-default-x -n platform",
        "create job one --image=busybox:1.36 -n shift",
        "run own --image=busybox:1.36 -n platform",
        "exec toolbox -n toolbox -- id",
    ):
        assert "tenants' workloads only" in launcher(line), line


def test_a_token_of_an_account_that_terraform_has_bound_ends_with_the_access_and_works_again_after_it(
    session, kube, terraform
):
    terraform(namespace("tenant-a"))
    terraform(create("Role", "all", "tenant-a", **ALL))
    terraform("kubectl create sa own -n tenant-a")
    assert "created" in terraform(binding("tenants", kind="ServiceAccount", name="own", namespace="tenant-a"))
    token, _ = kube.token_request("tenant-a", "own", seconds=600)

    def answer():
        own = f"sed 's/token: .*/token: {token}/' $KUBECONFIG > /tmp/own; export KUBECONFIG=/tmp/own"
        return terraform(f"{own}; kubectl get secrets -n tenant-a 2>&1; rm /tmp/own")

    assert "orbidden" not in answer()
    services.revoke_access(run=session)
    assert "orbidden" in answer()
    assert not services.access_is_open(run=session)
    services.restore_access(run=session)
    assert "orbidden" not in answer()
    assert services.access_is_open(run=session)


def test_a_session_without_a_workspace_has_no_such_account(plain):
    assert "terraform" not in selectors.toolbox_of(plain).dump()
    assert not [change for change in selectors.changes_of(plain) if "terraform" in change.target.name]


def test_a_real_cluster_without_an_image_for_toolboxes_says_so(db):
    lab = Cluster.objects.create(name="lab", tier=Cluster.Tier.DEDICATED)
    with pytest.raises(FaultError, match="set TOOLBOX_IMAGE"):
        planned(lab)


def test_code_is_brought_fetched_and_replaced(session, kube, terraform):
    terraform_code.replace_code(kube, PACK.bind().inject[0].spec["code"])
    there = services.read_code(run=session)
    assert there["tenants/main.tf"] == (BASE / "tenants/main.tf").read_text()
    assert "gpus = 1\n" in there["tenants/terraform.tfvars"]
    terraform("mkdir -p platform/tenants/.terraform && echo kept > platform/tenants/.terraform/x.tf")
    code = {"tenants/main.tf": "# END-OF-FILE\nEND-OF-FILE\n", "tenants/own.tf": "x = 'é$(id)'\n"}
    services.write_code(run=session, files=code)
    assert services.read_code(run=session) == code
    assert terraform("cat platform/tenants/.terraform/x.tf") == "kept\n"
    assert "id" in terraform("cat platform/tenants/own.tf")


def test_code_travels_through_no_place_that_somebody_has_prepared(kube, terraform):
    terraform("rm -f /tmp/*; touch mine; for name in code known code.sh; do ln -sf ~/mine /tmp/.$name; done")
    terraform_code.replace_code(kube, {"tenants/main.tf": "# new\n"})
    assert terraform("cat platform/tenants/main.tf mine; ls -A /tmp; rm -f /tmp/.code* /tmp/.known") == (
        "# new\n.code\n.code.sh\n.known\n"
    )


def test_code_that_does_not_arrive_as_it_was_sent_is_not_run(kube, monkeypatch):
    other = gzip.compress(b"touch ran\n")
    monkeypatch.setattr(terraform_code.gzip, "compress", lambda text, mtime: other)
    with pytest.raises(ClusterError, match="did not arrive as it was sent"):
        terraform_code.execute(kube, "echo well\n")


def test_an_upload_that_fails_changes_nothing_and_none_deletes_what_a_download_leaves_out(session, kube, terraform):
    terraform_code.replace_code(kube, {"tenants/main.tf": "# old\n", "tenants/gone.tf": "# old\n"})
    terraform(
        "mkdir platform/tenants/taken.tf && head -c 200000 /dev/zero | tr '\\0' '#' > platform/tenants/large.tf"
    )
    code = {"tenants/main.tf": "# new\n", "tenants/taken.tf": "# new\n", "own/x.tf": "# new\n"}
    with pytest.raises(ClusterError, match="taken.tf is a folder here"):
        services.write_code(run=session, files=code)
    old = {"tenants/gone.tf": "# old\n", "tenants/main.tf": "# old\n"}
    assert services.read_code(run=session) == old
    terraform("rmdir platform/tenants/taken.tf")
    services.write_code(run=session, files=code)
    assert services.read_code(run=session) == code
    assert terraform("wc -c < platform/tenants/large.tf; rm platform/tenants/large.tf") == "200000\n"
    assert "." not in terraform("ls -A | grep -v -x -e .kube -e .platform -e .bash_history || true")


def test_a_session_without_code_says_so(plain):
    with pytest.raises(FaultError, match="no Terraform code"):
        services.read_code(run=plain)
