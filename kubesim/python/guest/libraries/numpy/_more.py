"""NumPy: counting, tensor products and files."""

import io
import math

from numpy import _lines, _out, array, asarray, frombuffer, linspace, ndim


def unique(a, return_counts=False):
    counts = {}
    for value in sorted(asarray(a)._flat()):
        counts[value] = counts.get(value, 0) + 1
    found = array(list(counts), asarray(a).dtype)
    return (found, array(list(counts.values()))) if return_counts else found


def bincount(a, minlength=0):
    values = list(asarray(a)._flat())
    return array([values.count(at) for at in range(max(minlength, max(values, default=-1) + 1))], int)


def histogram(a, bins=10, range=None):
    low, high = range or (asarray(a).min(), asarray(a).max())
    inside = [value for value in asarray(a)._flat() if low <= value <= high]
    places = [min(int((value - low) / (high - low) * bins), bins - 1) for value in inside]
    return bincount(array(places, int), bins), linspace(low, high, bins + 1)


def percentile(a, q, axis=None):
    def at(line, share):
        place = (len(line) - 1) * share / 100
        low, high = sorted(line)[int(place)], sorted(line)[math.ceil(place)]
        return [float(low + (high - low) * (place % 1))]

    found = [_lines(a, axis, lambda line, share=share: at(line, share), "float64") for share in asarray(q).ravel()]
    found = [_out(each.squeeze(axis or 0)) for each in found]
    return array(found) if ndim(q) else found[0]


def einsum(subscripts, *operands):
    """Multiply what is broadcast over all letters, and sum over those that the result lacks."""
    terms, arrow, result = subscripts.replace(" ", "").partition("->")
    letters = sorted({letter for letter in terms if letter.isalpha()})
    result = result if arrow else "".join(letter for letter in letters if terms.count(letter) == 1)
    whole = 1
    for term, each in zip(terms.split(","), map(asarray, operands), strict=True):
        sizes = dict(zip(term, each._shape, strict=True))
        order = sorted(range(len(term)), key=lambda at, term=term: term[at])
        whole = each._permute(order).reshape(tuple(sizes.get(letter, 1) for letter in letters)) * whole
    gone = tuple(at for at, letter in enumerate(letters) if letter not in result)
    left = [letter for letter in letters if letter in result]
    return _out(asarray(whole.sum(axis=gone) if gone else whole)._permute([left.index(letter) for letter in result]))


def save(file, arr):
    """Write the .npy format, version 1.0 (numpy.lib.format)."""
    arr = asarray(arr)
    text = f"{{'descr': '<{arr.dtype.kind}{arr.itemsize}', 'fortran_order': False, 'shape': {arr._shape}, }}"
    text += " " * (-(len(text) + 11) % 64) + "\n"
    with open(file if str(file).endswith(".npy") else f"{file}.npy", "wb") as out:
        out.write(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + arr.tobytes())


def load(file, allow_pickle=False):
    with open(file, "rb") as source:
        data = io.BytesIO(source.read())
    data.seek(8)
    about = eval(data.read(int.from_bytes(data.read(2), "little")), {"__builtins__": {}})
    return frombuffer(data.read(), about["descr"]).reshape(about["shape"])
