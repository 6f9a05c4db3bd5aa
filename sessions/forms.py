"""Forms: input is checked before a service sees it. Errors stand at the field they are about."""

from __future__ import annotations

from itertools import count
from typing import Any

from django import forms
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.utils.text import slugify

from faults import services as fault_services
from faults.models import Cluster
from faults.plain_text import plain, plain_line
from sessions import part_minutes
from sessions.errors import SessionError
from sessions.importers.plans import MAX_SUMMARY_LENGTH, MAX_TITLE_LENGTH
from sessions.models import Assessment, Plan, PlanVersion, QuestionVersion
from sessions.part_minutes import LONGEST, SHORTEST
from sessions.services.lifecycle import MOST_EXTENSION
from sessions.services.scoring import LONGEST_TEXT


class PeopleField(forms.ModelMultipleChoiceField):  # type: ignore[type-arg]
    """Several people, shown by their full names where they have one."""

    def label_from_instance(self, obj: User) -> str:
        """Return how a person is named."""
        return obj.get_full_name() or obj.get_username()


class ClusterField(forms.ModelChoiceField):  # type: ignore[type-arg]
    """A real cluster; practice where none is chosen."""

    def to_python(self, value: Any) -> Cluster | None:
        """Return the cluster; what is no UUID at all is as unknown as one that is gone."""
        try:
            found: Cluster | None = super().to_python(value)
        except forms.ValidationError:
            raise forms.ValidationError(self.error_messages["invalid_choice"], code="invalid_choice") from None
        return found

    def label_from_instance(self, obj: Cluster) -> str:
        """Return the name, the tier, and whether somebody has it."""
        failed = "; its last preflight failed" if obj.preflight_error else ""
        busy = "; in use now" if getattr(obj, "busy", False) else ""
        return f"{obj.name} ({obj.tier}{busy or failed})"


class SessionForm(forms.Form):
    """A new session, besides its outline. Plans are handed in, so that the page reads them once."""

    plan = forms.UUIDField(required=False, widget=forms.HiddenInput)
    candidate_name = forms.CharField(
        label="Candidate's name", max_length=120, error_messages={"required": "Say who the candidate is."}
    )
    title = forms.CharField(max_length=200, required=False)
    cut = forms.TypedChoiceField(required=False, coerce=int, empty_value=None)
    minutes = forms.IntegerField(label="Minutes", min_value=SHORTEST, max_value=LONGEST, required=False)
    scheduled_at = forms.DateTimeField(
        label="Planned start",
        required=False,
        input_formats=["%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M"],
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
    )
    too_short = forms.ChoiceField(
        label="Parts that do not fit",
        choices=[("scale", "Shorten every part in proportion"), ("keep", "Keep the parts; mark what does not fit")],
        required=False,
    )
    cluster = ClusterField(
        queryset=fault_services.offered_clusters(),
        to_field_name="uuid",
        required=False,
        error_messages={
            "invalid_choice": "This cluster is not offered any more. Choose another, or a practice cluster."
        },
        empty_label="Practice cluster: simulated, fresh for this session",
    )
    interviewers = PeopleField(queryset=User.objects.none(), required=False)
    close_while_paused = forms.BooleanField(required=False)

    def __init__(
        self,
        data: Any = None,
        *,
        plans: list[PlanVersion],
        people: QuerySet[User],
        **kwargs: Any,
    ) -> None:
        super().__init__(data, **kwargs)
        self.plans = {plan.uuid: plan for plan in plans}
        self.cuts = self._cuts()
        choosable: dict[str, Any] = dict(self.fields)
        choosable["interviewers"].queryset = people
        choosable["cut"].choices = [("", ""), *((cut["minutes"], cut["minutes"]) for cut in self.cuts)]
        choosable["candidate_name"].widget.attrs |= {"autocomplete": "off", "autofocus": True}

    def _cuts(self) -> list[dict[str, Any]]:
        """Return the shorter forms of the plan that the form is about, each with the parts that it has."""
        wanted = str(self.data.get("plan") or self.initial.get("plan") or "")
        plan = next((plan for uuid, plan in self.plans.items() if str(uuid) == wanted), None)
        if plan is None:
            return []
        return [{"minutes": cut["minutes"], "parts": part_minutes.cut(plan.parts, cut["parts"])} for cut in plan.cuts]

    @property
    def unseen_errors(self) -> list[str]:
        """The errors of the cluster's field where the page has none, because no cluster is offered."""
        field: Any = self.fields["cluster"]
        return [] if field.queryset.exists() else [str(error) for error in self.errors.get("cluster", ())]

    def clean_plan(self) -> PlanVersion | None:
        """Return the plan itself; one that is gone or archived is an error."""
        wanted = self.cleaned_data["plan"]
        if wanted is None:
            return None
        if wanted not in self.plans:
            raise forms.ValidationError("This plan is not offered any more. Go back and choose another.")
        return self.plans[wanted]

    def clean(self) -> dict[str, Any]:
        """Give a shorter form its own minutes, unless others were typed."""
        data = super().clean() or self.cleaned_data
        plan, cut = data.get("plan"), data.get("cut")
        if plan is not None and cut is not None and data.get("minutes") is None:
            data["minutes"] = cut
        return data

    def refuse(self, error: SessionError) -> None:
        """Show a service's refusal at its field, or above the form where it names none of ours."""
        field = {"plan_version": "plan"}.get(error.field, error.field)
        self.add_error(field if field in self.fields else None, error.message)


