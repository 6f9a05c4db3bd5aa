"""The scorecard of an eventful interview: two interviewers, a reopening, a broken guard, a fix that did not last."""

from __future__ import annotations

import copy
from datetime import timedelta
from io import BytesIO

import jsonschema
import pytest
from pypdf import PdfReader

from faults.checks import Outcome
from faults.models import FaultRun
from sessions import clock, selectors, services
from sessions.observer import checking
from sessions.scorecards import as_pdf, build_scorecard
from sessions.scorecards.as_json import schema

HOSTILE = '#panic("boom") $x$ #read("/etc/passwd") </script><img src=x onerror=alert(1)> *b* \\ ] } "'
LEVELS = {
    "ada": [4, 3, None, 2, 3, None],  # weights 20, 20, 10, 20, 20, 10
    "grace": [3, 3, 2, None, None, None],
}


@pytest.fixture
def story(live, scenario, question, ada, grace, time):
    """Tell it as it would happen, minute by minute."""
    scenario.refresh_from_db()
    FaultRun.objects.filter(pk=scenario.run_id).update(injected_at=clock.now(), symptom_at=clock.now())
    look = _looking(scenario, time)
    look("fail")
    time.advance(120)
    services.release_hint(scenario=scenario, index=0, actor=ada)
    services.add_note(session=live, text="Reads the log first.\nThen the nodes.", actor=ada)
    services.add_note(session=live, text=HOSTILE, actor=grace)
    services.add_note(session=live, text="w" * 300, actor=grace)
    time.advance(60)
    services.release_hint(scenario=scenario, index=2, actor=grace)
    services.pause(session=live, actor=ada)
    time.advance(300)
    services.resume(session=live, actor=ada)
    services.extend(session=live, minutes=10, actor=ada)
    services.credit(session=live, seconds=90, reason="The practice cluster did not answer.", actor=ada)
    look("pass", guard="fail", seconds=60)
    look("pass", seconds=15)
    look("fail", seconds=20)
    look("fail", seconds=10)  # it counts from here on
    services.mark_asked(question=question, actor=grace)
    services.save_question_record(question=question, answer="A majority has to agree.", version=0, actor=grace)
    services.end(session=live, actor=ada)
    time.advance(120)
    services.reopen(session=live, actor=ada)
    look("pass", seconds=60)
    look("pass", seconds=15)
    services.end(session=live, actor=ada)
    for actor in (ada, grace):
        _rate(scenario, actor)
    return live


def _looking(scenario, time):
    """Return an observer's look; in between it sees every ten seconds what it saw before."""
    pack = selectors.pack_for(scenario)
    seen = []

    def look(verdict, guard="pass", seconds=0):
        finding = "image python:3.9-slim; pods: Succeeded" if verdict == "pass" else "there is no job of that name"
        outcomes = {check.key: Outcome(verdict, finding) for check in pack.checks}
        outcomes |= {row.key: Outcome("pass", "2 of 2 replicas available") for row in pack.guards}
        outcomes[pack.guards[0].key] = Outcome(guard, "1 of 2 replicas available" if guard == "fail" else "2 of 2")
        now = time.advance(seconds)
        while seen and seen[0][0] + timedelta(seconds=10) < now:
            seen[0] = (seen[0][0] + timedelta(seconds=10), seen[0][1])
            checking.record(scenario, pack, seen[0][1], seen[0][0])
        checking.record(scenario, pack, outcomes, now)
        seen[:] = [(now, outcomes)]

    return look


def _rate(scenario, actor):
    for criterion, level in zip(selectors.pack_for(scenario).rubric, LEVELS[actor.get_username()], strict=True):
        services.save_rating(
            scenario=scenario,
            criterion=criterion.key,
            level=level,
            note=f"As seen by {actor}.",
            version=0,
            actor=actor,
        )


@pytest.fixture
def submitted(story, ada, grace):
    _submit(story, ada, "yes", takeaways="Systematic.", strengths="Reads before acting.", concerns="Two hints.")
    _submit(story, grace, "strong_yes", takeaways="Fast.", concerns="")
    return story


def _submit(session, actor, overall, **texts):
    own = selectors.assessment_for(session, actor)
    services.save_assessment(session=session, actor=actor, version=own.version, overall=overall, **texts)
    services.submit_assessment(session=session, actor=actor)


def card_for(session, user):
    card = build_scorecard(session=session, viewer=user)
    jsonschema.Draft202012Validator(schema(), format_checker=jsonschema.FormatChecker()).validate(card)
    return card


