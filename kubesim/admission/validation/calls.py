"""The rules of webhooks and policies that are more than a line of the tables in ``rules/``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from urllib.parse import urlsplit

from kubesim.admission.validation.checks import repeated
from kubesim.admission.validation.metadata import dns_errors, path_errors
from kubesim.admission.validation.rules import Place, check
from kubesim.api.status import FieldError, duplicate, invalid_value, required
from kubesim.errors import Obj

VERSIONS = ("v1", "v1beta1")
FORM = "; desired format: https://host[/path]"
SEGMENTS = "should be a domain with at least three segments separated by dots"


@check
def full_name(name: str, where: str, place: Place) -> Iterator[FieldError]:
    """A name within a domain of somebody's own."""
    if not name:
        yield required(where)
        return
    wrong = dns_errors(name, "subdomain")
    yield from (invalid_value(where, name, why) for why in wrong)
    if not wrong and name.count(".") < 2:
        yield invalid_value(where, name, SEGMENTS)


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
def service_path(path: str, where: str, place: Place) -> Iterator[FieldError]:
    """The path at which a service is asked, of segments that are names."""
    if path in ("", "/"):
        return
    if path == "//":
        yield invalid_value(where, path, "segment[0] may not be empty")
        return
    if not path.startswith("/"):
        yield invalid_value(where, path, "must start with a '/'")
    for at, step in enumerate(path[1:].removesuffix("/").split("/")):
        if not step:
            yield invalid_value(where, path, f"segment[{at}] may not be empty")
        else:
            yield from (invalid_value(where, path, f"segment[{at}]: {why}") for why in dns_errors(step, "subdomain"))


@check
def webhook_url(text: str, where: str, place: Place) -> Iterator[FieldError]:
    """Where a webhook is: nothing but a host and a path."""
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
