"""What a browser and an administrator find at Prometheus' own address."""

from __future__ import annotations

from html.parser import HTMLParser
from urllib.parse import quote

import orjson
import pytest

from kubesim.clock import ManualClock
from kubesim.metrics import pages
from kubesim.metrics.promql.values import NAME
from kubesim.metrics.scrape import Function
from kubesim.metrics.servers import Monitor, Probe, PrometheusServer
from kubesim.network.fabric import Request

HOSTILE = '"><script>alert(1)</script>&\n\\'
CONFIG = """
global: {scrape_interval: 15s}
scrape_configs:
- job_name: web
  static_configs: [{targets: ["10.0.0.1:80"], labels: {team: "<b>a</b>"}}]
- job_name: broken
  static_configs: [{targets: ["10.0.0.2:80"]}]
"""
RULES = """
groups:
- name: <i>group</i>
  rules:
  - {alert: Loud, expr: 'requests_total > 5', annotations: {summary: '<u>x</u>'}}
  - {alert: Calm, expr: 'requests_total > 5000'}
  - {record: 'a:b', expr: 'sum(requests_total)'}
"""
REFUSED = 'Get "http://10.0.0.2:80/metrics": dial tcp 10.0.0.2:80: connect: connection refused'


def exporter(name, start, end):
    found = [Function({NAME: "requests_total", "path": "/a", "note": HOSTILE}, lambda at: 7.0)]
    return [each for each in found if name in ("", each.labels[NAME])]


