"""numpy.linalg, by Gauss' elimination."""

import math

import numpy


class LinAlgError(ValueError):
    pass


def norm(x, ord=None, axis=None, keepdims=False):
    x = numpy.asarray(x) * 1.0
    if ord in (None, 2, "fro"):
        return numpy._reduce("norm", x, axis, keepdims=keepdims)
    size = abs(x)
    if ord == 1:
        return size.sum(axis=axis, keepdims=keepdims)
    return size.max(axis=axis, keepdims=keepdims) if ord == math.inf else (size**ord).sum(axis=axis) ** (1 / ord)


def _eliminated(a, b):
    """Return the determinant of a matrix, and the rows that solve it for those of b. Raises LinAlgError."""
    a = numpy.asarray(a)
    if a.ndim != 2 or a.shape[0] != a.shape[1]:
        raise LinAlgError("Last 2 dimensions of the array must be square")
    rows = [[float(x) for x in [*row, *more]] for row, more in zip(a.tolist(), b, strict=True)]
    determinant = 1.0
    for at in range(len(rows)):
        best = max(range(at, len(rows)), key=lambda row: abs(rows[row][at]))
        if rows[best][at] == 0:
            return 0.0, None
        determinant *= rows[best][at] * (1 if best == at else -1)
        rows[at], rows[best] = rows[best], rows[at]
        for other in range(len(rows)):
            if other != at and rows[other][at]:
                factor = rows[other][at] / rows[at][at]
                rows[other] = [x - factor * y for x, y in zip(rows[other], rows[at], strict=True)]
    return determinant, [[x / row[at] for x in row[len(rows) :]] for at, row in enumerate(rows)]


def det(a):
    return numpy.float64(_eliminated(a, [[]] * len(a))[0])


def solve(a, b):
    b = numpy.asarray(b)
    found = _eliminated(a, b.reshape(len(b), -1).tolist())[1]
    if found is None:
        raise LinAlgError("Singular matrix")
    return numpy.array(found).reshape(b.shape)


def inv(a):
    return solve(a, numpy.eye(len(a)))


def __getattr__(name):
    raise AttributeError(f"module 'numpy.linalg' has no attribute {name!r}")
