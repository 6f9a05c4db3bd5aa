"""NumPy: ndarray and the functions that scripts use most. Arrays are the core's (``_arrays``)."""

import builtins
import math

import _arrays
import _device
import _format
import _functions
from _arrays import Mismatch, is_float
from _methods import Common, sizes

from numpy._types import SCALARS, dtype, generic, scalar, version

pi, e, inf, nan, newaxis = math.pi, math.e, math.inf, math.nan, None
UNARY = (
    "abs exp log log2 log10 log1p sqrt sin cos tanh square sign floor ceil logical_not isnan isinf isfinite".split()
)
UNARY = {"negative": "neg", "absolute": "abs", **{name: name for name in UNARY}}
BINARY = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "div", "power": "pow", "floor_divide": "floordiv",
    "mod": "mod", "maximum": "maximum", "minimum": "minimum", "equal": "eq", "not_equal": "ne", "less": "lt",
    "less_equal": "le", "greater": "gt", "greater_equal": "ge", "logical_and": "logical_and",
    "logical_or": "logical_or",
}  # fmt: skip
REDUCTIONS = "sum prod mean max min argmax argmin all any median".split()
METHODS = "var std clip cumsum nonzero argsort dot round".split()
"""Functions that are methods of an array as well."""
FORWARDED = "reshape transpose ravel squeeze copy".split()
globals().update({name: kind for name, kind in SCALARS.items() if name != "bool"})


class ndarray(Common):
    """An array of NumPy's."""

    __slots__ = ()
    word, axis_word, no_length = "array", "axis", "len() of unsized object"
    too_many = "too many indices for array: array is {}-dimensional, but {} were indexed"
    shape = property(lambda self: self._shape)
    size, T = property(lambda self: self._count()), property(lambda self: self.transpose())
    dtype = property(lambda self: dtype(self._dtype))
    __str__ = lambda self: _format.numpy_text(self)
    __repr__ = lambda self: _format.numpy_repr(self, ("float64", "int64", "bool"))
    __matmul__, __rmatmul__ = lambda self, other: matmul(self, other), lambda self, other: matmul(other, self)
    __reduce__ = lambda self: (_rebuilt, (self._shape, self._dtype, self._saved()))
    tolist, copy = lambda self: self._nested(), lambda self, order="C": self._copy()
    astype = lambda self, kind, copy=True: self._copy(dtype(kind).name)
    fill = lambda self, value: self.__setitem__(..., value)
    ravel, flatten = lambda self: self.reshape(-1), lambda self, order="C": self.reshape(-1)._copy()
    sort = lambda self, axis=-1: self.__setitem__(..., sort(self, axis))
    tobytes = lambda self: _arrays.stored(self._flat(), self._dtype).tobytes()
    _promoted = staticmethod(lambda left, right, a, b: _arrays.promote(left, right))
    _unary = lambda self, name: _out(_functions.unary(name, self))
    __getitem__ = lambda self, key: _out(self._pick(key))

    def _place(self, source):
        if self._buffer.claim is None and self._buffer.size > _device.MIB >> 3:
            self._buffer.claim = _device.Claim(None, self._buffer.size * self.itemsize)
        if self._buffer.data is None and self._count() > _arrays.MAX_COMPUTED:
            _device.session.work(None, 0, 2 * self.nbytes)

    def __bool__(self):
        if self.size != 1:
            what = "The truth value of an array with more than one element is ambiguous. Use a.any() or a.all()"
            raise ValueError(what)
        return bool(self.item())

    def __setitem__(self, key, value):
        try:
            self._set(key, value if isinstance(value, (int, float, str)) else asarray(value))
        except IndexError as error:
            raise self._index_error(*error.args) from None
        except Mismatch as error:
            left, right = shown(error.left), shown(error.right)
            raise ValueError(f"could not broadcast input array from shape {left} into shape {right}") from None

    def item(self, *at):
        found = asarray(self[at] if at else self)
        if found.size != 1:
            raise ValueError("can only convert an array of size 1 to a Python scalar")
        return found._python()[0]

    def reshape(self, *shape, order="C"):
        shape = sizes(shape)
        try:
            return self._reshape(shape)
        except ValueError:
            raise ValueError(f"cannot reshape array of size {self.size} into shape {shown(shape)}") from None

    def transpose(self, *axes):
        axes = sizes(axes) if axes and axes[0] is not None else range(self.ndim)[::-1]
        return self._permute([at % self.ndim for at in axes])

    def _binary(self, name, other, turned=False):
        if not isinstance(other, (int, float)):
            if not isinstance(other, (_arrays.Array, list, tuple)):
                return NotImplemented
            other = asarray(other)
        pair = (other, self) if turned else (self, other)
        try:
            return _out(_functions.binary(name, *pair))
        except Mismatch:
            left, right = (shown(each._shape) for each in pair)
            raise ValueError(f"operands could not be broadcast together with shapes {left} {right} ") from None

    def _in_place(self, name, other):
        found = self._binary(name, other)
        if is_float(found.dtype.name) and not is_float(self._dtype):
            word = next(key for key, its in BINARY.items() if its == name)
            what = f"Cannot cast ufunc '{word}' output from {found.dtype!r} to {self.dtype!r} with casting rule 'same_kind'"
            raise TypeError(what)
        self[...] = found
        return self


