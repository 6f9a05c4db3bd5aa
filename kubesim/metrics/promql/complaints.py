"""What is wrong with a query that the parser has refused, in Prometheus' words and with the place.

The parser's own words know no places and say less. This walk over the query's words finds the first thing that
Prometheus' grammar does not allow there, and after that what its types forbid. Where it finds nothing, the
parser's words stand at the beginning of the query.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import re2

from kubesim.metrics.promql.signatures import AGGREGATION_PARAMETERS, SIGNATURES
from kubesim.metrics.promql.tokens import COMPARISONS, SETS, Complaint, Lexer, Token
from kubesim.metrics.promql.values import compiled, quoted

SCALAR, STRING, VECTOR, RANGE = "scalar", "string", "instant vector", "range vector"
POWERS = ({"or"}, {"and", "unless"}, {"==", "!=", ">", "<", ">=", "<="}, {"+", "-"}, {"*", "/", "%", "atan2"}, {"^"})
"""Operators from those that bind least to those that bind most; all but the last go to the left."""
_DURATION = re.compile(r"(?:\d+y)?(?:\d+w)?(?:\d+d)?(?:\d+h)?(?:\d+m)?(?:\d+s)?(?:\d+ms)?|\d*\.?\d*")
_NAMES = frozenset(("by", "without", "offset", "and", "or", "unless"))
"""Words of the grammar that may also be the name of a metric."""
Typed = tuple[str, int]
"""The type of an expression, and where it begins."""


def complaint(query: str, words: str) -> str:
    """Return what Prometheus would say of a query; ``words`` are those of the parser, for what is not found here."""
    try:
        _Walk(query).whole()
    except Complaint as found:
        return f"{_place(query, found.at)}: parse error: {found}"
    except _Lost:
        pass
    return f"1:1: parse error: {words}"


def _place(query: str, at: int) -> str:
    before = query[:at]
    return f"{before.count(chr(10)) + 1}:{len(before) - before.rfind(chr(10))}"


class _Lost(Exception):
    """A query is nested too deeply to be walked through."""


DEEPEST = 40


class _Walk:
    """Goes through a query word by word. What its types forbid is told after what its grammar does."""

    def __init__(self, query: str) -> None:
        self._lexer = Lexer(query)
        self._later: list[Complaint] = []
        self._depth = 0
        self._word = self._lexer.next() if query.strip() else Token("end", "", 0)

    def whole(self) -> None:
        """Walk through everything. Raises Complaint."""
        if self._word.kind == "end":
            raise Complaint(0, "no expression found in input")
        self._expression(0)
        if self._word.kind != "end":
            raise self._unexpected("")
        for found in self._later:
            raise found

    def _unexpected(self, context: str, expected: str = "") -> Complaint:
        where = (f" in {context}" if context else "") + (f", expected {expected}" if expected else "")
        return Complaint(self._word.at, f"unexpected {self._word.shown}{where}")

    def _take(self) -> Token:
        found = self._word
        self._word = self._lexer.next()
        return found

    def _is(self, *texts: str) -> bool:
        return self._word.kind not in ("string", "end") and self._word.text.lower() in texts

    def _want(self, text: str, context: str, expected: str = "") -> Token:
        if not self._is(text):
            raise self._unexpected(context, expected or quoted(text))
        return self._take()

    def _expression(self, level: int) -> Typed:
        if level == len(POWERS) - 1:
            return self._powers()
        left = self._expression(level + 1)
        while self._is(*POWERS[level]):
            operator, modified = self._take(), self._modifiers()
            left = self._joined(operator, left, self._expression(level + 1), modified)
        return left

    def _powers(self) -> Typed:
        self._depth += 1
        if self._depth > DEEPEST:
            raise _Lost
        found = self._power()
        self._depth -= 1
        return found

    def _power(self) -> Typed:
        if self._is("+", "-"):
            at = self._take().at
            kind, _ = self._powers()
            if kind in (STRING, RANGE):
                words = "unary expression only allowed on expressions of type scalar or instant vector, got"
                self._later.append(Complaint(at, f"{words} {quoted(kind)}"))
            return kind, at
        left = self._suffixed()
        if self._is("^"):
            operator, modified = self._take(), self._modifiers()
            return self._joined(operator, left, self._powers(), modified)
        return left

    def _joined(self, operator: Token, left: Typed, right: Typed, modified: Mapping[str, bool]) -> Typed:
        name = operator.text.lower()
        if modified["bool"] and name not in COMPARISONS:
            self._blame(operator.at, "bool modifier can only be used on comparison operators")
        scalars = left[0] == right[0] == SCALAR
        if name in COMPARISONS and scalars and not modified["bool"]:
            self._blame(operator.at, "comparisons between scalars must use BOOL modifier")
        if name in SETS and modified["group"]:
            self._blame(left[1], f"no grouping allowed for {quoted(name)} operation")
        for kind, at in (left, right):
            if kind not in (SCALAR, VECTOR):
                self._blame(at, "binary expression must contain only scalar and instant vector types")
        if SCALAR in (left[0], right[0]):
            if modified["matching"]:
                self._blame(left[1], "vector matching only allowed between instant vectors")
            elif name in SETS:
                self._blame(left[1], f"set operator {quoted(name)} not allowed in binary scalar expression")
        return (SCALAR if scalars else VECTOR), left[1]

    def _blame(self, at: int, text: str) -> None:
        self._later.append(Complaint(at, text))

    def _modifiers(self) -> dict[str, bool]:
        found = {"bool": self._is("bool"), "matching": False, "group": False}
        if found["bool"]:
            self._take()
        if self._is("on", "ignoring"):
            found["matching"], on = True, self._take()
            names = self._labels()
            if self._is("group_left", "group_right"):
                found["group"] = bool(self._take())
                more = self._labels() if self._is("(") else []
                for name in names if on.text.lower() == "on" else ():
                    if name in more:
                        self._blame(on.at - 2, f'label "{name}" must not occur in ON and GROUP clause at once')
        return found

    def _labels(self) -> list[str]:
        self._want("(", "grouping opts")
        found: list[str] = []
        while not self._is(")"):
            if self._word.kind in ("string", "number", "duration", "end") or self._word.kind == "symbol":
                raise self._unexpected("grouping opts", "label")
            found.append(self._take().text)
            if not self._is(")"):
                self._want(",", "grouping opts", '"," or ")"')
        self._take()
        return found

    def _suffixed(self) -> Typed:
        first = self._word
        kind, selects = self._plain()
        at = first.at
        offset = moment = False
        while self._is("[", "offset", "@"):
            if self._is("["):
                bracket = self._take()
                step = self._range()
                if not step and not (selects == "vector"):
                    raise Complaint(bracket.at, "ranges only allowed for vector selectors")
                if not step and (offset or moment):
                    modifier = "offset" if offset else "@"
                    raise Complaint(bracket.at, f"no {modifier} modifiers allowed before range")
                kind, selects = RANGE, "range"
                offset = moment = False
            elif self._is("offset"):
                self._take()
                self._offset()
                if offset:
                    self._blame(at, "offset may not be set multiple times")
                elif not selects:
                    words = "must be preceded by an instant vector selector or range vector selector or a subquery"
                    self._blame(at, f"offset modifier {words}")
                offset = True
            else:
                self._take()
                self._moment(at)
                if moment:
                    self._blame(at, "@ <timestamp> may not be set multiple times")
                elif not selects:
                    words = "must be preceded by an instant vector selector or range vector selector or a subquery"
                    self._blame(at, f"@ modifier {words}")
                moment = True
        return kind, at

    def _offset(self) -> None:
        if self._is("-", "+"):
            self._take()
        if self._word.kind not in ("duration", "number"):
            raise self._unexpected("offset", "duration")
        self._take()

    def _moment(self, at: int) -> None:
        if self._is("start", "end"):
            self._take()
            self._want("(", "@", "timestamp")
            self._want(")", "@", "timestamp")
            return
        if self._is("-", "+"):
            self._take()
        if self._word.kind not in ("number", "duration"):
            raise self._unexpected("@", "timestamp")
        text = self._take().text
        if text.lower() in ("nan", "inf"):
            self._blame(at, f"timestamp out of bounds for @ modifier: {'NaN' if text.lower() == 'nan' else '+Inf'}")

    def _range(self) -> bool:
        """Go through what stands in brackets; True for a subquery."""
        self._duration()
        if not self._is(":"):
            self._want("]", "subquery or range", '":" or "]"')
            return False
        self._take()
        if not self._is("]"):
            self._duration()
        self._want("]", "subquery selector", '"]"')
        return True

    def _duration(self) -> None:
        if self._word.kind != "duration":
            raise self._unexpected("subquery selector", "duration")
        if not _DURATION.fullmatch(self._word.text):
            raise Complaint(self._word.at, f"not a valid duration string: {quoted(self._word.text)}")
        if not self._word.text.strip("0smhdwy."):
            self._blame(self._word.at, "duration must be greater than 0")
        self._take()

    def _plain(self) -> tuple[str, str]:
        """Go through an expression without suffixes; its type, and what selector it is, if one."""
        word = self._word
        if word.kind == "aggregation":
            return self._aggregation()
        if word.kind in ("number", "duration"):
            if word.text[-1] in "eExX+-":
                words = f"strconv.ParseFloat: parsing {quoted(word.text)}: invalid syntax"
                raise Complaint(word.at, f"error parsing number: {words}")
            self._take()
            return SCALAR, ""
        if word.kind == "string":
            self._take()
            return STRING, ""
        if self._is("("):
            self._take()
            kind, _ = self._expression(0)
            self._want(")", "")
            return kind, ""
        if self._is("{"):
            self._matchers(word.at, "")
            return VECTOR, "vector"
        if word.kind != "identifier" and word.text.lower() not in _NAMES:
            raise self._unexpected("")
        self._take()
        if self._is("(") and word.kind == "identifier":
            return self._call(word), ""
        if self._is("{"):
            self._matchers(word.at, word.text)
        return VECTOR, "vector"

    def _matchers(self, at: int, name: str) -> None:
        self._take()
        matches: list[tuple[str, str, str]] = []
        while not self._is("}"):
            if self._word.kind != "identifier":
                raise self._unexpected("label matching", 'identifier or "}"')
            place, label = self._word.at, self._take().text
            if not self._is("=", "!=", "=~", "!~"):
                raise self._unexpected("label matching", "label matching operator")
            operator = self._take().text
            if self._word.kind != "string":
                raise self._unexpected("label matching", "string")
            matches.append((label, operator, self._word.text[1:-1]))
            if "~" in operator and (refused := regexp(self._word.text[1:-1])):
                raise Complaint(place, refused)
            self._take()
            if not self._is("}"):
                self._want(",", "label matching", '"," or "}"')
        self._take()
        named = [value for label, operator, value in matches if label == "__name__" and operator == "="]
        if name and named:
            self._blame(at, f"metric name must not be set twice: {quoted(name)} or {quoted(named[0])}")
        if not name and not any(_selects(operator, value) for _, operator, value in matches):
            self._blame(at, "vector selector must contain at least one non-empty matcher")

    def _arguments(self, context: str) -> list[Typed]:
        self._take()
        found: list[Typed] = []
        while not self._is(")"):
            found.append(self._expression(0))
            if self._is(","):
                self._take()
                if self._is(")"):
                    raise Complaint(self._word.at - 1, "trailing commas not allowed in function call args")
            elif not self._is(")"):
                raise self._unexpected(context, '"," or ")"')
        self._take()
        return found

    def _aggregation(self) -> tuple[str, str]:
        word = self._take()
        name = word.text.lower()
        grouped = self._is("by", "without")
        if grouped:
            self._take()
            self._labels()
        if not self._is("("):
            raise self._unexpected("aggregation" if grouped else "")
        given = self._arguments("aggregation")
        if not grouped and self._is("by", "without"):
            self._take()
            self._labels()
        wanted = AGGREGATION_PARAMETERS.get(name)
        if not given:
            raise Complaint(word.at, "no arguments for aggregate expression provided")
        if len(given) != (2 if wanted else 1):
            many = f"expected {2 if wanted else 1}, got {len(given)}"
            raise Complaint(word.at, f"wrong number of arguments for aggregate expression provided, {many}")
        self._typed(given[-1], VECTOR, "aggregation expression")
        if wanted:
            self._typed(given[0], wanted, "aggregation parameter")
        return VECTOR, ""

    def _call(self, word: Token) -> str:
        signature = SIGNATURES.get(word.text)
        if signature is None:
            raise Complaint(word.at, f"unknown function with name {quoted(word.text)}")
        given = self._arguments("function call")
        if (words := signature.refusal(word.text, len(given))) is not None:
            self._blame(word.at, words)
        for position, found in enumerate(given[: signature.most if signature.most >= 0 else None]):
            self._typed(found, signature.takes(position), f"call to function {quoted(word.text)}")
        return signature.gives

    def _typed(self, found: Typed, wanted: str, context: str) -> None:
        if found[0] != wanted:
            self._blame(found[1], f"expected type {wanted} in {context}, got {found[0]}")


_REGEXP = (
    (r"missing \): (.*)", "missing closing ): `{}`"),
    (r"missing \]: (.*)", "missing closing ]: `{}`"),
    (r"no argument for repetition operator: (.*)", "missing argument to repetition operator: `{}`"),
    (r"bad repetition operator: (.*)", "invalid nested repetition operator: `{}`"),
    (r"invalid repetition size: (.*)", "invalid repeat count: `{}`"),
    (r"invalid perl operator: (.*)", "invalid or unsupported Perl syntax: `{}`"),
    (r"(.*): (.*)", "{}: `{}`"),
)
"""What the C++ parser of regular expressions says, and Go's, which has the same syntax."""


def regexp(pattern: str) -> str:
    """Return what Go says of a pattern that cannot be one; empty for one that can."""
    try:
        compiled(f"^(?:{pattern})$")
    except re2.error as error:
        raw = error.args[0]
        text = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else str(raw)
        for form, words in _REGEXP:
            if (match := re.fullmatch(form, text, re.DOTALL)) is not None:
                return "error parsing regexp: " + words.format(*match.groups())
        return f"error parsing regexp: {text}"
    return ""


def _selects(operator: str, value: str) -> bool:
    """Whether a matcher does not fit the empty string, as far as one sees."""
    if operator in ("=", "=~"):
        return value not in ("", ".*")
    return operator == "!=" and not value or operator == "!~" and value in ("", ".*")
