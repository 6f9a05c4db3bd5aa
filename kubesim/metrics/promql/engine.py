"""The evaluator: a PromQL expression (parsed by promql-parser) to a value at one moment, or at every step of a range.

Rules: the Prometheus documentation of querying, and promql/engine.go. What is outside the subset is refused by name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import promql_parser as ast

from kubesim.metrics.promql import functions, over_time
from kubesim.metrics.promql.aggregations import aggregate
from kubesim.metrics.promql.binary import SETS, Matching, scalars, sets, vectors, with_scalar
from kubesim.metrics.promql.values import (
    NAME,
    Match,
    Matrix,
    QueryError,
    Sample,
    Source,
    Value,
    Vector,
    Window,
)

LOOKBACK_S = 300.0
SUBQUERY_STEP_S = 60.0
MOST_POINTS = 11_000
MOST_SAMPLES = 5_000_000
"""Samples that one query may load, as Prometheus' own limit is meant."""
DEEPEST = 100
LONGEST = 8192
MOST_OPERATORS = 400
"""The parser takes time with the square of the operators of a query, and its stack with their nesting."""
_OPERATORS = re.compile(r"[-+*/%^(\[]|\b(?:and|or|unless)\b", re.IGNORECASE)
_TOO_MANY = (
    "exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution (?step=XX)"
)


@dataclass(frozen=True, slots=True)
class Moment:
    """Where an expression is evaluated: the time, and the bounds of the whole query (for ``@ start()``)."""

    at: float
    start: float
    end: float


def parse(query: str) -> Any:
    """Return the syntax tree. Raises QueryError (bad_data) with the parser's words, which know no places."""
    if len(query) > LONGEST or len(_OPERATORS.findall(query)) > MOST_OPERATORS:
        raise QueryError("bad_data", 'invalid parameter "query": the query is too long; ask in parts')
    try:
        return ast.parse(query)
    except ValueError as error:
        raise QueryError("bad_data", f'invalid parameter "query": 1:1: parse error: {error}') from error


def instant(source: Source, query: str, at: float) -> Value:
    """Return the value of a query at a moment. Raises QueryError."""
    return _Evaluation(source).value(parse(query), Moment(at, at, at), 0)


def ranged(source: Source, query: str, start: float, end: float, step: float) -> Matrix:
    """Return the value at every step of a range, as series. Raises QueryError."""
    if step <= 0:
        raise QueryError("bad_data", 'invalid parameter "step": zero or negative query resolution step widths are not accepted. Try a positive integer')  # fmt: skip  # noqa: E501
    if end < start:
        raise QueryError("bad_data", 'invalid parameter "end": end timestamp must not be before start time')
    if (end - start) / step > MOST_POINTS:
        raise QueryError("bad_data", _TOO_MANY)
    tree, evaluation = parse(query), _Evaluation(source)
    if kind(tree):
        text = f'invalid expression type "{kind(tree)}" for range query, must be Scalar or instant Vector'
        raise QueryError("bad_data", f'invalid parameter "query": {text}')
    found: dict[tuple[tuple[str, str], ...], list[tuple[float, float]]] = {}
    for at in _steps(start, end, step):
        value = evaluation.value(tree, Moment(at, start, end), 0)
        for sample in _as_vector(value):
            found.setdefault(tuple(sorted(sample.labels.items())), []).append((at, sample.value))
    return [Window(dict(labels), points, start, end) for labels, points in found.items()]


def _steps(start: float, end: float, step: float) -> Iterator[float]:
    count = math.floor((end - start) / step + 1e-9)
    return (start + number * step for number in range(count + 1))


def kind(tree: Any) -> str:
    """Return what an expression gives: a string, a range vector, or else a vector or scalar ("")."""
    tree = _bare(tree)
    if isinstance(tree, ast.StringLiteral):
        return "string"
    return "range vector" if isinstance(tree, ast.MatrixSelector | ast.SubqueryExpr) else ""


def _as_vector(value: Value) -> Vector:
    return [Sample({}, value)] if isinstance(value, float) else value  # type: ignore[return-value]


