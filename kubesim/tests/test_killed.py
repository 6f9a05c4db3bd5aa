"""A cluster that is killed in the middle of its work: what was acknowledged a second before is there again.

A round of it takes some seconds; ``make torture`` does many.
"""

import asyncio
import itertools
import os
import random
import signal
import sys
import time
from contextlib import asynccontextmanager, suppress

import aiohttp
import orjson
import pytest

from kubesim.tests.live import session, trust_of

ROUNDS = int(os.environ.get("TORTURE_ROUNDS", "1"))
LIVES = 2 if ROUNDS > 1 else 1
MAPS = "/api/v1/namespaces/default/configmaps"
WRITERS = 6
LOST_S = 1.0
JSON = {"Content-Type": "application/json"}
MERGE = {"Content-Type": "application/merge-patch+json"}


class Written:
    """What writers wanted and were told: for each name every acknowledged value (None: deleted), with its moment."""

    def __init__(self, present):
        self.history = {name: [(0.0, value)] for name, value in present.items()}
        self.begun = {}

    def last(self, name):
        return self.history[name][-1][1] if name in self.history else None

    async def write(self, name, value, request):
        self.begun[name] = value
        async with request as response:
            await response.read()
            response.raise_for_status()
        self.history.setdefault(name, []).append((time.monotonic(), value))

    def allowed(self, name, killed):
        """Return the values that an object may have after a kill: the last one of before, and all that followed."""
        history = self.history.get(name, [])
        settled = [value for at, value in history if at <= killed - LOST_S]
        later = [value for at, value in history if at > killed - LOST_S]
        return {settled[-1] if settled else None, *later, self.begun.get(name)}


@asynccontextmanager
async def cluster(folder, port=0):
    """Run a program that keeps its cluster; killed when the block ends, whatever it does then."""
    arguments = ("serve", "--nodes", "1", "--kubeconfig", folder / "k", "--data", folder / "data", "--port", port)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "kubesim", *map(str, arguments), stdout=asyncio.subprocess.PIPE
    )
    try:
        line = (await process.stdout.readline()).decode()
        url = next(word for word in line.split() if word.startswith("https://")).rstrip(";")
        config = (folder / "k").read_text()
        token = next(line.split()[-1] for line in config.splitlines() if "token:" in line)
        async with session(url, trust_of(config), token) as client:
            yield process, client, int(url.rpartition(":")[2])
    finally:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL)
        await process.wait()


async def work(client, number, written, chance):
    """Create, change and delete objects of this writer's own until the server is gone."""
    with suppress(aiohttp.ClientError, ConnectionError):
        for step in itertools.count():
            name, value = f"w{number}-{chance.randrange(20)}", f"{time.monotonic()}/{step}"
            if written.last(name) is None:
                await written.write(name, value, client.post(MAPS, data=body(name, value), headers=JSON))
            elif chance.random() < 0.2:
                await written.write(name, None, client.delete(f"{MAPS}/{name}"))
            else:
                await written.write(
                    name, value, client.patch(f"{MAPS}/{name}", data=body(name, value), headers=MERGE)
                )


def body(name, value):
    return orjson.dumps({"metadata": {"name": name}, "data": {"value": value, "more": "x" * 2000}})


async def present(client):
    """Return the values that the writers' objects have."""
    async with client.get(MAPS) as response:
        items = orjson.loads(await response.read())["items"]
    return {item["metadata"]["name"]: item["data"]["value"] for item in items if "value" in item["data"]}


@pytest.mark.parametrize("seed", range(ROUNDS))
async def test_what_was_acknowledged_a_second_before_a_kill_is_there_again(tmp_path, seed):
    chance, port = random.Random(seed), 0
    for _ in range(LIVES):
        async with cluster(tmp_path, port) as (process, client, port):
            written = Written(await present(client))
            tasks = [asyncio.create_task(work(client, number, written, chance)) for number in range(WRITERS)]
            await asyncio.sleep(1.2 + chance.random())
            killed = time.monotonic()
            process.send_signal(signal.SIGKILL)
            await process.wait()
            await asyncio.gather(*tasks)
        async with cluster(tmp_path, port) as (_, client, _):
            found = await present(client)
        wrong = {
            name: found.get(name) for name in written.history if found.get(name) not in written.allowed(name, killed)
        }
        assert wrong == {}
        assert len(written.history) > WRITERS
