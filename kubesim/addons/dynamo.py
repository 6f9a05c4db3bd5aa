"""The Dynamo operator (nvidia.com/v1alpha1) and the frontend of its graphs.

Each service of a DynamoGraphDeployment becomes a Deployment and a Service, with the labels of Dynamo's operator. The
frontend hands requests on to a decode worker that is ready.
"""

from __future__ import annotations

import hashlib

import orjson

from kubesim.addons.operator import Operator, ensure
from kubesim.conditions import condition_of
from kubesim.controllers.base import Context, Controller, is_ending, owner_reference
from kubesim.errors import Obj
from kubesim.kubelet.duties import Post
from kubesim.network.fabric import PHRASES, HttpServer, Request, Response
from kubesim.shell.errors import NetworkError
from kubesim.times import stamp

RESOURCE, KIND = "dynamographdeployments.nvidia.com", "DynamoGraphDeployment"
GRAPH, COMPONENT = "nvidia.com/dynamo-graph-deployment-name", "nvidia.com/dynamo-component"
TYPE, PART = "nvidia.com/dynamo-component-type", "nvidia.com/dynamo-sub-component-type"
HASH, STRATEGY = "nvidia.com/last-applied-hash", "nvidia.com/deployment"
PORT = 8000
JSON = {"Content-Type": "application/json"}
NO_WORKER = b'{"message":"Service Unavailable: no decode worker is ready","type":"Service Unavailable","code":503}'


class GraphController(Controller):
    """Makes the Deployments and Services of graphs, and says whether all of a graph is ready."""

    source = "dynamographdeployment"

    def __init__(self, context: Context, post: Post) -> None:
        super().__init__(context)
        self._graphs = self.informers[RESOURCE]
        self._deployments = self.informers["deployments.apps"]

    def listen(self) -> None:
        """Watch graphs, and their Deployments."""
        self.watch_own(self._graphs)
        self.watch_owned(self._deployments, KIND)

    async def sync(self, namespace: str, name: str) -> None:
        """Bring one graph's Deployments to what it asks for."""
        graph = self._graphs.get(namespace, name)
        if graph is None or is_ending(graph):
            return
        found = self._deployments.by("controller", graph["metadata"]["uid"])
        held = {obj["metadata"]["name"]: obj for obj in found}
        wanted = [deployment_of(graph, service) for service in graph["spec"].get("services") or {}]
        for made in wanted:
            await self._bring(made, held.pop(made["metadata"]["name"], None))
            await ensure(self.client, "services", service_of(made))
        for obj in held.values():
            await self._deployments.delete(obj)
        await self._tell(graph, [obj for obj in found if obj["metadata"]["name"] not in held], len(wanted))

    async def _bring(self, made: Obj, held: Obj | None) -> None:
        """Create a Deployment, or replace its spec where the graph asks for another one than it did."""
        if held is None:
            await ensure(self.client, "deployments.apps", made)
        elif held["metadata"].get("annotations", {}).get(HASH) != made["metadata"]["annotations"][HASH]:
            notes = {**held["metadata"].get("annotations", {}), **made["metadata"]["annotations"]}
            await self._deployments.update(
                {**held, "metadata": {**held["metadata"], "annotations": notes}, "spec": made["spec"]}
            )

    async def _tell(self, graph: Obj, held: list[Obj], count: int) -> None:
        ready = len(held) == count and all(map(_is_available, held))
        reason, state = (
            ("all_resources_are_ready", "successful") if ready else ("some_resources_not_ready", "pending")
        )
        before = condition_of(graph.get("status") or {}, "Ready")
        condition: Obj = {
            "type": "Ready",
            "status": str(ready),
            "reason": reason,
            "message": reason.replace("_", " "),
        }
        same = before.get("status") == condition["status"]
        condition["lastTransitionTime"] = before["lastTransitionTime"] if same else stamp(self.clock.now())
        await self.write_status(self._graphs, graph, {"state": state, "conditions": [condition]}, retries=1)


