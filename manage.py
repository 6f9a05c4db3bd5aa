#!/usr/bin/env python3
"""Django's command line for this site."""

import os
import sys

from django.core.management import execute_from_command_line

from interview_site.env import BadEnvironment


def main() -> None:
    """Run a management command; a bad environment variable is one line, not a traceback."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "interview_site.settings")
    try:
        execute_from_command_line(sys.argv)
    except BadEnvironment as exc:
        sys.exit(f"error: {exc}")


if __name__ == "__main__":
    main()
