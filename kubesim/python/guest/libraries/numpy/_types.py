"""NumPy: types of elements, and scalars."""

import _arrays
import _format
from _arrays import is_float
from machine import start

version = lambda: start.get("libraries", {}).get("numpy") or "1.26.4"
WORDS = {
    float: "float64", int: "int64", bool: "bool", str: "str", object: "object", None: "float64", "float": "float64",
    "int": "int64", "double": "float64", "half": "float16", "f2": "float16", "f4": "float32", "f8": "float64",
    "i1": "int8", "i2": "int16", "i4": "int32", "i8": "int64", "u1": "uint8", "b1": "bool", "U": "str", "O": "object",
}  # fmt: skip


class generic:
    """A scalar: Python's number, of one of NumPy's types."""

    shape, ndim, size = (), 0, 1
    dtype = property(lambda self: dtype(self._name))
    item = tolist = lambda self: self.python(self)
    astype = lambda self, kind: scalar(self, dtype(kind).name)
    max = min = sum = mean = lambda self: self
    __str__ = lambda self: _format.shortest(self, self._name) if self.python is float else repr(self.python(self))
    __reduce__ = lambda self: (scalar, (self.python(self), self._name))
    __repr__ = lambda self: f"np.{type(self).__name__}({self})" if version()[0] > "1" else str(self)


floating, integer = (
    type("floating", (generic, float), {"python": float}),
    type("integer", (generic, int), {"python": int}),
)
bool_ = type("bool_", (integer,), {"_name": "bool", "python": bool})
SCALARS = {"bool": bool_} | {
    name: type(name, (floating if is_float(name) else integer,), {"_name": name, "__module__": "numpy"})
    for name in _arrays.CODES
    if name not in ("bool", "object", "str", "bfloat16")
}
scalar = lambda value, name: SCALARS[name](value) if name in SCALARS else value


class dtype:
    """The type of an array's elements."""

    def __init__(self, kind):
        name = kind.name if isinstance(kind, dtype) else getattr(kind, "_name", kind)
        name = name.lstrip("<") if isinstance(name, str) else name
        if not isinstance(name, (str, type, type(None))) or WORDS.get(name, name) not in _arrays.CODES:
            text = (
                f"data type {kind!r} not understood"
                if isinstance(kind, str)
                else f"Cannot interpret '{kind}' as a data type"
            )
            raise TypeError(text)
        self.name = WORDS.get(name, name)
        self.itemsize, self.type = _arrays.SIZES[self.name], SCALARS.get(self.name, object)
        self.kind = {"o": "O", "s": "U"}.get(self.name[0], self.name[0])

    def __eq__(self, other):
        try:
            return self.name == dtype(other).name
        except TypeError:
            return False

    __hash__ = lambda self: hash(self.name)
    __str__ = lambda self: self.name
    __repr__ = lambda self: f"dtype('{self.name if self.kind not in 'OU' else self.kind}')"
