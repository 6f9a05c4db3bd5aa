"""NumPy: ndarray and the functions that scripts use most. Arrays are the core's (``_arrays``)."""

import builtins
import itertools
import math
import operator

import _arrays
import _device
import _format
import _functions
from _arrays import Array, Mismatch, is_float
from _functions import axes_of

from numpy._types import SCALARS, bool_, dtype, floating, generic, integer, scalar, version  # noqa: F401

pi, e, inf, nan, newaxis = math.pi, math.e, math.inf, math.nan, None
SAME = """abs exp expm1 log log2 log10 log1p sqrt sin cos tan tanh square reciprocal arctan sign floor ceil trunc invert
logical_not isnan isinf isfinite""".split()
CALLS = {
    "negative": "neg", "absolute": "abs", "fabs": "abs", "rint": "round", "fix": "trunc", "bitwise_not": "invert",
    **{name: name for name in SAME},
}  # fmt: skip
PAIRS = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "div", "true_divide": "div", "power": "pow",
    "floor_divide": "floordiv", "mod": "mod", "remainder": "mod", "maximum": "maximum", "minimum": "minimum",
    "arctan2": "atan2", "equal": "eq", "not_equal": "ne", "less": "lt", "less_equal": "le", "greater": "gt",
    "greater_equal": "ge", "bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor", "left_shift": "lshift",
    "logical_and": "logical_and", "logical_or": "logical_or", "logical_xor": "logical_xor", "right_shift": "rshift",
}  # fmt: skip
globals().update({name: kind for name, kind in SCALARS.items() if name != "bool"})
number, object_, str_, float_, int_, intp = (
    generic,
    object,
    str,
    SCALARS["float64"],
    SCALARS["int64"],
    SCALARS["int64"],
)
double, single, half, long = float_, SCALARS["float32"], SCALARS["float16"], int_


class ndarray(Array):
    """An array of NumPy's."""

    __slots__ = ()
    __hash__ = None
    shape = property(
        lambda self: self._shape, lambda self, shape: setattr(self, "_shape", self.reshape(shape)._shape)
    )
    ndim, size = property(lambda self: len(self._shape)), property(lambda self: self._count())
    dtype, itemsize = property(lambda self: dtype(self._dtype)), property(lambda self: _arrays.SIZES[self._dtype])
    nbytes = property(lambda self: self._count() * self.itemsize)
    strides = property(lambda self: tuple(step * self.itemsize for step in self._strides))
    T, flat = property(lambda self: self.transpose()), property(lambda self: iter(self.ravel()))
    __float__, __int__ = lambda self: float(self.item()), lambda self: int(self.item())
    __index__ = lambda self: operator.index(self.item())
    __contains__ = lambda self, value: any(value == each for each in self._flat())
    __str__ = lambda self: _format.numpy_text(self, precision=_options["precision"])
    __repr__ = lambda self: _format.numpy_repr(self, ("float64", "int64", "bool"))
    __format__ = lambda self, spec: format(self.item(), spec) if spec else str(self)
    __pos__ = lambda self: self
    __matmul__, __rmatmul__ = lambda self, other: matmul(self, other), lambda self, other: matmul(other, self)
    __reduce__ = lambda self: (
        _rebuilt,
        (self._shape, self._dtype, self.tobytes() if self._known() else self._statistics()),
    )
    tolist, copy = lambda self: self._nested(), lambda self, order="C": self._copy()
    astype = lambda self, kind, copy=True: self._copy(dtype(kind).name)
    fill = lambda self, value: self.__setitem__(..., value)
    ravel, flatten = lambda self: self.reshape(-1), lambda self, order="C": self.reshape(-1)._copy()
    sort = lambda self, axis=-1: self.__setitem__(..., sort(self, axis))
    tobytes = lambda self: _arrays.stored(self._flat(), self._dtype).tobytes()
    view = lambda self: self._make(self._shape, self._dtype, self._buffer, self._strides, self._offset)
    _promoted = staticmethod(lambda left, right, a, b: _arrays.promote(left, right))
    _unary = lambda self, name: _out(_functions.unary(name, self))

    def _place(self, source):
        if self._buffer.claim is None and self._buffer.size > _device.MIB >> 3:
            self._buffer.claim = _device.Claim(None, self._buffer.size * self.itemsize)
        if self._buffer.data is None and self._count() > _arrays.MAX_COMPUTED:
            _device.session.work(None, 0, 2 * self.nbytes)

    def __len__(self):
        if not self._shape:
            raise TypeError("len() of unsized object")
        return self._shape[0]

    def __iter__(self):
        if not self._shape:
            raise TypeError("iteration over a 0-d array")
        return (self[at] for at in range(self._shape[0]))

    def __bool__(self):
        if self.size != 1:
            what = "The truth value of an array with more than one element is ambiguous. Use a.any() or a.all()"
            raise ValueError(what)
        return bool(self.item())

    def __getitem__(self, key):
        try:
            return _out(_arrays.pick(self, key))
        except IndexError as error:
            raise self._index_error(*error.args) from None

    def __setitem__(self, key, value):
        try:
            self._set(key, value if isinstance(value, (int, float, str)) else asarray(value))
        except IndexError as error:
            raise self._index_error(*error.args) from None
        except Mismatch as error:
            left, right = shown(error.left), shown(error.right)
            raise ValueError(f"could not broadcast input array from shape {left} into shape {right}") from None

    def _index_error(self, number, axis=None, size=None):
        if axis is None:
            text = f"too many indices for array: array is {self.ndim}-dimensional, but {number} were indexed"
            return IndexError(text)
        axis, size = (axis, size) if size is not None else (0, axis)
        return IndexError(f"index {number} is out of bounds for axis {axis} with size {size}")

    def item(self, *at):
        found = asarray(self[at] if at else self)
        if found.size != 1:
            raise ValueError("can only convert an array of size 1 to a Python scalar")
        return found._python()[0]

    def reshape(self, *shape, order="C"):
        shape = _sizes(shape)
        try:
            return self._reshape(shape)
        except ValueError:
            raise ValueError(f"cannot reshape array of size {self.size} into shape {shown(shape)}") from None

    def transpose(self, *axes):
        axes = _sizes(axes) if axes and axes[0] is not None else range(self.ndim)[::-1]
        return self._permute([at % self.ndim for at in axes])

    def swapaxes(self, first, second):
        order = list(range(self.ndim))
        order[first], order[second] = order[second], order[first]
        return self._permute(order)

    def squeeze(self, axis=None):
        axes = axes_of(self._shape, axis)
        return self._reshape(tuple(size for at, size in enumerate(self._shape) if size != 1 or at not in axes))

    def _binary(self, name, other, turned=False):
        if not isinstance(other, (int, float)):
            if not isinstance(other, (Array, list, tuple)):
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
            word = next(key for key, its in PAIRS.items() if its == name)
            what = f"Cannot cast ufunc '{word}' output from {found.dtype!r} to {self.dtype!r} with casting rule 'same_kind'"
            raise TypeError(what)
        self[...] = found
        return self


