"""The kinds of storage, networking, nodes, certificates, admission and fair queueing, one entry each."""

from __future__ import annotations

from kubesim.schema.entries import EXTENSIONS, NO_LABEL, STATUS, field, fixed
from kubesim.schema.registry import Kind, Subresource

FIXED = "updates to {} are forbidden."


def _storage(kind: str, plural: str, *short: str, **more: object) -> Kind:
    """A cluster-scoped kind of group storage.k8s.io, whose DELETE answers with the object."""
    return Kind(
        "storage.k8s.io", "v1", kind, plural, False, f"V1{kind}", short_names=short, returns_deleted=True,
        **more,  # type: ignore[arg-type]
    )  # fmt: skip


def _networking(kind: str, plural: str, *short: str, namespaced: bool = True, **more: object) -> Kind:
    return Kind(
        "networking.k8s.io", "v1", kind, plural, namespaced, f"V1{kind}", short_names=short,
        **more,  # type: ignore[arg-type]
    )  # fmt: skip


def _admission(kind: str, plural: str, *subresources: Subresource) -> Kind:
    return Kind(
        "admissionregistration.k8s.io", "v1", kind, plural, False, f"V1{kind}", categories=EXTENSIONS,
        subresources=subresources, generation=True, unconditional_update=False,
    )  # fmt: skip


def _device(kind: str, plural: str, schema: str, *, namespaced: bool = True, **more: object) -> Kind:
    """A kind of dynamic resource allocation."""
    return Kind(
        "resource.k8s.io", "v1", kind, plural, namespaced, schema, returns_deleted=True,
        **more,  # type: ignore[arg-type]
    )  # fmt: skip


def _flow(kind: str, plural: str) -> Kind:
    return Kind(
        "flowcontrol.apiserver.k8s.io",
        "v1",
        kind,
        plural,
        False,
        f"V1{kind}",
        subresources=(STATUS,),
        generation=True,
    )


PLATFORM = (
    Kind("", "v1", "PersistentVolume", "persistentvolumes", False, "V1PersistentVolume", short_names=("pv",),
         subresources=(STATUS,), returns_deleted=True),
    Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", schema="V1PersistentVolumeClaim",
         short_names=("pvc",), subresources=(STATUS,), returns_deleted=True),
    _storage("StorageClass", "storageclasses", "sc", immutable=(
        *fixed("parameters", text=FIXED.format("parameters"), forbidden=True),
        *fixed("provisioner", text=FIXED.format("provisioner"), forbidden=True),
        *fixed("reclaimPolicy", text=FIXED.format("reclaimPolicy"), forbidden=True),
        *fixed("volumeBindingMode"),
    )),
    _storage("VolumeAttachment", "volumeattachments", subresources=(STATUS,), unconditional_update=False,
             immutable=fixed("spec", spec="VolumeAttachmentSpec")),
    _storage("CSIDriver", "csidrivers", unconditional_update=False),
    _storage("CSINode", "csinodes", unconditional_update=False),
    _storage("VolumeAttributesClass", "volumeattributesclasses", "vac", immutable=(
        *fixed("driverName", text="updates to driverName are forbidden.", forbidden=True),
        *fixed("parameters", text="updates to parameters are forbidden.", forbidden=True),
    )),
    Kind("storage.k8s.io", "v1", "CSIStorageCapacity", "csistoragecapacities", schema="V1CSIStorageCapacity",
         unconditional_update=False, immutable=fixed("nodeTopology", "storageClassName")),
    _networking("Ingress", "ingresses", "ing", subresources=(STATUS,), generation=True),
    _networking("IngressClass", "ingressclasses", namespaced=False, generation=True,
                immutable=fixed("spec.controller")),
    _networking("NetworkPolicy", "networkpolicies", "netpol", generation=True),
    _networking("IPAddress", "ipaddresses", "ip", namespaced=False, names="address",
                immutable=fixed("spec.parentRef", parentRef="ParentReference"),
                fields=(field("spec.parentRef.group", "parentRef.group"),
                        field("spec.parentRef.resource", "parentRef.resource"),
                        field("spec.parentRef.namespace", "parentRef.namespace"),
                        field("spec.parentRef.name", "parentRef.name"))),
    _networking("ServiceCIDR", "servicecidrs", namespaced=False, subresources=(STATUS,)),
    Kind("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses", False, "V1RuntimeClass", create_on_update=True,
         unconditional_update=False, immutable=fixed("handler")),
    Kind("certificates.k8s.io", "v1", "CertificateSigningRequest", "certificatesigningrequests", False,
         "V1CertificateSigningRequest", short_names=("csr",), subresources=(Subresource("approval"), STATUS),
         fields=(field("spec.signerName"),), field_error=NO_LABEL, names="any"),
    _admission("ValidatingWebhookConfiguration", "validatingwebhookconfigurations"),
    _admission("MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
    _admission("ValidatingAdmissionPolicy", "validatingadmissionpolicies", STATUS),
    _admission("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"),
    Kind("apiregistration.k8s.io", "v1", "APIService", "apiservices", False, "V1APIService", categories=EXTENSIONS,
         subresources=(STATUS,), unconditional_update=False, names="path"),
    Kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", False,
         "V1CustomResourceDefinition", short_names=("crd", "crds"), categories=EXTENSIONS, subresources=(STATUS,),
         generation=True, returns_deleted=True, cleanup="customresourcecleanup.apiextensions.k8s.io",
         unconditional_update=False),
    _device("DeviceClass", "deviceclasses", "V1DeviceClass", namespaced=False, generation=True),
    _device("ResourceClaim", "resourceclaims", "ResourceV1ResourceClaim", subresources=(STATUS,),
            immutable=fixed("spec", spec="ResourceClaimSpec")),
    _device("ResourceClaimTemplate", "resourceclaimtemplates", "V1ResourceClaimTemplate",
            immutable=fixed("spec", spec="ResourceClaimTemplateSpec")),
    _device("ResourceSlice", "resourceslices", "V1ResourceSlice", namespaced=False, generation=True,
            immutable=fixed("spec.pool.name", "spec.driver", "spec.nodeName"),
            fields=(field("spec.nodeName"), field("spec.driver")),
            field_error="field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: {label}"),
    _flow("FlowSchema", "flowschemas"),
    _flow("PriorityLevelConfiguration", "prioritylevelconfigurations"),
)  # fmt: skip
