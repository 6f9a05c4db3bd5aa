"""Mistakes that people make, and the words in which a control plane refuses them."""

from __future__ import annotations

import copy
import re
from pathlib import Path

import pytest

from kubesim import data
from kubesim.api.operations import Operations
from kubesim.clock import ManualClock
from kubesim.errors import ApiError
from kubesim.schema.kinds import registry
from kubesim.store import Store
from kubesim.tests import examples
from kubesim.tests.test_models import OBJECTS

CASES = data.read(Path(__file__).with_name("refusals.yaml"))
HEAD = re.compile(r'^\w+(\.[\w.]+)? "[^"]*" is invalid: ')


def changed(resource, change):
    obj = copy.deepcopy(OBJECTS[resource]) | {"metadata": {"name": examples.NAMES.get(resource, "c1x")}}
    for path, value in change.items():
        *steps, last = path.split(".")
        node = obj
        for step in steps:
            node = node[int(step)] if isinstance(node, list) else node.setdefault(step, {})
        if isinstance(node, list):
            node[int(last)] = value
        elif value is None:
            node.pop(last, None)
        else:
            node[last] = value
    return obj


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['resource'].split('.')[0]}-{[*case['change']][-1]}")
def test_a_mistake_is_refused_in_upstreams_words(case):
    store = Store(ManualClock())
    ops, kind = Operations(store, store.clock), registry.by_resource(case["resource"])
    ops.create(registry.by_resource("namespaces"), "", {"metadata": {"name": "default"}})
    with pytest.raises(ApiError) as caught:
        ops.create(kind, "default" if kind.namespaced else "", changed(case["resource"], case["change"]))
    said = HEAD.sub("", caught.value.message)
    several = len(caught.value.details["causes"]) > 1 and said.startswith("[")
    assert (said[1:-1] if several else said) == case["says"]
