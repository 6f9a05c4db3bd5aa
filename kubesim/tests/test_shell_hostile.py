"""Nothing that a script does touches the host, fills its memory or keeps the event loop for itself."""

from __future__ import annotations

import _strptime  # noqa: F401 - what datetime imports when it first reads a date
import asyncio
import gc
import json
import sys
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubesim.shell.errors import UpgradeError
from kubesim.tests import shell_world
from kubesim.tests.test_shell_kubectl import CORE

FORBIDDEN = (
    "open",
    "os.",
    "subprocess.",
    "socket.",
    "shutil.",
    "pathlib.",
    "glob.",
    "tempfile.",
    "ctypes.",
    "import",
)
NO_FILE = ("<unknown>",)
"""Where CPython looks for the line of a syntax error in a program that it was given as a string."""
seen: list[str] = []
watching = False
others: set[int] = set()
"""Threads that were there before: a cluster that an earlier test has started writes its own files."""


def hook(event, args):
    if watching and threading.get_ident() not in others and event.startswith(FORBIDDEN) and args[:1] != NO_FILE:
        seen.append(f"{event} {args!r}"[:200])


sys.addaudithook(hook)

WORDS = st.sampled_from(
    [
        "a",
        "$x",
        '"$x"',
        "$(echo q)",
        "`echo b`",
        "'q r'",
        "${x:-d}",
        "${x%%a*}",
        "${x//a/b}",
        "$((1+x))",
        "*",
        "/etc/*",
        "{1..3}",
        "~",
        "-n",
        "-r",
        "--help",
        "/etc/passwd",
        "/proc/self/environ",
        "../..",
        "/dev/null",
        "f",
        "$?",
        "$@",
        "|",
        "$RANDOM",
        "<(echo p)",
        "[a-z]*",
        "\\n",
        "=",
        "10",
        "-1",
        ".",
        "..",
        "${!x}",
        "${#x}",
        "$'\\t'",
        "f g",
    ]
)
# Without jq, which starts a process that has given up all of this: see test_jq.py.
COMMANDS = st.sampled_from(
    [
        "echo",
        "cat",
        "ls",
        "ls -la",
        "cd",
        "x=1",
        "export y=2",
        "grep",
        "grep -r",
        "sed",
        "sed -i s/a/b/",
        "awk",
        "awk '{print}'",
        "find",
        "find / -name",
        "sort",
        "cp",
        "mv",
        "rm -rf",
        "mkdir -p",
        "ln -s",
        "tar cf t",
        "tar xf",
        "gzip",
        "printf",
        "test",
        "[",
        "read",
        "eval",
        ".",
        "exec",
        "type",
        "kill -0",
        "ps aux",
        "df",
        "du",
        "stat",
        "chmod 7",
        "touch",
        "head -c 99",
        "tail -n 3",
        "wc",
        "date -d",
        "base64",
        "diff /etc/passwd",
        "xargs",
        "env",
        "timeout 1",
        "ulimit",
        "trap",
        "set -e",
        "unset",
        "local",
        "return",
        "wait",
        "sh -c",
        "bash -c",
        "which",
        "realpath",
        "dd if=",
        "tee",
        "cut -f1",
        "tr a",
        "seq 3",
        "curl",
        "python3 -c",
        "kubectl",
        "kubectl get",
        "kubectl apply -f",
        "kubectl exec",
        "kubectl edit",
        "kubectl debug",
        "kubectl config set-context",
        "kubectl create configmap x --from-file",
        "kubectl patch pod x -p",
        "kubectl wait --for",
        "kubectl get pods -o jsonpath",
        "kubectl config view --kubeconfig",
        "kubectl describe pod",
        "kubectl rollout undo",
        "crane manifest",
        "crane config",
        "chroot",
        "systemctl status",
        "crictl ps",
        "journalctl -u",
        "file",
        "id",
        "uname -a",
        "hostname",
        "md5sum",
        "history",
        "less",
        "dirs",
        "source",
        "declare -A m=",
        "select v in a b; do echo",
        "host",
        "nslookup",
        "wget -O",
        "vi -c q",
    ]
)


