"""The Terraform code base is formatted as Terraform formats it, and says of itself what a reader needs."""

import re
import shutil
import subprocess

import pytest


@pytest.fixture
def folder(settings):
    return settings.BASE_DIR / "deploy" / "terraform"


def test_terraform_would_format_nothing_anew(folder):
    terraform = shutil.which("terraform")
    if terraform is None:
        pytest.skip("needs terraform on PATH")
    command = [terraform, "fmt", "-check", "-diff", "-recursive", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_variable_and_output_is_described(folder):
    texts = {path: path.read_text() for path in folder.rglob("*.tf")}
    blocks = [
        (path, block)
        for path, text in texts.items()
        for block in re.findall(r'^(?:variable|output) "\w+" \{\n.*?^\}', text, re.MULTILINE | re.DOTALL)
    ]
    assert blocks
    assert [f"{path}: {block}" for path, block in blocks if "  description = " not in block] == []


def test_every_module_that_is_used_exists_and_every_one_is_used(folder):
    used = {
        (path.parent / source).resolve()
        for path in folder.rglob("*.tf")
        for source in re.findall(r'^  source\s+= "(\.\./.+)"', path.read_text(), re.MULTILINE)
    }
    assert used == {path for path in (folder / "modules").resolve().iterdir() if path.is_dir()}


def test_the_readme_names_every_folder(folder):
    text = (folder / "README.md").read_text()
    made = {path.parent.relative_to(folder).as_posix() for path in folder.rglob("main.tf")}
    assert [name for name in sorted(made) if f"`{name}" not in text] == []
