"""numpy.linalg: the norm."""

import numpy


def norm(x, ord=None, axis=None, keepdims=False):
    x = numpy.asarray(x) * 1.0
    if ord in (None, 2, "fro"):
        return numpy._reduce("norm", x, axis, keepdims=keepdims)
    return abs(x).sum(axis=axis, keepdims=keepdims) if ord == 1 else abs(x).max(axis=axis, keepdims=keepdims)
