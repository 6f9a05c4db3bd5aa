"""Signals about faults injected by hand or by programs, for whoever has their cluster in use.

``wanted`` (cluster, namespace) is sent before anything is written down: a receiver refuses by a FaultError, or
answers with the seconds after which the fault has to be over. ``written`` (fault, namespace) and ``ended`` (fault)
belong to the transaction of the change that they tell of, ``injected`` (fault) to one of its own, once the cluster
shows it.
"""

from __future__ import annotations

from django.dispatch import Signal

wanted = Signal()
written = Signal()
injected = Signal()
ended = Signal()
