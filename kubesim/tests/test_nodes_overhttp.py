"""The seam over HTTP: the same verbs, caches and errors as in process, against kubesim's own server."""

import asyncio
import os
import stat
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
import yaml

from kubesim.clock import RealClock
from kubesim.errors import ApiError
from kubesim.informer import Informer
from kubesim.nodes import access
from kubesim.nodes.access import AccessError
from kubesim.overhttp import Unreachable
from kubesim.tests.relay import Relay


@asynccontextmanager
async def connected(live, **options):
    clock = RealClock()
    client = (await access.load(live.kubeconfig, clock)).client(clock, **options)
    try:
        yield client
    finally:
        await client.close()


def config_map(name, **data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


async def until(true):
    async with asyncio.timeout(30):
        while not true():
            await asyncio.sleep(0.005)


async def test_the_verbs_work_over_http(live):
    async with connected(live) as client:
        made = await client.create("configmaps", config_map("verbs", a="1"), namespace="default")
        assert (await client.get("configmaps", "verbs", "default"))["metadata"]["uid"] == made["metadata"]["uid"]
        patched = await client.patch("configmaps", "verbs", "default", {"data": {"a": "2"}})
        await client.update("configmaps", {**patched, "data": {"a": "3"}})
        found = await client.list("configmaps", "default", field_selector="metadata.name=verbs")
        assert [item["data"] for item in found.items] == [{"a": "3"}]
        assert found.items[0]["kind"] == "ConfigMap"
        await client.delete("configmaps", "verbs", "default", uid=made["metadata"]["uid"])
        with pytest.raises(ApiError) as gone:
            await client.get("configmaps", "verbs", "default")
    assert (gone.value.code, gone.value.reason) == (404, "NotFound")


async def test_a_custom_kind_is_looked_for_in_the_cluster(live):
    names = {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1beta1", "served": True, "storage": True, "schema": schema}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    crd = {"metadata": {"name": "widgets.example.com"}, "spec": spec}
    async with connected(live) as client:
        with pytest.raises(ApiError) as missing:
            await client.list("widgets.example.com")
        assert missing.value.code == 404
        await client.create("customresourcedefinitions.apiextensions.k8s.io", crd)
        made = {"apiVersion": "example.com/v1beta1", "kind": "Widget", "metadata": {"name": "one"}}
        await client.create("widgets.example.com", made, namespace="default")
        assert [item["kind"] for item in (await client.list("widgets.example.com")).items] == ["Widget"]
        with pytest.raises(ApiError):
            await client.list("gadgets.example.com")


async def test_a_custom_kind_is_found_in_another_version_than_the_preferred_one(live):
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    async with connected(live) as client:
        for plural, version in (("policies", "v1"), ("graphs", "v1alpha1")):
            names = {"kind": plural.title(), "plural": plural, "singular": plural, "listKind": f"List{plural}"}
            versions = [{"name": version, "served": True, "storage": True, "schema": schema}]
            spec = {"group": "mixed.example.com", "scope": "Namespaced", "names": names, "versions": versions}
            crd = {"metadata": {"name": f"{plural}.mixed.example.com"}, "spec": spec}
            await client.create("customresourcedefinitions.apiextensions.k8s.io", crd)
        assert (await client.list("policies.mixed.example.com")).items == []
        assert (await client.list("graphs.mixed.example.com")).items == []


async def test_the_first_word_of_the_agent_manages_the_fields(live):
    async with connected(live, agent="kubelet/v1 kubesim") as client:
        made = await client.create("configmaps", config_map("managed", a="1"), namespace="default")
    assert made["metadata"]["managedFields"][0]["manager"] == "kubelet"


async def test_a_token_is_asked_for_as_in_process(live):
    async with connected(live) as client:
        wanted = {"metadata": {"name": "default"}, "spec": {"expirationSeconds": 600}}
        made = await client.create("serviceaccounts", wanted, namespace="default", subresource="token")
    assert made["status"]["token"]


async def test_a_cache_over_http_sees_only_what_its_selector_chooses(live):
    async with connected(live) as client:
        cache = Informer(client, RealClock(), "configmaps", "metadata.name=chosen")
        await cache.start()
        for name in ("other", "chosen"):
            await client.create("configmaps", config_map(name, a="1"), namespace="default")
        await until(lambda: cache.get("default", "chosen"))
        await client.delete("configmaps", "chosen", "default")
        await until(lambda: not cache.items())
        await cache.stop()


async def test_a_cache_outlives_a_lost_connection_and_misses_nothing(live):
    relay = Relay(live.port)
    await relay.mend()
    way = await access.load(live.kubeconfig, RealClock())
    client = replace(way, server=f"https://127.0.0.1:{relay.port}").client(RealClock())
    cache = Informer(client, RealClock(factor=20), "configmaps")
    await cache.start()
    await relay.cut()
    async with connected(live) as direct:
        await direct.create("configmaps", config_map("meanwhile", a="1"), namespace="default")
        await relay.mend()
        await until(lambda: cache.get("default", "meanwhile"))
        await direct.delete("configmaps", "meanwhile", "default")
        await until(lambda: not cache.get("default", "meanwhile"))
    await cache.stop()
    await client.close()
    await relay.cut()


async def test_nobody_there_is_a_connection_error(tmp_path):
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(kubeconfig("https://127.0.0.1:1", {"token": "t"})))
    clock = RealClock()
    client = (await access.load(path, clock)).client(clock)
    with pytest.raises(Unreachable):
        await client.get("nodes", "a")
    await client.close()


def kubeconfig(server, user):
    return {
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }


async def headers_of(tmp_path, user):
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(kubeconfig("https://127.0.0.1:1", user)))
    return await (await access.load(path, RealClock())).credential.headers()


async def test_tokens_files_and_passwords_are_shown_as_headers(tmp_path):
    (tmp_path / "token").write_text("from-a-file\n")
    assert await headers_of(tmp_path, {"token": "t"}) == {"Authorization": "Bearer t"}
    assert await headers_of(tmp_path, {"tokenFile": "token"}) == {"Authorization": "Bearer from-a-file"}
    assert await headers_of(tmp_path, {"username": "a", "password": "b"}) == {"Authorization": "Basic YTpi"}


async def test_a_plugin_prints_the_token(tmp_path):
    plugin = tmp_path / "plugin"
    plugin.write_text('#!/bin/sh\necho "{\\"status\\": {\\"token\\": \\"$1\\"}}"\n')
    os.chmod(plugin, stat.S_IRWXU)
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "./plugin", "args": ["printed"]}}
    assert await headers_of(tmp_path, user) == {"Authorization": "Bearer printed"}


async def test_a_plugin_that_is_not_there_is_named_with_its_hint(tmp_path):
    user = {"exec": {"command": "./missing", "installHint": "Install it."}}
    with pytest.raises(AccessError, match="missing: No such file or directory. Install it."):
        await headers_of(tmp_path, user)


@pytest.mark.parametrize("text", ["[]", "a: [", "{}", "current-context: x", "contexts: 7"])
async def test_what_is_no_kubeconfig_is_refused_in_a_sentence(tmp_path, text):
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(AccessError, match="config"):
        await access.load(path, RealClock())
