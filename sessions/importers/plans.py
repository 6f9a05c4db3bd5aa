"""Plans as YAML that a person writes: checked to the last field, resolved, and frozen as a new version.

A part names scenarios by slug, and questions by their title, as ``bank/key``, or by UUID. A part without a scenario
may have tasks to speak about (Markdown), and criteria to rate them by. One with scenarios may say by ``injection``
that their faults are injected when it starts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any
from uuid import UUID

import yaml
from django.db import transaction
from django.db.models import OuterRef, Subquery
from django.utils.text import slugify

from faults import services as fault_services
from faults.models import Scenario, ScenarioVersion
from faults.packs import PackError, safe_yaml
from faults.plain_text import plain, plain_line
from faults.selectors import pack_of
from sessions.importers.cuts import Cut, CutProblem, parse_cuts
from sessions.models import Plan, PlanVersion, Question, QuestionVersion, StagedPart
from sessions.part_minutes import LONGEST, SHORTEST
from sessions.subjects import part_criterion_key

LIMIT_CHARACTERS = 50_000
MOST_PARTS, MOST_ENTRIES = 20, 50
MAX_CRITERIA, MAX_CRITERION_LENGTH, MAX_TASKS_LENGTH = 20, 200, 8000
MAX_TITLE_LENGTH, MAX_SUMMARY_LENGTH = 200, 2000
_CONTENT = ("title", "summary", "parts", "close_while_paused", "cuts")
_MAY_HAVE = {"close_while_paused", "cuts"}
_FIELDS = {"title", "minutes", "scenarios", "questions", "tasks", "criteria", "injection"}
BEFORE = "before"
INJECTIONS = (BEFORE, *StagedPart.Start.values)
"""Times at which a part's faults are injected: before the interview (the default), or when the part starts."""

Part = dict[str, Any]


class PlanProblem(Exception):
    """The plan cannot be taken; the message is one line that says where and what to do."""


@dataclass(frozen=True)
class PlanText:
    """A plan as its file has it, checked but not yet resolved."""

    slug: str
    title: str
    summary: str
    parts: list[Part]
    close_while_paused: bool = False
    cuts: list[Cut] = field(default_factory=list)


def read_plan(path: Path) -> PlanText:
    """Return the plan of a YAML file: slug, title, summary, parts; if it has them, close_while_paused and cuts.

    Raises PlanProblem.
    """
    data = _load(path.read_text(encoding="utf-8"))
    if not isinstance(data, dict) or set(data) - _MAY_HAVE != {"slug", "title", "summary", "parts"}:
        raise PlanProblem(
            f"{path.name}: a plan has slug, title, summary and parts, may have close_while_paused and cuts, "
            "and nothing else."
        )
    closes = data.get("close_while_paused", False)
    if not isinstance(closes, bool):
        raise PlanProblem(f"{path.name}: close_while_paused must be true or false.")
    if slugify(str(data["slug"])) != data["slug"]:
        raise PlanProblem(f"{path.name}: the slug must be small letters, digits and hyphens.")
    title, summary = str(data["title"]).strip(), str(data["summary"]).strip()
    if not 1 <= len(title) <= MAX_TITLE_LENGTH:
        raise PlanProblem(f"{path.name}: the title must have 1 to {MAX_TITLE_LENGTH} characters.")
    if len(summary) > MAX_SUMMARY_LENGTH:
        raise PlanProblem(
            f"{path.name}: the summary has {len(summary)} characters; the limit is {MAX_SUMMARY_LENGTH}. Shorten it."
        )
    parts = resolve_parts(data["parts"])
    return PlanText(data["slug"], title, summary, parts, closes, resolve_cuts(data.get("cuts"), parts))


def parse_parts(text: str) -> list[Part]:
    """Return the parts of a plan, with question UUIDs, from YAML or JSON text. Raises PlanProblem."""
    return resolve_parts(_load(text))


