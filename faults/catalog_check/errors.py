"""The one way in which a proof ends early."""

from __future__ import annotations


class ProofFailed(Exception):
    """A pack does not do what it says; the message is for whoever writes it."""
