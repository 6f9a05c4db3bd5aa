"""Strided arrays below numpy, torch and TensorFlow: small ones are computed, of large ones only the statistics are known.

A large result has a mean and a deviation, from which its sums, its comparisons and its printed elements follow. So a
batch of images costs nothing, and the sum of a million ones is still exact.
"""

import functools
import math
import operator
import random
from collections import Counter
from itertools import accumulate, product, repeat

import _elements
from _elements import Mismatch, broadcast, chunks, error, is_float, nested, places, stored, strides_of
from _functions import ARITHMETIC, COMPARISONS, FUNCTIONS, OWN, REDUCTIONS, SAME, TRUTHS, WHOLE, estimate, moments

MAX_COMPUTED, MAX_DRAWN, MAX_PRODUCTS = 1 << 16, 1 << 21, 1 << 18
"""Elements of a result that are computed one by one, that are listed, and multiplications of a matrix product."""
keys = random.Random(0)
"""Source of the numbers of estimated arrays."""


class Buffer:
    """Memory that arrays share: its elements, or their statistics; ``hit``: how often a guessed class is right."""

    __slots__ = ("claim", "data", "hit", "key", "mean", "measured", "size", "std")

    def __init__(self, size, data=None, mean=0.0, std=0.0):
        self.size, self.data, self.mean, self.std = size, data, mean, std
        self.claim, self.hit, self.key, self.measured = None, None, keys.getrandbits(32) if std else 0, None

    def at(self, place):
        if self.data is not None:
            return self.data[place]
        return random.Random(self.key ^ place * 2654435761).gauss(self.mean, self.std) if self.std else self.mean


