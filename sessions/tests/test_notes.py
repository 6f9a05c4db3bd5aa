"""Notes, hints and questions, each bound to its moment."""

from __future__ import annotations

import pytest

from sessions import selectors, services
from sessions.errors import SessionError


def test_a_note_is_bound_to_session_time(live, ada, time):
    time.advance(42)
    note = services.add_note(session=live, text="  Describes the pod first.\r\n", actor=ada)
    assert (note.text, note.session_ms) == ("Describes the pod first.", 42_000)


@pytest.mark.parametrize("text", [pytest.param("", id="empty"), "x" * 4001, pytest.param("a\x00b", id="null")])
def test_it_refuses_a_note_that_cannot_be_kept(live, ada, text):
    with pytest.raises(SessionError) as caught:
        services.add_note(session=live, text=text, actor=ada)
    assert caught.value.field == "text"


def test_the_time_line_does_not_repeat_a_note(live, ada):
    services.add_note(session=live, text="Nervous.", actor=ada)
    assert "Nervous" not in str(live.events.latest("seq").payload)


def test_others_notes_show_after_ones_own_submission(ended, ada, grace):
    services.add_note(session=ended, text="Ada's.", actor=ada)
    services.add_note(session=ended, text="Grace's.", actor=grace)
    assert [note.text for note in selectors.notes_for(ended, ada)] == ["Ada's."]
    services.save_assessment(session=ended, actor=ada, version=0, overall="yes", takeaways="Calm")
    services.submit_assessment(session=ended, actor=ada)
    assert [note.text for note in selectors.notes_for(ended, ada)] == ["Ada's.", "Grace's."]


def test_a_hint_is_released_once_in_the_words_shown(live, scenario, ada, time):
    time.advance(5)
    hint = services.release_hint(scenario=scenario, index=0, actor=ada)
    again = services.release_hint(scenario=scenario, index=0, actor=ada)

    assert again == hint
    assert hint.text == selectors.pack_for(scenario).hints[0].text
    assert hint.session_ms == 5_000
    assert live.events.filter(kind="hint.released").count() == 1


def test_there_is_no_hint_past_the_last(live, scenario, ada):
    with pytest.raises(SessionError, match="there is no hint 99") as caught:
        services.release_hint(scenario=scenario, index=99, actor=ada)
    assert caught.value.field == "index"


def test_hints_are_frozen_after_the_end(ended, scenario, ada):
    with pytest.raises(SessionError, match="to give hints"):
        services.release_hint(scenario=scenario, index=0, actor=ada)


def test_a_question_is_asked_once(live, question, ada, time):
    time.advance(7)
    services.mark_asked(question=question, actor=ada)
    time.advance(7)
    again = services.mark_asked(question=question, actor=ada)
    assert again.asked_ms == 7_000
    assert live.events.filter(kind="question.asked").count() == 1
