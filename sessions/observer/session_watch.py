"""One session under watch: what it shows of its cluster's cache, and its checks."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.db import OperationalError, connection

from faults import selectors as fault_selectors
from faults import services as fault_services
from faults.checks import GRACE, Condition, ObjectRead
from faults.errors import ClusterError, FaultError, NotFound, NotYet
from faults.metrics import Readings
from faults.models import FaultRun
from faults.packs import Pack, PackError
from faults.packs.workspaces import STEP as TERRAFORM
from faults.terraform_plans import UNSETTLED
from faults.terraform_state import TerraformState, read_state, secret_name
from sessions import panels, services
from sessions.kinds import METRICS, Kind
from sessions.live import LiveState
from sessions.models import CheckState, InterviewSession, SessionScenario
from sessions.observer import checking
from sessions.observer.cache import Obj
from sessions.observer.cluster import ClusterWatch
from sessions.observer.label_selectors import matches
from sessions.observer.metrics_watch import MetricsWatch
from sessions.observer.outages import OutageWatch
from sessions.observer.reader import CacheReader
from sessions.observer.remote_reads import RemoteReads
from sessions.observer.rows import live_state
from sessions.observer.screens import CLUSTER_PANELS
from sessions.observer.sentinel_watch import SentinelWatch
from sessions.settled import settler

log = logging.getLogger(__name__)
State = InterviewSession.State
PROBE = timedelta(seconds=5)
PROBE_STALE = timedelta(seconds=1)
RESTARTS = APPLIES = PLANS = timedelta(seconds=5)
SENTINEL = timedelta(seconds=2)
LOOK_S = 1.0  # the longest pause between two rounds of looks: logs change without an event
MIN_QUIET_S = 0.5  # before a session is looked at that nothing has changed for
_AT_WORK = (State.LIVE, State.PAUSED)
_WITHDRAWN = (FaultRun.Status.REVERTING, FaultRun.Status.REVERTED, FaultRun.Status.QUARANTINED)
_BROKEN = (FaultRun.Status.INJECTING, FaultRun.Status.ACTIVE)

Mark = Callable[[int, Iterable[str]], None]


class SessionWatch:
    """Follows one session for as long as it has a cluster.

    ``mark`` is told which panels need drawing; ``now`` gives the time; ``wake`` is called where a turn is due soon.
    """

    def __init__(
        self,
        session: InterviewSession,
        cluster: ClusterWatch,
        mark: Mark,
        now: Callable[[], datetime],
        wake: Callable[[], None] = lambda: None,
        metrics: MetricsWatch | None = None,
        remote: RemoteReads | None = None,
    ) -> None:
        self.session_id = session.pk
        self.uuid = str(session.uuid)
        self._mark = mark
        self._now = now
        self._packs: dict[int, tuple[SessionScenario, Pack]] = {}
        self.namespaces: frozenset[str] = frozenset()
        self._metrics = metrics
        self._remote = remote
        self._wake = wake
        self._has_changed = threading.Event()
        self._looked_at: float | None = None
        self._done: dict[str, datetime] = {"restarts": now()}  # none that matters to the first seconds of a watch
        self._trouble = ""
        self._states: dict[str, TerraformState] = {}
        self._begun: dict[str, TerraformState] = {}
        self._plans: dict[str, dict[str, Any]] = {}
        self._outages = OutageWatch(session.pk)
        self._sentinel = SentinelWatch(cluster, now)
        self._kubeconfig = session.cluster.kubeconfig if session.cluster else ""
        self._is_outdated = False
        self._counts_from = now() + GRACE
        self._state = ""  # as the last look found it
        self.cluster = cluster
        self._refresh(session)
        cluster.listen(self._changed)

    def close(self) -> None:
        """Hear no more of the cluster."""
        self.cluster.unlisten(self._changed)

    @property
    def must_be_renewed(self) -> bool:
        """Whether credentials were replaced, or a stream has ended."""
        return self._is_outdated or not self.cluster.is_alive

    @property
    def is_under_way(self) -> bool:
        """Whether the interview had begun and not ended when it was last looked at."""
        return self._state in _AT_WORK

    def is_due(self) -> bool:
        """Whether something has changed that a check reads, or the last look was a while ago."""
        rested = self._looked_at is None or time.monotonic() - self._looked_at >= MIN_QUIET_S
        return rested or self._has_changed.is_set()

    def take_turn(self) -> None:
        """Look once; a cluster or database that does not answer costs this turn."""
        self._looked_at = time.monotonic()
        self._has_changed.clear()
        self._safely(self.look)

    def live_state(self, names: Collection[str] = CLUSTER_PANELS) -> LiveState:
        """Return what some panels (by default all) show of the cluster."""
        targets = [read for scenario, pack in self._packs.values() if _is_broken(scenario) for read in _pods_of(pack)]
        found = live_state(
            self.cluster.cache,
            self.namespaces,
            lambda pod: any(_is_read(pod, read) for read in targets),
            names,
            self._metrics.newest if self._metrics else None,
        )
        found.metrics_error = self._metrics.error if self._metrics else ""
        if "sentinel" in names:
            found.sentinel = self._sentinel.state()
        return found

    def take_metrics(self, readings: Readings | None) -> None:
        """Keep what the session's pods do, and draw it; None where Prometheus has just fallen silent."""
        self._mark(self.session_id, panels.readers_of(METRICS))
        if readings is not None and self._state == State.LIVE:
            services.keep_sample(session_id=self.session_id, readings=readings, namespaces=self.namespaces)

    def look(self) -> None:
        """Do what is due: prove that the cluster lives, evaluate the checks."""
        session = InterviewSession.objects.select_related("environment", "cluster").get(pk=self.session_id)
        self._state = session.state
        self._refresh(session)
        pause = PROBE_STALE if self.cluster.cache.stale_since else PROBE
        self._every("probe", pause, partial(self._probe, session, pause))
        # A panic stop drops practice clusters first and marks their runs afterwards.
        is_withdrawn = _is_withdrawn(session.environment) or fault_services.panic_covers(session.cluster_id)
        # One that we drop falls silent; one that refuses us alone answers, and lets the candidate work on.
        is_ours = is_withdrawn or fault_services.credentials_refused_at(session.cluster, self._now()) is not None
        silence = None if is_ours else self.cluster.cache.silence
        is_known = is_ours or self.cluster.cache.complete
        self._safely(partial(self._outages.look, silence, is_known, self._now()))
        self._every("restarts", RESTARTS, partial(self._notice_restarts, session))
        if session.state in _AT_WORK and not is_withdrawn:
            self._every("sentinel", SENTINEL, partial(self._notice_sentinel, session))
            self._every("applies", APPLIES, self._notice_applies)
            if not session.is_closed():  # while Terraform may look at anything
                self._every("plans", PLANS, self._notice_plans)
        if session.state == State.LIVE and self.cluster.cache.complete and not is_withdrawn:
            for scenario, pack in list(self._packs.values()):
                # What we take back is not the candidate's doing; nor is what has not begun, or what we broke since.
                if scenario.is_open and not _is_withdrawn(scenario.run) and not self._is_settled(scenario, pack):
                    self._safely(partial(self._evaluate, scenario, pack))

    def _is_settled(self, scenario: SessionScenario, pack: Pack) -> bool:
        return settler(scenario, pack, [other for other, _ in self._packs.values()]) is not None

    def _every(self, name: str, pause: timedelta, duty: Callable[[], None]) -> None:
        """Do a duty unless it was done less than ``pause`` ago."""
        now, done = self._now(), self._done.get(name)
        if done is None or abs(now - done) >= pause:  # either way: a machine's clock may be set back
            self._done[name] = now
            self._safely(duty)

    def _safely(self, duty: Callable[[], None]) -> None:
        """A cluster or database that does not answer costs one turn, never the thread; it is logged once."""
        try:
            duty()
        except (ClusterError, FaultError, PackError, OperationalError) as exc:
            if str(exc) != self._trouble:
                log.warning("Session %s could not be observed and is tried again: %s", self.uuid, exc)
            self._trouble = str(exc)
            connection.close_if_unusable_or_obsolete()

    def _changed(self, kind: Kind, namespace: str) -> None:
        """Take a change of the cluster; on one that is shared, most are in other sessions' namespaces."""
        is_ours = not namespace or namespace in self.namespaces
        self._mark(self.session_id, panels.readers_of(kind, all_namespaces=not is_ours))
        if is_ours and self._state in _AT_WORK and kind in self._read_kinds:  # else nothing is evaluated
            self._has_changed.set()
            self._wake()

    def _refresh(self, session: InterviewSession) -> None:
        """Learn which scenarios have been planned, the session's namespaces, and whether its credentials changed."""
        self._is_outdated |= session.cluster is not None and session.cluster.kubeconfig != self._kubeconfig
        spaces: set[str] = set(session.environment.namespaces.values()) if session.environment else set()
        rows = session.scenarios.filter(run__isnull=False)
        rows = rows.select_related("run", "scenario_version__scenario", "stage")
        for scenario in rows:
            assert scenario.run is not None
            known = self._packs.get(scenario.pk)
            pack = known[1] if known else fault_selectors.bound_pack(scenario.run)
            self._packs[scenario.pk] = (scenario, pack)
            spaces |= set(scenario.run.namespaces.values())
        if spaces != self.namespaces:
            self.namespaces = frozenset(spaces)
            self._mark(self.session_id, CLUSTER_PANELS)
        self._read_kinds = self._kinds()
        self.cluster.include(self._read_kinds)

    def _kinds(self) -> frozenset[Kind]:
        return frozenset(
            (read.api_version, read.kind)
            for _, pack in self._packs.values()
            for check in (*pack.checks, *pack.guards)
            for read in _objects_of(check.condition)
        )

    def _probe(self, session: InterviewSession, pause: timedelta) -> None:
        self.cluster.probe(pause)
        self._mark(self.session_id, CLUSTER_PANELS)
        accepts = self.cluster.accepts_us
        if session.cluster is not None and accepts is not None and not self._is_outdated:
            was_refused = session.cluster.refused_at is not None
            fault_services.note_credentials(cluster=session.cluster, accepted=accepts, now=self._now())
            if was_refused or not accepts:
                self._mark(self.session_id, ("notices",))

    def _notice_sentinel(self, session: InterviewSession) -> None:
        if session.cluster is not None and self._sentinel.look(session.cluster):
            self._mark(self.session_id, ("sentinel",))

    def _notice_restarts(self, session: InterviewSession) -> None:
        restarts = fault_services.restarts_of(cluster=session.cluster) if session.cluster else None
        if restarts is not None and services.note_restarts(session_id=session.pk, restarts=restarts):
            self._mark(self.session_id, ("link", "timeline"))

    def _notice_applies(self) -> None:
        """Tell of each root of Terraform whose state is a new one; the first look tells what there was before.

        A state that cannot be read tells nothing, and what comes after it is compared with the one before. What is
        seen while a part begins is told afterwards: whose apply it was is known when its step is entered.
        """
        is_beginning = any(_is_injecting(scenario) for scenario, _ in self._packs.values())
        for namespace, root in self._roots():
            try:
                found = self._remote.secret(namespace, secret_name(root)) if self._remote else {}
            except (NotYet, NotFound):
                continue
            state = read_state(found)
            if is_beginning:
                self._begun[root] = state
                continue
            for each in (self._begun.pop(root, state), state):
                self._notice_state(root, each)

    def _notice_state(self, root: str, state: TerraformState) -> None:
        before = self._states.get(root)
        if not state.serial or (before and (state.serial, state.lineage) == (before.serial, before.lineage)):
            return
        self._states[root] = state
        if services.note_apply(session_id=self.session_id, root=root, before=before, after=state):
            self._mark(self.session_id, ("terraform", "timeline"))

    def _notice_plans(self) -> None:
        """Tell of each root whose code, state or surroundings have come to another plan."""
        for namespace, root in self._roots():
            try:
                plan = self._remote.plan(namespace, root) if self._remote else None
            except NotYet:
                continue
            if plan is None:
                return
            if plan == self._plans.get(root) or plan["error"] == UNSETTLED:
                continue
            self._plans[root] = plan
            if services.note_plan(session_id=self.session_id, root=root, plan=plan):
                self._mark(self.session_id, ("plans",))

    def _roots(self) -> list[tuple[str, str]]:
        """Return the roots that the session's scenarios apply, each with the namespace of its state."""
        found = (
            (pack.workspace.state, root)
            for _, pack in self._packs.values()
            for step in pack.inject
            if pack.workspace and step.kind == TERRAFORM
            for root in step.spec["roots"]
        )
        return list(dict.fromkeys(found))

    def _evaluate(self, scenario: SessionScenario, pack: Pack) -> None:
        try:
            outcomes = checking.look(pack, CacheReader(self.cluster.cache, self.cluster.kube, self._remote))
        except NotYet:  # what is asked for the first time is answered in a moment
            return
        now = self._now()
        states = {state.key: state for state in CheckState.objects.filter(scenario=scenario)}
        if checking.is_worth_recording(states, pack, outcomes, now):
            cause_of = self.cluster.cache.changes.cause_of
            checking.record(scenario, pack, outcomes, now, cause_of=cause_of, counts_from=self._counts_from)
            self._mark(self.session_id, ("checks", "run", "milestones"))


def _is_withdrawn(run: FaultRun | None) -> bool:
    return run is not None and run.status in _WITHDRAWN


def _is_injecting(scenario: SessionScenario) -> bool:
    return scenario.run is not None and scenario.run.status == FaultRun.Status.INJECTING


def _is_broken(scenario: SessionScenario) -> bool:
    return scenario.run is not None and scenario.run.status in _BROKEN


def _objects_of(condition: Condition) -> Iterable[ObjectRead]:
    return (read for read in condition.reads.values() if isinstance(read, ObjectRead))


def _pods_of(pack: Pack) -> Collection[ObjectRead]:
    """Return the reads of pods in a pack's symptom: what the fault shows on."""
    reads = (read for condition in pack.symptom for read in _objects_of(condition))
    return [read for read in reads if (read.api_version, read.kind) == ("v1", "Pod")]


def _is_read(pod: Obj, read: ObjectRead) -> bool:
    meta = pod["metadata"]
    return (
        read.namespace in ("", meta.get("namespace", ""))
        and read.name in ("", meta["name"])
        and matches(read.label_selector, meta.get("labels") or {})
    )