class PlanBuilderForm(forms.Form):
    """Fields of a plan besides its parts."""

    title = forms.CharField(max_length=MAX_TITLE_LENGTH, error_messages={"required": "Give the plan a title."})
    summary = forms.CharField(
        max_length=MAX_SUMMARY_LENGTH,
        required=False,
        widget=forms.Textarea(attrs={"rows": 2, "data-limit": MAX_SUMMARY_LENGTH}),
    )
    cuts = forms.CharField(
        required=False,
        max_length=500,
        label="Shorter forms",
        widget=forms.Textarea(attrs={"rows": 2, "data-limit": 500}),
    )
    close_while_paused = forms.BooleanField(required=False, label="Close the candidate's access while paused")

    def clean_title(self) -> str:
        """Return the title on one line, with every character in sight."""
        return plain_line(self.cleaned_data["title"])

    def clean_summary(self) -> str:
        """Return the summary with plain line ends and every character in sight."""
        return plain(self.cleaned_data["summary"].replace("\r\n", "\n").strip())

    def free_slug(self) -> str:
        """Return a slug for a new plan, made from its title, that no other plan has."""
        base = slugify(self.cleaned_data["title"])[:70] or "plan"
        taken = set(Plan.objects.filter(slug__startswith=base).values_list("slug", flat=True))
        return next(slug for number in count(1) if (slug := base if number == 1 else f"{base}-{number}") not in taken)


class LevelField(forms.TypedChoiceField):
    """A level from 1 to 4; empty means not assessed."""

    def __init__(self) -> None:
        choices = [("", "Not assessed"), *((str(level), str(level)) for level in range(1, 5))]
        super().__init__(choices=choices, coerce=int, empty_value=None, required=False)


class RatingForm(forms.Form):
    """One criterion's level with its evidence."""

    level = LevelField()
    note = forms.CharField(required=False)
    from_memory = forms.BooleanField(required=False)
    version = forms.IntegerField(min_value=0)


class QuestionRecordForm(forms.Form):
    """One interviewer's record of a question; a check box for each follow-up and hint, counted from 1."""

    text = forms.CharField(required=False)
    level = LevelField()
    from_memory = forms.BooleanField(required=False)
    version = forms.IntegerField(min_value=0)

    def __init__(self, data: Any, *, wording: QuestionVersion) -> None:
        super().__init__(data)
        self.counts = {"follow_up": len(wording.follow_ups), "hint": len(wording.hints)}
        for name, most in self.counts.items():
            for number in range(1, most + 1):
                self.fields[f"{name}_{number}"] = forms.BooleanField(required=False)

    def positions(self, name: str) -> list[int]:
        """Return the positions, from 0, of the ticked follow-ups or hints."""
        return [index for index in range(self.counts[name]) if self.cleaned_data[f"{name}_{index + 1}"]]


class CreditForm(forms.Form):
    """Time that the candidate lost through us."""

    minutes = forms.IntegerField(
        label="Minutes",
        min_value=1,
        max_value=MOST_EXTENSION,
        error_messages={"required": "Say how many minutes.", "invalid": "Give whole minutes."},
    )
    reason = forms.CharField(
        label="What failed", max_length=300, error_messages={"required": "Say what failed: it is written down."}
    )


class AssessmentForm(forms.ModelForm):  # type: ignore[type-arg]
    """One interviewer's overall judgement."""

    version = forms.IntegerField(min_value=0, widget=forms.HiddenInput)

    class Meta:
        model = Assessment
        fields = ["overall", "takeaways", "strengths", "concerns", "private_notes"]
        widgets = {
            "overall": forms.RadioSelect,
            **{
                name: forms.Textarea(attrs={"rows": 3, "data-limit": LONGEST_TEXT})
                for name in ("takeaways", "strengths", "concerns", "private_notes")
            },
        }
        labels = {
            "overall": "Overall recommendation",
            "takeaways": "Key take-aways",
            "private_notes": "Private notes",
        }


def first_error(form: forms.BaseForm) -> str:
    """Return the first error of a form as one sentence, for places that have room for only one."""
    return next((str(error) for errors in form.errors.values() for error in errors), "")
