"""Data of earlier versions: what was shared of a question becomes a record of whoever wrote it, and back.

Their databases come step by step to the tables that new ones begin with.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest
from django.db import connections
from django.db.backends.sqlite3.base import DatabaseWrapper
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader

APP = "interview_sessions"
BEFORE = (APP, "0009_metric_samples")
AFTER = (APP, "0010_subjects_of_ratings_and_blind_question_records")
LAST = (APP, "0014_has_tied_faults")
NOON = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)


def migrate(target):
    """Bring the database of an earlier version to a migration and return the models as they are there."""
    executor = MigrationExecutor(connections["default"])
    executor.loader = MigrationLoader(connections["default"], replace_migrations=False)
    executor.migrate([target])
    return executor.loader.project_state([target]).apps.get_model


@contextmanager
def empty_database():
    """Have an empty database of one's own for a while."""
    usual = connections["default"]
    connections["default"] = DatabaseWrapper({**usual.settings_dict, "NAME": ":memory:", "OPTIONS": {}}, "default")
    try:
        yield
    finally:
        connections["default"].close()
        connections["default"] = usual


@pytest.fixture
def earlier(settings, django_db_blocker):
    """The models of the version before, in a database of their own: the others' is made without migrations."""
    settings.MIGRATION_MODULES = {}
    with django_db_blocker.unblock(), empty_database():
        yield migrate(BEFORE)


def tables():
    """Return what the database enforces: of each table its columns and constraints in any order, and the indexes."""
    with connections["default"].cursor() as cursor:
        cursor.execute(
            "SELECT name, tbl_name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name != 'sqlite_sequence'"
        )
        rows = cursor.fetchall()
    parts = {name: sorted(re.split(r", (?=[\"C])", sql.partition("(")[2].removesuffix(")"))) for name, _, sql in rows}
    return {re.sub("_[0-9a-f]{8}(_fk.*|_uniq|_like)?$", "", name): found for name, found in parts.items()}


@pytest.fixture
def stored(earlier):
    """A session of ada and grace: grace asked, ada noted the answer, and a rating of ada's."""
    User = earlier("auth", "User")
    ada, grace = (User.objects.create(username=name) for name in ("ada", "grace"))
    session = earlier(APP, "InterviewSession").objects.create(
        owner=ada, candidate_name="Sam", title="T", minutes=60, state="live"
    )
    own, _ = (earlier(APP, "Assessment").objects.create(session=session, interviewer=user) for user in (ada, grace))
    bank = earlier(APP, "QuestionBank").objects.create(slug="b", title="B")
    question = earlier(APP, "Question").objects.create(bank=bank, key="k", category="c", kind="bare")
    version = earlier(APP, "QuestionVersion").objects.create(question=question, number=1, digest="d", title="Why?")
    asked = earlier(APP, "SessionQuestion").objects.create(
        session=session,
        question_version=version,
        position=0,
        asked_at=NOON,
        asked_ms=5000,
        answer_note="Quorum.",
        version=3,
    )
    earlier(APP, "SessionQuestion").objects.create(session=session, question_version=version, position=1)
    for seq, (kind, actor) in enumerate([("question.asked", "grace"), ("question.noted", "ada")], 1):
        earlier(APP, "SessionEvent").objects.create(
            session=session,
            seq=seq,
            at=NOON,
            session_ms=5000,
            kind=kind,
            actor=f"user:{actor}",
            payload={"question": str(asked.uuid)},
            hash=str(seq),
        )
    scenario = earlier("faults", "Scenario").objects.create(slug="s")
    pack = earlier("faults", "ScenarioVersion").objects.create(
        scenario=scenario, number=1, digest="d", files={}, title="S", category="c", difficulty="easy", minutes=5
    )
    held = earlier(APP, "SessionScenario").objects.create(session=session, scenario_version=pack, position=0)
    earlier(APP, "Rating").objects.create(assessment=own, scenario=held, criterion="c", level=3)


def test_ratings_and_answers_of_earlier_versions_go_forth_and_back(stored):
    now = migrate(AFTER)
    records = now(APP, "QuestionRecord").objects.order_by("assessment")
    found = [(row.assessment.interviewer.username, row.asked_ms, row.answer, row.version) for row in records]
    assert found == [("ada", None, "Quorum.", 3), ("grace", 5000, "", 0)]
    rating = now(APP, "Rating").objects.get()
    assert (rating.subject, rating.scenario_id is None, rating.level) == ("scenario", False, 3)
    now(APP, "Rating").objects.create(assessment=rating.assessment, subject="interview", criterion="safety", level=4)

    again = migrate(BEFORE)
    question = again(APP, "SessionQuestion").objects.get(position=0)
    assert (question.asked_at, question.asked_ms, question.answer_note) == (NOON, 5000, "Quorum.")
    assert list(again(APP, "Rating").objects.values_list("criterion", "level")) == [("c", 3)]


def test_a_database_of_an_earlier_version_comes_to_the_tables_of_a_new_one(earlier):
    migrate(LAST)
    come_to = tables()
    executor = MigrationExecutor(connections["default"])
    ours = [key for key in executor.loader.graph.leaf_nodes() if key[0] in (APP, "faults")]
    assert not executor.migration_plan(ours)
    executor.check_replacements()  # as `up` does where there is nothing else to do
    assert set(ours) <= executor.recorder.applied_migrations().keys()
    with empty_database():
        executor = MigrationExecutor(connections["default"])
        plan = executor.migration_plan(executor.loader.graph.leaf_nodes(APP))
        assert [each.name for each, _ in plan if each.app_label in (APP, "faults")] == [
            "0001_squashed_0009_tied_faults",
            "0001_squashed_0014_has_tied_faults",
        ]
        executor.migrate(executor.loader.graph.leaf_nodes(APP))
        assert tables() == come_to
