"""The cloud API of a practice cluster: what is changed there has effects, is kept, and is nobody's who may not."""

import pytest

from kubesim.auth.users import Attributes, User
from kubesim.changelog import ChangeLog, Saver
from kubesim.clock import ManualClock, RealClock
from kubesim.cluster import Cluster, ClusterSpec
from kubesim.gpu.nodes import network_tags
from kubesim.pki import CertificateAuthority

FIREWALLS = "/compute/v1/projects/ml-prod/global/firewalls"
NETWORK = "projects/ml-prod/global/networks/ml-prod"
SUBNETWORKS = "/compute/v1/projects/ml-prod/regions/us-central1/subnetworks"
CLUSTER = "/container/v1/projects/ml-prod/locations/us-central1-a/clusters/ml-prod"
POOL = f"{CLUSTER}/nodePools/h100-pool"
ACCOUNTS = "/iam/v1/projects/ml-prod/serviceAccounts"
PROJECT = "/cloudresourcemanager/v1/projects/ml-prod"
DENY = {
    "name": "deny",
    "network": NETWORK,
    "direction": "EGRESS",
    "denied": [{"IPProtocol": "tcp", "ports": ["443"]}],
}
LAUNCHER = "job-launcher@ml-prod.iam.gserviceaccount.com"
REGISTRY = "44.208.254.194"


@pytest.fixture
def ask(live):
    """Send a request and return the HTTP status and the message; as the administrator, or with a token."""

    async def send(method, path, body=None, token=None, data=None):
        async with live.client(token) as client:
            sent = {"data": data} if data is not None else {"json": body}
            async with client.request(method, path, **sent) as answer:
                return answer.status, await answer.json()

    return send


@pytest.fixture
async def account(live):
    """A service account of the cluster: its member in a policy, and its token."""
    async with live.client() as client:
        path = "/api/v1/namespaces/default/serviceaccounts"
        await client.post(path, json={"metadata": {"name": "terraform"}})
        async with client.post(f"{path}/terraform/token", json={"spec": {}}) as answer:
            return "serviceAccount:ml-prod.svc.id.goog[default/terraform]", (await answer.json())["status"]["token"]


async def grant(ask, role, *members):
    """Let a role have exactly these members."""
    _, policy = await ask("POST", f"{PROJECT}:getIamPolicy", {})
    policy["bindings"] = [entry for entry in policy["bindings"] if entry["role"] != role]
    policy["bindings"].append({"role": role, "members": list(members)})
    return await ask("POST", f"{PROJECT}:setIamPolicy", {"policy": policy})


def gets_out(cluster):
    """Tell whether nodes get at a registry."""
    (node,) = cluster.nodes.listed()
    return cluster.nodes.fabric.firewall.passes(network_tags(node), REGISTRY, 443)


async def test_a_rule_that_denies_egress_closes_the_way_of_the_pool_that_it_names(live, ask):
    assert live.ask(gets_out)
    status, operation = await ask("POST", FIREWALLS, {**DENY, "targetTags": ["h100-pool"]})
    assert (status, operation["status"], operation["operationType"]) == (200, "DONE", "insert")
    assert not live.ask(gets_out)
    await ask("PATCH", f"{FIREWALLS}/deny", {"targetTags": ["tenant-c"]})
    assert live.ask(gets_out)
    await ask("PATCH", f"{FIREWALLS}/deny", {"targetTags": []})
    assert not live.ask(gets_out)
    await ask("PATCH", f"{FIREWALLS}/deny", {"disabled": True})
    assert live.ask(gets_out)
    _, found = await ask("GET", f"{FIREWALLS}/deny")
    assert (found["priority"], found["destinationRanges"], found["disabled"]) == (1000, ["0.0.0.0/0"], True)
    assert (await ask("DELETE", f"{FIREWALLS}/deny"))[0] == 200
    assert (await ask("GET", f"{FIREWALLS}/deny"))[0] == 404
    path = operation["selfLink"].replace("https://www.googleapis.com", "")
    assert (await ask("GET", path))[1] == operation


