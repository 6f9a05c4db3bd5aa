"""The evaluator: a PromQL expression (parsed by promql-parser) to a value at one moment, or at every step of a range.

Rules: the Prometheus documentation of querying, and promql/engine.go. What is outside the subset is refused by name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import promql_parser as ast

from kubesim.metrics.promql import functions
from kubesim.metrics.promql.binary import SETS, Matching, scalars, sets, vectors, with_scalar
from kubesim.metrics.promql.functions import aggregate
from kubesim.metrics.promql.values import NAME, Match, Matrix, QueryError, Sample, Value, Vector, Window
from kubesim.metrics.scrape import Database

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


def parse(query: str) -> Any:
    """Return the syntax tree. Raises QueryError (bad_data) with the parser's words, which know no places."""
    if len(query) > LONGEST or len(_OPERATORS.findall(query)) > MOST_OPERATORS:
        raise QueryError("bad_data", 'invalid parameter "query": the query is too long; ask in parts')
    try:
        return ast.parse(query)
    except ValueError as error:
        raise QueryError("bad_data", f'invalid parameter "query": 1:1: parse error: {error}') from error


def instant(source: Database, query: str, at: float) -> Value:
    """Return the value of a query at a moment. Raises QueryError."""
    return _Evaluation(source).value(parse(query), at, 0)


def ranged(source: Database, query: str, start: float, end: float, step: float) -> Matrix:
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
        value = evaluation.value(tree, at, 0)
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

    def __init__(self, source: Database) -> None:
        self._source = source
        self._loaded = 0

    def value(self, node: Any, at: float, depth: int) -> Value:
        if depth > DEEPEST:
            raise QueryError("bad_data", "the expression is nested too deeply")
        evaluate = _NODES.get(type(node))
        if evaluate is None:
            raise QueryError("bad_data", f"{type(node).__name__} is not supported here")
        return evaluate(self, node, at, depth + 1)

    def vector(self, node: Any, at: float, depth: int) -> Vector:
        value = self.value(node, at, depth)
        return [Sample({}, value)] if isinstance(value, float) else value  # type: ignore[return-value]

    def scalar(self, node: Any, at: float, depth: int) -> float:
        value = self.value(node, at, depth)
        if not isinstance(value, float):
            raise QueryError("bad_data", "expected a scalar")
        return value

    def text(self, node: Any) -> str:
        if not isinstance(node, ast.StringLiteral):
            raise QueryError("bad_data", "expected a string")
        return str(node.val)

    def argument(self, kind: str, node: Any, at: float, depth: int) -> Any:
        """Return what a function is given of a kind (see ``_CALLS``)."""
        if kind == "t":
            return self.text(node)
        value = {"v": self.vector, "m": self.matrix, "s": self.scalar}[kind.lower()](node, at, depth)
        return (node, value) if kind.isupper() else value

    def matrix(self, node: Any, at: float, depth: int) -> Matrix:
        if isinstance(node, ast.ParenExpr):
            return self.matrix(node.expr, at, depth + 1)
        if isinstance(node, ast.SubqueryExpr):
            return self._subquery(node, at, depth)
        if not isinstance(node, ast.MatrixSelector):
            raise QueryError("bad_data", "expected a range vector")
        selector = node.vector_selector
        end = _shifted(selector, at)
        start = end - node.range.total_seconds()
        found = [
            Window(series.labels, series.points(start, end), start, end)
            for series in self._source.select(matches(selector), start, end)
        ]
        self._count(sum(len(window.points) for window in found))
        return [window for window in found if window.points]

    def select(self, node: Any, at: float, depth: int) -> Vector:
        at = _shifted(node, at)
        found: Vector = []
        for series in self._source.select(matches(node), at - LOOKBACK_S, at):
            point = series.last(at, LOOKBACK_S)
            if point is not None:
                found.append(Sample(series.labels, point[1]))
        self._count(len(found))
        return found

    def _subquery(self, node: Any, at: float, depth: int) -> Matrix:
        end = _shifted(node, at)
        start = end - node.range.total_seconds()
        step = node.step.total_seconds() if node.step else SUBQUERY_STEP_S
        if step <= 0 or (end - start) / step > MOST_POINTS:
            raise QueryError("bad_data", _TOO_MANY)
        found: dict[tuple[tuple[str, str], ...], list[tuple[float, float]]] = {}
        first = math.floor(start / step) * step + step
        for moment in _steps(first, end, step) if first <= end else ():
            for sample in self.vector(node.expr, moment, depth):
                found.setdefault(tuple(sorted(sample.labels.items())), []).append((moment, sample.value))
        return [Window(dict(labels), points, start, end) for labels, points in found.items()]

    def _count(self, samples: int) -> None:
        self._loaded += samples
        if self._loaded > MOST_SAMPLES:
            raise QueryError(
                "execution", "query processing would load too many samples into memory in query execution"
            )


