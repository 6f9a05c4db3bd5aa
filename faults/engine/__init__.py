"""Changes clusters so that every change can be taken back, whenever the worker dies.

The undo of a step is committed to a journal before the step is sent. Nothing here knows Django or the Kubernetes
client: the cluster and the journal come in through the protocols of ``ports``, the kinds of change as ``actions``.
"""

from faults.engine.actions import Action, Actions, Change
from faults.engine.engine import Engine, no_failpoint
from faults.engine.fingerprint import (
    Fingerprint,
    compare,
    fingerprint,
    left_over,
    namespace_picture,
    object_digest,
    object_key,
    orphans,
    same,
    stays,
)
from faults.engine.model import LAST_APPLIED, MANAGER, Record, State, Target
from faults.engine.paired import PairedJournal
from faults.engine.ports import ClusterPort, Journal, Neighbours
from faults.engine.settling import held, settle, strip_finalizers
from faults.engine.stuck import Stuck, kubectl_name

__all__ = [
    "LAST_APPLIED",
    "MANAGER",
    "Action",
    "Actions",
    "Change",
    "ClusterPort",
    "Engine",
    "Fingerprint",
    "Journal",
    "Neighbours",
    "PairedJournal",
    "Record",
    "State",
    "Stuck",
    "Target",
    "compare",
    "fingerprint",
    "held",
    "kubectl_name",
    "left_over",
    "namespace_picture",
    "no_failpoint",
    "object_digest",
    "object_key",
    "orphans",
    "same",
    "settle",
    "stays",
    "strip_finalizers",
]
