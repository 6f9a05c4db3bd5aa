"""The rules of webhooks, policies and kinds with few, where they are more than a line of the tables in ``rules/``."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from dataclasses import replace
from ipaddress import ip_network
from urllib.parse import urlsplit

from kubesim.admission.podsecurity import label_errors
from kubesim.admission.validation import metadata
from kubesim.admission.validation.checks import form_errors, repeated
from kubesim.admission.validation.metadata import STANDARD_FINALIZERS, UNKNOWN_FINALIZER, dns_errors, path_errors
from kubesim.admission.validation.resources import amount_errors, container_name_errors
from kubesim.admission.validation.rules import Place, check, errors_of
from kubesim.api import bodies
from kubesim.api.addresses import CIDR_TEXT
from kubesim.api.selectors import key_errors
from kubesim.api.status import FieldError, duplicate, forbidden_field, invalid_value, required
from kubesim.auth.tokens import IN_SECRETS, OWNER
from kubesim.cel.program import CelError, compiled
from kubesim.errors import Obj
from kubesim.schema.internal import internal

FROZEN = "field is immutable when `immutable` is set"


@check
def amounts(quantities: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """Yield the errors in amounts of resources; the paths are written as upstream writes them."""
    for name, value in sorted(quantities.items()):
        yield from amount_errors(name, value, f"{where}.{name}")


@check
def security_labels(namespace: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """The labels by which a namespace says what its pods may do; they are looked at where they are labels at all."""
    if not metadata.label_errors(namespace["metadata"].get("labels"), ""):
        yield from label_errors(namespace)


@check
def data(obj: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """The keys of a ConfigMap or a Secret."""
    keys = [(field, key) for field in ("data", "binaryData") for key in obj.get(field, {})]
    for field, key in keys:
        yield from (invalid_value(f"{field}[{key}]", key, why) for why in form_errors("key", key))
    for key in obj.get("data", {}).keys() & obj.get("binaryData", {}).keys():
        yield invalid_value(f"data[{key}]", key, "duplicate of key present in binaryData")


def frozen_errors(old: Obj, new: Obj) -> list[FieldError]:
    """Return an error for each change of a ConfigMap or Secret that is marked immutable."""
    if not old.get("immutable"):
        return []
    fields = ("immutable", "data", "binaryData")
    return [forbidden_field(name, FROZEN) for name in fields if old.get(name) != new.get(name)]


def node_update_errors(old: Obj, new: Obj) -> list[FieldError]:
    """A node keeps the range of its pods' addresses and what its cloud calls it; its rules are asked twice."""
    errors = errors_of("kinds", "nodes", Place(new))
    for field, path in (("podCIDR", "spec.podCIDRs"), ("providerID", "spec.providerID")):
        before, after = old["spec"].get(field), new["spec"].get(field)
        if before and before != after:
            errors.append(forbidden_field(path, f'node updates may not change {field} except from "" to valid'))
    return errors


@check
def taints(values: list[Obj], where: str, place: Place) -> Iterator[FieldError]:
    """The taints of a node, each key and effect once; upstream takes them for metadata."""
    seen = set()
    for at, taint in enumerate(values):
        path, key, effect = f"metadata.taints[{at}]", taint.get("key", ""), taint.get("effect", "")
        yield from errors_of("types", "Taint", Place(taint, path))
        if (key, effect) in seen:
            repeated = duplicate(path, internal("Taint", taint))
            yield replace(repeated, detail=f"{repeated.detail}: taints must be unique by key and effect pair")
        seen.add((key, effect))


@check
def node_ranges(ranges: list[str], where: str, place: Place) -> Iterator[FieldError]:
    """The ranges of a node's pods: one, or one of each IP family."""
    known = [_family(text) for text in ranges]
    for at, (text, family) in enumerate(zip(ranges, known, strict=True)):
        if not family:
            yield invalid_value(f"{where}[{at}]", text, CIDR_TEXT)
    if len(ranges) > 1 and all(known) and (len(ranges) > 2 or len({*known}) == 1):
        yield invalid_value(where, ranges, "may specify no more than one CIDR for each IP family")


def _family(text: str) -> int:
    """Return the IP family of a range; 0 for what is none."""
    try:
        return ip_network(text, strict=False).version if "/" in text else 0
    except ValueError:
        return 0


@check
def finalizers(names: list[str], where: str, place: Place) -> Iterator[FieldError]:
    """The finalizers of a namespace."""
    for name in names:
        wrong = key_errors(name)
        yield from (invalid_value(where, name, why) for why in wrong)
        if "/" not in name and name not in STANDARD_FINALIZERS:
            yield invalid_value(where, name, UNKNOWN_FINALIZER)