def resolve_parts(data: object) -> list[Part]:
    """Return checked parts as ``PlanVersion.parts`` keeps them. Raises PlanProblem naming the part."""
    if not isinstance(data, list) or not 1 <= len(data) <= MOST_PARTS:
        raise PlanProblem(f"Write a list of 1 to {MOST_PARTS} parts, each starting with “- title: ...”.")
    parts = [_part(number, item) for number, item in enumerate(data, 1)]
    _check_whole(parts)
    _check_scenarios(parts)
    return _with_question_uuids(parts)


def resolve_cuts(lines: object, parts: Iterable[Part]) -> list[Cut]:
    """Return checked cuts of a plan, from their lines. Raises PlanProblem."""
    found = [] if lines is None else lines
    if not isinstance(found, list) or not all(isinstance(line, str) for line in found):
        raise PlanProblem("Write cuts as a list of quoted texts, such as “90: 10 30 20 15 15”.")
    try:
        return parse_cuts(found, [part["minutes"] for part in parts])
    except CutProblem as exc:
        raise PlanProblem(str(exc)) from exc


def parts_as_yaml(parts: Iterable[Part]) -> str:
    """Return parts as the YAML that ``parse_parts`` reads; questions are named by title where that is unique."""
    named = _names({uuid for part in parts for uuid in part["questions"]})
    plain = [{**part, "questions": [named.get(uuid, uuid) for uuid in part["questions"]]} for part in parts]
    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=LIMIT_CHARACTERS)


@transaction.atomic
def save_plan(
    plan: Plan,
    *,
    title: str,
    summary: str,
    parts: list[Part],
    close_while_paused: bool = False,
    cuts: Iterable[Cut] = (),
) -> PlanVersion | None:
    """Freeze a plan's content with the newest scenario versions; None where the newest version is the same."""
    scenarios = newest_scenarios(slug for part in parts for slug in part["scenarios"])
    newest = plan.versions.prefetch_related("scenarios").first()
    content = {
        "title": title,
        "summary": summary,
        "parts": parts,
        "close_while_paused": close_while_paused,
        "cuts": list(cuts),
    }
    if newest and _content(newest) == content and set(newest.scenarios.all()) == set(scenarios):
        return None
    version = plan.versions.create(number=newest.number + 1 if newest else 1, **content)
    version.scenarios.set(scenarios)
    return version


@transaction.atomic
def seed_plan(content: PlanText) -> PlanVersion | None:
    """Create the plan, or follow newer scenario versions; a plan that somebody edited is left alone."""
    plan, _ = Plan.objects.get_or_create(slug=content.slug)
    newest = plan.versions.first()
    if newest and _content(newest) != _content(content):
        return None
    return save_plan(plan, **_content(content))


def newest_scenarios(slugs: Iterable[str]) -> list[ScenarioVersion]:
    """Return the newest version of each of these scenarios that is not archived."""
    newest = ScenarioVersion.objects.filter(scenario=OuterRef("scenario")).order_by("-number").values("pk")[:1]
    found = ScenarioVersion.objects.filter(
        scenario__slug__in=list(slugs), scenario__archived=False, pk=Subquery(newest)
    )
    return list(found.select_related("scenario"))


def usable_scenarios() -> list[str]:
    """Return the slugs that a plan may name."""
    rows = Scenario.objects.filter(archived=False, versions__isnull=False).order_by("slug").distinct()
    return list(rows.values_list("slug", flat=True))


def usable_questions() -> list[str]:
    """Return the questions that a plan may name, each as short as it can be named: by title, or as bank/key."""
    return sorted(_names({str(uuid) for *_, uuid in _references()}).values())


def _near(name: str, known: Iterable[str]) -> str:
    """Return a sentence that offers the likeliest name; empty where none is like it."""
    found = get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f" Did you mean “{found[0]}”?" if found else ""


def _content(plan: PlanVersion | PlanText) -> dict[str, Any]:
    return {name: getattr(plan, name) for name in _CONTENT}


