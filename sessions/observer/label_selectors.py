"""Equality-based label selectors, as a check names its objects by them."""

from __future__ import annotations


def matches(selector: str, labels: dict[str, str]) -> bool:
    """Whether labels satisfy an equality selector: ``a=b``, ``a==b``, ``a!=b``, ``a``, ``!a``, joined by commas."""
    return all(_term(term.strip(), labels) for term in selector.split(",") if term.strip())


def _term(term: str, labels: dict[str, str]) -> bool:
    if "!=" in term:
        key, value = term.split("!=", 1)
        return labels.get(key.strip()) != value.strip()
    if "=" in term:
        key, value = term.replace("==", "=", 1).split("=", 1)
        return labels.get(key.strip()) == value.strip()
    return term[1:].strip() not in labels if term.startswith("!") else term in labels
