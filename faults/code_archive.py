"""Terraform code as a zip: made for a download, and read from whoever uploads one, within limits."""

from __future__ import annotations

import io
import re
import stat
import zipfile
import zlib
from collections.abc import Mapping

from faults.errors import FaultError

MAX_ZIP_BYTES = 256 * 1024
MAX_FILES, MAX_FILE_BYTES, MAX_BYTES = 200, 128 * 1024, 512 * 1024
TOP = "platform/"
"""The folder that a download has, and an upload may have."""
_NAME = re.compile(
    r"([A-Za-z0-9][A-Za-z0-9_.-]*/){0,5}[A-Za-z0-9][A-Za-z0-9_.-]*\.(tf|tfvars|tf\.json|tfvars\.json|md|hcl)"
)
_LEFT_OUT = re.compile(r"(^|/)(\.[^./][^/]*|__MACOSX|[^/]+\.tfplan|[^/]+\.tfstate[^/]*)(/|$)")
_DAY = (1980, 1, 1, 0, 0, 0)  # the same code makes the same zip
_NO_ZIP = "This is no zip file."
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Of compression: what every system writes. The others may unpack 400 MB before their first byte is read."""


class ArchiveRefused(FaultError):
    """A zip that is not taken; the message says which part of it, and why."""


def make_zip(files: Mapping[str, str]) -> bytes:
    """Return files, by path, as a zip with one folder."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, text in sorted(files.items()):
            entry = zipfile.ZipInfo(TOP + path, _DAY)
            entry.external_attr = (stat.S_IFREG | 0o644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, text)
    return whole.getvalue()


def read_zip(data: bytes) -> dict[str, str]:
    """Return the files of a zip by path. What Terraform writes by itself is left out. Raises ``ArchiveRefused``.

    Nothing is believed of what the zip says of itself: each file is read up to a limit, and nothing is unpacked.
    """
    if len(data) > MAX_ZIP_BYTES:
        raise ArchiveRefused(f"The zip is larger than {MAX_ZIP_BYTES // 1024} KiB.")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return _files(archive)
    except (zipfile.BadZipFile, IndexError) as exc:  # the second one for an entry without a name
        raise ArchiveRefused(_NO_ZIP) from exc
    except (zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError) as exc:
        raise ArchiveRefused(f"The zip cannot be read: {exc}") from exc


def _files(archive: zipfile.ZipFile) -> dict[str, str]:
    entries = [entry for entry in archive.infolist() if not entry.is_dir()]
    wanted = [entry for entry in entries if not _LEFT_OUT.search(entry.filename)]
    if len(entries) > 10 * MAX_FILES or len(wanted) > MAX_FILES:
        raise ArchiveRefused(f"The zip has {len(entries)} files; at most {MAX_FILES} are taken.")
    if not wanted:
        raise ArchiveRefused("The zip holds no code.")
    found: dict[str, str] = {}
    left = MAX_BYTES
    for entry in wanted:
        path = entry.filename.removeprefix(TOP)
        _check(entry, path, found)
        text = _text(archive, entry, left)
        found[path], left = text, left - len(text.encode())
    return found


def _check(entry: zipfile.ZipInfo, path: str, found: Mapping[str, str]) -> None:
    shown = path[:100]
    if stat.S_ISLNK(entry.external_attr >> 16):
        raise ArchiveRefused(f"{shown!r} is a link.")
    if not _NAME.fullmatch(path) or ".." in path.split("/"):
        raise ArchiveRefused(f"{shown!r} is not taken: only .tf, .tfvars, .md and .hcl files in plain folders are.")
    if path in found:
        raise ArchiveRefused(f"{shown!r} is there twice.")
    if entry.compress_type not in _METHODS:
        raise ArchiveRefused(f"{shown!r} is compressed in an unusual way; deflate is what is taken.")
    if entry.flag_bits & 1:
        raise ArchiveRefused(f"{shown!r} is encrypted.")


def _text(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, left: int) -> str:
    most = min(MAX_FILE_BYTES, left)
    with archive.open(entry) as file:
        data = file.read(most + 1)
    if len(data) > most:
        limit = MAX_FILE_BYTES if most == MAX_FILE_BYTES else MAX_BYTES
        raise ArchiveRefused(f"{entry.filename[:100]!r} goes beyond {limit // 1024} KiB.")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise ArchiveRefused(f"{entry.filename[:100]!r} is not UTF-8 text.") from None
    if "\0" in text:
        raise ArchiveRefused(f"{entry.filename[:100]!r} is not text.")
    return text
