"""Rights of a scenario: added to its session's environment when its faults are injected, at first or later.

They are steps of the environment, whose bindings are cut and given back together with the others. Whatever happens to
a worker in between, calling again goes on.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any

from faults import environment, selectors
from faults.engine import Fingerprint, fingerprint
from faults.errors import FaultError
from faults.guardrails import Grant
from faults.models import FaultRun, Step
from faults.packs import AccessRule, Pack
from faults.packs.denied_rights import denied_rights, written_namespaces
from faults.packs.model import EPHEMERAL_CONTAINERS
from faults.packs.rights import subtract
from faults.services.controlled_objects import controlled_picture
from faults.services.work import Report, Work, silent, working
from faults.tiers import policy_of

REFUSED = "“{title}” asks for what nobody may do on a shared cluster: {what}."


def grant_rights(*, run: FaultRun, report: Report = silent) -> None:
    """Give the candidate what a fault's pack lists, unless they have it. Raises LeaseHeld, FaultError, ClusterError.

    Where the access is closed at the moment, it is noted only, and comes with the rest when that is given back.
    """
    session = environment_of(run)
    if session is None or _is_settled(session, run):
        return
    with working(session.pk, f"rights:{uuid.uuid4().hex}", report=report) as work:
        _note(work, selectors.bound_pack(run))
        current = work.run()
        if not _is_closed(current):
            _make(work, current)


def number_of_grants(*, run: FaultRun) -> int:
    """Return how many times scenarios have added to the rights of an environment."""
    rails = selectors.guardrails_of(run)
    return len(rails.grants or ()) if rails else 0


def environment_of(run: FaultRun) -> FaultRun | None:
    """Return the environment that a fault is in; None for a fault in a cluster where no candidate works."""
    names = set(run.namespaces.values())
    active = run.cluster.runs.filter(purpose=FaultRun.Purpose.ENVIRONMENT, status=FaultRun.Status.ACTIVE)
    newest_first = active.select_related("cluster").order_by("-pk")
    return next((other for other in newest_first if names <= set(other.namespaces.values())), None)


def watched_namespaces(session: FaultRun) -> list[str]:
    """Return the cluster's namespaces whose state counts as residue: the candidate may change it, and it stays."""
    rails = selectors.guardrails_of(session)
    return _lasting_namespaces(session, rails.grants or () if rails else ())


def controlled_objects(session: FaultRun) -> Fingerprint:
    """Return the picture of what controllers have made there and the candidate may change. Raises ClusterError."""
    rails = selectors.guardrails_of(session)
    return _controlled(session, rails.grants or () if rails else ())


def _is_settled(session: FaultRun, run: FaultRun) -> bool:
    """Return whether the rights are noted, and every step of them was made, or taken back with the access."""
    if _missing(session, selectors.bound_pack(run)) != Grant():
        return False
    made = Step.objects.filter(run=session).exclude(status=Step.Status.RECORDED)
    return made.count() >= len(selectors.changes_of(session))


def _missing(session: FaultRun, pack: Pack) -> Grant:
    """Return what a pack adds to a session's rights. Raises FaultError for what its cluster's tier excludes."""
    rails, own = selectors.guardrails_of(session), selectors.namespaces_of(session)
    if rails is None or rails.grants is None:  # of before packs could list rights: everybody has the same
        return Grant()
    words = tuple(sorted(set(pack.rights) - rails.words)) if policy_of(session.cluster).is_exclusive else ()
    held = environment.all_rules(own, rails, selectors.toolbox_of(session))
    rules = subtract([*pack.access, *_rules_of_words(words, own)], held)
    refuse_denied(session, rules, pack.title)
    return Grant(rules, words)


def refuse_denied(session: FaultRun, rules: tuple[AccessRule, ...], title: str) -> None:
    """Raise FaultError for rights that nobody gets in a cluster that others have, too."""
    if policy_of(session.cluster).is_exclusive:
        return
    if denied := denied_rights(rules, selectors.all_namespaces_of(session)):
        raise FaultError(REFUSED.format(title=title, what=denied[0]))


def _rules_of_words(words: tuple[str, ...], own: list[str]) -> list[AccessRule]:
    rule = environment.DEBUGGING
    return [AccessRule(rule.resources, rule.verbs, tuple(own))] if EPHEMERAL_CONTAINERS in words else []


def _note(work: Work, pack: Pack) -> None:
    """Write down what is to be granted before anything of it is made."""
    session = work.run()
    grant, rails = _missing(session, pack), selectors.guardrails_of(session)
    if rails is None or rails.grants is None or grant == Grant():
        return
    values: dict[str, Any] = {"parameters": session.parameters | rails.with_grants((*rails.grants, grant)).dump()}
    known = watched_namespaces(session)
    if watched := [name for name in _lasting_namespaces(session, [grant]) if name not in known]:
        picture = _part_of(fingerprint(selectors.kube_for(session.cluster), watched), watched)
        picture |= _part_of(_controlled(session, [grant]), watched)
        values["fingerprint_before"] = {**(session.fingerprint_before or {}), **picture}
    work.update(**values)


def _controlled(session: FaultRun, grants: Iterable[Grant]) -> Fingerprint:
    namespaces = _lasting_namespaces(session, grants := [*grants])
    rules = [rule for grant in grants for rule in grant.rules]
    return controlled_picture(selectors.kube_for(session.cluster), rules, namespaces) if namespaces else {}


def _lasting_namespaces(session: FaultRun, grants: Iterable[Grant]) -> list[str]:
    if policy_of(session.cluster).may_be_dropped:
        return []
    rules = [rule for grant in grants for rule in grant.rules]
    return written_namespaces(rules, selectors.namespaces_of(session))


def _part_of(picture: Fingerprint, namespaces: list[str]) -> Fingerprint:
    inside = tuple(f" {name}/" for name in namespaces)
    return {key: digest for key, digest in picture.items() if any(part in key for part in inside)}


def _is_closed(session: FaultRun) -> bool:
    """Return whether the candidate's access was ended, or closed for a pause."""
    steps = Step.objects.filter(run=session, target__kind__in=environment.GRANTING_KINDS)
    return steps.filter(status=Step.Status.REVERTED).exists()


def _make(work: Work, session: FaultRun) -> None:
    rails = selectors.guardrails_of(session)
    names, box = selectors.namespaces_of(session), selectors.toolbox_of(session)
    first = len(environment.base_changes(names, rails, box, selectors.agents_of(session)))
    changes = selectors.changes_of(session)
    work.engine(session).apply(changes, lambda line: work.progress("Granting rights", line), mend=True, first=first)