ndarray.kind = ndarray
_options = {"precision": 8}
_first = object.__new__(ndarray)
shown = lambda shape: f"({','.join(map(str, shape))}{',' if len(shape) == 1 else ''})"
_out = lambda found: (
    found if not isinstance(found, ndarray) or found._shape else scalar(found._flat()[0], found._dtype)
)


def _sizes(shape):
    shape = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
    return tuple(map(operator.index, shape))


def _rebuilt(shape, kind, data):
    return _first._guess(shape, kind, *data) if isinstance(data, tuple) else frombuffer(data, kind)._reshape(shape)


def _generate():
    """Make the operators, the functions of one and of two arrays, and the reductions, which are methods as well."""
    for name in ("add", "sub", "mul", "pow", "mod", "and", "or", "xor", "lshift", "rshift", "floordiv", "div"):
        word = {"div": "truediv"}.get(name, name)
        setattr(ndarray, f"__{word}__", lambda self, other, name=name: self._binary(name, other))
        setattr(ndarray, f"__r{word}__", lambda self, other, name=name: self._binary(name, other, turned=True))
        setattr(ndarray, f"__i{word}__", lambda self, other, name=name: self._in_place(name, other))
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        setattr(ndarray, f"__{name}__", lambda self, other, name=name: self._binary(name, other))
    for name in ("neg", "abs", "invert"):
        setattr(ndarray, f"__{name}__", lambda self, name=name: self._unary(name))
    made = {own: lambda x, name=name: asarray(x)._unary(name) for own, name in CALLS.items()}
    made |= {own: lambda x, y, name=name: asarray(x)._binary(name, y) for own, name in PAIRS.items()}
    for own in ("sum", "prod", "mean", "max", "min", "argmax", "argmin", "all", "any"):
        made[own] = lambda *args, own=own, **more: _reduce(own, *args, **more)
    for name, function in made.items():
        function.__name__ = function.__qualname__ = name
        globals()[name] = function
    methods = "var std clip cumsum repeat nonzero argsort diagonal trace dot round take"
    for own in ("sum prod mean max min argmax argmin all any " + methods).split():
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


