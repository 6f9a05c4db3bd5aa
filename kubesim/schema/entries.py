"""What the entries of the kinds are written with: fields of selectors, immutable fields, usual subresources."""

from __future__ import annotations

from kubesim.schema.registry import Field, Immutable, Subresource

STATUS = Subresource("status")
SCALE = Subresource("scale", "Scale", "autoscaling", "v1")
WORKLOAD = ("all",)
EXTENSIONS = ("api-extensions",)
NO_LABEL = "field label not supported: {label}"


def field(path: str, label: str = "", empty: str = "") -> Field:
    """Return a field of field selectors that lies at ``path``."""
    return Field(label or path, tuple(path.split(".")), empty)


def fixed(
    *paths: str, text: str = "field is immutable", forbidden: bool = False, **types: str
) -> tuple[Immutable, ...]:
    """Immutable fields; ``types`` names the internal types of those that are structures, by the last word."""
    split = [tuple(path.split(".")) for path in paths]
    return tuple(Immutable(path, text, forbidden, types.get(path[-1], "")) for path in split)
