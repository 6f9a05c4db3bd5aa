"""Subjects of ratings: what the database holds, and which criteria each subject brings."""

from __future__ import annotations

import pytest
from django.db import IntegrityError, transaction

from sessions import scores, services, subjects
from sessions.errors import SessionError
from sessions.models import Rating
from sessions.scorecards import build_scorecard


@pytest.fixture
def own(live, ada):
    return live.assessments.get(interviewer=ada)


def refuses(**columns) -> bool:
    """Tell whether the database refuses a rating with these columns."""
    try:
        with transaction.atomic():
            Rating.objects.create(criterion="c", **columns)
    except IntegrityError:
        return True
    return False


def test_the_database_takes_exactly_one_subject(own, scenario, question):
    whole = {"scenario": {"scenario": scenario}, "question": {"question": question}, "part": {"part": 0}}
    for kind, columns in {**whole, "interview": {}}.items():
        assert not refuses(assessment=own, subject=kind, **columns)
        others = [more for other, more in whole.items() if other != kind]
        for more in others:
            assert refuses(assessment=own, subject=kind, **columns, **more)
        if columns:
            assert refuses(assessment=own, subject=kind)


def test_the_database_takes_one_rating_for_each_interviewer_and_criterion(live, own, grace, scenario, question):
    other = live.assessments.get(interviewer=grace)
    for kind, columns in {
        "scenario": {"scenario": scenario},
        "question": {"question": question},
        "part": {"part": 0},
        "interview": {},
    }.items():
        assert not refuses(assessment=own, subject=kind, **columns)
        assert not refuses(assessment=other, subject=kind, **columns)
        assert refuses(assessment=own, subject=kind, **columns)


def test_a_session_has_the_subjects_of_its_parts_and_the_interview_last(live, scenario, question):
    live.parts = [
        *live.parts,
        {"title": "Tour", "minutes": 5},
        {"title": "Talk", "minutes": 5, "criteria": ["A", "B"]},
    ]
    found = subjects.of_session(live, [scenario], [question])
    assert [(one.kind.value, [row.key for row in one.criteria]) for one in found[1:]] == [
        ("question", ["answer"]),
        ("part", ["part"]),
        ("part", ["a", "b"]),
        ("interview", ["approach", "communication", "verification", "safety"]),
    ]
    assert found[0].kind == "scenario"
    assert len({one.key for one in found}) == len(found)


def test_keys_of_a_parts_criteria_are_short_and_differ_where_the_words_do():
    texts = ["Labels", "Принципы", "Причины", "x " * 90 + "a", "x " * 90 + "b", "!!!"]
    keys = [subjects.part_criterion_key(text) for text in texts]
    assert len(set(keys)) == len(keys)
    assert all(0 < len(key) <= subjects.MAX_KEY_LENGTH for key in keys)


def test_every_common_criterion_has_four_anchors_and_the_interview_weighs_forty():
    whole = subjects.of_interview()
    assert sum(criterion.weight for criterion in whole.criteria) == 40
    for criterion in (*whole.criteria, *subjects.part_criteria({})):
        assert sorted(criterion.anchors) == [1, 2, 3, 4]


def test_the_whole_interview_counts_by_its_weight(live, ada, scenario):
    rate(live, ada, subjects.of_scenario(scenario), "finds-the-error", 4)  # weight 20
    for key in ("approach", "communication"):
        rate(live, ada, subjects.of_interview(), key, 1)  # 10 each
    (item,) = build_scorecard(session=live, viewer=ada)["assessments"]
    assert item["computed"] == {"weighted_score": 2.5, "coverage": round(40 / 140, 3)}
    assert item["kinds"] == {"diagnosis": 3.0, "fix": None, "communication": 1.0}


def test_a_submission_from_before_there_were_subjects_is_read_as_it_was(live, ada, scenario):
    rate(live, ada, subjects.of_scenario(scenario), "finds-the-error", 4)
    session = services.end(session=live, actor=ada)
    own = session.assessments.get(interviewer=ada)
    services.save_assessment(session=session, actor=ada, version=own.version, overall="yes")
    rating = {"scenario": "architecture-mismatch", "criterion": "finds-the-error", "title": "t", "weight": 20}
    content = dict.fromkeys(("takeaways", "strengths", "concerns"), "") | {"overall": "yes"}
    own.revisions.create(
        number=1,
        submitted_at=session.ended_at,
        submitted_by=ada,
        content={**content, "ratings": [{**rating, "level": 4, "anchor": "", "note": "", "from_memory": True}]},
    )
    (item,) = build_scorecard(session=session, viewer=ada)["assessments"]
    assert item["computed"] == {"weighted_score": 4.0, "coverage": 0.2}  # of the scenario's 100 alone
    assert {row["subject"] for row in item["ratings"]} == {"scenario"}


def test_scores_by_kind_leave_out_what_has_none():
    rows = [
        {"kind": "fix", "weight": 1, "level": 4},
        {"kind": "", "weight": 9, "level": 1},
        {"kind": "fix", "weight": 1, "level": 2},
    ]
    assert scores.by_kind(rows) == {"diagnosis": None, "fix": 3.0, "communication": None}


def test_an_unknown_criterion_of_a_part_is_refused(live, ada):
    live.parts = [*live.parts, {"title": "Tour", "minutes": 5}]
    live.save()
    with pytest.raises(SessionError, match="no criterion 'answer'"):
        rate(live, ada, subjects.of_part(live, 2), "answer", 4)


def rate(session, actor, subject, criterion, level):
    services.save_subject_rating(
        session=session, subject=subject, criterion=criterion, level=level, version=0, actor=actor
    )
