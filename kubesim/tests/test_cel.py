"""The functions of Kubernetes' CEL libraries; the values are those of its documentation."""

import pytest

from kubesim.cel import CelError, compiled


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
        "[[1], [2, 3]].flatten() == [1, 2, 3]", "[2, 1, 2].distinct().sort() == [1, 2]", "lists.range(2) == [0, 1]",
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
