"""The question importer, on text of our own and on the source bank where it is at hand."""

import json
import re
from io import StringIO

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from hypothesis import given
from hypothesis import settings as settings_for_fuzzing
from hypothesis import strategies as st

from sessions.importers import banks
from sessions.importers.outline import ImportProblem, decode
from sessions.importers.questions import parse
from sessions.models import Question, QuestionBank, QuestionVersion

OURS = """\
# **Tiny bank**

# Contents
- [Power](#power)
- [Cooling](#cooling)

# **Power**

## **1. Why does a GPU throttle?**
Ask this after the tour.

- **Expected Answer:**
  - **Power cap** reached:
    - look at `nvidia-smi -q -d PERFORMANCE`
  - Heat.

- **Follow-ups:**
  - Which *counter* tells?
    It has two lines.
- **Hints if struggling:**
  - "What does the clock do?"

### What does a rack cost?

# Design
## Feeding a room
### **Question:**
Forty racks,
one feeder.

### Discussion Points & Follow-Ups:
- Where is the limit? (breaker, cable)

## Nina's questions:
- which cable would you pull first
- Do not ask about price
"""


LINES = [line for line in OURS.splitlines() if "ontents" not in line and "(#" not in line] + [
    *("- - **Hints:** deep", "  - below", "    code", "> quoted", "```", "1. one", "Prompt: go", "**Hints**", "---"),
    *(
        "Answer",
        "**Expected answer**: bold",
        "**A:** short",
        "\U0001f4a1 Clues: bright",
        "**Is it so?**",
        "##Crowded?",
    ),
    *("Expected", "answer: torn", "**Red flags:**", "* [ ] Hints (if stuck): box", "\t- tabbed", "| a | b |"),
]
LABELS = {
    "expectedanswer",
    "followups",
    "hints",
    "hintsifstruggling",
    "question",
    "discussionpointsfollowups",
    "answer",
}
WITH_LABEL = re.compile(r"^\W*(prompt|expected answer|answer|a|clues|hints \(if stuck\))\W*:", re.IGNORECASE)


@pytest.fixture
def bank_file(tmp_path):
    path = tmp_path / "bank.md"
    path.write_text(OURS, encoding="utf-8")
    return path


@pytest.fixture
def source(sources):
    return sources / "question-bank.md"


def run(*args):
    out = StringIO()
    call_command("import_questions", *map(str, args), "--json", stdout=out)
    return json.loads(out.getvalue())


def refusal(path):
    with pytest.raises(CommandError) as caught:
        run(path)
    assert "\n" not in str(caught.value)
    assert not QuestionBank.objects.exists()
    return str(caught.value)


def test_it_reads_every_part_of_a_full_question():
    question = parse(OURS).questions[0]

    assert (question.kind, question.category, question.line) == ("full", "Power", 9)
    assert question.title == "Why does a GPU throttle?"
    assert question.prompt == "Ask this after the tour."
    assert question.expected_answer == (
        "- **Power cap** reached:\n  - look at `nvidia-smi -q -d PERFORMANCE`\n- Heat."
    )
    assert question.follow_ups == ["Which *counter* tells?\nIt has two lines."]
    assert question.hints == ['"What does the clock do?"']


def test_it_reads_prompts_bare_headings_and_bare_lists():
    _, cost, room, cable = parse(OURS).questions

    assert (cost.kind, cost.title) == ("bare", "What does a rack cost?")
    assert (room.kind, room.category, room.prompt) == ("architecture", "Design", "Forty racks,\none feeder.")
    assert room.discussion_points == ["Where is the limit? (breaker, cable)"]
    assert (cable.kind, cable.category) == ("bare", "Nina's questions")


def test_it_reports_what_it_left_out_with_lines():
    bank = parse(OURS)

    assert [(r.line, r.text) for r in bank.not_placed] == [(36, "Do not ask about price")]
    assert [r.reason for r in bank.ignored] == ["table of contents, lines 3-6"]
    assert [(r.line, r.text) for r in bank.notices] == [(5, "Cooling")]


def test_an_answer_may_follow_its_label_on_the_same_line():
    question = parse(
        "## Why?\n- **Expected answer:** **Because** of heat\n- Hints: look up\n- Scoring: none"
    ).questions[0]
    assert (question.expected_answer, question.hints) == ("**Because** of heat", ["look up"])


def test_an_unknown_label_is_reported_not_dropped():
    bank = parse("## Why?\n- **Expected answer:** heat\n- **Scoring:** none")
    assert [(r.line, r.text) for r in bank.not_placed] == [(3, "**Scoring:** none")]


