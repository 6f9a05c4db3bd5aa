"""Template context for every page."""

from __future__ import annotations

from django.http import HttpRequest

from sessions import disk_space


def disk_warning(request: HttpRequest) -> dict[str, str]:
    """Return what to tell the staff about the room on the disk. Candidates are not told."""
    user = getattr(request, "user", None)
    return {"disk_warning": disk_space.warning() if user is not None and user.is_authenticated else ""}
