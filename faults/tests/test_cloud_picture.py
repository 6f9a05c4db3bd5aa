"""A fingerprint tells of the cloud around a cluster, where the cluster leads to its API."""

from faults.engine import compare, fingerprint
from faults.tests.scripted import ScriptedServer, status

FIREWALLS = "/compute/v1/projects/ml-prod/global/firewalls"
RULE = {"name": "deny", "network": "ml-prod", "direction": "EGRESS", "denied": [{"IPProtocol": "all"}]}


def test_a_rule_that_is_left_over_shows_until_it_is_deleted(kube):
    before = fingerprint(kube, [])
    kube._json("POST", FIREWALLS, body=RULE)
    after = fingerprint(kube, [])
    named = f"cloud //compute.googleapis.com/projects/ml-prod/global/firewalls/{RULE['name']}"
    assert compare(before, after) == [f"{named} is left over"]
    kube._json("PATCH", f"{FIREWALLS}/deny", body={"priority": 7})
    assert compare(after, fingerprint(kube, [])) == [f"{named} has changed"]
    kube._json("DELETE", f"{FIREWALLS}/deny")
    assert compare(before, fingerprint(kube, [])) == []

    older = {key: digest for key, digest in before.items() if not key.startswith("cloud ")}
    assert len(older) < len(before)
    assert compare(older, after) == []


def test_a_cluster_that_leads_to_no_cloud_has_none():
    for code, reason in ((404, "NotFound"), (403, "Forbidden")):
        answer = (code, {}, [status(code, reason, "no such path")])
        with ScriptedServer(lambda *request, answer=answer: answer) as server:
            assert server.kube.cloud_assets("ml-prod") == []