class Browser:
    """Asks a server that scrapes one target well, and one that refuses."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.loads = 0
        probe = lambda url: Probe(error=REFUSED) if "10.0.0.2" in url else Probe(exporter)  # noqa: E731
        self.monitor = Monitor(lambda resource: (), probe)
        self.server = PrometheusServer(self.monitor, self.clock, self._load)
        self.monitor.configure(CONFIG, RULES, self.clock.now().timestamp())
        self.monitor.refresh(self.clock.now().timestamp() - 120)
        self.monitor.server.started = self.clock.now().timestamp() - 300

    def _load(self) -> None:
        self.loads += 1

    async def get(self, target: str, method: str = "GET", body: bytes = b""):
        return await self.server.respond(Request(method, target, body=body))

    async def text(self, target: str) -> str:
        answer = await self.get(target)
        assert answer.status == 200, answer.body
        return answer.body.decode()

    async def data(self, path: str):
        answer = await self.get(f"/api/v1/{path}")
        assert answer.status == 200, answer.body
        return orjson.loads(answer.body)["data"]


class Tags(HTMLParser):
    """Counts what is open at the end, and collects scripts and links."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.names: set[str] = set()
        self.links: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.names.add(tag)
        self.links += [value for name, value in attrs if name in ("href", "action", "src")]
        if tag not in ("meta", "br", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture
def browser() -> Browser:
    return Browser()


@pytest.mark.parametrize("name", pages.NAMES)
async def test_every_page_is_whole_and_escapes_what_comes_from_elsewhere(browser, name):
    answer = await browser.get(f"/{name}?g0.expr={quote('requests_total')}")
    assert (answer.status, answer.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    tags = Tags()
    tags.feed(answer.body.decode())
    assert tags.open == []
    assert not tags.names & {"script", "b", "i", "u"}
    assert not [link for link in tags.links if link.startswith(("http", "/"))]


@pytest.mark.parametrize(
    ("path", "where"),
    [
        ("/", "query"),
        ("/graph?g0.expr=up", "query?g0.expr=up"),
        ("/classic/graph", "../query"),
    ],
)
async def test_old_addresses_lead_to_the_pages(browser, path, where):
    answer = await browser.get(path)
    assert (answer.status, answer.headers["Location"]) == (302, where)


async def test_a_query_shows_its_series_or_what_is_wrong_with_it(browser):
    text = await browser.text("/query?g0.expr=sum(requests_total)")
    assert "1 series" in text
    assert "<td>7</td>" in text
    assert "unclosed left parenthesis" in await browser.text("/query?g0.expr=sum(")
    assert "&lt;script&gt;" in await browser.text(f"/query?g0.expr={quote('<script>')}")
    assert "Empty query result" in await browser.text("/query?g0.expr=nothing")
    assert "scalar" in await browser.text("/query?g0.expr=1%2B1")
    assert "@" in await browser.text("/query?g0.expr=requests_total[1m]")
    assert "valid timestamp" in await browser.text("/query?g0.expr=up&g0.moment_input=soon")


async def test_a_range_without_samples_is_a_matrix_all_the_same(browser):
    assert await browser.data("query?query=nothing[5m]") == {"resultType": "matrix", "result": []}


async def test_targets_say_how_they_are(browser):
    text = await browser.text("/targets")
    assert "web (1/1 up)" in text
    assert "broken (0/1 up)" in text
    assert "connection refused" in text


async def test_alerts_that_fire_stand_first(browser):
    text = await browser.text("/alerts")
    assert text.index("Loud") < text.index("Calm")
    assert "firing" in text


async def test_a_configuration_that_is_not_loaded_is_told_of(browser):
    browser.monitor.configure("a: [")
    assert "was not loaded" in await browser.text("/config")
    assert (await browser.data("status/runtimeinfo"))["reloadConfigSuccess"] is False
    assert "prometheus_config_last_reload_successful 0" in await browser.text("/metrics")
    browser.monitor.configure(CONFIG, RULES)
    assert "prometheus_config_last_reload_successful 1" in await browser.text("/metrics")


async def test_a_reload_is_for_those_whose_server_allows_it(browser):
    assert (await browser.get("/-/reload")).status == 405
    assert (await browser.get("/-/reload", "POST")).body == b"Lifecycle API is not enabled."
    browser.monitor.server.flags = {**browser.monitor.server.flags, "web.enable-lifecycle": "true"}
    assert (await browser.get("/-/reload", "POST")).status == 200
    assert browser.loads == 1


async def test_what_is_asked_of_its_state_is_answered(browser):
    assert (await browser.data("status/buildinfo"))["version"] == "3.5.0"
    assert (await browser.data("status/flags"))["query.lookback-delta"] == "5m"
    assert [*await browser.data("metadata")] == ["requests_total"]
    assert await browser.data("metadata?limit=0") == {}
    assert [len(group["rules"]) for group in (await browser.data("rules?type=record"))["groups"]] == [1]
    assert (await browser.data("targets?state=dropped"))["activeTargets"] == []


@pytest.mark.parametrize(
    ("target", "method", "status"),
    [
        ("/nothing", "GET", 404),
        ("/api/v1/nothing", "GET", 404),
        ("/query", "POST", 405),
        ("/api/v1/query", "DELETE", 405),
        ("/api/v1/query", "HEAD", 405),
        ("/api/v1/query", "OPTIONS", 204),
        ("/version", "GET", 200),
        ("/-/healthy", "GET", 200),
        ("/-/ready", "HEAD", 200),
        ("/../etc/passwd", "GET", 404),
        ("/query%00", "GET", 404),
        ("/query?" + "&".join(f"a{n}=1" for n in range(1500)), "GET", 400),
        ("/api/v1/query?" + "a=1&" * 1500, "GET", 400),
    ],
)
async def test_what_is_not_there_is_refused_as_by_the_real_one(browser, target, method, status):
    assert (await browser.get(target, method)).status == status


WRONG = [
    (
        "query?query=up&time=x",
        """invalid parameter "time": Invalid time value for 'time': cannot parse "x" to a valid timestamp""",
    ),
    ("query?query=up&time=2023-11-14", "Invalid time value for 'time'"),
    ("query?query=up&timeout=x", 'invalid parameter "timeout": cannot parse "x" to a valid duration'),
    ("query_range?query=up", 'invalid parameter "start": cannot parse "" to a valid timestamp'),
    ("query_range?query=up&start=1&end=2", 'invalid parameter "step": cannot parse "" to a valid duration'),
    ("query_range?query=up&start=1&end=2&step=1h30", 'cannot parse "1h30" to a valid duration'),
    ("query_range?query=up&start=1&end=2&step=1e400", 'cannot parse "1e400" to a valid duration'),
    ("query_range?query=up&start=1&end=2&step=9999999999999", "to a valid duration. It overflows int64"),
    ("query_range?query=up&start=1&end=2&step=-1", "zero or negative query resolution step widths are not accepted"),
    ("query_range?query=up&start=2&end=1&step=1", "end timestamp must not be before start time"),
    ("query_range?query=up&start=0&end=100000&step=1", "exceeded maximum resolution of 11,000 points per timeseries"),
    ("query_range?query=up[5m]&start=0&end=9&step=1", 'invalid expression type "range vector" for range query'),
    ("label/bad-name/values", 'invalid label name: "bad-name"'),
    ("series", "no match[] parameter provided"),
    ("metadata?limit=x", "limit must be a number"),
    ("rules?type=foo", 'invalid parameter "type": not supported value "foo"'),
]


@pytest.mark.parametrize(("path", "words"), WRONG)
async def test_a_wrong_parameter_is_refused_in_the_words_of_the_real_one(browser, path, words):
    answer = await browser.get(f"/api/v1/{path}")
    found = orjson.loads(answer.body)
    assert (answer.status, found["errorType"]) == (400, "bad_data")
    assert words in found["error"]


@pytest.mark.parametrize("time", ["NaN", "-5", "9999999999999999999", "1e300", "Inf", "0001-01-01T00:00:00Z"])
async def test_a_time_without_a_calendar_finds_nothing(browser, time):
    for query in ("up", "requests_total", "rate(requests_total[5m])", "time()", "max_over_time(up[5m:1m])"):
        answer = await browser.get(f"/api/v1/query?query={quote(query)}&time={time}")
        assert answer.status == 200, answer.body
