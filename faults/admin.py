"""The admin of scenarios, and a look at what the engine keeps."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from faults import markdown, packs
from faults.admin_parts import Admin, ReadOnlyAdmin, ReadOnlyInline
from faults.models import Cluster, FaultRun, Outbox, Scenario, ScenarioVersion, Step
from faults.packs import PackError

admin.site.site_header = admin.site.site_title = "Faultline admin"
admin.site.index_title = "Scenarios, questions and plans"


class NewestFilter(admin.SimpleListFilter):
    """Filters scenarios by a field of their newest version."""

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        values = _with_newest().values_list(f"newest_{self.parameter_name}", flat=True)
        return [(value, value) for value in sorted({value for value in values if value})]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Scenario]) -> QuerySet[Scenario]:
        return queryset.filter(**{f"newest_{self.parameter_name}": self.value()}) if self.value() else queryset


class CategoryFilter(NewestFilter):
    title = parameter_name = "category"


class DifficultyFilter(NewestFilter):
    title = parameter_name = "difficulty"


@admin.register(Scenario)
class ScenarioAdmin(Admin[Scenario]):
    """A scenario with all its versions. Packs come from the catalogue; here they are read and archived."""

    list_display = ("newest_title", "slug", "category", "difficulty", "minutes", "version", "archived")
    list_display_links = ("newest_title", "slug")
    list_filter = ("archived", CategoryFilter, DifficultyFilter)
    search_fields = ("slug", "versions__title", "versions__category")
    fields = ("slug", "archived", "versions", "preview")
    readonly_fields = ("slug", "versions", "preview")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Scenario]:
        return _with_newest()

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Scenario | None = None) -> bool:
        return False

    @admin.display(description="title", ordering="newest_title")
    def newest_title(self, scenario: Any) -> str:
        return str(scenario.newest_title or "(no version)")

    @admin.display(ordering="newest_category")
    def category(self, scenario: Any) -> str | None:
        value: str | None = scenario.newest_category
        return value

    @admin.display(ordering="newest_difficulty")
    def difficulty(self, scenario: Any) -> str | None:
        value: str | None = scenario.newest_difficulty
        return value

    @admin.display(ordering="newest_minutes")
    def minutes(self, scenario: Any) -> int | None:
        value: int | None = scenario.newest_minutes
        return value

    @admin.display(ordering="newest_number")
    def version(self, scenario: Any) -> str:
        return f"{scenario.newest_number} ({scenario.version_count} in all)"

    @admin.display(description="versions")
    def versions(self, scenario: Scenario) -> SafeString:
        rows = scenario.versions.defer("files")
        return format_html_join("\n", "<p>{}</p>", ((_version_line(row),) for row in rows))

    @admin.display(description="newest version")
    def preview(self, scenario: Scenario) -> SafeString | str:
        newest = scenario.versions.first()
        return pack_preview(newest) if newest else "There is no version yet."


@admin.register(ScenarioVersion)
class ScenarioVersionAdmin(ReadOnlyAdmin[ScenarioVersion]):
    """One frozen version, reached from its scenario."""

    fields = ("scenario", "number", "digest", "created_at", "preview", "file_texts")
    readonly_fields = ("preview", "file_texts")

    def has_module_permission(self, request: HttpRequest) -> bool:
        return False

    @admin.display(description="content")
    def preview(self, version: ScenarioVersion) -> SafeString:
        return pack_preview(version)

    @admin.display(description="files")
    def file_texts(self, version: ScenarioVersion) -> SafeString:
        template = "<details><summary>{}</summary><pre>{}</pre></details>"
        return format_html_join("\n", template, sorted(version.files.items()))


@admin.register(Cluster)
class ClusterAdmin(ReadOnlyAdmin[Cluster]):
    """Clusters; the kubeconfig is shown to nobody."""

    list_display = ("name", "tier", "created_at", "released_at")
    list_filter = ("tier",)
    search_fields = ("name",)
    fields = ("name", "tier", "prometheus_url", "created_at", "released_at")


class StepInline(ReadOnlyInline[FaultRun]):
    model = Step
    fields = ("index", "kind", "target", "status", "applied_at", "reverted_at", "outcome")


@admin.register(FaultRun)
class FaultRunAdmin(ReadOnlyAdmin[FaultRun]):
    """What the engine did in a cluster, and what it undid."""

    list_display = ("id", "purpose", "scenario_version", "cluster", "status", "phase", "created_at", "deadline")
    list_filter = ("status", "purpose")
    list_select_related = ("cluster", "scenario_version")
    search_fields = ("uuid", "cluster__name", "scenario_version__title")
    inlines = (StepInline,)


@admin.register(Outbox)
class OutboxAdmin(ReadOnlyAdmin[Outbox]):
    """Jobs on their way to the queue."""

    list_display = ("job", "args", "created_at", "sent_at")
    list_filter = (("sent_at", admin.EmptyFieldListFilter), "job")
    search_fields = ("job",)


def pack_preview(version: ScenarioVersion) -> SafeString:
    """Return what people read of a pack, with the default names filled in, as safe HTML."""
    try:
        pack = packs.parse(version.files).bind()
    except PackError as exc:
        return format_html("<p>This version cannot be read: {}</p>", exc)
    texts = {"statement": markdown.render(pack.statement), "brief": markdown.render(pack.brief)}
    return render_to_string("admin/faults/_pack.html", {"pack": pack, **texts})


def _version_line(version: ScenarioVersion) -> SafeString:
    url = reverse("admin:faults_scenarioversion_change", args=[version.pk])
    return format_html(
        '<a href="{}">Version {}</a>, {}, digest {}', url, version.number, version.title, version.digest[:12]
    )


def _with_newest() -> QuerySet[Scenario]:
    newest = ScenarioVersion.objects.filter(scenario=OuterRef("pk")).order_by("-number")
    fields = ("title", "category", "difficulty", "minutes", "number")
    columns = {f"newest_{name}": Subquery(newest.values(name)[:1]) for name in fields}
    return Scenario.objects.annotate(version_count=Count("versions"), **columns).order_by("slug")