class Hostile:
    """An API server whose answers are no answers."""

    server, namespace, token = "https://10.96.0.1:443", "default", "t"
    answers = (b"", b"{}", b"[]", b"null", b'{"items": 7}', b"\xff\xfe", b'{"kind": "Status", "status": "Failure"}')

    def __init__(self):
        self.asked = 0

    async def request(self, method, path, *, body=b"", headers=None):
        self.asked += 1
        if path in ("/api", "/apis"):
            return 200, {}, json.dumps({"items": [CORE] if path == "/api" else []}).encode()
        return (200, 404, 500)[self.asked % 3], {}, self.answers[self.asked % len(self.answers)]

    async def stream(self, path, *, headers=None):
        yield b"\xff\n{}\n"

    def open(self, path, *, headers=None):
        raise UpgradeError(400, b"no")


@st.composite
def scripts(draw, depth=0):
    parts = []
    for _ in range(draw(st.integers(1, 3))):
        command = " ".join([draw(COMMANDS), *draw(st.lists(WORDS, max_size=3))])
        command += draw(st.sampled_from(["", "", " > f", " 2>&1", " < /etc/passwd", " >> g", " <<E\n$x\nE\n"]))
        if depth < 2 and draw(st.booleans()):
            inner = draw(scripts(depth=depth + 1))
            command = draw(
                st.sampled_from(
                    [
                        "if {c}; then {i}; fi",
                        "for v in a b; do {i}; done",
                        "( {i} )",
                        "{{ {i}; }}",
                        "{c} | {i}",
                        "f() {{ {i}; }}; f",
                        "case x in x) {i};; esac",
                        "{c} && {i}",
                        "{c} &",
                        "while {c}; do {i}; break; done",
                        "! {c}",
                    ]
                )
            ).format(c=command, i=inner)
        parts.append(command)
    return draw(st.sampled_from(["; ", "\n"])).join(parts)


@settings(max_examples=settings().max_examples // 2)
@given(script=scripts() | st.text(max_size=60), dialect=st.sampled_from(["bash", "dash", "ash"]))
def test_no_script_touches_the_host(script, dialect):
    async def watched():
        global watching
        made = shell_world.machine(shell_world.KINDS[dialect])
        made.kube = Hostile()
        errors = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: errors.append(context))
        others.clear()
        others.update(each.ident for each in threading.enumerate() if each is not threading.current_thread())
        watching = True
        try:
            result = await shell_world.run(script, dialect, made=made, timeout=1.0)
        finally:
            watching = False
        made.stop()
        await asyncio.sleep(0)
        return result, errors

    seen.clear()
    (_, status), errors = asyncio.run(watched())
    assert seen == []
    assert errors == []
    assert status is None or 0 <= status <= 255


HOSTILE = {
    "a fork bomb": ":(){ :|:& };:",
    "a variable that doubles": "a=xxxxxxxx; while :; do a=$a$a; done",
    "endless recursion": "f() { f; }; f",
    "recursion through substitution": "f() { $(f); }; f",
    "a busy loop": "while :; do :; done",
    "endless output": "yes",
    "a full disk": "yes > f",
    "a wide printf": 'printf "%999999999d" 1 | wc -c',
    "many braces": "echo {1..99999999} "
    "{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b} | wc -c",
    "a slow regular expression": "echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab | grep -E '(a+)+$'; "
    "echo x | sed -E 's/(x*)*(x*)*y//'",
    "a slow pattern": 'x=$(printf "a%.0s" {1..3000}); case $x in *a*a*a*a*a*a*a*b) ;; esac; echo '
    '"${x//a*a*a*b/}" | wc -c',
    "deep nesting": 'eval "$(printf "(%.0s" {1..3000})"; eval "$(printf "if :; then %.0s" {1..3000})"',
    "deep arithmetic": 'eval "echo \\$(($(printf "(%.0s" {1..3000})))"; x=x; echo $((x))',
    "endless awk": "awk 'BEGIN { while (1) s = s \"x\" }'",
    "endless jq": "jq -n '[range(1e9)] | length'",
    "endless sed": "echo a | sed ':a;s/a/aa/;ta'",
    "a value of jq that shares its parts": "jq -n 'reduce range(40) as $i ([1]; [.,.])'; "
    "jq -n 'reduce range(40) as $i ([1]; [.,.])|(.==.),tojson,flatten'; "
    "jq -n '[range(50000)] as $x|$x-$x'; jq -n '[range(200000)]|map([.])|add|length'; "
    "jq -n '(\"x\"*1000000) as $s|[range(5000)|$s]|tojson|length'",
    "a document of aliases": "printf 'a: &a [x,x]\\n' > y; for i in b c d e f g h i j k; do "
    'printf "$i: \\&$i [*$p,*$p,*$p,*$p,*$p,*$p,*$p,*$p]\\n" | sed "s/\\*,/*a,/g;s/\\*\\]/*a]/" >> y; p=$i; done; '
    "kubectl apply -f y",
    "a signal storm": 'trap "kill -USR1 \\$\\$" USR1; kill -USR1 $$; sleep 1',
    "endless background jobs": "while :; do sleep 100 & done",
}


