"""The unit file names commands and variables that exist."""

import configparser

import pytest


@pytest.fixture
def unit(settings):
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str
    text = (settings.BASE_DIR / "deploy" / "systemd" / "faultline.service").read_text()
    parser.read_string(text)
    return parser, text


def test_it_starts_the_supervisor(unit, settings):
    parser, _ = unit
    assert parser["Service"]["ExecStart"].endswith("manage.py up")
    assert (settings.BASE_DIR / "interview_site/management/commands/up.py").exists()


def test_every_variable_it_sets_is_one_that_the_settings_read(unit, settings):
    _, text = unit
    known = (settings.BASE_DIR / "interview_site" / "settings.py").read_text()
    names = [line.split("=")[1] for line in text.splitlines() if line.startswith("Environment=")]
    assert names
    assert all(f'"{name}"' in known for name in names)
