"""The scorecard as JSON, valid against schema.json beside this file."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from sessions.scorecards.build import Scorecard


def as_json(card: Scorecard) -> bytes:
    """Return the scorecard as indented UTF-8 JSON with a final newline."""
    return (json.dumps(card, ensure_ascii=False, indent=2) + "\n").encode()


@cache
def schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a scorecard."""
    loaded: dict[str, Any] = json.loads(Path(__file__).with_name("schema.json").read_text(encoding="utf-8"))
    return loaded
