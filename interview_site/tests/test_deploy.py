"""The unit file and the documentation name commands and variables that exist."""

import configparser
import re

import pytest
import yaml

from faults import toolbox


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


def test_every_variable_that_the_settings_read_is_documented_and_no_other(settings):
    read = (settings.BASE_DIR / "interview_site" / "settings.py").read_text()
    known = set(re.findall(r'env\.\w+\("(\w+)"', read)) | {"SECRET_KEY_FILE"}
    rows = re.findall(
        r"^\| (`[A-Z_`, ]+`) \|", (settings.BASE_DIR / "docs" / "operating.md").read_text(), re.MULTILINE
    )
    documented = {name for row in rows for name in re.findall(r"[A-Z_]+", row)}
    assert documented == known


def test_links_between_documents_lead_somewhere(settings):
    pages = [
        *settings.BASE_DIR.glob("*.md"),
        *(settings.BASE_DIR / "docs").glob("*.md"),
        settings.BASE_DIR / "deploy/README.md",
    ]
    links = [(page, link) for page in pages for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text())]
    assert links
    assert [f"{page.name}: {link}" for page, link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", ["README.md", "docs/operating.md", "docs/admin.md", "CONTRIBUTING.md"])
def test_every_make_target_that_is_told_of_exists(settings, page):
    targets = set(re.findall(r"^([a-z0-9-]+):", (settings.BASE_DIR / "Makefile").read_text(), re.MULTILINE))
    told = set(re.findall(r"(?:^|`|&& )make ([a-z0-9-]+)", (settings.BASE_DIR / page).read_text(), re.MULTILINE))
    assert told
    assert told <= targets


def test_the_toolbox_is_built_with_what_it_promises_and_simulated_nodes_know_it(settings):
    recipe = (settings.BASE_DIR / "deploy" / "toolbox.Dockerfile").read_text()
    images = yaml.safe_load((settings.BASE_DIR / "kubesim" / "kubelet" / "images.yaml").read_text())["images"]
    name, _, tag = toolbox.PRACTICE_IMAGE.rpartition(":")
    entry = images[name][0]
    simulated = {program for programs in entry["extra"].values() for program in programs}
    for tool in toolbox.TOOLS:
        assert re.search(rf"\b{tool}\b", recipe), tool
        assert tool in simulated
    assert f"--uid {toolbox.USER_ID} " in recipe
    assert f"WORKDIR {toolbox.HOME}\n" in recipe
    assert entry["workdir"] == toolbox.HOME
    assert f"/toolbox:{tag}" in (settings.BASE_DIR / "Makefile").read_text()


def test_the_toolbox_has_the_terraform_that_practice_clusters_speak_for_by_its_checksum(settings):
    recipe = (settings.BASE_DIR / "deploy" / "toolbox.Dockerfile").read_text()
    state = (settings.BASE_DIR / "kubesim" / "terraform" / "state.py").read_text()
    version = re.search(r'^VERSION = "([\d.]+)"$', state, re.MULTILINE)[1]
    assert f"ARG TERRAFORM_VERSION={version}\n" in recipe
    assert len(re.findall(r"^ARG TERRAFORM_SHA256_(?:AMD64|ARM64)=[0-9a-f]{64}$", recipe, re.MULTILINE)) == 2
    assert "sha256sum --check --strict" in recipe
    for tool in toolbox.OF_TERRAFORM:
        assert f"COPY --from={tool} /usr/local/bin/{tool} " in recipe
