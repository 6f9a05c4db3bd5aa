"""The plan builder: put together, found, previewed and saved, for those who may change plans."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Permission

from sessions.models import Plan, Question, QuestionVersion

HTMX = {"HX-Request": "true"}
NEW = "/plans/new/"
HOSTILE = "<script>alert(1)</script>\"'&"
REPAIR = "s:architecture-mismatch"


@pytest.fixture
def curator(mallory):
    """Somebody who may make and change plans, and is no superuser."""
    names = ("add_plan", "change_plan")
    mallory.user_permissions.set(Permission.objects.filter(codename__in=names))
    return mallory


@pytest.fixture
def signed_in(client, curator):
    client.force_login(curator)
    return client


@pytest.fixture
def ref(question_version) -> str:
    return f"q:{question_version.question.uuid}"


@pytest.fixture
def stored(signed_in, scenario_version, ref):
    """A plan of two parts, as the builder saves it."""
    rows = {"row": ["part:a", REPAIR, "part:b", ref], "title-a": "Repair", "minutes-a": "30"}
    response = signed_in.post(NEW, {"title": "An hour", "summary": "Calm.", "save": "", **rows})
    assert response.status_code == 302
    return Plan.objects.get()


def shown(response) -> list[str]:
    """Return the rows of the outline as the page has them."""
    text = response.content.decode()
    return [part.partition('"')[0] for part in text.split('name="row" value="')[1:]]


def said(response) -> str:
    """Return what a screen reader is told."""
    return response.content.decode().split('id="said" role="status">')[1].partition("<")[0]


def test_a_new_plan_is_saved_with_its_parts(stored, question_version):
    version = stored.versions.get()
    assert (stored.slug, version.title, version.summary) == ("an-hour", "An hour", "Calm.")
    assert version.parts == [
        {"title": "Repair", "minutes": 30, "scenarios": ["architecture-mismatch"], "questions": []},
        {"title": "Part 2", "minutes": 5, "scenarios": [], "questions": [str(question_version.question.uuid)]},
    ]
    assert version.scenarios.get().scenario.slug == "architecture-mismatch"


def test_a_summary_that_is_too_long_is_refused_at_its_field(signed_in, stored, ref):
    rows = {"row": ["part:a", REPAIR, "part:b", ref], "title-a": "Repair", "minutes-a": "30"}
    response = signed_in.post(NEW, {"title": "Another", "summary": "x" * 2001, "save": "", **rows})
    assert response.status_code == 422
    assert "at most 2000 characters" in response.content.decode()
    assert Plan.objects.get() == stored


def test_a_change_is_a_new_version_and_the_same_content_none(signed_in, stored, ref):
    url = f"/plans/{stored.uuid}/"
    response = signed_in.get(url)
    assert 'value="Repair"' in response.content.decode()
    assert shown(response) == ["part:p1", REPAIR, "part:p2", ref]
    typed = {"title-p1": "Repair", "minutes-p1": "30", "title-p2": "Part 2", "minutes-p2": "5"}
    for _ in range(2):
        rows = {"row": ["part:p2", ref, "part:p1", REPAIR]}
        signed_in.post(url, {"title": "An hour", "summary": "Calm.", "save": "", **rows, **typed})
    assert [version.number for version in stored.versions.all()] == [2, 1]
    assert [part["title"] for part in stored.versions.first().parts] == ["Part 2", "Repair"]


def test_cuts_are_typed_a_line_each_and_come_back(signed_in, stored, ref):
    url = f"/plans/{stored.uuid}/"
    rows = {"row": ["part:a", REPAIR, "part:b", ref], "title-a": "Repair", "minutes-a": "30", "title": "An hour"}
    refused = signed_in.post(url, {**rows, "cuts": "20: 20 10", "save": ""})
    assert refused.status_code == 422
    assert "part 2 has 1 to 5 minutes" in refused.content.decode()
    assert signed_in.post(url, {**rows, "cuts": "25: 20 5\r\n20: 20 -", "save": ""}).status_code == 302
    newest = stored.versions.first()
    assert [cut["minutes"] for cut in newest.cuts] == [25, 20]
    assert "25: 20 5\n20: 20 -" in signed_in.get(url).content.decode()


def test_each_part_with_a_scenario_is_asked_when_its_faults_are_injected(signed_in, stored, ref):
    url = f"/plans/{stored.uuid}/"
    typed = {
        "title": "An hour",
        "minutes-p1": "5",
        "row": ["part:p1", ref, "part:p2", REPAIR],
        "injection-p2": "automatic",
    }
    page = signed_in.post(url, {**typed, "do": "refresh"}).content.decode()
    assert '<option value="automatic" selected>' in page
    assert 'id="injection-p1"' not in page
    assert signed_in.post(url, {**typed, "save": ""}).status_code == 302
    assert [part.get("injection") for part in stored.versions.first().parts] == [None, "automatic"]
    assert '<option value="automatic" selected>' in signed_in.get(url).content.decode()
    moved = {**typed, "row": ["part:p2", REPAIR, "part:p1", ref], "save": ""}
    assert "no part comes before it" in signed_in.post(url, moved).content.decode()


def test_a_second_plan_of_the_same_title_gets_a_slug_of_its_own(signed_in, stored, ref):
    signed_in.post(NEW, {"title": "An hour", "save": "", "row": ["part:a", ref]})
    assert sorted(Plan.objects.values_list("slug", flat=True)) == ["an-hour", "an-hour-2"]


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        pytest.param({"title": ""}, "Give the plan a title.", id="no-title"),
        pytest.param({"minutes-a": "0"}, "Part 1: minutes must be a whole number", id="minutes"),
        pytest.param({"minutes-a": "many"}, "Part 1: minutes must be a whole number", id="words"),
        pytest.param({"minutes-a": "451"}, "Part 1: minutes must be a whole number", id="too-many"),
        pytest.param({"criteria-a": "Calm"}, "its scenarios bring their own criteria", id="criteria"),
        pytest.param({"row": ["part:a"], "title-a": "Empty"}, "Part 1: ", id="empty-part"),
        pytest.param({"row": []}, "Write a list of 1 to 20 parts", id="nothing"),
        pytest.param({"row": ["part:a", "s:gone"], "minutes-a": "9"}, "no scenario &#x27;gone&#x27; in", id="gone"),
    ],
)
def test_what_is_wrong_is_said_and_what_was_typed_stays(signed_in, scenario_version, typed, words):
    fields = {"title": "T", "summary": "Kept summary", "save": "", "row": ["part:a", REPAIR]}
    response = signed_in.post(NEW, {**fields, **typed})
    assert response.status_code == 422
    assert words in response.content.decode()
    assert "Kept summary" in response.content.decode()
    assert not Plan.objects.exists()


@pytest.mark.parametrize(
    ("act", "rows", "words"),
    [
        ("part-add", ["part:a", REPAIR, "part:b", "{ref}", "part:p1"], "Part 3 was added"),
        ("part-down:a", ["part:b", "{ref}", "part:a", REPAIR], "Part 1 is now part 2 of 2."),
        ("part-up:b", ["part:b", "{ref}", "part:a", REPAIR], "Part 2 is now part 1 of 2."),
        ("part-up:a", ["part:a", REPAIR, "part:b", "{ref}"], "at the end of the outline already"),
        ("part-drop:a", ["part:b", "{ref}"], "Part 1 was removed."),
        (f"down:{REPAIR}", ["part:a", "part:b", REPAIR, "{ref}"], "is now 1 of 2 in part 2"),
        ("up:{ref}", ["part:a", REPAIR, "{ref}", "part:b"], "is now 2 of 2 in part 1"),
        (f"up:{REPAIR}", ["part:a", REPAIR, "part:b", "{ref}"], "is now 1 of 1 in part 1"),
        ("drop:{ref}", ["part:a", REPAIR, "part:b"], "was removed. 20 minutes in all."),
        ("add:{ref}", ["part:a", REPAIR, "part:b", "{ref}"], "is in part 2 already"),
        ("nonsense", ["part:a", REPAIR, "part:b", "{ref}"], ""),
    ],
)
def test_every_button_works_without_javascript_and_is_announced(signed_in, scenario_version, ref, act, rows, words):
    before = ["part:a", REPAIR, "part:b", ref]
    response = signed_in.post(NEW, {"row": before, "do": act.replace("{ref}", ref)})
    assert response.status_code == 200
    assert shown(response) == [row.replace("{ref}", ref) for row in rows]
    assert words in said(response)
    assert not Plan.objects.exists()


def test_an_entry_goes_to_the_part_that_was_chosen(signed_in, scenario_version, ref):
    typed = {"row": ["part:a", "part:b"], "target": "a", "do": f"add:{ref}"}
    assert shown(signed_in.post(NEW, typed)) == ["part:a", ref, "part:b"]


def test_htmx_gets_the_builder_alone(signed_in, scenario_version):
    response = signed_in.post(NEW, {"row": ["part:a"], "do": "part-add"}, headers=HTMX)
    assert "<html" not in response.content.decode()
    assert 'id="outline"' in response.content.decode()


def test_sums_tell_the_minutes_of_each_part_and_of_all(signed_in, scenario_version, ref):
    typed = {"row": ["part:a", REPAIR, "part:b", ref], "minutes-a": "35", "do": "refresh"}
    page = signed_in.post(NEW, typed).content.decode()
    assert "<b data-total>40</b> min in <span>2</span> parts" in page
    assert "data-sum>20 min of" in page
    assert "data-sum>5 min of" in page


@pytest.fixture
def several(question_version):
    """Four more questions that differ in all that one can filter by."""
    bank = question_version.question.bank
    for number, (tags, difficulty, minutes) in enumerate(
        [(["mig"], "easy", 3), (["mig", "nccl"], "hard", 12), (["terraform"], "medium", 8), ([], "", 5)]
    ):
        question = Question.objects.create(
            bank=bank,
            key=f"k{number}",
            category="Cat",
            kind="bare",
            tags=tags,
            difficulty=difficulty,
            minutes=minutes,
        )
        QuestionVersion.objects.create(question=question, number=1, digest=f"k{number}", title=f"Number {number}")
    return bank


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({}, ["A training job that never starts", "Why does etcd", "Number 0", "Number 1", "Number 2", "Number 3"]),
        ({"find": "number MIG"}, ["Number 0", "Number 1"]),
        ({"tag": "mig"}, ["Number 0", "Number 1"]),
        ({"kind": "s"}, ["A training job that never starts"]),
        ({"kind": "q", "difficulty": "hard"}, ["Number 1"]),
        ({"longest": "5", "find": "number"}, ["Number 0", "Number 3"]),
        ({"longest": "x", "find": "terraform"}, ["Number 2"]),
        ({"find": "none such"}, []),
    ],
)
def test_the_catalogue_is_searched_by_words_tag_difficulty_and_duration(
    signed_in, scenario_version, several, filters, found
):
    page = signed_in.post(NEW, {"row": ["part:a"], "do": "refresh", **filters}).content.decode()
    titles = ["A training job that never starts", "Why does etcd", *(f"Number {number}" for number in range(4))]
    results = page.split('id="results"')[1]
    assert [title for title in titles if title in results] == found
    assert f"{len(found)} of 6" in results
    assert ("Nothing is like that" in results) is not bool(found)


def test_a_large_bank_is_shown_in_part_and_searched_in_whole(signed_in, question_version):
    bank = question_version.question.bank
    rows = [Question(bank=bank, key=f"k{number}", category="Cat", kind="bare") for number in range(150)]
    Question.objects.bulk_create(rows)
    QuestionVersion.objects.bulk_create(
        QuestionVersion(question=row, number=1, digest=row.key, title=f"Number {row.key}")
        for row in Question.objects.filter(category="Cat")
    )
    page = signed_in.get(NEW).content.decode()
    assert "151 of 151; the first 100 are shown" in page
    assert page.count('id="found-') == 100
    found = signed_in.post(NEW, {"row": ["part:p1"], "do": "refresh", "find": "k149"}).content.decode()
    assert "Number k149" in found


def test_it_needs_few_queries_however_much_there_is(signed_in, stored, several, django_assert_max_num_queries):
    for url in (NEW, f"/plans/{stored.uuid}/"):
        with django_assert_max_num_queries(11):
            assert signed_in.get(url).status_code == 200


def test_hostile_words_are_shown_as_they_are(signed_in, scenario_version, question_version):
    QuestionVersion.objects.update(title=HOSTILE, expected_answer=HOSTILE)
    Question.objects.update(tags=[HOSTILE], category=HOSTILE)
    typed = {"title": HOSTILE, "row": ["part:a"], "title-a": HOSTILE, "tasks-a": HOSTILE, "find": HOSTILE}
    for act in ({"do": f"add:q:{question_version.question.uuid}"}, {"do": "refresh", "find": ""}, {"save": ""}):
        assert "<script>alert" not in signed_in.post(NEW, {**typed, **act}).content.decode()
    preview = signed_in.get(f"/catalogue/q-{question_version.question.uuid}/").content.decode()
    assert "<script>alert" not in preview


def test_it_lists_the_rights_of_all_parts_together(signed_in, scenario_version):
    typed = {"title": "Demo", "row": ["part:a"]}
    assert 'id="rights"' not in signed_in.post(NEW, {**typed, "do": "refresh"}).content.decode()
    text = signed_in.post(NEW, {**typed, "do": "add:s:architecture-mismatch"}).content.decode()
    assert "create, update, patch, delete jobs.batch in ml-training" in text


def test_it_is_a_404_for_those_who_may_not_change_plans(client, ada, db):
    plan = Plan.objects.create(slug="demo")
    client.force_login(ada)
    for url in (NEW, f"/plans/{plan.uuid}/"):
        assert client.get(url).status_code == client.post(url, {"title": "x"}).status_code == 404
    assert "New plan" not in client.get("/sessions/new/").content.decode()


def test_it_asks_a_stranger_to_sign_in(client, db):
    plan = Plan.objects.create(slug="demo")
    for url in (NEW, f"/plans/{plan.uuid}/"):
        assert client.get(url).status_code == 302


def test_it_rejects_put(signed_in, stored):
    for url in (NEW, f"/plans/{stored.uuid}/"):
        assert signed_in.put(url).status_code == 405


def test_a_scenario_and_a_question_can_be_read_in_place(client, ada, scenario_version, question_version, first_pack):
    QuestionVersion.objects.update(expected_answer="A **majority**.", follow_ups=["And with two?"])
    client.force_login(ada)
    scenario = client.get("/catalogue/s-architecture-mismatch/", headers=HTMX).content.decode()
    assert first_pack.rubric[0].title in scenario
    assert "Milestones, par 15 of 20 min" in scenario
    assert all(point[:20] in scenario for point in first_pack.discussion_points)
    assert "The candidate may also" in scenario
    assert "create, update, patch, delete jobs.batch in ml-training" in scenario
    assert "<html" not in scenario
    question = client.get(f"/catalogue/q-{question_version.question.uuid}/").content.decode()
    assert "<strong>majority</strong>" in question
    assert "And with two?" in question
    assert "<html" in question


def test_previews_of_nothing_of_archived_and_for_strangers(client, ada, scenario_version, question_version):
    url = f"/catalogue/q-{question_version.question.uuid}/"
    assert client.get(url).status_code == 302
    client.force_login(ada)
    assert client.post(url).status_code == 405
    Question.objects.update(archived=True)
    for path in (url, "/catalogue/s-none/", "/catalogue/x-y/", "/catalogue/q-not-a-uuid/", "/catalogue/none/"):
        assert client.get(path).status_code == 404
