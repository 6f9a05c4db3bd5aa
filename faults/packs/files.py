"""A pack's files: from a folder to texts, and the digest that names one state of them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from faults.packs import workspaces
from faults.packs.errors import PackError

MAX_FILES = 64
MAX_FILE_BYTES = 64 * 1024
_ALLOWED = re.compile(r"(scenario\.yaml|[a-z0-9-]+\.md|(manifests|solutions|wrong-turns)/[a-z0-9-]+\.yaml)")


def load_folder(path: Path) -> dict[str, str]:
    """Return every file of a pack's folder: path inside the pack -> text. Raises ``PackError``.

    One with a workspace has the platform's code below its own files.
    """
    if not path.is_dir():
        raise PackError(path.name, "", "is not a folder")
    found = sorted(file for file in path.rglob("*") if not file.is_dir() and not file.name.startswith("."))
    files = workspaces.merged({file.relative_to(path).as_posix(): _read(file, path) for file in found})
    check_names(files)
    return files


def check_names(files: Mapping[str, str]) -> None:
    """Refuse files that a pack has no use for, and too many or too large ones."""
    workspaces.check_files(files)
    own = {name: text for name, text in files.items() if not workspaces.is_workspace(name)}
    if len(own) > MAX_FILES:
        raise PackError("pack", "", f"has {len(own)} files; at most {MAX_FILES} are allowed")
    for name, text in own.items():
        if not _ALLOWED.fullmatch(name):
            allowed = "scenario.yaml, a .md file, or a .yaml file in manifests/, solutions/ or wrong-turns/"
            raise PackError(name, "", f"is not {allowed}")
        if len(text.encode()) > MAX_FILE_BYTES:
            raise PackError(name, "", f"is larger than {MAX_FILE_BYTES // 1024} KiB")


def digest(files: Mapping[str, str]) -> str:
    """Return the SHA-256, as hex, over the sorted file names and their contents, each with its length in front."""
    sha = hashlib.sha256()
    for name in sorted(files):
        for part in (name.encode(), files[name].encode()):
            sha.update(len(part).to_bytes(8, "big") + part)
    return sha.hexdigest()


def _read(file: Path, root: Path) -> str:
    name = file.relative_to(root).as_posix()
    if file.is_symlink():
        raise PackError(name, "", "is a link; packs hold plain files")
    if file.stat().st_size > MAX_FILE_BYTES:
        raise PackError(name, "", f"is larger than {MAX_FILE_BYTES // 1024} KiB")
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as exc:
        raise PackError(name, f"byte {exc.start}", "is not UTF-8 text") from exc
