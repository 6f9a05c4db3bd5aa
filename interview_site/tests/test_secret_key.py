"""The key is made once, as a whole, for us alone."""

import os
import stat
from multiprocessing.pool import ThreadPool

import pytest

from interview_site import secret_key
from interview_site.env import BadEnvironment


def test_it_is_made_once_and_read_by_nobody_else(tmp_path):
    folder = tmp_path / "data"
    key = secret_key.kept_in(folder)
    assert len(key) > 50
    assert secret_key.kept_in(folder) == key
    assert stat.S_IMODE((folder / "secret_key").stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert os.listdir(folder) == ["secret_key"]


def test_an_empty_file_is_no_key(tmp_path):
    (tmp_path / "secret_key").touch()
    assert secret_key.kept_in(tmp_path)


def test_those_who_start_together_agree(tmp_path, monkeypatch):
    ids = iter(range(100))
    monkeypatch.setattr(os, "getpid", lambda: next(ids))  # threads stand in for processes
    with ThreadPool(8) as pool:
        assert len(set(pool.map(secret_key.kept_in, [tmp_path] * 8))) == 1


def test_a_file_system_without_links_will_do(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    key = secret_key.kept_in(tmp_path)
    assert secret_key.kept_in(tmp_path) == key


@pytest.mark.parametrize("place", ["file/data", "file"])
def test_a_folder_that_cannot_be_is_named(tmp_path, place):
    (tmp_path / "file").touch()
    with pytest.raises(BadEnvironment, match="Run: export DATA_DIR="):
        secret_key.kept_in(tmp_path / place)


def test_a_key_that_is_not_text_is_named(tmp_path):
    (tmp_path / "secret_key").write_bytes(b"\xff")
    with pytest.raises(BadEnvironment, match="secret_key is not text"):
        secret_key.kept_in(tmp_path)
