"""Responses are small, and those that were small before are left alone."""

from __future__ import annotations

import gzip

import pytest
from django.http import HttpResponse

from interview_site.middleware import PlainPages

GZIP = {"Accept-Encoding": "gzip, deflate, br"}


@pytest.fixture
def stylesheet(settings) -> bytes:
    return (settings.BASE_DIR / "static" / "app.css").read_bytes()


def test_static_text_goes_out_compressed(client, stylesheet):
    for _ in range(2):
        response = client.get("/static/app.css", headers=GZIP)
        assert response.headers["Content-Encoding"] == "gzip"
        assert gzip.decompress(response.getvalue()) == stylesheet
        assert int(response.headers["Content-Length"]) < len(stylesheet) / 3
        assert response.headers["Vary"] == "Accept-Encoding"


def test_a_client_that_cannot_decompress_gets_the_file(client, stylesheet):
    response = client.get("/static/app.css")
    assert "Content-Encoding" not in response.headers
    assert response.getvalue() == stylesheet
    assert response.headers["Vary"] == "Accept-Encoding"


def test_a_file_that_the_browser_has_is_not_sent_again(client):
    first = client.get("/static/app.css", headers=GZIP)
    assert first.getvalue()
    tag = first.headers["ETag"]
    assert client.get("/static/app.css", headers={**GZIP, "If-None-Match": tag}).status_code == 304


def test_a_file_that_is_not_there_is_not_found(client, db):
    assert client.get("/static/nothing.css", headers=GZIP).status_code == 404


def test_pages_go_out_compressed_and_padded_by_a_random_length(client, db):
    sizes = {len(client.get("/login/", headers=GZIP).content) for _ in range(8)}
    assert len(sizes) > 1


def test_everything_that_pages_load_stays_small(settings):
    files = [*settings.BASE_DIR.glob("static/*.js"), settings.BASE_DIR / "static" / "app.css"]
    assert (settings.BASE_DIR / "static" / "app.css").stat().st_size < 40_000
    assert sum(len(gzip.compress(file.read_bytes(), 9)) for file in files) < 30_000


def test_a_page_that_its_view_has_zipped_goes_out_as_it_is(rf):
    body = gzip.compress(b"<p>drawn</p>")
    zipped = PlainPages(lambda request: HttpResponse(body, headers={"Content-Encoding": "gzip"}))
    assert zipped(rf.get("/")).content == body