ndarray.kind = ndarray
_first = object.__new__(ndarray)
shown = lambda shape: f"({','.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


def _out(found):
    """Return a scalar for an array without dimensions."""
    return scalar(found._flat()[0], found._dtype) if isinstance(found, ndarray) and not found._shape else found


def _rebuilt(shape, kind, data):
    return _first._guess(shape, kind, *data) if isinstance(data, tuple) else _first._new(shape, kind, data)


def _generate():
    """Make the functions of one and of two arrays, the reductions, and the methods that are functions as well."""
    made = {own: lambda x, name=name: asarray(x)._unary(name) for own, name in UNARY.items()}
    made |= {own: lambda x, y, name=name: asarray(x)._binary(name, y) for own, name in BINARY.items()}
    made |= {own: lambda *args, own=own, **more: _reduce(own, *args, **more) for own in REDUCTIONS}
    made |= {
        own: lambda a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, own=own: _reduce(
            f"{own}{ddof}", a, axis, dtype, out, keepdims
        )
        for own in ("var", "std")
    }
    made |= {own: lambda a, *args, own=own, **more: getattr(asarray(a), own)(*args, **more) for own in FORWARDED}
    for name, function in made.items():
        function.__name__ = function.__qualname__ = name
        globals()[name] = function
    for own in REDUCTIONS + METHODS:
        setattr(ndarray, own, lambda self, *args, own=own, **more: globals()[own](self, *args, **more))


def _reduce(name, a, axis=None, dtype=None, out=None, keepdims=False):
    a = asarray(a) if dtype is None else asarray(a).astype(dtype)
    try:
        return _out(_functions.reduce(name, a, axis, keepdims))
    except IndexError as error:
        raise exceptions.AxisError(f"axis {error.args[0]} is out of bounds for array of dimension {a.ndim}") from None
    except ValueError:
        raise ValueError(f"zero-size array to reduction operation {name}imum which has no identity") from None


class exceptions:
    AxisError = type("AxisError", (ValueError, IndexError), {"__module__": "numpy.exceptions"})


# Making arrays.


def array(data, dtype=None, copy=True):
    kind = _kind(dtype) if dtype is not None else None
    data = data if isinstance(data, ndarray) or not hasattr(data, "__array__") else data.__array__()
    if isinstance(data, ndarray):
        return data._copy(kind)
    if isinstance(data, generic):
        return _first._new((), kind or data._name, [data.item()])
    if hasattr(data, "__iter__") and not isinstance(data, (list, tuple, range, str, bytes, dict, set)):
        data = list(data)
    try:
        shape, values = _arrays.flattened(data)
    except ValueError:
        raise ValueError(
            "setting an array element with a sequence. The requested array has an inhomogeneous shape after 1 dimensions. "
            f"The detected shape was ({len(data)},) + inhomogeneous part."
        ) from None
    names = {value._name if isinstance(value, generic) else None for value in values}
    kind = kind or (names.pop() if len(names) == 1 else None) or _arrays.dtype_of(values, "float64")
    return _first._new(shape, kind, values)


def asarray(data, dtype=None):
    return data if isinstance(data, ndarray) and (dtype is None or data.dtype == dtype) else array(data, dtype)


def full(shape, fill_value, dtype=None):
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    return _first._guess(shape, _kind(dtype) if dtype is not None else array(fill_value)._dtype, fill_value)


def arange(first, last=None, step=1, dtype=None):
    first, last = (0, first) if last is None else (first, last)
    kind = _kind(dtype) if dtype else array([first, last, step])._dtype
    return _line(builtins.max(math.ceil((last - first) / step), 0), first, step, kind)


def _line(count, first, step, kind="float64"):
    mean = first + step * (count - 1) / 2
    deviation = builtins.abs(step) * math.sqrt(builtins.max(count * count - 1, 0) / 12)
    return _first._guess((count,), kind, mean, deviation, lambda place: first + place * step)


