"""The kubeconfig that a cluster is written into, which may hold others already."""

import pytest
import yaml

from kubesim import kubeconfig
from kubesim.kubeconfig import KubeconfigError


def rendered(name, port=1):
    return kubeconfig.render(name=name, server=f"https://x:{port}", ca_pem=b"CA", user=f"admin@{name}", token="t")


def names(file):
    found = yaml.safe_load(file.read_text())
    return [[entry["name"] for entry in found[part]] for part in kubeconfig.LISTS], found["current-context"]


def test_a_new_file_is_private_and_its_folder_is_made(tmp_path):
    file = tmp_path / "new" / "config"
    kubeconfig.write(file, rendered("a"))
    assert names(file) == ([["a"], ["admin@a"], ["a"]], "a")
    assert file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in file.parent.iterdir()] == ["config"]


def test_other_clusters_stay_and_the_same_one_is_replaced(tmp_path):
    file = tmp_path / "config"
    kubeconfig.write(file, rendered("a"))
    kubeconfig.write(file, rendered("b"))
    file.write_text(file.read_text() + "extensions: [{name: mine}]\n")
    kubeconfig.write(file, rendered("a", port=2))
    assert names(file) == ([["b", "a"], ["admin@b", "admin@a"], ["b", "a"]], "a")
    found = yaml.safe_load(file.read_text())
    assert found["clusters"][1]["cluster"]["server"] == "https://x:2"
    assert found["extensions"] == [{"name": "mine"}]


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real").write_text("")
    (tmp_path / "link").symlink_to("real")
    kubeconfig.write(tmp_path / "link", rendered("a"))
    assert (tmp_path / "link").is_symlink()
    assert names(tmp_path / "real")[1] == "a"


@pytest.mark.parametrize(
    "text", ["notes", "[1]", "a: b: c", "kind: Pod", "clusters: 3", "users: [a]", "contexts: {a: b}", "\x01"]
)
def test_what_is_no_kubeconfig_stays_as_it_is(tmp_path, text):
    file = tmp_path / "config"
    file.write_text(text)
    with pytest.raises(KubeconfigError, match="choose another file with --kubeconfig"):
        kubeconfig.write(file, rendered("a"))
    assert file.read_text() == text
    assert not file.with_name("config.lock").exists()


def test_nobody_writes_while_another_program_does(tmp_path):
    (tmp_path / "config.lock").touch()
    with pytest.raises(KubeconfigError, match="another program is writing"):
        kubeconfig.write(tmp_path / "config", rendered("a"))