def deployment_of(graph: Obj, name: str) -> Obj:
    """Return the Deployment of one of a graph's services."""
    service, meta = graph["spec"]["services"][name] or {}, graph["metadata"]
    labels = {GRAPH: meta["name"], COMPONENT: name, TYPE: service.get("componentType", "worker")}
    labels |= {PART: service["subComponentType"]} if service.get("subComponentType") else {}
    extra = {**(service.get("extraPodSpec") or {})}
    main = extra.pop("mainContainer", None) or {}
    env = [*(graph["spec"].get("envs") or ()), *(service.get("envs") or ()), *(main.get("env") or ())]
    container = {"name": "main", "ports": [{"name": "http", "containerPort": PORT}], **main, "env": env}
    pod = {**extra, "containers": [container, *(extra.get("containers") or ())]}
    spec: Obj = {"replicas": service.get("replicas", 1), "selector": {"matchLabels": labels}}
    spec["template"] = {"metadata": {"labels": labels}, "spec": pod}
    update = graph["spec"].get("updateStrategy") or {}
    spec["strategy"] = _strategy(service.get("annotations") or {}) or {"type": "RollingUpdate", **update}
    digest = hashlib.sha256(orjson.dumps(spec, option=orjson.OPT_SORT_KEYS)).hexdigest()
    own: Obj = {"name": f"{meta['name']}-{name.lower()}", "namespace": meta["namespace"], "labels": labels}
    own |= {"annotations": {HASH: digest}, "ownerReferences": [owner_reference(graph)]}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": own, "spec": spec}


def _strategy(notes: dict[str, str]) -> Obj:
    """Return the strategy that a service's annotations ask for; empty where they do not."""
    if notes.get(f"{STRATEGY}-strategy") == "Recreate":
        return {"type": "Recreate"}
    words = {"maxSurge": f"{STRATEGY}-rolling-update-max-surge"}
    words["maxUnavailable"] = f"{STRATEGY}-rolling-update-max-unavailable"
    given = {key: notes[word] for key, word in words.items() if word in notes}
    limits = {key: int(value) if value.isdecimal() else value for key, value in given.items()}
    return {"type": "RollingUpdate", "rollingUpdate": limits} if limits else {}


def service_of(deployment: Obj) -> Obj:
    """Return the Service in front of a Deployment's pods."""
    meta = {key: deployment["metadata"][key] for key in ("name", "namespace", "labels", "ownerReferences")}
    spec = {"selector": meta["labels"], "ports": [{"name": "http", "port": PORT, "targetPort": PORT}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}


class Frontend(HttpServer):
    """A graph's frontend: each request goes to a decode worker that is ready, in their turn."""

    def __init__(self, post: Post) -> None:
        self._post = post
        self._turn = 0

    def stop(self) -> None:
        """Hold nothing."""

    async def respond(self, request: Request) -> Response:
        """Answer a request, and log it."""
        if request.path in ("/health", "/live"):
            return Response(200, b'{"status":"healthy"}', JSON)
        response = await self._hand_on(request)
        phrase = PHRASES.get(response.status, "")
        self._post.say(f'INFO http: "{request.method} {request.target}" {response.status} {phrase}')
        return response

    async def _hand_on(self, request: Request) -> Response:
        workers = await self._workers()
        self._turn += 1
        for at in range(len(workers)):
            url = f"http://{workers[(self._turn + at) % len(workers)]}:{PORT}{request.target}"
            try:
                status, headers, body = await self._post.network.http(
                    request.method, url, request.headers, request.body
                )
            except NetworkError:
                continue
            return Response(status, body, headers)
        return Response(503, NO_WORKER, JSON)

    async def _workers(self) -> list[str]:
        """Return the addresses of the graph's workers that decode and are ready."""
        meta = self._post.pod["metadata"]
        found = []
        for pod in (await self._post.client.list("pods", meta["namespace"])).items:
            labels = pod["metadata"].get("labels") or {}
            mine = labels.get(GRAPH) == meta["labels"].get(GRAPH) and labels.get(TYPE) == "worker"
            ready = condition_of(pod.get("status") or {}, "Ready").get("status") == "True"
            if mine and ready and labels.get(PART) != "prefill" and not is_ending(pod):
                found.append(str(pod["status"]["podIP"]))
        return found


def operator(post: Post) -> Operator:
    """Begin to run graphs."""
    return Operator(post, GraphController)


def frontend(post: Post) -> Frontend:
    """Listen."""
    made = Frontend(post)
    post.listen(PORT, made)
    return made


def _is_available(deployment: Obj) -> bool:
    status, spec = deployment.get("status") or {}, deployment["spec"]
    seen = status.get("observedGeneration") == deployment["metadata"].get("generation")
    return bool(seen and status.get("updatedReplicas", 0) == status.get("readyReplicas", 0) == spec["replicas"])
