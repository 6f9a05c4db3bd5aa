"""Every variant of every pack of the catalogue, and the words that nothing a candidate reads may hold."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from faults import packs
from faults.catalog_check.readable import TELLS
from faults.packs import Pack, Solution
from faults.practice_shape import PracticeShape, shape_for

__all__ = ["CATALOG", "CHECKED", "FIRST_PACK", "FOLDERS", "PACKS", "TELLS", "USUAL_PACKS", "objects_of", "variants"]
CATALOG = Path(packs.__file__).resolve().parents[1] / "catalog"
FOLDERS = sorted(path for path in CATALOG.iterdir() if path.is_dir() and not path.name.startswith("_"))
PACKS = [packs.parse(packs.load_folder(folder)) for folder in FOLDERS]
CHECKED = [pack for pack in PACKS if not pack.is_spoken]
"""Packs with something to repair or to do; the others are only spoken about."""
USUAL_PACKS = [pack for pack in PACKS if shape_for([pack]).dump() == PracticeShape().dump()]
"""Those for which the usual practice cluster is enough, of which a copy is kept ready."""
FIRST_PACK = [pack for pack in PACKS if pack.slug == "architecture-mismatch"]
"""The scenario that most tests inject."""


def objects_of(solution: Solution) -> list[dict[str, Any]]:
    """Return the objects in the files that a bound solution names."""
    return [obj for text in solution.files.values() for obj in yaml.safe_load_all(text)]


def variants(pack: Pack) -> Iterator[Pack]:
    """Yield the pack bound to every variant."""
    for values in pack.variants:
        yield pack.bind(parameters=values)
