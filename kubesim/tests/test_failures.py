"""Every failure that a candidate meets, with the words that a real cluster has for it (``failure_cases.yaml``)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from kubesim import data
from kubesim.errors import ApiError
from kubesim.network import firewall
from kubesim.tests.world import World, world

CASES: dict[str, dict[str, Any]] = data.read(Path(__file__).with_name("failure_cases.yaml"))


def fits(wanted: str, text: str, **names: str) -> bool:
    """Whether a text is what is wanted, with * for anything."""
    for name, value in names.items():
        wanted = wanted.replace("{" + name + "}", value)
    return re.fullmatch(".*".join(map(re.escape, wanted.split("*"))), text, re.S) is not None


async def make(w: World, name: str, case: dict[str, Any]) -> None:
    if "firewall" in case:
        w.kubelets.fabric.firewall.rules = firewall.rules([case["firewall"]])
    if "quota" in case:
        await w.create("resourcequotas", {"metadata": {"name": "gpus"}, "spec": {"hard": case["quota"]}})
    kind = "jobs.batch" if "job" in case else "pods"
    await w.create(kind, {"metadata": {"name": name}, "spec": case.get("job") or case["pod"]})
    await w.tick(case.get("seconds", 3))


async def logged(w: World, name: str) -> str:
    try:
        return w.kubelets.logs("default", name, "main").decode()
    except ApiError as error:
        return error.message


@pytest.mark.parametrize("name", CASES)
async def test_a_failure_has_the_words_of_a_real_cluster(name):
    case = CASES[name]
    async with world(count=2) as w:
        await make(w, name, case)
        events = [(event["type"], event["reason"], event["message"]) for event in await w.events()]
        pods = [pod for pod in await w.items("pods") if pod["metadata"]["name"] == name]
        uid, node = (pods[0]["metadata"]["uid"], pods[0]["spec"].get("nodeName", "")) if pods else ("", "")
        for kind, reason, text in case.get("events", ()):
            found = [
                said for said in events if said[:2] == (kind, reason) and fits(text, said[2], uid=uid, node=node)
            ]
            assert found, (kind, reason, text, events)
        assert not [said for said in events if said[1] in case.get("never", ())]
        if pods:
            check_status(case, pods[0]["status"], uid)
        if "log" in case or "refused-log" in case:
            assert fits(case.get("log") or case["refused-log"], await logged(w, name))
        await w.check_models()


def check_status(case: dict[str, Any], status: dict[str, Any], uid: str) -> None:
    """Compare what a case says of a pod's status."""
    (state,) = status.get("containerStatuses") or [{}]
    if "phase" in case:
        assert status["phase"] == case["phase"]
    if "waiting" in case:
        reason, message = case["waiting"]
        waiting = state["state"]["waiting"]
        assert waiting["reason"] == reason
        assert fits(message, waiting["message"], uid=uid)
    for key, place in (("last", "lastState"), ("terminated", "state")):
        if key in case:
            ended = state[place]["terminated"]
            assert [ended["reason"], ended["exitCode"]] == case[key]
    if "condition" in case:
        kind, *wanted = case["condition"]
        found = next(item for item in status["conditions"] if item["type"] == kind)
        assert [found["status"], found["reason"], found["message"]] == wanted
