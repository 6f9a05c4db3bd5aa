"""Forms of the admin: a question's newest wording, a plan's parts as YAML, a file to import."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from sessions.importers import attributes, banks, outline, plans
from sessions.importers.cuts import HELP, Cut, format_cuts
from sessions.importers.outline import ImportProblem
from sessions.importers.plans import PlanProblem
from sessions.importers.questions import ParsedQuestion
from sessions.importers.versions import Wording
from sessions.models import Plan, Question

if TYPE_CHECKING:
    QuestionModelForm = forms.ModelForm[Question]
    PlanModelForm = forms.ModelForm[Plan]
else:
    QuestionModelForm = PlanModelForm = forms.ModelForm

MAX_QUESTION_TEXT = 50_000
"""Characters of each text of a question; a whole bank's file may have ten times as many bytes."""


def _area(rows: int) -> forms.Textarea:
    return forms.Textarea(attrs={"rows": rows, "class": "vLargeTextField wide"})


class TextListField(forms.CharField):
    """A list of texts: one a line, or entries that begin with "- " where a text has several lines."""

    def __init__(self, **options: Any) -> None:
        super().__init__(
            required=False,
            widget=_area(5),
            help_text="One a line. Begin entries with “- ” if one has several lines. Markdown.",
            **options,
        )

    def prepare_value(self, value: Any) -> Any:
        """Return the list as text; text that was refused comes back as it was typed."""
        if not isinstance(value, list):
            return value
        return "\n".join("- " + text.replace("\n", "\n  ") for text in value)

    def to_python(self, value: Any) -> Any:
        """Return the list of texts."""
        typed = super().to_python(value) or ""
        if len(typed) > MAX_QUESTION_TEXT:
            raise ValidationError(f"This has {len(typed)} characters; the limit is {MAX_QUESTION_TEXT}.")
        lines = typed.replace("\r\n", "\n").split("\n")
        if not any(line.startswith("- ") for line in lines):
            return [line.strip() for line in lines if line.strip()]
        texts: list[str] = []
        for line in lines:
            if line.startswith("- ") or not texts:
                texts.append(line.removeprefix("- ").strip())
            else:
                texts[-1] += "\n" + line.removeprefix("  ").rstrip()
        return [text.strip() for text in texts if text.strip()]


class TagsField(forms.CharField):
    """Tags with commas between them."""

    def __init__(self) -> None:
        widget = forms.TextInput(attrs={"class": "vTextField"})
        super().__init__(required=False, widget=widget, help_text="With commas: terraform, inference.")

    def prepare_value(self, value: Any) -> Any:
        """Return the tags as text; text that was refused comes back as it was typed."""
        return ", ".join(value) if isinstance(value, list) else value

    def to_python(self, value: Any) -> Any:
        """Return the list of tags, in small letters with hyphens."""
        tags, problem = attributes.read_tags(super().to_python(value) or "")
        if problem:
            raise ValidationError(problem.capitalize() + ".")
        return tags


class Suggesting(forms.TextInput):
    """A text field that offers what other rows have, so that a category is not made twice by a slip."""

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> SafeString:
        """Return the field with its list of suggestions, as safe HTML."""
        known = Question.objects.order_by("category").values_list("category", flat=True).distinct()
        options = format_html_join("", "<option>{}</option>", ((category,) for category in known))
        field = super().render(name, value, {**(attrs or {}), "list": f"known-{name}"}, renderer)
        return format_html('{}<datalist id="known-{}">{}</datalist>', field, name, options)