def _shifted(node: Any, at: float) -> float:
    if node.at is not None:
        raise QueryError("bad_data", 'invalid parameter "query": the @ modifier is not supported here')
    return at - (node.offset.total_seconds() if node.offset else 0.0)


_OPS = {"Equal": "=", "NotEqual": "!=", "Re": "=~", "NotRe": "!~"}


def matches(node: Any) -> list[Match]:
    """Return the matchers of a selector. Raises QueryError."""
    if node.matchers.or_matchers:
        raise QueryError("bad_data", "matchers joined by or are not supported here")
    found = [Match(m.name, _OPS[str(m.op).rsplit(".", 1)[-1]], m.value) for m in node.matchers.matchers]
    return [Match(NAME, "=", node.name), *found] if node.name else found


def _binary(run: _Evaluation, node: Any, at: float, depth: int) -> Value:
    op, matching = str(node.op), _matching(node.modifier)
    left, right = run.value(node.lhs, at, depth), run.value(node.rhs, at, depth)
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


def _aggregate(run: _Evaluation, node: Any, at: float, depth: int) -> Value:
    op = str(node.op)
    if op == "count_values":
        raise QueryError("bad_data", "the aggregation count_values is not supported here")
    parameter = run.scalar(node.param, at, depth) if node.param is not None else None
    labels = tuple(node.modifier.labels) if node.modifier else ()
    without = node.modifier is not None and node.modifier.type == ast.AggModifierType.Without
    return aggregate(op, run.vector(node.expr, at, depth), labels, without=without, parameter=parameter)


def _negated(run: _Evaluation, node: Any, at: float, depth: int) -> Value:
    value = run.value(node.expr, at, depth)
    if isinstance(value, float):
        return -value
    return [sample.bare(-sample.value) for sample in value]  # type: ignore[union-attr]


def _call(run: _Evaluation, node: Any, at: float, depth: int) -> Value:
    name, arguments = node.func.name, node.args
    if name in functions.RATES or name in functions.SUMMARIES:
        return _each_window(run.matrix(arguments[0], at, depth), partial(functions.over_time, name), name)
    if name in functions.MATH:
        return functions.mapped(name, run.vector(arguments[0], at, depth))
    if name not in _CALLS:
        raise QueryError("bad_data", f'invalid parameter "query": the function {name} is not supported here')
    wanted, call = _CALLS[name]
    given = [run.argument(kind, each, at, depth) for kind, each in zip(wanted, arguments, strict=False)]
    return _distinct(call(*given, **({"at": at} if name == "time" else {})))


def _distinct(value: Value) -> Value:
    """Return a value as it is. Raises QueryError where two elements of a vector have come to the same labels."""
    if isinstance(value, list) and len({tuple(sorted(item.labels.items())) for item in value}) < len(value):
        raise QueryError("execution", "vector cannot contain metrics with the same labelset")
    return value


def _each_window(matrix: Matrix, of: Callable[[Window], float | None], name: str = "") -> Vector:
    found = [(window, of(window)) for window in matrix]
    samples = [Sample(window.labels, value) for window, value in found if value is not None]
    return samples if name in functions.KEEPS_NAME else [sample.bare(sample.value) for sample in samples]


def _absent(found: tuple[Any, Vector | Matrix]) -> Vector:
    node, elements = found
    if elements:
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


_CALLS: dict[str, tuple[str, Callable[..., Value]]] = {
    "time": ("", lambda at: at),
    "scalar": ("v", lambda vector: vector[0].value if len(vector) == 1 else math.nan),
    "vector": ("s", lambda value: [Sample({}, value)]),
    "absent": ("V", _absent),
    "absent_over_time": ("M", _absent),
    "round": ("vs", functions.rounded),
    "sort": ("v", functions.ordered),
    "sort_desc": ("v", partial(functions.ordered, descending=True)),
    "label_replace": ("vtttt", functions.label_replace),
    "histogram_quantile": ("sv", functions.histogram_quantile),
}
"""The arguments of each function (vector, matrix, scalar, text; V, M: with the expression), and the function."""
_NODES: dict[type, Callable[[_Evaluation, Any, float, int], Value]] = {
    ast.NumberLiteral: lambda run, node, at, depth: float(node.val),
    ast.StringLiteral: lambda run, node, at, depth: str(node.val),
    ast.ParenExpr: lambda run, node, at, depth: run.value(node.expr, at, depth),
    ast.VectorSelector: lambda run, node, at, depth: run.select(node, at, depth),
    ast.MatrixSelector: lambda run, node, at, depth: run.matrix(node, at, depth),
    ast.SubqueryExpr: lambda run, node, at, depth: run.matrix(node, at, depth),
    ast.BinaryExpr: _binary,
    ast.AggregateExpr: _aggregate,
    ast.UnaryExpr: _negated,
    ast.Call: _call,
}
