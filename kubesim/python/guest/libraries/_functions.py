"""Functions of arrays: element by element, along dimensions, and products, with the gradients that torch takes of them."""

import math
import operator
from itertools import accumulate, product, repeat

from _arrays import MAX_COMPUTED, Array, Mismatch, axes_of, broadcast, chunks, is_float

MAX_PRODUCTS = 1 << 18
"""Multiplications of a matrix product that are carried out."""
POINTS = ((-2.3344, 0.0459), (-0.742, 0.4541), (0.742, 0.4541), (2.3344, 0.0459))
"""Points and weights of Gauss and Hermite: how a function changes what is distributed normally."""

# Element by element. Each function comes with its gradient: of g with respect to x, where y is the result.


def _or(function, otherwise):
    def guarded(*values):
        try:
            return function(*values)
        except (ValueError, OverflowError, ZeroDivisionError):
            return otherwise(*values)

    return guarded


nan, infinite = lambda *values: math.nan, lambda *values: math.inf
_log = lambda function: _or(function, lambda x: -math.inf if x == 0 else math.nan)
normal, sigmoid = lambda z: 0.5 * (1 + math.erf(z / math.sqrt(2))), lambda x: 0.5 * (1 + math.tanh(x / 2))
UNARY = {
    "neg": (operator.neg, lambda g, x, y: -g),
    "abs": (abs, lambda g, x, y: g * x.sign()),
    "exp": (_or(math.exp, infinite), lambda g, x, y: g * y),
    "expm1": (_or(math.expm1, infinite), lambda g, x, y: g * (y + 1)),
    "log": (_log(math.log), lambda g, x, y: g / x),
    "log2": (_log(math.log2), lambda g, x, y: g / (x * math.log(2))),
    "log10": (_log(math.log10), lambda g, x, y: g / (x * math.log(10))),
    "log1p": (_log(math.log1p), lambda g, x, y: g / (x + 1)),
    "sqrt": (_or(math.sqrt, nan), lambda g, x, y: g / (y * 2)),
    "rsqrt": (_or(lambda x: 1 / math.sqrt(x), infinite), lambda g, x, y: g * y * y * y * -0.5),
    "sin": (math.sin, lambda g, x, y: g * x.cos()),
    "cos": (math.cos, lambda g, x, y: -g * x.sin()),
    "tan": (math.tan, lambda g, x, y: g * (y * y + 1)),
    "tanh": (math.tanh, lambda g, x, y: g * (1 - y * y)),
    "sigmoid": (sigmoid, lambda g, x, y: g * y * (1 - y)),
    "relu": (lambda x: x if x > 0 or x != x else 0, lambda g, x, y: g * (y > 0)),
    "gelu": (lambda x: x * normal(x), lambda g, x, y: g * x._unary("gelu_slope")),
    "gelu_slope": (lambda x: normal(x) + x * math.exp(-x * x / 2) / math.sqrt(2 * math.pi), None),
    "silu": (lambda x: x * sigmoid(x), lambda g, x, y: g * x.sigmoid() * (x * (1 - x.sigmoid()) + 1)),
    "softplus": (lambda x: math.log1p(math.exp(-abs(x))) + max(x, 0), lambda g, x, y: g * x.sigmoid()),
    "square": (lambda x: x * x, lambda g, x, y: g * x * 2),
    "reciprocal": (_or(lambda x: 1 / x, infinite), lambda g, x, y: -g * y * y),
    "erf": (math.erf, None), "arctan": (math.atan, None), "sign": (lambda x: (x > 0) - (x < 0), None),
    "floor": (_or(math.floor, float), None), "ceil": (_or(math.ceil, float), None),
    "round": (_or(round, float), None), "trunc": (_or(math.trunc, float), None), "invert": (operator.invert, None),
    "logical_not": (operator.not_, None), "isnan": (lambda x: x != x, None), "isinf": (math.isinf, None),
    "isfinite": (math.isfinite, None),
}  # fmt: skip
SAME = {"neg", "abs", "sign", "floor", "ceil", "round", "trunc", "invert", "relu", "square"}
"""Functions whose result has its argument's type, an integer's as well."""
TRUTHS = {"logical_not", "isnan", "isinf", "isfinite", "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or",
          "logical_xor"}  # fmt: skip


def divide(a, b):
    try:
        return a / b
    except ZeroDivisionError:
        return math.nan if a == 0 or a != a else math.copysign(math.inf, a) * math.copysign(1, b)


def power(a, b):
    value = _or(operator.pow, infinite)(a, b)
    return math.nan if isinstance(value, complex) else value


