"""The scorecard: complete, valid, blind where it must be, and safe to print."""

from __future__ import annotations

import json
from io import BytesIO

import jsonschema
import pytest
from pypdf import PdfReader

from faults import packs
from faults.models import FaultRun
from sessions import clock, scores, selectors, services
from sessions.models import CheckState, Note, SessionEvent
from sessions.scorecards import as_json, as_pdf, build_scorecard, file_name
from sessions.scorecards.as_json import schema

HOSTILE = '#panic("boom") $x$ #read("/etc/passwd") @label <a> *b* `raw` \\ ] } " // /* \n= Heading'


@pytest.fixture
def rated(live, scenario, question, ada, grace, time):
    """A whole interview: fault confirmed, a hint, notes of both, a fix that held, ratings, the end."""
    scenario.refresh_from_db()
    FaultRun.objects.filter(pk=scenario.run_id).update(injected_at=clock.now(), symptom_at=clock.now())
    time.advance(60)
    services.release_hint(scenario=scenario, index=0, actor=ada)
    services.mark_asked(question=question, actor=ada)
    services.save_question_record(question=question, answer="Majority.", version=0, actor=ada)
    services.add_note(session=live, text="Ada's note", actor=ada)
    services.add_note(session=live, text="Grace's note", actor=grace)
    services.pause(session=live, actor=ada)
    time.advance(600)
    services.resume(session=live, actor=ada)
    time.advance(30)
    check = selectors.pack_for(scenario).checks[0]
    CheckState.objects.update_or_create(
        scenario=scenario,
        key=check.key,
        defaults={"verdict": "pass", "finding": "it runs", "checked_at": clock.now(), "held_at": clock.now()},
    )
    scenario.fixed_at = scenario.held_at = clock.now()
    scenario.save()
    for actor, level in ((ada, 4), (grace, 1)):
        for criterion in selectors.pack_for(scenario).rubric[:2]:
            services.save_rating(
                scenario=scenario, criterion=criterion.key, level=level, note=f"by {actor}", version=0, actor=actor
            )
    return services.end(session=live, actor=ada)


@pytest.fixture
def submit(rated):
    def go(user, overall="strong_yes", **texts):
        own = selectors.assessment_for(rated, user)
        services.save_assessment(
            session=rated, actor=user, version=own.version, overall=overall, private_notes="SECRET", **texts
        )
        return services.submit_assessment(session=rated, actor=user)

    return go


def card_for(session, user):
    card = build_scorecard(session=session, viewer=user)
    jsonschema.Draft202012Validator(schema(), format_checker=jsonschema.FormatChecker()).validate(card)
    return card


def test_it_is_valid_from_the_draft_on(draft, ada):
    card = card_for(draft, ada)
    assert card["session"]["state"] == "draft"
    assert card["scenarios"][0]["timings"]["injected"] is None
    assert as_pdf(card).startswith(b"%PDF")


def test_it_tells_times_on_both_clocks(rated, ada):
    card = card_for(rated, ada)
    timings = card["scenarios"][0]["timings"]

    assert timings["fixed"] == {"at": "2026-05-04T12:11:30.000Z", "session_ms": 90_000}
    assert timings["symptom_confirmed"]["session_ms"] == 0
    assert card["session"]["elapsed_ms"] == 90_000
    assert [entry["kind"] for entry in card["session"]["clock"]] == ["start", "pause", "resume", "end"]


def test_it_holds_checks_hints_questions_and_versions(rated, ada, scenario_version):
    card = card_for(rated, ada)
    scenario = card["scenarios"][0]
    pack = packs.parse(scenario_version.files)

    assert scenario["digest"] == scenario_version.digest
    assert scenario["checks"][0] | {"finding": "it runs", "verdict": "pass"} == scenario["checks"][0]
    assert [check["verdict"] for check in scenario["checks"][1:]] == ["not_run", "not_run"]
    assert scenario["points"] == {"earned": pack.checks[0].points, "possible": 100}
    assert len(scenario["guards"]) == len(pack.guards)
    assert scenario["hints"][0] | {"text": pack.hints[0].text, "session_ms": 60_000} == scenario["hints"][0]
    assert card["questions"][0]["answer_note"] == "Majority."


def test_ratings_carry_anchor_and_weight_and_blanks_stay_null(rated, ada, submit, scenario_version):
    submit(ada)
    ratings = card_for(rated, ada)["assessments"][0]["ratings"]
    rubric = packs.parse(scenario_version.files).rubric

    assert ratings[0]["anchor"] == rubric[0].anchors[4]
    assert [rating["level"] for rating in ratings[:6]] == [4, 4, None, None, None, None]
    assert [rating["weight"] for rating in ratings[:6]] == [criterion.weight for criterion in rubric]


