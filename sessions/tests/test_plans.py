"""Plans from YAML: resolved, checked with clear words, and versioned."""

import json
from textwrap import indent

import pytest

from sessions import services, subjects
from sessions.importers import plans
from sessions.importers.cuts import format_cuts
from sessions.importers.plans import PlanProblem
from sessions.models import Plan, Question, QuestionVersion

GOOD = """
- title: Repair
  minutes: 30
  scenarios: [architecture-mismatch]
- title: Talk
  minutes: 15
  questions: [house/why-etcd]
"""


SPOKEN = """
- title: Tour
  minutes: 10
  tasks: |
    Show *me* the nodes.
  criteria: [Names the labels, Finds the driver]
"""


def test_a_part_may_have_tasks_to_speak_about_and_nothing_else(db):
    (part,) = plans.parse_parts(SPOKEN)
    assert part == {
        "title": "Tour",
        "minutes": 10,
        "scenarios": [],
        "questions": [],
        "tasks": "Show *me* the nodes.",
        "criteria": ["Names the labels", "Finds the driver"],
    }
    assert plans.parse_parts(plans.parts_as_yaml([part])) == [part]


def test_a_session_of_spoken_tasks_alone_is_made_and_rated(db, ada, time):
    plan = Plan.objects.create(slug="tour")
    version = plans.save_plan(plan, title="Tour", summary="", parts=plans.parse_parts(SPOKEN))
    session = services.create_session(owner=ada, candidate_name="Sam", plan_version=version)
    assert session.minutes == 10
    assert [row.title for row in subjects.of_part(session, 0).criteria] == ["Names the labels", "Finds the driver"]


@pytest.fixture
def parts(scenario_version, question_version):
    return plans.parse_parts(GOOD)


def test_questions_can_be_named_in_three_ways(scenario_version, question_version):
    uuid = str(question_version.question.uuid)
    for name in ("house/why-etcd", "Why does etcd need quorum?", uuid):
        assert plans.parse_parts(GOOD.replace("house/why-etcd", f'"{name}"'))[1]["questions"] == [uuid]


def test_what_is_written_back_reads_the_same(parts):
    text = plans.parts_as_yaml(parts)

    assert "Why does etcd need quorum?" in text
    assert plans.parse_parts(text) == parts


def test_a_part_may_be_injected_when_it_starts_and_before_is_what_goes_without_saying(parts):
    def with_injection(chosen):
        return plans.parse_parts(GOOD.replace("minutes: 30", f"minutes: 30\n  injection: {chosen}"))

    assert with_injection("before") == parts
    assert with_injection("button")[0] == parts[0] | {"injection": "button"}
    assert plans.parse_parts(plans.parts_as_yaml(with_injection("button"))) == with_injection("button")


def test_json_is_read_too(parts):
    assert plans.parse_parts(json.dumps(parts)) == parts


def test_a_title_in_two_banks_must_be_named_by_its_key(parts, question_version):
    twin = Question.objects.create(bank=question_version.question.bank, key="twin", category="Basics", kind="bare")
    QuestionVersion.objects.create(question=twin, number=1, digest="d2", title=question_version.title)

    with pytest.raises(PlanProblem, match="Part 2: the question .* means several questions: write bank/key"):
        plans.parse_parts(GOOD.replace("house/why-etcd", f'"{question_version.title}"'))
    assert "house/why-etcd" in plans.parts_as_yaml(parts)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "list of 1 to 20 parts"),
        ("title: x", "list of 1 to 20 parts"),
        ("- [", "Line 2: this is not YAML"),
        ("[" * 20_000, "Line 1 is nested deeper than 20 levels."),
        ("{a: " * 12_000, "Line 1 is nested deeper than 20 levels."),
        ("[" + "a, " * 16_000 + "]", "Line 1 holds more than 5000 values."),
        ("- 2026-13-45", "not YAML that can be read"),
        ("x" * 50_001, "the limit is 50000"),
        ("- 7", "Part 1: write title, minutes"),
        (GOOD.replace("Talk", "''"), "Part 2: the title must be a text"),
        (GOOD.replace("15", "0"), "Part 2: minutes must be a whole number"),
        (GOOD.replace("15", "yes"), "Part 2: minutes must be a whole number"),
        (GOOD.replace("15", "440"), "take 470 minutes"),
        (GOOD.replace("questions", "question"), "Part 2: 'question' is unknown"),
        (GOOD.replace("[house/why-etcd]", "[]"), "Part 2: name at least one"),
        (GOOD.replace("[house/why-etcd]", "[Why: so]"), "Part 2: questions must be a list .* quote a text"),
        (GOOD.replace("house/why-etcd", "house/gone"), "Part 2: the question “house/gone” is not in any bank"),
        (GOOD.replace("architecture-mismatch", "none"), "Part 1: no scenario 'none' in the catalogue"),
        (GOOD.replace("mismatch]", "mismatch, architecture-mismatch]"), "Part 1: the scenario .* twice"),
        (GOOD.replace("etcd]", "etcd, house/why-etcd]"), "Part 2: the question .* twice"),
        (SPOKEN.replace("tasks: |", "tasks: 7 #").replace("    Show", "#"), "Part 1: tasks must be a text"),
        (SPOKEN.replace("[Names", f"[{'x' * 201}, Names"), "Part 1: write at most 20 criteria of 1 to 200"),
        (SPOKEN.replace("[Names", f"[{', '.join(map(str, ['x'] * 21))}, Names"), "Part 1: write at most 20 criteria"),
        (
            SPOKEN.replace("[Names", "[names the labels, Names"),
            "Part 1: the criterion “names the labels” is in it twice",
        ),
        (GOOD.replace("minutes: 30", "minutes: 30\n  criteria: [Calm]"), "Part 1: its scenarios bring their own"),
        (
            GOOD.replace("minutes: 30", "minutes: 30\n  injection: later"),
            "Part 1: injection must be one of bef",
        ),
        (GOOD.replace("minutes: 30", "minutes: 30\n  injection: [before]"), "Part 1: injection must be one of"),
        (GOOD.replace("minutes: 30", "minutes: 30\n  injection: automatic"), "Part 1: no part comes before it"),
        (GOOD.replace("minutes: 15", "minutes: 15\n  injection: button"), "Part 2: it has no scenario"),
    ],
)
def test_it_refuses_with_the_part_and_the_cause(scenario_version, question_version, text, message):
    with pytest.raises(PlanProblem, match=message) as caught:
        plans.parse_parts(text)
    assert "\n" not in str(caught.value)