def _load(text: str) -> object:
    if len(text) > LIMIT_CHARACTERS:
        raise PlanProblem(f"The text has {len(text)} characters; the limit is {LIMIT_CHARACTERS}.")
    try:
        safe_yaml.check_limits("plan", text)
        return yaml.safe_load(text)
    except PackError as exc:
        raise PlanProblem(f"{exc.where.capitalize() or 'The text'} {exc.message}.") from exc
    except yaml.MarkedYAMLError as exc:
        line = exc.problem_mark.line + 1 if exc.problem_mark else 1
        raise PlanProblem(f"Line {line}: this is not YAML ({exc.problem}).") from exc
    except (yaml.YAMLError, ValueError, RecursionError) as exc:
        raise PlanProblem("This is not YAML that can be read; look for stray or deeply nested brackets.") from exc


def _part(number: int, item: object) -> Part:
    if not isinstance(item, dict):
        raise PlanProblem(f"Part {number}: write title, minutes, scenarios and questions.")
    if unknown := sorted(str(key) for key in set(item) - _FIELDS):
        raise PlanProblem(f"Part {number}: {unknown[0]!r} is unknown. Known are {', '.join(sorted(_FIELDS))}.")
    title = item.get("title")
    if not isinstance(title, str) or not title.strip() or len(title) > MAX_TITLE_LENGTH:
        raise PlanProblem(f"Part {number}: the title must be a text of 1 to {MAX_TITLE_LENGTH} characters.")
    minutes = item.get("minutes")
    if not isinstance(minutes, int) or isinstance(minutes, bool) or not 1 <= minutes <= LONGEST:
        raise PlanProblem(f"Part {number}: minutes must be a whole number from 1 to {LONGEST}.")
    lists = {name: _texts(number, name, item.get(name)) for name in ("scenarios", "questions")}
    spoken = _spoken(number, item)
    if not any(lists.values()) and not spoken:
        raise PlanProblem(f"Part {number}: name at least one scenario or question, or write tasks.")
    if lists["scenarios"] and spoken.get("criteria"):
        raise PlanProblem(f"Part {number}: its scenarios bring their own criteria; leave criteria out.")
    staged = _injection(number, item, bool(lists["scenarios"]))
    return {"title": title.strip(), "minutes": minutes, **lists, **spoken, **staged}


def _injection(number: int, item: dict[str, Any], has_scenarios: bool) -> Part:
    """Return when a part's faults are injected, where that is not before the interview."""
    chosen = item.get("injection", BEFORE)
    if chosen not in INJECTIONS:
        raise PlanProblem(f"Part {number}: injection must be one of {', '.join(INJECTIONS)}.")
    if chosen == BEFORE:
        return {}
    if not has_scenarios:
        raise PlanProblem(f"Part {number}: it has no scenario that could be injected; leave injection out.")
    if chosen == StagedPart.Start.AUTOMATIC and number == 1:
        raise PlanProblem("Part 1: no part comes before it. Inject before the interview, or by the button.")
    return {"injection": chosen}


def _spoken(number: int, item: dict[str, Any]) -> Part:
    """Return tasks and criteria as far as there are any: parts from before there were any compare as they were."""
    tasks = item.get("tasks") or ""
    if not isinstance(tasks, str) or len(tasks) > MAX_TASKS_LENGTH:
        raise PlanProblem(f"Part {number}: tasks must be a text of at most {MAX_TASKS_LENGTH} characters.")
    criteria = _texts(number, "criteria", item.get("criteria"))
    if len(criteria) > MAX_CRITERIA or any(not 1 <= len(text) <= MAX_CRITERION_LENGTH for text in criteria):
        raise PlanProblem(
            f"Part {number}: write at most {MAX_CRITERIA} criteria of 1 to {MAX_CRITERION_LENGTH} characters."
        )
    keys = [part_criterion_key(text) for text in criteria]
    if twice := next((text for text, key in zip(criteria, keys, strict=True) if keys.count(key) > 1), None):
        raise PlanProblem(f"Part {number}: the criterion “{twice}” is in it twice.")
    found = {"tasks": plain(tasks.strip()), "criteria": [plain_line(text) for text in criteria]}
    return {name: value for name, value in found.items() if value}


