"""Seeds the scenarios that ship with the project into the database."""

from __future__ import annotations

from pathlib import Path

from django.db import transaction
from django.db.models import Max

from faults import packs
from faults.models import Scenario, ScenarioVersion

CATALOG = Path(__file__).resolve().parent.parent / "catalog"


def seed_catalog(*, folder: Path = CATALOG) -> list[ScenarioVersion]:
    """Store every pack of the folder; one whose files are stored already stays as it is. Raises PackError."""
    return [_seed(path.parent) for path in sorted(folder.glob("*/scenario.yaml"))]


@transaction.atomic
def _seed(folder: Path) -> ScenarioVersion:
    files = packs.load_folder(folder)
    pack = packs.parse(files)
    packs.check_new(pack.template.document)
    scenario, _ = Scenario.objects.get_or_create(slug=pack.slug)
    newest = scenario.versions.aggregate(newest=Max("number"))["newest"] or 0
    version, _ = ScenarioVersion.objects.get_or_create(
        scenario=scenario,
        digest=packs.digest(files),
        defaults={
            "number": max(newest + 1, pack.version),
            "files": files,
            "title": pack.title,
            "category": pack.category,
            "difficulty": pack.difficulty,
            "minutes": pack.minutes,
        },
    )
    return version
