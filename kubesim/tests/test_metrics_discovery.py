"""What a prometheus.yml finds in a cluster, and what becomes of it when the cluster changes."""

from __future__ import annotations

import asyncio
import copy
import json
from datetime import UTC, datetime

import pytest
import yaml

from kubesim.gpu.board import Board
from kubesim.gpu.products import products
from kubesim.metrics import dcgm, relabel
from kubesim.metrics.api import parse_duration
from kubesim.metrics.discovery import ConfigError, load, targets
from kubesim.metrics.servers import Monitor, Probe
from kubesim.tests.prometheus import Prometheus, installed

START = datetime(2026, 11, 2, 8, tzinfo=UTC)
POD = {
    "metadata": {
        "name": "dcgm-exporter-x", "namespace": "gpu-operator", "uid": "u1",
        "labels": {"app": "nvidia-dcgm-exporter"},
        "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "9400"},
    },
    "spec": {"nodeName": "node-a", "containers": [
        {"name": "exporter", "image": "dcgm:4", "ports": [{"name": "metrics", "containerPort": 9400}]},
    ]},
    "status": {"podIP": "10.64.0.5", "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
}  # fmt: skip
SERVICE = {
    "metadata": {"name": "dcgm", "namespace": "gpu-operator", "uid": "u2", "labels": {"app": "nvidia-dcgm-exporter"}},
    "spec": {"clusterIP": "10.96.1.1", "ports": [{"name": "metrics", "port": 9400}]},
}
ENDPOINTS = {
    "metadata": {"name": "dcgm", "namespace": "gpu-operator", "uid": "u3"},
    "subsets": [{
        "addresses": [{"ip": "10.64.0.5", "targetRef": {"kind": "Pod", "name": "dcgm-exporter-x"}}],
        "ports": [{"name": "metrics", "port": 9400}],
    }],
}  # fmt: skip
NODE = {
    "metadata": {"name": "node-a", "uid": "u4", "labels": {"kubernetes.io/hostname": "node-a"}},
    "status": {"addresses": [{"type": "InternalIP", "address": "10.128.0.2"}]},
}
CONFIG = """
global: {scrape_interval: 15s}
scrape_configs:
- job_name: pods
  honor_labels: true
  kubernetes_sd_configs: [{role: pod}]
  relabel_configs:
  - {source_labels: [__meta_kubernetes_pod_annotation_prometheus_io_scrape], action: keep, regex: "true"}
  - source_labels: [__address__, __meta_kubernetes_pod_annotation_prometheus_io_port]
    regex: "([^:]+)(?::\\\\d+)?;(\\\\d+)"
    replacement: $1:$2
    target_label: __address__
  - {action: labelmap, regex: __meta_kubernetes_pod_label_(.+)}
  metric_relabel_configs:
  - {source_labels: [__name__], action: drop, regex: DCGM_FI_PROF_.*}
"""


class Cluster:
    """Objects by resource, as discovery asks for them."""

    def __init__(self) -> None:
        self.objects = {
            "pods": [copy.deepcopy(POD)],
            "services": [SERVICE],
            "endpoints": [ENDPOINTS],
            "nodes": [NODE],
        }

    def __call__(self, resource: str):
        return self.objects[resource]


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def monitor(cluster) -> Monitor:
    board = Board("node-a", products()["H100"], 2, START)
    monitor = Monitor(cluster, lambda url: Probe(lambda name, start, end: dcgm.series(board, name, start, end)))
    monitor.configure(CONFIG)
    monitor.refresh(START.timestamp())
    return monitor


def ask(monitor, query, at):
    return monitor.server.answer("query", {"query": [query]}, START.timestamp() + at)[1]["data"]["result"]


@pytest.mark.parametrize(
    ("role", "url", "labels"),
    [
        ("pod", "http://10.64.0.5:9400/metrics", {"__meta_kubernetes_pod_node_name": "node-a"}),
        ("endpoints", "http://10.64.0.5:9400/metrics", {"__meta_kubernetes_service_label_app": "nvidia-dcgm-exporter",
         "__meta_kubernetes_pod_container_name": "exporter", "__meta_kubernetes_endpoint_ready": "true"}),
        ("service", "http://dcgm.gpu-operator.svc:9400/metrics", {"__meta_kubernetes_service_port_name": "metrics"}),
        ("node", "http://10.128.0.2:10250/metrics", {"__meta_kubernetes_node_name": "node-a"}),
    ],
)  # fmt: skip
def test_every_role_finds_its_addresses(cluster, role, url, labels):
    text = yaml.safe_dump({"scrape_configs": [{"job_name": "j", "kubernetes_sd_configs": [{"role": role}]}]})
    found = list(targets(load(text, parse_duration), cluster))
    assert [item.url for item in found] == [url]
    assert labels.items() <= found[0].discovered.items()
    assert found[0].labels["job"] == "j"


def test_jobs_of_one_role_look_at_the_cluster_once_and_find_the_same(cluster):
    jobs = [{"job_name": name, "kubernetes_sd_configs": [{"role": "pod"}]} for name in ("one", "other")]
    asked = []
    found = list(
        targets(
            load(yaml.safe_dump({"scrape_configs": jobs}), parse_duration),
            lambda resource: asked.append(resource) or cluster(resource),
        )
    )
    assert [item.labels["job"] for item in found] == ["one", "other"]
    assert found[0].url == found[1].url
    assert asked == ["pods"]


def test_a_pod_is_scraped_where_its_annotation_says(monitor):
    found = ask(monitor, "up", 60)[0]["metric"]
    assert found == {"__name__": "up", "job": "pods", "instance": "10.64.0.5:9400", "app": "nvidia-dcgm-exporter"}
    assert len(ask(monitor, "DCGM_FI_DEV_GPU_UTIL", 60)) == 2


def test_a_metric_that_is_dropped_is_not_there(monitor):
    assert ask(monitor, "DCGM_FI_PROF_GR_ENGINE_ACTIVE", 60) == []


def test_a_pod_without_its_annotation_is_lost_and_found_again(monitor, cluster):
    cluster.objects["pods"][0]["metadata"]["annotations"] = {}
    monitor.refresh(START.timestamp() + 100)
    assert ask(monitor, "DCGM_FI_DEV_GPU_UTIL", 160) == []
    assert len(ask(monitor, "DCGM_FI_DEV_GPU_UTIL", 90)) == 2
    cluster.objects["pods"][0]["metadata"]["annotations"] = POD["metadata"]["annotations"]
    monitor.refresh(START.timestamp() + 200)
    assert len(ask(monitor, "DCGM_FI_DEV_GPU_UTIL", 260)) == 2


def test_an_exporter_that_does_not_answer_is_down(monitor):
    refused = 'Get "http://10.64.0.5:9400/metrics": dial tcp 10.64.0.5:9400: connect: connection refused'
    monitor.probe = lambda url: Probe(error=refused)
    monitor.refresh(START.timestamp() + 100)
    assert ask(monitor, "up", 160)[0]["value"][1] == "0"
    shown = monitor.server.answer("targets", {}, START.timestamp() + 160)[1]["data"]["activeTargets"][0]
    assert shown["lastError"] == refused


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("scrape_configs: [{}]", "needs a job_name"),
        ("scrape_configs: [{job_name: a, scrape_interval: soon}]", "valid duration"),
        ("scrape_configs: [{job_name: a, relabel_configs: [{action: explode}]}]", 'unknown relabel action "explode"'),
        ("scrape_configs: [{job_name: a, relabel_configs: [{action: keep, regex: '('}]}]", "error parsing regexp"),
        (
            "scrape_configs: [{job_name: a, kubernetes_sd_configs: [{role: cloud}]}]",
            'unknown Kubernetes SD role "cloud"',
        ),
        ("a: [", "parsing YAML file"),
    ],
)
def test_a_bad_configuration_is_not_loaded_and_the_old_one_stays(monitor, text, problem):
    with pytest.raises(ConfigError):
        load(text, parse_duration)
    monitor.configure(text)
    assert problem in monitor.problem
    monitor.refresh(START.timestamp() + 100)
    assert len(ask(monitor, "DCGM_FI_DEV_GPU_UTIL", 160)) == 2


