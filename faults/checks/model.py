"""The parts of a condition, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ObjectRead:
    """Objects of one kind; the expression sees them as a list. An empty namespace means every namespace."""

    api_version: str
    kind: str
    namespace: str = ""
    label_selector: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class LogRead:
    """Logs of the pods of another read; the expression sees a list of texts, one for each container that has a log.

    Without ``container`` all containers of a pod are read, init containers left out. ``tail`` is the number of lines
    from the end; without it a log that is too long is read from both its ends. ``named`` makes each text the ``text``
    of an object that has the names of its ``pod`` and ``container`` as well.
    """

    pods: str
    container: str = ""
    previous: bool = False
    tail: int | None = None
    named: bool = False


@dataclass(frozen=True, slots=True)
class MetricRead:
    """An instant query (PromQL) of the cluster's Prometheus.

    The expression sees a list of series, each with ``metric`` (its labels) and ``value`` (a number).
    """

    promql: str


@dataclass(frozen=True, slots=True)
class AccessRead:
    """A question to the cluster's authorizers: may a user do this? As in ``kubectl auth can-i --as``.

    The expression sees ``allowed`` and ``reason``.
    """

    user: str
    verb: str
    resource: str
    group: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class PageRead:
    """A GET request to a pod or service through the API server's proxy.

    ``server`` is ``services/NAME:PORT`` or ``pods/NAME:PORT``. The expression sees ``status`` (0 where no program
    answers), ``body``, and ``json`` (null where the body is none).
    """

    namespace: str
    server: str
    path: str


@dataclass(frozen=True, slots=True)
class CommandRead:
    """A command in each running pod of another read; the expression sees a list of ``pod``, ``code``, ``output``.

    A command that has not ended in time has the code 124. Without ``container`` it runs in a pod's first one.
    """

    pods: str
    command: tuple[str, ...]
    container: str = ""


@dataclass(frozen=True, slots=True)
class StateRead:
    """Terraform's state of a root, as the backend ``kubernetes`` keeps it in a Secret of a namespace.

    The expression sees ``serial`` (0 without a state) and ``resources``: what the state knows, each with ``address``,
    ``type``, ``name``, ``key`` (of ``for_each`` or ``count``) and ``attributes``.
    """

    namespace: str
    root: str


@dataclass(frozen=True, slots=True)
class PlanRead:
    """Changes that Terraform's code in the toolbox would make now, of a root whose state is in a namespace.

    The expression sees ``known`` (false where there is no plan), ``serial`` of the state that it was made from,
    ``add``, ``change``, ``destroy``, ``changes`` and ``drift`` (addresses), and ``text``, which sums it up.
    """

    namespace: str
    root: str


@dataclass(frozen=True, slots=True)
class CloudRead:
    """All objects of a kind (``Firewall``, ``NodePool``, ``Project``) in the cloud project around the cluster.

    The expression sees a list: of resources as the cloud's API has them, and for ``Project`` of its bindings.
    """

    project: str
    asset: str


Read = ObjectRead | LogRead | MetricRead | AccessRead | PageRead | CommandRead | StateRead | PlanRead | CloudRead


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition that must be true of the cluster.

    ``expr`` is CEL and gives true or false; ``found`` is CEL and tells a person what was seen.
    """

    reads: Mapping[str, Read]
    expr: str
    found: str
    title: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """A condition with a name and points; it counts once it has passed for ``hold`` seconds without a break."""

    key: str
    title: str
    points: int
    needs: tuple[str, ...]
    hold: float
    condition: Condition