class _Evaluation:
    """One query: what it has loaded so far is bounded."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._loaded = 0

    def value(self, node: Any, moment: Moment, depth: int) -> Value:
        if depth > DEEPEST:
            raise QueryError("bad_data", "the expression is nested too deeply")
        evaluate = _NODES.get(type(node))
        if evaluate is None:
            raise QueryError("bad_data", f"{type(node).__name__} is not supported here")
        return evaluate(self, node, moment, depth + 1)

    def vector(self, node: Any, moment: Moment, depth: int) -> Vector:
        value = self.value(node, moment, depth)
        return [Sample({}, value)] if isinstance(value, float) else value  # type: ignore[return-value]

    def scalar(self, node: Any, moment: Moment, depth: int) -> float:
        value = self.value(node, moment, depth)
        if not isinstance(value, float):
            raise QueryError("bad_data", "expected a scalar")
        return value

    def text(self, node: Any) -> str:
        if not isinstance(node, ast.StringLiteral):
            raise QueryError("bad_data", "expected a string")
        return str(node.val)

    def matrix(self, node: Any, moment: Moment, depth: int) -> Matrix:
        if isinstance(node, ast.ParenExpr):
            return self.matrix(node.expr, moment, depth + 1)
        if isinstance(node, ast.SubqueryExpr):
            return self._subquery(node, moment, depth)
        if not isinstance(node, ast.MatrixSelector):
            raise QueryError("bad_data", "expected a range vector")
        selector = node.vector_selector
        end = _shifted(selector, moment)
        start = end - node.range.total_seconds()
        found = [
            Window(series.labels, series.points(start, end), start, end)
            for series in self._source.select(matches(selector), start, end)
        ]
        self._count(sum(len(window.points) for window in found))
        return [window for window in found if window.points]

    def select(self, node: Any, moment: Moment, depth: int) -> Vector:
        at = _shifted(node, moment)
        found: Vector = []
        for series in self._source.select(matches(node), at - LOOKBACK_S, at):
            point = series.last(at, LOOKBACK_S)
            if point is not None:
                found.append(Sample(series.labels, point[1], point[0]))
        self._count(len(found))
        return found

    def _subquery(self, node: Any, moment: Moment, depth: int) -> Matrix:
        end = _shifted(node, moment)
        start = end - node.range.total_seconds()
        step = node.step.total_seconds() if node.step else SUBQUERY_STEP_S
        if step <= 0 or (end - start) / step > MOST_POINTS:
            raise QueryError("bad_data", _TOO_MANY)
        found: dict[tuple[tuple[str, str], ...], list[tuple[float, float]]] = {}
        first = math.floor(start / step) * step + step
        for at in _steps(first, end, step) if first <= end else ():
            for sample in self.vector(node.expr, replace(moment, at=at), depth):
                found.setdefault(tuple(sorted(sample.labels.items())), []).append((at, sample.value))
        return [Window(dict(labels), points, start, end) for labels, points in found.items()]

    def _count(self, samples: int) -> None:
        self._loaded += samples
        if self._loaded > MOST_SAMPLES:
            raise QueryError(
                "execution", "query processing would load too many samples into memory in query execution"
            )


def _shifted(node: Any, moment: Moment) -> float:
    at = moment.at
    if node.at is not None:
        if node.at.type == ast.AtModifierType.Start:
            at = moment.start
        elif node.at.type == ast.AtModifierType.End:
            at = moment.end
        else:
            at = _given(node)
    return at - (node.offset.total_seconds() if node.offset else 0.0)


_AT = re.compile(r"@ (\d+\.\d+)")
LATEST_S = 2**63 / 1000
"""The last moment that Prometheus can count to."""


def _given(node: Any) -> float:
    """Return the time of an ``@``, from the text: the parser panics where it has to give one before 1970."""
    found = float(_AT.findall(node.prettify())[-1])
    if found > LATEST_S:
        raise QueryError(
            "bad_data", 'invalid parameter "query": 1:1: parse error: timestamp out of bounds for @ modifier'
        )
    return found


_OPS = {"Equal": "=", "NotEqual": "!=", "Re": "=~", "NotRe": "!~"}


def matches(node: Any) -> list[Match]:
    """Return the matchers of a selector. Raises QueryError."""
    if node.matchers.or_matchers:
        raise QueryError("bad_data", "matchers joined by or are not supported here")
    found = [Match(m.name, _OPS[str(m.op).rsplit(".", 1)[-1]], m.value) for m in node.matchers.matchers]
    return [Match(NAME, "=", node.name), *found] if node.name else found


def _binary(run: _Evaluation, node: Any, moment: Moment, depth: int) -> Value:
    op, matching = str(node.op), _matching(node.modifier)
    left, right = run.value(node.lhs, moment, depth), run.value(node.rhs, moment, depth)
    if isinstance(left, float) and isinstance(right, float):
        return scalars(op, left, right)
    if isinstance(right, float):
        return with_scalar(op, left, right, swapped=False, returns_bool=matching.returns_bool)  # type: ignore[arg-type]
    if isinstance(left, float):
        return with_scalar(op, right, left, swapped=True, returns_bool=matching.returns_bool)  # type: ignore[arg-type]
    return (sets if op in SETS else vectors)(op, left, right, matching)  # type: ignore[arg-type]


_MANY_SIDES = ((ast.VectorMatchCardinality.ManyToOne, "left"), (ast.VectorMatchCardinality.OneToMany, "right"))


def _matching(modifier: Any) -> Matching:
    if modifier is None:
        return Matching()
    labels = modifier.matching
    return Matching(
        labels=tuple(labels.labels) if labels else (),
        on=bool(labels) and labels.type == ast.LabelModifierType.Include,
        many=next((side for card, side in _MANY_SIDES if modifier.card == card), ""),
        include=tuple(modifier.group_labels or ()),
        returns_bool=modifier.return_bool,
    )


def _aggregate(run: _Evaluation, node: Any, moment: Moment, depth: int) -> Value:
    op = str(node.op)
    parameter: float | str | None = None
    if node.param is not None:
        parameter = run.text(node.param) if op == "count_values" else run.scalar(node.param, moment, depth)
    labels = tuple(node.modifier.labels) if node.modifier else ()
    without = node.modifier is not None and node.modifier.type == ast.AggModifierType.Without
    return aggregate(op, run.vector(node.expr, moment, depth), labels, without=without, parameter=parameter)


def _negated(run: _Evaluation, node: Any, moment: Moment, depth: int) -> Value:
    value = run.value(node.expr, moment, depth)
    if isinstance(value, float):
        return -value
    return [sample.bare(-sample.value) for sample in value]  # type: ignore[union-attr]


Call = Callable[[_Evaluation, Sequence[Any], Moment, int], Value]


def _call(run: _Evaluation, node: Any, moment: Moment, depth: int) -> Value:
    name, arguments = node.func.name, node.args
    if name in over_time.RATES or name in over_time.SUMMARIES:
        return _windows(run, name, arguments, moment, depth)
    if name in functions.MATH:
        return functions.mapped(name, run.vector(arguments[0], moment, depth))
    if name in functions.CALENDAR:
        now = [Sample({}, moment.at)]
        return functions.calendar(name, run.vector(arguments[0], moment, depth) if arguments else now)
    call = _CALLS.get(name)
    if call is None:
        raise QueryError("bad_data", f'invalid parameter "query": the function {name} is not supported here')
    return _distinct(call(run, arguments, moment, depth))


def _distinct(value: Value) -> Value:
    """Return a value as it is. Raises QueryError where two elements of a vector have come to the same labels."""
    if isinstance(value, list) and len({tuple(sorted(item.labels.items())) for item in value}) < len(value):
        raise QueryError("execution", "vector cannot contain metrics with the same labelset")
    return value


def _windows(run: _Evaluation, name: str, arguments: Sequence[Any], moment: Moment, depth: int) -> Vector:
    keeps = name in over_time.KEEPS_NAME
    found = [(w, over_time.over_time(name, w)) for w in run.matrix(arguments[0], moment, depth)]
    return [
        Sample(window.labels, value) if keeps else Sample(window.labels, 0).bare(value)
        for window, value in found
        if value is not None
    ]


def _each_window(
    run: _Evaluation, node: Any, moment: Moment, depth: int, of: Callable[[Window], float | None]
) -> Vector:
    found = [(window, of(window)) for window in run.matrix(node, moment, depth)]
    return [Sample(window.labels, 0).bare(value) for window, value in found if value is not None]


def _absent(vector: Vector | Matrix, node: Any) -> Vector:
    if vector:
        return []
    node = _bare(node)
    selector = getattr(node, "vector_selector", node)
    wanted = matches(selector) if isinstance(selector, ast.VectorSelector) else []
    names = [match.name for match in wanted]
    equal = (match for match in wanted if match.op == "=" and match.name != NAME and names.count(match.name) == 1)
    return [Sample({match.name: match.value for match in equal}, 1.0)]


def _bare(node: Any) -> Any:
    """Return an expression without the parentheses around it."""
    while isinstance(node, ast.ParenExpr):
        node = node.expr
    return node


def _scalar(run: _Evaluation, arguments: Sequence[Any], moment: Moment, depth: int) -> float:
    vector = run.vector(arguments[0], moment, depth)
    return vector[0].value if len(vector) == 1 else math.nan


def _vector(run: _Evaluation, arguments: Sequence[Any], moment: Moment, depth: int) -> Vector:
    return [Sample({}, run.scalar(arguments[0], moment, depth))]


def _timestamps(run: _Evaluation, arguments: Sequence[Any], moment: Moment, depth: int) -> Vector:
    stored = isinstance(_bare(arguments[0]), ast.VectorSelector)
    vector = run.vector(arguments[0], moment, depth)
    return [sample.bare(sample.at if stored else moment.at) for sample in vector]


def _clamp(low: int, high: int) -> Call:
    """Return the clamp whose bounds are the arguments of these numbers (0: no bound on that side)."""

    def call(run: _Evaluation, arguments: Sequence[Any], moment: Moment, depth: int) -> Vector:
        bounds = (
            run.scalar(arguments[low], moment, depth) if low else -math.inf,
            run.scalar(arguments[high], moment, depth) if high else math.inf,
        )
        return functions.clamp(run.vector(arguments[0], moment, depth), *bounds)

    return call


def _round(run: _Evaluation, arguments: Sequence[Any], moment: Moment, depth: int) -> Vector:
    nearest = run.scalar(arguments[1], moment, depth) if len(arguments) > 1 else 1.0
    return functions.rounded(run.vector(arguments[0], moment, depth), nearest)


def _replace(run: _Evaluation, arguments: Sequence[Any], moment: Moment, depth: int) -> Vector:
    target, replacement, source, pattern = (run.text(node) for node in arguments[1:])
    return functions.label_replace(run.vector(arguments[0], moment, depth), target, replacement, source, pattern)


def _join(run: _Evaluation, arguments: Sequence[Any], moment: Moment, depth: int) -> Vector:
    target, separator, *sources = (run.text(node) for node in arguments[1:])
    return functions.label_join(run.vector(arguments[0], moment, depth), target, separator, sources)


def _predict(run: _Evaluation, arguments: Sequence[Any], moment: Moment, depth: int) -> Vector:
    ahead = run.scalar(arguments[1], moment, depth)
    return _each_window(
        run, arguments[0], moment, depth, lambda window: over_time.predict_linear(window, moment.at, ahead)
    )


def _quantile(run: _Evaluation, arguments: Sequence[Any], moment: Moment, depth: int) -> Vector:
    share = run.scalar(arguments[0], moment, depth)
    return _each_window(run, arguments[1], moment, depth, lambda window: over_time.quantile_over_time(share, window))


_CALLS: dict[str, Call] = {
    "time": lambda run, arguments, moment, depth: moment.at,
    "scalar": _scalar,
    "vector": _vector,
    "timestamp": _timestamps,
    "absent": lambda run, args, moment, depth: _absent(run.vector(args[0], moment, depth), args[0]),
    "absent_over_time": lambda run, args, moment, depth: _absent(run.matrix(args[0], moment, depth), args[0]),
    "clamp": _clamp(1, 2),
    "clamp_min": _clamp(1, 0),
    "clamp_max": _clamp(0, 1),
    "round": _round,
    "sort": lambda run, args, moment, depth: functions.ordered(run.vector(args[0], moment, depth), descending=False),
    "sort_desc": lambda run, args, moment, depth: functions.ordered(
        run.vector(args[0], moment, depth), descending=True
    ),
    "label_replace": _replace,
    "label_join": _join,
    "deriv": lambda run, args, moment, depth: _each_window(run, args[0], moment, depth, over_time.deriv),
    "predict_linear": _predict,
    "quantile_over_time": _quantile,
    "histogram_quantile": lambda run, args, moment, depth: functions.histogram_quantile(
        run.scalar(args[0], moment, depth), run.vector(args[1], moment, depth)
    ),
}
_NODES: dict[type, Callable[[_Evaluation, Any, Moment, int], Value]] = {
    ast.NumberLiteral: lambda run, node, moment, depth: float(node.val),
    ast.StringLiteral: lambda run, node, moment, depth: str(node.val),
    ast.ParenExpr: lambda run, node, moment, depth: run.value(node.expr, moment, depth),
    ast.VectorSelector: lambda run, node, moment, depth: run.select(node, moment, depth),
    ast.MatrixSelector: lambda run, node, moment, depth: run.matrix(node, moment, depth),
    ast.SubqueryExpr: lambda run, node, moment, depth: run.matrix(node, moment, depth),
    ast.BinaryExpr: _binary,
    ast.AggregateExpr: _aggregate,
    ast.UnaryExpr: _negated,
    ast.Call: _call,
}
