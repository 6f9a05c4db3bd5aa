"""Pod Security admission: levels, modes and versions; every text was read from a real API server."""

from pathlib import Path

import pytest

from kubesim import data
from kubesim.api.operations import Operations
from kubesim.api.options import Options
from kubesim.clock import ManualClock
from kubesim.errors import ApiError
from kubesim.store import Store

CASES = data.read(Path(__file__).with_name("podsecurity_cases.yaml"))
PREFIX = "pod-security.kubernetes.io/"


class Small:
    """An API with one namespace."""

    def __init__(self, **labels):
        clock = ManualClock()
        self.operations = Operations(Store(clock), clock)
        named = {PREFIX + name.replace("_", "-"): value for name, value in labels.items()}
        self.create("namespaces", {"metadata": {"name": "ns", "labels": named}}, "")

    def create(self, resource, obj, namespace="ns", **options):
        made = Options(**options)
        self.operations.create(self.operations.registry.by_resource(resource), namespace, obj, options=made)
        return made.warnings

    def pod(self, name):
        return self.create("pods", {"metadata": {"name": name}, "spec": CASES["pods"][name]})

    def label(self, **labels):
        options = Options()
        patch = {"metadata": {"labels": {PREFIX + name: value for name, value in labels.items()}}}
        kind = self.operations.registry.by_resource("namespaces")
        self.operations.patch(kind, "", "ns", patch, options=options)
        return options.warnings


@pytest.mark.parametrize("case", CASES["cases"], ids=lambda case: f"{case['level']}-{case['name']}")
def test_it_refuses_what_the_level_forbids(case):
    small = Small(enforce=case["level"])
    if not case["says"]:
        assert small.pod(case["name"]) == []
        return
    with pytest.raises(ApiError) as caught:
        small.pod(case["name"])
    said = f'violates PodSecurity "{case["level"]}:latest": {case["says"]}'
    assert caught.value.message == f'pods "{case["name"]}" is forbidden: {said}'


@pytest.mark.parametrize("case", CASES["cases"], ids=lambda case: f"{case['level']}-{case['name']}")
def test_it_warns_of_what_it_lets_in(case):
    warnings = Small(warn=case["level"]).pod(case["name"])
    wanted = [f'would violate PodSecurity "{case["level"]}:latest": {case["says"]}'] if case["says"] else []
    assert warnings == wanted


def test_a_version_knows_only_the_controls_of_its_time():
    assert Small(enforce="baseline", enforce_version="v1.33").pod("probe") == []
    with pytest.raises(ApiError, match="probe or lifecycle host"):
        Small(enforce="baseline", enforce_version="v1.34").pod("probe")


def test_it_warns_of_templates_and_lets_them_in():
    template = {"metadata": {"labels": {"a": "b"}}, "spec": CASES["pods"]["plain"]}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    (warning,) = Small(enforce="restricted").create("deployments.apps", {"metadata": {"name": "d"}, "spec": spec})
    assert warning.startswith('would violate PodSecurity "restricted:latest": allowPrivilegeEscalation != false')


def test_a_stricter_label_tells_of_the_pods_that_are_there():
    small = Small()
    for name in ("plain", "two", "vols"):
        small.pod(name)
    usual = "allowPrivilegeEscalation != false, unrestricted capabilities, {}runAsNonRoot != true, seccompProfile"
    assert small.label(enforce="restricted") == [
        'existing pods in namespace "ns" violate the new PodSecurity enforce level "restricted:latest"',
        f"plain (and 1 other pod): {usual.format('')}",
        f"vols: {usual.format('restricted volume types, ')}",
    ]


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        ({"enforce": "foo"}, '/enforce]: Invalid value: "foo": must be one of privileged, baseline, restricted'),
        ({"warn_version": "x"}, '/warn-version]: Invalid value: "x": must be "latest" or "v1.x"'),
    ],
)
def test_a_label_has_to_name_a_level_and_a_version(labels, says):
    with pytest.raises(ApiError) as caught:
        Small(**labels)
    assert says in caught.value.message


@pytest.mark.parametrize(
    ("level", "spec", "says"),
    [
        (
            "baseline",
            {"lifecycle": {"postStart": {"httpGet": {"host": "example.com", "port": 80}},
                           "preStop": {"tcpSocket": {"host": "1.1.1.1", "port": 1}}}},
            'probe or lifecycle host (container "main" uses probe or lifecycle hosts "1.1.1.1", "example.com")',
        ),
    ],
)  # fmt: skip
def test_hosts_are_named_in_order(level, spec, says):
    small = Small(enforce=level)
    body = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "main", "image": "i", **spec}]}}
    with pytest.raises(ApiError) as caught:
        small.create("pods", body)
    assert caught.value.message.endswith(says)


@pytest.mark.parametrize(
    ("version", "allowed"), [("v1.26", False), ("v1.31", False), ("v1.32", True), ("latest", True)]
)
def test_the_settings_of_the_kernel_that_are_safe_depend_on_the_version(version, allowed):
    small = Small(enforce="baseline", enforce_version=version)
    sysctls = [{"name": "net.ipv4.tcp_rmem", "value": "1"}]
    body = {"metadata": {"name": "a"}, "spec": {**CASES["pods"]["plain"], "securityContext": {"sysctls": sysctls}}}
    if allowed:
        assert small.create("pods", body) == []
        return
    with pytest.raises(ApiError, match=r"forbidden sysctls \(net.ipv4.tcp_rmem\)"):
        small.create("pods", body)


def test_a_pod_for_windows_need_not_do_what_only_linux_knows():
    spec = {**CASES["pods"]["plain"], "os": {"name": "windows"}, "securityContext": {"runAsNonRoot": True}}
    assert Small(enforce="restricted").create("pods", {"metadata": {"name": "a"}, "spec": spec}) == []


def test_an_unconfined_profile_in_an_annotation_is_refused():
    small = Small(enforce="baseline")
    key = "container.apparmor.security.beta.kubernetes.io/main"
    with pytest.raises(ApiError) as caught:
        small.create(
            "pods", {"metadata": {"name": "a", "annotations": {key: "unconfined"}}, "spec": CASES["pods"]["plain"]}
        )
    assert caught.value.message.endswith(
        f'forbidden AppArmor profile (annotation must not set AppArmor profile type to "{key}="unconfined"")'
    )
