"""Middleware for views that asked a cluster which did not answer: a clear 503 instead of a server error."""

from __future__ import annotations

import logging
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from faults.errors import ClusterError, FaultError
from interview_site.refusals import refuse

log = logging.getLogger(__name__)
RETRY_S = 5


class ClusterOutages:
    """Answers 503 where a view raised what a cluster refused or never answered."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """Say that the cluster does not answer; the log has its words."""
        if not isinstance(exception, ClusterError | FaultError):
            return None
        log.warning("%s: the cluster did not do it: %s", request.path, exception)
        text = "The cluster does not answer right now. Nothing was lost: try again in a moment."
        return refuse(request, status=503, title="The cluster does not answer", text=text, retry_after=RETRY_S)
