"""Tensors, their methods, and how gradients go back through what was computed of them."""

import math
import random
import zlib
from collections import namedtuple
from contextlib import ContextDecorator
from itertools import accumulate, count, pairwise

import _arrays
import _device
import _elements
import _format
import numpy
from _arrays import Array, axes_of, sizes
from _elements import is_float, named
from _functions import BINARY, UNARY

from torch._types import DTYPES, WORDS, device, device_errors, failed, gpu_of, place, state, work


class Node:
    """One step back from a result: its parents, and how gradients go to them; None where they are estimated."""

    made = count()

    def __init__(self, name, parents, back, flops):
        self.name, self.parents, self.back, self.flops, self.number = name, parents, back, flops, next(self.made)

    __repr__ = lambda self: f"<{self.name} object at 0x7f{id(self) & 0xFFFFFFFF:010x}>"


class Size(tuple):
    __repr__ = lambda self: f"torch.Size({list(self)})"
    numel = lambda self: math.prod(self)


class Pair(namedtuple("Pair", "values indices")):
    """torch.return_types.max and its like."""

    __repr__ = lambda self: f"torch.return_types.{self.word}(\nvalues={self[0]!r},\nindices={self[1]!r})"


def paired(word, *pair):
    made = Pair(*pair)
    made.word = word
    return made