def eye(n, m=None, k=0, dtype=float):
    m = m or n
    return _first._guess((n, m), _kind(dtype), 1 / m, math.sqrt(m - 1) / m, lambda place: place % m - place // m == k)


linspace = lambda first, last, num=50: _line(num, first, (last - first) / builtins.max(num - 1, 1))
_kind = lambda kind: globals()["dtype"](kind).name
zeros = empty = lambda shape, dtype=float, order="C": full(shape, 0, dtype)
ones = lambda shape, dtype=float, order="C": full(shape, 1, dtype)
full_like = lambda a, fill_value, dtype=None: full(shape(a), fill_value, dtype or asarray(a).dtype)
zeros_like = empty_like = lambda a, dtype=None: full_like(a, 0, dtype)
ones_like = lambda a, dtype=None: full_like(a, 1, dtype)

# Shapes.

shape, ndim, size = (lambda a, name=name: getattr(asarray(a), name) for name in ("shape", "ndim", "size"))
vstack = lambda arrays: concatenate([each if each.ndim > 1 else each.reshape(1, -1) for each in map(asarray, arrays)])
hstack = lambda arrays: concatenate(arrays, axis=builtins.min(asarray(arrays[0]).ndim - 1, 1))


def expand_dims(a, axis):
    at = axis % (ndim(a) + 1)
    return asarray(a)[(slice(None),) * at + (None,)]


def concatenate(arrays, axis=0):
    arrays = [asarray(each) for each in arrays]
    try:
        return _arrays.join([each.ravel() for each in arrays] if axis is None else arrays, axis or 0)
    except Mismatch as error:
        at = next(at for at in range(len(error.left)) if at != axis and error.left[at] != error.right[at])
        raise ValueError(
            "all the input array dimensions except for the concatenation axis must match exactly, but along dimension "
            f"{at}, the array at index 0 has size {error.left[at]} and the array at index {error.at} has size {error.right[at]}"
        ) from None


def stack(arrays, axis=0):
    if len({shape(each) for each in arrays}) != 1:
        raise ValueError("all input arrays must have the same shape")
    return concatenate([expand_dims(each, axis) for each in arrays], axis)


# Everything else.


def dot(a, b):
    a, b = asarray(a), asarray(b)
    inner = -2 if b.ndim > 1 else -1
    if a._shape and b._shape and a._shape[-1] != b._shape[inner]:
        left, right = f"{a._shape[-1]} (dim {a.ndim - 1})", f"{b._shape[inner]} (dim {b.ndim + inner})"
        raise ValueError(f"shapes {shown(a._shape)} and {shown(b._shape)} not aligned: {left} != {right}")
    return matmul(a, b) if a._shape and b._shape else a * b


def matmul(a, b):
    a, b = asarray(a), asarray(b)
    try:
        found = _functions.multiply(a, b)
    except Mismatch:
        raise ValueError(
            "matmul: Input operand 1 has a mismatch in its core dimension 0, with gufunc signature (n?,k),(k,m?)->(n?,m?) "
            f"(size {b._shape[-2] if b.ndim > 1 else b._shape[0]} is different from {a._shape[-1]})"
        ) from None
    if found._buffer.data is None:
        _device.session.work(None, 2 * found.size * a._shape[-1] * (found.itemsize / 4), a.nbytes + b.nbytes)
    return _out(found)


def where(condition, x=None, y=None):
    if x is None:
        return nonzero(condition)
    kinds = (asarray(other).dtype if isinstance(each, int) else None for each, other in ((x, y), (y, x)))
    return _out(_arrays.choose(asarray(condition), *map(asarray, (x, y), kinds)))


def clip(a, low=None, high=None):
    a = asarray(a) if low is None else maximum(a, low)  # noqa: F821 - generated
    return a if high is None else minimum(a, high)  # noqa: F821


def round(a, decimals=0):
    a = asarray(a)
    return _out(a._new(a._shape, a._dtype, [builtins.round(value, decimals) for value in a._flat()]))


def cumsum(a, axis=None):
    a, axis = (ravel(a), 0) if axis is None else (asarray(a), axis)  # noqa: F821
    return _functions.lines(a, axis, _functions.sums)


def percentile(a, q, axis=None):
    def at(line):
        ordered = sorted(line)
        places = [(len(line) - 1) * share / 100 for share in shares]
        pairs = [(ordered[int(place)], ordered[math.ceil(place)], place % 1) for place in places]
        return [float(low + (high - low) * part) for low, high, part in pairs]

    shares = ravel(q).tolist()  # noqa: F821
    found = _functions.lines(ravel(a) if axis is None else asarray(a), axis or 0, at, "float64")  # noqa: F821
    return found if ndim(q) else _out(found.squeeze(axis or 0))


def unique(a, return_counts=False):
    counts = {}
    for value in sorted(asarray(a)._flat()):
        counts[value] = counts.get(value, 0) + 1
    found = array(list(counts), asarray(a).dtype)
    return (found, array(list(counts.values()))) if return_counts else found


nonzero = lambda a: tuple(array(each, dtype=int) for each in _arrays.places_of(asarray(a)))
sort = lambda a, axis=-1: _functions.lines(asarray(a), axis, sorted)
argsort = lambda a, axis=-1, kind=None: _functions.lines(asarray(a), axis, _functions.order, "int64")
allclose = lambda a, b, rtol=1e-5, atol=1e-8: bool(
    (abs(asarray(a) - asarray(b)) <= abs(asarray(b)) * rtol + atol).all()
)
array_equal = lambda a, b: shape(a) == shape(b) and bool(asarray(asarray(a) == b).all())


def __getattr__(name):
    if name == "__version__":
        return version()
    raise AttributeError(f"module 'numpy' has no attribute {name!r}")


_generate()
from numpy import linalg, random  # noqa: E402, F401