async def test_a_network_has_subnetworks_and_stays_as_long_as_it_is_used(ask):
    networks = FIREWALLS.replace("firewalls", "networks")
    assert (await ask("POST", networks, {"name": "lab", "autoCreateSubnetworks": False}))[0] == 200
    lab = {"name": "lab", "network": "projects/ml-prod/global/networks/lab", "ipCidrRange": "10.9.0.0/24"}
    assert (await ask("POST", SUBNETWORKS, {**lab, "ipCidrRange": "10.128.8.0/24"}))[0] == 400
    assert (await ask("POST", SUBNETWORKS, lab))[0] == 200
    status, refused = await ask("DELETE", f"{networks}/lab")
    assert (status, refused["error"]["errors"][0]["reason"]) == (400, "resourceInUseByAnotherResource")
    assert (await ask("POST", f"{SUBNETWORKS}/lab/setPrivateIpGoogleAccess", {"privateIpGoogleAccess": True}))[
        0
    ] == 200
    assert (await ask("GET", f"{SUBNETWORKS}/lab"))[1]["privateIpGoogleAccess"] is True
    for path in (f"{SUBNETWORKS}/lab", f"{networks}/lab"):
        assert (await ask("DELETE", path))[0] == 200
    assert (await ask("DELETE", f"{networks}/ml-prod"))[0] == 400


async def test_a_node_pool_is_read_and_resized_with_machines_that_come_and_go(live, ask):
    _, pool = await ask("GET", POOL)
    assert pool["config"]["machineType"] == "a3-highgpu-8g"
    assert pool["config"]["accelerators"][0]["acceleratorType"] == "nvidia-h100-80gb"
    assert (await ask("POST", f"{POOL}:setSize", {"nodeCount": 2}))[1]["status"] == "DONE"
    assert len(live.ask(lambda cluster: [*cluster.nodes.listed()])) == 2
    groups = "/compute/v1/projects/ml-prod/zones/us-central1-a/instanceGroupManagers"
    assert [group["targetSize"] for group in (await ask("GET", groups))[1]["items"]] == [2]
    assert (await ask("POST", f"{POOL}:setSize", {"nodeCount": 1}))[0] == 200
    _, cluster = await ask("GET", CLUSTER)
    assert (cluster["currentNodeCount"], cluster["nodePools"][0]["initialNodeCount"]) == (1, 1)


async def test_a_member_of_a_role_may_what_the_role_allows_and_nobody_else(ask, account):
    member, token = account
    status, refused = await ask("GET", FIREWALLS, token=token)
    assert (status, refused["error"]["status"]) == (403, "PERMISSION_DENIED")
    assert refused["error"]["message"] == "Required 'compute.firewalls.list' permission for 'projects/ml-prod'"
    assert (await grant(ask, "roles/compute.securityAdmin", member))[0] == 200
    assert (await ask("GET", FIREWALLS, token=token))[0] == 200
    assert (await ask("POST", f"{PROJECT}:getIamPolicy", {}, token))[0] == 403
    assert (await grant(ask, "roles/compute.securityAdmin"))[0] == 200
    assert (await ask("GET", FIREWALLS, token=token))[0] == 403
    assert (await ask("GET", FIREWALLS, token="wrong"))[0] == 401
    assert (await ask("GET", FIREWALLS, token=""))[0] == 401


