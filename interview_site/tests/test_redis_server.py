"""Search for a Redis server, and versions known to be safe."""

from __future__ import annotations

import platform
import subprocess

import pytest

from interview_site import redis_server


@pytest.mark.parametrize(
    ("text", "fixed"),
    [
        ("Redis server v=6.2.14 sha=0", False),
        ("Redis server v=6.2.20 sha=0", True),
        ("Redis server v=7.0.15 sha=0", False),
        ("Redis server v=7.4.5 sha=0", False),
        ("Redis server v=8.2.2 sha=0", True),
        ("Redis server v=8.4.0 sha=0", True),
        ("Valkey server v=8.1.3 sha=0", False),
        ("Valkey server v=8.1.4 sha=0", True),
        ("Valkey server v=9.1.2 sha=0", True),
        ("", False),
        ("KeyDB", False),
    ],
)
def test_a_version_without_the_hole_is_known(text, fixed):
    assert redis_server.is_fixed(text) == fixed


def test_the_embedded_server_runs_and_is_safe():
    server = redis_server.embedded()
    assert server is not None
    text = redis_server.version_text(server)
    assert text.startswith("Valkey server v=9.")
    assert redis_server.is_fixed(text)


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Return a function that puts a server of a version on PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))

    def put(version):
        server = tmp_path / "redis-server"
        server.write_text(f"#!/bin/sh\necho 'Redis server v={version} sha=0'\n")
        server.chmod(0o700)
        return str(server)

    return put


def test_the_machines_own_comes_first(own):
    server = own("8.2.3")
    assert redis_server.find() == server


def test_the_embedded_one_comes_before_a_hole(own):
    own("7.0.15")
    assert redis_server.find() == redis_server.embedded()


def test_a_hole_comes_before_nothing(own, monkeypatch):
    monkeypatch.setattr(redis_server, "embedded", lambda: None)
    assert redis_server.find() is None
    server = own("7.0.15")
    assert redis_server.find() == server


def test_what_cannot_be_run_has_no_version(tmp_path):
    (tmp_path / "x").write_text("no program")
    assert redis_server.version_text(str(tmp_path / "x")) == ""


@pytest.mark.parametrize(
    ("system", "machine", "folder"),
    [
        ("Linux", "x86_64", "linux-x86_64"),
        ("Linux", "aarch64", "linux-aarch64"),
        ("Darwin", "arm64", "darwin-arm64"),
        ("Darwin", "x86_64", "darwin-x86_64"),
    ],
)
def test_every_machine_has_its_folder_in_the_wheel(monkeypatch, system, machine, folder):
    asked = []
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr("pathlib.Path.is_file", lambda path: asked.append(path.parent.name) or False)
    assert redis_server.embedded() is None
    assert asked == [folder]


def test_it_answers_on_its_socket(redis_url):
    assert redis_url.startswith("unix://")
    assert subprocess.run([redis_server.find(), "--version"], capture_output=True, check=True).stdout