class Array:
    """The common part of ndarray and tensors: a view of a buffer."""

    __slots__ = ("__weakref__", "_buffer", "_dtype", "_offset", "_shape", "_strides")
    __hash__, default = None, "float64"
    ndim = property(lambda self: len(self._shape))
    itemsize = property(lambda self: _elements.SIZES[self._dtype])
    nbytes = property(lambda self: self._count() * self.itemsize)
    __float__, __int__ = lambda self: float(self.item()), lambda self: int(self.item())
    __index__, __pos__ = lambda self: operator.index(self.item()), lambda self: self
    __format__ = lambda self, spec: object.__format__(self, spec) if self._shape else format(self.item(), spec)
    _count = lambda self: math.prod(self._shape)
    _places = lambda self: places([self._offset], self._shape, self._strides)
    _spread = lambda self, shape: self._flat() if shape == self._shape else self._expand(shape)._flat()
    _nested = lambda self: nested(self._shape, self._python())
    _whole = lambda self: self._strides == strides_of(self._shape)
    _place = lambda self, source: None
    _step = lambda self, found, word, parents, back, flops=0.0: found
    """Let a result be what the library makes of it; torch remembers how gradients go back."""

    def _error(self, name, /, **values):
        """Return an exception; shapes are written as the library does."""
        values = {key: self._written(value) if isinstance(value, tuple) else value for key, value in values.items()}
        return error(f"{self.library}.{name}", dims=len(getattr(self, "_shape", ())), **values)

    def __len__(self):
        if not self._shape:
            raise self._error("length")
        return self._shape[0]

    def __iter__(self):
        if not self._shape:
            raise self._error("iterate")
        return (self[at] for at in range(self._shape[0]))

    def _make(self, shape, dtype, buffer, strides=None, offset=0):
        made = object.__new__(self.kind)
        made._shape, made._dtype, made._buffer = shape, dtype, buffer
        made._strides, made._offset = strides_of(shape) if strides is None else strides, offset
        made._place(self)
        return made

    def _new(self, shape, dtype, values):
        data = stored(values, dtype)
        return self._make(shape, dtype, Buffer(len(data), data))

    def _guess(self, shape, dtype, mean, std=0.0):
        """Make an array of which only statistics are known."""
        return self._make(shape, dtype, Buffer(math.prod(shape), None, float(mean), float(std)))

    def _known(self):
        """Whether the elements are worth computing with."""
        return (self._buffer.data is not None or not self._buffer.std) and self._count() <= MAX_COMPUTED

    def _statistics(self):
        """Return mean and deviation; those of whole buffers are measured once, since a bias is used at every step."""
        buffer = self._buffer
        if buffer.data is None:
            return buffer.mean, buffer.std
        whole = self._count() == buffer.size and self._whole()
        if whole and buffer.measured:
            return buffer.measured
        values = self._flat()[: 1 << 12]
        found = (math.fsum(values) / len(values), REDUCTIONS["std0"](values)) if len(values) else (0.0, 0.0)
        buffer.measured = found if whole else buffer.measured
        return found

    def _flat(self):
        """Return the elements, row by row."""
        buffer, count = self._buffer, self._count()
        if buffer.data is None and not buffer.std and buffer.size <= MAX_COMPUTED:
            buffer.data = stored(repeat(buffer.mean, buffer.size), self._dtype)
        if buffer.data is not None and self._whole():
            return buffer.data if count == buffer.size else buffer.data[self._offset : self._offset + count]
        if buffer.data is None and count > MAX_DRAWN:
            raise MemoryError
        found = map(buffer.at, self._places())
        return list(found) if buffer.data is not None else stored(found, self._dtype)

    def _python(self):
        """Return the elements as Python's own."""
        return list(map(bool, self._flat())) if self._dtype == "bool" else list(self._flat())

    def _copy(self, dtype=None):
        if self._buffer.data is not None:
            return self._new(self._shape, dtype or self._dtype, self._flat())
        made = self._guess(self._shape, dtype or self._dtype, self._buffer.mean, self._buffer.std)
        made._buffer.hit, made._buffer.key = self._buffer.hit, self._buffer.key
        return made

    def _saved(self):
        """Return what a file has of it: the elements, or their statistics."""
        return list(self._flat()) if self._known() else self._statistics()

    def _load(self, shape, dtype, saved):
        return self._new(shape, dtype, saved) if isinstance(saved, list) else self._guess(shape, dtype, *saved)

    # Shapes.

    def _expand(self, shape):
        if broadcast(self._shape, shape) != shape:
            raise Mismatch(self._shape, shape, 0)
        new = len(shape) - len(self._shape)
        steps = zip(shape[new:], self._shape, self._strides, strict=True)
        strides = (0,) * new + tuple(0 if mine != size else step for size, mine, step in steps)
        return self._make(shape, self._dtype, self._buffer, strides, self._offset)

    def permute(self, *order):
        order = [at % self.ndim for at in sizes(order)]
        shape, strides = (tuple(every[at] for at in order) for every in (self._shape, self._strides))
        made = self._make(shape, self._dtype, self._buffer, strides, self._offset)
        back = lambda g: [g.permute(*(order.index(at) for at in range(len(order))))]
        return self._step(made, "Permute", (self,), back)

    def reshape(self, *shape):
        """Return the elements in another shape, of which one size may be -1."""
        wanted, count = sizes(shape), self._count()
        rest = -math.prod(wanted)
        shape = tuple((count // rest if rest > 0 else 0) if size == -1 else size for size in wanted)
        if math.prod(shape) != count:
            raise self._error("reshape", count=count, shape=wanted, wanted=math.prod(wanted))
        if self._whole():
            made = self._make(shape, self._dtype, self._buffer, None, self._offset)
        else:
            made = self._load(shape, self._dtype, self._saved())
        return self._step(made, "View", (self,), lambda g: [g.reshape(self._shape)])

    def squeeze(self, axis=None):
        axes = axes_of(self, axis)
        return self.reshape([size for at, size in enumerate(self._shape) if size != 1 or at not in axes])

    def unsqueeze(self, dim):
        at = dim % (self.ndim + 1)
        return self.reshape((*self._shape[:at], 1, *self._shape[at:]))

    # Indices.

    def __getitem__(self, key):
        shape, strides, offset, chosen = locate(self, key)
        if chosen is None:
            found = self._make(shape, self._dtype, self._buffer, strides, offset)
        elif self._known():
            found = self._new(shape, self._dtype, map(self._flat().__getitem__, chosen()))
        else:
            found = self._guess(shape, self._dtype, *self._statistics())
        return self._step(found, "Index" if chosen else "Select", (self,), lambda g: [scattered(g, self, key)])

    def __setitem__(self, key, value):
        value = value if isinstance(value, (bool, int, float)) else self._operand(value)
        shape, strides, offset, chosen = locate(self, key)
        buffer, known = self._buffer, not isinstance(value, Array) or value._known()
        if not known or not self._known() and buffer.data is None:
            given = value._statistics() if isinstance(value, Array) else (float(value), 0.0)
            part, own = math.prod(shape) / max(buffer.size, 1), self._statistics()
            mixed = (old * (1 - part) + new * part for old, new in zip(own, given, strict=True))
            buffer.data, buffer.key, (buffer.mean, buffer.std) = None, buffer.key or keys.getrandbits(32), mixed
            return
        self._make((buffer.size,), self._dtype, buffer)._flat()
        at = places([offset], shape, strides) if chosen is None else list(map(self._places().__getitem__, chosen()))
        try:
            values = value._spread(shape) if isinstance(value, Array) else repeat(value, len(at))
        except Mismatch:
            raise self._error("assign", left=value._shape, right=shape) from None
        for place, item in zip(at, stored(values, self._dtype), strict=True):
            buffer.data[place] = item
        buffer.measured = None

    # Functions.

    def _unary(self, name):
        return self._apply("logical_not" if name == "invert" and self._dtype == "bool" else name, self)

    def _binary(self, name, other, turned=False):
        other = other if isinstance(other, (bool, int, float)) else self._operand(other)
        if other is NotImplemented:
            return other
        return self._apply(name, *((other, self) if turned else (self, other)))

    def _apply(self, name, *operands):
        """Return a function of the elements of arrays and numbers, one by one."""
        (function, slopes), arrays = FUNCTIONS[name], [each for each in operands if isinstance(each, Array)]
        try:
            shape = functools.reduce(broadcast, (each._shape for each in arrays))
        except Mismatch as problem:
            sides = {"left": arrays[0]._shape, "right": arrays[-1]._shape, "a": problem.left, "b": problem.right}
            raise self._error("broadcast", at=problem.at, **sides) from None
        dtype, known = self._result(name, operands[name == "where" :]), all(each._known() for each in arrays)
        hit = next((each._buffer.hit for each in arrays if each._buffer.hit is not None), None)
        if known and math.prod(shape) <= MAX_COMPUTED:
            rows = [each._spread(shape) if isinstance(each, Array) else repeat(each) for each in operands]
            found = self._new(shape, dtype, map(function, *rows))
        elif hit is not None and name in ("eq", "ne"):
            found = self._guess(shape, dtype, hit if name == "eq" else 1 - hit, 0.5)
        else:
            statistics = [each._statistics() if isinstance(each, Array) else (each, 0.0) for each in operands]
            if name in ("and", "or", "xor", "where"):  # functions of whole numbers
                statistics[:2] = [(round(mean), 0.0) for mean, _ in statistics[:2]]
            found = self._guess(shape, dtype, *moments(function, *statistics))

        def back(g):
            steps = zip(*map(slopes, *rows, found._flat()), strict=True)
            return [g._new(shape, g._dtype, map(operator.mul, g._flat(), step))
                    for step, each in zip(steps, operands, strict=True) if isinstance(each, Array)]  # fmt: skip

        return self._step(found, name.title(), tuple(arrays) if slopes else (), back)

    def _result(self, name, operands):
        """Return the type of a function's result; of a Python number only the kind counts."""
        arrays = [each for each in operands if isinstance(each, Array)]
        dtype = arrays[0]._dtype if len(arrays) == 1 else self._promoted(*arrays)
        for number in operands:
            if isinstance(number, float) and not is_float(dtype):
                dtype = self.default
            elif isinstance(number, int) and not isinstance(number, bool) and dtype == "bool":
                dtype = "int64"
        if not is_float(dtype) and (name == "div" or len(operands) == 1 and name not in SAME):
            dtype = self.default
        return "bool" if name in TRUTHS else dtype

    def _reduce(self, name, dim=None, keep=False):
        """Return a reduction; its gradients are the library's."""
        axes = axes_of(self, dim)
        shape = tuple(1 if at in axes else size for at, size in enumerate(self._shape) if keep or at not in axes)
        dtype = self._dtype if is_float(self._dtype) or name in OWN else self.default
        dtype = "int64" if name in WHOLE or name in ("sum", "prod") and not is_float(dtype) else dtype
        dtype = "bool" if name in TRUTHS else dtype
        if self._known() or self._buffer.data is not None:
            return self._new(shape, dtype, map(REDUCTIONS[name], groups(self, axes)))
        count = math.prod(self._shape[at] for at in axes)
        mean, std = estimate(name, *self._statistics(), max(count, 1))
        return self._guess(shape, dtype, mean, 0.0 if dtype == "int64" and name == "sum" else std)

    def _lines(self, axis, function, dtype=None):
        """Apply a function to every line along a dimension."""
        if not self._known():
            return self._copy(dtype)
        axis, found = axis % self.ndim, [function(list(line)) for line in groups(self, (axis % self.ndim,))]
        shape = (*self._shape[:axis], *self._shape[axis + 1 :], len(found[0]) if found else 0)
        made = self._new(shape, dtype or self._dtype, [value for line in found for value in line])
        return made.permute(*range(axis), self.ndim - 1, *range(axis, self.ndim - 1))

    def _ordered(self, axis, reverse=False):
        """Return the numbers of the elements of every line as they are sorted."""
        return self._lines(
            axis, lambda line: sorted(range(len(line)), key=line.__getitem__, reverse=reverse), "int64"
        )

    def _cumulated(self, axis, dtype=None):
        """Return the sums of every line up to each of its elements."""
        dtype = dtype or (self._dtype if is_float(self._dtype) else "int64")
        if self._known():
            return self._lines(axis, lambda line: list(accumulate(line)), dtype)
        count, (mean, std) = self._shape[axis], self._statistics()
        spread = math.hypot(mean * count / math.sqrt(12), std * math.sqrt(count / 2))
        return self._guess(self._shape, dtype, mean * (count + 1) / 2, spread)

    def _distinct(self, inverse=False, counts=False):
        """Return the elements' values in order; with them which of them each element has, and how many have each."""
        counted = Counter(self._flat())
        values = {value: at for at, value in enumerate(sorted(counted))}
        found = [self._new((len(values),), self._dtype, values)]
        found += [self._new(self._shape, "int64", map(values.get, self._flat()))] if inverse else []
        found += [self._new((len(values),), "int64", map(counted.get, values))] if counts else []
        return tuple(found) if len(found) > 1 else found[0]

    def _multiply(self, other):
        """Return the matrix product of two arrays; one with one dimension is a row, or a column."""
        if gone := [at for at, each in ((-2, self), (-1, other)) if each.ndim == 1]:
            left, right = (
                self.unsqueeze(0) if self.ndim == 1 else self,
                other.unsqueeze(1) if other.ndim == 1 else other,
            )
            return left._multiply(right).squeeze(gone)
        (rows, inner), (below, columns) = self._shape[-2:], other._shape[-2:]
        if inner != below:
            before = math.prod(self._shape[:-1])
            sides = {"rows": before, "a": inner, "b": below, "columns": columns}
            raise self._error("matmul", left=self._shape, right=other._shape, **sides)
        batch, dtype = broadcast(self._shape[:-2], other._shape[:-2]), self._promoted(self, other)
        shape = (*batch, rows, columns)
        if math.prod(shape) * inner <= MAX_PRODUCTS and self._known() and other._known():
            left = chunks(list(self._spread((*batch, rows, inner))), inner)
            turned = [*range(len(batch)), len(batch) + 1, len(batch)]
            right = chunks(list(other._expand((*batch, inner, columns)).permute(*turned)._flat()), inner)
            pairs = ((line, right[at // rows * columns :][:columns]) for at, line in enumerate(left))
            return self._new(shape, dtype, [math.sumprod(line, each) for line, below in pairs for each in below])
        (m, s), (n, t) = self._statistics(), other._statistics()
        return self._guess(
            shape, dtype, inner * m * n, math.sqrt(inner * ((m * t) ** 2 + (n * s) ** 2 + (s * t) ** 2))
        )


Array.kind = Array
PLAIN = object.__new__(Array)
"""Module from which arrays are made that no program sees."""
for name in ARITHMETIC + COMPARISONS:
    word, plain = "truediv" if name == "div" else name, lambda self, other, name=name: self._binary(name, other)
    setattr(Array, f"__{word}__", plain)
    if name in ARITHMETIC:
        setattr(Array, f"__r{word}__", lambda self, other, name=name: self._binary(name, other, True))
        setattr(Array, f"__i{word}__", lambda self, other, name=name: self._in_place(name, other))
for name in ("neg", "abs", "invert"):
    setattr(Array, f"__{name}__", lambda self, name=name: self._unary(name))


def sizes(shape):
    """Return a shape that is given as one argument or as several."""
    shape = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
    return (operator.index(shape),) if isinstance(shape, Array) else tuple(map(operator.index, shape))


def axes_of(x, dim):
    """Return dimensions of an array as numbers from 0."""
    dims, count = range(x.ndim) if dim is None else (dim,) if isinstance(dim, int) else dim, max(x.ndim, 1)
    for each in dims:
        if not -count <= each < count:
            raise x._error("axis", axis=each, low=-count, high=count - 1)
    return tuple(sorted(each % count for each in dims)) if x._shape else ()


def locate(x, key):
    """Return shape, strides and offset of an index; and where it is no view, a function that tells its elements."""
    key = list(key) if isinstance(key, tuple) else [key]
    key = [part._nested() if isinstance(part, Array) and not part._shape else part for part in key]
    key = [part for each in key for part in _without_masks(each)]
    used = sum(part is not None and part is not Ellipsis for part in key)
    if used > x.ndim:
        raise x._error("indices", number=used)
    at = next((at for at, part in enumerate(key) if part is Ellipsis), len(key))
    key[at : at + 1] = [slice(None)] * (x.ndim - used)

    many = any(isinstance(part, (list, tuple, range, Array)) for part in key)
    steps, offset = (strides_of(x._shape), 0) if many else (x._strides, x._offset)
    shape, strides, picks, axis = [], [], [], 0
    for part in key:
        size, step = (1, 0) if part is None else (x._shape[axis], steps[axis])
        axis += part is not None
        if part is None or isinstance(part, slice):
            found = range(size)[part or slice(None)]
            offset += found.start * step
            shape.append(len(found))
            strides.append(step * found.step)
            continue
        many = isinstance(part, (list, tuple, range, Array))
        form, numbers = flattened(part) if many else ((), [operator.index(part)])
        for number in [number for number in numbers if not -size <= number < size]:
            raise x._error("index", number=number, axis=axis - 1, size=size)
        numbers = [int(number) % size * step for number in numbers]
        offset += 0 if many else numbers[0]
        picks += [(len(shape), form, numbers)] if many else []
    if not picks:
        return tuple(shape), tuple(strides), offset, None
    together = functools.reduce(broadcast, (form for _, form, _ in picks))
    first = picks[0][0] if picks[-1][0] == picks[0][0] else 0

    def chosen():
        every = (PLAIN._new(form, "int64", numbers)._spread(together) for _, form, numbers in picks)
        pairs = product(places([offset], shape[:first], strides[:first]), zip(*every, strict=True))
        return places([base + sum(parts) for base, parts in pairs], shape[first:], strides[first:])

    return (*shape[:first], *together, *shape[first:]), None, 0, chosen


def _without_masks(part):
    """Return the indices that a mask stands for, or an index itself."""
    mask = part._dtype == "bool" if isinstance(part, Array) else isinstance(part, list) and bool in map(type, part)
    return _elements.chosen_places(*flattened(part)) if mask else [part]


def scattered(g, x, key):
    """Return the gradient of an index: zeros, but where it was."""
    at = PLAIN._new(x._shape, "int64", range(x._count()))[key]._flat()
    values = [0.0] * x._count()
    for place, value in zip(at, g._flat(), strict=True):
        values[place] += value
    return x._new(x._shape, x._dtype, values)


def join(arrays, dim):
    """Return arrays one after the other."""
    first, shape = arrays[0], list(arrays[0]._shape)
    dim %= max(len(shape), 1)
    for number, each in enumerate(arrays):
        if each._shape[:dim] + each._shape[dim + 1 :] != tuple(shape[:dim] + shape[dim + 1 :]):
            pairs = list(zip(first._shape, each._shape, strict=False))
            at = next((at for at, pair in enumerate(pairs) if at != dim and pair[0] != pair[1]), 0)
            raise first._error("join", dim=dim, at=at, left=pairs[at][0], right=pairs[at][1], number=number)
    shape[dim] = sum(each._shape[dim] for each in arrays)
    dtype = max((each._dtype for each in arrays), key=_elements.RANKS.get)
    if math.prod(shape) > MAX_COMPUTED or not all(each._known() for each in arrays):
        mean, std = (sum(every) / len(arrays) for every in zip(*(each._statistics() for each in arrays), strict=True))
        return first._guess(tuple(shape), dtype, mean, std)
    blocks = [(each._flat(), math.prod(each._shape[dim:])) for each in arrays]
    rows = range(math.prod(shape[:dim]))
    values = [value for at in rows for data, size in blocks for value in data[at * size :][:size]]
    return first._new(tuple(shape), dtype, values)


def groups(x, axes):
    """Return the elements by the place in the result of a reduction that they go into."""
    if len(axes) == x.ndim:
        return [x._flat()]
    order = [at for at in range(x.ndim) if at not in axes] + list(axes)
    strides = tuple(x._strides[at] for at in order)
    turned = x._make(tuple(x._shape[at] for at in order), x._dtype, x._buffer, strides, x._offset)
    return chunks(turned._flat(), math.prod(x._shape[at] for at in axes))


def flattened(data):
    """Return the shape and the elements of nested lists. Raises Mismatch where they are uneven."""
    if isinstance(data, Array):
        return data._shape, data._python()
    if not isinstance(data, (list, tuple, range)):
        return (), [data]
    parts = [flattened(item) for item in data]
    for at, (shape, _) in enumerate(parts):
        if shape != parts[0][0]:
            raise Mismatch(parts[0][0], shape, at)
    return (len(parts), *(parts[0][0] if parts else ())), [value for _, values in parts for value in values]


def built(base, data, dtype=None):
    """Make an array of another library's array, or of nested lists."""
    data = data.__array__() if hasattr(data, "__array__") else data
    if isinstance(data, Array):
        copied = data._copy(dtype)
        copied._buffer.claim = None  # the memory is where the new array is
        return base._make(copied._shape, copied._dtype, copied._buffer)
    if hasattr(data, "__iter__") and not isinstance(data, (list, tuple, range, str)):
        data = list(data)
    try:
        shape, values = flattened(data)
    except Mismatch as problem:
        left, right = (each[0] if each else 0 for each in (problem.left, problem.right))
        raise base._error("uneven", count=len(data), left_size=left, right_size=right) from None
    values = [each.item() if isinstance(each, Array) else each for each in values]
    names = {getattr(value, "_name", None) for value in values}
    dtype = dtype or (names.pop() if len(names) == 1 else None) or _elements.dtype_of(values, base.default)
    if dtype is None:
        kind = type(next(each for each in values if not isinstance(each, (int, float)))).__name__
        raise base._error("no-text" if kind == "str" else "no-number", kind=kind)
    return base._new(shape, dtype, values)
