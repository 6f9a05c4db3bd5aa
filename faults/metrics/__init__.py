"""GPU, CPU and restart metrics from a cluster's Prometheus: the only package that imports prometheus-api-client."""

from faults.kube.prometheus_query import find_service, find_services
from faults.metrics.prometheus import PrometheusSource, through_api_server, through_kubelet, through_url
from faults.metrics.readings import GPU_QUERY, GpuReading, PodReading, Readings, parse_gpus
from faults.metrics.sampler import SCRAPE_INTERVAL, Sampler

__all__ = [
    "GPU_QUERY",
    "SCRAPE_INTERVAL",
    "GpuReading",
    "PodReading",
    "PrometheusSource",
    "Readings",
    "Sampler",
    "find_service",
    "find_services",
    "parse_gpus",
    "through_api_server",
    "through_kubelet",
    "through_url",
]
