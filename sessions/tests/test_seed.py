"""`manage.py seed`: a usable installation, once, and never over somebody's edits."""

import re
from io import StringIO

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import call_command

from faults.models import Scenario
from sessions.importers import versions
from sessions.importers.questions import parse
from sessions.importers.versions import Wording
from sessions.models import PlanVersion, Question, QuestionVersion

DEMO = "gpu-cluster-troubleshooting-60"
OWN = (settings.BASE_DIR / "sessions/content/question-bank.md").read_text(encoding="utf-8")

pytestmark = pytest.mark.django_db


def seed():
    out, err = StringIO(), StringIO()
    call_command("seed", stdout=out, stderr=err)
    assert err.getvalue() == ""
    return out.getvalue()


def test_it_fills_an_empty_installation():
    printed = seed()

    passwords = dict(re.findall(r"Account (\w+), password (\S+)", printed))
    admin, interviewer = User.objects.get(username="admin"), User.objects.get(username="interviewer")
    assert admin.is_superuser
    assert admin.check_password(passwords["admin"])
    assert not interviewer.is_staff
    assert interviewer.check_password(passwords["interviewer"])
    plan = PlanVersion.objects.get(plan__slug=DEMO)
    assert [version.scenario.slug for version in plan.scenarios.all()] == ["architecture-mismatch"]
    assert sum(part["minutes"] for part in plan.parts) == 60


def test_the_pairing_exercise_is_longer_than_its_cuts():
    seed()
    plan = PlanVersion.objects.get(plan__slug="pairing-exercise")
    slugs = [slug for part in plan.parts for slug in part["scenarios"]]
    assert slugs == ["gpu-readiness", "extend-tenancy", "tenant-workloads", "tenants-leak", "latency-puzzle"]
    assert (plan.minutes, [cut["minutes"] for cut in plan.cuts]) == (125, [120, 90])
    assert plan.cuts[1]["parts"][-1] is None


def test_the_hardware_plan_begins_on_a_healthy_cluster_and_asks_about_xids():
    seed()
    plan = PlanVersion.objects.get(plan__slug="gpu-hardware-75")
    assert plan.minutes == 75
    assert [part["scenarios"] for part in plan.parts] == [["gpu-readiness"], ["gpu-off-duty"], []]
    assert [part.get("injection", "before") for part in plan.parts[:2]] == ["before", "button"]
    asked = Question.objects.filter(uuid__in=plan.parts[2]["questions"])
    assert asked.filter(versions__title__contains="Xid").exists()


def test_a_second_run_changes_nothing_and_tells_no_secret():
    seed()
    before = _all_rows()

    printed = seed()

    assert "password" not in printed
    assert _all_rows() == before


def test_it_leaves_edits_alone():
    seed()
    question = Question.objects.filter(kind="full").first()
    versions.add_version(question, Wording(title="Mine"))
    plan = PlanVersion.objects.get(plan__slug=DEMO).plan
    plan.versions.create(number=2, title="Mine", parts=[])

    seed()

    assert question.versions.first().title == "Mine"
    assert plan.versions.first().title == "Mine"


def test_a_question_with_a_new_title_stays_the_same_question():
    seed()
    question = Question.objects.get(key="design-on-premises-and-cloud-together")
    Question.objects.filter(pk=question.pk).update(key="own-hall-and-somebody-elses")
    count = Question.objects.count()
    seed()
    question.refresh_from_db()
    assert question.key == "design-on-premises-and-cloud-together"
    assert Question.objects.count() == count


def test_it_makes_no_accounts_where_somebody_can_sign_in():
    User.objects.create_user("boss", password="correct horse battery")
    assert "Account" not in seed()
    assert User.objects.count() == 1


def test_an_archived_scenario_does_not_stop_it():
    seed()
    Scenario.objects.update(archived=True)
    out, err = StringIO(), StringIO()
    call_command("seed", stdout=out, stderr=err)
    assert err.getvalue().count("was left as it is") == 4


def test_our_bank_is_complete():
    bank = parse(OWN)
    full = [question for question in bank.questions if question.kind == "full"]

    assert bank.not_placed == bank.notices == []
    assert len(full) >= 13
    assert all(question.follow_ups and question.hints for question in full)
    assert sum(question.kind == "architecture" for question in bank.questions) >= 5
    assert any("data centre" in question.prompt for question in bank.questions)


def test_our_bank_shares_no_sentence_with_the_source(sources):
    theirs = _runs((sources / "question-bank.md").read_text(encoding="utf-8"))
    assert not _runs(OWN) & theirs


def _runs(text, length=7):
    """Return every run of seven words: long enough to be a phrase somebody wrote."""
    words = re.findall(r"[a-z0-9]+", text.lower())
    return {" ".join(words[start : start + length]) for start in range(len(words) - length)}


def _all_rows():
    models = (Question, QuestionVersion, PlanVersion, User)
    return [list(model.objects.order_by("pk").values()) for model in models]
