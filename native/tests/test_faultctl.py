"""faultctl arms, disarms and lists faults, and says what is wrong with what it is given."""

import subprocess

import pytest

from native.tests.native_library import BUILD, CORPUS, Control, needs_compiler

pytestmark = needs_compiler


def test_a_fault_is_armed_listed_and_disarmed(control):
    number = control.arm("xid=79", "gpu=0000:3b:00", "for=10m", "chance=0.25", "after-calls=5")
    assert control.armed() == [
        {
            "id": int(number), "gpu": "0000:3b:00", "xid": 79,
            "running_error": 719, "new_error": 100, "nvml_error": 15,
            "after_calls": 5, "for_ns": 600_000_000_000, "chance": 0.25, "hide": True, "sticky": True,
        }
    ]  # fmt: skip
    assert control.run("show").stdout.startswith(f"{number}: gpu=0000:3b:00 xid=79")
    control.disarm(number)
    assert (control.armed(), control.run("show").stdout) == ([], "")


def test_a_gpus_number_is_kept_as_what_it_means_in_every_container(control, node):
    on_node = Control(control.file, node.parent / "faultctl")
    on_node.arm("xid=79", "gpu=5")
    assert [fault["gpu"] for fault in control.armed()] == ["GPU-00000000-0000-0000-0000-000000000005"]
    assert "no GPU of this number" in on_node.run("arm", "xid=79", "gpu=8").stderr


def test_the_file_is_readable_for_everybody_whoever_makes_it(built, tmp_path):
    found = Control(tmp_path / "nvidia" / "control")
    argv = ["sh", "-c", 'umask 077; exec "$0" --file "$1" init', found.faultctl, found.file]
    subprocess.run(argv, check=True)
    assert found.file.stat().st_mode & 0o777 == 0o644
    assert found.armed() == []


def test_numbers_are_never_given_twice(control):
    first = control.arm("xid=43")
    control.disarm()
    assert int(control.arm("xid=43")) > int(first)


def test_a_file_that_is_there_stays_as_it_is(control):
    control.arm("xid=43")
    assert control.run("init").returncode == 0
    assert len(control.armed()) == 1


def test_those_who_make_the_file_at_the_same_time_get_the_same_one(control, tmp_path):
    for name in map(str, range(20)):
        script = '"$0" --file "$1" init && exec "$0" --file "$1" arm xid=43'
        argv = ["sh", "-c", script, control.faultctl, tmp_path / name]
        people = [subprocess.Popen(argv, stdout=subprocess.DEVNULL) for _ in range(6)]
        assert [one.wait(timeout=20) for one in people] == [0] * 6
        assert control.run("show", file=tmp_path / name).stdout.count("xid=43") == 6


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["arm", "xid=78"], "not in the table"),
        (["arm", "xid=seventy"], "xid is a number"),
        (["arm", "xid=79", "gpu=GPU-1"], "gpu is any, a number"),
        (["arm", "gpu=64"], "gpu is any, a number"),
        (["arm", "error=1000"], "whole number"),
        (["arm", "error=-1"], "whole number"),
        (["arm", "error=99999999999999999999999"], "whole number"),
        (["arm", "after=10"], "a time is"),
        (["arm", "after=99999999999999999h"], "a time is"),
        (["arm", "memory=16"], "a size is"),
        (["arm", "chance=2"], "chance is"),
        (["arm", "chance=0.0000000001"], "chance is"),
        (["arm", "hidden"], "no such setting"),
        (["arm", "=79"], "no such setting"),
        (["arm", "gpu=3"], "no effect"),
        (["disarm", "7"], "no armed fault has this number"),
        (["disarm", "-1"], "takes the number"),
        (["disarm", "0"], "takes the number"),
    ],
)
def test_wrong_input_is_refused_with_what_to_do_and_changes_nothing(control, words, says):
    before = control.file.read_bytes()
    done = control.run(*words)
    assert (done.returncode, done.stdout) == (1, "")
    assert says in done.stderr
    if words[0] == "arm":
        assert control.file.read_bytes() == before


@pytest.mark.parametrize("words", [[], ["arm"], ["disarm"], ["show", "all"], ["init", "now"], ["explain"]])
def test_wrong_use_shows_the_usage(control, words):
    done = control.run(*words)
    assert done.returncode == 2
    assert done.stderr.startswith("usage: faultctl")


def test_help_is_no_error(built):
    done = subprocess.run([BUILD / "faultctl", "--help"], capture_output=True, text=True, check=True)
    assert "nccl-hang" in done.stdout


def test_a_ninth_fault_has_no_place_until_one_is_over(control):
    for _ in range(7):
        control.arm("xid=43")
    control.arm("xid=43", "for=1ns")
    control.arm("xid=43")
    assert "disarm one" in control.run("arm", "xid=43").stderr


@pytest.mark.parametrize("content", [b"", b"x" * 4096, b"\0" * 4095])
def test_a_file_that_is_none_of_ours_is_left_alone(control, tmp_path, content):
    file = tmp_path / "notes"
    file.write_bytes(content)
    assert "no control file" in control.run("arm", "xid=43", file=file).stderr
    assert file.read_bytes() == content


def test_without_a_file_it_says_how_to_make_one(control, tmp_path):
    assert "run 'faultctl init' first" in control.run("show", file=tmp_path / "none").stderr


def test_a_writer_that_died_half_way_does_not_stop_the_next(control):
    control.arm("xid=43")
    page = bytearray(control.file.read_bytes())
    page[8] |= 1  # the sequence is odd: nobody believes what is written
    control.file.write_bytes(page)
    control.disarm()
    control.arm("xid=79")
    assert [fault["xid"] for fault in control.armed()] == [79]
    assert control.file.read_bytes()[8] % 2 == 0


def test_every_seed_of_the_corpus_is_a_fault(control):
    for seed in sorted(CORPUS.iterdir()):
        control.arm(*seed.read_text(encoding="ascii").split("\0"))
        control.disarm()


def test_text_of_every_kind_is_read_without_harm(built):
    argv = [BUILD / "settings", "1", "100000", *sorted(CORPUS.iterdir())]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "done\n")
