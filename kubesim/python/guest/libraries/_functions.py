"""Functions of elements and of lines of elements, with their slopes: one table for all libraries."""

import math
import operator
from statistics import median, median_low

from _elements import NAMES

nan, infinite = lambda *values: math.nan, lambda *values: math.inf
POINTS = ((-2.3344, 0.0459), (-0.742, 0.4541), (0.742, 0.4541), (2.3344, 0.0459))
"""Points and weights of Gauss and Hermite: how a function changes what is distributed normally."""


def _or(function, otherwise):
    def guarded(*values):
        try:
            return function(*values)
        except (ValueError, OverflowError, ZeroDivisionError):
            return otherwise(*values)

    return guarded


def divide(a, b):
    try:
        return a / b
    except ZeroDivisionError:
        return math.nan if a == 0 or a != a else math.copysign(math.inf, a) * math.copysign(1, b)


def power(a, b):
    value = _or(operator.pow, infinite)(a, b)
    return math.nan if isinstance(value, complex) else value


log = _or(math.log, lambda x: -math.inf if x == 0 else math.nan)
normal, sigmoid = lambda z: 0.5 * (1 + math.erf(z / math.sqrt(2))), lambda x: 0.5 * (1 + math.tanh(x / 2))
bell = lambda x: math.exp(-x * x / 2) / math.sqrt(2 * math.pi)

# The slope of a function of x with the result y; of two, both slopes. None: no gradient goes through it.

UNARY = {
    "neg": (operator.neg, lambda x, y: -1),
    "abs": (abs, lambda x, y: (x > 0) - (x < 0)),
    "exp": (_or(math.exp, infinite), lambda x, y: y),
    "log": (log, lambda x, y: divide(1, x)),
    "log2": (lambda x: log(x) / math.log(2), lambda x, y: divide(1, x * math.log(2))),
    "log10": (lambda x: log(x) / math.log(10), lambda x, y: divide(1, x * math.log(10))),
    "log1p": (lambda x: log(1 + x), lambda x, y: divide(1, 1 + x)),
    "sqrt": (_or(math.sqrt, nan), lambda x, y: divide(0.5, y)),
    "rsqrt": (_or(lambda x: 1 / math.sqrt(x), infinite), lambda x, y: -0.5 * y**3),
    "sin": (math.sin, lambda x, y: math.cos(x)),
    "cos": (math.cos, lambda x, y: -math.sin(x)),
    "tanh": (math.tanh, lambda x, y: 1 - y * y),
    "sigmoid": (sigmoid, lambda x, y: y * (1 - y)),
    "relu": (lambda x: x if x > 0 or x != x else 0, lambda x, y: y > 0),
    "gelu": (lambda x: x * normal(x), lambda x, y: normal(x) + x * bell(x)),
    "silu": (lambda x: x * sigmoid(x), lambda x, y: y + sigmoid(x) * (1 - y)),
    "square": (lambda x: x * x, lambda x, y: 2 * x),
    "sign": (lambda x: (x > 0) - (x < 0), None), "floor": (_or(math.floor, float), None),
    "ceil": (_or(math.ceil, float), None), "round": (_or(round, float), None), "invert": (operator.invert, None),
    "logical_not": (operator.not_, None), "isnan": (lambda x: x != x, None), "isinf": (math.isinf, None),
    "isfinite": (math.isfinite, None),
}  # fmt: skip
BINARY = {
    "add": (operator.add, lambda a, b, y: (1, 1)),
    "sub": (operator.sub, lambda a, b, y: (1, -1)),
    "mul": (operator.mul, lambda a, b, y: (b, a)),
    "div": (divide, lambda a, b, y: (divide(1, b), divide(-y, b))),
    "pow": (power, lambda a, b, y: (b * power(a, b - 1), y * log(a) if a > 0 else 0)),
    "maximum": (lambda a, b: a if a >= b or a != a else b, lambda a, b, y: (a >= b, b > a)),
    "minimum": (lambda a, b: a if a <= b or a != a else b, lambda a, b, y: (a <= b, b < a)),
    "floordiv": (_or(operator.floordiv, nan), None), "mod": (_or(operator.mod, nan), None),
    "logical_and": (lambda a, b: bool(a) and bool(b), None), "logical_or": (lambda a, b: bool(a) or bool(b), None),
    "and": (operator.and_, None), "or": (operator.or_, None),
    **{name: (getattr(operator, name), None) for name in "eq ne lt le gt ge xor".split()},
}  # fmt: skip
FUNCTIONS = {
    name: (function, slope and (lambda x, y, slope=slope: (slope(x, y),)))
    for name, (function, slope) in UNARY.items()
}
FUNCTIONS |= BINARY | {"where": (lambda test, x, y: x if test else y, lambda test, x, y, found: (0, test, not test))}
ARITHMETIC, COMPARISONS, SAME, TRUTHS, WHOLE, OWN = (
    NAMES["functions"][kind].split() for kind in ("operators", "comparisons", "same", "truths", "whole", "own")
)
"""Functions by what their results are: of their argument's type, an integer's as well (``SAME``), truths, numbers of
elements (``WHOLE``), integers of integers (``OWN``)."""


def variance(values, correction):
    mean, left = math.fsum(values) / len(values), len(values) - correction
    return math.fsum((value - mean) ** 2 for value in values) / left if left > 0 else math.nan


REDUCTIONS = {
    "sum": sum, "mean": lambda v: math.fsum(v) / len(v) if len(v) else math.nan, "prod": math.prod, "max": max,
    "min": min, "argmax": lambda v: max(range(len(v)), key=v.__getitem__),
    "argmin": lambda v: min(range(len(v)), key=v.__getitem__), "all": all, "any": any,
    "var1": lambda v: variance(v, 1), "var0": lambda v: variance(v, 0), "std1": lambda v: math.sqrt(variance(v, 1)),
    "std0": lambda v: math.sqrt(variance(v, 0)), "median": median, "lower": median_low,
    "norm": lambda v: math.sqrt(sum(x * x for x in v)),
    "logsumexp": lambda v: max(v) + math.log(sum(math.exp(x - max(v)) for x in v)),
}  # fmt: skip


def estimate(name, mean, std, count):
    """Return mean and deviation of a reduction of so many elements of which only statistics are known."""
    root, far = math.sqrt(count), std * math.sqrt(2 * math.log(max(count, 2)))
    return {
        "sum": (mean * count, std * root), "max": (mean + far, std / 4), "min": (mean - far, std / 4),
        "argmax": ((count - 1) // 2, count / 4), "argmin": ((count - 1) // 2, count / 4),
        **dict.fromkeys(("var0", "var1"), (std * std, std * std / root)),
        **dict.fromkeys(("std0", "std1"), (std, std / root / 2)),
        "norm": (math.sqrt(count * (mean * mean + std * std)), std / root),
        "all": (float(mean >= 1), 0.0), "any": (float(mean > 0), 0.0),
    }.get(name, (mean, std / root))  # fmt: skip


def moments(function, *statistics):
    """Return mean and deviation of a function of what is distributed normally."""
    points = [((), 1.0)]
    for mean, std in statistics:
        steps = [(mean + std * at, part) for at, part in POINTS] if std else [(mean, 1.0)]
        points = [((*values, value), share * part) for values, share in points for value, part in steps]
    found = [(function(*values), share) for values, share in points]
    mean = sum(value * share for value, share in found)
    return mean, math.sqrt(max(sum((value - mean) ** 2 * share for value, share in found), 0.0))
