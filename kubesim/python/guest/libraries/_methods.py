"""Methods and operators that NumPy's arrays and PyTorch's tensors have in common."""

import operator

import _arrays
from _arrays import Array, axes_of

ARITHMETIC = "add sub mul pow mod and or xor lshift rshift floordiv div".split()
COMPARISONS = "eq ne lt le gt ge".split()


class Common(Array):
    """What both kinds of arrays can do; each words its own errors."""

    __slots__ = ()
    __hash__ = None
    ndim = property(lambda self: len(self._shape))
    itemsize = property(lambda self: _arrays.SIZES[self._dtype])
    nbytes = property(lambda self: self._count() * self.itemsize)
    __float__, __int__ = lambda self: float(self.item()), lambda self: int(self.item())
    __index__, __pos__ = lambda self: operator.index(self.item()), lambda self: self
    __format__ = lambda self, spec: object.__format__(self, spec) if self._shape else format(self.item(), spec)
    __contains__ = lambda self, value: any(value == each for each in self._flat())

    def __len__(self):
        if not self._shape:
            raise TypeError(self.no_length)
        return self._shape[0]

    def __iter__(self):
        if not self._shape:
            raise TypeError(f"iteration over a 0-d {self.word}")
        return (self[at] for at in range(self._shape[0]))

    def _index_error(self, number, axis=None, size=None):
        if axis is None:
            return IndexError(self.too_many.format(self.ndim, number))
        return IndexError(f"index {number} is out of bounds for {self.axis_word} {axis} with size {size}")

    def _pick(self, key):
        try:
            return _arrays.pick(self, key)
        except IndexError as error:
            raise self._index_error(*error.args) from None

    def squeeze(self, axis=None):
        axes = axes_of(self._shape, axis)
        return self.reshape(tuple(size for at, size in enumerate(self._shape) if size != 1 or at not in axes))

    def _swapped(self, first, second):
        order = list(range(self.ndim))
        order[first], order[second] = order[second], order[first]
        return order


def sizes(shape):
    """Return a shape that is given as one argument or as several."""
    shape = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
    return (operator.index(shape),) if hasattr(shape, "_buffer") else tuple(map(operator.index, shape))


def _operator(name, turned=False):
    return lambda self, other: self._binary(name, other, turned)


for name in ARITHMETIC:
    word = "truediv" if name == "div" else name
    setattr(Common, f"__{word}__", _operator(name))
    setattr(Common, f"__r{word}__", _operator(name, turned=True))
    setattr(Common, f"__i{word}__", lambda self, other, name=name: self._in_place(name, other))
for name in COMPARISONS:
    setattr(Common, f"__{name}__", _operator(name))
for name in ("neg", "abs", "invert"):
    setattr(Common, f"__{name}__", lambda self, name=name: self._unary(name))
