"""The admin of questions and plans: find, read, edit as a new version; sessions only to look at."""

from __future__ import annotations

import re

import pytest
from django.conf import settings
from django.contrib.auth.models import Permission, User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse

from sessions.importers import banks
from sessions.models import Plan, Question, QuestionBank, QuestionVersion

OWN = settings.BASE_DIR / "sessions/content/question-bank.md"

QUESTION = {
    "category": "Basics",
    "title": "Why does etcd need quorum?",
    "prompt": "",
    "expected_answer": "A **majority**.",
    "follow_ups": "And with four members?\r\nWhy odd?",
    "hints": "- Think of a split.\r\n  Two halves.\r\n- Votes.",
    "discussion_points": "",
    "tags": "etcd, Raft consensus",
    "difficulty": "medium",
    "minutes": "8",
    "if_time_left": "on",
}
PARTS = "- title: Talk\n  minutes: 20\n  questions: [house/why-etcd]\n"
PLAN = {"slug": "talk", "title": "Talk", "summary": "", "parts": PARTS}


@pytest.fixture
def signed_in(client, root):
    client.force_login(root)
    return client


def url(model, page, *args):
    return reverse(f"admin:interview_sessions_{model}_{page}", args=args)


def text_of(response):
    return response.content.decode()


def test_it_needs_an_admin(client, ada):
    client.force_login(ada)
    assert client.get(url("question", "changelist")).status_code == 302


def test_all_24_imported_questions_are_visible(signed_in, db, sources):
    banks.import_bank(banks.read_file(sources / "question-bank.md"))
    html = text_of(signed_in.get(url("question", "changelist")))

    links = set(re.findall(r"/question/(\d+)/change/", html))
    assert len(links) == 24
    for pk in links:
        assert signed_in.get(url("question", "change", pk)).status_code == 200


def test_questions_can_be_searched_and_filtered(signed_in, db):
    banks.import_bank(banks.read_file(OWN))
    bank = QuestionBank.objects.get()

    assert "1 question" in text_of(signed_in.get(url("question", "changelist"), {"q": "nineteenth"}))
    filtered = text_of(signed_in.get(url("question", "changelist"), {"kind__exact": "architecture"}))
    assert "6 questions" in filtered
    assert f"?bank__id__exact={bank.pk}" in text_of(signed_in.get(url("questionbank", "changelist")))


def test_lists_take_no_query_for_each_row(signed_in, question_version, django_assert_max_num_queries):
    banks.import_bank(banks.read_file(OWN))
    with django_assert_max_num_queries(12):
        signed_in.get(url("question", "changelist"))
    with django_assert_max_num_queries(7):
        signed_in.get(url("questionbank", "changelist"))
    for number in range(9):
        plan = Plan.objects.create(slug=f"plan-{number}")
        plan.versions.create(number=1, title="P", parts=[{"title": "x", "minutes": 7}])
    with django_assert_max_num_queries(7):
        assert "7" in text_of(signed_in.get(url("plan", "changelist")))


def test_a_new_question_gets_its_key_kind_and_first_version(signed_in, question_version):
    bank = question_version.question.bank
    data = {**QUESTION, "title": "What is a lease?", "bank": bank.pk}
    assert signed_in.post(url("question", "add"), data).status_code == 302

    question = Question.objects.get(key="what-is-a-lease")
    version = question.versions.get()
    assert (question.kind, question.position, version.number) == ("full", 1, 1)
    assert version.follow_ups == ["And with four members?", "Why odd?"]
    assert version.hints == ["Think of a split.\nTwo halves.", "Votes."]
    assert question.tags == ["etcd", "raft-consensus"]
    assert (question.difficulty, question.minutes, question.if_time_left) == ("medium", 8, True)


def test_questions_are_found_by_tag_and_a_tag_that_is_too_long_is_refused(signed_in, question_version):
    data = {**QUESTION, "bank": question_version.question.bank_id}
    address = url("question", "change", question_version.question_id)
    assert "more than 30 characters" in text_of(signed_in.post(address, {**data, "tags": "x" * 31}))
    signed_in.post(address, data)
    assert "1 question" in text_of(signed_in.get(url("question", "changelist"), {"tag": "raft-consensus"}))
    assert "0 questions" in text_of(signed_in.get(url("question", "changelist"), {"tag": "raft"}))


