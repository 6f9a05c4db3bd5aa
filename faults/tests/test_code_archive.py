"""Terraform code as a zip: hostile ones are refused with a sentence, and nothing of them is unpacked."""

from __future__ import annotations

import io
import stat
import zipfile

import pytest

from faults.code_archive import MAX_FILE_BYTES, MAX_FILES, MAX_ZIP_BYTES, ArchiveRefused, make_zip, read_zip

CODE = {"tenants/main.tf": "# é\n", "tenants/terraform.tfvars": "gpus = 1\n", "README.md": "# x\n"}


def zipped(files, mode=0o644, method=zipfile.ZIP_DEFLATED):
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", method) as archive:
        for name, data in files:
            entry = zipfile.ZipInfo(name)
            entry.external_attr = mode << 16
            entry.compress_type = method
            archive.writestr(entry, data)
    return whole.getvalue()


def test_what_is_downloaded_can_be_uploaded():
    assert read_zip(make_zip(CODE)) == CODE
    assert make_zip(CODE) == make_zip(dict(reversed(CODE.items())))


def test_what_terraform_makes_by_itself_is_left_out():
    names = [".terraform/x.tf", "tenants/.terraform/providers/p", "tenants/my.tfplan", "tenants/terraform.tfstate"]
    names += ["__MACOSX/a.tf", "tenants/.DS_Store", "tenants/terraform.tfstate.backup"]
    assert read_zip(zipped([("tenants/main.tf", "x"), *((name, "y") for name in names)])) == {"tenants/main.tf": "x"}


def with_lie(data):
    """Return a zip that says of a file of many bytes that it has one."""
    at = data.index(b"PK\x01\x02") + 24
    return data[:at] + (1).to_bytes(4, "little") + data[at + 4 :]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "no zip file"),
        (b"PK" * 100, "no zip file"),
        (b"x" * (MAX_ZIP_BYTES + 1), "larger than 256 KiB"),
        (zipped([]), "holds no code"),
        (zipped([("../x.tf", "x")]), "'../x.tf' is not taken"),
        (zipped([("/etc/x.tf", "x")]), "'/etc/x.tf' is not taken"),
        (zipped([("a/../../x.tf", "x")]), "is not taken"),
        (zipped([("a\\..\\x.tf", "x")]), "is not taken"),
        (zipped([("run.sh", "x")]), "'run.sh' is not taken"),
        (zipped([("a b.tf", "x")]), "is not taken"),
        (zipped([("a\n.tf", "x")]), "is not taken"),
        (zipped([("a/b/c/d/e/f/g.tf", "x")]), "is not taken"),
        (zipped([("x.tf", "/etc/passwd")], stat.S_IFLNK | 0o777), "'x.tf' is a link"),
        (zipped([("x.tf", b"\xff\xfe")]), "not UTF-8"),
        (zipped([("x.tf", b"a\0b")]), "not text"),
        (zipped([(f"{at}.tf", "x") for at in range(MAX_FILES + 1)]), "at most 200"),
        (zipped([("x.tf", "x" * (MAX_FILE_BYTES + 1))]), "goes beyond 128 KiB"),
        (zipped([(f"{at}.tf", "x" * MAX_FILE_BYTES) for at in range(5)]), "goes beyond 512 KiB"),
        (with_lie(zipped([("x.tf", "x" * 10_000_000)])), "cannot be read|goes beyond|no zip file"),
        (zipped([("x.tf", "x"), ("platform/x.tf", "y")]), "there twice"),
        (zipped([("x.tf", "x" * 10_000_000)], method=zipfile.ZIP_BZIP2), "in an unusual way"),
        (zipped([("x.tf", "x")], method=zipfile.ZIP_LZMA), "in an unusual way"),
        (zipped([("x.tf", "x")]).replace(b"x.tf", b"\0.tf"), "no zip file"),
    ],
)
def test_a_hostile_zip_is_refused_with_a_sentence(data, words):
    with pytest.raises(ArchiveRefused, match=words.replace("..", r"\.\.")):
        read_zip(data)


def test_a_zip_with_a_broken_file_is_refused():
    data = bytearray(zipped([("x.tf", "x" * 5000)]))
    data[40:50] = b"\xff" * 10
    with pytest.raises(ArchiveRefused):
        read_zip(bytes(data))
