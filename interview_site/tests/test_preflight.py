"""What is missing is said before anything starts."""

import os
import socket

import pytest

from conftest import free_port
from interview_site import preflight, redis_server


@pytest.fixture(autouse=True)
def free(settings, tmp_path):
    settings.PORT, settings.KUBESIM_PORT = free_port(), free_port()
    settings.DATA_DIR, settings.RUN_DIR = tmp_path / "data", tmp_path / "run"


def test_a_good_machine_has_no_problems():
    assert preflight.check() == []


def test_a_port_in_use_is_named_with_another_one(settings):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings.PORT = taken.getsockname()[1]
        (problem,) = preflight.check()
    assert f"Run: export PORT={settings.PORT + 1}" in problem


def test_an_address_of_another_machine_is_named(settings):
    settings.BIND = "192.0.2.1"
    assert all("192.0.2.1" in problem for problem in preflight.check())
    assert len(preflight.check()) == 2


def test_a_file_where_the_data_folder_should_be_is_named(settings, tmp_path):
    (tmp_path / "data").write_text("in the way")
    (problem,) = preflight.check()
    assert "DATA_DIR" in problem
    assert "Run: export DATA_DIR=" in problem


def test_a_machine_without_redis_is_told_what_to_install(monkeypatch):
    monkeypatch.setattr(redis_server, "find", lambda: None)
    (problem,) = preflight.check()
    assert "brew install redis" in problem


def test_a_configured_redis_needs_none_of_ours(monkeypatch, settings):
    monkeypatch.setattr(redis_server, "find", lambda: None)
    settings.OWN_REDIS = False
    assert preflight.check() == []


def test_a_socket_path_that_is_too_long_is_named(settings, tmp_path):
    settings.RUN_DIR = tmp_path / ("d" * 100)
    (problem,) = preflight.check()
    assert "too long" in problem


def test_something_in_the_way_of_the_socket_is_named(settings):
    os.makedirs(settings.RUN_DIR)
    (settings.RUN_DIR / "redis.sock").write_text("")
    (problem,) = preflight.check()
    assert problem.startswith(str(settings.RUN_DIR / "redis.sock"))
