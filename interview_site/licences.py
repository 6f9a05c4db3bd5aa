"""``python -m interview_site.licences``: no dependency may bind the project to the GPL."""

from __future__ import annotations

import json
import subprocess
import sys

# LGPL binds only the library itself; psycopg is used unchanged, as a separate package.
ALLOWED_LGPL = {"psycopg", "psycopg-binary"}


def refused(packages: list[dict[str, str]]) -> list[str]:
    """Return a line for every package under a GPL or AGPL licence, or an LGPL one that nobody has looked at."""
    return [f"{package['Name']}: {package['License']}" for package in packages if _binds(package)]


def _binds(package: dict[str, str]) -> bool:
    licence = package["License"].upper()
    if "LGPL" in licence or "LESSER" in licence:
        return package["Name"].lower() not in ALLOWED_LGPL
    return "GPL" in licence or "GENERAL PUBLIC" in licence


def main() -> int:
    """List what is refused; 1 where there is any."""
    command = [sys.executable, "-m", "piplicenses", "--format=json", "--from=mixed"]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 - fixed command
    lines = refused(json.loads(answer.stdout))
    print("\n".join(lines) or "licences: ok")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
