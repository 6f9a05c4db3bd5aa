#!/usr/bin/env python3
"""Django's command line for this site."""

import os
import sys

try:
    from django.core.management import execute_from_command_line
    from django.db import DatabaseError
    from redis.exceptions import RedisError

    from interview_site import outages
    from interview_site.env import BadEnvironment
except ModuleNotFoundError as exc:
    sys.exit(f"error: this Python has not our packages ({exc}). Run: make setup   (then .venv/bin/python manage.py)")


def main() -> None:
    """Run a management command. What is wrong outside of our code is one line, not a traceback."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "interview_site.settings")
    try:
        execute_from_command_line(sys.argv)
    except KeyboardInterrupt:
        sys.exit(130)
    except BadEnvironment as exc:
        sys.exit(f"error: {exc}")
    except (DatabaseError, RedisError) as exc:
        if (line := outages.explain(exc)) is None:
            raise
        sys.exit(f"error: {line}")


if __name__ == "__main__":
    main()
