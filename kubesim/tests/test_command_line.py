"""``python -m kubesim`` as a user runs it."""

import socket
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO

import pytest
import yaml

from kubesim.commandline import main
from kubesim.serve import taken


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
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")


def test_a_taken_port_is_one_line_that_says_what_to_do(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        line = refused("host", "--data", str(tmp_path), "--port", port)
    assert (
        line == f"kubesim: cannot listen on 127.0.0.1 port {port}: Address already in use; choose another with --port"
    )


def manual(*command):
    """Return what a program says of itself."""
    with redirect_stdout(StringIO()) as output, pytest.raises(SystemExit, match="0"):
        main([*command, "--help"])
    return output.getvalue()


def refused(*arguments):
    """Return the last line of the errors of a program that does not start."""
    with redirect_stderr(StringIO()) as errors:
        try:
            status = main([*arguments])
        except SystemExit as end:
            status = end.code
    assert status in (1, 2)
    return errors.getvalue().splitlines()[-1]


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


@pytest.mark.parametrize("command", [[], ["serve"], ["host"]])
def test_help_is_a_page_of_the_manual(command):
    output = manual(*command)
    titles = [line for line in output.splitlines() if line and not line.startswith(" ")]
    more = ["FILES", "EXIT STATUS", "EXAMPLES"] if command else ["COMMANDS", "EXIT STATUS"]
    assert titles == ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", *more]
    assert all(len(line) <= 88 for line in output.splitlines())


def test_help_names_every_option():
    output = manual("serve")
    for option in (
        "--kubeconfig",
        "--port",
        "--nodes",
        "--gpus",
        "--product",
        "--cluster-file",
        "--data",
        "--without",
    ):
        assert f"       {option}" in output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--nodes", "-1"], "give a whole number from 0 to 1000, not '-1'"),
        (["--nodes", "1001"], "give a whole number from 0 to 1000"),
        (["--gpus", "9e9"], "give a whole number from 0 to 16"),
        (["--port", "65536"], "give a whole number from 0 to 65535"),
        (["--product", "H1000"], "invalid choice: 'H1000'"),
        (["--without", "sheduler"], "give some of scheduler, controllers"),
        (["--kube", "x"], "unrecognized arguments: --kube"),
    ],
)
def test_an_option_that_cannot_be_is_one_line(arguments, words):
    assert words in refused("serve", "--kubeconfig", "unused", *arguments)


def test_a_cluster_file_and_options_that_say_the_same_are_one_line(tmp_path):
    file = tmp_path / "lab.yaml"
    file.write_text("nodes: []")
    line = refused("serve", "--kubeconfig", "unused", "--cluster-file", str(file), "--nodes", "3")
    assert line.endswith("says what nodes there are; leave out --nodes, --gpus and --product")


@pytest.mark.parametrize("file", ["nowhere.yaml", "", "binary"])
def test_a_cluster_file_that_is_none_is_one_line(tmp_path, file):
    (tmp_path / "binary").write_bytes(bytes(range(256)) * 1000)
    line = refused("serve", "--kubeconfig", str(tmp_path / "k"), "--cluster-file", str(tmp_path / file))
    assert line.startswith(f"kubesim: {tmp_path / file}: ")


def test_a_damaged_cluster_is_one_line_and_stays_as_it_is(tmp_path):
    folder = tmp_path / "data" / "cluster"
    folder.mkdir(parents=True)
    (folder / "changes.log").write_bytes(b"nonsense")
    line = refused("serve", "--kubeconfig", str(tmp_path / "k"), "--data", str(tmp_path / "data"))
    assert line.endswith("changes.log: a line is damaged; remove the folder to begin with an empty cluster")
    assert (folder / "changes.log").read_bytes() == b"nonsense"


def test_a_second_program_on_the_same_data_is_one_line(tmp_path):
    with taken(tmp_path / "data"):
        line = refused("serve", "--nodes", "0", "--data", str(tmp_path / "data"), "--kubeconfig", str(tmp_path / "b"))
    assert line.endswith("is in use by another kubesim; stop it, or choose another folder with --data")


def test_it_runs_where_nothing_but_its_own_dependencies_is_installed(tmp_path):
    """In a fresh interpreter any import of the site, of Django or of a test tool fails."""
    program = f"""
import sys
BANNED = {{"django", "channels", "rq", "kubernetes", "pytest", "interview_site", "sessions", "faults", "redis"}}
class Ban:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BANNED:
            raise ImportError(name + " is banned")
sys.meta_path.insert(0, Ban())
from kubesim.__main__ import main
sys.exit(main(["serve", "--nodes", "1", "--kubeconfig", {str(tmp_path / "k")!r}]))
"""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert "is ready" in process.stdout.readline()
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == 0


def test_a_damaged_ca_is_one_line(tmp_path):
    (tmp_path / "ca.key").write_text("nonsense")
    line = refused("host", "--data", str(tmp_path))
    assert line.startswith("kubesim: ")
    assert "restore both or remove both" in line
