"""The library under the sanitizers of gcc, with clang's warnings, and its parser under libFuzzer: `make torture`."""

import os
import shutil
import subprocess

import pytest

from native.tests.native_library import BUILD, CORPUS, NATIVE, Control, needs_compiler

pytestmark = [needs_compiler, pytest.mark.torture]
SANITIZERS = {"address": "libasan.so", "undefined": "libubsan.so", "thread": "libtsan.so"}
WORDS = ["plain", "errno", "forks", "threads", "maps", "nothing"]


@pytest.fixture(scope="module", params=sorted(SANITIZERS))
def sanitized(request):
    folder = BUILD / request.param
    flags = [
        f"SANITIZE=-fsanitize={request.param} -fno-sanitize-recover=all",
        "CFLAGS=-O1 -g -fno-omit-frame-pointer",
    ]
    made = ["make", "-s", "-C", NATIVE, f"B=build/{request.param}", *flags, "sanitized"]
    subprocess.run(made, check=True)
    name = ["cc", f"-print-file-name={SANITIZERS[request.param]}"]
    return folder, subprocess.run(name, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def environment(sanitized, tmp_path):
    """A control file that programs under a sanitized library read, and their environment."""
    folder, runtime = sanitized
    control = Control(tmp_path / "control", folder / "faultctl")
    assert control.run("init").returncode == 0
    preload = f"{runtime} {folder / 'libcudafault.so'}"
    return control, {
        "PATH": os.defpath,
        "LD_LIBRARY_PATH": str(folder),
        "LD_PRELOAD": preload,
        "CUDA_FAULT_CONTROL": str(control.file),
    }


@pytest.mark.parametrize("armed", [(), ("xid=79",), ("error=719", "chance=0.5"), ("memory=1GiB",)])
@pytest.mark.parametrize("word", WORDS)
def test_programs_run_clean(sanitized, environment, word, armed):
    control, env = environment
    if armed:
        control.arm(*armed)
    argv = [sanitized[0] / "manners", word, *([str(control.file)] if word == "maps" else [])]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")


def test_threads_run_clean_while_faults_come_and_go(sanitized, environment):
    control, env = environment
    argv = [sanitized[0] / "manners", "threads"]
    with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            control.disarm(control.arm("error=2"))
        assert (process.returncode, process.stderr.read()) == (0, "")


@pytest.mark.parametrize(
    ("library", "file"), [("driver", "libcuda.so.1"), ("nvml", "libnvidia-ml.so.1"), ("nccl", "libnccl.so.2")]
)
def test_every_call_runs_clean(sanitized, environment, library, file):
    control, env = environment
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([sanitized[0] / "matrix", library, file, "dlsym"], env=env, **pipes) as process:
        assert process.stdout.readline() == "ready\n", process.stderr.read()
        control.arm("xid=95")
        _, said = process.communicate("go\n", timeout=300)
    assert (process.returncode, said) == (0, "")


def test_the_parser_reads_text_of_every_kind_clean(sanitized):
    argv = [sanitized[0] / "settings", "5", "1000000", *sorted(CORPUS.iterdir())]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "done\n")


@pytest.mark.skipif(shutil.which("clang") is None, reason="needs clang: sudo apt install clang")
def test_clang_has_nothing_to_complain_about():
    made = ["make", "-s", "-C", NATIVE, "B=build/clang", "CC=clang", "tests"]
    done = subprocess.run(made, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("clang") is None, reason="needs clang: sudo apt install clang")
def test_the_parser_withstands_libfuzzer(tmp_path):
    sources = [NATIVE / "tests" / "settings.c", NATIVE / "src" / "settings.c", NATIVE / "src" / "uuid.c"]
    program = tmp_path / "fuzzer"
    (tmp_path / "found").mkdir()
    subprocess.run(
        ["clang", "-g", "-O1", "-DFUZZER", "-fsanitize=fuzzer,address,undefined", "-o", program, *sources], check=True
    )
    done = subprocess.run(
        [program, "-max_total_time=20", "-max_len=512", tmp_path / "found", CORPUS],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
