"""Tensors."""

import math
from itertools import compress

import _arrays
import _device
import _format
import _functions
import numpy
from _arrays import Array, Mismatch, axes_of, is_float
from _functions import BINARY, UNARY
from _methods import Common, sizes

from torch._autograd import backward, record, scattered
from torch._types import DTYPES, WORDS, device, device_errors, gpu_of, place, state, work


class Size(tuple):
    __repr__ = lambda self: f"torch.Size({list(self)})"
    numel = lambda self: math.prod(self)


class Tensor(Common):
    """A tensor."""

    __slots__ = ("__dict__", "_node", "_wants", "device", "grad", "hooks")
    word, axis_word, no_length = "tensor", "dimension", "len() of a 0-d tensor"
    too_many = "too many indices for tensor of dimension {}"
    default = property(lambda self: state.default)
    shape, dtype = property(lambda self: Size(self._shape)), property(lambda self: DTYPES[self._dtype])
    is_cuda, T = property(lambda self: self.device.type == "cuda"), property(lambda self: self.transpose(0, -1))
    is_leaf, grad_fn = property(lambda self: self._node is None), property(lambda self: self._node)
    data = property(lambda self: self.detach(), lambda self, other: setattr(self, "_buffer", other._buffer))
    dim, element_size = lambda self: self.ndim, lambda self: self.itemsize
    numel = nelement = lambda self: self._count()
    is_floating_point, is_contiguous = lambda self: is_float(self._dtype), lambda self: self._whole()
    cpu, pin_memory = lambda self: self.to("cpu"), lambda self: self
    cuda = lambda self, where=None, non_blocking=False: self.to("cuda" if where is None else where)
    __hash__ = lambda self: id(self)
    __deepcopy__ = lambda self, memo: rebuilt(*self.__reduce__()[1])
    __array__ = lambda self, dtype=None, copy=None: self.numpy()
    zero_ = lambda self: self.fill_(0)
    fill_ = lambda self, value: self._become(self._guess(self._shape, self._dtype, value))
    copy_ = lambda self, other, non_blocking=False: self._become(other.to(self.device))
    t = lambda self: self.transpose(0, 1) if self.ndim == 2 else self
    register_hook = lambda self, hook: self.hooks.append(hook)
    unique = lambda self: self._new((len(found := sorted(set(self._flat()))),), self._dtype, found)
    size = lambda self, dim=None: Size(self._shape) if dim is None else self._shape[dim]
    _in_place = lambda self, name, other: self._become(self._binary(name, other))
    clone = lambda self: record(self._copy(), "Clone", (self,), lambda g: [g])
    contiguous = lambda self: self if self._whole() else self.reshape(self._shape)
    detach = lambda self: self._make(self._shape, self._dtype, self._buffer, self._strides, self._offset)
    transpose = lambda self, first, second: self.permute(*self._swapped(first, second))
    chunk = lambda self, count, dim=0: self.split(-(-self._shape[dim] // count), dim)
    cumsum = lambda self, dim: _functions.lines(self.detach(), dim, _functions.sums)
    log_softmax = lambda self, dim=-1, dtype=None: self - self.logsumexp(dim, True)
    masked_fill = lambda self, mask, value: where(mask, self._new((), self._dtype, [value]), self)

    def _place(self, source):
        self.device, self._node, self._wants, self.grad, self.hooks = source.device, None, False, None, []
        buffer, size = self._buffer, self._buffer.size * self.itemsize
        if buffer.claim is None and self.device.type != "meta" and (self.is_cuda or size > _device.MIB):
            with device_errors():
                buffer.claim = _device.Claim(gpu_of(self.device), size)
            work(self.device, 0, 3 * size)

    @staticmethod
    def _promoted(left, right, a, b):
        if bool(a._shape) != bool(b._shape) and is_float(left) == is_float(right):
            return left if a._shape else right
        if is_float(left) != is_float(right):
            return left if is_float(left) else right
        return _arrays.promote(left, right, wide=False)

    @property
    def requires_grad(self):
        return self._wants

    @requires_grad.setter
    def requires_grad(self, wanted):
        if wanted and not is_float(self._dtype):
            raise RuntimeError("only Tensors of floating point dtype can require gradients")
        self._wants = bool(wanted)

    def requires_grad_(self, wanted=True):
        self.requires_grad = wanted
        return self

    def __bool__(self):
        if self.numel() != 1:
            what = "no values" if not self.numel() else "more than one value"
            raise RuntimeError(f"Boolean value of Tensor with {what} is ambiguous")
        return bool(self.item())

    def __repr__(self):
        self._wait()
        rest = [f"device='{self.device}'"] if self.is_cuda else []
        if not self.numel() and self._shape != (0,):
            rest.append(f"size={self._shape}")
        if self._dtype not in (state.default, "int64", "bool"):
            rest.append(f"dtype=torch.{self._dtype}")
        rest += [f"grad_fn=<{self._node.name}>"] if self._node else ["requires_grad=True"] if self._wants else []
        name = type(self).__name__
        return (f"{name} containing:\n" if name != "Tensor" else "") + _format.torch_text(self, "tensor(", rest)

    def __reduce__(self):
        return rebuilt, (type(self), self._shape, self._dtype, self._saved(), str(self.device), self._wants)

    def __getitem__(self, key):
        found = self._pick(key)
        word = "Select" if found._buffer is self._buffer else "Index"
        return record(found, word, (self,), lambda g: [scattered(g, self, key)])

    def __setitem__(self, key, value):
        self._set(key, value)

    def _wait(self):
        with device_errors():
            _device.session.wait(gpu_of(self.device))

    def item(self):
        if self.numel() != 1:
            raise RuntimeError(f"a Tensor with {self.numel()} elements cannot be converted to Scalar")
        self._wait()
        return self._python()[0]

    def tolist(self):
        self._wait()
        return self._nested()

    def numpy(self, force=False):
        if self.is_cuda and not force:
            raise TypeError(
                f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
            )
        if self._wants and not force:
            raise RuntimeError(
                "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
            )
        return numpy._first._make(self._shape, self._dtype, self._buffer, self._strides, self._offset)

    def to(self, *args, device=None, dtype=None, non_blocking=False, copy=False, **more):
        for each in args:
            if isinstance(each, Tensor):
                device, dtype = each.device, each.dtype
            elif type(each) is type(DTYPES["bool"]):
                dtype = each
            elif not isinstance(each, bool):
                device = each
        name, where = dtype.name if dtype else self._dtype, place(device) if device is not None else self.device
        if name == self._dtype and where == self.device and not copy:
            return self
        if where != self.device:
            self._wait()
            _device.session.spend(self.nbytes / 20e9)
        made = Array._copy(self.detach(), name, blank(where))
        return record(made, "ToCopy", (self,), lambda g: [g.to(self.device, self.dtype)])

    def _become(self, other):
        """Take the elements of another tensor in place."""
        if self._wants and self._node is None and state.grad:
            raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
        self._set(..., other)
        if other._node:
            self._node, self._wants = other._node, True
        return self

    def backward(self, gradient=None, retain_graph=False):
        if not self._wants:
            raise RuntimeError("element 0 of tensors does not require grad and does not have a grad_fn")
        if gradient is None and self.numel() != 1:
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
        backward(self, self._guess(self._shape, self._dtype, 1.0) if gradient is None else gradient, retain_graph)

    def reshape(self, *shape):
        shape = sizes(shape)
        try:
            found = self._reshape(shape)
        except ValueError:
            raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {self.numel()}") from None
        return record(found, "View", (self,), lambda g: [g.reshape(self._shape)])

    def view(self, *shape):
        steps = [step for step, size in zip(self._strides, self._shape, strict=True) if size > 1]
        if steps != sorted(steps, reverse=True):
            what = "view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
            raise RuntimeError(what + "contiguous subspaces). Use .reshape(...) instead.")
        return self.reshape(*shape)

    def flatten(self, start_dim=0, end_dim=-1):
        shape, end = self._shape or (1,), end_dim % max(self.ndim, 1)
        return self.reshape((*shape[:start_dim], math.prod(shape[start_dim : end + 1]), *shape[end + 1 :]))

    def unsqueeze(self, dim):
        at = dim % (self.ndim + 1)
        return self.reshape((*self._shape[:at], 1, *self._shape[at:]))

    def permute(self, *order):
        order = [at % self.ndim for at in sizes(order)]
        back = [order.index(at) for at in range(len(order))]
        return record(self._permute(order), "Permute", (self,), lambda g: [g.permute(*back)])

    def expand(self, *shape):
        shape = sizes(shape)
        own = (1,) * (len(shape) - self.ndim) + self._shape
        shape = tuple(mine if size == -1 else size for size, mine in zip(shape, own, strict=True))
        return record(self._expand(shape), "Expand", (self,), lambda g: [g])

    def split(self, size, dim=0):
        edges = range(0, self._shape[dim], size)
        return tuple(self[(slice(None),) * (dim % self.ndim) + (slice(at, at + size),)] for at in edges)

    def gather(self, dim, index):
        key = []
        for at, size in enumerate(index._shape):
            shape = [-1 if at == other else 1 for other in range(self.ndim)]
            key.append(self._new((size,), "int64", range(size)).reshape(shape).expand(index._shape))
        key[dim] = index
        return self[tuple(key)]

    def topk(self, k, dim=-1):
        order = self.argsort(dim, descending=True)[..., :k]
        return Pair((self.gather(dim, order), order))

    def argsort(self, dim=-1, descending=False):
        return _functions.lines(-self.detach() if descending else self.detach(), dim, _functions.order, "int64")

    def sort(self, dim=-1, descending=False):
        order = self.argsort(dim, descending)
        return Pair((self.gather(dim, order), order))

    def clamp(self, min=None, max=None):
        found = self if min is None else self._binary("maximum", min)
        return found if max is None else found._binary("minimum", max)

    def softmax(self, dim=-1, dtype=None):
        if not self._known():
            share = 1 / self._shape[dim]
            return record(self._guess(self._shape, self._dtype, share, share), "Softmax", (self,), None)
        powers = (self - self.detach().max(dim, True)[0]).exp()
        return powers / powers.sum(dim, True)

    def norm(self, p=2, dim=None, keepdim=False):
        if p == 2:
            return self._reduced("norm", dim, keepdim, "LinalgVectorNorm")
        return (self.abs() ** p).sum(dim, keepdim) ** (1 / p)

    def _unary(self, name):
        found, rule = _functions.unary(name, self), UNARY[name][1]
        kept = found.detach() if rule and self._wants else None
        return record(found, name.title(), (self,), lambda g: [rule(g, self.detach(), kept)]) if rule else found

    def _binary(self, name, other, turned=False):
        if not isinstance(other, (int, float, Tensor)):
            return NotImplemented
        pair = (other, self) if turned else (self, other)
        tensors = together(*pair)
        try:
            found = _functions.binary(name, *pair)
        except Mismatch as error:
            raise RuntimeError(
                f"The size of tensor a ({error.left}) must match the size of tensor b ({error.right}) at non-singleton "
                f"dimension {error.at}"
            ) from None
        rule = BINARY[name][1]
        if not rule or not state.grad or not any(each._wants for each in tensors):
            return found
        kept, bare = found.detach(), [each.detach() if isinstance(each, Tensor) else each for each in pair]
        chosen = [isinstance(each, Tensor) for each in pair]
        return record(found, name.title(), tensors, lambda g: list(compress(rule(g, *bare, kept), chosen)))

    def _reduced(self, name, dim=None, keepdim=False, word=""):
        if name == "mean" and not is_float(self._dtype):
            raise RuntimeError(
                "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: "
                + WORDS[self._dtype]
            )
        try:
            whole = _functions.reduce(name, self, dim, True)
        except IndexError as error:
            number, count = error.args
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-count}, {count - 1}], but got {number})"
            ) from None
        if name == "argmax" and dim is not None and not self._known():
            whole._buffer.hit = state.course.accuracy(self._shape[dim])
        shape = tuple(size for at, size in enumerate(whole._shape) if keepdim or at not in axes_of(self._shape, dim))
        found, rule = whole._reshape(shape), SLOPES.get(name)
        count = self.numel() // max(whole.numel(), 1)
        back = lambda g: [rule(g.reshape(whole._shape), self.detach(), whole, count).expand(self._shape)]
        return record(found, word or name.title(), (self,), back) if rule else found

    def _extreme(self, name, dim=None, keepdim=False):
        if isinstance(dim, Tensor):
            return self._binary({"max": "maximum", "min": "minimum"}[name], dim)
        found = self._reduced(name, dim, keepdim)
        return found if dim is None else Pair((found, self._reduced("arg" + name, dim, keepdim)))


