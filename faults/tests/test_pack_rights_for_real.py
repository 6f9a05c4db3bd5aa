"""The rights of packs as a real control plane decides them (``make contract-real``).

For each pack the rules that it tells a candidate are compared with the pack's own text. For one pack it is asked
about every resource and verb that it serves, one by one, which is what counts.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import yaml

from conftest import ROOT
from faults.errors import ClusterError, NotFound
from faults.kube.client import Kube
from faults.kube.config import parse
from faults.tests.candidates import kubeconfig_with_rights
from faults.tests.clusters import REAL, eventually, flat
from faults.tests.test_candidate_rights import VERBS, served
from faults.tests.test_pack_rights import OTHERS, expected, may, told
from faults.tests.variants import CHECKED

ADDONS = ROOT / "kubesim" / "addons"
RBAC = "rbac.authorization.k8s.io/v1"
ASKED = "idle-node"
"""The pack whose rights are asked for one by one: some are for the whole cluster, some for objects by name."""
DEFINED = "CustomResourceDefinition"
OF_EVERY_CLUSTER = {"default", "kube-system", "kube-public"}


@pytest.fixture(scope="module", params=["real"] if REAL else [])
def kube():
    """The real control plane, with the custom kinds of packs for as long as the module."""
    found = Kube(parse(flat(Path(REAL))))
    manifests = [each for path in ADDONS.glob("*.yaml") for each in yaml.safe_load_all(path.read_text())]
    made = [found.create(each) for each in manifests if each and each["kind"] == DEFINED]
    for each in made:
        eventually(lambda spec=each["spec"]: is_served(found, spec))
    yield found
    for each in made:
        found.delete(each["apiVersion"], DEFINED, each["metadata"]["name"])
    found.close()


def is_served(kube, spec):
    with suppress(ClusterError):
        return kube.list(f"{spec['group']}/{spec['versions'][0]['name']}", spec["names"]["kind"]) == []
    return False


@contextmanager
def candidate(kube, pack):
    """A client with a pack's rights, and its namespaces; all of it goes afterwards."""
    home = next(iter(pack.namespaces.values()))
    made = [name for name in pack.existing if name not in OF_EVERY_CLUSTER]
    for name in made:
        kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    client = Kube(parse(kubeconfig_with_rights(kube, pack)))
    try:
        yield client
    finally:
        client.close()
        for kind in ("ClusterRole", "ClusterRoleBinding"):
            for each in kube.list(RBAC, kind):
                if each["metadata"]["name"].endswith(f"-{home}"):
                    kube.delete(RBAC, kind, each["metadata"]["name"])
        for name in (*made, *pack.namespaces.values()):
            kube.delete("v1", "Namespace", name)
            eventually(lambda name=name: is_gone(kube, name))


def is_gone(kube, name):
    with suppress(NotFound):
        return not kube.get("v1", "Namespace", name)
    return True


def renamed(pack):
    return pack.bind({name: f"{real}-{pack.slug}"[:63] for name, real in pack.namespaces.items()})


@pytest.mark.parametrize("pack", CHECKED, ids=lambda pack: pack.slug)
def test_it_tells_the_candidate_what_the_pack_lists_and_nothing_else(pack, kube):
    pack = renamed(pack)
    with candidate(kube, pack) as client:
        for namespace in {*pack.namespaces.values(), *pack.existing, *OTHERS}:
            assert told(client, namespace) == expected(pack, namespace)


def test_it_allows_what_the_pack_lists_and_nothing_else(kube):
    pack = renamed(next(pack for pack in CHECKED if pack.slug == ASKED))
    with candidate(kube, pack) as client:
        pairs = [(*resource, verb) for resource in served(kube) for verb in VERBS]
        assert len(pairs) > 1000
        for namespace in (*pack.namespaces.values(), "kube-system", ""):
            rights = expected(pack, namespace)
            allowed = {pair for pair in pairs if may(client, namespace, *pair)}
            assert allowed == {pair for pair in pairs if pair[2] in rights.get((*pair[:2], ""), ())}
