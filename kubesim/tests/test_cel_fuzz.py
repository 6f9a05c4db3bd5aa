"""Whatever an expression says of whatever values, it has a value or fails in CEL's own way."""

import os
from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st

from kubesim.cel.program import MACROS, CelError, compiled
from kubesim.cel.values import FUNCTIONS
from kubesim.custom.schemas import errors

VALUES = {"x": [1, "a", None, [2], {"a": 1}], "y": {"a": [1], "b": {"c": None}}, "z": "text", "n": 1.5, "o": None}
WORDS = st.sampled_from([
    "1", "-1", "2.5", "1e300", "9223372036854775807", '"a"', '"10.0.0.0/8"', "true", "null", "[]", "{}",
    "int", 'timestamp("2024-01-01T00:00:00Z")', 'duration("1h")',
    'quantity("1Gi")', *VALUES,
])  # fmt: skip
OPERATORS = st.sampled_from(["+", "-", "*", "/", "%", "==", "!=", "<", ">=", "in", "&&", "||"])
NAMES = st.sampled_from(sorted({name.rpartition(".")[2] for name in FUNCTIONS} | set(MACROS)))


def _grown(part):
    return st.one_of(
        st.builds("({}) {} ({})".format, part, OPERATORS, part),
        st.builds("[{}, {}]".format, part, part),
        st.builds("{{{}: {}}}".format, part, part),
        st.builds("({})[{}{}]".format, part, st.sampled_from(["", "?"]), part),
        st.builds("({}).{}".format, part, st.sampled_from(["a", "?b"])),
        st.builds("({}).{}({})".format, part, NAMES, part),
        st.builds("({}).{}({}, {})".format, part, NAMES, st.sampled_from(["i", "i, i"]), part),
        st.builds("{}({})".format, st.sampled_from(sorted(FUNCTIONS)), part),
        st.builds("({}) ? ({}) : ({})".format, part, part, part),
        st.builds("{}({})".format, st.sampled_from("-!"), part),
    )


@settings(max_examples=1500 if "TORTURE_ROUNDS" in os.environ else 300)
@given(st.recursive(WORDS, _grown, max_leaves=6))
def test_an_expression_has_a_value_or_fails_in_its_own_way(text):
    with suppress(CelError):  # any other error fails
        compiled(text).run(VALUES)


SCHEMA = {
    "x": {"type": "array", "items": {"type": "string"}},
    "y": {"type": "object", "additionalProperties": {"type": "integer"}},
    "z": {"type": "string", "format": "date-time"},
    "n": {"type": "number"},
    "o": {"x-kubernetes-int-or-string": True},
}


@settings(max_examples=500 if "TORTURE_ROUNDS" in os.environ else 100)
@given(st.recursive(WORDS.map(lambda word: f"self.{word}" if word in SCHEMA else word), _grown, max_leaves=6))
def test_a_rule_is_typed_and_priced_or_told_what_is_wrong_with_it(text):
    rule = {"rule": text, "messageExpression": text}
    found = errors({"type": "object", "properties": SCHEMA, "x-kubernetes-validations": [rule]}, "spec", [])
    assert all(error.field.startswith("spec") for error in found)