def test_labels_may_be_headings_or_paragraphs():
    question = parse("## Why\n### Expected answer\nHeat.\n\n```sh\nls  -l\n```\n### Hints\n1. up\n2. down").questions[
        0
    ]
    assert question.expected_answer == "Heat.\n\n```sh\nls  -l\n```"
    assert question.hints == ["up", "down"]
    other = parse("## Why\n**Expected answer:**\n\n- Heat\n\n**Hints**\n\n- up").questions[0]
    assert (other.expected_answer, other.hints) == ("- Heat", ["up"])


HEAD = "# Bank\n## Heat\n### Why?\n"
SHAPES = {
    "setext": "Bank\n====\n\nHeat\n----\n\nWhy?\n----\n\n"
    "Expected answer:\n- heat\n\nFollow-ups:\n1. one\n2. two\n\nHints:\n- up",
    "tabs": HEAD + "-\tExpected answer: heat\n-\t**Follow-ups:**\n\t-\tone\n\t-\ttwo\n-\tHints:\n\t-\tup",
    "windows": "\ufeff# Bank\r\n## Heat\r\n### Why?\r\n"
    "- Expected answer: heat\r\n- Follow-ups:\r\n  - one\r\n  - two\r\n- Hints: up",
    "colon outside": HEAD + "**Answer**: heat\n\n**Follow-ups**:\n1. one\n2. two\n\n**Hints** :\n- up",
    "line by line": HEAD + "**Answer:** heat\n**Hints:** up\n**Follow-up questions**\n\n- one\n- two",
    "emoji": HEAD
    + "- \u2705 **Model answer:** heat\n- \U0001f501 Follow\u2011ups\uff1a\n  - one\n  - two\n- Clues: up",
    "label headings": "# Bank\n## Heat\n### Q1: Why?\n"
    "#### \u2705 Answer\nheat\n#### Follow-ups (pick two)\n- one\n- two\n#### Hints\n- up",
    "in a list": "# Bank\n## Heat\n1. **Why?**\n"
    "   - Answer: heat\n   - Follow-ups:\n     - one\n     - two\n   - Hints:\n     - up",
    "hard spaces": HEAD + "-\u00a0**Answer:**\u00a0heat\n- Follow-ups:\n  1. one\n  2. two\n- Hints\u00a0: up",
    "front matter": "---\ntitle: x\n---\n" + HEAD + "- Answer: heat\n- Follow-ups:\n  - one\n  - two\n- Hints: up",
}


@pytest.mark.parametrize("text", SHAPES.values(), ids=SHAPES)
def test_people_write_the_same_question_in_many_shapes(text):
    bank = parse(decode(text.encode()))
    (question,) = bank.questions
    assert (bank.title, question.category, question.title) == ("Bank", "Heat", "Why?")
    assert question.expected_answer.removeprefix("- ") == "heat"
    assert (question.follow_ups, question.hints) == (["one", "two"], ["up"])
    assert bank.not_placed == bank.notices == []


def test_bold_paragraphs_that_ask_are_questions_where_there_are_several():
    text = "# Bank\n## Heat\n**Q1: Why?**\n\nAnswer: a\n\n**Q2: How?**\n\n- Answer: b\n- Hints: c"
    assert [(q.title, q.expected_answer, q.hints) for q in parse(text).questions] == [
        ("Why?", "a", []),
        ("How?", "b", ["c"]),
    ]
    single = parse("# Bank\n## Design it\n**How would you?**\n\nAnswer: a").questions
    assert [(q.title, q.prompt) for q in single] == [("Design it", "**How would you?**")]


def test_tables_and_code_with_headings_stay_in_the_answer():
    table, code = "| a | b |\n| - | - |\n| 1 | 2 |", "```sh\n# no heading?\nls\n```"
    question = parse(f"## Why?\n**Answer:**\n\n{table}\n\n{code}\n\n**Hints:**\n- up").questions[0]
    assert question.expected_answer == f"{table}\n\n{code}"
    assert question.hints == ["up"]


def test_it_warns_of_what_was_surely_meant_otherwise():
    bank = parse(
        "## Why?\n- Expected answer:\n\n**Red flags:**\n\n##How?\n\n## Who?\n**Answer:**\n- me\n**Hints:** nobody"
    )
    assert [(remark.line, remark.reason.split(":")[0]) for remark in bank.notices] == [
        (4, "not a label that the format knows; it was kept as text"),
        (6, "not a heading"),
        (11, "part of the list above it"),
        (2, "a question with an empty part"),
    ]


def test_a_list_of_links_is_a_table_of_contents_by_any_name():
    bank = parse("# Bank\n## Overview\n- [Why?](#why)\n- [How?](#how)\n## Why?\n- Answer: a")
    assert [question.line for question in bank.questions] == [5]
    assert [(remark.line, remark.text) for remark in bank.notices] == [(4, "How?")]


