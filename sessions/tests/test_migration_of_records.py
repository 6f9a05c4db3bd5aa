"""Data of earlier versions: what was shared of a question becomes a record of whoever wrote it, and back."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from django.db import connections
from django.db.backends.sqlite3.base import DatabaseWrapper
from django.db.migrations.executor import MigrationExecutor

APP = "interview_sessions"
BEFORE = (APP, "0009_metric_samples")
AFTER = (APP, "0010_subjects_of_ratings_and_blind_question_records")
NOON = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)


def migrate(target):
    """Bring the database to a migration and return the models as they are there."""
    executor = MigrationExecutor(connections["default"])
    executor.migrate([target])
    return MigrationExecutor(connections["default"]).loader.project_state([target]).apps.get_model


@pytest.fixture
def earlier(settings, django_db_blocker):
    """The models of the version before, in a database of their own: the others' is made without migrations."""
    settings.MIGRATION_MODULES = {}
    usual = connections["default"]
    connections["default"] = DatabaseWrapper({**usual.settings_dict, "NAME": ":memory:", "OPTIONS": {}}, "default")
    with django_db_blocker.unblock():
        yield migrate(BEFORE)
        connections["default"].close()
    connections["default"] = usual


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
