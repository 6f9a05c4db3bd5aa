from datetime import timedelta

import pytest

from kubesim.auth.tokens import InvalidToken, TokenSigner
from kubesim.clock import ManualClock

ACCOUNT = {"metadata": {"namespace": "training", "name": "oncall", "uid": "u-1"}}


def test_it_signs_what_it_later_believes():
    signer, now = TokenSigner.create(), ManualClock().now()
    claims = TokenSigner.from_pem(signer.pem()).verify(signer.issue(ACCOUNT, [], 600, now), now)
    assert (claims.namespace, claims.name, claims.uid) == ("training", "oncall", "u-1")
    assert claims.expires == now + timedelta(seconds=600)


def test_it_refuses_an_expired_token():
    signer, now = TokenSigner.create(), ManualClock().now()
    token = signer.issue(ACCOUNT, [], 600, now)
    with pytest.raises(InvalidToken):
        signer.verify(token, now + timedelta(seconds=600))


POD = {"kind": "Pod", "name": "toolbox", "uid": "u-2"}


@pytest.mark.parametrize(
    ("seconds", "bound", "audiences", "days"),
    [(3607, [POD], [], 364), (3600, [POD], [], 0), (3607, [], [], 0), (3607, [POD], ["vault"], 0)],
)
def test_a_pods_own_token_is_good_for_a_year_as_upstream_extends_it(seconds, bound, audiences, days):
    signer, now = TokenSigner.create(), ManualClock().now()
    token = signer.issue(ACCOUNT, audiences, seconds, now, *bound)
    assert signer.verify(token, now + timedelta(minutes=59)).bound == ({"pod": ("toolbox", "u-2")} if bound else {})
    later = now + timedelta(days=days, hours=2)
    if days:
        signer.verify(token, later)
    else:
        with pytest.raises(InvalidToken):
            signer.verify(token, later)


def test_it_refuses_a_token_of_another_cluster():
    now = ManualClock().now()
    with pytest.raises(InvalidToken):
        TokenSigner.create().verify(TokenSigner.create().issue(ACCOUNT, [], 600, now), now)


@pytest.mark.parametrize("token", ["", "x", "a.b.c", "....", "é.é.é", "e30.e30.e30"])
def test_it_refuses_what_is_no_token(token):
    with pytest.raises(InvalidToken):
        TokenSigner.create().verify(token, ManualClock().now())
