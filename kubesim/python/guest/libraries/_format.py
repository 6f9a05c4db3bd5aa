"""Arrays as numpy (array2string) and torch (_tensor_str.py) print them."""

import math

from _elements import SIZES, is_float, stored

EDGE, MAX_PRINTED, PRECISION = 3, 1000, 8


def shortest(value, dtype):
    """Return the shortest digits that a number of so many bits is read back from."""
    texts = (float.__format__(value, f".{count}g") for count in range(1, 10)) if SIZES[dtype] < 8 else ()
    found = next((text for text in texts if math.isfinite(value) and stored([float(text)], dtype)[0] == value), value)
    return float.__repr__(float(found))


def scientific(values):
    """Return numbers with an exponent, with as many digits as the longest needs."""
    digits = [f"{value:.{PRECISION}e}".partition("e")[0].rstrip("0") for value in values if math.isfinite(value)]
    wide = max(len(each.partition(".")[2]) for each in digits)
    return [f"{value:#.{wide}e}" for value in values]


def fixed(values):
    """Return numbers without an exponent, their points below each other."""
    words = [f"{value:.{PRECISION}f}".rstrip("0") if math.isfinite(value) else str(value) for value in values]
    right = max((len(word.partition(".")[2]) for word in words if "." in word), default=0)
    return [word + " " * (right - len(word.partition(".")[2])) if "." in word else word for word in words]


def numpy_words(values, dtype, shape):
    if dtype == "bool":
        return [str(bool(value)).rjust(5 if shape else 0) for value in values]
    if not is_float(dtype):
        return justified([str(value) for value in values])
    values = [float(shortest(value, dtype)) for value in values]
    sizes = [abs(value) for value in values if math.isfinite(value) and value]
    far = sizes and (max(sizes) >= 1e8 or min(sizes) < 1e-4 or max(sizes) / min(sizes) > 1000)
    return justified(scientific(values) if far else fixed(values))


def torch_words(values, dtype):
    if not is_float(dtype):
        return justified([str(bool(value) if dtype == "bool" else value) for value in values])
    sizes = [abs(value) for value in values if math.isfinite(value) and value]
    whole = all(value == math.ceil(value) for value in sizes)
    far = sizes and (max(sizes) / min(sizes) > 1000 or max(sizes) > 1e8 or not whole and min(sizes) < 1e-4)
    form = "{:.4e}" if far else "{:.0f}." if whole else "{:.4f}"
    return justified([form.format(value) if math.isfinite(value) else str(float(value)) for value in values])


def justified(words):
    width = max(map(len, words), default=0)
    return [word.rjust(width) for word in words]


def kept(size, short):
    return [*range(EDGE), *range(size - EDGE, size)] if short and size > 2 * EDGE else list(range(size))


def shown(x):
    """Return the elements that are printed of an array, and whether others are not."""
    if x._count() <= MAX_PRINTED:
        return x._flat(), False
    found = [x._offset]
    for size, stride in zip(x._shape, x._strides, strict=True):
        found = [base + stride * at for base in found for at in kept(size, True)]
    values = [x._buffer.at(place) for place in found]
    return values if is_float(x._dtype) else stored(values, x._dtype), True


def rows(words, shape, indent, short, separator, per_line):
    """Lay words out in brackets; ``per_line`` tells how many of a width fit on a line."""
    if not shape:
        return next(words)
    cut = short and shape[0] > 2 * EDGE
    if len(shape) > 1:
        parts = [rows(words, shape[1:], indent + 1, short, separator, per_line) for _ in kept(shape[0], short)]
        if cut:
            parts.insert(EDGE, "...")
        return "[" + (separator.rstrip() + "\n" * (len(shape) - 1) + " " * (indent + 1)).join(parts) + "]"
    line = [next(words) for _ in kept(shape[0], short)]
    count = max(1, per_line(max(map(len, line), default=1), indent))
    if cut:
        line.insert(EDGE, "...")
    lines = [separator.join(line[at : at + count]) for at in range(0, len(line), count)]
    return "[" + (separator.rstrip() + "\n" + " " * (indent + 1)).join(lines) + "]"


def numpy_text(x, separator=" ", prefix=0):
    """Return str() of an ndarray, or with ", " what repr() has in its brackets."""
    values, short = shown(x)
    if not len(values):
        return "[]"
    gap = len(separator)
    fits = lambda width, indent: (75 - x.ndim - indent - 1 + gap) // (width + gap)
    return rows(iter(numpy_words(values, x._dtype, x._shape)), x._shape, prefix, short, separator, fits)


def numpy_repr(x):
    text = f"array({numpy_text(x, ', ', 6)}"
    if not x._count() and x.ndim > 1:
        text += f", shape={x._shape}"
    if x._dtype in ("float64", "int64", "bool") and x._count():
        return text + ")"
    lead = ",\n      " if len(text.rpartition("\n")[2]) + len(x._dtype) + 9 > 75 else ", "
    return f"{text}{lead}dtype={x._dtype})"


def torch_text(x, head, suffixes):
    values, short = shown(x)
    body = "[]"
    if len(values):
        fits = lambda width, indent: (80 - indent) // (width + 2)
        body = rows(iter(torch_words(values, x._dtype)), x._shape, len(head), short, ", ", fits)
    text = head + body
    for suffix in suffixes:
        room = len(text) - text.rfind("\n") + 1 + len(suffix) + 2
        text += f",\n{' ' * len(head)}{suffix}" if room > 80 else f", {suffix}"
    return text + ")"
