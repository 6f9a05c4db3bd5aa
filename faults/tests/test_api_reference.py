"""The page that describes the fault injection API: complete, ours alone, and for staff where interviews are held."""

from __future__ import annotations

import re

import pytest
from django.test import override_settings

from faults.api.injection import make_api

pytestmark = pytest.mark.django_db
PAGE = "/api/v1/docs"


def person(django_user_model, name, **more):
    return django_user_model.objects.create_user(name, password="a-long-word", **more)


def test_staff_read_every_route_and_field_with_what_it_takes(client, django_user_model):
    client.force_login(person(django_user_model, "root", is_staff=True, is_superuser=True))
    answer = client.get(PAGE)
    text = answer.content.decode()
    schema = make_api().get_openapi_schema(path_prefix="/api/v1/")
    assert answer.status_code == 200
    for path, methods in schema["paths"].items():
        for about in methods.values():
            assert path in text
            assert about["summary"] in text
    for name in ("parameters.packet_loss_percent", "parameters.block_nats", "node_name", "active_only"):
        assert f">{name}</code>" in text
    assert "throttle | overheat" in text
    assert "faults:inject" in text
    assert "&#x27;{&quot;node_name&quot;:" in text
    assert not re.search(r'(src|href)="https?://', text)
    assert "style=" not in text
    admin = client.get("/admin/faults/apitoken/").content.decode()
    assert f'href="{PAGE}"' in admin


def test_nobody_else_reads_it(client, django_user_model):
    assert client.get(PAGE).headers["Location"] == f"/login/?next={PAGE}"
    client.force_login(person(django_user_model, "mallory"))
    assert client.get(PAGE).status_code == 403


def test_it_is_for_reading(client, django_user_model):
    client.force_login(person(django_user_model, "root", is_staff=True))
    assert client.post(PAGE).status_code == 405


def test_in_guide_mode_whoever_runs_the_guide_reads_it(client):
    with override_settings(ROOT_URLCONF="interview_site.guide_urls"):
        answer = client.get(PAGE)
        assert answer.status_code == 200
        assert "no token is needed" in answer.content.decode()
        described = client.get("/api/v1/openapi.json").json()
        assert "security" not in described["paths"]["/api/v1/faults"]["get"]
        assert client.post(PAGE).status_code == 405
