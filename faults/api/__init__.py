"""HTTP APIs over faults: runs and scenarios for the signed-in user, fault injection for programs with a token."""

from faults.api.runs import router

__all__ = ["router"]
