"""The length of files: what a newcomer can read at once."""

import pytest
from django.conf import settings

PARTS = (
    "bench",
    "e2e",
    "faults",
    "interview_site",
    "kubesim",
    "native",
    "sessions",
    "static",
    "templates",
    "torture",
)
KINDS = (".c", ".css", ".h", ".html", ".js", ".py")
MAX_LINES = 500
FILES = [
    path.relative_to(settings.BASE_DIR)
    for part in PARTS
    for path in sorted((settings.BASE_DIR / part).rglob("*"))
    if path.suffix in KINDS
]


def test_files_of_every_part_are_looked_at():
    assert {path.parts[0] for path in FILES} == set(PARTS)


@pytest.mark.parametrize("part", PARTS)
def test_no_file_has_more_than_500_lines(part):
    sizes = {
        str(path): (settings.BASE_DIR / path).read_bytes().count(b"\n") for path in FILES if path.parts[0] == part
    }
    assert not {path: lines for path, lines in sizes.items() if lines > MAX_LINES}