SLOPES = {
    "sum": lambda g, x, y, n: g, "mean": lambda g, x, y, n: g / n, "max": lambda g, x, y, n: g * (x == y),
    "min": lambda g, x, y, n: g * (x == y), "norm": lambda g, x, y, n: g * x / y, "prod": lambda g, x, y, n: g * y / x,
    "logsumexp": lambda g, x, y, n: g * (x - y).exp(), "std1": lambda g, x, y, n: g * (x - x.mean()) / (y * (n - 1)),
    "var1": lambda g, x, y, n: g * (x - x.mean()) * (2 / (n - 1)),
    "var0": lambda g, x, y, n: g * 2 * (x - x._reduced("mean", [at for at in range(x.ndim) if y._shape[at] == 1], True)) / n,
}  # fmt: skip
Tensor.kind = Tensor


class Pair(tuple):
    """torch.return_types.max and its like."""

    values, indices = property(lambda self: self[0]), property(lambda self: self[1])
    __repr__ = lambda self: f"torch.return_types.max(\nvalues={self[0]},\nindices={self[1]})"


def blank(where=None):
    """Return what tensors on a device are made from."""
    made = object.__new__(Tensor)
    made.device = place(where)
    return made


def rebuilt(kind, shape, name, values, where, wants):
    base = blank(state.target if isinstance(state.target, (str, device)) else where)
    made = base._new(shape, name, values) if isinstance(values, list) else base._guess(shape, name, *values)
    made.__class__, made._wants = kind, wants
    return made


def where(condition, x, y):
    x, y = (each if isinstance(each, Tensor) else condition._new((), state.default, [each]) for each in (x, y))
    found = _arrays.choose(condition, x, y)
    return record(found, "Where", (x, y), lambda g: [g * condition, g * condition.logical_not()])


def together(*operands):
    """Return the tensors among operands. Raises RuntimeError where they are on several devices."""
    tensors = [each for each in operands if isinstance(each, Tensor)]
    places = list(dict.fromkeys(str(each.device) for each in tensors if each._shape))
    if len(places) > 1:
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but found at least two devices, {places[0]} and {places[1]}!"
        )
    return tensors
