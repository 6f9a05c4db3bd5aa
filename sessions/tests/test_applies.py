"""Applies of Terraform on the time line and on the live page: what a new state has that the one before had not."""

from __future__ import annotations

import base64
import gzip
import json

from faults.terraform_state import TerraformState, read_state
from sessions import events, panels, services
from sessions.models import InterviewSession, SessionEvent
from sessions.panels.timeline import words_for


def secret(serial, quotas, **more):
    """Return a Secret as Terraform writes it."""
    instances = [{"index_key": name, "attributes": {"gpus": gpus}} for name, gpus in quotas.items()]
    quota = {"mode": "managed", "module": "module.tenant", "type": "quota", "name": "gpus", "instances": instances}
    read = {"mode": "data", "type": "namespace", "name": "x", "instances": [{"attributes": {}}]}
    document = {"version": 4, "serial": serial, "resources": [quota, read], **more}
    packed = base64.b64encode(gzip.compress(json.dumps(document).encode())).decode()
    return {"data": {"tfstate": packed}}


BEFORE = read_state(secret(3, {"a": 1, "b": 1}))
AFTER = read_state(secret(4, {"a": 2, "c": 1}))


def test_a_state_is_read_as_terraform_writes_it():
    assert BEFORE.serial == 3
    addresses = [row["address"] for row in BEFORE.resources]
    assert addresses == ['module.tenant.quota.gpus["a"]', 'module.tenant.quota.gpus["b"]']
    assert BEFORE.resources[0]["attributes"] == {"gpus": 1}


def test_a_state_that_cannot_be_read_is_empty():
    bomb = base64.b64encode(gzip.compress(b"0" * 50_000_000)).decode()
    wrong = ["", "no base64", base64.b64encode(b"x").decode(), bomb]
    for text in wrong:
        assert read_state({"data": {"tfstate": text}}) == TerraformState()
    assert read_state({}) == read_state(secret(1, {}, version=3)) == TerraformState()
    assert read_state(secret(1, {}, resources=[1])) == TerraformState()


def test_an_apply_is_told_once_with_what_has_changed(live):
    told = {"session_id": live.pk, "root": "tenants", "before": BEFORE, "after": AFTER}
    assert services.note_apply(**told)
    assert not services.note_apply(**told)
    event = SessionEvent.objects.get(session=live, kind=events.APPLIED)
    assert event.payload["resources"] == [
        '+ module.tenant.quota.gpus["c"]',
        '~ module.tenant.quota.gpus["a"]',
        '- module.tenant.quota.gpus["b"]',
    ]
    assert words_for(event) == "Terraform applied: tenants: 1 added, 1 changed, 1 destroyed (state 4)"
    assert services.note_apply(**told | {"root": "cloud"})


def test_before_the_start_and_after_the_end_nothing_is_told(ready, ended):
    for session in (ready, ended):
        assert not services.note_apply(session_id=session.pk, root="tenants", before=BEFORE, after=AFTER)


def test_the_live_page_lists_applies_where_a_scenario_has_code(live):
    assert "hidden" in panels.render(live, "terraform", panels.INTERVIEWER, None)
    run = live.environment
    workspace = {"state": "platform", "namespaces": [], "objects": [], "rights": [], "cloud-roles": []}
    run.parameters |= {"toolbox": {"namespace": "toolbox", "image": "none", "terraform": workspace}}
    run.save(update_fields=["parameters"])
    fresh = InterviewSession.objects.get(pk=live.pk)
    assert "Nothing has been applied" in panels.render(fresh, "terraform", panels.INTERVIEWER, None)
    services.note_apply(session_id=live.pk, root="tenants", before=BEFORE, after=AFTER)
    page = panels.render(InterviewSession.objects.get(pk=live.pk), "terraform", panels.INTERVIEWER, None)
    assert "tenants: 1 added, 1 changed, 1 destroyed (state 4)" in page
    assert "~ module.tenant.quota.gpus" in page
