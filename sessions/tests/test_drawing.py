"""Panels in parts: whatever changes, a browser that applies the change shows the new panel."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import orjson
from django.template import Context, Template
from hypothesis import given
from hypothesis import strategies as st

from sessions import panels, services
from sessions.live import LiveState, NodeRow, PodRow
from sessions.panels.drawing import PARTS_KEY, Drawing, Parts, change

NOON = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)


def applied(rows: dict[str, str], changes: dict) -> dict[str, str]:
    """Apply a change of one list as static/live.js does."""
    order = [key for key in rows if key not in changes.get("gone", {}).get("row", [])]
    shown = dict(rows)
    for key, html, *previous in changes.get("rows", {}).get("row", []):
        if html is not None:
            shown[key] = html
        if previous:
            if key in order:
                order.remove(key)
            order.insert(order.index(previous[0]) + 1 if previous[0] else 0, key)
    return {key: shown[key] for key in order}


keys = st.sampled_from("abcdefgh")
lists = st.lists(keys, unique=True).flatmap(
    lambda order: st.tuples(*(st.sampled_from("xyz") for _ in order)).map(
        lambda texts: dict(zip(order, texts, strict=True))
    )
)


@given(lists, lists)
def test_a_browser_that_applies_the_change_shows_the_new_rows_in_their_order(old, new):
    found = change(Drawing("o", {"row": old}), Drawing("o", {"row": new}))
    assert list(applied(old, found or {}).items()) == list(new.items())


@given(lists)
def test_what_is_the_same_is_not_sent(rows):
    assert change(Drawing("o", {"row": rows}), Drawing("o", {"row": dict(rows)})) is None


def test_one_row_that_moves_to_the_top_is_the_only_one_that_is_sent():
    old = {key: key for key in "abcdef"}
    new = {key: key for key in "fabcde"}
    found = change(Drawing("o", {"row": old}), Drawing("o", {"row": new}))
    assert found == {"rows": {"row": [["f", None, ""]]}}


def test_a_new_outline_sends_the_whole_panel():
    old, new = Drawing("<p><!--part:row--></p>", {"row": {}}), Drawing("<b><!--part:row--></b>", {"row": {"a": "A"}})
    assert change(old, new) == "<b>A</b>"
    assert change(None, new) == "<b>A</b>"


def pods(*rows, at=NOON):
    return LiveState(pods=list(rows), synced_at=at)


def pod(name, status="Running", restarts=0):
    return PodRow("ml", name, "1/1", status, restarts, "node-1", NOON, "", 1, False)


def test_a_pod_that_changes_is_one_row_of_at_most_a_kilobyte(live, time):
    before = [pod(f"worker-{number}") for number in range(100)]
    after = [*before[:40], pod("worker-40", "CrashLoopBackOff", 1), *before[41:]]
    old = panels.draw(live, "pods", panels.INTERVIEWER, pods(*before))
    new = panels.draw(live, "pods", panels.INTERVIEWER, pods(*after, at=NOON + timedelta(seconds=1)))
    found = change(old, new)
    assert [row[0] for row in found["rows"]["pod"]] == ["ml/worker-40"]
    assert found["as_of"] == 1777896001000
    assert set(found) == {"rows", "as_of"}
    assert len(orjson.dumps(found, option=orjson.OPT_NON_STR_KEYS)) <= 1024
    assert len(new.html()) > 50_000


def test_a_row_is_rendered_once_for_as_long_as_it_is_the_same(live, time, monkeypatch):
    from sessions.templatetags import live_parts

    rendered = []
    fresh = live_parts._fresh_row
    monkeypatch.setattr(live_parts, "_fresh_row", lambda kind, item: rendered.append(item.key) or fresh(kind, item))
    rows = [pod(f"fresh-{number}") for number in range(50)]
    panels.draw(live, "pods", panels.INTERVIEWER, pods(*rows))
    assert len(rendered) == 50
    rows[3] = pod("fresh-3", "Failed")
    panels.draw(live, "pods", panels.INTERVIEWER, pods(*rows))
    assert rendered[50:] == ["ml/fresh-3"]


def test_a_gpu_that_is_taken_sends_the_node_and_the_sum(live, time):
    def state(used):
        row = NodeRow("node-1", True, True, "amd64", "H100", 8, used, "96", "1008 GiB")
        return LiveState(nodes=[row], synced_at=NOON)

    old, new = (panels.draw(live, "nodes", panels.INTERVIEWER, state(used)) for used in (1, 2))
    found = change(old, new)
    assert [row[0] for row in found["rows"]["node"]] == ["node-1"]
    assert "2 of 8 GPUs" in found["slots"]["gpus"]


def test_the_node_of_the_toolbox_is_marked_and_not_counted(live, time):
    rows = [
        NodeRow("node-1", True, True, "amd64", "H100", 8, 3, "96", "1008 GiB"),
        NodeRow("own", True, True, "amd64", "T4", 1, 1, "96", "360 GiB", for_toolbox=True),
    ]
    html = panels.draw(live, "nodes", panels.INTERVIEWER, LiveState(nodes=rows, synced_at=NOON)).html()
    assert "3 of 8 GPUs" in html
    assert html.count(">Toolbox</span>") == 1


def test_text_cannot_pose_as_a_part():
    parts = Parts()
    template = Template("{% load live_parts %}{{ text }}{% slot 'count' %}<b>1</b>{% endslot %}")
    outline = template.render(Context({"text": Parts.mark("count"), PARTS_KEY: parts}))
    assert Drawing(outline, slots=parts.slots).html().count("<b>1</b>") == 1


def drawn(session, name):
    fresh = type(session).objects.get(pk=session.pk)
    return panels.draw(fresh, name, panels.INTERVIEWER, None)


def test_an_event_is_a_mark_and_a_row_of_the_time_line(live, time, ada):
    services.add_note(session=live, text="Reads the events first", actor=ada)
    old = drawn(live, "timeline")
    time.advance(10)
    services.add_note(session=live, text="Knows describe", actor=ada)
    found = change(old, drawn(live, "timeline"))
    assert set(found) == {"rows", "slots"}
    assert [len(found["rows"][kind]) for kind in ("mark", "moment")] == [1, 1]
    assert found["rows"]["moment"][0][2] == "", "the newest comes first"
    assert set(found["slots"]) == {"now", "newest"}


def test_a_hint_that_is_released_is_sent_without_the_others(live, ada):
    scenario = live.scenarios.get()
    old = {name: drawn(live, name) for name in ("hints", "run")}
    services.release_hint(scenario=scenario, index=1, actor=ada)
    assert set(change(old["hints"], drawn(live, "hints"))["slots"]) == {f"h{scenario.pk}-1"}
    assert change(old["run"], drawn(live, "run")) is None


def test_a_question_that_was_asked_changes_nothing_that_everybody_sees(live, ada):
    old = drawn(live, "run")
    services.mark_asked(question=live.questions.first(), actor=ada)
    assert not change(old, drawn(live, "run"))


def test_time_that_passes_changes_the_clocks_and_nothing_else_of_the_header(live, time):
    old = drawn(live, "header")
    time.advance(10)
    found = change(old, drawn(live, "header"))
    assert set(found["slots"]) == {"elapsed", "left"}
    assert len(orjson.dumps(found, option=orjson.OPT_NON_STR_KEYS)) <= 1024


def test_what_is_known_of_the_end_changes_by_its_own_line(live, ada):
    services.end(session=live, actor=ada)
    old = drawn(live, "outcome")
    type(live).objects.filter(pk=live.pk).update(access_revoked_at=NOON)
    assert set(change(old, drawn(live, "outcome"))["slots"]) == {"access"}
