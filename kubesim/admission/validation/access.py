"""The rules of roles and certificate requests that are more than a line of the tables in ``rules/``."""

from __future__ import annotations

import base64
from collections.abc import Iterator

from kubesim.admission.validation.metadata import dns_errors
from kubesim.admission.validation.rules import Place, check
from kubesim.admission.validation.selectors import label_selector
from kubesim.api.status import FieldError, invalid_value, required
from kubesim.errors import Obj

SIGNER = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
MOST_DOMAIN, MOST_SIGNER = 253, 571


@check
def aggregating(selector: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """A selector of the roles that a role takes in; one that cannot be read is told of once more."""
    wrong = list(label_selector(selector, where, place))
    yield from wrong
    if wrong:
        yield invalid_value(where, None, "invalid label selector.")


@check
def request(value: str, where: str, place: Place) -> Iterator[FieldError]:
    """A certificate request, as PEM in Base64."""
    if b"-----BEGIN CERTIFICATE REQUEST-----" not in base64.b64decode(value):
        yield invalid_value(where, value, "PEM block type must be CERTIFICATE REQUEST")


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
