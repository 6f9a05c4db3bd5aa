"""Django's secret key where none is configured: made once and kept beside the data."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from interview_site.env import BadEnvironment


def kept_in(folder: Path) -> str:
    """Return the key of an installation. Processes that start at the same moment agree on one."""
    path = folder / "secret_key"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.exists() or not path.stat().st_size:
            _make(path)
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        why = getattr(exc, "strerror", None) or "secret_key is not text"
        raise BadEnvironment(
            f"DATA_DIR {folder} cannot be used: {why}. Run: export DATA_DIR=$HOME/faultline-data"
        ) from exc


def _make(path: Path) -> None:
    """Put a new key into place as a whole; whoever comes first wins, and an empty file is no key."""
    draft = path.with_name(f".secret_key-{os.getpid()}")
    try:
        draft.touch(mode=0o600)
        draft.write_text(secrets.token_urlsafe(50), encoding="utf-8")
        _put(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def _put(draft: Path, path: Path) -> None:
    if path.exists() and not path.stat().st_size:
        path.unlink()
    try:
        os.link(draft, path)
    except FileExistsError:
        return
    except OSError:  # a file system without links
        draft.replace(path)