@pytest.fixture
def own_garbage():
    """Let the collector look at what a test makes, as in a server, and not at all that the tests before have left."""
    gc.collect()
    gc.freeze()


@pytest.mark.usefixtures("own_garbage")
@pytest.mark.parametrize("script", HOSTILE.values(), ids=HOSTILE)
async def test_the_event_loop_keeps_turning(script):
    slowest = 0.0

    async def turn():
        nonlocal slowest
        before = time.thread_time()
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            slowest = max(slowest, now - before)
            before = now
            await asyncio.sleep(0.0005)

    turning = asyncio.get_running_loop().create_task(turn())
    made = shell_world.machine("toolbox")
    text, _ = await shell_world.run(script, made=made, timeout=0.4)
    made.stop()
    turning.cancel()
    async with asyncio.timeout(60):
        while made.processes:
            await asyncio.sleep(0)
    assert len(text) <= 1 << 21
    assert made.files.used <= made.files.limit
    assert slowest < 0.5  # seconds of this thread's own time; some hundredths on a quiet machine


NO_NUMBERS = """xargs -n x echo < f
xargs -P x echo < f
du --max-depth=x .;head -n x f
tail -n x f;tail -f -s x f;cut -f x f;seq a;sleep x;date -d nonsense
find . -maxdepth x;find . -size x;chmod 9 f;touch -t x f;curl http://[::1;curl http://a:99999999
wget http://[zz]/;wget http://a:b/;kubectl scale deploy x --replicas=x;crane x
kubectl rollout undo deploy x --to-revision=x;kubectl logs x --max-log-requests=x;nvidia-smi -l x"""


@pytest.mark.parametrize("line", NO_NUMBERS.replace("\n", ";").split(";"))
async def test_what_is_no_number_is_refused_in_a_sentence(line):
    text, status = await shell_world.run(f"echo hello > f; {line}")
    assert 0 < status < 128
    assert text


async def test_a_word_that_is_too_long_is_refused_by_the_kernel():
    text, status = await shell_world.run("x=$(head -c 200000 /dev/zero | tr '\\0' a); env $x")
    assert text.endswith("Argument list too long\n")
    assert status == 126


@pytest.mark.parametrize(
    ("script", "shown"),
    [
        ("printf '%s' $'\\ud800\\xff' | base64", "7aCA/w==\n"),
        ("printf '\\ud800' | base64", "7aCA\n"),
        ("echo $'\\xc3\\xa9'; cat $'\\udfff'", None),
        ("read -u l x; echo $?", "bash: line 1: read: l: invalid file descriptor specification\n1\n"),
        ("read -t 1e400 x; echo $?", "bash: line 1: read: 1e400: invalid timeout specification\n1\n"),
        ("read -n ٣ x; echo $?", "bash: line 1: read: ٣: invalid number\n1\n"),
    ],
)
async def test_characters_and_numbers_that_are_none_end_no_program(script, shown):
    text, status = await shell_world.run(script)
    assert status != 139
    assert shown is None or text == shown