async def test_a_project_role_counts_in_the_cluster_as_well(live, ask):
    wanted = {"user": LAUNCHER, "resourceAttributes": {"verb": "create", "group": "batch", "resource": "jobs"}}

    def allowed(cluster):
        attributes = Attributes("create", group="batch", version="v1", resource="jobs", namespace="default")
        authorizer = cluster.operations.allows
        return authorizer(User(LAUNCHER), attributes)

    assert live.ask(allowed)
    assert (await grant(ask, "roles/container.developer"))[0] == 200
    assert not live.ask(allowed)
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": wanted}
    _, answer = await ask("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    assert answer["status"]["reason"] == 'requires one of ["container.jobs.create"] permission(s).'
    assert (await grant(ask, "roles/container.developer", f"serviceAccount:{LAUNCHER}"))[0] == 200
    assert live.ask(allowed)


async def test_a_role_of_the_project_gives_accounts_of_the_cluster_nothing_in_it(live, ask, account):
    member, token = account
    assert (await grant(ask, "roles/container.admin", member))[0] == 200
    assert (await ask("GET", CLUSTER, token=token))[0] == 200
    status, refused = await ask("GET", "/api/v1/namespaces/kube-system/secrets", token=token)
    assert (status, refused["reason"]) == (403, "Forbidden")


async def test_two_changes_of_a_policy_at_once_are_not_both_taken(ask):
    _, policy = await ask("POST", f"{PROJECT}:getIamPolicy", {})
    assert (await grant(ask, "roles/browser", "user:ada@example.com"))[0] == 200
    status, refused = await ask("POST", f"{PROJECT}:setIamPolicy", {"policy": policy})
    assert (status, refused["error"]["status"]) == (409, "ABORTED")
    assert (await grant(ask, "roles/browser"))[0] == 200


async def test_a_service_account_is_made_changed_and_deleted(ask):
    made = {"accountId": "data-loader", "serviceAccount": {"displayName": "Loads"}}
    _, account = await ask("POST", ACCOUNTS, made)
    assert account["email"] == "data-loader@ml-prod.iam.gserviceaccount.com"
    assert (await ask("POST", ACCOUNTS, made))[0] == 409
    path = f"/iam/v1/{account['name']}"
    change = {"serviceAccount": {"displayName": "Loads data"}, "updateMask": "display_name"}
    assert (await ask("PATCH", path, change))[1]["displayName"] == "Loads data"
    assert (await ask("GET", path))[1]["displayName"] == "Loads data"
    member = f"serviceAccount:{account['email']}"
    assert (await grant(ask, "roles/viewer", member))[0] == 200
    assert (await grant(ask, "roles/viewer"))[0] == 200
    assert (await ask("DELETE", path))[0] == 200
    assert (await grant(ask, "roles/viewer", member))[0] == 400


DEEP: object = "x"
for _ in range(40):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "words"),
    [
        ("POST", FIREWALLS, {**DENY, "name": "Deny"}, 400, "Must be a match of regex"),
        ("POST", FIREWALLS, {**DENY, "name": ["deny"]}, 400, "Invalid value at 'name'"),
        ("POST", FIREWALLS, {**DENY, "colour": 1}, 400, 'Unknown name "colour"'),
        ("POST", FIREWALLS, {**DENY, "priority": 70000}, 400, "between 0 and 65535"),
        ("POST", FIREWALLS, {**DENY, "priority": True}, 400, "Invalid value at 'priority'"),
        ("POST", FIREWALLS, {**DENY, "priority": "²"}, 400, "between 0 and 65535"),
        ("POST", FIREWALLS, {**DENY, "direction": "UP"}, 400, "Must be INGRESS or EGRESS"),
        ("POST", FIREWALLS, {**DENY, "destinationRanges": ["10.0.0.0/40"]}, 400, "valid CIDR"),
        ("POST", FIREWALLS, {**DENY, "destinationRanges": [7]}, 400, "Invalid value at 'destinationRanges'"),
        ("POST", FIREWALLS, {**DENY, "denied": ["tcp"]}, 400, "Must be one of"),
        ("POST", FIREWALLS, {**DENY, "denied": [{"IPProtocol": "tcp", "ports": ["9-1"]}]}, 400, "Must be a port"),
        ("POST", FIREWALLS, {**DENY, "denied": [{"IPProtocol": "tcp", "ports": 443}]}, 400, "Ports cannot"),
        ("POST", FIREWALLS, {**DENY, "allowed": [{"IPProtocol": "tcp"}]}, 400, "Exactly one of"),
        ("POST", FIREWALLS, {**DENY, "targetTags": ["x"] * 71}, 400, "at most 70 tags"),
        ("POST", FIREWALLS, {**DENY, "targetTags": ["x"] * 500}, 400, "at most 256 entries"),
        ("POST", FIREWALLS, {**DENY, "description": "x" * 3000}, 400, "at most 2048 characters"),
        ("POST", FIREWALLS, {**DENY, "params": {"deep": DEEP}}, 400, "nested too deeply"),
        ("POST", FIREWALLS, {**DENY, "network": "global/networks/none"}, 404, "was not found"),
        ("GET", f"{FIREWALLS}/none", None, 404, "'projects/ml-prod/global/firewalls/none' was"),
        ("GET", FIREWALLS.replace("ml-prod", "other"), None, 404, "The resource 'projects/other' was not found"),
        ("GET", FIREWALLS.replace("firewalls", "routers"), None, 501, "is not supported on practice clusters"),
        ("GET", FIREWALLS.replace("firewalls", "seed"), None, 501, "is not supported on practice clusters"),
        ("GET", f"{FIREWALLS}/a/b/c/d", None, 501, "is not supported on practice clusters"),
        ("PUT", f"{CLUSTER}", {}, 501, "is not supported on practice clusters"),
        ("POST", f"{CLUSTER}/nodePools", {"nodePool": {}}, 501, "is not supported on practice clusters"),
        ("GET", f"{CLUSTER}/nodePools/none", None, 404, "Not found"),
        ("POST", f"{POOL}:setSize", {"nodeCount": 1000}, 400, "between 0 and 16"),
        ("POST", f"{POOL}:setSize", {"nodeCount": "2"}, 400, "between 0 and 16"),
        ("POST", ACCOUNTS, {"accountId": "x"}, 400, "6 to 30"),
        ("GET", f"{ACCOUNTS}/none", None, 404, "Unknown service account"),
        ("POST", f"{PROJECT}:setIamPolicy", {"policy": {"bindings": ["x"]}}, 400, "role and members"),
        ("POST", f"{PROJECT}:setIamPolicy", {"policy": 1}, 400, "Invalid value at 'policy'"),
        ("GET", "/compute/v1/", None, 404, "was not found"),
    ],
)  # fmt: skip
async def test_what_cannot_be_is_refused_in_the_words_of_the_api(ask, method, path, body, status, words):
    found, answer = await ask(method, path, body)
    assert (found, answer["error"]["code"]) == (status, status)
    assert words in answer["error"]["message"]


