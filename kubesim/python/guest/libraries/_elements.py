"""Types of elements, shapes, options and errors: what the libraries' arrays are made of."""

import builtins
import functools
import inspect
import json
import math
import operator
import os
from array import array
from itertools import accumulate

from machine import start

EXCEPTIONS = {**vars(builtins)}
"""Exceptions by their names."""
with open(f"{os.path.dirname(__file__)}/words.json", encoding="utf-8") as file:
    WORDS = json.load(file)
with open(f"{os.path.dirname(__file__)}/names.json", encoding="utf-8") as file:
    NAMES = json.load(file)
CODES, ALIASES = NAMES["types"]["codes"], NAMES["types"]["aliases"]
SIZES = {name: 2 if name.endswith("float16") else array(code).itemsize for name, code in CODES.items()}
RANKS = {name: rank for rank, name in enumerate(CODES)}


def error(name, /, **values):
    """Return an exception in the words of a library."""
    kind, text = WORDS[name]
    return EXCEPTIONS[kind](text.format_map(values))


def named(name, function):
    """Return a function that says in its errors what it is called."""
    function.__name__ = function.__qualname__ = name
    return function


def accepting(names):
    """Let a function take options of the real one that change nothing here; others raise TypeError."""
    known = set(names.split())

    def decorate(function):
        @functools.wraps(function)
        def call(*args, **options):
            return function(*args, **{key: value for key, value in options.items() if key not in known})

        return call

    return decorate


def fixed(value):
    return tuple(value) if isinstance(value, list) else value


def pair(value):
    return (value, value) if isinstance(value, int) else fixed(value)


def bind(name, about, args, options):
    """Return the options of a class as the table has them: ``needs`` and ``usual`` values. Raises TypeError."""
    kind, usual = inspect.Parameter.POSITIONAL_OR_KEYWORD, about.get("usual", {})
    parameters = [inspect.Parameter(each, kind) for each in about.get("needs", "").split()]
    parameters += [inspect.Parameter(each, kind, default=fixed(value)) for each, value in usual.items()]
    try:
        bound = inspect.Signature(parameters).bind(*args, **options)
    except TypeError as problem:
        raise TypeError(f"{name}.__init__() {problem}") from None
    bound.apply_defaults()
    return bound.arguments


def is_float(dtype):
    return "float" in dtype


def dtype_name(kind):
    """Return the name of a type of elements however a program names it; None for none."""
    name = getattr(kind, "_name", kind.__name__ if isinstance(kind, type) else kind)
    name = ALIASES.get(name.lstrip("<"), name) if isinstance(name, str) else name
    if name is not None and (not isinstance(name, str) or name not in CODES):
        raise error("numpy.type" if isinstance(kind, str) else "numpy.no-type", kind=kind)
    return name


def dtype_of(values, default):
    """Return the type of an array that is made of Python's values; None where that is none of numbers."""
    kinds = {type(value) for value in values}
    if not all(issubclass(kind, (int, float)) for kind in kinds):
        return None
    if not kinds or any(issubclass(kind, float) for kind in kinds):
        return default
    return "bool" if kinds == {bool} else "int64"


def promote(left, right, wide=True):
    """Return the type of a result; ``wide``: as numpy has it, where 32 bits of an integer need 64 of a float."""
    high, low = (left, right) if RANKS[left] >= RANKS[right] else (right, left)
    if {high, low} == {"bfloat16", "float16"}:
        return "float32"
    if wide and high in ("float16", "float32") and SIZES[low] > 2 and not is_float(low):
        return "float64"
    return "int16" if {high, low} == {"int8", "uint8"} else high


def stored(values, dtype):
    """Return elements as an array of the type has them: rounded, or wrapped."""
    if dtype == "bool":
        return array("B", map(bool, values))
    if is_float(dtype):
        return array(CODES[dtype], values)
    values = [int(value) for value in values]
    try:
        return array(CODES[dtype], values)
    except OverflowError:
        bits, low = SIZES[dtype] * 8, 0 if dtype[0] == "u" else 1 << SIZES[dtype] * 8 - 1
        return array(CODES[dtype], [(value + low) % (1 << bits) - low for value in values])


def version(library):
    """Return the version that the image has of a library, or of what it is built with."""
    return start.get("libraries", {}).get(library) or NAMES["versions"][library]


def missing(module, **known):
    """Return a module's ``__getattr__``: it knows the version, which a program's start tells, and no other names."""

    def __getattr__(name):
        if name in known:
            return known[name]()
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return __getattr__


class Mismatch(ValueError):
    """Two shapes do not go together, at a dimension or an array of this number."""

    left, right, at = (property(lambda self, at=at: self.args[at]) for at in range(3))


def strides_of(shape):
    return tuple(accumulate(shape[:0:-1], operator.mul, initial=1))[::-1] if shape else ()


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


def chosen_places(shape, values):
    """Return the numbers of the elements that are true, along each dimension."""
    found = [at for at, value in enumerate(values) if value]
    return [[at // step % size for at in found] for size, step in zip(shape, strides_of(shape), strict=True)]


def chunks(values, size):
    """Return pieces of so many elements."""
    return [values[at : at + size] for at in range(0, len(values), size)] if size else []


def nested(shape, values):
    if len(shape) < 2:
        return list(values) if shape else values[0]
    parts = chunks(values, math.prod(shape[1:])) or [[]] * shape[0]
    return [nested(shape[1:], part) for part in parts]
