"""Everything missing is told before anything starts."""

import os
import platform
import socket
import sys

import pytest

from conftest import free_port
from interview_site import preflight, redis_server

pytestmark = pytest.mark.django_db


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
    other = int(problem.rsplit("Run: export PORT=")[1])
    assert other not in (settings.PORT, settings.KUBESIM_PORT)
    with socket.create_server(("127.0.0.1", other)):
        pass  # it is free


def test_a_port_of_the_system_is_answered_with_one_for_everybody(settings, monkeypatch):
    monkeypatch.setattr(preflight, "_unbindable", lambda address, port: "Permission denied" if port == 80 else "")
    settings.PORT = 80
    (problem,) = preflight.check()
    assert problem.endswith("Run: export PORT=8080")


def test_one_port_for_two_servers_is_refused(settings):
    settings.KUBESIM_PORT = settings.PORT
    (problem,) = preflight.check()
    assert "are both" in problem
    assert "Run: export KUBESIM_PORT=" in problem


def test_an_address_of_another_machine_is_named(settings):
    settings.BIND = "192.0.2.1"
    (problem,) = preflight.check()
    assert problem.startswith("BIND=192.0.2.1 is not an address of this machine")
    assert problem.endswith("Run: export BIND=127.0.0.1")


def test_every_address_wants_a_name_for_links(settings):
    settings.BIND, settings.PUBLIC_HOST_MISSING = "0.0.0.0", True
    (problem,) = preflight.check()
    assert "Run: export PUBLIC_HOST=" in problem


def test_a_public_name_that_this_machine_does_not_know_is_named(settings):
    settings.PUBLIC_HOST = "interviews.invalid"
    (problem,) = preflight.check()
    assert problem.endswith("Run: echo '127.0.0.1 interviews.invalid' | sudo tee -a /etc/hosts")


def test_a_second_supervisor_in_the_same_folder_is_refused(settings):
    running = rf"already runs in .*Run: kill {os.getpid()} "
    with preflight.alone(), pytest.raises(preflight.NotReady, match=running):
        preflight.alone()
    preflight.alone().close()


def test_a_folder_that_is_too_deep_for_sqlite_is_refused(settings, tmp_path):
    settings.DATA_DIR = tmp_path / ("d" * 200) / ("d" * 200)
    with pytest.raises(preflight.NotReady, match=r"its path is too long. Run: export DATA_DIR=\$HOME/faultline-data"):
        preflight.alone()


def test_a_folder_that_is_nearly_full_is_refused(monkeypatch):
    monkeypatch.setattr(preflight, "LEAST_FREE", 2**60)
    with pytest.raises(preflight.NotReady, match="MiB are free"):
        preflight.alone()


def test_a_redis_that_does_not_answer_is_named(settings):
    settings.OWN_REDIS, settings.REDIS_URL = False, "redis://127.0.0.1:1"
    (problem,) = preflight.check()
    assert "Connection refused" in problem
    assert "Run: unset REDIS_URL" in problem


def test_a_redis_that_answers_is_taken(settings, redis_url):
    settings.OWN_REDIS, settings.REDIS_URL = False, redis_url
    assert preflight.check() == []


@pytest.fixture
def elsewhere(settings, tmp_path):
    """The practice clusters run on another machine, and what is needed of it lies here."""
    settings.OWN_KUBESIM = False
    settings.KUBESIM_CA_FILE, settings.KUBESIM_TOKEN_FILE = tmp_path / "ca.crt", tmp_path / "control-token"
    settings.KUBESIM_CA_FILE.touch()
    settings.KUBESIM_TOKEN_FILE.touch()


def test_practice_clusters_elsewhere_want_their_token_here(settings, elsewhere):
    settings.KUBESIM_TOKEN_FILE.unlink()
    (problem,) = preflight.check()
    assert problem.endswith(f"Run: scp THAT_HOST:DATA_DIR/kubesim/control-token {settings.KUBESIM_TOKEN_FILE}")


def test_practice_clusters_elsewhere_need_no_port_here(settings, elsewhere):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings.KUBESIM_PORT = taken.getsockname()[1]
        assert preflight.check() == []


def test_a_file_where_the_data_folder_should_be_is_named(settings, tmp_path):
    (tmp_path / "data").write_text("in the way")
    (problem,) = preflight.check()
    assert "DATA_DIR" in problem
    assert "Run: export DATA_DIR=" in problem


def test_a_machine_without_redis_is_told_what_to_install(monkeypatch):
    monkeypatch.setattr(redis_server, "find", lambda: None)
    (problem,) = preflight.check()
    assert "brew install valkey" in problem


def test_a_redis_with_a_known_hole_is_told_and_a_newer_one_is_not(monkeypatch, tmp_path):
    for version, told in (("7.0.15", True), ("8.2.2", False)):
        server = tmp_path / "redis-server"
        server.write_text(f"#!/bin/sh\necho 'Redis server v={version} sha=0'\n")
        server.chmod(0o700)
        monkeypatch.setattr(redis_server, "find", lambda server=server: str(server))
        assert any("CVE-2025-49844 (Redis server v=7.0.15)" in note for note in preflight.notes()) == told


def test_a_configured_redis_is_asked_for_its_version(settings, redis_url):
    settings.OWN_REDIS, settings.REDIS_URL = False, redis_url
    assert preflight.notes() == []


def test_a_proxy_that_nobody_named_is_told(settings):
    settings.PUBLIC_SCHEME = "https"
    (note,) = preflight.notes()
    assert note.endswith("Run: export TRUSTED_PROXIES=ADDRESS_OF_THE_PROXY")
    settings.TRUSTED_PROXIES = ["10.0.0.7"]
    assert preflight.notes() == []


def test_an_older_package_of_this_machine_is_told(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(redis_server, "find", lambda: None)
    (note,) = preflight.notes()
    assert note.startswith("cryptography: Macs with an Intel processor get version 48")


def test_a_configured_redis_needs_none_of_ours(monkeypatch, settings, redis_url):
    monkeypatch.setattr(redis_server, "find", lambda: None)
    settings.OWN_REDIS, settings.REDIS_URL = False, redis_url
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
