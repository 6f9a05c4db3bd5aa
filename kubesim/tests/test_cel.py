"""The functions of Kubernetes' CEL libraries; the values are those of its documentation."""

import pytest

from kubesim.cel.program import CelError, compiled
from kubesim.cel.standard import listed


@pytest.mark.parametrize(
    "text",
    [
        "ip('192.168.0.1').family() == 4", "ip('::1').isLoopback()", "!isIP('1.2.3')", "ip.isCanonical('::1')",
        "!ip.isCanonical('::0:1')", "ip('10.0.0.1').isGlobalUnicast()",
        "cidr('192.168.0.0/24').containsIP('192.168.0.9')", "!cidr('192.168.0.0/24').containsIP(ip('10.0.0.1'))",
        "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16')", "cidr('192.168.1.5/24').prefixLength() == 24",
        "string(cidr('192.168.1.5/24').masked()) == '192.168.1.0/24'",
        "cidr('192.168.1.5/24').ip() == ip('192.168.1.5')",
        "url('https://user:pass@example.com:80/path?k=v#f').getHost() == 'example.com:80'",
        "url('https://[::1]:80/').getHostname() == '::1'", "url('/a/b').getPort() == ''",
        "url('https://a/?k=a&k=b&j=').getQuery() == {'k': ['a', 'b'], 'j': ['']}", "!isURL('../relative')",
        "quantity('50k').isGreaterThan(quantity('20k'))", "quantity('50k').sub(20000) == quantity('30k')",
        "quantity('1.5').sign() == 1", "!quantity('1500m').isInteger()", "!isQuantity('200a')",
        "'abc 123 def 456'.findAll('[0-9]+') == ['123', '456']", "'abc 123'.find('[0-9]+') == '123'",
        "'a b c'.findAll('[a-z]', 2) == ['a', 'b']", "[1, 3].isSorted()", "['b', 'a'].min() == 'a'",
        "[1, 2, 2].lastIndexOf(2) == 2",
        "sets.contains(['a', 'b'], ['b'])", "sets.intersects([1, 2], [2])", "sets.equivalent([1, 1], [1])",
        "semver('1.10.0').isGreaterThan(semver('1.9.9'))", "semver('1.0.0-rc.2').isLessThan(semver('1.0.0-rc.10'))",
        "semver('1.0.0-rc.1').compareTo(semver('1.0.0')) == -1", "!isSemver('1.0')", "semver('1.2.3').minor() == 2",
        "!format.dns1123Label().validate('a-b').hasValue()", "format.labelValue().validate('a b').hasValue()",
        "format.named('dns1035Label').hasValue()", "'%s has %d'.format(['x', 2]) == 'x has 2'",
    ],
)  # fmt: skip
def test_a_function_is_that_of_kubernetes(text):
    assert compiled(text).run({}) is True


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("ip('a')", 'IP Address "a" parse error during conversion from string: ParseAddr("a"): unable to parse IP'),
        ("url('a b')", 'URL parse error during conversion from string: parse "a b": invalid URI for request'),
    ],
)
def test_a_function_says_which_value_it_cannot_read(text, why):
    with pytest.raises(CelError) as caught:
        compiled(text).run({})
    assert str(caught.value) == why


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a.?x.orValue('none')", "1"), ("a[?'y'].orValue('none')", "none"), ("a.?y.hasValue()", "false"),
        ("a.?x.optMap(v, v + 1).orValue(0)", "2"), ("[?a.?x, ?a.?y, 3]", "[1, 3]"),
        ("{?'k': a.?x, ?'l': a.?y}", '{"k":1}'),
        ("optional.none().or(optional.of('y')).value()", "y"),
        ("[1, 2, 3].transformList(i, v, i > 0, i * v)", "[2, 6]"),
        ("{'a': 1}.transformMap(k, v, v + 1)", '{"a":2}'),
        ("{'a': 1}.transformMapEntry(k, v, {string(v): k})", '{"1":"a"}'),
        ("[1, 2, 3].existsOne(i, v, v == 2)", "true"),
        ("'%s, %d, %.2f, %x'.format(['a', 3, 1.5, 255])", "a, 3, 1.50, ff"),
        ("'%s'.format([[1, 'a', null, true]])", '[1, "a", null, true]'), ("string(duration('90m'))", "5400s"),
        ("string(1e30)", "1e+30"), ("int(-3.9)", "-3"), ("7 / -2", "-3"), ("-7 % 3", "-1"), ("1.0 / 0.0", "+Inf"),
        ("true || 1 / 0 > 1", "true"), ("1 / 0 > 1 || true", "true"), ("{1: 'a'}[1.0]", "a"), ("0x1F", "31"),
        ("timestamp('2024-01-02T03:04:05Z').getHours('America/New_York')", "22"),
        ("duration('1.5s').getMilliseconds()", "1500"), ("'\\u00e4\\x41\\101'", "\u00e4AA"),
        ("semver('v1.2', true).minor()", "2"),
        ("has(nothing.a)", "false"), ("type(1u)", "uint"),
        ("'%e'.format([12345.678])", "1.234568\u00d710\u2070\u2074"),
    ],
)  # fmt: skip
def test_an_expression_has_the_value_that_it_has_in_a_real_control_plane(text, value):
    assert listed(compiled(text).run({"a": {"x": 1}, "nothing": None})) == value


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a.?y.value()", "optional.none() dereference"), ("1 / 0", "division by zero"), ("1 % 0", "modulus by zero"),
        ("9223372036854775807 + 1", "integer overflow"), ("[1, 2][5]", "index out of bounds: 5"),
        ("a.y", "no such key: y"),
        ("dyn(1) + dyn('a')", "no such overload"), ("nothing.a", "no such key: a"),
        ("[].max()", "max called on empty list"),
        ("'abc'.substring(5)", "index out of range: 5"), ("1 / 0 > 1 && true", "division by zero"),
        ("{a: 1}", "unsupported key type: map"), ("a[?[1]].value()", "optional.none() dereference"),
        ("[1].transformMapEntry(i, v, v)", "no such overload"),
        ("timestamp(9223372036854775807)", "timestamp overflow"),
        ("quantity('1.5').asInteger()", "cannot convert value to integer"),
    ],
)  # fmt: skip
def test_an_expression_without_a_value_fails_as_in_a_real_control_plane(text, why):
    with pytest.raises(CelError) as caught:
        compiled(text).run({"a": {"x": 1}, "nothing": None})
    assert str(caught.value) == why
