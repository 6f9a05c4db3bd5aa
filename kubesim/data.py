"""The tables that stand beside the modules, read from YAML by the C parser where there is one: ten times as fast."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read(path: Path) -> Any:
    """Return what a YAML file of ours says."""
    with path.open("rb") as file:
        return yaml.load(file, Loader=LOADER)  # noqa: S506 - a safe loader
