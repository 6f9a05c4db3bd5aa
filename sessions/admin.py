"""The admin of question banks, questions and plans, and a read-only look at sessions.

Ratings and notes are not here: who may read them is decided by the blind rule of the scorecard.
"""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import Count, Max, OuterRef, QuerySet, Subquery
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from faults import markdown
from faults.admin_parts import Admin, ReadOnlyAdmin, ReadOnlyInline
from sessions.admin_forms import ImportForm, PlanForm, QuestionForm
from sessions.importers import plans
from sessions.importers.versions import add_version
from sessions.models import (
    Assessment,
    InterviewSession,
    Plan,
    PlanVersion,
    PreparationPhase,
    Question,
    QuestionBank,
    QuestionVersion,
    SessionQuestion,
    SessionScenario,
)


@admin.register(QuestionBank)
class QuestionBankAdmin(Admin[QuestionBank]):
    """Banks, and the way in for a whole file."""

    list_display = ("title", "slug", "questions_in_it")
    search_fields = ("title", "slug")
    prepopulated_fields = {"slug": ("title",)}
    change_list_template = "admin/interview_sessions/bank_list.html"

    def get_queryset(self, request: HttpRequest) -> QuerySet[QuestionBank]:
        return super().get_queryset(request).annotate(question_count=Count("questions"))

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.import_view)
        return [path("import/", view, name="interview_sessions_questionbank_import"), *super().get_urls()]

    def import_view(self, request: HttpRequest) -> HttpResponse:
        """Take a Markdown file and show what became of it."""
        if not self.has_add_permission(request):
            raise PermissionDenied
        form = ImportForm(request.POST or None, request.FILES or None)
        report = form.cleaned_data["report"] if request.method == "POST" and form.is_valid() else None
        context = {
            **self.admin_site.each_context(request),
            "title": "Import questions",
            "form": form,
            "report": report,
            "bank": QuestionBank.objects.filter(slug=report.bank).first() if report else None,
        }
        return render(request, "admin/interview_sessions/import.html", context, status=422 if form.errors else 200)

    @admin.display(description="questions", ordering="question_count")
    def questions_in_it(self, bank: Any) -> SafeString:
        url = reverse("admin:interview_sessions_question_changelist") + f"?bank__id__exact={bank.pk}"
        return format_html('<a href="{}">{}</a>', url, bank.question_count)


class TagFilter(admin.SimpleListFilter):
    """Questions of one tag."""

    title = parameter_name = "tag"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        found = {tag for tags in Question.objects.values_list("tags", flat=True) for tag in tags}
        return [(tag, tag) for tag in sorted(found)]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Question]) -> QuerySet[Question]:
        if self.value() is None:
            return queryset
        rows = Question.objects.values_list("pk", "tags")  # no database but PostgreSQL looks into a JSON list
        return queryset.filter(pk__in=[pk for pk, tags in rows if self.value() in tags])


