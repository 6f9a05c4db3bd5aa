"""Every variant of every pack of the catalogue, and the words that nothing a candidate reads may hold."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from faults import packs
from faults.packs import Pack

CATALOG = Path(packs.__file__).resolve().parents[1] / "catalog"
FOLDERS = sorted(path for path in CATALOG.iterdir() if path.is_dir() and not path.name.startswith("_"))
PACKS = [packs.parse(packs.load_folder(folder)) for folder in FOLDERS]
TELLS = re.compile(
    r"(?<!de)fault|inject|simulat|interview|candidate|chaos|broken|scenario|kubesim|mismatch|symptom",
    re.IGNORECASE,
)


def variants(pack: Pack) -> Iterator[Pack]:
    """Yield the pack bound to every variant."""
    for values in pack.variants:
        yield pack.bind(parameters=values)
