"""Objects and kinds that the tests of requests are made of."""

from __future__ import annotations

import pytest

from kubesim.errors import ApiError
from kubesim.schema.kinds import registry

NAMESPACES = registry.by_resource("namespaces")
PODS = registry.by_resource("pods")
NODES = registry.by_resource("nodes")
JOBS = registry.by_resource("jobs.batch")
DEPLOYMENTS = registry.by_resource("deployments.apps")
EVENTS = registry.by_resource("events")
BUDGETS = registry.by_resource("poddisruptionbudgets.policy")
TYPED = {"apiVersion": "apps/v1", "kind": "Deployment"}


def pod(name="a", **container):
    spec = {"containers": [{"name": "main", "image": "nginx:1.27", **container}]}
    return {"metadata": {"name": name, "labels": {"app": "web"}}, "spec": spec}


def template(**spec):
    body = {"containers": [{"name": "main", "image": "train:1"}], **spec}
    return {"metadata": {"labels": {"app": "web"}}, "spec": body}


def deployment(**spec):
    body = {"selector": {"matchLabels": {"app": "web"}}, "template": template(), **spec}
    return {"metadata": {"name": "web"}, "spec": body}


def job(**spec):
    return {"metadata": {"name": "train"}, "spec": {"template": template(restartPolicy="Never"), **spec}}


def refused(call, *args, **kwargs):
    with pytest.raises(ApiError) as caught:
        call(*args, **kwargs)
    return caught.value