@pytest.mark.parametrize("field", ["prompt", "expected_answer", "follow_ups", "hints", "discussion_points"])
def test_a_text_of_a_question_has_a_limit(signed_in, question_version, field):
    data = {**QUESTION, "bank": question_version.question.bank_id, field: "x" * 50_001}
    response = signed_in.post(url("question", "change", question_version.question_id), data)
    assert "50001" in text_of(response)
    assert QuestionVersion.objects.count() == 1


def test_the_same_title_is_refused_at_its_field(signed_in, question_version):
    bank = question_version.question.bank
    data = {**QUESTION, "title": "What is a lease?", "bank": bank.pk}
    signed_in.post(url("question", "add"), data)
    response = signed_in.post(url("question", "add"), data)

    assert "already has a question of this title" in text_of(response)
    assert Question.objects.count() == 2


def test_an_edit_makes_a_new_version_and_keeps_the_old_one(signed_in, question_version):
    question = question_version.question
    assert signed_in.post(url("question", "change", question.pk), QUESTION).status_code == 302
    signed_in.post(url("question", "change", question.pk), QUESTION)  # the same again

    assert [version.number for version in question.versions.all()] == [2, 1]
    assert question.versions.last().expected_answer == ""
    html = text_of(signed_in.get(url("question", "change", question.pk)))
    assert "<strong>majority</strong>" in html
    assert "- Think of a split.\n  Two halves.\n- Votes." in html
    assert "Version 1" in html


def test_hostile_markdown_is_shown_and_not_run(signed_in, question_version):
    QuestionVersion.objects.update(expected_answer="<script>alert(1)</script> [x](javascript:alert(2))")
    html = text_of(signed_in.get(url("question", "change", question_version.question.pk)))

    assert "<script>alert(1)" not in html
    assert 'href="javascript' not in html


def test_questions_are_archived_not_deleted(signed_in, question_version):
    question = question_version.question
    signed_in.post(url("question", "changelist"), {"action": "archive", "_selected_action": [question.pk]})

    question.refresh_from_db()
    assert question.archived
    assert signed_in.post(url("question", "delete", question.pk)).status_code == 403


def test_a_file_can_be_imported_in_the_browser(signed_in, db):
    file = SimpleUploadedFile("bank.md", b"# Uploaded\n\n## Why?\n- **Expected answer:** heat\n- Scoring: none\n")
    html = text_of(signed_in.post(url("questionbank", "import"), {"file": file}))

    assert "1 questions, 1 new" in html
    assert "Line 5 could not be placed" in html
    assert QuestionBank.objects.get().slug == "uploaded"


def test_a_file_can_be_checked_before_it_is_imported(signed_in, db):
    raw = b"# Uploaded\n\n## Why?\n- **Expected answer:** heat\n- Scoring: none\n"

    def send(**fields):
        file = SimpleUploadedFile("bank.md", raw)
        return text_of(signed_in.post(url("questionbank", "import"), {"file": file, **fields}))

    html = send(check_only="on")
    assert "Checked, nothing was changed." in html
    assert "Line 5 could not be placed" in html
    assert not QuestionBank.objects.exists()
    html = send()
    assert f"?bank__id__exact={QuestionBank.objects.get().pk}" in html
    assert text_of(signed_in.get(f"{url('question', 'changelist')}?bank__id__exact={QuestionBank.objects.get().pk}"))


def test_the_category_field_offers_what_there_is(signed_in, question_version):
    html = text_of(signed_in.get(url("question", "add")))
    assert 'list="known-category"' in html
    assert "<option>Basics</option>" in html


def test_a_bad_file_is_refused_at_its_field(signed_in, db):
    response = signed_in.post(
        url("questionbank", "import"), {"file": SimpleUploadedFile("bank.md", b"# A\n\xff"), "bank": ""}
    )
    assert response.status_code == 422
    assert "Line 2: this is not UTF-8 text" in text_of(response)
    assert not QuestionBank.objects.exists()