SIGNER = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
MOST_DOMAIN, MOST_SIGNER = 253, 571


@check
def aggregating(selector: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """A selector of the roles that a role takes in; one that cannot be read is told of once more."""
    wrong = errors_of("types", "LabelSelector", Place(selector, where, place))
    yield from wrong
    if wrong:
        yield invalid_value(where, None, "invalid label selector.")


@check
def signer(value: str, where: str, place: Place) -> Iterator[FieldError]:
    """The name of a signer: a domain and a path."""
    if not value:
        yield required(where)
        return
    if value.count("/") != 1:
        yield invalid_value(where, value, SIGNER)
        return
    domain, _, path = value.partition("/")
    if len(domain) > MOST_DOMAIN:
        yield _too_long(where, MOST_DOMAIN)
    yield from _part_errors(domain, where, "label")
    if "." not in domain:
        yield invalid_value(where, domain, "should be a domain with at least two segments separated by dots")
    yield from _part_errors(path, where, "subdomain")
    if len(value) > MOST_SIGNER:
        yield _too_long(where, MOST_SIGNER)


def _part_errors(part: str, where: str, form: str) -> Iterator[FieldError]:
    """Yield what is wrong with the first label that is none."""
    wrong = next(((label, errors) for label in part.split(".") if (errors := dns_errors(label, form))), ("", []))
    yield from (invalid_value(where, part, f'validating label "{wrong[0]}": {why}') for why in wrong[1])


def _too_long(where: str, most: int) -> FieldError:
    return FieldError(where, "FieldValueTooLong", f"Too long: may not be more than {most} bytes")


SOURCES = ("object", "external", "pods", "resource", "containerResource")


@check
def at_least_the_minimum(most: int, where: str, place: Place) -> Iterator[FieldError]:
    """The bounds of an autoscaler make sense."""
    if most < place.value["spec"].get("minReplicas", 1):
        yield invalid_value(where, most, "must be greater than or equal to `minReplicas`")


@check
def one_source(metric: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """A metric of several sources has all but that of its type in vain."""
    present = [name for name in SOURCES if metric.get(name) is not None]
    kind = metric.get("type", "")
    for name in present if len(present) > 1 else ():
        if name != kind[:1].lower() + kind[1:]:
            yield forbidden_field(f"{where}.{name}", "must populate the given metric source only")


@check
def container_resource(name: str, where: str, place: Place) -> Iterator[FieldError]:
    """A resource that containers have."""
    return container_name_errors(name, where)


@check
def audit_annotations(entries: list[Obj], where: str, place: Place) -> Iterator[FieldError]:
    """Entries of a policy for the audit log: each key once, good together with the policy's name."""
    policy = place.value["metadata"].get("name", "")
    keys: set[str] = set()
    for at, entry in enumerate(entries):
        path, key = f"{where}[{at}]", entry.get("key") or ""
        whole = f"{policy}/{key}"
        if policy:
            yield from (invalid_value(f"{path}.key", whole, why) for why in key_errors(whole))
        else:
            yield invalid_value(f"{path}.key", key, "requires metadata.name be non-empty")
        text = entry.get("valueExpression", "")
        yield from cel(text, f"{path}.valueExpression", place, "valueExpression is not specified")
        if key in keys:
            yield duplicate(f"{path}.key", key)
        keys.add(key)


@check
def cel(text: str, where: str, place: Place, missing: str) -> Iterator[FieldError]:
    """An expression that compiles."""
    if not text.strip():
        yield required(where, missing)
        return
    try:
        compiled(text)
    except CelError as error:
        yield invalid_value(where, text, f"compilation failed: {error}")


REDACTED = "<secret contents redacted>"


SSH, BASIC = "kubernetes.io/ssh-auth", "kubernetes.io/basic-auth"
DATA_KEYS = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    BASIC: ("username", "password"),
    SSH: ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
"""The keys of the secrets of a type; those whose keys begin with a dot are JSON."""


@check
def typed(secret: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """A secret of a known type has what that needs."""
    kind, data = secret.get("type", ""), secret.get("data", {})
    if kind == IN_SECRETS and not (secret["metadata"].get("annotations") or {}).get(OWNER):
        yield required(f"metadata.annotations[{OWNER}]")
    keys = DATA_KEYS.get(kind, ())
    missing = [key for key in keys if key not in data or (kind == SSH and not data[key])]
    if kind != BASIC or missing == [*keys]:
        yield from (required(f"data[{key}]") for key in missing)
    for key in keys:
        if key.startswith(".") and key in data and (why := bodies.object_error(base64.b64decode(data[key]))):
            yield invalid_value(f"data[{key}]", REDACTED, why)


VERSIONS = ("v1", "v1beta1")
FORM = "; desired format: https://host[/path]"


@check
def version_and_group(name: str, where: str, place: Place) -> Iterable[FieldError]:
    """The name of an API service is what it serves."""
    spec = place.value.get("spec") or {}
    wanted = f"{spec.get('version', '')}.{spec.get('group', '')}"
    why = f'must be `spec.version+"."+spec.group`: "{wanted}"'
    return () if name == wanted or path_errors(name) else (invalid_value(where, name, why),)


@check
def review_versions(versions: list[str], where: str, place: Place) -> Iterator[FieldError]:
    """The versions of a review that a webhook reads, one of which we write."""
    again = repeated(versions)
    for at, version in enumerate(versions):
        wrong = ["duplicate version"] if at in again else dns_errors(version, "dns1035")
        yield from (invalid_value(f"{where}[{at}]", version, why) for why in wrong)
    if versions and not {*versions} & {*VERSIONS}:
        yield invalid_value(where, versions, f"must include at least one of {', '.join(VERSIONS)}")


@check
def webhook_url(text: str, where: str, place: Place) -> Iterator[FieldError]:
    """The address of a webhook: nothing but a host and a path."""
    try:
        url = urlsplit(text)
    except ValueError as error:
        yield required(where, f"url must be a valid URL: {error}{FORM}")
        return
    if url.scheme != "https":
        yield invalid_value(where, url.scheme, f"'https' is the only allowed URL scheme{FORM}")
    user, _, host = url.netloc.rpartition("@")
    if not host:
        yield invalid_value(where, host, f"host must be specified{FORM}")
    for part, what in (
        (user, "user information is"),
        (url.fragment, "fragments are"),
        (url.query, "query parameters are"),
    ):
        if part:
            yield invalid_value(where, part, f"{what} not permitted in the URL")


@check
def covered(resources: list[str], where: str, place: Place) -> Iterator[FieldError]:
    """Resources and subresources, none of which another covers."""
    whole: set[str] = set()
    everywhere: set[str] = set()
    for at, text in enumerate(resources):
        resource, slash, sub = text.partition("/")
        if not text:
            yield required(f"{where}[{at}]")
        if slash and resource in whole:
            yield invalid_value(f"{where}[{at}]", text, f"if '{resource}/*' is present, must not specify {text}")
        if slash and sub in everywhere:
            yield invalid_value(f"{where}[{at}]", text, f"if '*/{sub}' is present, must not specify {text}")
        whole |= {resource} if sub == "*" else set()
        everywhere |= {sub} if slash and resource == "*" else set()
    if len(resources) > 1 and "*/*" in resources:
        yield invalid_value(where, resources, "if '*/*' is present, must not specify other resources")
    plain = [text for text in resources if text and "/" not in text]
    if "*" in plain and plain[-1] != "*":
        why = "if '*' is present, must not specify other resources without subresources"
        yield invalid_value(where, resources, why)


@check
def object_names(names: list[str], where: str, place: Place) -> Iterator[FieldError]:
    """Names of objects, each once."""
    again = repeated(names)
    for at, name in enumerate(names):
        yield from (invalid_value(f"{where}[{at}]", name, why) for why in path_errors(name))
        if at in again:
            yield duplicate(f"{where}[{at}]", name)


@check
def param_version(version: str, where: str, place: Place) -> Iterator[FieldError]:
    """The version of a kind of parameters."""
    group, slash, name = version.rpartition("/")
    if version.count("/") > 1:
        yield invalid_value(where, version, f"unexpected GroupVersion string: {version}")
        return
    if slash and group and (wrong := dns_errors(group, "subdomain")):
        yield invalid_value(where, group, ",".join(wrong))
    if not name:
        yield invalid_value(where, version, "version must be specified")
    elif wrong := dns_errors(name, "dns1035"):
        yield invalid_value(where, name, ",".join(wrong))


@check
def named_once(entries: list[Obj], where: str, place: Place) -> Iterator[FieldError]:
    """Conditions none of which has the name of one before."""
    names = [entry.get("name", "") for entry in entries]
    yield from (duplicate(f"{where}[{at}].name", names[at]) for at in sorted(repeated(names)) if names[at])
