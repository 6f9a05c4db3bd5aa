"""``python -m kubesim`` as a user runs it."""

import socket
import subprocess
import sys

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
