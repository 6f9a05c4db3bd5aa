"""Functions of several tensors, random numbers, and the operators and methods that follow from the core's tables."""

import itertools
import math
import sys
import types

import _arrays
import _device
import _functions
import _twister
from _arrays import Mismatch
from _functions import BINARY, UNARY

from torch._autograd import record
from torch._tensor import Tensor, blank, together
from torch._types import DTYPES, WORDS, state, work


def matmul(a, b):
    """Return the matrix product; in autocast's precision where that is on."""
    together(a, b)
    if state.autocast and a.is_cuda == (state.autocast[0] == "cuda"):
        a, b = a.to(DTYPES[state.autocast[1]]), b.to(DTYPES[state.autocast[1]])
    if a._dtype != b._dtype:
        left, right = WORDS[a._dtype], WORDS[b._dtype]
        raise RuntimeError(f"mat1 and mat2 must have the same dtype, but got {left} and {right}")
    if a.ndim == 1 or b.ndim == 1:
        found = matmul(a.unsqueeze(0) if a.ndim == 1 else a, b.unsqueeze(1) if b.ndim == 1 else b)
        found = found.squeeze(-1) if b.ndim == 1 else found
        return found.squeeze(-1 if b.ndim == 1 else -2) if a.ndim == 1 else found
    try:
        found = _functions.multiply(a, b)
    except Mismatch:
        left, right = ("x".join(map(str, (math.prod(each._shape[:-1]), each._shape[-1]))) for each in (a, b))
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({left} and {right})") from None
    flops = 2.0 * found.numel() * a._shape[-1]
    work(a.device, flops, a.nbytes + b.nbytes, half=a.itemsize == 2)
    first, second = a.detach(), b.detach()
    return record(found, "Mm", (a, b), lambda g: [g @ second.transpose(-2, -1), first.transpose(-2, -1) @ g], flops)


def cat(tensors, dim=0):
    together(*tensors)
    tensors = tuple(tensors)
    try:
        found = _arrays.join(tensors, dim)
    except Mismatch as error:
        pairs = list(zip(error.left, error.right, strict=False))
        at = next((at for at, pair in enumerate(pairs) if at != dim and pair[0] != pair[1]), 0)
        raise RuntimeError(
            f"Sizes of tensors must match except in dimension {dim}. Expected size {error.left[at]} but got size "
            f"{error.right[at]} for tensor number {error.at} in the list."
        ) from None
    lead = (slice(None),) * (dim % found.ndim)
    edges = itertools.accumulate((each._shape[dim] for each in tensors), initial=0)
    cuts = [(*lead, slice(*pair)) for pair in itertools.pairwise(edges)]
    return record(found, "Cat", tensors, lambda g: [g[cut] for cut in cuts])


def module(name, **names):
    """Make a module that has no file of its own."""
    made = sys.modules[name] = types.ModuleType(name)
    vars(made).update(names)
    return made


REDUCTIONS = {name: name for name in "sum mean prod argmax argmin all any logsumexp".split()} | {"median": "lower"}


methods = {name: lambda self, *, name=name: self._unary(name) for name in UNARY}
methods |= {
    name: lambda self, other, *, alpha=1, name=name: self._binary(name, other if alpha == 1 else other * alpha)
    for name in BINARY
}
methods |= {
    name: lambda self, dim=None, keepdim=False, own=own, **more: self._reduced(own, dim, keepdim)
    for name, own in REDUCTIONS.items()
}
for name in ("std", "var"):
    methods[name] = lambda self, dim=None, unbiased=True, keepdim=False, name=name: self._reduced(
        f"{name}{unbiased:d}", dim, keepdim
    )
methods |= {
    name: lambda self, dim=None, keepdim=False, name=name: self._extreme(name, dim, keepdim)
    for name in ("max", "min")
}
methods |= {"matmul": matmul, "mm": matmul, "bmm": matmul, "dot": matmul, "__matmul__": matmul, "clip": Tensor.clamp}
twins = {name: methods[name] for name in (*UNARY, *BINARY)}
twins |= {name: getattr(Tensor, name) for name in ("clamp", "masked_fill", "squeeze", "unsqueeze")}
methods |= {
    f"{name}_": lambda self, *args, own=own, **more: self._become(own(self, *args, **more))
    for name, own in twins.items()
}
methods |= {
    f"{name}_": lambda self, a=0.0, b=1.0, name=name: self._become(
        drawn(name, self._shape, self._dtype, self.device, a, b)
    )
    for name in ("uniform", "normal")
}
methods |= {word.lower(): lambda self, name=name: self.to(DTYPES[name]) for name, word in WORDS.items()}
for name, own in methods.items():
    setattr(Tensor, name, own)


def drawn(kind, shape, name, where, a, b):
    """Draw numbers as torch does: uniform between a and b, normal with mean a and deviation b, or whole below b."""
    base, twister = blank(where), generator()
    if kind == "normal":
        count = math.prod(shape)
        if count <= _arrays.MAX_COMPUTED:
            return base._new(shape, name, [a + b * value for value in twister.normals(count)])
        return _twister.drawn(base, shape, name, twister, lambda source: a + b * source.gauss(), a, b)
    draw = (lambda source: a + (b - a) * source.single()) if kind == "uniform" else (
        lambda source: a + source.bits() % (b - a))  # fmt: skip
    return _twister.drawn(base, shape, name, twister, draw, (a + b) / 2, (b - a) / math.sqrt(12))


def generator():
    if state.fresh:
        seed(int.from_bytes(_device.os.urandom(4), "little"))
    return state.twister


def seed(number):
    state.fresh = False
    state.twister.seed(number)
