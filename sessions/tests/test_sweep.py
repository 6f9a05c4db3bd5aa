"""Every address of the site, asked by everybody: who gets in is written down here, address by address."""

from __future__ import annotations

import re
from uuid import uuid4

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from interview_site import write_limits
from sessions import services
from sessions.models import InterviewSession
from sessions.selectors import CANDIDATE_KEY

pytestmark = pytest.mark.usefixtures("time")

PEOPLE = ("nobody", "mallory", "other_candidate", "candidate", "grace", "ada", "root")
INTERVIEWERS = {"grace", "ada", "root"}
EVERYBODY = set(PEOPLE)
SIGNED_IN = {"mallory", *INTERVIEWERS}
# Who may reach the view behind an address; everybody else is sent to sign in, or told that there is nothing.
RULES = [
    (r"^(healthz|readyz|login/|logout/|join/<str:token>/)$", EVERYBODY),
    (r"^api/openapi\.json$", {"root"}),
    (r"^admin/login/$", EVERYBODY),
    (r"^admin/", {"root"}),
    (r"^panic/$", {"root"}),
    (r"^api/faults/runs/", {"root"}),
    (r"^api/(sessions|faults/scenarios/)$", SIGNED_IN),
    (r"^api/$", EVERYBODY),
    (r"^api/sessions/", INTERVIEWERS),
    (r"^api/v1/", set()),  # programs with a token; no cookie opens it
    (r"^api/v1/health$", EVERYBODY),
    (r"^api/v1/(openapi\.json|docs)$", {"root"}),
    (r"^$|^sessions/new/$|^catalogue/", SIGNED_IN),
    (r"^plans/", {"root"}),
    (r"^sessions/<uuid:uuid>/", INTERVIEWERS),
    (r"^sessions/<uuid:uuid>/scorecard\.(pdf|json)$", INTERVIEWERS),
    (r"^c/<uuid:uuid>/", {"candidate"}),
]


def routes(resolver=None, prefix=""):
    """Yield every route of the site as it is written."""
    for pattern in (resolver or get_resolver()).url_patterns:
        route = prefix + re.sub(r"^\^|\$$|\\Z$", "", str(pattern.pattern))
        if isinstance(pattern, URLResolver):
            yield from routes(pattern, route)
        elif isinstance(pattern, URLPattern):
            yield route


ROUTES = sorted(set(routes()))


def allowed(route: str) -> set[str]:
    found = [people for rule, people in RULES if re.search(rule, route)]
    assert found, f"nobody has said who may open {route}: add it to RULES"
    return found[-1]


@pytest.fixture(autouse=True)
def many_writes(monkeypatch):
    """Let a sweep over all routes be no flood: the limit has tests of its own."""
    monkeypatch.setattr(write_limits, "MAX_WRITES", 10 * len(ROUTES))


@pytest.fixture
def browsers(draft, ada, grace, mallory, root):
    other = InterviewSession.objects.create(owner=mallory, candidate_name="Eve", title="Another", minutes=60)
    found = {name: Client() for name in PEOPLE}
    for name, user in (("ada", ada), ("grace", grace), ("mallory", mallory), ("root", root)):
        found[name].force_login(user)
    for name, session in (("candidate", draft), ("other_candidate", other)):
        cookies = found[name].session
        cookies[CANDIDATE_KEY] = str(session.uuid)
        cookies.save()
    return found


@pytest.fixture
def fill(live, scenario, question):
    """Turn a route into an address of ada's session."""
    values = {
        "uuid": live.uuid,
        "scenario": scenario.uuid,
        "question": question.uuid,
        "criterion": "diagnosis",
        "index": "0",
        "name": "all",
        "action": "pause",
        "token": "guess",
        "run": uuid4(),
        "ref": "question-0",
    }

    def address(route: str) -> str:
        return "/" + re.sub(r"<(?:\w+:)?(\w+)>", lambda found: str(values.get(found[1], "1")), route)

    return address


