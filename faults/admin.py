"""The admin of scenarios, and a look at what the engine keeps."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import Count, OuterRef, Q, QuerySet, Subquery
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from faults import markdown, packs, selectors, services
from faults.admin_parts import Admin, ReadOnlyAdmin, ReadOnlyInline
from faults.errors import KubeconfigRefused
from faults.kube.addresses import AddressRefused, check_url
from faults.models import (
    ApiEvent,
    ApiToken,
    Cluster,
    FaultRun,
    InjectedFault,
    Outbox,
    Scenario,
    ScenarioVersion,
    Step,
)
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


STORED = " Leave it empty to keep the stored one. While a session has the cluster, it must lead to the same server."


class ClusterForm(forms.ModelForm):  # type: ignore[type-arg]
    """A real cluster. The kubeconfig is written, never shown."""

    kubeconfig = forms.CharField(
        widget=forms.Textarea(attrs={"rows": 8, "spellcheck": "false", "autocomplete": "off"}),
        required=False,
        help_text="Credentials inside the file: kubectl config view --flatten --minify.",
    )
    prometheus_url = forms.URLField(label="Prometheus address", required=False, max_length=200, assume_scheme="https")

    class Meta:
        model = Cluster
        fields = ("name", "tier", "kubeconfig", "prometheus_url", "archived")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "tier" in self.fields:
            self.initial["kubeconfig"] = ""
            if self.instance.pk:
                self.fields["kubeconfig"].help_text += STORED
            tiers: Any = self.fields["tier"]
            tiers.choices = [choice for choice in Cluster.Tier.choices if choice[0] != Cluster.Tier.PRACTICE]

    def clean_kubeconfig(self) -> str:
        """Refuse what the allow-list does not name."""
        text = str(self.cleaned_data["kubeconfig"]).strip()
        if not text and not self.instance.pk:
            raise forms.ValidationError("Paste the cluster's kubeconfig.")
        if text:
            try:
                services.check_kubeconfig(text)
            except KubeconfigRefused as exc:
                raise forms.ValidationError(str(exc)) from exc
        return text

    def clean_prometheus_url(self) -> str:
        """Refuse addresses of this machine, of its network link and of metadata services."""
        url = str(self.cleaned_data["prometheus_url"] or "")
        try:
            if url:
                check_url(url, loopback=selectors.loopback_is_allowed())
        except AddressRefused as exc:
            raise forms.ValidationError(f"The address is refused: {exc}.") from exc
        return url

    def clean(self) -> dict[str, Any]:
        """Keep a cluster where and what it is while a session has it."""
        data = super().clean() or {}
        stored = Cluster.objects.filter(pk=self.instance.pk).first()
        if stored and not self.errors:
            why = services.change_refusal(stored, tier=data["tier"], kubeconfig=data["kubeconfig"])
            if why:
                raise forms.ValidationError(why)
        return data


@admin.register(Cluster)
class ClusterAdmin(Admin[Cluster]):
    """Clusters; real ones are added here. The kubeconfig is shown to nobody."""

    form = ClusterForm
    list_display = ("name", "tier", "last_preflight", "in_use_by", "archived", "created_at", "released_at")
    list_filter = ("tier", "archived")
    search_fields = ("name",)
    readonly_fields = ("preflight", "created_at", "released_at")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Cluster]:
        held = Count("leases", filter=Q(leases__given_back_at__isnull=True))
        return super().get_queryset(request).annotate(held=held)

    def get_fields(self, request: HttpRequest, obj: Cluster | None = None) -> tuple[str, ...]:
        if obj is not None and not obj.kept:
            return ("name", "tier", "prometheus_url", "created_at", "released_at")
        return ("name", "tier", "kubeconfig", "prometheus_url", "archived", *(("preflight",) if obj else ()))

    def has_change_permission(self, request: HttpRequest, obj: Cluster | None = None) -> bool:
        return super().has_change_permission(request, obj) and (obj is None or obj.kept)

    def has_delete_permission(self, request: HttpRequest, obj: Cluster | None = None) -> bool:
        return False

    def save_model(self, request: HttpRequest, obj: Cluster, form: Any, change: bool) -> None:
        """Seal the kubeconfig; the form has checked it."""
        data = form.cleaned_data
        stored = Cluster.objects.get(pk=obj.pk) if change else None
        saved = services.save_cluster(cluster=stored, **{name: data[name] for name in ClusterForm.Meta.fields})
        obj.pk, obj.kubeconfig, obj.kept = saved.pk, saved.kubeconfig, True

    def response_add(self, request: HttpRequest, obj: Cluster, post_url_continue: str | None = None) -> HttpResponse:
        """Go on to the preflight."""
        return redirect("admin:faults_cluster_change", obj.pk)

    def response_change(self, request: HttpRequest, obj: Cluster) -> HttpResponse:
        """Show at once what the cluster says to another kubeconfig."""
        if request.POST.get("kubeconfig"):
            messages.success(request, "The kubeconfig was replaced. What waited for it goes on by itself.")
            return redirect("admin:faults_cluster_change", obj.pk)
        return super().response_change(request, obj)

    @admin.display(description="preflight")
    def preflight(self, cluster: Cluster) -> SafeString:
        """Return what the cluster answers now."""
        findings = services.inspect_cluster(cluster=cluster)
        usable = all(found.good or not found.needed for found in findings)
        return render_to_string("admin/faults/_preflight.html", {"findings": findings, "usable": usable})

    @admin.display(description="last preflight", ordering="preflight_at")
    def last_preflight(self, cluster: Cluster) -> str:
        """Return in a word how the last preflight ended."""
        if cluster.refused_at is not None:
            return "credentials refused"
        if not cluster.kept or cluster.preflight_at is None:
            return "-"
        return "failed" if cluster.preflight_error else "good"

    @admin.display(description="sessions now")
    def in_use_by(self, cluster: Cluster) -> int:
        """Return the number of sessions that have the cluster now."""
        return int(getattr(cluster, "held", 0))


class StepInline(ReadOnlyInline[FaultRun]):
    model = Step
    fields = ("index", "kind", "target", "status", "applied_at", "reverted_at", "outcome")


@admin.register(FaultRun)
class FaultRunAdmin(ReadOnlyAdmin[FaultRun]):
    """The engine's changes to a cluster, and their undoing."""

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


