"""NumPy: ndarray and the functions that scripts use most. Arrays are the core's (``_arrays``)."""

import builtins
import math
import sys
import types

import _arrays
import _device
import _elements
import _format
from _arrays import Array, sizes
from _elements import dtype_name, is_float, missing, named, version
from _random_numbers import Source

pi, e, inf, nan, newaxis = math.pi, math.e, math.inf, math.nan, None
OWN = _elements.NAMES["numpy"]
AxisError = type("AxisError", (ValueError, IndexError), {"__module__": "numpy.exceptions"})
_elements.EXCEPTIONS["AxisError"] = AxisError


class ndarray(Array):
    """An array of NumPy's."""

    __slots__ = ()
    library = "numpy"
    shape, dtype = property(lambda self: self._shape), property(lambda self: dtype(self._dtype))
    size, T = property(lambda self: self._count()), property(lambda self: self.transpose())
    __str__, __repr__ = lambda self: _format.numpy_text(self), lambda self: _format.numpy_repr(self)
    __matmul__, __rmatmul__ = lambda self, other: matmul(self, other), lambda self, other: matmul(other, self)
    __reduce__ = lambda self: (_loaded, (self._shape, self._dtype, self._saved()))
    tolist, copy = lambda self: self._nested(), lambda self: self._copy()
    astype = lambda self, dtype, copy=True: self._copy(dtype_name(dtype))
    fill, ravel = lambda self, value: self.__setitem__(..., value), lambda self: self.reshape(-1)
    __array__ = lambda self, dtype=None, copy=None: self if dtype is None else self.astype(dtype)
    flatten, argsort = lambda self: self.reshape(-1)._copy(), lambda self, axis=-1: self._ordered(axis)
    transpose = lambda self, *axes: self.permute(*(axes or [*builtins.range(self.ndim)][::-1]))
    var = lambda self, axis=None, ddof=0, keepdims=False: self._reduced(f"var{ddof:d}", axis, keepdims)
    std = lambda self, axis=None, ddof=0, keepdims=False: self._reduced(f"std{ddof:d}", axis, keepdims)
    _promoted = lambda self, a, b: _elements.promote(a._dtype, b._dtype)
    _operand = lambda self, other: asarray(other) if isinstance(other, (Array, list, tuple)) else NotImplemented
    _written = staticmethod(lambda shape: str(shape).replace(" ", ""))

    def _place(self, source):
        if self._buffer.claim is None and self._buffer.size > _device.MIB >> 3:
            self._buffer.claim = _device.Claim(None, self._buffer.size * self.itemsize)
        if self._buffer.data is None and self._count() > _arrays.MAX_COMPUTED:
            _device.session.work(None, 0, 2 * self.nbytes)

    def _step(self, found, word, parents, back, flops=0.0):
        """Return a scalar for an array without dimensions."""
        return found if found._shape else SCALARS[found._dtype](found._flat()[0])

    def _reduced(self, name, axis=None, keepdims=False):
        if not self.size and name in ("max", "min"):
            raise ValueError(f"zero-size array to reduction operation {name}imum which has no identity")
        return self._step(self._reduce(name, axis, keepdims), name, (), None)

    def __bool__(self):
        if self.size != 1:
            raise self._error("truth")
        return bool(self.item())

    def item(self, *at):
        found = asarray(self[at] if at else self)
        if found.size != 1:
            raise self._error("item")
        return found._python()[0]

    def clip(self, low=None, high=None):
        found = self if low is None else self._binary("maximum", low)
        return found if high is None else asarray(found)._binary("minimum", high)

    def round(self, decimals=0):
        made = self._new(self._shape, self._dtype, [builtins.round(value, decimals) for value in self._flat()])
        return self._step(made, "round", (), None)

    def sort(self, axis=-1):
        self[...] = self._lines(axis, sorted)

    def cumsum(self, axis=None, dtype=None):
        return (self.ravel() if axis is None else self)._cumulated(axis or 0, dtype_name(dtype))

    def nonzero(self):
        return tuple(array(found, "int64") for found in _elements.chosen_places(self._shape, self._flat()))

    def dot(self, other):
        other = asarray(other)
        inner = -2 if other.ndim > 1 else -1
        if self._shape and other._shape and self._shape[-1] != other._shape[inner]:
            dims = {"dim_a": self.ndim - 1, "dim_b": other.ndim + inner}
            sides = {"left": self._shape, "right": other._shape, "a": self._shape[-1], "b": other._shape[inner]}
            raise self._error("dot", **sides, **dims)
        return matmul(self, other) if self._shape and other._shape else self * other

    def _in_place(self, name, other):
        found = self._binary(name, other)
        if is_float(found.dtype.name) and not is_float(self._dtype):
            word = next((key for key, its in OWN["binary"].items() if its == name), name)
            raise self._error("cast", word=word, found=found.dtype.name, own=self._dtype)
        self[...] = found
        return self