var = lambda a, axis=None, dtype=None, out=None, ddof=0, keepdims=False: _reduce(
    f"var{ddof}", a, axis, dtype, out, keepdims
)
std = lambda a, axis=None, dtype=None, out=None, ddof=0, keepdims=False: _reduce(
    f"std{ddof}", a, axis, dtype, out, keepdims
)
median = lambda a, axis=None: _reduce("median", a, axis)


# Making arrays.


def array(data, dtype=None, copy=True, ndmin=0):
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
    return _first._new((1,) * (ndmin - len(shape)) + shape, kind, values)


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
    deviation = builtins.abs(step) * math.sqrt(builtins.max(count * count - 1, 0) / 12)
    return _first._guess(
        (count,), kind, first + step * (count - 1) / 2, deviation, lambda place: first + place * step
    )


def eye(n, m=None, k=0, dtype=float):
    m = m or n
    return _first._guess((n, m), _kind(dtype), 1 / m, math.sqrt(m - 1) / m, lambda place: place % m - place // m == k)


def frombuffer(data, dtype=float):
    made = _arrays.array(_arrays.CODES[_kind(dtype)], bytes(data))
    return _first._new((len(made),), _kind(dtype), made)


_kind = lambda kind: globals()["dtype"](kind).name
zeros = empty = lambda shape, dtype=float, order="C": full(shape, 0, dtype)
ones = lambda shape, dtype=float, order="C": full(shape, 1, dtype)
full_like = lambda a, fill_value, dtype=None: full(shape(a), fill_value, dtype or asarray(a).dtype)
zeros_like = empty_like = lambda a, dtype=None: full_like(a, 0, dtype)
ones_like = lambda a, dtype=None: full_like(a, 1, dtype)
linspace = lambda first, last, num=50, endpoint=True: _line(
    num, first, (last - first) / builtins.max(num - endpoint, 1)
)
identity, ascontiguousarray, asanyarray, fromiter = (
    eye,
    asarray,
    asarray,
    lambda data, dtype: array(list(data), dtype),
)

# Shapes.

_forward = lambda name: lambda a, *args, **more: getattr(asarray(a), name)(*args, **more)
reshape, transpose, ravel, squeeze, swapaxes, copy = map(
    _forward, ("reshape", "transpose", "ravel", "squeeze", "swapaxes", "copy")
)
shape, ndim, size = (lambda a, name=name: getattr(asarray(a), name) for name in ("shape", "ndim", "size"))
broadcast_to = lambda a, shape: asarray(a)._expand(tuple(shape))
vstack = lambda arrays: concatenate([each if each.ndim > 1 else each.reshape(1, -1) for each in map(asarray, arrays)])
hstack = lambda arrays: concatenate(arrays, axis=builtins.min(asarray(arrays[0]).ndim - 1, 1))
take = lambda a, places, axis=0: asarray(a)[(slice(None),) * axis + (places,)]
outer = lambda a, b: asarray(a).reshape(-1, 1) * asarray(b).reshape(1, -1)
trace = lambda a: diagonal(a).sum()
roll = lambda a, by, axis=0: take(a, [(at - by) % shape(a)[axis] for at in range(shape(a)[axis])], axis)


def expand_dims(a, axis):
    at = axis % (ndim(a) + 1)
    return asarray(a)[(slice(None),) * at + (None,)]


def diagonal(a, k=0):
    rows, columns = asarray(a)._shape
    count = builtins.min(rows + builtins.min(k, 0), columns - builtins.max(k, 0))
    return asarray(a)[
        [at + builtins.max(-k, 0) for at in range(count)], [at + builtins.max(k, 0) for at in range(count)]
    ]


def diag(v, k=0):
    return diagonal(v, k) if ndim(v) == 2 else eye(len(v), dtype=asarray(v).dtype) * v


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


def split(a, parts, axis=0):
    size = asarray(a)._shape[axis]
    count, more = divmod(size, parts) if isinstance(parts, int) else (0, 0)
    cuts = (
        parts if not isinstance(parts, int) else itertools.accumulate(count + (at < more) for at in range(parts - 1))
    )
    return [asarray(a)[(slice(None),) * axis + (slice(*pair),)] for pair in itertools.pairwise([0, *cuts, size])]


def tile(a, times):
    times = (times,) if isinstance(times, int) else tuple(times)
    a = asarray(a).reshape((1,) * (len(times) - ndim(a)) + shape(a))
    for at, count in enumerate(times):
        a = concatenate([a] * count, at)
    return a


def repeat(a, count, axis=None):
    a = asarray(a).ravel() if axis is None else asarray(a)
    return take(a, [at for at in range(a._shape[axis or 0]) for _ in range(count)], axis or 0)


def flip(a, axis=None):
    axes = axes_of(shape(a), axis)
    return asarray(a)[tuple(slice(None, None, -1 if at in axes else 1) for at in range(ndim(a)))]


def meshgrid(x, y, indexing="xy"):
    pair = broadcast_to(x, (len(y), len(x))), broadcast_to(asarray(y).reshape(-1, 1), (len(y), len(x)))
    return list(pair) if indexing == "xy" else [each.T for each in pair]


# Everything else.


def dot(a, b):
    a, b = asarray(a), asarray(b)
    if a._shape and b._shape and a._shape[-1] != b._shape[max_axis := -2 if b.ndim > 1 else -1]:
        raise ValueError(
            f"shapes {shown(a._shape)} and {shown(b._shape)} not aligned: {a._shape[-1]} (dim {a.ndim - 1}) != "
            f"{b._shape[max_axis]} (dim {b.ndim + max_axis})"
        )
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
    x, y = (
        asarray(each, asarray(other).dtype if isinstance(each, int) else None) for each, other in ((x, y), (y, x))
    )
    return _out(_arrays.choose(asarray(condition), x, y))


nonzero = lambda a: tuple(array(each, dtype=int) for each in _arrays.places_of(asarray(a)))
argwhere = lambda a: stack(nonzero(a), axis=1)
clip = lambda a, low=None, high=None: minimum(maximum(a, -inf if low is None else low), inf if high is None else high)  # noqa: F821
cumsum = lambda a, axis=None: _lines(a, axis, lambda line: list(itertools.accumulate(line)))
diff = lambda a, axis=-1: _lines(a, axis, lambda line: [y - x for x, y in itertools.pairwise(line)])
sort = lambda a, axis=-1: _lines(a, axis, sorted)
argsort = lambda a, axis=-1, kind=None: _lines(
    a, axis, lambda line: sorted(range(len(line)), key=line.__getitem__), "int64"
)
isclose = lambda a, b, rtol=1e-5, atol=1e-8: abs(asarray(a) - asarray(b)) <= abs(asarray(b)) * rtol + atol
allclose = lambda a, b, rtol=1e-5, atol=1e-8: bool(isclose(a, b, rtol, atol).all())
array_equal = lambda a, b: shape(a) == shape(b) and bool(asarray(asarray(a) == b).all())


def round(a, decimals=0):
    a = asarray(a)
    return _out(a._new(a._shape, a._dtype, [builtins.round(value, decimals) for value in a._flat()]))


def _lines(a, axis, function, kind=None):
    """Apply a function to every line along a dimension."""
    a, axis = (asarray(a).ravel(), 0) if axis is None else (asarray(a), axis % ndim(a))
    if not a._known():
        return a._copy(kind)
    found = [function(list(line)) for line in _functions.groups(a, (axis,))]
    order = [at for at in range(a.ndim) if at != axis] + [axis]
    made = (*[a._shape[at] for at in order[:-1]], len(found[0]) if found else 0)
    made = a._new(made, kind or a._dtype, [value for line in found for value in line])
    return made._permute([order.index(at) for at in range(a.ndim)])


class errstate:
    __init__ = lambda self, **options: None
    __enter__ = lambda self: self
    __exit__ = lambda self, *error: None


class finfo:
    def __init__(self, kind):
        eps = {"float16": 2.0**-10, "float32": 2.0**-23, "float64": 2.0**-52}[_kind(kind)]
        top = {"float16": 65504.0, "float32": 3.4028234663852886e38, "float64": 1.7976931348623157e308}[_kind(kind)]
        self.eps, self.max, self.min = eps, top, -top


class iinfo:
    def __init__(self, kind):
        self.bits = dtype(kind).itemsize * 8
        low = 0 if dtype(kind).kind == "u" else 2 ** (self.bits - 1)
        self.min, self.max = -low, 2**self.bits - 1 - low


seterr, set_printoptions = errstate, lambda precision=8, **options: _options.update(precision=precision)


def __getattr__(name):
    if name == "__version__":
        return version()
    raise AttributeError(f"module 'numpy' has no attribute {name!r}")


_generate()
amax, amin = (globals()[name] for name in ("max", "min"))
from numpy import linalg, random  # noqa: E402, F401
from numpy._more import bincount, einsum, histogram, load, percentile, save, unique  # noqa: E402, F401