def outcome(response) -> str:
    """Return how a browser was received: in, login, nothing, or forbidden."""
    if response.status_code in (301, 302):
        return "login" if "/login/" in response["Location"] else "in"
    if response.status_code in (401, 403):
        return "refused"
    return "nothing" if response.status_code == 404 else "in"


LATER = [pytest.param(method, marks=pytest.mark.torture) for method in ("put", "patch")]  # no view tells from delete
PAGES = [route for route in ROUTES if not route.startswith("admin/")]
ADMIN = sorted(set(ROUTES) - set(PAGES) - {"admin/login/", "admin/logout/"})  # these two lead to the sign-in


def test_somebody_has_said_who_may_open_each():
    assert all(allowed(route) <= EVERYBODY for route in ROUTES)


METHODS = pytest.mark.parametrize("method", ["get", "post", "delete", *LATER])


@METHODS
def test_nobody_else_gets_in_or_changes_anything(browsers, fill, live, method):
    before = list(live.events.values_list("seq", "kind"))
    for route in PAGES:
        for name in (each for each in PEOPLE if each not in allowed(route)):
            response = getattr(browsers[name], method)(fill(route))
            # What is wrong with the request as such is said before anybody looks for the object.
            assert outcome(response) != "in" or response.status_code in (400, 405), (name, route)
            assert "Sam Doe" not in response.content.decode(errors="replace")
            assert_nothing_is_broken(response, (name, route))
    live.refresh_from_db()
    assert (list(live.events.values_list("seq", "kind")), live.state) == (before, "live")


@METHODS
def test_who_may_gets_in(browsers, fill, method):
    for route in PAGES:
        for name in (each for each in PEOPLE if each in allowed(route)):
            response = getattr(browsers[name], method)(fill(route))
            assert_nothing_is_broken(response, (name, route))
            if method == "get" and name not in ("nobody", "candidate", "other_candidate"):
                assert outcome(response) not in ("login", "refused"), (name, route)


def assert_nothing_is_broken(response, where):
    """Find no failure, and on a page no script and no style that its policy forbids."""
    assert response.status_code < 500 or response.status_code == 503, where
    if response["Content-Type"].startswith("text/html"):
        page = response.content.decode()
        assert "script-src 'self';" in response["Content-Security-Policy"], where
        tags = re.findall(r"<script\b[^>]*>", page)
        assert [tag for tag in tags if "src=" not in tag and 'type="application/json"' not in tag] == [], where
        assert not re.search(r"\son\w+=|javascript:|<style\b", page), where


def test_the_admin_is_for_staff(browsers, fill):
    for route in ADMIN:
        for name in set(PEOPLE) - {"root"}:
            assert outcome(browsers[name].get(fill(route))) in ("login", "nothing", "refused"), (name, route)


def test_a_form_of_another_site_changes_nothing(fill, ada):
    """Every POST needs the token, by whomever it is sent."""
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(ada)
    for route in PAGES:
        response = browser.post(fill(route), headers={"Origin": "https://evil.example"})
        refused = (401, 403, 404, 405) if route.startswith("api/v1/") else (403, 404, 405)
        assert response.status_code in refused, (route, response.status_code)


def test_another_host_is_not_answered(client, ada):
    client.force_login(ada)
    for host in ("evil.example", "127.0.0.1.evil.example", "testserver@evil.example", "testserver:80:80"):
        assert client.get("/", headers={"Host": host}).status_code == 400


def test_the_admins_own_pages_hold_no_script_and_no_style_that_the_policy_forbids(browsers, fill):
    for route in ["admin/", "admin/interview_sessions/plan/", "admin/faults/scenario/add/"]:
        assert_nothing_is_broken(browsers["root"].get(fill(route)), route)


def test_the_kubeconfig_is_handed_out_while_it_runs_only(browsers, live, ada):
    url = f"/c/{live.uuid}/kubeconfig/"
    assert browsers["other_candidate"].get(url).status_code == 404
    services.end(session=live, actor=ada)
    assert browsers["candidate"].get(url).status_code == 409