class QuestionForm(QuestionModelForm):
    """A question with the wording of its newest version; saving another wording makes a new version."""

    title = forms.CharField(max_length=300, widget=forms.TextInput(attrs={"class": "vTextField long"}))
    prompt = forms.CharField(
        max_length=MAX_QUESTION_TEXT,
        required=False,
        widget=_area(4),
        help_text="The situation to put to the candidate.",
    )
    expected_answer = forms.CharField(
        max_length=MAX_QUESTION_TEXT, required=False, widget=_area(14), help_text="Markdown."
    )
    follow_ups = TextListField()
    hints = TextListField()
    discussion_points = TextListField()
    tags = TagsField()

    class Meta:
        model = Question
        fields = ("bank", "category", "tags", "difficulty", "minutes", "if_time_left", "archived")
        widgets = {"category": Suggesting(attrs={"class": "vTextField"})}

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        newest = self.instance.versions.first() if self.instance.pk else None
        if newest:
            for name in Wording.__dataclass_fields__:
                self.initial.setdefault(name, getattr(newest, name))

    def wording(self) -> Wording:
        """Return the wording that was typed; only after validation."""
        typed = {name: self.cleaned_data[name] for name in Wording.__dataclass_fields__}
        return Wording(**{name: _unix(value) for name, value in typed.items()})

    def parsed(self) -> ParsedQuestion:
        """Return the question as an import would have read it: that decides its kind and its key."""
        wording = self.wording()
        return ParsedQuestion(
            title=wording.title,
            category=self.cleaned_data["category"],
            line=0,
            expected_answer=wording.expected_answer,
            discussion_points=wording.discussion_points,
        )

    def clean(self) -> dict[str, Any]:
        """Refuse a new question that its bank already has."""
        super().clean()
        if not self.errors and not self.instance.pk:
            key = self.parsed().key
            if self.cleaned_data["bank"].questions.filter(key=key).exists():
                self.add_error("title", "This bank already has a question of this title. Edit that one.")
        return self.cleaned_data


class PlanForm(PlanModelForm):
    """A plan with the content of its newest version; saving other content makes a new version."""

    title = forms.CharField(
        max_length=plans.MAX_TITLE_LENGTH, widget=forms.TextInput(attrs={"class": "vTextField long"})
    )
    summary = forms.CharField(max_length=plans.MAX_SUMMARY_LENGTH, required=False, widget=_area(4))
    parts = forms.CharField(
        widget=_area(22),
        help_text="YAML or JSON: a list of parts with title, minutes, scenarios (slugs) and questions "
        "(a question's title, bank/key or UUID). What can be named is listed below.",
        initial="- title: First part\n  minutes: 30\n  scenarios: []\n  questions: []\n",
    )
    cuts = forms.CharField(required=False, widget=_area(3), help_text=HELP)
    close_while_paused = forms.BooleanField(
        required=False,
        label="Close the candidate's access while paused",
        help_text="Otherwise kubectl works on in a pause. Each session can choose differently.",
    )

    class Meta:
        model = Plan
        fields = ("slug", "archived")

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        newest = self.instance.versions.first() if self.instance.pk else None
        if newest:
            parts = plans.parts_as_yaml(newest.parts)
            self.initial.update(title=newest.title, summary=newest.summary, parts=parts)
            self.initial["close_while_paused"] = newest.close_while_paused
            self.initial["cuts"] = "\n".join(format_cuts(newest.cuts))

    def clean_summary(self) -> str:
        """Return the summary with plain line ends."""
        return str(_unix(self.cleaned_data["summary"]))

    def clean_parts(self) -> list[plans.Part]:
        """Return the checked parts, with the questions' UUIDs."""
        try:
            return plans.parse_parts(self.cleaned_data["parts"])
        except PlanProblem as exc:
            raise ValidationError(str(exc)) from exc

    def clean_cuts(self) -> list[Cut]:
        """Return the checked cuts; parts that are wrong say so themselves."""
        try:
            return plans.resolve_cuts(self.cleaned_data["cuts"].splitlines(), self.cleaned_data.get("parts", ()))
        except PlanProblem as exc:
            if "parts" not in self.cleaned_data:
                return []
            raise ValidationError(str(exc)) from exc


class ImportForm(forms.Form):
    """A Markdown question bank to take in."""

    file = forms.FileField(help_text="Markdown, UTF-8, at most 0.5 MB. The format is in docs/question-format.md.")
    check_only = forms.BooleanField(
        required=False, label="Only check", help_text="Show what the import would do, and change nothing."
    )
    bank = forms.SlugField(
        required=False, max_length=80, help_text="Slug of the bank; empty: made from the file's first heading."
    )

    def clean(self) -> dict[str, Any]:
        """Import the file; the report becomes ``cleaned_data["report"]``."""
        cleaned = super().clean() or {}
        if self.errors:
            return cleaned
        try:
            text = outline.decode(cleaned["file"].read(outline.LIMIT_BYTES + 1))
            cleaned["report"] = banks.import_bank(text, slug=cleaned["bank"], check_only=cleaned["check_only"])
        except ImportProblem as exc:
            self.add_error("file", str(exc))
        return cleaned


def _unix(value: Any) -> Any:
    return value.replace("\r\n", "\n").strip() if isinstance(value, str) else value