def test_an_archived_scenario_cannot_be_planned(scenario_version, question_version):
    scenario_version.scenario.archived = True
    scenario_version.scenario.save()
    with pytest.raises(PlanProblem, match="archived"):
        plans.parse_parts(GOOD)


def test_the_same_content_makes_no_new_version(parts, scenario_version):
    plan = Plan.objects.create(slug="house")
    content = {"title": "House", "summary": "", "parts": parts}

    first = plans.save_plan(plan, **content)

    assert list(first.scenarios.all()) == [scenario_version]
    assert plans.save_plan(plan, **content) is None
    assert plans.save_plan(plan, **content | {"summary": "New."}).number == 2
    assert plans.save_plan(plan, **content | {"summary": "New.", "close_while_paused": True}).number == 3


@pytest.mark.parametrize(("line", "closes"), [("", False), ("close_while_paused: true\n", True)])
def test_a_file_may_close_the_access_while_paused(tmp_path, scenario_version, question_version, line, closes):
    path = tmp_path / "plan.yaml"
    path.write_text(f"slug: house\ntitle: House\nsummary: x\n{line}parts:\n" + indent(GOOD, "  "))
    assert plans.read_plan(path).close_while_paused is closes
    path.write_text(path.read_text().replace("parts:", "close_while_paused: maybe\nparts:"))
    with pytest.raises(PlanProblem, match="close_while_paused"):
        plans.read_plan(path)


def test_a_plan_has_cuts_that_are_kept_with_it(parts):
    lines = ["25: 20 5", "20: 20 -"]
    found = plans.resolve_cuts(lines, [{"minutes": 30}, {"minutes": 10}])
    assert found == [{"minutes": 25, "parts": [20, 5]}, {"minutes": 20, "parts": [20, None]}]
    assert format_cuts(found) == lines
    plan, content = Plan.objects.create(slug="house"), {"title": "House", "summary": "", "parts": parts}
    assert plans.save_plan(plan, **content, cuts=found).cuts == found
    assert plans.save_plan(plan, **content, cuts=found) is None
    assert plans.save_plan(plan, **content, cuts=found[:1]).number == 2


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("20", "write it as"),
        ("20: all of it", "write it as"),
        ("20: 20", "it has 1 numbers, and the plan has 2 parts"),
        ("99: 94 5", "part 1 has 1 to 30 minutes"),
        ("20: 0 20", "part 1 has 1 to 30 minutes"),
        ("21: 20 -", "its parts take 20 minutes"),
        ("4: 2 2", "at least 5 minutes"),
        ("40: 30 10", "fewer than the whole plan"),
        (["20: 20 -", "20: 10 10"], "two cuts of 20 minutes"),
        ([f"{total}: {total} -" for total in range(10, 17)], "at most 6"),
        ([20], "list of quoted texts"),
    ],
)
def test_a_cut_that_does_not_fit_its_plan_is_refused(line, message):
    planned = [{"minutes": 30}, {"minutes": 10}]
    with pytest.raises(PlanProblem, match=message):
        plans.resolve_cuts(line if isinstance(line, list) else [line], planned)


def test_a_file_may_have_cuts(tmp_path, scenario_version, question_version):
    path = tmp_path / "plan.yaml"
    path.write_text("slug: house\ntitle: House\nsummary: x\nparts:\n" + indent(GOOD, "  ") + "\ncuts: ['20: 20 -']\n")
    assert plans.read_plan(path).cuts == [{"minutes": 20, "parts": [20, None]}]


@pytest.mark.parametrize(
    ("title", "summary", "message"),
    [
        ("House", "x" * 2001, "the summary has 2001 characters; the limit is 2000"),
        ("x" * 201, "Calm.", "the title must have 1 to 200 characters"),
        (" ", "Calm.", "the title must have 1 to 200 characters"),
    ],
)
def test_a_file_with_a_title_or_summary_that_is_too_long_is_refused(tmp_path, title, summary, message):
    path = tmp_path / "plan.yaml"
    path.write_text(f"slug: house\ntitle: '{title}'\nsummary: {summary}\nparts:\n" + indent(GOOD, "  "))
    with pytest.raises(PlanProblem, match=message):
        plans.read_plan(path)