def test_the_documented_example_reads_as_the_documentation_says():
    page = (settings.BASE_DIR / "docs/question-format.md").read_text(encoding="utf-8")
    bank = parse(page.split("```markdown\n")[1].split("\n```")[0])

    assert bank.title == "My bank"
    assert [(q.category, q.kind) for q in bank.questions] == [
        ("Scheduling", "full"),
        ("Design", "architecture"),
        ("Quick ones", "bare"),
        ("Quick ones", "bare"),
    ]
    assert bank.not_placed == bank.notices == []


def test_what_markdown_hides_is_reported():
    bank = parse("# Bank\n\n# Empty\n\n# Full\n- Why [x]?\n\n[x]: https://example.com\n\n<!-- later -->\n")

    assert [(r.line, r.text) for r in bank.not_placed] == [(8, "[x]: https://example.com")]
    assert [(r.line, r.text) for r in bank.notices] == [(3, "Empty")]
    assert [r.line for r in bank.ignored] == [10]


@settings_for_fuzzing(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(LINES), max_size=25))
def test_no_order_of_lines_breaks_it_or_loses_a_word(lines):
    """Every line is taken, reported, or refused in one line."""
    try:
        kept = _words(repr(parse("\n" + "\n".join(lines))))  # front matter, which is told by its lines only, is first
    except ImportProblem:
        return
    for line in lines:
        words = _words(WITH_LABEL.sub("", line.lstrip("#* 0123456789.-\t")))
        assert words in kept or words in LABELS


TAGGED = """# Bank
## Heat
Tags: Data Centre

### Why?
- **Expected answer:** fire
- **Tags:** physics, GPU memory, physics
- **Difficulty:** Hard
- **Minutes:** 12 or so
- **Only if time is left**

### How?
- **Expected answer:** so
- **Difficulty:** odd
- **Minutes:** 0
- **Only if time is left:** perhaps

## Quick
- Where?
  - Tags: maps
  - Only if time is left: no
"""


def test_questions_bring_tags_difficulty_minutes_and_the_flag():
    bank = parse(TAGGED)
    assert [question.attributes.stated() for question in bank.questions] == [
        {
            "tags": ["data-centre", "physics", "gpu-memory"],
            "difficulty": "hard",
            "minutes": 12,
            "if_time_left": True,
        },
        {"tags": ["data-centre"]},
        {"tags": ["maps"], "if_time_left": False},
    ]
    assert [(remark.line, remark.text) for remark in bank.notices] == [(14, "odd"), (15, "0"), (16, "perhaps")]
    assert bank.not_placed == []
    assert [question.expected_answer for question in bank.questions] == ["fire", "so", ""]


@pytest.mark.django_db
def test_what_a_file_does_not_state_stays_as_somebody_set_it(bank_file):
    run(bank_file)
    Question.objects.update(tags=["mine"], minutes=9)
    assert run(bank_file)["unchanged"] == 4
    assert set(Question.objects.values_list("minutes", flat=True)) == {9}


@pytest.mark.django_db
def test_seeding_fills_in_attributes_once_and_undoes_no_edit(bank_file):
    untagged = "# Bank\n## Heat\n### Why?\n- **Expected answer:** fire\n"
    banks.import_bank(untagged, keep_edits=True)
    tagged = untagged + "- **Tags:** physics\n- **Minutes:** 7\n"
    assert banks.import_bank(tagged, keep_edits=True).changed == 1
    assert Question.objects.values_list("tags", "minutes").get() == (["physics"], 7)
    Question.objects.update(tags=["mine"])
    assert banks.import_bank(tagged, keep_edits=True).unchanged == 1
    assert Question.objects.get().tags == ["mine"]


def test_every_question_of_our_own_bank_has_tags_and_the_contents_keep_their_promise():
    bank = parse((settings.BASE_DIR / "sessions/content/question-bank.md").read_text(encoding="utf-8"))
    assert all(question.attributes.tags and question.attributes.difficulty for question in bank.questions)
    assert sum(question.category == "Hybrid and on-premises clusters" for question in bank.questions) == 4
    assert any(question.attributes.if_time_left for question in bank.questions)
    assert bank.not_placed == bank.notices == []


@pytest.mark.django_db
def test_importing_twice_changes_nothing(bank_file):
    assert run(bank_file)["new"] == 4
    before = list(Question.objects.values()), list(QuestionVersion.objects.values())

    again = run(bank_file)

    assert (again["new"], again["changed"], again["unchanged"]) == (0, 0, 4)
    assert (list(Question.objects.values()), list(QuestionVersion.objects.values())) == before


@pytest.mark.django_db
def test_a_changed_wording_becomes_a_new_version_and_may_change_back(bank_file):
    run(bank_file)
    for text in (OURS.replace("- Heat.", "- Heat, or a slow fan."), OURS):
        bank_file.write_text(text, encoding="utf-8")
        assert run(bank_file)["changed"] == 1

    versions = Question.objects.get(key="why-does-a-gpu-throttle").versions.all()
    assert [version.number for version in versions] == [3, 2, 1]
    assert versions[0].expected_answer == versions[2].expected_answer