RULES = [
    [{"source_labels": ["a", "b"], "separator": "-", "target_label": "c"}],
    [{"source_labels": ["a"], "regex": "(.)(.*)", "replacement": "${2}$1", "target_label": "c"}],
    [{"source_labels": ["a"], "regex": "x", "replacement": "y", "target_label": "c"}],
    [{"source_labels": ["a"], "regex": "(.*)", "replacement": "", "target_label": "b"}],
    [{"source_labels": ["a"], "action": "keep", "regex": "al.*"}],
    [{"source_labels": ["a"], "action": "keep", "regex": "l"}],
    [{"source_labels": ["a"], "action": "drop", "regex": "alpha"}],
    [{"action": "labelmap", "regex": "(a|b)", "replacement": "new_$1"}],
    [{"action": "labeldrop", "regex": "a|b"}],
    [{"action": "labelkeep", "regex": "__.*|job|instance|a"}],
    [{"source_labels": ["a"], "action": "hashmod", "modulus": 97, "target_label": "shard"}],
    [{"source_labels": ["a", "b"], "action": "hashmod", "modulus": 8, "target_label": "shard"}],
    [{"source_labels": ["a"], "action": "uppercase", "target_label": "a"}],
    [{"source_labels": ["b"], "action": "lowercase", "target_label": "b"}],
    [{"source_labels": ["a"], "action": "keepequal", "target_label": "same"}],
    [{"source_labels": ["a"], "action": "dropequal", "target_label": "same"}],
    [{"source_labels": ["__address__"], "regex": "([^:]+):.*", "replacement": "$1:1", "target_label": "__address__"}],
    [{"replacement": "fixed", "target_label": "f"}],
    [{"source_labels": ["a"], "target_label": "name_$1"}],
    [{"source_labels": ["a"], "regex": "(alp)ha", "target_label": "name_$1", "replacement": "v"}],
    [{"source_labels": ["a"], "target_label": "job"}, {"action": "labeldrop", "regex": "instance"}],
]
GIVEN = {"a": "alpha", "b": "Beta", "same": "alpha"}


@pytest.mark.skipif(not installed(), reason="prometheus was not found. Run: sudo apt install prometheus")
async def test_rules_do_what_they_do_in_a_real_prometheus(tmp_path):
    jobs = [
        {
            "job_name": f"j{n}",
            "static_configs": [{"targets": ["127.0.0.1:9"], "labels": GIVEN}],
            "relabel_configs": rule,
        }
        for n, rule in enumerate(RULES)
    ]
    config = json.dumps({"scrape_configs": jobs})
    ours = {item.job.name: item.labels for item in targets(load(config, parse_duration), Cluster())}
    server = Prometheus(tmp_path, [], config=config)
    try:
        while not server.ready() or not server.get("targets")["data"]["activeTargets"]:
            assert server.running()
            await asyncio.sleep(0.05)
        theirs = {item["scrapePool"]: item["labels"] for item in server.get("targets")["data"]["activeTargets"]}
    finally:
        server.stop()
    assert ours == theirs


def test_no_rule_of_a_file_takes_long():
    rule = relabel.rules([{"source_labels": ["a"], "action": "keep", "regex": "(a+)+b"}])
    assert relabel.apply(rule, {"a": "a" * 5000}) is None
