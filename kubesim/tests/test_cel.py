"""The functions of Kubernetes' CEL libraries; the values are those of its documentation."""

import pytest

from kubesim.cel.program import CelError, compiled


@pytest.mark.parametrize(
    "text",
    [
        "quantity('50k').isGreaterThan(quantity('20k'))", "!isQuantity('200a')",
        "'abc 123'.find('[0-9]+') == '123'", "['b', 'a'].min() == 'a'",
        "sets.contains(['a', 'b'], ['b'])", "sets.intersects([1, 2], [2])", "sets.equivalent([1, 1], [1])",
    ],
)  # fmt: skip
def test_a_function_is_that_of_kubernetes(text):
    assert compiled(text).run({}) is True


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("string(duration('90m'))", "5400s"), ("[1, 2, 3].map(i, i > 1, i * 2)", [4, 6]),
        ("string(1e30)", "1e+30"), ("int(-3.9)", -3), ("7 / -2", -3), ("-7 % 3", -1), ("string(1.0 / 0.0)", "+Inf"),
        ("true || 1 / 0 > 1", True), ("1 / 0 > 1 || true", True), ("{1: 'a'}[1.0]", "a"), ("0x1F", 31),
        ("duration('1.5s') > duration('1s')", True), ("'\\u00e4\\x41\\101'", "\u00e4AA"),
        ("has(nothing.a)", False), ("type(1) == int", True),
    ],
)  # fmt: skip
def test_an_expression_has_the_value_that_it_has_in_a_real_control_plane(text, value):
    assert compiled(text).run({"a": {"x": 1}, "nothing": None}) == value


@pytest.mark.parametrize(
    "text",
    [
        "'a'.format([])", "semver('1.2.3').major() == 1", "[1].exists(i, v, v == 1)", "isIP('::1')",
        "cidr('10.0.0.0/8').containsIP('10.0.0.1')", "url('https://a').getHost() == 'a'",
        "timestamp('2024-01-02T03:04:05Z').getHours() == 3", "optional.of(1).hasValue()",
        "timestamp('2024-01-02T03:04:05Z') + duration('1h') > timestamp('2024-01-02T03:04:05Z')",
    ],
)  # fmt: skip
def test_what_is_missing_of_the_libraries_is_no_overload(text):
    with pytest.raises(CelError, match="no such overload|no such attribute"):
        compiled(text).run({"a": {"x": 1}})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1u > 0u", "numbers without a sign are not supported"), ("b'x' == b'x'", "bytes are not supported"),
        ("a.?x.hasValue()", "unsupported syntax"), ("[?a.b]", "unsupported syntax"),
    ],
)  # fmt: skip
def test_types_that_are_missing_are_told_of(text, why):
    with pytest.raises(CelError, match=why):
        compiled(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1 / 0", "division by zero"), ("1 % 0", "modulus by zero"),
        ("9223372036854775807 + 1", "integer overflow"), ("[1, 2][5]", "index out of bounds: 5"),
        ("a.y", "no such key: y"),
        ("dyn(1) + dyn('a')", "no such overload"), ("nothing.a", "no such key: a"),
        ("[].max()", "max called on empty list"),
        ("'abc'.substring(5)", "index out of range: 5"), ("1 / 0 > 1 && true", "division by zero"),
        ("{a: 1}", "unsupported key type: map"),
        ("timestamp(9223372036854775807)", "timestamp overflow"),
    ],
)  # fmt: skip
def test_an_expression_without_a_value_fails_as_in_a_real_control_plane(text, why):
    with pytest.raises(CelError) as caught:
        compiled(text).run({"a": {"x": 1}, "nothing": None})
    assert str(caught.value) == why