class dtype:
    """The type of an array's elements."""

    def __init__(self, kind):
        self.name = self._name = dtype_name(kind)
        self.itemsize = _elements.SIZES[self.name]

    __hash__, __str__ = lambda self: hash(self.name), lambda self: self.name
    __eq__, __repr__ = lambda self, other: self.name == dtype_name(other), lambda self: f"dtype('{self.name}')"


class generic:
    """A scalar: Python's number, of one of NumPy's types."""

    shape, ndim, size = (), 0, 1
    dtype = property(lambda self: dtype(self._name))
    item = tolist = lambda self: self.python(self)
    max = min = sum = mean = lambda self: self
    __str__ = lambda self: _format.shortest(self, self._name) if self.python is float else repr(self.python(self))
    __repr__ = lambda self: f"np.{type(self).__name__}({self})" if version("numpy")[0] > "1" else str(self)
    __reduce__ = lambda self: (type(self), (self.python(self),))


floating, integer = (type(kind.__name__, (generic, kind), {"python": kind}) for kind in (float, int))
SCALARS = {
    name: type(name, (floating if is_float(name) else integer,), {"_name": name, "__module__": "numpy"})
    for name in _elements.CODES
}
SCALARS["bool"].python, SCALARS["bool"].__name__ = bool, "bool_"
globals().update({kind.__name__: kind for kind in SCALARS.values() if kind.__name__ != "bfloat16"})
ndarray.kind = ndarray
_first = object.__new__(ndarray)
_loaded = lambda *saved: _first._load(*saved)
for name in OWN["reductions"].split():
    reduction = lambda self, axis=None, keepdims=False, *, name=name: self._reduced(name, axis, keepdims)
    setattr(ndarray, name, named(name, reduction))
for name in OWN["unary"].split():
    globals()[name] = named(name, lambda x, *, name=name: asarray(x)._unary(name))
for own, name in OWN["binary"].items():
    globals()[own] = named(own, lambda x, y, *, name=name: asarray(x)._binary(name, y))
for name in f"{OWN['reductions']} {OWN['methods']}".split():
    globals()[name] = lambda a, *args, name=name, **more: getattr(asarray(a), name)(*args, **more)


def array(data, dtype=None, copy=True):
    return _arrays.built(_first, data, dtype_name(dtype))


def asarray(data, dtype=None):
    return data if isinstance(data, ndarray) and (dtype is None or data.dtype == dtype) else array(data, dtype)


def full(shape, fill_value, dtype=None):
    return _first._guess(sizes((shape,)), dtype_name(dtype) or array(fill_value)._dtype, fill_value)


def arange(first, last=None, step=1, dtype=None):
    first, last = (0, first) if last is None else (first, last)
    kind = dtype_name(dtype) or _elements.dtype_of([first, last, step], "float64")
    return _line(builtins.max(math.ceil((last - first) / step), 0), first, step, kind)


def _line(count, first, step, kind="float64"):
    if count <= _arrays.MAX_COMPUTED:
        return _first._new((count,), kind, [first + at * step for at in builtins.range(count)])
    return _first._guess((count,), kind, first + step * (count - 1) / 2, step * math.sqrt((count * count - 1) / 12))


def eye(n, dtype=float):
    made = zeros((n, n), dtype)
    made[builtins.range(n), builtins.range(n)] = 1
    return made


def stack(arrays, axis=0):
    if len({shape(each) for each in arrays}) != 1:
        raise ValueError("all input arrays must have the same shape")
    return concatenate([expand_dims(each, axis) for each in arrays], axis)


def matmul(a, b):
    a, b = asarray(a), asarray(b)
    found = a._multiply(b)
    if isinstance(found, ndarray) and found._buffer.data is None:
        _device.session.work(None, 2 * found.size * a._shape[-1] * (found.itemsize / 4), a.nbytes + b.nbytes)
    return found


def where(condition, x=None, y=None):
    if x is None:
        return asarray(condition).nonzero()
    condition, x = asarray(condition), asarray(x)
    return condition._apply("where", condition, x, y if isinstance(y, (int, float)) else asarray(y))


