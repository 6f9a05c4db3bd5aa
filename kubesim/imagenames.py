"""What texts name images, as distribution's reference parser reads them."""

from __future__ import annotations

import re
from functools import lru_cache

DEFAULT_REGISTRY = "docker.io"
_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_DOMAIN = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_REFERENCE = re.compile(
    rf"({_DOMAIN}(?:\.{_DOMAIN})*(?::[0-9]+)?/{_COMPONENT}(?:/{_COMPONENT})*)"
    r"(?::\w[\w.-]{0,127})?(?:@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?",
    re.ASCII,
)
LONGEST_NAME = 255


@lru_cache(maxsize=1024)
def wrong_reference(text: str) -> str:
    """Say why a text names no image, in the words of distribution's reference parser; empty where it does."""
    if re.fullmatch(r"[a-f0-9]{64}", text):
        why = f"invalid repository name ({text}), cannot specify 64-byte hexadecimal strings"
        return f'couldn\'t parse image name "{text}": {why}'
    first, slash, rest = text.partition("/")
    if not slash or not ("." in first or ":" in first or first == "localhost" or first != first.lower()):
        first, rest = DEFAULT_REGISTRY, text if slash else f"library/{text}"
    name = rest.partition(":")[0]
    found = _REFERENCE.fullmatch(f"{first}/{rest}")
    if name != name.lower():
        why = f"invalid reference format: repository name ({name}) must be lowercase"
    elif found is None:
        why = "invalid reference format"
    elif len(found[1]) > LONGEST_NAME:
        why = f"repository name must not be more than {LONGEST_NAME} characters"
    else:
        return ""
    return f'couldn\'t parse image name "{text}": {why}'