def test_before_submitting_one_sees_only_what_is_ones_own(rated, ada, grace, submit):
    submit(grace, takeaways="Grace's verdict")
    card = card_for(rated, ada)
    text = as_json(card).decode()

    assert [item["interviewer"] for item in card["assessments"]] == ["ada"]
    assert card["assessments"][0]["status"] == "draft"
    assert "by grace" not in text
    assert "Grace's" not in text
    assert card["computed"] == {"weighted_score": None, "coverage": 0.0}
    assert [(row["interviewer"], row["submitted"]) for row in card["submissions"]] == [
        ("ada", False),
        ("grace", True),
    ]


def test_after_submitting_one_sees_what_others_submitted_but_no_draft(rated, ada, grace, submit):
    submit(ada)
    assert [item["interviewer"] for item in card_for(rated, ada)["assessments"]] == ["ada"]
    submit(grace, overall="no")

    card = card_for(rated, ada)
    assert [item["interviewer"] for item in card["assessments"]] == ["ada", "grace"]
    assert card["computed"]["weighted_score"] == 2.5
    assert {note["author"] for note in card["notes"]} == {"ada", "grace"}


def test_another_sees_the_submission_and_not_the_revision_under_way(rated, ada, grace, submit):
    submit(ada)
    submit(grace, takeaways="As submitted")
    services.revise_assessment(session=rated, actor=grace, reason="typo")
    own = selectors.assessment_for(rated, grace)
    services.save_assessment(session=rated, actor=grace, version=own.version, takeaways="Under way")

    text = as_json(card_for(rated, ada)).decode()
    assert "As submitted" in text
    assert "Under way" not in text


def test_an_admin_sees_who_submitted_and_contents_only_when_all_have(rated, root, ada, grace, submit):
    submit(ada)
    card = card_for(rated, root)
    assert card["assessments"] == card["notes"] == []
    assert [row["submitted"] for row in card["submissions"]] == [True, False]

    submit(grace)
    assert len(card_for(rated, root)["assessments"]) == 2


def test_private_notes_are_in_no_export(rated, ada, submit):
    submit(ada)
    card = card_for(rated, ada)
    assert b"SECRET" not in as_json(card)
    assert "SECRET" not in text_of(as_pdf(card))


def test_it_carries_the_head_of_the_time_line(rated, ada):
    last = SessionEvent.objects.filter(session=rated).order_by("seq").last()
    assert card_for(rated, ada)["timeline"] == {"events": last.seq, "head": last.hash, "broken_at": None}


def test_hostile_text_is_printed_as_it_was_typed(rated, ada):
    Note.objects.update(text=HOSTILE)
    type(rated).objects.update(candidate_name=HOSTILE[:60])
    card = card_for(rated, ada)
    printed = text_of(as_pdf(card))

    assert '#panic("boom")' in printed
    assert '#read("/etc/passwd")' in printed
    assert "= Heading" in printed


def test_the_pdf_says_what_matters(rated, ada, submit):
    submit(ada, takeaways="Calm and exact.")
    printed = text_of(as_pdf(card_for(rated, ada)))
    for words in ("Sam Doe", "Strong yes", "Calm and exact.", "Outstanding", "Why does etcd need quorum?", "it runs"):
        assert words in printed


def test_long_words_and_many_notes_fill_pages(rated, ada):
    Note.objects.bulk_create(
        Note(session=rated, author=ada, at=clock.now(), session_ms=i, text="x" * 900) for i in range(60)
    )
    assert len(PdfReader(BytesIO(as_pdf(card_for(rated, ada)))).pages) > 5


def test_files_are_named_for_the_candidate(rated, ada):
    type(rated).objects.update(candidate_name='../Zoë "X"\r\n王')
    assert file_name(card_for(rated, ada), "pdf") == "scorecard-zoe-x-2026-05-04.pdf"


def test_the_score_weighs_and_leaves_out_what_was_not_assessed():
    ratings = [{"weight": 30, "level": 4}, {"weight": 10, "level": 2}, {"weight": 60, "level": None}]
    assert scores.computed(ratings) == {"weighted_score": 3.5, "coverage": 0.4}
    assert scores.computed([]) == {"weighted_score": None, "coverage": 0.0}


@pytest.mark.parametrize(
    ("overall", "score", "expected"),
    [("yes", 3.9, False), ("yes", 2.0, True), ("no_decision", 1.0, False), ("no", None, False)],
)
def test_a_recommendation_far_from_the_score_is_flagged(overall, score, expected):
    assert scores.differs(overall, score) is expected


def test_reading_it_takes_a_fixed_number_of_queries(rated, ada, django_assert_max_num_queries):
    Note.objects.bulk_create(
        Note(session=rated, author=ada, at=clock.now(), session_ms=i, text="n") for i in range(50)
    )
    with django_assert_max_num_queries(32):
        json.loads(as_json(build_scorecard(session=selectors.session_for(ada, rated.uuid), viewer=ada)))


def text_of(pdf):
    pages = (page.extract_text() for page in PdfReader(BytesIO(pdf)).pages)
    return "\n".join(pages).replace("\u200b", "")
