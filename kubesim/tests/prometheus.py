"""A real Prometheus over given samples, and a source of the same samples for our own evaluator."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import re2

from kubesim.metrics.promql.values import NAME, Labels, Match, Point, number

BINARIES = ("prometheus", "promtool")
ABSENT = "comparisons: prometheus and promtool were not found. Run: sudo apt install prometheus"


@dataclass(frozen=True)
class Stored:
    """A series of samples in memory."""

    labels: Labels
    samples: Sequence[Point]

    def last(self, at: float, lookback: float) -> Point | None:
        return next((point for point in reversed(self.samples) if at - lookback < point[0] <= at), None)

    def points(self, after: float, until: float) -> Sequence[Point]:
        return [point for point in self.samples if after < point[0] <= until]


@dataclass(frozen=True)
class Memory:
    """A source of stored series."""

    series: list[Stored]

    def select(self, matches: Sequence[Match], start: float, end: float) -> Iterable[Stored]:
        return [series for series in self.series if all(fits(match, series.labels) for match in matches)]


def fits(match: Match, labels: Labels) -> bool:
    value = labels.get(match.name, "")
    if "~" in match.op:
        return bool(re2.fullmatch(match.value, value)) == (match.op == "=~")
    return (value == match.value) == (match.op == "=")


def installed() -> bool:
    return all(shutil.which(name) for name in BINARIES)


def asked(queries: Iterable[str]) -> list[Any]:
    """Return the queries as cases; where there is no Prometheus, one that is skipped and says how many there are."""
    cases = list(queries)
    if installed():
        return cases
    return [pytest.param("", id=f"{len(cases)} queries", marks=pytest.mark.skip(reason=f"{len(cases)} {ABSENT}"))]


class Prometheus:
    """Debian's Prometheus on loopback, over blocks made of ``series`` or scraping an address."""

    def __init__(self, folder: Path, series: list[Stored], scrape: str = "", config: str = "") -> None:
        samples, blocks = folder / "samples.txt", folder / "blocks"
        samples.write_text(openmetrics(series), encoding="utf-8")
        if series:
            command = ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(samples), str(blocks)]
            subprocess.run(command, check=True, capture_output=True)
        job = {"job_name": "dcgm", "scrape_interval": "1s", "scrape_timeout": "1s", "honor_labels": True}
        jobs = [{**job, "static_configs": [{"targets": [scrape]}]}] if scrape else []
        text = config or json.dumps({"scrape_configs": jobs})
        (folder / "prometheus.yml").write_text(text, encoding="utf-8")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.address = f"http://127.0.0.1:{probe.getsockname()[1]}"
        self._log = (folder / "log").open("wb")
        self._process = subprocess.Popen(
            [
                "prometheus", f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={blocks}",
                "--storage.tsdb.retention.time=10000d", f"--web.listen-address={self.address.removeprefix('http://')}",
            ],
            stdout=self._log, stderr=self._log,
        )  # fmt: skip

    def running(self) -> bool:
        """Whether it has not ended, a moment later."""
        try:
            self._process.wait(0.05)
        except subprocess.TimeoutExpired:
            return True
        return False

    def ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.address}/-/ready", timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False

    def get(self, path: str, **parameters: str) -> dict[str, Any]:
        url = f"{self.address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                return dict(json.load(answer))
        except urllib.error.HTTPError as error:
            return dict(json.load(error))

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(60)
        self._log.close()


@contextmanager
def answering(folder: Path, series: list[Stored]) -> Iterator[Prometheus]:
    """Yield a server that answers over ``series``; skip the test, visibly, where there is none."""
    if not installed():
        pytest.skip(ABSENT)
    server = Prometheus(folder, series)
    while not server.ready():
        assert server.running()
    yield server
    server.stop()


def openmetrics(series: list[Stored]) -> str:
    lines: list[str] = []
    for name in sorted({item.labels[NAME] for item in series}):
        lines.append(f"# TYPE {name.removesuffix('_total')} {'counter' if name.endswith('_total') else 'unknown'}")
        for item in (item for item in series if item.labels[NAME] == name):
            labels = ",".join(f'{key}="{value}"' for key, value in item.labels.items() if key != NAME)
            lines += [f"{name}{{{labels}}} {number(value)} {at:.3f}" for at, value in item.samples]
    return "\n".join([*lines, "# EOF"]) + "\n"