class Tensor(Array):
    """A tensor."""

    __slots__ = ("__dict__", "_device", "_node", "_wants", "grad", "hooks")
    library, mixes = "torch", False
    default = property(lambda self: state.default)
    shape, dtype = property(lambda self: Size(self._shape)), property(lambda self: DTYPES[self._dtype])
    device, T = property(lambda self: self._device), property(lambda self: self.transpose(0, -1))
    is_cuda = property(lambda self: self._device.type == "cuda")
    is_leaf, grad_fn = property(lambda self: self._node is None), property(lambda self: self._node)
    data = property(lambda self: self.detach(), lambda self, other: setattr(self, "_buffer", other._buffer))
    dim, element_size = lambda self: self.ndim, lambda self: self.itemsize
    numel = nelement = lambda self: self._count()
    is_floating_point, is_contiguous = lambda self: is_float(self._dtype), lambda self: self._whole()
    cpu, pin_memory = lambda self: self.to("cpu"), lambda self: self
    cuda = lambda self, device=None, non_blocking=False: self.to("cuda" if device is None else device)
    __hash__, __array__ = lambda self: id(self), lambda self, dtype=None, copy=None: self.numpy()
    __deepcopy__ = lambda self, memo: rebuilt(*self.__reduce__()[1])
    __matmul__, __rmatmul__ = lambda self, other: matmul(self, other), lambda self, other: matmul(other, self)
    zero_, t = lambda self: self.fill_(0), lambda self: self.transpose(0, 1) if self.ndim == 2 else self
    fill_ = lambda self, value: self._become(self._guess(self._shape, self._dtype, value))
    copy_ = lambda self, other, non_blocking=False: self._become(other.to(self._device))
    register_hook = lambda self, hook: self.hooks.append(hook)
    size = lambda self, dim=None: Size(self._shape) if dim is None else self._shape[dim]
    _in_place = lambda self, name, other: self._become(self._before()._binary(name, other))
    clone = lambda self: self._step(self._copy(), "Clone", (self,), lambda g: [g])
    contiguous = lambda self: self if self._whole() else self.reshape(self._shape)
    view = lambda self, *shape: self.reshape(*shape)
    detach = lambda self: self._make(self._shape, self._dtype, self._buffer, self._strides, self._offset)
    cumsum = lambda self, dim: self.detach()._cumulated(dim)
    chunk = lambda self, chunks, dim=0: self.split(-(-self._shape[dim] // chunks), dim)
    log_softmax = lambda self, dim=-1, dtype=None: self - self.logsumexp(dim, True)
    masked_fill = lambda self, mask, value: where(mask, value, self)
    argsort = lambda self, dim=-1, descending=False: self.detach()._ordered(dim, descending)
    _written = staticmethod(lambda shape: str(list(shape)))
    _operand = lambda self, other: other if isinstance(other, Tensor) else NotImplemented

    def _place(self, source):
        self._device, self._node, self._wants, self.grad, self.hooks = self._home(source), None, False, None, []
        buffer, size = self._buffer, self._buffer.size * self.itemsize
        if buffer.claim is None and self._device.type != "meta" and (self.is_cuda or size > _device.MIB):
            with device_errors(self._failed):
                buffer.claim = _device.Claim(gpu_of(self._device), size)
                _device.session.work(gpu_of(self._device), 0, 3 * size)

    _home, _failed = lambda self, source: source._device, lambda self, error: failed(error)

    def _step(self, found, word, parents, back, flops=0.0):
        """Remember how gradients go back from a result."""
        if state.grad and any(each._wants for each in parents):
            found._node, found._wants = Node(word.replace("_", "") + "Backward0", parents, back, flops), True
        return found

    def _promoted(self, a, b):
        left, right = a._dtype, b._dtype
        if is_float(left) != is_float(right):
            return left if is_float(left) else right
        if bool(a._shape) != bool(b._shape):
            return left if a._shape else right
        return _elements.promote(left, right, wide=False)

    def _apply(self, name, *operands):
        together(*operands)
        return super()._apply(name, *operands)

    def requires_grad_(self, requires_grad=True):
        if requires_grad and not is_float(self._dtype):
            raise self._error("requires")
        self._wants = bool(requires_grad)
        return self

    requires_grad = property(lambda self: self._wants, lambda self, wanted: self.requires_grad_(wanted) and None)

    def __bool__(self):
        if self.numel() != 1:
            raise self._error("truth", what="more than one value" if self.numel() else "no values")
        return bool(self.item())

    def __repr__(self):
        self._wait()
        rest = [f"device='{self._device}'"] if self.is_cuda else []
        rest += [f"size={self._shape}"] if not self.numel() and self._shape != (0,) else []
        rest += [f"dtype=torch.{self._dtype}"] if self._dtype not in (state.default, "int64", "bool") else []
        rest += [f"grad_fn=<{self._node.name}>"] if self._node else ["requires_grad=True"] if self._wants else []
        name = type(self).__name__
        return (f"{name} containing:\n" if name != "Tensor" else "") + _format.torch_text(self, "tensor(", rest)

    def __reduce__(self):
        return rebuilt, (type(self), self._shape, self._dtype, self._saved(), str(self._device), self._wants)

    def _wait(self):
        with device_errors(self._failed):
            _device.session.wait(gpu_of(self._device))

    def item(self):
        if self.numel() != 1:
            raise self._error("item", count=self.numel())
        self._wait()
        return self._python()[0]

    def tolist(self):
        self._wait()
        return self._nested()

    def numpy(self):
        if self.is_cuda or self._wants:
            raise self._error("numpy-cuda" if self.is_cuda else "numpy-grad", device=self._device)
        return numpy._first._make(self._shape, self._dtype, self._buffer, self._strides, self._offset)

    def to(self, *args, device=None, dtype=None, non_blocking=False, copy=False):
        for each in args:
            if isinstance(each, Tensor):
                device, dtype = each._device, each.dtype
            elif hasattr(each, "_name"):
                dtype = each
            elif not isinstance(each, bool):
                device = each
        name, where = dtype.name if dtype else self._dtype, place(device) if device is not None else self._device
        if name == self._dtype and where == self._device and not copy:
            return self
        if where != self._device:
            self._wait()
            _device.session.spend(self.nbytes / 20e9)
        source = self.detach()
        source._device = where
        return self._step(source._copy(name), "ToCopy", (self,), lambda g: [g.to(self._device, self.dtype)])

    def _before(self):
        """Return the tensor as it is before it changes in place."""
        made = self.detach() if self._node else self
        made._node, made._wants = self._node, self._wants
        return made

    def _become(self, other):
        """Take the elements of another tensor in place."""
        if self._wants and self._node is None and state.grad:
            raise self._error("leaf")
        if other._shape != self._shape and other._buffer is self._buffer:  # another view of it
            self._shape, self._strides, self._offset = other._shape, other._strides, other._offset
        else:
            self[...] = other
        if other._node:
            self._node, self._wants = other._node, True
        return self

    def backward(self, gradient=None, retain_graph=False):
        if not self._wants:
            raise self._error("no-graph")
        if gradient is None and self.numel() != 1:
            raise self._error("not-scalar")
        backward(self, self._guess(self._shape, self._dtype, 1.0) if gradient is None else gradient, retain_graph)

    def transpose(self, first, second):
        order = list(range(self.ndim))
        order[first], order[second] = order[second], order[first]
        return self.permute(order)

    def flatten(self, start_dim=0, end_dim=-1):
        shape, end = self._shape or (1,), end_dim % max(self.ndim, 1)
        return self.reshape((*shape[:start_dim], math.prod(shape[start_dim : end + 1]), *shape[end + 1 :]))

    def expand(self, *shape):
        shape = sizes(shape)
        own = (1,) * (len(shape) - self.ndim) + self._shape
        shape = tuple(mine if size == -1 else size for size, mine in zip(shape, own, strict=True))
        return self._step(self._expand(shape), "Expand", (self,), lambda g: [g])

    def split(self, split_size, dim=0):
        edges = range(0, self._shape[dim], split_size)
        return tuple(self[(slice(None),) * (dim % self.ndim) + (slice(at, at + split_size),)] for at in edges)

    def gather(self, dim, index):
        key = []
        for at, size in enumerate(index._shape):
            shape = [-1 if at == other else 1 for other in range(self.ndim)]
            key.append(_arrays.PLAIN._new((size,), "int64", range(size)).reshape(shape)._expand(index._shape))
        key[dim] = index
        return self[tuple(key)]

    def topk(self, k, dim=-1):
        order = self.argsort(dim, descending=True)[..., :k]
        return paired("topk", self.gather(dim, order), order)

    def sort(self, dim=-1, descending=False, stable=False):
        order = self.argsort(dim, descending)
        return paired("sort", self.gather(dim, order) if self._known() else self.clone(), order)

    @_elements.accepting("sorted")
    def unique(self, return_inverse=False, return_counts=False):
        return self.detach()._distinct(return_inverse, return_counts)

    def clamp(self, min=None, max=None):
        found = self if min is None else self._binary("maximum", min)
        return found if max is None else found._binary("minimum", max)

    clip = clamp

    def softmax(self, dim=-1, dtype=None):
        if not self._known():
            share = 1 / self._shape[dim]
            return self._step(self._guess(self._shape, self._dtype, share, share), "Softmax", (self,), None)
        powers = (self - self.detach().max(dim, True)[0]).exp()
        return powers / powers.sum(dim, True)

    def _reduced(self, name, dim=None, keepdim=False):
        if name == "mean" and not is_float(self._dtype):
            raise self._error("mean", kind=WORDS[self._dtype])
        whole = self._reduce(name, dim, True)
        if name == "argmax" and dim is not None and not self._known():
            whole._buffer.hit = state.course.accuracy(self._shape[dim])
        shape = tuple(size for at, size in enumerate(whole._shape) if keepdim or at not in axes_of(self, dim))
        found, rule = whole.reshape(shape), SLOPES.get(name)
        count = self.numel() // max(whole.numel(), 1)
        back = lambda g: [rule(g.reshape(whole._shape), self.detach(), whole, count).expand(self._shape)]
        return self._step(found, name.title(), (self,), back) if rule else found

    def _extreme(self, name, dim=None, keepdim=False):
        if isinstance(dim, Tensor):
            return self._binary({"max": "maximum", "min": "minimum"}[name], dim)
        found = self._reduced(name, dim, keepdim)
        return found if dim is None else paired(name, found, self._reduced("arg" + name, dim, keepdim))


SLOPES = {
    "sum": lambda g, x, y, n: g, "mean": lambda g, x, y, n: g / n, "max": lambda g, x, y, n: g * (x == y),
    "min": lambda g, x, y, n: g * (x == y), "norm": lambda g, x, y, n: g * x / y, "prod": lambda g, x, y, n: g * y / x,
    "logsumexp": lambda g, x, y, n: g * (x - y).exp(),
    "var0": lambda g, x, y, n: g * 2 * (x - x._reduce("mean", [at for at in range(x.ndim) if y._shape[at] == 1], True)) / n,
}  # fmt: skip


def _methods():
    """Make the methods that follow from tables, and those that change a tensor in place."""
    made = {name: lambda self, *, name=name: self._unary(name) for name in UNARY}
    made |= {name: lambda self, other, *, alpha=1, name=name: self._binary(name, other if alpha == 1 else other * alpha)
             for name in BINARY}  # fmt: skip
    changing = ("clamp", "clip", "masked_fill", "squeeze", "unsqueeze")
    twins = made | {name: getattr(Tensor, name) for name in changing}
    made |= {f"{name}_": lambda self, *args, own=own, **more: self._become(own(self._before(), *args, **more))
             for name, own in twins.items()}  # fmt: skip
    made |= {f"{name}_": lambda self, a=0.0, b=1.0, *, name=name: self._become(drawn(name, self._shape, self._dtype, self._device, a, b))
             for name in ("uniform", "normal")}  # fmt: skip
    made |= {name: lambda self, dim=None, keepdim=False, *, own=own: self._reduced(own, dim, keepdim)
             for name, own in _elements.NAMES["torch"]["reductions"].items()}  # fmt: skip
    made |= {name: lambda self, dim=None, unbiased=True, keepdim=False, *, name=name: self._reduced(f"{name}{unbiased:d}", dim, keepdim)
             for name in ("std", "var")}  # fmt: skip
    made |= {name: lambda self, dim=None, keepdim=False, *, name=name: self._extreme(name, dim, keepdim)
             for name in ("max", "min")}  # fmt: skip
    made |= {word.lower(): lambda self, *, name=name: self.to(DTYPES[name]) for name, word in WORDS.items()}
    return made | dict.fromkeys(("matmul", "mm", "bmm", "dot"), matmul)


def blank(where=None):
    """Return what tensors on a device are made from."""
    made = object.__new__(Tensor)
    made._device = place(where)
    return made


def drawn(kind, shape, name, where, a, b, generator=None):
    base, shape = blank(where), tuple(shape)
    return (
        base._guess(shape, name, a)
        if kind == "all"
        else (generator or state.source).draw(base, shape, name, kind, a, b)
    )


def rebuilt(kind, shape, name, saved, where, wants):
    made = blank(state.target if isinstance(state.target, (str, device)) else where)._load(shape, name, saved)
    made.__class__, made._wants = kind, wants
    return made


def where(condition, x, y):
    x = x if isinstance(x, Tensor) or isinstance(y, Tensor) else condition._new((), state.default, [x])
    return condition._apply("where", condition, x, y)


def together(*operands):
    """Return the tensors among operands. Raises RuntimeError where they are on several devices."""
    tensors = [each for each in operands if isinstance(each, Tensor)]
    places = list(dict.fromkeys(str(each._device) for each in tensors if each._shape))
    if len(places) > 1 and not tensors[0].mixes:
        raise tensors[0]._error("devices", a=places[0], b=places[1])
    return tensors


def matmul(a, b):
    """Return the matrix product; in autocast's precision where that is on."""
    together(a, b)
    if state.autocast and a.is_cuda == (state.autocast[0] == "cuda"):
        a, b = a.to(DTYPES[state.autocast[1]]), b.to(DTYPES[state.autocast[1]])
    if a._dtype != b._dtype:
        raise a._error("matmul-types", a=WORDS[a._dtype], b=WORDS[b._dtype])
    if a.ndim == 1 or b.ndim == 1:
        found = matmul(a.unsqueeze(0) if a.ndim == 1 else a, b.unsqueeze(1) if b.ndim == 1 else b)
        return found.squeeze([at for at, each in ((-2, a), (-1, b)) if each.ndim == 1])
    found = a._multiply(b)
    flops, first, second = 2.0 * found.numel() * a._shape[-1], a.detach(), b.detach()
    with device_errors(a._failed):
        _device.session.work(gpu_of(a._device), flops, a.nbytes + b.nbytes, a.itemsize == 2)
    back = lambda g: [g @ second.transpose(-2, -1), first.transpose(-2, -1) @ g]
    return a._step(found, "Mm", (a, b), back, flops)


def cat(tensors, dim=0):
    tensors = tuple(together(*tensors))
    found = _arrays.join(tensors, dim)
    lead = (slice(None),) * (dim % found.ndim)
    edges = accumulate((each._shape[dim] for each in tensors), initial=0)
    cuts = [(*lead, slice(*pair)) for pair in pairwise(edges)]
    return found._step(found, "Cat", tensors, lambda g: [g[cut] for cut in cuts])


Tensor.kind = Tensor
for name, own in _methods().items():
    setattr(Tensor, name, named(name, own) if own is not matmul else own)

# Gradients.


class set_grad(ContextDecorator):
    """torch.no_grad and its relatives."""

    def __init__(self, wanted):
        self.wanted = wanted

    def __enter__(self):
        self.before, state.grad = state.grad, self.wanted

    def __exit__(self, *error):
        state.grad = self.before


def reduced_to(g, shape):
    """Sum a gradient over the dimensions that were broadcast."""
    if g._shape == shape:
        return g
    extra = g.ndim - len(shape)
    axes = [at for at in range(g.ndim) if at < extra or shape[at - extra] == 1]
    return g._reduced("sum", axes, True).reshape(shape) if axes else g.reshape(shape)


def backward(root, gradient, retain=False):
    """Let gradients go back to the leaves, which it returns, the latest result first."""
    pending, leaves = {root: gradient}, []
    with set_grad(False):
        while pending:
            tensor = max(pending, key=lambda each: each._node.number if each._node else -1)
            g = pending.pop(tensor)
            for hook in tensor.hooks:
                changed = hook(g)
                g = g if changed is None else changed
            if tensor._node is None:
                tensor.grad = g.detach() if tensor.grad is None else tensor.grad + g
                leaves.append(tensor)
                continue
            if tensor._node.parents is None:
                raise tensor._error("again")
            for parent, part in zip(tensor._node.parents, _parts(tensor._node, g, retain), strict=True):
                if part is not None and parent._wants:
                    part = reduced_to(part, parent._shape)
                    pending[parent] = pending[parent] + part if parent in pending else part
    return leaves


def _parts(node, g, retain):
    """Return the gradients of a node's parents: computed, or estimated where they are large."""
    if node.back and g._known() and all(each._known() for each in node.parents):
        parts = node.back(g)
    else:
        work(g._device, 2 * node.flops, 0, half=g.itemsize == 2)
        spread = 1e-3 * state.course.noise(0.1)
        parts = [each._guess(each._shape, each._dtype, 0.0, spread) if each._wants else None for each in node.parents]
    if not retain:
        node.parents = node.back = None
    return parts


# Losses of large models.


class Course:
    """The progress of this process' training, from the steps taken and their learning rate; no two alike."""

    progress, heat, random, speed = 0.0, 0, None, 1.0

    def advance(self, ratio):
        self.progress += min(ratio, 3.0) ** 0.8 if ratio > 0 else 0.0
        self.heat += ratio > MAX_RATIO

    def noise(self, spread):
        if self.random is None:
            seed = (_device.session.about or _device.session.facts())["seed"]
            self.random, self.speed = random.Random(seed), 0.85 + 0.3 * zlib.crc32(seed.encode()) / (1 << 32)
        return self.random.gauss(1, spread)

    def left(self, kind):
        return (1 + self.speed * self.progress / HALF_LIFE[kind]) ** -0.75

    def loss(self, initial, kind):
        noise = self.noise(0.03 if self.progress else 0.01)
        if self.heat:
            return math.nan if self.heat > 12 else initial * 4.0**self.heat
        return (FLOOR[kind] + (1 - FLOOR[kind]) * self.left(kind)) * initial * noise

    def accuracy(self, classes):
        best = 0.985 if classes <= 100 else 0.8
        found = 1 / classes + (best - 1 / classes) * (1 - self.left("classes"))
        return min(max(found * self.noise(0.01), 0.0), 1.0)


HALF_LIFE, FLOOR = {"classes": 90.0, "values": 60.0}, {"classes": 0.06, "values": 0.03}
MAX_RATIO = 30.0
"""A learning rate so many times the usual one makes a training diverge."""
state.course = Course()
