"""Errors of clusters, in words a person can act on.

FaultError
    LeaseHeld               another worker is on it
    StaleEpoch              this worker lost its lease and must stop
    NotYet                  nothing is wrong, look again soon
    KubeconfigRefused       a kubeconfig outside the allow-list
    ClusterBusy             another session has the cluster
    PanicEngaged            nothing is injected until a person lifts the panic
ClusterError                the cluster (or its control API) did not do it
    NotFound  AlreadyExists  Conflict  Forbidden  Unauthorized  Invalid  Unsupported  NotOnRealNodes  Expired
    Unanswered  Unreachable
    JournalError            the copy of the journal in the cluster could not be kept
"""

from __future__ import annotations

from faults.plain_text import plain_ends

LONGEST_MESSAGE = 2000  # a cluster repeats in its refusal whatever it was sent


class FaultError(Exception):
    """The base of everything the engine raises on its own account; the message is for people."""


class LeaseHeld(FaultError):
    """Another worker holds the lease; whoever asked may come back later."""


class StaleEpoch(FaultError):
    """Somebody with a newer epoch took over: nothing more may be written."""


class NotYet(FaultError):
    """Nothing is wrong, but something takes its time: look again soon."""


class KubeconfigRefused(FaultError):
    """The kubeconfig asks for something outside the allow-list."""


class ClusterBusy(FaultError):
    """Another session has leased the cluster."""


class PanicEngaged(FaultError):
    """All injection is stopped until a person lifts the panic."""


class ClusterError(Exception):
    """A request that a cluster refused or never answered.

    ``retryable`` says that the same request may succeed later without anybody changing anything.
    """

    def __init__(self, message: str, retryable: bool = False) -> None:
        self.message = plain_ends(message, LONGEST_MESSAGE)
        super().__init__(self.message)
        self.retryable = retryable


class NotFound(ClusterError):
    """The object, or its kind, is not there (404)."""


class Conflict(ClusterError):
    """The object changed, or is another than the one meant (409)."""


class AlreadyExists(Conflict):
    """An object of that name is there already (409)."""


class Forbidden(ClusterError):
    """The credentials may not do this (401, 403)."""


class Unauthorized(Forbidden):
    """The credentials are not accepted (401): for now, since an authenticator that restarts says so, too."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retryable=True)


class Invalid(ClusterError):
    """The cluster cannot accept the object (400, 422)."""


class Unsupported(Invalid):
    """The cluster does not take this type of patch for the kind (415)."""


class NotOnRealNodes(Invalid):
    """The node is a real one, whose agent refuses what only a simulated node can show (422)."""


class Expired(ClusterError):
    """The resourceVersion is too old to continue from (410)."""


class Unreachable(ClusterError):
    """No answer, or one that says to come back later (timeouts, 429, 5xx)."""

    def __init__(self, message: str, retryable: bool = True, retry_after: float | None = None) -> None:
        super().__init__(message, retryable)
        self.retry_after = retry_after


class Unanswered(ClusterError):
    """The API server answers, but not the program behind a pod or service that was called through it."""


class JournalError(ClusterError):
    """The copy of the journal inside the cluster could not be written or removed: no step's failure, but its own."""

    def __init__(self, target: str, cause: ClusterError, command: str) -> None:
        retryable = cause.retryable or isinstance(cause, Conflict)
        super().__init__(f"The journal's copy, {target}, could not be kept: {cause.message}", retryable)
        self.target = target
        self.command = command
