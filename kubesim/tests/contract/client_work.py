"""What a program does with the official Python client, of whatever version the interpreter that runs this has.

``python client_work.py KUBECONFIG NAMESPACE``: it makes, changes, watches and deletes, and says in the end "done".
"""

import sys

from kubernetes import client, config, dynamic, watch

LABELS = {"app": "web"}
CONTAINER = {"name": "main", "image": "nginx:1.27", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}
SPEC = {
    "replicas": 1,
    "selector": {"matchLabels": LABELS},
    "template": {"metadata": {"labels": LABELS}, "spec": {"containers": [CONTAINER]}},
}


def refusal(call, *arguments):
    """Return the status that a call is refused with, or None."""
    try:
        call(*arguments)
    except client.ApiException as error:
        return error.status
    return None


def typed(api, namespace):
    """Use the generated classes: deployments, pods, config maps, the scale, errors, and a watch to the end."""
    core, apps = client.CoreV1Api(api), client.AppsV1Api(api)
    made = core.create_namespaced_config_map(
        namespace, client.V1ConfigMap(metadata=client.V1ObjectMeta(name="settings"), data={"k": "v"})
    )
    made.data["k"] = "w"
    assert core.replace_namespaced_config_map("settings", namespace, made).data == {"k": "w"}
    assert refusal(core.replace_namespaced_config_map, "settings", namespace, made) == 409
    apps.create_namespaced_deployment(namespace, {"metadata": {"name": "web"}, "spec": SPEC})
    stream = watch.Watch().stream(apps.list_namespaced_deployment, namespace, timeout_seconds=30)
    for event in stream:
        if event["object"].status.available_replicas == 1:
            break
    else:
        raise AssertionError("the deployment did not become available")
    apps.patch_namespaced_deployment_scale("web", namespace, {"spec": {"replicas": 0}})
    assert (apps.read_namespaced_deployment("web", namespace).spec.replicas or 0) == 0
    assert core.list_namespaced_pod(namespace, label_selector="app=web", limit=1) is not None
    core.delete_collection_namespaced_config_map(namespace, field_selector="metadata.name=settings")


def generic(api, namespace):
    """Use the DynamicClient: discovery, server-side apply, a patch, a list, and a deletion."""
    maps = dynamic.DynamicClient(api).resources.get(api_version="v1", kind="ConfigMap")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "generic"}, "data": {"k": "v"}}
    assert maps.server_side_apply(body=body, namespace=namespace, field_manager="me").data.k == "v"
    change = {"metadata": {"labels": LABELS}}
    maps.patch(body=change, name="generic", namespace=namespace, content_type="application/merge-patch+json")
    found = maps.get(namespace=namespace, label_selector="app=web").items
    assert [item.metadata.name for item in found] == ["generic"]
    maps.delete(name="generic", namespace=namespace)


def main(kubeconfig, namespace):
    """Do all of it."""
    api = config.new_client_from_config(kubeconfig)
    typed(api, namespace)
    generic(api, namespace)
    api.close()
    print("done")


if __name__ == "__main__":
    main(*sys.argv[1:])