@admin.register(Question)
class QuestionAdmin(Admin[Question]):
    """Questions with the wording of their newest version; an edit makes a new version."""

    form = QuestionForm
    list_display = ("newest_title", "bank", "category", "tag_list", "minutes", "kind", "version", "archived")
    list_filter = ("bank", "kind", "difficulty", "if_time_left", TagFilter, "category", "archived")
    list_select_related = ("bank",)
    search_fields = ("key", "category", "versions__title", "versions__prompt", "versions__expected_answer")
    actions = ("archive", "restore")
    readonly_fields = ("kind", "key", "preview", "history")
    _place = (None, {"fields": ("bank", "category", "tags", "difficulty", "minutes", "if_time_left", "archived")})
    _text = (
        "Wording",
        {"fields": ("title", "prompt", "expected_answer", "follow_ups", "hints", "discussion_points")},
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Question]:
        newest = QuestionVersion.objects.filter(question=OuterRef("pk")).order_by("-number")
        columns = {f"newest_{name}": Subquery(newest.values(name)[:1]) for name in ("title", "number")}
        return super().get_queryset(request).annotate(**columns)

    def get_fieldsets(self, request: HttpRequest, obj: Question | None = None) -> Any:
        if obj is None:
            return [self._place, self._text]
        return [self._place, self._text, ("Newest version", {"fields": ("preview", "kind", "key", "history")})]

    def get_readonly_fields(self, request: HttpRequest, obj: Question | None = None) -> Any:
        return (*self.readonly_fields, "bank") if obj else self.readonly_fields

    def has_delete_permission(self, request: HttpRequest, obj: Question | None = None) -> bool:
        return False  # sessions keep their questions; a question that is no longer wanted is archived

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        question: Any = self.get_object(request, object_id)
        context = {**(extra_context or {}), **({"subtitle": question.newest_title} if question else {})}
        return super().change_view(request, object_id, form_url, context)

    @transaction.atomic
    def save_model(self, request: HttpRequest, obj: Question, form: Any, change: bool) -> None:
        parsed = form.parsed()
        obj.kind = parsed.kind
        if not change:
            obj.key = parsed.key
            last = obj.bank.questions.aggregate(last=Max("position"))["last"]
            obj.position = 0 if last is None else last + 1
        super().save_model(request, obj, form, change)
        if version := add_version(obj, form.wording()):
            messages.info(request, f"The wording was kept as version {version.number}.")

    @admin.action(description="Archive the selected questions")
    def archive(self, request: HttpRequest, queryset: QuerySet[Question]) -> None:
        messages.success(request, f"{queryset.update(archived=True)} archived.")

    @admin.action(description="Restore the selected questions")
    def restore(self, request: HttpRequest, queryset: QuerySet[Question]) -> None:
        messages.success(request, f"{queryset.update(archived=False)} restored.")

    @admin.display(description="question", ordering="newest_title")
    def newest_title(self, question: Any) -> str:
        return str(question.newest_title or question.key)

    @admin.display(description="tags")
    def tag_list(self, question: Question) -> str:
        return ", ".join(question.tags)

    @admin.display(ordering="newest_number")
    def version(self, question: Any) -> int | None:
        number: int | None = question.newest_number
        return number

    @admin.display(description="as it is shown")
    def preview(self, question: Question) -> SafeString | str:
        newest = question.versions.first()
        return question_preview(newest) if newest else "There is no version yet."

    @admin.display(description="older versions")
    def history(self, question: Question) -> SafeString | str:
        older = question.versions.all()[1:]
        rows = [{"version": version, "html": question_preview(version)} for version in older]
        return render_to_string("admin/interview_sessions/_history.html", {"rows": rows})


