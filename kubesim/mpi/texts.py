"""Messages of Open MPI, as ``texts.yaml`` has them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from kubesim import data

RULE = "-" * 74 + "\n"


@cache
def _table() -> dict[str, str]:
    return dict(data.read(Path(__file__).with_name("texts.yaml")))


def show(name: str, **values: object) -> str:
    """Return a message between two lines of hyphens."""
    return f"{RULE}{_table()[name].format(**values)}{RULE}"


def usage() -> str:
    """Return what mpirun prints when it is asked for help."""
    return _table()["help"]
