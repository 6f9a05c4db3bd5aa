"""Parts that tests of GPU faults share: colours for what they print, and their configuration from the environment."""

from __future__ import annotations

import os
import sys


def _is_colourful() -> bool:
    return sys.stdout.isatty() or os.environ.get("FORCE_COLOR", "") not in ("", "0")


class Colors:
    """Escape sequences of a terminal; empty where the output is read by a program, unless FORCE_COLOR is set."""

    RED = "\033[91m" if _is_colourful() else ""
    GREEN = "\033[92m" if _is_colourful() else ""
    YELLOW = "\033[93m" if _is_colourful() else ""
    BLUE = "\033[94m" if _is_colourful() else ""
    BOLD = "\033[1m" if _is_colourful() else ""
    RESET = "\033[0m" if _is_colourful() else ""


def get_config_from_env() -> dict[str, str]:
    """Return where the API, the model's front end and the workload are; the defaults are those of guide mode."""
    return {
        "api_url": os.environ.get("API_URL", "http://localhost:8080"),
        "frontend_url": os.environ.get("FRONTEND_URL", "http://localhost:8000"),
        "app_namespace": os.environ.get("APP_NAMESPACE", "dynamo-oviya"),
    }
