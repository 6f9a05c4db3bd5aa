"""Lists at a version and in pages; every text was read from a real API server."""

import base64

import orjson
import pytest

from kubesim.api.listing import LIFETIME, OLD_LIST, OLD_PAGE, listed
from kubesim.api.operations import Operations
from kubesim.clock import ManualClock
from kubesim.errors import ApiError
from kubesim.store import Store
from kubesim.tests.live import serving

NAMES = ["c0", "c1", "c2", "c3", "c4"]


class Small:
    """A store with an API, and nothing else that runs."""

    def __init__(self, history=100):
        self.clock = ManualClock()
        self.store = Store(self.clock, history)
        self.operations = Operations(self.store, self.clock)
        self.maps = self.operations.registry.by_resource("configmaps")
        self.operations.create(
            self.operations.registry.by_resource("namespaces"), "", {"metadata": {"name": "pages"}}
        )
        for name in NAMES:
            self.create(name)

    def create(self, name):
        self.operations.create(self.maps, "pages", {"metadata": {"name": name}})

    def delete(self, name):
        self.operations.delete(self.maps, "pages", name)


@pytest.fixture
def world():
    return Small()


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("lists")) as found:
        yield found


def names(world, **query):
    found, meta = listed(world.operations, world.maps, "pages", query)
    return [obj["metadata"]["name"] for obj in found.items], meta


def test_pages_show_the_moment_of_the_first_one(world):
    first, meta = names(world, limit="2")
    assert first == ["c0", "c1"]
    assert meta["remainingItemCount"] == 3
    world.delete("c3")
    world.create("c2b")
    second, rest = names(world, limit="2", **{"continue": meta["continue"]})
    assert second == ["c2", "c3"]
    assert rest["resourceVersion"] == meta["resourceVersion"]
    assert rest["remainingItemCount"] == 1
    last, end = names(world, **{"continue": rest["continue"]})
    assert (last, end) == (["c4"], {"resourceVersion": meta["resourceVersion"]})


async def test_a_page_that_is_too_old_offers_a_token_that_goes_on_in_the_present(world):
    _, meta = names(world, limit="2")
    world.delete("c3")
    await world.clock.advance(LIFETIME.total_seconds() + 1)
    with pytest.raises(ApiError) as caught:
        names(world, **{"continue": meta["continue"]})
    status = caught.value.status()
    assert (status["code"], status["reason"], status["message"]) == (410, "Expired", OLD_PAGE)
    found, rest = names(world, limit="1", **{"continue": status["metadata"]["continue"]})
    assert found == ["c2"]
    assert names(world, **{"continue": rest["continue"]})[0] == ["c4"]


def test_a_version_selects_its_state_or_one_that_is_not_older(world):
    version = str(world.store.resource_version)
    world.delete("c0")
    assert names(world, resourceVersion=version, resourceVersionMatch="Exact")[0] == NAMES
    assert names(world, resourceVersion=version, limit="1")[0] == ["c0"]
    assert names(world, resourceVersion=version)[0] == NAMES[1:]
    assert names(world, resourceVersion=version, resourceVersionMatch="NotOlderThan", limit="1")[0] == ["c1"]
    assert names(world, resourceVersion="0", limit="1")[0] == NAMES[1:]


def test_a_forgotten_version_is_refused():
    world = Small(history=2)
    with pytest.raises(ApiError, match=OLD_LIST):
        names(world, resourceVersion="2", resourceVersionMatch="Exact")


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        (b"x", "invalid character 'x' looking for beginning of value"),
        ({"v": "meta.k8s.io/v2", "rv": 1, "start": "a"},
         "server does not recognize this encoded version meta.k8s.io/v2"),
        ({"v": "meta.k8s.io/v1", "rv": 0, "start": "a"},
         "incorrect encoded start resourceVersion (version meta.k8s.io/v1)"),
    ],
)  # fmt: skip
def test_it_says_what_is_wrong_with_a_token(world, claims, why):
    raw = claims if isinstance(claims, bytes) else orjson.dumps(claims)
    with pytest.raises(ApiError) as caught:
        names(world, **{"continue": base64.urlsafe_b64encode(raw).decode().rstrip("=")})
    assert caught.value.message == f"invalid continue token: continue key is not valid: {why}"


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("resourceVersionMatch=Exact", "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless "
         "resourceVersion is provided"),
        ("resourceVersion=5&resourceVersionMatch=foo", 'resourceVersionMatch: Unsupported value: "foo": supported '
         'values: "Exact", "NotOlderThan", ""'),
        ("resourceVersion=0&resourceVersionMatch=Exact", 'resourceVersionMatch: Forbidden: resourceVersionMatch '
         '"exact" is forbidden for resourceVersion "0"'),
        ("sendInitialEvents=true", "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list"),
        ("watch=1&resourceVersionMatch=NotOlderThan", "resourceVersionMatch: Forbidden: resourceVersionMatch is "
         "forbidden for watch unless sendInitialEvents is provided"),
        ("watch=1&sendInitialEvents=true", "resourceVersionMatch: Forbidden: sendInitialEvents requires setting "
         "resourceVersionMatch to NotOlderThan"),
        ("watch=1&sendInitialEvents=true&resourceVersionMatch=Exact", "[resourceVersionMatch: Forbidden: "
         "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan, resourceVersionMatch: Unsupported "
         'value: "Exact": supported values: "NotOlderThan"]'),
    ],
)  # fmt: skip
async def test_options_that_contradict_each_other_are_refused_together(live, query, text):
    async with live.client() as client, client.get(f"/api/v1/pods?{query}") as response:
        found = await response.json()
    assert (found["code"], found["message"]) == (422, f'ListOptions.meta.k8s.io "" is invalid: {text}')
