"""Strided arrays below numpy and torch: small ones are computed, of large ones only the statistics are known.

A large result has a mean and a deviation, from which its sums, its comparisons and its printed elements follow. So a
batch of images costs nothing, and the sum of a million ones is still exact.
"""

import math
import operator
import random
import struct
from array import array
from itertools import repeat

import _device

MAX_COMPUTED = 1 << 16
"""Elements of a result that are computed one by one."""
MAX_DRAWN = 1 << 21
CODES = {
    "bool": "B", "uint8": "B", "int8": "b", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q",
    "uint64": "Q", "float16": "f", "bfloat16": "f", "float32": "f", "float64": "d", "object": "", "str": "",
}  # fmt: skip
SIZES = {name: 2 if name.endswith("float16") else array(code or "q").itemsize for name, code in CODES.items()}
RANKS = {name: rank for rank, name in enumerate(CODES)}
BRAIN = struct.Struct(">f")


def is_float(dtype):
    return "float" in dtype


def single(value):
    """Round to 32 bits."""
    return array("f", (value,))[0]


def half(value):
    try:
        return struct.unpack("e", struct.pack("e", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def brain(value):
    bits = int.from_bytes(BRAIN.pack(single(value)), "big")
    return BRAIN.unpack(((bits + 0x7FFF + (bits >> 16 & 1) >> 16 << 16) & 0xFFFFFFFF).to_bytes(4, "big"))[0]


def stored(values, dtype):
    """Return elements as an array of the type has them: rounded, or wrapped."""
    code = CODES[dtype]
    if not code:
        return list(values)
    if dtype == "bool":
        return array("B", map(bool, values))
    if is_float(dtype):
        return array(code, map({"float16": half, "bfloat16": brain}.get(dtype, float), values))
    values = list(values)
    try:
        return array(code, values)
    except (OverflowError, TypeError):
        bits = SIZES[dtype] * 8
        low = 0 if dtype[0] == "u" else 1 << bits - 1
        whole = (int(value) if math.isfinite(value) else -low for value in values)
        return array(code, [(value + low) % (1 << bits) - low for value in whole])


class Buffer:
    """Memory that arrays share: its elements, or their statistics; ``draw`` tells the element at a place."""

    __slots__ = ("claim", "data", "draw", "hit", "key", "mean", "size", "std")

    def __init__(self, size, data=None, mean=0.0, std=0.0, draw=None):
        self.size, self.data, self.mean, self.std, self.draw = size, data, mean, std, draw
        self.claim = self.hit = None
        self.key = 0 if data is not None else _device.generator.getrandbits(32)

    def at(self, place):
        if self.data is not None:
            return self.data[place]
        if self.draw:
            return self.draw(place)
        return random.Random(self.key ^ place * 2654435761).gauss(self.mean, self.std) if self.std else self.mean

    def forget(self, mean, std):
        self.data, self.draw, self.mean, self.std = None, None, mean, std


class Array:
    """The common part of ndarray and Tensor: a view of a buffer."""

    __slots__ = ("__weakref__", "_buffer", "_dtype", "_offset", "_shape", "_strides")
    default = "float64"
    _count = lambda self: math.prod(self._shape)
    _places = lambda self: places([self._offset], self._shape, self._strides)
    _spread = lambda self, shape: self._flat() if shape == self._shape else self._expand(shape)._flat()
    _nested = lambda self: nested(self._shape, self._python())

    def _make(self, shape, dtype, buffer, strides=None, offset=0):
        made = object.__new__(self.kind)
        made._shape, made._dtype, made._buffer = shape, dtype, buffer
        made._strides, made._offset = strides_of(shape) if strides is None else strides, offset
        made._place(self)
        return made

    def _place(self, source):
        """Go where the array is from which this one follows."""

    def _new(self, shape, dtype, values):
        data = stored(values, dtype)
        return self._make(shape, dtype, Buffer(len(data), data))

    def _guess(self, shape, dtype, mean, std=0.0, draw=None):
        """Make an array of which only statistics are known."""
        return self._make(shape, dtype, Buffer(math.prod(shape), None, float(mean), float(std), draw))

    def _known(self):
        """Whether the elements are worth computing with."""
        buffer = self._buffer
        return (buffer.data is not None or bool(buffer.draw) or not buffer.std) and self._count() <= MAX_COMPUTED

    def _statistics(self):
        buffer = self._buffer
        if buffer.data is None:
            return buffer.mean, buffer.std
        values = self._flat()
        few = values[:: len(values) // MAX_COMPUTED + 1]
        mean = math.fsum(few) / len(few) if len(few) else 0.0
        return mean, math.sqrt(sum((value - mean) ** 2 for value in few) / len(few)) if len(few) else 0.0

    def _whole(self):
        """Whether the elements lie in the buffer as they are counted."""
        return self._strides == strides_of(self._shape)

    def _flat(self):
        """Return the elements, row by row."""
        buffer, count = self._buffer, self._count()
        if buffer.data is None:
            if count > MAX_DRAWN:
                raise MemoryError
            if buffer.size <= MAX_COMPUTED and (buffer.draw or not buffer.std):
                buffer.data = stored(map(buffer.at, range(buffer.size)), self._dtype)
            else:
                at = range(self._offset, self._offset + count) if self._whole() else self._places()
                return stored(map(buffer.at, at), self._dtype)
        if self._whole():
            return buffer.data if count == buffer.size else buffer.data[self._offset : self._offset + count]
        return list(map(buffer.data.__getitem__, self._places()))

    def _python(self):
        """Return the elements as Python's own."""
        return list(map(bool, self._flat())) if self._dtype == "bool" else list(self._flat())

    def _expand(self, shape):
        if broadcast(self._shape, shape) != shape:
            raise Mismatch(self._shape, shape, 0)
        new = len(shape) - len(self._shape)
        steps = zip(shape[new:], self._shape, self._strides, strict=True)
        strides = (0,) * new + tuple(0 if mine != size else step for size, mine, step in steps)
        return self._make(shape, self._dtype, self._buffer, strides, self._offset)

    def _permute(self, order):
        shape, strides = (tuple(every[at] for at in order) for every in (self._shape, self._strides))
        return self._make(shape, self._dtype, self._buffer, strides, self._offset)

    def _reshape(self, shape):
        """Return the elements in another shape, of which one size may be -1. Raises ValueError."""
        count = self._count()
        if -1 in shape:
            rest = -math.prod(shape)
            shape = tuple((count // rest if rest else 0) if size == -1 else size for size in shape)
        if math.prod(shape) != count:
            raise ValueError
        if self._whole():
            return self._make(shape, self._dtype, self._buffer, None, self._offset)
        if self._buffer.data is None:
            return self._guess(shape, self._dtype, *self._statistics())
        return self._new(shape, self._dtype, self._flat())

    def _copy(self, dtype=None, base=None):
        """Return a copy, of another type or made as another array is."""
        base, dtype, buffer = self if base is None else base, dtype or self._dtype, self._buffer
        if buffer.data is not None or buffer.draw and self._known():
            return base._new(self._shape, dtype, self._flat())
        made = base._guess(self._shape, dtype, buffer.mean, buffer.std, self._whole() and buffer.draw or None)
        made._buffer.hit, made._buffer.key = buffer.hit, buffer.key
        made._offset = self._offset if made._buffer.draw else 0
        return made

    def _saved(self):
        """Return what a file has of it: the elements, or their statistics."""
        return list(self._flat()) if self._known() else self._statistics()

    def _set(self, key, value):
        shape, strides, offset, chosen = locate(self, key)
        buffer = self._buffer
        if buffer.data is None and buffer.size <= MAX_COMPUTED and self._known():
            self._make(self._shape, self._dtype, buffer)._flat()
        if buffer.data is None or isinstance(value, Array) and not value._known():
            mean, std = value._statistics() if isinstance(value, Array) else (float(value), 0.0)
            part = math.prod(shape) / max(buffer.size, 1)
            own = self._statistics()
            buffer.forget(own[0] * (1 - part) + mean * part, own[1] * (1 - part) + std * part)
            return
        chosen = places([offset], shape, strides) if chosen is None else chosen
        values = value._spread(shape) if isinstance(value, Array) else repeat(value, len(chosen))
        for place, item in zip(chosen, stored(values, self._dtype), strict=True):
            buffer.data[place] = item


class Mismatch(ValueError):
    """Two shapes do not go together."""

    def __init__(self, left, right, at):
        super().__init__(left, right, at)
        self.left, self.right, self.at = left, right, at


def strides_of(shape):
    found, step = [], 1
    for size in reversed(shape):
        found.append(step)
        step *= size
    return tuple(found[::-1])


def places(at, shape, strides):
    """Return where the elements of a view lie, from each of some places on."""
    for size, stride in zip(shape, strides, strict=True):
        steps = range(0, stride * size, stride) if stride else (0,) * size
        at = [base + step for base in at for step in steps]
    return at


def broadcast(left, right):
    if left == right:
        return left
    length = max(len(left), len(right))
    left, right = (1,) * (length - len(left)) + left, (1,) * (length - len(right)) + right
    for at, (mine, other) in enumerate(zip(left, right, strict=True)):
        if mine != other and 1 not in (mine, other):
            raise Mismatch(mine, other, at)
    return tuple(mine if other == 1 else other for mine, other in zip(left, right, strict=True))


def promote(left, right, wide=True):
    """Return the type of a result; ``wide``: as numpy has it, where 32 bits of an integer need 64 of a float."""
    high, low = (left, right) if RANKS[left] >= RANKS[right] else (right, left)
    if {high, low} == {"bfloat16", "float16"} or wide and high == "float16" and SIZES[low] == 2 and low[:3] == "int":
        return "float32"
    if wide and high in ("float16", "float32") and SIZES[low] > 2 and not is_float(low):
        return "float64"
    return "int16" if {high, low} == {"int8", "uint8"} else high


def axes_of(shape, dim):
    """Return dimensions as numbers from 0. Raises IndexError for one that there is not."""
    dims = range(len(shape)) if dim is None else (dim,) if isinstance(dim, int) else dim
    count = max(len(shape), 1)
    for each in dims:
        if not -count <= each < count:
            raise IndexError(each, count)
    return tuple(sorted(each % count for each in dims)) if shape else ()


# Places.


def indices(part, axis, size):
    """Return the shape and the numbers of an index that is a list or an array. Raises IndexError."""
    shape, values = (part._shape, part._flat()) if isinstance(part, Array) else flattened(part)
    for at in values:
        if not -size <= at < size:
            raise IndexError(at, axis, size)
    return shape, [int(at) % size for at in values]


def locate(x, key):
    """Return shape, strides and offset of an index; and where it is no view, the places of its elements.

    Raises IndexError, with (index, axis, size) or the number of indices.
    """
    key = list(key) if isinstance(key, tuple) else [key]
    key = [part._nested() if isinstance(part, Array) and not part._shape else part for part in key]
    key = [part for each in key for part in (places_of(each) if _is_mask(each) else [each])]
    used = sum(part is not None and part is not Ellipsis for part in key)
    if used > len(x._shape):
        raise IndexError(used)
    at = next((at for at, part in enumerate(key) if part is Ellipsis), len(key))
    key[at : at + 1] = [slice(None)] * (len(x._shape) - used)
    shape, strides, offset, picks, axis = [], [], x._offset, [], 0
    for part in key:
        if part is None:
            shape.append(1)
            strides.append(0)
            continue
        size, step = x._shape[axis], x._strides[axis]
        axis += 1
        if isinstance(part, slice):
            start, stop, stride = part.indices(size)
            offset += start * step
            shape.append(len(range(start, stop, stride)))
            strides.append(step * stride)
        elif isinstance(part, (list, tuple, range, Array)):
            picks.append((len(shape), *indices(part, axis - 1, size), step))
        else:
            number = operator.index(part)
            if not -size <= number < size:
                raise IndexError(number, axis - 1, size)
            offset += number % size * step
    if not picks:
        return tuple(shape), tuple(strides), offset, None
    return _gathered(x, shape, strides, offset, picks)


def _is_mask(part):
    return (
        isinstance(part, Array) and part._dtype == "bool" or isinstance(part, list) and type((part or [0])[0]) is bool
    )


def places_of(mask):
    shape, values = (mask._shape, mask._flat()) if isinstance(mask, Array) else ((len(mask),), mask)
    found = [at for at, value in enumerate(values) if value]
    return [[at // step % size for at in found] for size, step in zip(shape, strides_of(shape), strict=True)]


def _gathered(x, shape, strides, offset, picks):
    together = ()
    for _, form, _, _ in picks:
        together = broadcast(together, form)
    steps = [0] * math.prod(together)
    for _, form, numbers, step in picks:
        every = x._new(form, "int64", numbers)._spread(together)
        steps = [base + number * step for base, number in zip(steps, every, strict=True)]
    first = picks[0][0] if picks[-1][0] == picks[0][0] else 0
    whole = (*shape[:first], *together, *shape[first:])
    if x._buffer.data is None and math.prod(whole) > MAX_COMPUTED:
        return whole, None, 0, ()
    at = [base + step for base in places([offset], shape[:first], strides[:first]) for step in steps]
    at = places(at, shape[first:], strides[first:])
    return whole, None, 0, at


def pick(x, key):
    """Return ``x[key]``: a view, or a copy of chosen elements."""
    shape, strides, offset, found = locate(x, key)
    if found is None:
        return x._make(shape, x._dtype, x._buffer, strides, offset)
    if found == () or not x._known() and not x._buffer.draw:
        return x._guess(shape, x._dtype, *x._statistics())
    if x._known():
        x._flat()
    return x._new(shape, x._dtype, map(x._buffer.at, found))


def join(arrays, dim):
    """Return arrays one after the other. Raises Mismatch."""
    first, shape = arrays[0], list(arrays[0]._shape)
    dim %= max(len(shape), 1)
    for number, each in enumerate(arrays):
        if each._shape[:dim] + each._shape[dim + 1 :] != tuple(shape[:dim] + shape[dim + 1 :]):
            raise Mismatch(tuple(shape), each._shape, number)
    shape[dim] = sum(each._shape[dim] for each in arrays)
    dtype = first._dtype
    for each in arrays[1:]:
        dtype = first._promoted(dtype, each._dtype, first, each)
    if math.prod(shape) > MAX_COMPUTED or not all(each._known() for each in arrays):
        mean, std = (sum(every) / len(arrays) for every in zip(*(each._statistics() for each in arrays), strict=True))
        return first._guess(tuple(shape), dtype, mean, std)
    blocks = [(each._flat(), math.prod(each._shape[dim:])) for each in arrays]
    values = []
    for at in range(math.prod(shape[:dim])):
        for data, size in blocks:
            values += data[at * size : (at + 1) * size]
    return first._new(tuple(shape), dtype, values)


def choose(condition, x, y):
    """Return the elements of x where a condition holds, and those of y elsewhere."""
    shape = broadcast(broadcast(condition._shape, x._shape), y._shape)
    dtype = x._promoted(x._dtype, y._dtype, x, y)
    if not all(each._known() for each in (condition, x, y)) or math.prod(shape) > MAX_COMPUTED:
        return x._guess(shape, dtype, *x._statistics())
    rows = zip(*(each._spread(shape) for each in (condition, x, y)), strict=True)
    return x._new(shape, dtype, [a if test else b for test, a, b in rows])


def chunks(values, size):
    """Return pieces of so many elements."""
    return [values[at : at + size] for at in range(0, len(values), size)] if size else []


def nested(shape, values):
    if len(shape) < 2:
        return list(values) if shape else values[0]
    parts = chunks(values, math.prod(shape[1:])) or [[]] * shape[0]
    return [nested(shape[1:], part) for part in parts]


def flattened(data):
    """Return the shape and the elements of nested lists. Raises ValueError where they are uneven."""
    if isinstance(data, Array):
        return data._shape, data._python()
    if not isinstance(data, (list, tuple, range)):
        return (), [data]
    if not len(data):
        return (0,), []
    parts = [flattened(item) for item in data]
    if any(shape != parts[0][0] for shape, _ in parts):
        uneven = next(at for at, (shape, _) in enumerate(parts) if shape != parts[0][0])
        raise ValueError("uneven", parts[0][0], parts[uneven][0], uneven)
    return (len(parts), *parts[0][0]), [value for _, values in parts for value in values]


def dtype_of(values, default):
    """Return the type of an array that is made of Python's values."""
    kinds = {type(value) for value in values}
    if any(issubclass(kind, float) for kind in kinds) or not kinds:
        return default if all(issubclass(kind, (int, float)) for kind in kinds) else "object"
    if all(issubclass(kind, int) for kind in kinds):
        return "bool" if kinds == {bool} else "int64"
    return "str" if kinds == {str} else "object"
