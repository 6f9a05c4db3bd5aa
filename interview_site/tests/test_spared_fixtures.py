"""Tests have what they ask pytest-django for, and nothing else of it."""

from __future__ import annotations

import pytest
import pytest_django.fixtures
import pytest_django.plugin
from django.conf import settings
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.urls import NoReverseMatch, path, reverse

from interview_site.spared_fixtures import OF_CLASSES, OF_SITES, SPARED

urlpatterns = [path("here", lambda request: HttpResponse("here"), name="here")]
ALL = {*SPARED, OF_CLASSES, OF_SITES}


def spared(request):
    return ALL - {*request.fixturenames}


def test_what_is_spared_is_pytest_djangos():
    found = {**vars(pytest_django.plugin), **vars(pytest_django.fixtures)}
    assert {name for name in ALL if name not in found} == set()


def test_a_test_that_asks_for_nothing_is_spared_all_of_it(request):
    assert spared(request) == ALL
    assert "monkeypatch" not in request.fixturenames  # which one of them asks for


def test_what_a_test_asks_for_itself_it_has(request, monkeypatch):
    assert "monkeypatch" in request.fixturenames


@pytest.mark.parametrize("number", [1, pytest.param(2, marks=pytest.mark.django_db)])
def test_a_marker_of_one_example_holds(request, number):
    assert spared(request) == ALL - {"_django_db_marker"}
    if number == 2:
        assert not User.objects.exists()


@pytest.mark.urls(__name__)
def test_addresses_of_a_test_are_used():
    assert (settings.ROOT_URLCONF, reverse("here")) == (__name__, "/here")


def test_addresses_are_the_sites_again():
    with pytest.raises(NoReverseMatch):
        reverse("here")


class TestInAClass:
    def test_of_a_class_is_prepared_as_such(self, request):
        assert OF_CLASSES in request.fixturenames
