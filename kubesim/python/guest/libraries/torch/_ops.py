"""Functions of several tensors, random numbers, and the operators and methods that follow from the core's tables."""

import math
import sys
import types

import _arrays
import _device
import _functions
from _arrays import Mismatch
from _functions import BINARY, UNARY

from torch._autograd import record
from torch._tensor import Pair, Tensor, blank, together
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
        left, right = a.unsqueeze(0) if a.ndim == 1 else a, b.unsqueeze(1) if b.ndim == 1 else b
        found = matmul(left, right)
        return found.reshape(
            found._shape[: -2 + (a.ndim > 1)] if b.ndim == 1 else (*found._shape[:-2], found._shape[-1])
        )
    try:
        found = _functions.multiply(a, b)
    except Mismatch:
        left, right = ("x".join(map(str, (math.prod(each._shape[:-1]), each._shape[-1]))) for each in (a, b))
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({left} and {right})") from None
    flops = 2.0 * found.numel() * a._shape[-1]
    work(a.device, flops, a.nbytes + b.nbytes, half=a.itemsize == 2)
    first, second = a.detach(), b.detach()
    return record(found, "Mm", (a, b), lambda g: [g @ second.transpose(-2, -1), first.transpose(-2, -1) @ g], flops)


def softmax(x, dim=-1, dtype=None):
    if not x._known():
        return record(x._guess(x._shape, x._dtype, 1 / x._shape[dim], 1 / x._shape[dim]), "Softmax", (x,), None)
    powers = (x - x.detach().max(dim, True)[0]).exp()
    return powers / powers.sum(dim, True)


def where(condition, x, y):
    x, y = (each if isinstance(each, Tensor) else condition._new((), "float32", [each]) for each in (x, y))
    return record(
        _arrays.choose(condition, x, y), "Where", (x, y), lambda g: [g * condition, g * condition.logical_not()]
    )


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
    edges = [0]
    for each in tensors:
        edges.append(edges[-1] + each._shape[dim])
    lead = (slice(None),) * (dim % found.ndim)
    cuts = [(*lead, slice(*pair)) for pair in zip(edges, edges[1:], strict=False)]
    return record(found, "Cat", tensors, lambda g: [g[cut] for cut in cuts])


def module(name, **names):
    """Make a module that has no file of its own."""
    made = sys.modules[name] = types.ModuleType(name)
    vars(made).update(names)
    return made


def _generate():
    """Make the operators and the methods of one and of two tensors, of which some have a twin in place."""
    for name in "add sub mul pow mod and or xor floordiv div eq ne lt le gt ge".split():
        word = {"div": "truediv"}.get(name, name)
        setattr(Tensor, f"__{word}__", lambda self, other, name=name: self._binary(name, other))
        if name[0] not in "elg" and name != "ne":
            setattr(Tensor, f"__r{word}__", lambda self, other, name=name: self._binary(name, other, turned=True))
            setattr(Tensor, f"__i{word}__", lambda self, other, name=name: self._become(self._binary(name, other)))
    for name in ("neg", "abs", "invert"):
        setattr(Tensor, f"__{name}__", lambda self, name=name: self._unary(name))
    for name in UNARY:
        setattr(Tensor, name, lambda self, name=name: self._unary(name))
        setattr(Tensor, name + "_", lambda self, name=name: self._become(self._unary(name)))
    for name in BINARY:
        own = lambda self, other, alpha=1, name=name: self._binary(name, other if alpha == 1 else other * alpha)
        setattr(Tensor, name, own)
        setattr(Tensor, name + "_", lambda self, *args, own=own, **more: self._become(own(self, *args, **more)))
    for name in ("sum", "mean", "prod", "argmax", "argmin", "all", "any", "logsumexp", "median"):
        own = {"median": "lower"}.get(name, name)
        setattr(Tensor, name, lambda self, dim=None, keepdim=False, own=own, **more: self._reduced(own, dim, keepdim))
    for name in ("std", "var"):
        setattr(Tensor, name, lambda self, dim=None, unbiased=True, keepdim=False, name=name: self._reduced(
            f"{name}{int(unbiased)}", dim, keepdim))  # fmt: skip
    for name in ("max", "min"):
        setattr(Tensor, name, lambda self, dim=None, keepdim=False, name=name: self._extreme(name, dim, keepdim))
    for word, name in {"long": "int64", "int": "int32", "float": "float32", "double": "float64", "half": "float16",
                       "bfloat16": "bfloat16", "bool": "bool", "short": "int16", "byte": "uint8"}.items():  # fmt: skip
        setattr(Tensor, word, lambda self, name=name: self.to(DTYPES[name]))
    Tensor.mm = Tensor.bmm = Tensor.matmul = Tensor.dot = Tensor.mv = Tensor.__matmul__ = matmul
    Tensor.masked_fill = lambda self, mask, value: where(mask, self._new((), self._dtype, [value]), self)
    for name in ("clamp", "masked_fill", "unsqueeze", "squeeze"):
        own = getattr(Tensor, name)
        setattr(Tensor, name + "_", lambda self, *args, own=own, **more: self._become(own(self, *args, **more)))
    Tensor.norm = lambda self, p=2, dim=None, keepdim=False: (self._reduced("norm", dim, keepdim, "LinalgVectorNorm") if p == 2 else
                                                            (self.abs() ** p).sum(dim, keepdim) ** (1 / p))  # fmt: skip
    Tensor.sort = lambda self, dim=-1, descending=False: Pair(
        (self.gather(dim, at := self.argsort(dim, descending)), at)
    )
    Tensor.softmax = softmax
    Tensor.log_softmax = lambda self, dim=-1: self - self.logsumexp(dim, True)
    Tensor.multiply, Tensor.true_divide, Tensor.clip = Tensor.mul, Tensor.div, Tensor.clamp
    for name in ("uniform", "normal"):
        setattr(Tensor, name + "_", lambda self, a=0.0, b=1.0, name=name: self._become(
            drawn(name, self._shape, self._dtype, self.device, a, b)))  # fmt: skip


def drawn(kind, shape, name, where, a, b):
    """Draw numbers as torch does: uniform between a and b, normal with mean a and deviation b, or whole below b."""
    base, count, twister = blank(where), math.prod(shape), generator()
    if count <= _arrays.MAX_COMPUTED:
        if kind == "normal":
            values = [a + b * value for value in twister.normals(count)]
        elif kind == "uniform":
            values = [a + (b - a) * twister.single() for _ in range(count)]
        else:
            values = [a + twister.bits() % (b - a) for _ in range(count)]
        return base._new(shape, name, values)
    mean, std = (a, b) if kind == "normal" else ((a + b) / 2, (b - a) / math.sqrt(12))
    key, source = twister.bits(), _device.random.Random()

    def draw(at):
        source.seed(key ^ at * 2654435761)
        if kind == "normal":
            return source.gauss(a, b)
        return a + (b - a) * source.random() if kind == "uniform" else source.randrange(a, b)

    return base._guess(shape, name, mean, std, draw)


def generator():
    if state.fresh:
        seed(int.from_bytes(_device.os.urandom(4), "little"))
    return state.twister


def seed(number):
    state.fresh = False
    state.twister.seed(number)


_generate()