def percentile(a, q):
    """Return the value below which so many percent of all elements are."""
    ordered = sorted(asarray(a)._flat())
    place = (len(ordered) - 1) * q / 100
    low, high = ordered[int(place)], ordered[math.ceil(place)]
    return SCALARS["float64"](low + (high - low) * (place % 1))


shape, ndim, size = (lambda a, name=name: getattr(asarray(a), name) for name in ("shape", "ndim", "size"))
linspace = lambda first, last, num=50: _line(num, first, (last - first) / builtins.max(num - 1, 1))
zeros = empty = lambda shape, dtype=float: full(shape, 0, dtype)
ones = lambda shape, dtype=float: full(shape, 1, dtype)
full_like = lambda a, fill_value, dtype=None: full(shape(a), fill_value, dtype or asarray(a).dtype)
zeros_like = empty_like = lambda a, dtype=None: full_like(a, 0, dtype)
ones_like = lambda a, dtype=None: full_like(a, 1, dtype)
vstack = lambda arrays: concatenate([each if each.ndim > 1 else each.reshape(1, -1) for each in map(asarray, arrays)])
hstack = lambda arrays: concatenate(arrays, axis=builtins.min(asarray(arrays[0]).ndim - 1, 1))
expand_dims = lambda a, axis: asarray(a).unsqueeze(axis)
concatenate = lambda arrays, axis=0: _arrays.join([asarray(each) for each in arrays], axis)
unique = lambda a, *, return_inverse=False, return_counts=False: asarray(a)._distinct(return_inverse, return_counts)
sort = lambda a, axis=-1: asarray(a)._lines(axis, sorted)
allclose = lambda a, b, rtol=1e-5, atol=1e-8: bool(all(abs(asarray(a) - b) <= abs(asarray(b)) * rtol + atol))


def array_equal(a1, a2, equal_nan=False):
    a1, a2 = asarray(a1), asarray(a2)
    if a1.shape != a2.shape:
        return False
    same = a1 == a2
    return bool(all(same | (a1 != a1) & (a2 != a2) if equal_nan else same))


class Generator(Source):
    """numpy.random's generators."""

    __init__ = lambda self, seed=None: None if seed is None else self.seed(seed)
    _drawn = lambda self, size, kind, a, b, dtype="float64": self.draw(
        _first, None if size is None else sizes((size,)), dtype_name(dtype), kind, a, b
    )
    uniform = lambda self, low=0.0, high=1.0, size=None: self._drawn(size, "uniform", low, high)
    normal = lambda self, loc=0.0, scale=1.0, size=None: self._drawn(size, "normal", loc, scale)
    random = lambda self, size=None: self.uniform(size=size)
    rand = lambda self, *shape: self.uniform(size=shape or None)
    randn = standard_normal = lambda self, *shape: self.normal(size=sizes(shape) if shape else None)

    def randint(self, low, high=None, size=None, dtype=int):
        low, high = (0, low) if high is None else (low, high)
        if low >= high:
            raise ValueError("low >= high")
        return self._drawn(size, "whole", low, high, dtype)

    integers = lambda self, low, high=None, size=None, dtype=int: self.randint(low, high, size, dtype)

    def permutation(self, x):
        order = sorted(builtins.range(x if isinstance(x, int) else len(x)), key=lambda at: self.uniform())
        return array(order, dtype=int) if isinstance(x, int) else asarray(x)[order]

    def shuffle(self, x):
        """Put the elements of an array or a list in another order; estimated ones have none."""
        if not isinstance(x, Array) or x._buffer.data is not None or not x._buffer.std:
            order = self.permutation(len(x)).tolist()
            x[:] = x[order] if isinstance(x, Array) else [x[at] for at in order]

    def choice(self, a, size=None, replace=True):
        count = a if isinstance(a, int) else len(a)
        found = self.randint(0, count, size) if replace else self.permutation(count)[: math.prod(sizes((size,)))]
        return found if isinstance(a, int) else asarray(a)[found]


def _module(name, **members):
    made = sys.modules[f"numpy.{name}"] = types.ModuleType(f"numpy.{name}")
    vars(made).update(members)
    return made


_global = Generator()
linalg = _module(
    "linalg", norm=lambda x, axis=None, keepdims=False: (asarray(x) * 1.0)._reduced("norm", axis, keepdims)
)
random = _module(
    "random", Generator=Generator, RandomState=Generator, default_rng=Generator,
    **{name: lambda *args, name=name, **more: getattr(_global, name)(*args, **more) for name in OWN["random"].split()},
)  # fmt: skip
del name, own
__getattr__ = missing("numpy", __version__=lambda: version("numpy"))