@admin.register(Plan)
class PlanAdmin(Admin[Plan]):
    """Interview plans; an edit makes a new version and leaves sessions as they are."""

    form = PlanForm
    list_display = ("newest_title", "slug", "minutes", "part_count", "version", "archived")
    list_filter = ("archived",)
    search_fields = ("slug", "versions__title", "versions__summary")
    readonly_fields = ("outline", "usable")
    save_as = True

    def get_queryset(self, request: HttpRequest) -> QuerySet[Plan]:
        newest = PlanVersion.objects.filter(plan=OuterRef("pk")).order_by("-number")
        columns = {f"newest_{name}": Subquery(newest.values(name)[:1]) for name in ("title", "number", "parts")}
        return super().get_queryset(request).annotate(**columns)

    def get_fields(self, request: HttpRequest, obj: Plan | None = None) -> Any:
        fields = ("slug", "title", "summary", "parts", "usable", "cuts", "close_while_paused", "archived")
        return ("outline", *fields) if obj else fields

    def has_delete_permission(self, request: HttpRequest, obj: Plan | None = None) -> bool:
        return False  # sessions keep their plan; a plan that is no longer wanted is archived

    @transaction.atomic
    def save_model(self, request: HttpRequest, obj: Plan, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        content = {
            name: form.cleaned_data[name] for name in ("title", "summary", "parts", "close_while_paused", "cuts")
        }
        if version := plans.save_plan(obj, **content):
            messages.info(request, f"The plan was kept as version {version.number}.")

    @admin.display(description="title", ordering="newest_title")
    def newest_title(self, plan: Any) -> str:
        return str(plan.newest_title or plan.slug)

    @admin.display
    def minutes(self, plan: Any) -> int:
        return sum(part["minutes"] for part in plan.newest_parts or ())

    @admin.display(description="parts")
    def part_count(self, plan: Any) -> int:
        return len(plan.newest_parts or ())

    @admin.display(ordering="newest_number")
    def version(self, plan: Any) -> int | None:
        number: int | None = plan.newest_number
        return number

    @admin.display(description="newest version")
    def outline(self, plan: Plan) -> SafeString | str:
        newest = plan.versions.first()
        return plan_preview(newest) if newest else "There is no version yet."

    @admin.display(description="what parts can name")
    def usable(self, plan: Plan) -> SafeString:
        names = {"scenarios": plans.usable_scenarios(), "questions": plans.usable_questions()}
        return render_to_string("admin/interview_sessions/_usable.html", {"names": names})


class ScenarioInline(ReadOnlyInline[InterviewSession]):
    model = SessionScenario
    fields = ("position", "scenario_version", "fixed_at", "held_at")


class QuestionInline(ReadOnlyInline[InterviewSession]):
    model = SessionQuestion
    fields = ("position", "question_version")


class PhaseInline(ReadOnlyInline[InterviewSession]):
    model = PreparationPhase
    fields = ("title", "status", "detail", "error", "started_at", "finished_at")


class SubmissionInline(ReadOnlyInline[InterviewSession]):
    """Submissions; their text stays behind the blind rule."""

    model = Assessment
    verbose_name_plural = "submissions"
    fields = ("interviewer", "submitted_at")


@admin.register(InterviewSession)
class InterviewSessionAdmin(ReadOnlyAdmin[InterviewSession]):
    """Sessions, to look things up; they are run on their own pages."""

    list_display = ("candidate_name", "title", "state", "owner", "tier", "created_at", "ended_at", "released_at")
    list_filter = ("state", "tier", "created_at")
    list_select_related = ("owner",)
    search_fields = ("candidate_name", "title", "owner__username", "uuid")
    exclude = ("join_token_hash", "parts")
    readonly_fields = ("pages",)
    inlines = (ScenarioInline, QuestionInline, PhaseInline, SubmissionInline)

    @admin.display(description="pages")
    def pages(self, session: InterviewSession) -> SafeString:
        return format_html(
            '<a href="{}">Session</a>, <a href="{}">scorecard</a>',
            reverse("session-detail", args=[session.uuid]),
            reverse("scorecard", args=[session.uuid]),
        )


def plan_preview(version: PlanVersion) -> SafeString:
    """Return a plan as its readers see it, with the titles of what it names, as safe HTML."""
    wanted = [uuid for part in version.parts for uuid in part["questions"]]
    newest = QuestionVersion.objects.filter(question=OuterRef("pk")).order_by("-number").values("title")[:1]
    rows = Question.objects.filter(uuid__in=wanted).annotate(title=Subquery(newest))
    titles = {str(uuid): title for uuid, title in rows.values_list("uuid", "title")}
    frozen = {row.scenario.slug: str(row) for row in version.scenarios.select_related("scenario")}
    parts = [
        {
            **part,
            "scenarios": [frozen.get(slug, slug) for slug in part["scenarios"]],
            "questions": [titles.get(uuid, uuid) for uuid in part["questions"]],
            "tasks_html": markdown.render(part.get("tasks", "")),
        }
        for part in version.parts
    ]
    return render_to_string("admin/interview_sessions/_plan.html", {"version": version, "parts": parts})


def question_preview(version: QuestionVersion) -> SafeString:
    """Return a wording as its readers see it, as safe HTML."""
    lists = {
        "follow-ups": version.follow_ups,
        "hints": version.hints,
        "discussion points": version.discussion_points,
    }
    context = {
        "title": version.title,
        "prompt": markdown.render(version.prompt),
        "expected_answer": markdown.render(version.expected_answer),
        "lists": {name: [markdown.render(text) for text in texts] for name, texts in lists.items()},
    }
    return render_to_string("admin/interview_sessions/_question.html", context)