@pytest.mark.parametrize(
    "member", ["ada", "robot:x@example.com", "user:ada", "serviceAccount:a@ml-prod.iam.gserviceaccount.com"]
)
async def test_members_that_cannot_be_are_refused(ask, member):
    assert (await grant(ask, "roles/viewer", member))[0] == 400


async def test_a_body_that_is_too_long_or_no_message_is_refused(ask):
    assert (await ask("POST", FIREWALLS, data=b"x" * 300_000))[0] == 413
    for text in (b"{", b"[1]", b"\xff\xfe", b'"x"'):
        assert (await ask("POST", FIREWALLS, data=text))[0] == 400


async def test_there_are_never_more_resources_than_the_quota(live, ask):
    folder = FIREWALLS.removeprefix("/compute/v1/")
    names = [f"rule-{number}" for number in range(100)]

    def fill(cluster):
        for name in names:
            cluster._cloud.state.put(f"{folder}/{name}", {**DENY, "name": name, "disabled": True})

    live.ask(fill)
    status, refused = await ask("POST", FIREWALLS, DENY)
    assert (status, refused["error"]["errors"][0]["reason"]) == (403, "quotaExceeded")
    live.ask(lambda cluster: [cluster._cloud.state.drop(f"{folder}/{name}") for name in names])


async def test_everything_is_as_it_was_after_a_restart(tmp_path):
    clock = ManualClock()
    authority = CertificateAuthority.at(tmp_path, RealClock().now())
    cluster = await Cluster.create(ClusterSpec("a", clock.now(), nodes=1), clock, "https://a", authority, keep=True)
    saver = Saver(ChangeLog(tmp_path / "cluster"), cluster.changes, clock)
    state = cluster._cloud.state
    state.put("projects/ml-prod/global/firewalls/deny", {**DENY, "name": "deny", "priority": 1000, "disabled": False})
    state.drop("projects/ml-prod/serviceAccounts/job-launcher@ml-prod.iam.gserviceaccount.com")
    await saver.save()
    await cluster.stop()
    await saver.stop()
    saved = ChangeLog(tmp_path / "cluster").load()
    again = await Cluster.restore(saved, clock, "https://a", authority)
    assert not gets_out(again)
    emails = [account["email"] for account in again._cloud.state.below("projects/ml-prod/serviceAccounts")]
    assert emails == ["gke-nodes@ml-prod.iam.gserviceaccount.com"]
    await again.stop()
