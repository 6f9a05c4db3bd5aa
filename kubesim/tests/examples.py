"""One object of each kind of storage, networking, admission and the rarer workloads, as people write them."""

from __future__ import annotations

import base64

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kubesim.errors import Obj

SELECTOR = {"matchLabels": {"app": "web"}}
POD: Obj = {"containers": [{"name": "main", "image": "nginx:1.27", "resources": {"requests": {"cpu": "100m"}}}]}
TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": POD}
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
SCOPED = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"]}
WEBHOOK = {
    "name": "check.example.com",
    "clientConfig": {"service": {"name": "hook", "namespace": "default"}},
    "rules": [SCOPED],
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
}


def certificate_request(name: str = "system:node:node-1", organisation: str = "system:nodes") -> str:
    """Return a PEM certificate request in base64, as a CSR object carries it."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, organisation),
            x509.NameAttribute(NameOID.COMMON_NAME, name),
        ]
    )
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    return base64.b64encode(request.public_bytes(serialization.Encoding.PEM)).decode()


OBJECTS: dict[str, Obj] = {
    "componentstatuses": {"conditions": [{"type": "Healthy", "status": "True", "message": "ok"}]},
    "deviceclasses.resource.k8s.io": {"spec": {}},
    "resourceclaims.resource.k8s.io": {"spec": {}},
    "resourceclaimtemplates.resource.k8s.io": {"spec": {"spec": {}}},
    "resourceslices.resource.k8s.io": {
        "spec": {
            "driver": "gpu.example.com",
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
            "nodeName": "n",
        }
    },
    "apiservices.apiregistration.k8s.io": {
        "spec": {"group": "example.com", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 15}
    },
    "customresourcedefinitions.apiextensions.k8s.io": {
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
            ],
        }
    },
    "statefulsets.apps": {
        "spec": {
            "serviceName": "web",
            "selector": SELECTOR,
            "template": TEMPLATE,
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": CLAIM}],
        }
    },
    "daemonsets.apps": {"spec": {"selector": SELECTOR, "template": TEMPLATE}},
    "controllerrevisions.apps": {"revision": 1, "data": {"spec": {"a": 1}}},
    "cronjobs.batch": {
        "spec": {
            "schedule": "*/5 * * * *",
            "jobTemplate": {"spec": {"template": {"spec": {**POD, "restartPolicy": "Never"}}}},
        }
    },
    "replicationcontrollers": {"spec": {"selector": {"app": "web"}, "template": TEMPLATE}},
    "podtemplates": {"template": TEMPLATE},
    "horizontalpodautoscalers.autoscaling": {
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "maxReplicas": 5,
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 60}},
        }
    },
    "persistentvolumes": {
        "spec": {
            "capacity": {"storage": "5Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/data"},
            "storageClassName": "manual",
        }
    },
    "persistentvolumeclaims": {"spec": {**CLAIM, "storageClassName": "manual"}},
    "storageclasses.storage.k8s.io": {"provisioner": "pd.csi.storage.gke.io"},
    "volumeattachments.storage.k8s.io": {
        "spec": {"attacher": "pd.csi.storage.gke.io", "nodeName": "n", "source": {"persistentVolumeName": "pv"}}
    },
    "csidrivers.storage.k8s.io": {"spec": {}},
    "csinodes.storage.k8s.io": {"spec": {"drivers": [{"name": "d.example.com", "nodeID": "1"}]}},
    "volumeattributesclasses.storage.k8s.io": {"driverName": "d.example.com", "parameters": {"iops": "3000"}},
    "csistoragecapacities.storage.k8s.io": {"storageClassName": "standard", "capacity": "10Gi"},
    "ingresses.networking.k8s.io": {
        "spec": {
            "ingressClassName": "nginx",
            "rules": [
                {
                    "host": "web.example.com",
                    "http": {
                        "paths": [
                            {
                                "path": "/",
                                "pathType": "Prefix",
                                "backend": {"service": {"name": "web", "port": {"number": 80}}},
                            }
                        ]
                    },
                }
            ],
        }
    },
    "ingressclasses.networking.k8s.io": {"spec": {"controller": "k8s.io/ingress-nginx"}},
    "networkpolicies.networking.k8s.io": {
        "spec": {"podSelector": SELECTOR, "ingress": [{"ports": [{"port": 80}]}], "egress": [{}]}
    },
    "ipaddresses.networking.k8s.io": {
        "spec": {"parentRef": {"resource": "services", "name": "web", "namespace": "ml"}}
    },
    "servicecidrs.networking.k8s.io": {"spec": {"cidrs": ["10.97.0.0/24"]}},
    "runtimeclasses.node.k8s.io": {"handler": "nvidia", "overhead": {"podFixed": {"cpu": "250m"}}},
    "certificatesigningrequests.certificates.k8s.io": {
        "spec": {
            "request": certificate_request(),
            "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
            "usages": ["digital signature", "client auth"],
        }
    },
    "validatingwebhookconfigurations.admissionregistration.k8s.io": {"webhooks": [WEBHOOK]},
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": {"webhooks": [WEBHOOK]},
    "validatingadmissionpolicies.admissionregistration.k8s.io": {
        "spec": {
            "matchConstraints": {"resourceRules": [SCOPED]},
            "validations": [{"expression": "object.spec.replicas <= 5"}],
        }
    },
    "validatingadmissionpolicybindings.admissionregistration.k8s.io": {
        "spec": {"policyName": "limits", "validationActions": ["Deny"]}
    },
    "flowschemas.flowcontrol.apiserver.k8s.io": {
        "spec": {
            "priorityLevelConfiguration": {"name": "workload-low"},
            "rules": [
                {
                    "subjects": [{"kind": "Group", "group": {"name": "system:authenticated"}}],
                    "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz"]}],
                }
            ],
        }
    },
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io": {
        "spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Queue", "queuing": {}}}}
    },
}
"""By resource; metadata is left to the test."""

NAMES = {
    "apiservices.apiregistration.k8s.io": "v1.example.com",
    "customresourcedefinitions.apiextensions.k8s.io": "widgets.example.com",
    "ipaddresses.networking.k8s.io": "10.96.7.7",
    "csidrivers.storage.k8s.io": "d.example.com",
}
"""Names that follow a rule of their kind; any other kind takes any."""
