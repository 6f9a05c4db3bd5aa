"""What the comparison of transcripts with a real control plane has found and what must stay mended."""

import json

import pytest

SPACE = "/api/v1/namespaces/default"
TEMPLATE = {
    "metadata": {"labels": {"app": "db"}},
    "spec": {"containers": [{"name": "db", "image": "db", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}]},
}
CLAIM = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
SPEC = {"serviceName": "db", "selector": {"matchLabels": {"app": "db"}}, "template": TEMPLATE}
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


async def post(live, path, body):
    async with live.client() as client, client.post(path, json=body) as response:
        return response.status, await response.json()


async def cells(live, path):
    """Return the names of a table's narrow columns, and its first row."""
    async with live.client(Accept=TABLE) as client, client.get(path) as response:
        table = await response.json()
    return [column["name"] for column in table["columnDefinitions"] if not column["priority"]], table["rows"][0][
        "cells"
    ]


async def test_a_stateful_set_mounts_the_volumes_of_its_claims(live):
    path = "/apis/apps/v1/namespaces/default/statefulsets"
    spec = {**SPEC, "volumeClaimTemplates": [CLAIM]}
    code, made = await post(live, path, {"metadata": {"name": "db"}, "spec": spec})
    assert code == 201
    assert "volumes" not in made["spec"]["template"]["spec"]
    code, refused = await post(live, path, {"metadata": {"name": "other"}, "spec": SPEC})
    assert code == 422
    assert 'volumeMounts[0].name: Not found: "data"' in refused["message"]


async def test_endpoints_that_somebody_made_for_no_service_stay(live):
    subsets = [{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 80}]}]
    code, _ = await post(live, f"{SPACE}/endpoints", {"metadata": {"name": "outside"}, "subsets": subsets})
    assert code == 201
    for name in ("one", "two"):  # the controller has seen the first by the time the second is made
        spec = {"selector": {"a": name}, "ports": [{"port": 80}]}
        assert (await post(live, f"{SPACE}/services", {"metadata": {"name": name}, "spec": spec}))[0] == 201
    query = {"watch": "true", "fieldSelector": "metadata.name=two", "timeoutSeconds": "20"}
    async with live.client() as client:
        async with client.get(f"{SPACE}/endpoints", params=query) as response:
            assert b'"two"' in await response.content.readline()
        async with client.get(f"{SPACE}/endpoints/outside") as response:
            assert response.status == 200


async def test_a_claim_for_devices_asks_for_one_and_is_pending(live):
    path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}
    code, made = await post(live, path, {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request]}}})
    assert code == 201
    exactly = made["spec"]["devices"]["requests"][0]["exactly"]
    assert (exactly["allocationMode"], exactly["count"]) == ("ExactCount", 1)
    names, row = await cells(live, path)
    assert names == ["Name", "State", "Age"]
    assert row[:2] == ["c", "pending"]


async def test_a_port_of_the_nodes_lies_in_their_range(live):
    spec = {"type": "NodePort", "ports": [{"port": 80, "nodePort": 1}]}
    code, refused = await post(live, f"{SPACE}/services", {"metadata": {"name": "low"}, "spec": spec})
    assert code == 422
    assert refused["message"] == (
        'Service "low" is invalid: spec.ports[0].nodePort: Invalid value: 1: '
        "provided port is not in the valid range. The range of valid ports is 30000-32767"
    )


async def first_conditions(live, path):
    async with live.client() as client, client.get(path) as stream:
        async for line in stream.content:
            if conditions := json.loads(line)["object"].get("status", {}).get("conditions"):
                return conditions


async def test_a_group_without_a_server_is_not_available(live):
    service = {"namespace": "default", "name": "nosuch"}
    spec = {"group": "example.org", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10,
            "insecureSkipTLSVerify": True, "service": service}  # fmt: skip
    path = "/apis/apiregistration.k8s.io/v1/apiservices"
    code, made = await post(live, path, {"metadata": {"name": "v1.example.org"}, "spec": spec})
    assert code == 201
    assert made["spec"]["service"]["port"] == 443
    condition = (await first_conditions(live, f"{path}?watch=1&fieldSelector=metadata.name=v1.example.org"))[0]
    assert (condition["reason"], condition["message"]) == (
        "ServiceNotFound", 'service/nosuch in "default" is not present',
    )  # fmt: skip


@pytest.mark.parametrize(
    ("body", "end"),
    [
        (b"", "unexpected end of JSON input (<empty>)"),
        (b"x", "invalid character 'x' looking for beginning of value (78)"),
        (b"x" * 40, f"looking for beginning of value ({'78' * 30} ...)"),
        (b'{"a"', 'unexpected end of JSON input ({"a")'),
        (b'{"kind":1}', 'number into Go struct field .kind of type string ({"kind":1})'),
    ],
)
async def test_a_body_that_is_no_object_is_shown(live, body, end):
    headers = {"Content-Type": "application/json"}
    async with live.client() as client, client.post(f"{SPACE}/configmaps", data=body, headers=headers) as response:
        found = await response.json()
    assert (response.status, found["message"][-len(end) :]) == (400, end)


@pytest.mark.parametrize(
    ("form", "prefix"), [("strategic-merge-patch", ""), ("merge-patch", "error decoding patch: ")]
)
async def test_a_patch_that_is_no_object_is_refused(live, form, prefix):
    path, headers = f"{SPACE}/configmaps/kube-root-ca.crt", {"Content-Type": f"application/{form}+json"}
    async with live.client() as client, client.patch(path, data=b'"x"', headers=headers) as response:
        found = await response.json()
    why = "json: cannot unmarshal string into Go value of type map[string]interface {}"
    assert found["message"] == prefix + why


MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"level": "info"}}
NOTE = "kubectl.kubernetes.io/last-applied-configuration"


async def apply(live, manager, data):
    path, headers = f"{SPACE}/configmaps/settings", {"Content-Type": "application/apply-patch+yaml"}
    body, query = json.dumps({**MAP, "data": data}), {"fieldManager": manager}
    async with live.client() as client, client.patch(path, data=body, headers=headers, params=query) as response:
        return response.status, await response.json()


async def test_kubectl_takes_over_what_its_client_side_apply_has_set(live):
    noted = {**MAP, "metadata": {"name": "settings", "annotations": {NOTE: json.dumps(MAP)}}}
    assert (await post(live, f"{SPACE}/configmaps?fieldManager=kubectl-client-side-apply", noted))[0] == 201
    assert (await apply(live, "other", {"level": "debug"}))[0] == 409
    assert (await apply(live, "kubectl", {"level": "debug"}))[0] == 200
    code, refused = await apply(live, "other", {"level": "trace"})
    assert (code, refused["message"]) == (409, 'Apply failed with 1 conflict: conflict with "kubectl": .data.level')


async def test_nobody_owns_the_replicas_of_what_was_scaled_to_nothing(live):
    path = "/apis/apps/v1/namespaces/default/deployments"
    template = {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "db", "image": "db"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "db"}}, "template": template}
    assert (await post(live, path, {"metadata": {"name": "idle"}, "spec": spec}))[0] == 201
    headers, owners = {"Content-Type": "application/merge-patch+json"}, {}
    async with live.client() as client:
        for replicas in (2, 0):
            body = json.dumps({"spec": {"replicas": replicas}})
            await client.patch(f"{path}/idle/scale?fieldManager=x", data=body, headers=headers)
            async with client.get(f"{path}/idle") as response:
                entries = (await response.json())["metadata"]["managedFields"]
            owners[replicas] = [e["manager"] for e in entries if "f:replicas" in e["fieldsV1"].get("f:spec", {})]
    assert owners == {2: ["x"], 0: []}


async def test_an_emptied_structure_leaves_no_owners_of_what_was_in_it(live):
    path, patch = f"{SPACE}/configmaps", {"Content-Type": "application/merge-patch+json"}
    body = {"metadata": {"name": "filled"}, "data": {"a": "1", "b": "2"}}
    assert (await post(live, f"{path}?fieldManager=x", body))[0] == 201
    async with live.client() as client:
        emptied = json.dumps({"data": {"a": None, "b": None}})
        async with client.patch(f"{path}/filled?fieldManager=y", data=emptied, headers=patch) as response:
            entries = (await response.json())["metadata"].get("managedFields", [])
    assert not [entry for entry in entries if "f:a" in json.dumps(entry)]
    assert not [entry for entry in entries if '{".": {}}' in json.dumps(entry)]


async def test_what_a_fresh_cluster_has_was_set_by_the_server(live):
    path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/cluster-admin"
    async with live.client() as client, client.get(path) as response:
        entries = (await response.json())["metadata"]["managedFields"]
    assert [entry["manager"] for entry in entries] == ["kube-apiserver"]


async def test_a_binding_binds_the_pod_that_it_names(live):
    pod = {
        "metadata": {"name": "free"},
        "spec": {"schedulerName": "nobody", "containers": [{"name": "a", "image": "b"}]},
    }
    assert (await post(live, f"{SPACE}/pods", pod))[0] == 201
    async with live.client() as client, client.get("/api/v1/nodes") as response:
        node = (await response.json())["items"][0]["metadata"]["name"]
    binding = {"metadata": {"name": "free"}, "target": {"kind": "Node", "name": node}}
    assert (await post(live, f"{SPACE}/bindings", binding))[0] == 201
    async with live.client() as client, client.get(f"{SPACE}/pods/free") as response:
        assert (await response.json())["spec"]["nodeName"] == node


async def test_the_parts_of_the_control_plane_are_healthy(live):
    names, row = await cells(live, "/api/v1/componentstatuses")
    assert names == ["Name", "Status", "Message", "Error"]
    assert row == ["controller-manager", "Healthy", "ok", ""]


async def test_an_event_of_long_ago_that_is_written_today_stays(live):
    long_ago = "2020-01-01T00:00:00Z"
    for name in ("one", "two"):  # old events are looked for when another is made
        body = {"metadata": {"name": name}, "involvedObject": {"namespace": "default"}, "lastTimestamp": long_ago}
        live.ask(lambda cluster: cluster.operations._next_sweep.clear())
        assert (await post(live, f"{SPACE}/events", body))[0] == 201
    async with live.client() as client, client.get(f"{SPACE}/events/one") as response:
        assert response.status == 200


async def test_an_event_is_owned_for_what_was_said_of_it_alone(live):
    body = {"metadata": {"name": "said"}, "involvedObject": {"namespace": "default"}, "message": "m"}
    code, made = await post(live, f"{SPACE}/events", body)
    assert code == 201
    fields = made["metadata"]["managedFields"][0]["fieldsV1"]
    assert not {"f:eventTime", "f:reportingComponent", "f:reportingInstance"} & fields.keys()