def _texts(number: int, name: str, value: object) -> list[str]:
    value = [] if value is None else value
    if not isinstance(value, list) or len(value) > MOST_ENTRIES or not all(isinstance(text, str) for text in value):
        raise PlanProblem(
            f"Part {number}: {name} must be a list of at most {MOST_ENTRIES} texts; quote a text with a colon."
        )
    return [text.strip() for text in value]


def _check_whole(parts: list[Part]) -> None:
    total = sum(part["minutes"] for part in parts)
    if not SHORTEST <= total <= LONGEST:
        raise PlanProblem(f"The parts take {total} minutes; an interview lasts from {SHORTEST} to {LONGEST}.")


def _check_scenarios(parts: list[Part]) -> None:
    wanted = [(number, slug) for number, part in enumerate(parts, 1) for slug in part["scenarios"]]
    versions = newest_scenarios(slug for _, slug in wanted)
    known = {version.scenario.slug for version in versions}
    seen: set[str] = set()
    for number, slug in wanted:
        if slug not in known:
            near = _near(slug, usable_scenarios())
            raise PlanProblem(f"Part {number}: no scenario {slug[:80]!r} in the catalogue (or it is archived).{near}")
        if slug in seen:
            raise PlanProblem(f"Part {number}: the scenario {slug!r} is in the plan twice.")
        seen.add(slug)
    if why := refusal_together(wanted, versions):
        raise PlanProblem(why)


def refusal_together(wanted: Iterable[tuple[int, str]], versions: Iterable[ScenarioVersion]) -> str:
    """Return why scenarios cannot be in one interview, in a sentence; empty where they can.

    ``wanted`` has their slugs in the order of the interview, each with the number of its part.
    """
    by_slug = {version.scenario.slug: version for version in versions}
    found = [(number, pack_of(by_slug[slug])) for number, slug in wanted if slug in by_slug]
    packs, numbers = [pack for _, pack in found], [number for number, _ in found]
    return fault_services.refusal_together(packs=packs, parts=numbers)


def _with_question_uuids(parts: list[Part]) -> list[Part]:
    found = _resolve({text for part in parts for text in part["questions"]})
    seen: set[str] = set()
    for number, part in enumerate(parts, 1):
        for text in part["questions"]:
            matches = found.get(text, [])
            if len(matches) != 1:
                problem = "means several questions: write bank/key" if matches else "is not in any bank (or archived)"
                near = "" if matches else _near(text, (title for _, _, title, _ in _references()))
                raise PlanProblem(f"Part {number}: the question “{text[:80]}” {problem}.{near}")
            if matches[0] in seen:
                raise PlanProblem(f"Part {number}: the question “{text[:80]}” is in the plan twice.")
            seen.add(matches[0])
        part["questions"] = [found[text][0] for text in part["questions"]]
    return parts


def _resolve(texts: set[str]) -> dict[str, list[str]]:
    """Return the UUIDs that each reference means."""
    found: dict[str, list[str]] = {}
    if not texts:
        return found
    for bank, key, title, uuid in _references():
        for name in {f"{bank}/{key}", title, str(uuid)} & texts:
            found.setdefault(name, []).append(str(uuid))
    return found


def _names(uuids: set[str]) -> dict[str, str]:
    """Return the best name of each question: its title where no other has it, else bank/key."""
    if not uuids:
        return {}
    rows = _references()
    titles = [title for _, _, title, _ in rows]
    wanted = [row for row in rows if str(row[3]) in uuids]
    return {str(uuid): title if titles.count(title) == 1 else f"{bank}/{key}" for bank, key, title, uuid in wanted}


def _references() -> list[tuple[str, str, str, UUID]]:
    newest = QuestionVersion.objects.filter(question=OuterRef("pk")).order_by("-number").values("title")[:1]
    questions = Question.objects.filter(archived=False).annotate(title=Subquery(newest))
    return list(questions.values_list("bank__slug", "key", "title", "uuid"))
