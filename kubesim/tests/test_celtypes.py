"""CEL's grammar and types: what is found wrong with an expression before it is run, and what is let through."""

import pytest

from kubesim.cel.program import CelError, compiled
from kubesim.cel.syntax import SyntaxFault, parse
from kubesim.cel.types import checked, show
from kubesim.cel.values import TOO_DEAR

NAMES = {
    "object": "dyn",
    "request": ("object", {"name": "string", "dryRun": "bool"}.get),
    "variables": ("object", {"n": "int"}.get),
}
TEN = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("object.spec.replicas > 1", "bool"),
        ("has(object.a) && 'n' in object.a ? int(object.a.n) : 0", "int"),
        ("string(object.a) + ' ' + request.name", "string"),
        ("quantity(object.x).isLessThan(quantity('1'))", "bool"),
        ("sets.contains(['a'], object.x)", "bool"),
        ("object.?a.orValue(1) == 2", "bool"),
        ("object.metadata.labels.exists(k, v, k == 'a')", "bool"),
        (r"""r'\d' + "x\"y" == '''z'''""", "bool"),
        ("[1, 2].map(a, a + 1)", "list(int)"),
        ("object.a", "dyn"),
        ("variables.n * 2", "int"),
        ("-1.5e3 < 2", "bool"),
        ("{'a': 1}.size()", "int"),
        ("type(object) == string", "bool"),
    ],
)
def test_it_knows_the_type_of_what_is_right(text, kind):
    found = checked(text, NAMES)
    assert (show(found.type), found.faults) == (kind, [])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nosuch == 1", "ERROR: <input>:1:1: undeclared reference to 'nosuch' (in container '')\n"
         " | nosuch == 1\n | ^"),
        ("true &&\n request.foo", "ERROR: <input>:2:9: undefined field 'foo'\n |  request.foo\n | ........^"),
        ("object.a.nosuch()", "ERROR: <input>:1:16: undeclared reference to 'nosuch' (in container '')\n"
         " | object.a.nosuch()\n | ...............^"),
        ("1 + 'a'", "ERROR: <input>:1:3: found no matching overload for '_+_' applied to '(int, string)'\n"
         " | 1 + 'a'\n | ..^"),
        ("request.name.foo", "ERROR: <input>:1:13: type 'string' does not support field selection\n"
         " | request.name.foo\n | ............^"),
    ],
)  # fmt: skip
def test_it_tells_what_is_wrong_and_where(text, said):
    assert checked(text, NAMES).text(text) == said


@pytest.mark.parametrize(
    "text", ["", "a +", "(a", "a b", "[1, 2", "{1}", "a.", "(" * 5000, "a ? b", "'a", "1" + " + 1" * 5000]
)
def test_what_does_not_parse_is_no_expression(text):
    with pytest.raises(SyntaxFault):
        parse(text)
    assert checked(text, {}).faults == []


def test_an_expression_that_takes_too_long_is_not_run():
    text = "true"
    for name in "abcdefgh":
        text = f"{TEN}.all({name}, {text})"
    with pytest.raises(CelError, match=TOO_DEAR):
        compiled(text).run({})


@pytest.mark.parametrize("text", ["l + l", "[t, t].join(t)", "t.replace('', t)"])
def test_what_would_be_too_large_is_not_made(text):
    with pytest.raises(CelError, match=TOO_DEAR):
        compiled(text).run({"l": [0] * 6_000_000, "t": "a" * 3_400_000})


def test_lists_count_with_the_length_that_they_have():
    scope = {"object": {"items": list(range(2000))}}
    assert compiled("object.items.all(a, a >= 0)").run(scope) is True
    with pytest.raises(CelError, match=TOO_DEAR):
        compiled("object.items.all(a, object.items.all(b, a + b >= 0))").run(scope)


def test_what_is_left_out_by_its_first_half_costs_nothing():
    scope = {"object": {"kind": "small", "items": list(range(2000))}}
    text = "object.kind == 'small' || object.items.all(a, object.items.all(b, a + b >= 0))"
    assert compiled(text).run(scope) is True
