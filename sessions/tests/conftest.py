"""People and sessions. `ada` owns, `grace` interviews with her, `mallory` may not, `root` is the admin."""

from __future__ import annotations

import threading
import time as machine_time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.contrib.auth.models import User

from faults import packs
from faults import selectors as fault_selectors
from faults.models import Cluster, FaultRun, Outbox, Scenario, ScenarioVersion
from sessions import clock, services
from sessions.models import InterviewSession, Question, QuestionBank, QuestionVersion
from sessions.observer import loop
from sessions.observer.cluster import ClusterWatch
from sessions.observer.loop import Observer
from sessions.observer.session_watch import SessionWatch

CATALOG = Path(packs.__file__).parents[1] / "catalog"
SLUG = "architecture-mismatch"
NOON = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)


@pytest.fixture
def ada(db) -> User:
    return User.objects.create_user("ada")


@pytest.fixture
def grace(db) -> User:
    return User.objects.create_user("grace")


@pytest.fixture
def mallory(db) -> User:
    return User.objects.create_user("mallory")


@pytest.fixture
def root(db) -> User:
    return User.objects.create_superuser("root")


@pytest.fixture
def time() -> clock.SteppingClock:
    """Time stands still at noon until the test moves it."""
    stepping = clock.SteppingClock(NOON)
    with clock.use(stepping):
        yield stepping


@pytest.fixture(scope="session")
def pack_files() -> dict[str, str]:
    return dict(packs.load_folder(CATALOG / SLUG))


@pytest.fixture(scope="session")
def first_pack(pack_files) -> packs.Pack:
    return packs.parse(pack_files)


@pytest.fixture
def scenario_version(db, pack_files, first_pack) -> ScenarioVersion:
    """The first scenario of the catalogue."""
    return ScenarioVersion.objects.create(
        scenario=Scenario.objects.create(slug=first_pack.slug),
        number=first_pack.version,
        digest=packs.digest(pack_files),
        files=pack_files,
        title=first_pack.title,
        category=first_pack.category,
        difficulty=first_pack.difficulty,
        minutes=first_pack.minutes,
    )


@pytest.fixture
def question_version(db) -> QuestionVersion:
    bank = QuestionBank.objects.create(slug="house", title="House bank")
    question = Question.objects.create(bank=bank, key="why-etcd", category="Basics", kind=Question.Kind.FULL)
    return QuestionVersion.objects.create(
        question=question, number=1, digest="d1", title="Why does etcd need quorum?"
    )


@pytest.fixture
def draft(time, ada, grace, scenario_version, question_version) -> InterviewSession:
    """A draft of one scenario and one question, one hour long, by ada with grace."""
    return services.create_session(
        owner=ada,
        candidate_name="Sam Doe",
        scenario_versions=[scenario_version],
        question_versions=[question_version],
        minutes=60,
        interviewers=[grace],
    )


@pytest.fixture
def scenario(draft):
    return draft.scenarios.get()


@pytest.fixture
def question(draft):
    return draft.questions.get()


@pytest.fixture
def ready(draft, ada) -> InterviewSession:
    """The draft as preparing leaves it: with an active fault and an environment, in a cluster nobody built."""
    session = services.prepare(session=draft, actor=ada)
    cluster = Cluster.objects.create(name="gpu-test", tier=Cluster.Tier.PRACTICE)
    fault = {"cluster": cluster, "status": FaultRun.Status.ACTIVE, "symptom_at": clock.now()}
    row = session.scenarios.get()
    row.run = FaultRun.objects.create(scenario_version=row.scenario_version, **fault)
    row.save()
    session.cluster = cluster
    session.environment = FaultRun.objects.create(purpose=FaultRun.Purpose.ENVIRONMENT, **fault)
    session.state = InterviewSession.State.READY
    session.save()
    session.phases.update(status="done")
    Outbox.objects.all().delete()
    return session


@pytest.fixture
def live(ready, ada) -> InterviewSession:
    return services.start(session=ready, actor=ada)


@pytest.fixture
def ended(live, ada) -> InterviewSession:
    session = services.end(session=live, actor=ada)
    Outbox.objects.all().delete()
    return session


@pytest.fixture
def jobs(db):
    """Return what was published: (name of the job function, ids)."""
    return lambda: [(row.job.rpartition(".")[2], row.args) for row in Outbox.objects.order_by("id")]


@pytest.fixture
def kinds():
    """Return the kinds of a session's events, in order."""
    return lambda session: list(session.events.order_by("seq").values_list("kind", flat=True))


@pytest.fixture
def own_redis(settings, redis_url):
    """The real Redis."""
    settings.REDIS_URL = redis_url


@pytest.fixture
def observer(own_redis, time, monkeypatch):
    """Make observers whose threads do nothing by themselves; the test ticks them."""
    monkeypatch.setattr(loop.Sweeper, "start", lambda self: None)
    monkeypatch.setattr(loop.Sweeper, "close", lambda self: None)
    made = []

    def make(name):
        made.append(Observer(threading.Event(), time, holder=name))
        return made[-1]

    return make


@pytest.fixture
def watched(broken, time, monkeypatch):
    """The session's watch; the test looks itself, so that one thread writes to its database."""
    kube = fault_selectors.kube_for(broken.cluster)
    marked = []
    cluster = ClusterWatch(kube, (), time)
    watch = SessionWatch(broken, cluster, lambda pk, names: marked.append((pk, frozenset(names))), time)
    watch.marked = marked
    watch.cluster.start()
    eventually(lambda: watch.cluster.cache.complete)
    yield watch
    watch.cluster.close()


def eventually(true, seconds=60.0):
    """Wait until something that another process does has happened."""
    end, gate = machine_time.monotonic() + seconds, threading.Event()
    while not true():
        assert machine_time.monotonic() < end, "it did not happen in time"
        gate.wait(0.05)
