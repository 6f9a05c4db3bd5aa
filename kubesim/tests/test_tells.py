"""Findings of a search for signs that a practice cluster is simulated, made by somebody who had not written it."""

import re
from datetime import UTC, datetime
from itertools import pairwise

import pytest

from kubesim.gpu.board import Board
from kubesim.gpu.products import products
from kubesim.kubelet.behaviours import workload
from kubesim.kubelet.programs import Line
from kubesim.tests.containers import log, run
from kubesim.tests.test_rooted import chrooted, debugger
from kubesim.tests.world import container, pod, world

BOOT = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
async def w():
    async with world(1) as made:
        for name in ("one", "two"):
            await made.create("pods", pod(name, container("ubuntu:22.04", "sleep", "infinity")))
        await made.create("pods", debugger())
        await made.tick(3)
        yield made


def bash(w, script, name="one"):
    return run(w, name, "bash", "-c", script)


async def test_two_containers_draw_different_random_numbers(w):
    draw = "echo $RANDOM $RANDOM $RANDOM"
    assert (await bash(w, draw))[1] != (await bash(w, draw, "two"))[1]


async def test_bash_tells_how_long_a_command_took(w):
    for command in ("true", "(true)", "{ true; }", "for i in 1; do true; done | cat"):
        code, _, err = await bash(w, f"time {command}")
        assert code == 0
        assert re.fullmatch(r"\nreal\t0m\d\.\d{3}s\nuser\t0m\d\.\d{3}s\nsys\t0m\d\.\d{3}s\n", err)
    assert await bash(w, "TIMEFORMAT='took %0R'; time false") == (1, "", "took 0\n")
    assert (await bash(w, "time -p true"))[2].startswith("real 0.00\nuser ")
    assert (await bash(w, "! time false"))[0] == 0


async def test_a_script_knows_its_file_and_passes_its_hosts_name_on(w):
    script = 'echo "$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd) $MACHTYPE"; env | grep ^HOSTNAME'
    written = f"cat > /tmp/check.sh <<'END'\n{script}\nEND\nbash /tmp/check.sh"
    assert (await bash(w, written))[1] == "/tmp x86_64-pc-linux-gnu\nHOSTNAME=one\n"


async def test_an_ordinary_container_may_what_runc_leaves_to_root(w):
    assert await bash(w, "mount -t tmpfs x /mnt") == (32, "", "mount: /mnt: permission denied.\n")
    status = (await bash(w, "cat /proc/self/status"))[1]
    assert "State:\tR (running)\n" in status
    assert "CapEff:\t00000000a80425fb\n" in status
    assert "State:\tS (sleeping)\n" in (await bash(w, "cat /proc/1/status"))[1]


async def test_the_nodes_old_processes_have_a_day_and_its_kernel_threads_no_memory(w):
    shown = (await chrooted(w, "ps aux")).splitlines()
    (thread,) = [line.split(None, 10) for line in shown if line.endswith("[kthreadd]")]
    assert thread[4:6] == ["0", "0"]
    assert thread[7] == "S"
    assert re.fullmatch("[A-Z][a-z]{2}[0-9]{2}", thread[8])


def test_no_two_nodes_boot_equally_fast():
    one, two = (Board(name, products()["H100"], 8, BOOT) for name in ("node-a", "node-b"))
    shown = [{at for at, _, text in board._boot_lines() if at > 1} for board in (one, two)]
    assert len(shown[0]) > 20
    assert shown[0].isdisjoint(shown[1])


def test_the_speed_and_the_loss_of_a_training_do_not_repeat_themselves():
    lines = [out.text for out in workload("training", "seed", torch="2.6.0").run(3600, 60) if isinstance(out, Line)]
    rates = [float(found[1]) for text in lines if (found := re.search(r"([\d.]+) samples/s", text))]
    assert len(rates) > 30
    later = [abs(a - b) for a, b in zip(rates, rates[5:], strict=False)]
    steps = [abs(a - b) for a, b in pairwise(rates)]
    assert sum(later) / len(later) > sum(steps) / len(steps) / 2


async def test_nginx_has_its_configuration_and_tells_of_its_start():
    async with world(1) as w:
        await w.create("pods", pod("web", container("nginx:1.27")))
        await w.create("pods", pod("db", container("postgres:16")))
        await w.tick(9)
        assert "    listen       80;\n" in (await run(w, "web", "cat", "/etc/nginx/conf.d/default.conf"))[1]
        assert 'using the "epoll" event method' in log(w, "web")
        assert (await run(w, "db", "psql", "--version"))[1].startswith("psql (PostgreSQL) 16")


async def test_the_release_of_ubuntu_is_not_younger_than_the_image():
    async with world(1) as w:
        await w.create("pods", pod("train", container("nvcr.io/nvidia/pytorch:25.03-py3", "sleep", "99")))
        await w.tick(10)
        assert "24.04.1 LTS" in (await run(w, "train", "cat", "/etc/os-release"))[1]
