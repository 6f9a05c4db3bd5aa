"""``python -m kubesim`` as a user runs it."""

import socket
import subprocess
import sys

import pytest
import yaml


def kubesim(*arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "kubesim", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_serve_writes_a_kubeconfig_when_ready_and_exits_0_on_sigterm(tmp_path):
    file = tmp_path / "kubeconfig"
    process = kubesim("serve", "--kubeconfig", str(file), "--nodes", "1")
    assert "is ready at https://127.0.0.1:" in process.stdout.readline()
    assert yaml.safe_load(file.read_text())["current-context"] == "ml-prod"
    assert file.stat().st_mode & 0o777 == 0o600
    process.terminate()
    _, errors = process.communicate(timeout=10)
    assert (process.returncode, errors) == (0, "")


def test_a_taken_port_is_one_line_that_says_what_to_do(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        process = kubesim("host", "--data", str(tmp_path), "--port", port)
        _, errors = process.communicate(timeout=10)
    assert process.returncode == 1
    assert (
        errors
        == f"kubesim: cannot listen on 127.0.0.1 port {port}: Address already in use; choose another with --port\n"
    )


def refused(*arguments):
    """Return the last line of the errors; there is no traceback."""
    process = kubesim(*arguments)
    _, errors = process.communicate(timeout=10)
    assert process.returncode in (1, 2)
    assert "Traceback" not in errors
    return errors.splitlines()[-1]


def test_an_address_of_another_machine_names_the_option():
    assert refused("host", "--data", "unused", "--bind", "192.0.2.1").endswith("choose another with --bind")


@pytest.mark.parametrize("option", ["--data", "--kubeconfig"])
def test_a_path_that_cannot_be_written_is_one_line(tmp_path, option):
    (tmp_path / "file").touch()
    paths = {
        "--data": tmp_path / "data",
        "--kubeconfig": tmp_path / "kubeconfig",
        option: tmp_path / "file" / "below",
    }
    line = refused("serve", *(str(part) for pair in paths.items() for part in pair))
    assert line.startswith(f"kubesim: {tmp_path / 'file'}")
    assert line.endswith("choose a path that you may write to")


def test_a_kubeconfig_that_is_a_folder_is_one_line(tmp_path):
    assert refused("serve", "--kubeconfig", str(tmp_path)).endswith("is a folder; give a file name with --kubeconfig")


@pytest.mark.parametrize("host", ["http://x", "x:1", "x/y", "..", "fe80::zz"])
def test_a_public_host_is_bare(host):
    assert "give a bare host name or address" in refused("host", "--data", "unused", "--public-host", host)


@pytest.mark.parametrize("name", ["A B", "", "-a", "a/b", "x" * 64])
def test_a_name_can_stand_in_an_address(name):
    assert "letters, digits, dots and hyphens" in refused("serve", "--kubeconfig", "unused", f"--name={name}")


def test_help_has_examples():
    output = kubesim("--help").communicate(timeout=10)[0]
    assert "examples:" in output
    assert "POST and DELETE on /control/clusters" in output


def test_a_damaged_ca_is_one_line(tmp_path):
    (tmp_path / "ca.key").write_text("nonsense")
    process = kubesim("host", "--data", str(tmp_path))
    _, errors = process.communicate(timeout=10)
    assert process.returncode == 1
    assert "restore both or remove both" in errors
    assert errors.count("\n") == 1
