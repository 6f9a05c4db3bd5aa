"""Quantities: values, canonical texts, refusals."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesim.api.quantity import QuantityError, canonical, from_json, parse, write

CANONICAL = {
    "1000m": "1", "0.5": "500m", "1024Mi": "1Gi", "1.5Gi": "1536Mi", "1024": "1024", "1500m": "1500m", "0": "0",
    "0Gi": "0", "100Ki": "100Ki", "1e3": "1e3", "12e4": "120e3", "1000000": "1M", "1G": "1G", "0.1Ki": "102400m",
    "500Ei": "500Ei", "-5": "-5", "+3": "3", ".5": "500m", "5.": "5", "0.0000000001": "1n", "100n": "100n",
    "1000Gi": "1000Gi",
}  # fmt: skip


@pytest.mark.parametrize(("given", "expected"), CANONICAL.items())
def test_it_writes_a_quantity_as_the_api_server_does(given, expected):
    assert canonical(given) == expected


@pytest.mark.parametrize(("given", "expected"), [(1, "1"), (0.5, "500m"), (1000, "1k"), (" 1Gi ", "1Gi"), (8, "8")])
def test_numbers_become_strings(given, expected):
    assert from_json(given) == expected


@pytest.mark.parametrize("text", ["", "abc", "1.2.3", "1 Gi", "--1", "1Gb", "."])
def test_it_refuses_what_is_no_quantity(text):
    with pytest.raises(QuantityError, match="quantities must match|unable to parse"):
        canonical(text)


def test_true_is_no_quantity():
    with pytest.raises(QuantityError):
        from_json(True)


def test_values_are_exact():
    assert parse("100m") * 3 == Fraction(3, 10)
    assert parse("1Gi") == 2**30


@given(number=st.integers(-(10**15), 10**15), suffix=st.sampled_from(["", "m", "k", "M", "Ki", "Mi", "u"]))
def test_canonical_texts_keep_the_value_and_stay_as_they_are(number, suffix):
    text = f"{number}{suffix}"
    once = canonical(text)
    assert parse(once) == parse(text)
    assert canonical(once) == once


@given(
    st.fractions(min_value=-1000, max_value=1000, max_denominator=1000).map(lambda f: Fraction(round(f * 1000), 1000))
)
def test_what_is_written_is_read_again(value):
    assert parse(write(value)) == value