@pytest.mark.django_db
def test_a_question_that_left_the_file_is_kept_and_named(bank_file):
    run(bank_file)
    bank_file.write_text(OURS.replace("### What does a rack cost?\n", ""), encoding="utf-8")

    assert run(bank_file)["absent"] == ["what-does-a-rack-cost"]
    assert Question.objects.count() == 4


@pytest.mark.django_db
def test_the_bank_can_be_named(bank_file):
    assert run(bank_file, "--bank", "mine")["bank"] == "mine"
    with pytest.raises(CommandError, match="cannot name a bank"):
        run(bank_file, "--bank", "No Good")


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("raw", "message"),
    [
        pytest.param(b"", "empty", id="empty"),
        pytest.param(b" \n\n", "empty", id="blank"),
        pytest.param(b"\x7fELF\x02\x01\0\0", "binary", id="binary"),
        pytest.param(b"# A\n\n## Why \xff?\n", "Line 3: this is not UTF-8", id="invalid UTF-8"),
        pytest.param(b"# A\n" * 2_500_000, "10.0 MB", id="10 MB"),
        pytest.param(b"# Title\n\nSome text.\n", "No question found", id="no questions"),
        pytest.param(b"## Why?\n## What?\n## Why?\n", "Line 3: .* already asked in line 1", id="duplicate headings"),
        pytest.param(b"## Why?\n<script>alert(1)</script>\n", "Line 2: HTML is not read", id="HTML block"),
        pytest.param(b"## Why?\nso\nsaid <img src=x onerror=alert(1)>\n", "Line 3: HTML", id="inline HTML"),
        pytest.param(b"## Why?\n<br>\n\nget <name>\n", "Lines 2, 4: HTML is not read", id="HTML in many places"),
        pytest.param(b"## " + b"why " * 100 + b"?\n", "Line 1: .* the limit is 300", id="long heading"),
        pytest.param(b"##\n- Expected answer: x\n", "Line 1: the heading is empty", id="empty heading"),
    ],
)
def test_it_refuses_bad_files_in_one_line_and_writes_nothing(tmp_path, raw, message):
    path = tmp_path / "bad.md"
    path.write_bytes(raw)
    assert re.search(message, refusal(path))


@pytest.mark.django_db
def test_it_refuses_a_missing_file_and_a_folder(tmp_path):
    assert "No such file" in refusal(tmp_path / "none.md")
    assert "Is a directory" in refusal(tmp_path)


@pytest.mark.django_db
def test_the_plain_report_reads_well(bank_file):
    out = StringIO()
    call_command("import_questions", str(bank_file), stdout=out)

    assert "Tiny bank (tiny-bank): 4 questions" in out.getvalue()
    assert "line 36: Do not ask about price (asks nothing" in out.getvalue()


@pytest.mark.django_db
def test_checking_reports_and_changes_nothing(bank_file):
    assert run(bank_file, "--check")["new"] == 4
    out = StringIO()
    call_command("import_questions", str(bank_file), "--check", stdout=out)
    assert out.getvalue().startswith("Checked only: nothing was changed.\nTiny bank")
    assert not QuestionBank.objects.exists()


@pytest.mark.django_db
def test_the_source_bank_comes_in_whole(source):
    report = run(source)

    assert report["kinds"] == {"full": 13, "architecture": 5, "bare": 6}
    assert [remark["text"][:30] for remark in report["not_placed"]] == ["Probably don't need to test on"]
    source_lines = source.read_text(encoding="utf-8").splitlines()
    assert "Probably" in source_lines[report["not_placed"][0]["line"] - 1]
    assert run(source)["unchanged"] == 24


@pytest.mark.django_db
def test_no_line_of_the_source_bank_is_lost(source):
    """Every line with words is in some field, or is a label, a heading or reported."""
    report = run(source)
    kept = _words(_everything())
    reported = _words(" ".join(remark["text"] for remark in report["not_placed"]))
    contents = range(2, 18)
    labels = {"expectedanswer", "followups", "hintsifstruggling", "question", "discussionpointsfollowups"}
    for index, line in enumerate(source.read_text(encoding="utf-8").splitlines()):
        words = _words(line.lstrip("#* 0123456789."))
        if words and words not in labels and index not in contents:
            assert words in kept + reported, f"line {index + 1}: {line}"


def _everything():
    parts = [bank.title for bank in QuestionBank.objects.all()]
    for version in QuestionVersion.objects.select_related("question"):
        parts += [version.question.category, version.title, version.prompt, version.expected_answer]
        parts += [*version.follow_ups, *version.hints, *version.discussion_points]
    return " ".join(parts)


def _words(text):
    return "".join(char for char in text.lower() if char.isalnum())