def test_importing_needs_the_right_to_add_banks(client, db):
    user = User.objects.create_user("clerk", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_questionbank"))
    client.force_login(user)
    assert client.get(url("questionbank", "import")).status_code == 403


def test_a_plan_is_made_and_edited_as_versions(signed_in, question_version):
    assert signed_in.post(url("plan", "add"), PLAN).status_code == 302
    plan = Plan.objects.get()
    shown = text_of(signed_in.get(url("plan", "change", plan.pk)))
    assert "Why does etcd need quorum?" in shown

    signed_in.post(url("plan", "change", plan.pk), {**PLAN, "parts": PARTS.replace("20", "25")})
    assert [version.parts[0]["minutes"] for version in plan.versions.all()] == [25, 20]
    assert plan.versions.first().parts[0]["questions"] == [str(question_version.question.uuid)]


def test_a_plan_may_close_the_access_while_paused(signed_in, question_version):
    signed_in.post(url("plan", "add"), {**PLAN, "close_while_paused": "on"})
    plan = Plan.objects.get()
    assert plan.versions.get().close_while_paused
    html = text_of(signed_in.get(url("plan", "change", plan.pk)))
    assert "access is closed while an interview is paused" in html
    assert re.search(r'<input[^>]*name="close_while_paused"[^>]* checked', html)
    signed_in.post(url("plan", "change", plan.pk), PLAN)
    assert [version.close_while_paused for version in plan.versions.all()] == [False, True]


def test_a_plan_shows_what_it_holds_and_what_it_could(signed_in, question_version, scenario_version):
    parts = "- title: Talk\n  minutes: 20\n  scenarios: [architecture-mismatch]\n  questions: [house/why-etcd]\n"
    signed_in.post(url("plan", "add"), {**PLAN, "parts": parts})
    html = text_of(signed_in.get(url("plan", "change", Plan.objects.get().pk)))
    assert "Talk, 20 min" in html
    assert "<li>Why does etcd need quorum?</li>" in html
    assert "<code>architecture-mismatch</code>" in html


def test_a_plan_can_be_copied_under_another_slug(signed_in, question_version):
    signed_in.post(url("plan", "add"), PLAN)
    change = url("plan", "change", Plan.objects.get().pk)
    refused = signed_in.post(change, {**PLAN, "_saveasnew": "1"})
    assert "already exists" in text_of(refused)
    assert signed_in.post(change, {**PLAN, "slug": "talk-2", "_saveasnew": "1"}).status_code == 302
    assert sorted(Plan.objects.values_list("slug", flat=True)) == ["talk", "talk-2"]
    assert all(plan.versions.count() == 1 for plan in Plan.objects.all())


def test_a_slip_in_a_plan_is_answered_with_the_likeliest_name(signed_in, question_version, scenario_version):
    for wrong, likeliest in (
        ("scenarios: [architecture-missmatch]", "architecture-mismatch"),
        ("questions: [Why does etcd need a quorum]", "Why does etcd need quorum?"),
    ):
        response = signed_in.post(url("plan", "add"), {**PLAN, "parts": f"- title: T\n  minutes: 20\n  {wrong}\n"})
        assert f"Did you mean “{likeliest}”?" in text_of(response)


def test_a_wrong_plan_is_refused_with_the_part_and_keeps_what_was_typed(signed_in, question_version):
    response = signed_in.post(url("plan", "add"), {**PLAN, "parts": PARTS.replace("why-etcd", "why-not")})

    assert "Part 1: the question “house/why-not” is not in any bank" in text_of(response)
    assert "[house/why-not]" in text_of(response)
    assert not Plan.objects.exists()


def test_sessions_are_to_look_at_and_show_no_ratings(signed_in, ended, scenario, ada):
    ended.assessments.update(takeaways="BLIND", private_notes="BLIND")
    ended.join_token_hash = "f" * 64
    ended.save()
    html = text_of(signed_in.get(url("interviewsession", "change", ended.pk)))

    assert "Sam Doe" in html
    assert reverse("scorecard", args=[ended.uuid]) in html
    assert "BLIND" not in html
    assert "f" * 64 not in html
    assert 'name="_save"' not in html
    assert "Sam Doe" in text_of(signed_in.get(url("interviewsession", "changelist"), {"q": "sam"}))
    assert signed_in.get(url("interviewsession", "add")).status_code == 403