@admin.register(ApiToken)
class ApiTokenAdmin(ReadOnlyAdmin[ApiToken]):
    """Tokens of the fault injection API, without their secrets. They are made by ``manage.py api_token``."""

    list_display = ("name", "cluster", "scopes", "created_by", "expires_at", "revoked_at", "last_used_at")
    list_select_related = ("cluster",)
    exclude = ("token_hash",)


@admin.register(InjectedFault)
class InjectedFaultAdmin(ReadOnlyAdmin[InjectedFault]):
    """Faults that programs have injected; the run of each has its steps."""

    list_display = ("fault_id", "target", "cluster", "requested_by", "created_at", "recovered_at")
    list_select_related = ("cluster",)
    search_fields = ("fault_id", "target")


@admin.register(ApiEvent)
class ApiEventAdmin(ReadOnlyAdmin[ApiEvent]):
    """Record of what was asked of the fault injection API, refusals included."""

    list_display = ("at", "actor", "action", "subject", "outcome", "cluster")
    list_select_related = ("cluster",)
    list_filter = ("action", "outcome")
    search_fields = ("actor", "subject")


def pack_preview(version: ScenarioVersion) -> SafeString:
    """Return what people read of a pack, with the default names filled in, as safe HTML."""
    try:
        pack = packs.parse(version.files).bind()
    except PackError as exc:
        return format_html("<p>This version cannot be read: {}</p>", exc)
    texts = {
        "statement": markdown.render(pack.statement),
        "brief": markdown.render(pack.brief),
        "hints": [{"tier": hint.tier, "text": markdown.render(hint.text)} for hint in pack.hints],
    }
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