BINARY = {
    "add": (operator.add, lambda g, a, b, y: (g, g)),
    "sub": (operator.sub, lambda g, a, b, y: (g, -g)),
    "mul": (operator.mul, lambda g, a, b, y: (g * b, g * a)),
    "div": (divide, lambda g, a, b, y: (g / b, -g * y / b)),
    "pow": (power, lambda g, a, b, y: (g * b * a ** (b - 1), g * y * a.log() if isinstance(b, Array) else None)),
    "maximum": (lambda a, b: a if a >= b or a != a else b, lambda g, a, b, y: (g * (a >= b), g * (b > a))),
    "minimum": (lambda a, b: a if a <= b or a != a else b, lambda g, a, b, y: (g * (a <= b), g * (b < a))),
    "floordiv": (_or(operator.floordiv, nan), None), "mod": (_or(operator.mod, nan), None), "atan2": (math.atan2, None),
    "logical_and": (lambda a, b: bool(a) and bool(b), None), "logical_or": (lambda a, b: bool(a) or bool(b), None),
    "logical_xor": (lambda a, b: bool(a) != bool(b), None), "and": (operator.and_, None), "or": (operator.or_, None),
    **{name: (getattr(operator, name), None) for name in "eq ne lt le gt ge xor lshift rshift".split()},
}  # fmt: skip


def unary(name, x):
    """Return a function of every element."""
    dtype = x._dtype if name in SAME or is_float(x._dtype) else x.default
    dtype = "bool" if name in TRUTHS else dtype
    if name == "invert" and x._dtype == "bool":
        name = "logical_not"
    if x._known():
        return x._new(x._shape, dtype, map(UNARY[name][0], x._flat()))
    mean, std = x._statistics()
    return x._guess(x._shape, dtype, *moments([(UNARY[name][0](mean + std * at), part) for at, part in POINTS]))


def moments(values):
    mean = sum(value * part for value, part in values)
    return mean, math.sqrt(max(sum((value - mean) ** 2 * part for value, part in values), 0.0))


def result_type(name, a, b):
    """Return the type of an operator's result; of a Python number only the kind counts."""
    kinds = [each._dtype if isinstance(each, Array) else None for each in (a, b)]
    own = a if kinds[0] else b
    if None in kinds:
        dtype, other = own._dtype, b if kinds[0] else a
        if isinstance(other, float) and not is_float(dtype):
            dtype = own.default
        elif dtype == "bool" and not isinstance(other, bool):
            dtype = "int64"
    else:
        dtype = own._promoted(*kinds, a, b)
    if name in TRUTHS:
        return "bool"
    return own.default if name == "div" and not is_float(dtype) else dtype


def binary(name, a, b):
    """Return an operator between two arrays, or an array and a number. Raises Mismatch."""
    own = a if isinstance(a, Array) else b
    shape = broadcast(*(each._shape if isinstance(each, Array) else () for each in (a, b)))
    dtype, function = result_type(name, a, b), BINARY[name][0]
    arrays = [each for each in (a, b) if isinstance(each, Array)]
    if math.prod(shape) <= MAX_COMPUTED and all(each._known() for each in arrays):
        left, right = (each._spread(shape) if isinstance(each, Array) else repeat(each) for each in (a, b))
        return own._new(shape, dtype, map(function, left, right))
    hit = next((each._buffer.hit for each in arrays if each._buffer.hit is not None), None)
    if hit is not None and name in ("eq", "ne"):
        return own._guess(shape, dtype, hit if name == "eq" else 1 - hit, 0.5)
    (m, s), (n, t) = (each._statistics() if isinstance(each, Array) else (each, 0) for each in (a, b))
    if name in ("and", "or", "xor", "lshift", "rshift"):
        m, n, s, t = round(m), round(n), 0, 0
    pairs = [(function(m + s * x, n + t * y), p * q) for (x, p), (y, q) in product(POINTS, POINTS)] if s or t else [
        (function(m, n), 1.0)]  # fmt: skip
    return own._guess(shape, dtype, *moments(pairs))


# Along dimensions.


def variance(values, correction):
    mean = math.fsum(values) / len(values)
    left = len(values) - correction
    return math.fsum((value - mean) ** 2 for value in values) / left if left > 0 else math.nan


def median(values):
    ordered, at = sorted(values), len(values) // 2
    return ordered[at] if len(values) % 2 else (ordered[at - 1] + ordered[at]) / 2


