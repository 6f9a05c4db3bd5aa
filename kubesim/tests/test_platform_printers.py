"""What kubectl get prints of the newer kinds, as a control plane 1.34.4 printed the same objects."""

from __future__ import annotations

import pytest

from kubesim.api.operations import Operations
from kubesim.clock import ManualClock
from kubesim.schema.columns import columns_of
from kubesim.schema.kinds import registry
from kubesim.store import Store
from kubesim.tests import examples
from kubesim.tests.test_models import OBJECTS

PRINTED = {
    "persistentvolumes": "a 5Gi RWO Retain Pending  manual <unset>  0s Filesystem",
    "persistentvolumeclaims": "a Pending    manual <unset> 0s Filesystem",
    "storageclasses.storage.k8s.io": "a pd.csi.storage.gke.io Delete Immediate False 0s",
    "csidrivers.storage.k8s.io": "d.example.com True False False <unset> False Persistent 0s",
    "csinodes.storage.k8s.io": "a 1 0s",
    "ingresses.networking.k8s.io": "a nginx web.example.com  80 0s",
    "ingressclasses.networking.k8s.io": "a k8s.io/ingress-nginx <none> 0s",
    "networkpolicies.networking.k8s.io": "a app=web 0s",
    "ipaddresses.networking.k8s.io": "10.96.7.7 services/ml/web",
    "servicecidrs.networking.k8s.io": "a 10.97.0.0/24 0s",
    "runtimeclasses.node.k8s.io": "a nvidia 0s",
    "certificatesigningrequests.certificates.k8s.io": (
        "a 0s kubernetes.io/kube-apiserver-client-kubelet  <none> Pending"
    ),
    "controllerrevisions.apps": "a <none> 1 0s",
    "cronjobs.batch": "a */5 * * * * <none> False 0 <none> 0s main nginx:1.27 <none>",
    "podtemplates": "a main nginx:1.27 app=web",
    "replicationcontrollers": "a 1 0 0 0s main nginx:1.27 app=web",
    "statefulsets.apps": "a 0/1 0s main nginx:1.27",
    "daemonsets.apps": "a 0 0 0 0 0 <none> 0s main nginx:1.27 app=web",
    "horizontalpodautoscalers.autoscaling": "a Deployment/web cpu: <unknown>/80% 1 5 0 0s",
    "validatingwebhookconfigurations.admissionregistration.k8s.io": "a 1 0s",
    "validatingadmissionpolicies.admissionregistration.k8s.io": "a 1 <unset> 0s",
    "validatingadmissionpolicybindings.admissionregistration.k8s.io": "a limits <unset> 0s",
    "flowschemas.flowcontrol.apiserver.k8s.io": "a workload-low 1000 <none> 0s ?",
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io": "a Limited 30 64 8 50 0s",
    "volumeattachments.storage.k8s.io": "a pd.csi.storage.gke.io pv n False 0s",
}


@pytest.mark.parametrize("resource", PRINTED)
def test_a_row_has_what_upstream_prints(resource):
    clock = ManualClock()
    ops, kind = Operations(Store(clock), clock), registry.by_resource(resource)
    ops.create(registry.by_resource("namespaces"), "", {"metadata": {"name": "ml"}})
    name = examples.NAMES.get(resource, "a")
    made = ops.create(kind, "ml" if kind.namespaced else "", {**OBJECTS[resource], "metadata": {"name": name}})
    cells = [column.cell(made, clock.now()) for column in columns_of(resource)]
    assert " ".join(str(cell) for cell in cells) == PRINTED[resource]
