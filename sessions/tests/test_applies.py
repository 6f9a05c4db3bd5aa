"""Applies of Terraform on the time line and on the live page: what a new state has that the one before had not."""

from __future__ import annotations

import base64
import gzip
import json
import tracemalloc
import zlib
from io import BytesIO

import jsonschema
import pytest
from django.urls import reverse
from pypdf import PdfReader

from faults.checks import Condition, Outcome, evaluate
from faults.checks.model import StateRead
from faults.terraform_state import MAX_RESOURCES, MAX_STATE_BYTES, TerraformState, read_state
from sessions import events, panels, services
from sessions.models import InterviewSession, SessionEvent
from sessions.panels.timeline import words_for
from sessions.scorecards import as_pdf, build_scorecard
from sessions.scorecards.as_json import schema


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


def resource(**fields):
    """Return a resource with one instance, with other fields than Terraform would write."""
    instance = {"attributes": {}} | {name: fields.pop(name) for name in ("attributes", "index_key") if name in fields}
    return {"resources": [{"type": "quota", "name": "gpus", "instances": [instance]} | fields]}


def packed(text):
    """Return a Secret with a text in the place of a state."""
    return {"data": {"tfstate": base64.b64encode(gzip.compress(text.encode())).decode()}}


HOSTILE = {
    "no data": {},
    "nothing": {"data": {"tfstate": ""}},
    "no base64": {"data": {"tfstate": "no base64"}},
    "no gzip": {"data": {"tfstate": base64.b64encode(b"x").decode()}},
    "half a gzip": {"data": {"tfstate": secret(1, {})["data"]["tfstate"][:40]}},
    "more than a Secret holds": {"data": {"tfstate": "A" * 4_000_000}},
    "another format": secret(1, {}, version=3),
    "endless serial": packed('{"version": 4, "serial": Infinity, "resources": []}'),
    "overflowing serial": packed('{"version": 4, "serial": 1e999, "resources": []}'),
    "serial of 4000 digits": packed('{"version": 4, "serial": ' + "9" * 4000 + ', "resources": []}'),
    "serial that is true": secret(True, {}),
    "serial in quotes": secret("7", {}),
    "resources that are numbers": secret(1, {}, resources=[1]),
    "type that is a list": secret(1, {}, **resource(type=[1])),
    "key that is a list": secret(1, {}, **resource(index_key=[1])),
    "attributes that are a list": secret(1, {}, **resource(attributes=[1])),
    "name of a megabyte": secret(1, {}, **resource(name="n" * 500_000)),
    "half a pair of surrogates": secret(1, {}, **resource(name="\ud800")),
    "same in a key": secret(1, {}, **resource(attributes={"\ud800": 1})),
    "deep attributes": packed(
        '{"version": 4, "serial": 1, "resources": [{"type": "a", "name": "b", "instances": [{"attributes": {"a": '
        + "[" * 900
        + "]" * 900
        + "}}]}]}"
    ),
    "bottomless attributes": packed("[" * 500_000),
    "a million empty lists": packed('{"version": 4, "serial": 1, "resources": [], "x": [' + "[]," * 300_000 + "[]]}"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_state_that_cannot_be_read_is_empty(name):
    assert read_state(HOSTILE[name]) == TerraformState()


def test_a_bomb_is_unpacked_up_to_the_limit_alone():
    """64 MiB in 64 KiB: neither the observer nor a check may hold them, not even for a moment."""
    layer, zeros = zlib.compressobj(level=1, wbits=31), bytes(1 << 20)
    bomb = b"".join([*(layer.compress(zeros) for _ in range(64)), layer.flush()])
    whole = {"data": {"tfstate": base64.b64encode(bomb).decode()}}
    tracemalloc.start()
    try:
        assert read_state(whole) == TerraformState()
        assert tracemalloc.get_traced_memory()[1] < 8 * MAX_STATE_BYTES
    finally:
        tracemalloc.stop()


def test_of_a_state_with_too_many_resources_the_first_are_read():
    found = read_state(secret(2, dict.fromkeys(map(str, range(MAX_RESOURCES + 5)), 1)))
    assert (found.serial, len(found.resources)) == (2, MAX_RESOURCES)


def test_a_check_sees_no_state_where_it_cannot_be_read():
    condition = Condition({"state": StateRead("platform", "tenants")}, "state.serial == 0", "string(state.serial)")
    for each in HOSTILE.values():
        assert evaluate(condition, OneSecret(each)) == Outcome("pass", "0")


class OneSecret:
    """A reader with a Secret and nothing else."""

    def __init__(self, found):
        self.found = found

    def secret(self, namespace, name):
        assert (namespace, name) == ("platform", "tfstate-default-tenants")
        return self.found


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


def test_what_providers_and_apis_write_themselves_is_no_change(live):
    """The provider creates with null and reads an empty value; the API counts versions up."""
    created = {"gpus": 1, "scopes": None, "rules": [{"names": None}], "metadata": [{"resource_version": "7"}]}
    read = {"gpus": 1, "scopes": [], "rules": [{"names": []}], "metadata": [{"resource_version": "9", "labels": {}}]}
    before = read_state(secret(1, {}, **resource(attributes=created)))
    after = read_state(secret(2, {}, **resource(attributes=read)))
    lower = read_state(secret(3, {}, **resource(attributes=read | {"gpus": 0})))
    services.note_apply(session_id=live.pk, root="tenants", before=before, after=after)
    services.note_apply(session_id=live.pk, root="tenants", before=after, after=lower)
    told = SessionEvent.objects.filter(session=live, kind=events.APPLIED).order_by("seq")
    assert [entry.payload["resources"] for entry in told] == [[], ["~ quota.gpus"]]


def test_what_an_address_says_is_shown_and_acts_on_nothing(live):
    loud = read_state(secret(9, {"\x1b[2J\u202e" + "e" * 400: 1}))
    services.note_apply(session_id=live.pk, root="tenants", before=BEFORE, after=loud)
    lines = SessionEvent.objects.get(session=live, kind=events.APPLIED).payload["resources"]
    assert [len(line) <= 200 for line in lines] == [True] * len(lines)
    assert not any("\x1b" in line or "\u202e" in line for line in lines)


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


def test_the_scorecard_lists_applies_on_its_page_in_its_pdf_and_as_data(live, ada, client, time):
    time.advance(90)
    services.note_apply(session_id=live.pk, root="tenants", before=BEFORE, after=AFTER)
    card = build_scorecard(session=live, viewer=ada)
    jsonschema.Draft202012Validator(schema()).validate(card)
    text = "tenants: 1 added, 1 changed, 1 destroyed (state 4)"
    entry = {"session_ms": 90_000, "root": "tenants", "serial": 4, "text": text}
    assert card["applies"] == [card["applies"][0] | entry]
    assert card["applies"][0]["resources"][0] == '+ module.tenant.quota.gpus["c"]'
    printed = "".join(page.extract_text() for page in PdfReader(BytesIO(as_pdf(card))).pages)
    assert "1 added, 1 changed, 1 destroyed" in printed
    client.force_login(ada)
    page = client.get(reverse("scorecard", args=[live.uuid])).content.decode()
    assert text in page
    assert "+ module.tenant.quota.gpus" in page


def test_a_scorecard_without_applies_says_nothing_of_terraform(live, ada, client):
    card = build_scorecard(session=live, viewer=ada)
    assert card["applies"] == []
    client.force_login(ada)
    assert "Terraform" not in client.get(reverse("scorecard", args=[live.uuid])).content.decode()
