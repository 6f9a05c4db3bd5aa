"""No log line opens anything."""

from __future__ import annotations

import logging
import logging.config
import secrets

import pytest
from django.conf import settings

from interview_site.masking import MaskingFormatter, mask

TOKEN = "q3Jx-0aZk_Vb9TtYw2LmN8sRdE5uC7hGfP1oIiXy4Kc"


@pytest.mark.parametrize(
    "line",
    [
        f"Forbidden (CSRF cookie not set.): /join/{TOKEN}/",
        f"Not Found: /JOIN/{TOKEN}/",
        f"Not Found: //join//{TOKEN}/x",
        f"Not Found: /join/ {TOKEN}/",
        f"Not Found: /join/{TOKEN} {TOKEN}",
        f"Not Found: /join%2F{TOKEN}",
        f"Method Not Allowed (PUT): /join/{TOKEN}/",
        f"Not Found: /jion/{TOKEN}/",
        f"Not Found: /{TOKEN}",
        f'127.0.0.1:4 - "POST /join/{TOKEN}/ HTTP/1.1" 403',
        f"Bad Request: /x/?token={TOKEN}&a=b",
        f"Authorization: Bearer {TOKEN}",
        f"Internal Server Error: http://127.0.0.1:8000/join/{TOKEN}/",
    ],
)
def test_a_line_with_a_token_hides_it(line):
    shown = mask(line)
    assert TOKEN not in shown
    assert "[hidden]" in shown


def test_every_random_token_is_hidden_behind_join():
    lines = [mask(f"Forbidden: /join/{token}/") for token in (secrets.token_urlsafe(32) for _ in range(500))]
    assert set(lines) == {"Forbidden: /join/[hidden]"}


def test_a_web_token_of_kubernetes_is_hidden():
    token = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJodHRwcyJ9.c2lnbmF0dXJl-_"
    assert mask(f"refused {token} of sam") == "refused [hidden] of sam"


@pytest.mark.parametrize(
    "line",
    [
        "Not Found: /sessions/2f1c0e9a-7f6b-4a53-9b6e-0d6f7c3e2a11/panels/pods/",
        "GET /api/v1/namespaces/training-7d9f8b6c5d-abcde/pods failed",
        'File "/srv/faultline/sessions/services/preparation.py", line 12, in prepare',
        "join the interview: nobody has joined",
        "Ready after 2.1 s: http://127.0.0.1:8000/   (Ctrl-C stops everything)",
    ],
)
def test_other_lines_stay_as_they_are(line):
    assert mask(line) == line


def test_a_traceback_is_masked_too():
    try:
        raise ValueError(f"cannot open /join/{TOKEN}/")
    except ValueError as exc:
        record = logging.LogRecord("x", logging.ERROR, __file__, 1, "failed %s", ("/join/" + TOKEN,), None)
        record.exc_info = (ValueError, exc, exc.__traceback__)
    assert TOKEN not in MaskingFormatter("%(message)s").format(record)


@pytest.mark.parametrize("name", ["", "django", "django.request", "django.security.csrf", "django.server"])
def test_every_handler_of_the_settings_masks(name):
    assert all(isinstance(handler["formatter"], str) for handler in settings.LOGGING["handlers"].values())
    logger: logging.Logger | None = logging.getLogger(name)
    while logger is not None:
        ours = [each for each in logger.handlers if not type(each).__module__.startswith("_pytest")]
        assert all(isinstance(each.formatter, MaskingFormatter) for each in ours)
        logger = logger.parent if logger.propagate else None