def text_of(card):
    pages = PdfReader(BytesIO(as_pdf(card))).pages
    return "\n".join(page.extract_text() for page in pages).replace("\u200b", "")


@pytest.fixture(scope="module")
def built():
    """Story built for the first test that asks, and kept: each telling takes half a second of computing."""
    return {}


@pytest.fixture
def card(built, request):
    """The scorecard of the story."""
    if not built:
        built["card"] = card_for(*map(request.getfixturevalue, ("submitted", "ada")))
    return copy.deepcopy(built["card"])


@pytest.fixture
def printed(built, card):
    """The text of its PDF."""
    if "printed" not in built:
        built["printed"] = text_of(card)
    return built["printed"]


def test_the_scores_are_those_of_a_calculation_by_hand(card):
    by = {item["interviewer"]: item["computed"] for item in card["assessments"]}
    # The scenario's criteria weigh 100, those of the whole interview 40, and grace alone asked the question: 20.
    # ada: 20*4 + 20*3 + 20*2 + 20*3 = 240 over 80 of 140; grace: 20*3 + 20*3 + 10*2 = 140 over 50 of 160
    assert by["ada"] == {"weighted_score": 3.0, "coverage": 0.571}
    assert by["grace"] == {"weighted_score": 2.8, "coverage": 0.312}
    # both: 240 + 140 = 380 over 130 of 300
    assert card["computed"] == {"weighted_score": 2.92, "coverage": 0.433}
    assert [item["differs_from_score"] for item in card["assessments"]] == [False, True]


def test_page_json_and_pdf_mark_ratings_without_evidence(client, story, ada, scenario):
    key = selectors.pack_for(scenario).rubric[-1].key
    services.save_rating(scenario=scenario, criterion=key, level=2, note=" ", version=1, actor=ada)
    card = card_for(story, ada)
    found = {rating["criterion"]: rating["evidence"] for rating in card["assessments"][0]["ratings"]}
    assert found[key] == "missing"
    assert set(found.values()) <= {"note", "from_memory", "missing", None}
    assert "No evidence given" in text_of(card)
    client.force_login(ada)
    assert "No evidence</span>" in client.get(f"/sessions/{story.uuid}/scorecard/").content.decode()


def test_it_tells_of_both_clocks_pauses_credits_and_the_reopening(card):
    session = card["session"]
    assert [entry["kind"] for entry in session["clock"]] == [
        *("start", "pause", "resume", "extend", "credit", "end", "resume", "end")
    ]
    assert (session["elapsed_ms"], session["extended_s"], session["credited_s"]) == (360_000, 600, 90)


def test_a_fix_that_did_not_last_a_broken_guard_and_hints_are_in_it(card):
    scenario = card["scenarios"][0]
    assert scenario["timings"]["fixed"]["session_ms"] == 240_000
    assert scenario["timings"]["held"]["session_ms"] == 355_000
    assert scenario["guards"][0]["broken"]["session_ms"] == 240_000
    assert scenario["guards"][0]["verdict"] == "pass"
    assert [(hint["tier"], hint["by"], hint["session_ms"]) for hint in scenario["hints"]] == [
        (1, "ada", 120_000),
        (2, "grace", 180_000),
    ]


def test_the_pdf_has_all_of_it(printed):
    for words in (
        *(
            "Sam Doe",
            "Yes ada",
            "Strong yes grace",
            "2.9",
            "Reads before acting.",
            "Not assessed",
            "As seen by grace.",
        ),
        *("A majority has to agree.", "What did the program itself say", '#read("/etc/passwd")', "Then the nodes."),
        *("The practice cluster did not answer.", "architecture-mismatch"),
    ):
        assert words in printed, words


def test_a_repair_that_came_undone_is_told(card, printed):
    assert [moment["session_ms"] for moment in card["scenarios"][0]["timings"]["regressed"]] == [285_000]
    assert "A repair that had held came undone at 04:45." in printed
    assert "came undone 1 time" in printed


def test_a_reopening_and_a_guard_that_was_broken_show_in_the_pdf(printed):
    for words in ("Reopened", "Was broken", "1 guard was broken", "2 hints;", "repaired at 04:00, held at 05:55;"):
        assert words in printed, words


def test_what_no_font_can_draw_is_said_and_not_left_to_boxes(card):
    assert b"pdfaid" in as_pdf(card)
    for name in ("\U000131f0\U000131f1", "Zoë Ελένη Жанна"):
        card["candidate"]["name"] = name
        assert ("no font for some of its characters (Egyptian)" in text_of(card)) is (name[0] == "\U000131f0")
