"""The answer key: briefs and solutions with the names that the session has drawn, before and during the interview."""

from __future__ import annotations

from uuid import UUID

import pytest

from faults import selectors as fault_selectors
from faults.models import Cluster
from sessions import selectors, services
from sessions.models import InterviewSession, SessionScenario
from sessions.services import preparation
from sessions.tests.conftest import SLUG


@pytest.fixture
def get(client, ada):
    """Fetch the key of a session as ada."""

    def go(session) -> str:
        client.force_login(ada)
        answer = client.get(f"/sessions/{session.uuid}/key/")
        assert answer.status_code == 200
        return answer.content.decode()

    return go


@pytest.mark.parametrize("seed", range(6))
def test_before_anything_is_injected_it_has_the_names_that_the_fault_will_have(time, ada, scenario_version, seed):
    session = services.create_session(
        owner=ada, candidate_name="Sam Doe", scenario_versions=[scenario_version], minutes=30, uuid=UUID(int=seed)
    )
    before = selectors.pack_for(session.scenarios.get())
    session = services.prepare(session=session, actor=ada)
    session.cluster = Cluster.objects.create(name="gpu-test", tier="practice")
    session.save()
    run = preparation.plan_run(session, session.scenarios.get(), {})
    after = fault_selectors.bound_pack(run)
    assert (before.statement, before.brief, before.solutions) == (after.statement, after.brief, after.solutions)


def test_sessions_differ_in_their_names(time, ada, scenario_version):
    sessions = [
        services.create_session(
            owner=ada, candidate_name="Sam", scenario_versions=[scenario_version], minutes=30, uuid=UUID(int=seed)
        )
        for seed in range(8)
    ]
    assert len({selectors.pack_for(session.scenarios.get()).brief for session in sessions}) > 1


def test_a_shared_cluster_gives_each_session_namespaces_of_its_own(draft):
    InterviewSession.objects.filter(pk=draft.pk).update(tier="shared")
    row = SessionScenario.objects.get(session=draft)
    assert set(selectors.pack_for(row).namespaces.values()) == {f"ml-training-{draft.uuid.hex[:6]}"}


def test_it_has_brief_statement_solutions_and_milestones(get, live):
    html = get(live)
    pack = selectors.pack_for(live.scenarios.get())
    assert html.count("<summary>Solution ") == len(pack.solutions)
    assert "exec format error" in html
    assert "What the candidate reads" in html
    assert "par " in html


def test_who_prepares_reads_it_before_the_start(client, ada, ready):
    client.force_login(ada)
    page = client.get(f"/sessions/{ready.uuid}/").content.decode()
    assert 'id="panel-key"' in page
    assert "<summary>Solution 1</summary>" in page


def test_a_preview_says_that_sessions_draw_other_names(client, ada, scenario_version):
    client.force_login(ada)
    page = client.get(f"/catalogue/s-{SLUG}/").content.decode()
    assert f"one of {len(fault_selectors.pack_of(scenario_version).variants)} variants" in page


def test_it_hides_other_peoples_sessions_asks_strangers_to_sign_in_and_rejects_post(client, ada, mallory, live):
    url = f"/sessions/{live.uuid}/key/"
    assert client.get(url).status_code == 302
    client.force_login(mallory)
    assert client.get(url).status_code == 404
    client.force_login(ada)
    assert client.post(url).status_code == 405
