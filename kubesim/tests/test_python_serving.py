"""``python -m http.server`` in a container: other pods reach its files, and its log tells of each request."""

import pytest

from kubesim.tests.containers import log, run
from kubesim.tests.world import container, pod, world

SLIM, LOOKER = "python:3.9-slim", ("busybox:1.36", "sleep", "3600")


@pytest.fixture
async def w():
    async with world(1) as made:
        await made.create("pods", pod("looker", container(*LOOKER)))
        await made.tick(5)
        yield made


async def serving(w, *words):
    await w.create("pods", pod("web", container(SLIM, "python3", *words)))
    await w.tick(5)
    return (await w.pod("web"))["status"]["podIP"]


async def fetch(w, url):
    return await run(w, "looker", "wget", "-qO-", url)


async def test_it_lists_its_folder_to_other_pods_and_logs_who_asks(w):
    address = await serving(w, "-m", "http.server", "8080")
    status, page, _ = await fetch(w, f"http://{address}:8080/")
    assert status == 0
    assert "<h1>Directory listing for /</h1>" in page
    assert '<li><a href="etc/">etc/</a></li>' in page
    assert '"GET / HTTP/1.1" 200 -' in log(w, "web")
    assert "Serving HTTP" not in log(w, "web")


async def test_unbuffered_it_says_at_once_where_it_listens(w):
    await serving(w, "-u", "-m", "http.server")
    assert log(w, "web") == "Serving HTTP on 0.0.0.0 port 8000 (http://0.0.0.0:8000/) ...\n"


async def test_it_serves_what_is_written_while_it_runs_and_misses_the_rest(w):
    address = await serving(w, "-m", "http.server", "--directory=/tmp", "8080")
    assert (await run(w, "web", "sh", "-c", "echo hello > /tmp/a.txt"))[0] == 0
    assert (await fetch(w, f"http://{address}:8080/a.txt"))[1] == "hello\n"
    assert (await fetch(w, f"http://{address}:8080/b.txt"))[0] == 8
    assert "code 404, message File not found\n" in log(w, "web")


async def test_bound_to_the_loopback_it_is_reached_from_its_own_pod_only(w):
    local = container(SLIM, "python3", "-m", "http.server", "--bind", "127.0.0.1", "8080")
    await w.create("pods", pod("web", local, container(*LOOKER, name="side")))
    await w.tick(5)
    address = (await w.pod("web"))["status"]["podIP"]
    assert (await fetch(w, f"http://{address}:8080/"))[0] == 4
    assert (await run(w, "web", "wget", "-qO-", "http://127.0.0.1:8080/", where="side"))[0] == 0


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["http"], "argument port: invalid int value: 'http'"),
        (["--bind"], "argument --bind: expected one argument"),
        (["--tls"], "unrecognized arguments: --tls"),
    ],
)
async def test_a_wrong_command_line_ends_it(w, words, error):
    await serving(w, "-m", "http.server", *words)
    assert log(w, "web").endswith(f"server.py: error: {error}\n")


async def test_in_a_script_it_serves_as_well(w):
    script = container(SLIM, "sh", "-c", "cd /etc && exec python3 -m http.server")
    await w.create("pods", pod("web", script))
    await w.tick(5)
    address = (await w.pod("web"))["status"]["podIP"]
    assert "hostname" in (await fetch(w, f"http://{address}:8000/"))[1]