REDUCTIONS = {
    "sum": sum, "mean": lambda v: math.fsum(v) / len(v) if len(v) else math.nan, "prod": math.prod, "max": max,
    "min": min, "argmax": lambda v: max(range(len(v)), key=v.__getitem__),
    "argmin": lambda v: min(range(len(v)), key=v.__getitem__), "all": all, "any": any,
    "var1": lambda v: variance(v, 1), "var0": lambda v: variance(v, 0), "std1": lambda v: math.sqrt(variance(v, 1)),
    "std0": lambda v: math.sqrt(variance(v, 0)), "median": median, "lower": lambda v: sorted(v)[(len(v) - 1) // 2],
    "norm": lambda v: math.sqrt(sum(x * x for x in v)),
    "logsumexp": lambda v: max(v) + math.log(sum(math.exp(x - max(v)) for x in v)),
}  # fmt: skip


def groups(x, axes):
    """Return the elements by the place in the result that they go into."""
    if len(axes) == len(x._shape):
        return [x._flat()]
    values = x._permute([at for at in range(len(x._shape)) if at not in axes] + list(axes))._flat()
    size = math.prod(x._shape[at] for at in axes)
    return chunks(values, size)


def reduce(name, x, dim=None, keep=False):
    """Return a reduction."""
    axes = axes_of(x._shape, dim)
    shape = tuple(1 if at in axes else size for at, size in enumerate(x._shape) if keep or at not in axes)
    dtype = {"argmax": "int64", "argmin": "int64", "all": "bool", "any": "bool"}.get(name, x._dtype)
    if not is_float(dtype) and name in ("sum", "prod"):
        dtype = "int64"
    elif not is_float(dtype) and name not in ("max", "min", "argmax", "argmin", "all", "any", "lower"):
        dtype = x.default
    if x._known() or x._buffer.data is not None:
        return x._new(shape, dtype, map(REDUCTIONS[name], groups(x, axes)))
    count, (mean, std) = math.prod(x._shape[at] for at in axes), x._statistics()
    mean, std = _reduced(name, mean, std, max(count, 1))
    if dtype == "int64":
        mean = round(mean)
    return x._guess(shape, dtype, mean, 0.0 if dtype == "bool" or dtype == "int64" and name == "sum" else std)


def _reduced(name, mean, std, count):
    root = math.sqrt(count)
    far = std * math.sqrt(2 * math.log(max(count, 2)))
    return {
        "sum": (mean * count, std * root), "mean": (mean, std / root), "max": (mean + far, std / 4),
        "min": (mean - far, std / 4), "argmax": ((count - 1) / 2, count / 4), "argmin": ((count - 1) / 2, count / 4),
        "var0": (std * std, std * std / root), "std0": (std, std / root / 2), "var1": (std * std, std * std / root),
        "std1": (std, std / root / 2), "norm": (math.sqrt(count * (mean * mean + std * std)), std / root),
        "all": (float(mean >= 1), 0.0), "any": (float(mean > 0), 0.0),
    }.get(name, (mean, std / root))  # fmt: skip


def sums(line):
    return list(accumulate(line))


def order(line):
    return sorted(range(len(line)), key=line.__getitem__)


def lines(x, axis, function, dtype=None):
    """Apply a function to every line along a dimension."""
    axis, size = axis % len(x._shape), x._shape[axis]
    if not x._known():
        return x._guess(x._shape, dtype, (size - 1) / 2, size / 4) if dtype == "int64" else x._copy(dtype)
    found = [function(list(line)) for line in groups(x, (axis,))]
    turned = [at for at in range(len(x._shape)) if at != axis] + [axis]
    shape = (*[x._shape[at] for at in turned[:-1]], len(found[0]) if found else 0)
    made = x._new(shape, dtype or x._dtype, [value for line in found for value in line])
    return made._permute([turned.index(at) for at in range(len(turned))])


def multiply(a, b):
    """Return the matrix product. Raises Mismatch."""
    left, right = a, b
    if len(a._shape) == 1:
        left = a._reshape((1, *a._shape))
    if len(b._shape) == 1:
        right = b._reshape((*b._shape, 1))
    (rows, inner), (other, columns) = left._shape[-2:], right._shape[-2:]
    if inner != other:
        raise Mismatch(left._shape, right._shape, 0)
    batch = broadcast(left._shape[:-2], right._shape[:-2])
    shape = (*batch, *((rows,) if len(a._shape) > 1 else ()), *((columns,) if len(b._shape) > 1 else ()))
    dtype = a._promoted(a._dtype, b._dtype, a, b)
    if 0 < math.prod(batch) * rows * inner * columns <= MAX_PRODUCTS and a._known() and b._known():
        order = [*range(len(batch)), len(batch) + 1, len(batch)]
        lines = chunks(list(left._expand((*batch, rows, inner))._flat()), inner)
        turned = chunks(list(right._expand((*batch, inner, columns))._permute(order)._flat()), inner)
        found = []
        for at, line in enumerate(lines):
            first = at // rows * columns
            found += [math.sumprod(line, column) for column in turned[first : first + columns]]
        return a._new(shape, dtype, found)
    (m, s), (n, t) = a._statistics(), b._statistics()
    return a._guess(shape, dtype, inner * m * n, math.sqrt(inner * ((m * t) ** 2 + (n * s) ** 2 + (s * t) ** 2)))
