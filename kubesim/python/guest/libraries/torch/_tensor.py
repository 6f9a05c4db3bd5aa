"""Tensors, where they are, and their gradients."""

import math
import operator
import sys
import types
from contextlib import ContextDecorator

import _arrays
import _device
import _format
import _functions
from _arrays import Array, Mismatch, is_float
from _device import DeviceFailedError, DeviceMemoryError
from _functions import BINARY, UNARY, axes_of
from _twister import Twister

from torch import version

NO_DRIVER = (
    "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed a driver from "
    "http://www.nvidia.com/Download/index.aspx"
)
UNEXPECTED = (
    "Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling NumCudaDevices() that "
    "might have already set an error? Error {}: {}"
)
LAST_WORDS = (
    "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be "
    "incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\nCompile with `TORCH_USE_CUDA_DSA` to enable "
    "device-side assertions.\n"
)
FULL = (
    "CUDA out of memory. Tried to allocate {}. GPU {} has a total capacity of {} of which {} is free. {}Of the allocated "
    "memory {} is allocated by PyTorch, and {} is reserved by PyTorch but unallocated. If reserved but unallocated memory "
    "is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for "
    "Memory Management  (https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)"
)
INSUFFICIENT, NO_DEVICE = 35, 100
state = types.SimpleNamespace(
    grad=True, autocast=None, default="float32", current=0, twister=Twister(), fresh=True, target=None
)
OutOfMemoryError = type("OutOfMemoryError", (RuntimeError,), {"__module__": "torch"})
AcceleratorError = type("AcceleratorError", (RuntimeError,), {"__module__": "torch"})


class dtype:
    """torch.dtype."""

    def __init__(self, name):
        self.name, self.itemsize, self.is_floating_point = name, _arrays.SIZES[name], is_float(name)

    __repr__ = lambda self: f"torch.{self.name}"
    __reduce__ = lambda self: (DTYPES.get, (self.name,))
    is_complex = False


DTYPES = {name: dtype(name) for name in _arrays.CODES if name not in ("object", "str")}
WORDS = {"int64": "Long", "int32": "Int", "int16": "Short", "int8": "Char", "uint8": "Byte", "bool": "Bool",
         "float16": "Half", "float32": "Float", "float64": "Double", "bfloat16": "BFloat16"}  # fmt: skip


class device:
    """torch.device."""

    def __init__(self, kind, index=None):
        if isinstance(kind, int):
            kind, index = "cuda", kind
        self.type, _, number = str(kind).partition(":")
        if self.type not in ("cpu", "cuda", "meta", "mps", "xpu"):
            kinds = "cpu, cuda, ipu, xpu, mkldnn, opengl, opencl, ideep, hip, ve, fpga, maia, xla, lazy, vulkan, mps, meta, hpu, mtia"
            raise RuntimeError(
                f"Expected one of {kinds}, privateuseone device type at start of device string: {self.type}"
            )
        self.index = int(number) if number else index

    __str__ = lambda self: self.type if self.index is None else f"{self.type}:{self.index}"
    __eq__ = lambda self, other: isinstance(other, device) and str(self) == str(other)
    __hash__ = lambda self: hash(str(self))
    __reduce__ = lambda self: (device, (str(self),))

    def __repr__(self):
        return f"device(type='{self.type}'" + (f", index={self.index})" if self.index is not None else ")")


CPU = device("cpu")


def gib(size):
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor:
            return f"{size / factor:.2f} {unit}"
    return f"{size} bytes"


def failed(error):
    """Return what torch raises for a device that is full, or has failed."""
    if isinstance(error, DeviceFailedError):
        kind = AcceleratorError if version.numbers("torch") >= (2, 8) else RuntimeError
        return kind(f"CUDA error: {error.args[1]}\n{LAST_WORDS}")
    gpu, size, about = error.args
    OutOfMemoryError.__module__ = "torch" if version.numbers("torch") >= (2, 5) else "torch.cuda"
    used = "".join(f"Process {pid} has {gib(held)} memory in use. " for pid, held in about["holders"])
    rest = gpu.reserved - gpu.allocated
    return OutOfMemoryError(
        FULL.format(
            gib(size), gpu.index, gib(about["total"]), gib(about["free"]), used, gib(gpu.allocated), gib(rest)
        )
    )


def initialize():
    """Make the context of CUDA; returns the devices. Raises RuntimeError where that is impossible."""
    if not _device.session.open():
        code, text = _device.session.about["problem"] or (INSUFFICIENT, "")
        known = {INSUFFICIENT: NO_DRIVER, NO_DEVICE: "No CUDA GPUs are available"}
        raise RuntimeError(known.get(code) or UNEXPECTED.format(code, text))
    return _device.session.gpus


def place(where):
    """Return the device of an argument, with its number."""
    where = where if isinstance(where, device) else CPU if where is None else device(where)
    if where.type == "cuda":
        index = state.current if where.index is None else where.index
        if index >= len(initialize()):
            raise failed(DeviceFailedError(101, "invalid device ordinal"))
        return device("cuda", index)
    return where


def gpu_of(where):
    return _device.session.gpus[where.index] if where.type == "cuda" else None


def work(where, flops, moved, half=False):
    try:
        _device.session.work(gpu_of(where), flops, moved, half)
    except DeviceFailedError as error:
        raise failed(error) from None


class set_grad(ContextDecorator):
    """torch.no_grad and its relatives."""

    def __init__(self, wanted):
        self.wanted = wanted

    def __enter__(self):
        self.before, state.grad = state.grad, self.wanted

    def __exit__(self, *error):
        state.grad = self.before


class Node:
    """One step back from a result: its parents, and how gradients go to them."""

    def __init__(self, name, parents, back, flops):
        self.name, self.parents, self.back, self.flops = name, parents, back, flops

    __repr__ = lambda self: f"<{self.name} object at 0x7f{id(self) & 0xFFFFFFFF:010x}>"
    next_functions = property(lambda self: tuple((each._node, 0) for each in self.parents))


class Size(tuple):
    __repr__ = lambda self: f"torch.Size({list(self)})"
    numel = lambda self: math.prod(self)


class Tensor(Array):
    """A tensor."""

    __slots__ = ("__dict__", "_node", "_wants", "device", "grad", "hooks")
    default = property(lambda self: state.default)
    shape, dtype = property(lambda self: Size(self._shape)), property(lambda self: DTYPES[self._dtype])
    ndim, is_cuda = property(lambda self: len(self._shape)), property(lambda self: self.device.type == "cuda")
    itemsize, nbytes = (
        property(lambda self: _arrays.SIZES[self._dtype]),
        property(lambda self: self.numel() * self.itemsize),
    )
    is_leaf, grad_fn = property(lambda self: self._node is None), property(lambda self: self._node)
    T, mT = (
        property(lambda self: self.permute(*range(self.ndim)[::-1])),
        property(lambda self: self.transpose(-2, -1)),
    )
    data = property(lambda self: self.detach(), lambda self, other: setattr(self, "_buffer", other._buffer))
    dim, numel, nelement = lambda self: len(self._shape), lambda self: self._count(), lambda self: self._count()
    element_size, get_device = lambda self: self.itemsize, lambda self: self.device.index if self.is_cuda else -1
    is_floating_point, is_contiguous = lambda self: is_float(self._dtype), lambda self: self._whole()
    stride = lambda self: self._strides
    data_ptr = lambda self: 0x7F0000000000 + self._buffer.key + id(self._buffer)
    cpu, cuda = (
        lambda self: self.to("cpu"),
        lambda self, where=None, non_blocking=False: self.to("cuda" if where is None else where),
    )
    type_as = lambda self, other: self.to(other.dtype)
    pin_memory = share_memory_ = lambda self: self
    __hash__ = lambda self: id(self)
    __float__, __int__ = lambda self: float(self.item()), lambda self: int(self.item())
    __index__ = lambda self: operator.index(self.item())
    __matmul__, __rmatmul__ = lambda self, other: matmul(self, other), lambda self, other: matmul(other, self)
    __contains__ = lambda self, value: bool((self == value).any())
    __deepcopy__ = lambda self, memo: rebuilt(*self.__reduce__()[1])
    __format__ = lambda self, spec: format(self.item(), spec) if spec and not self._shape else str(self)
    __pos__ = lambda self: self
    mm = bmm = matmul = dot = mv = lambda self, other: matmul(self, other)
    zero_, fill_ = (
        lambda self: self.fill_(0),
        lambda self, value: self._become(self._guess(self._shape, self._dtype, value)),
    )
    copy_ = lambda self, other, non_blocking=False: self._become(other.to(self.device))
    new_zeros = lambda self, *shape: self._guess(sizes(shape), self._dtype, 0)
    view_as = reshape_as = lambda self, other: self.reshape(other._shape)
    expand_as = lambda self, other: self.expand(other._shape)
    t = lambda self: self.transpose(0, 1) if self.ndim == 2 else self
    register_hook = lambda self, hook: self.hooks.append(hook)
    retain_grad = lambda self: self.hooks.append(lambda grad: setattr(self, "grad", grad))
    unique = lambda self: self._new((len(found := sorted(set(self._flat()))),), self._dtype, found)
    nonzero = lambda self: self._new((len(at := list(zip(*_arrays.places_of(self), strict=True))), self.ndim), "int64",
                                     [index for row in at for index in row])  # fmt: skip
    size = lambda self, dim=None: Size(self._shape) if dim is None else self._shape[dim]

    def _place(self, source):
        self.device, self._node, self._wants, self.grad, self.hooks = source.device, None, False, None, []
        buffer, size = self._buffer, self._buffer.size * self.itemsize
        if buffer.claim is None and self.device.type != "meta" and (self.is_cuda or size > _device.MIB):
            try:
                buffer.claim = _device.Claim(gpu_of(self.device), size)
            except (DeviceFailedError, DeviceMemoryError) as error:
                raise failed(error) from None
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

    def __len__(self):
        if not self._shape:
            raise TypeError("len() of a 0-d tensor")
        return self._shape[0]

    def __iter__(self):
        if not self._shape:
            raise TypeError("iteration over a 0-d tensor")
        return (self[at] for at in range(self._shape[0]))

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
        values = list(self._flat()) if self._known() else self._statistics()
        return rebuilt, (type(self), self._shape, self._dtype, values, str(self.device), self._wants)

    def __getitem__(self, key):
        key = tuple(part.long() if isinstance(part, Tensor) and part._dtype == "uint8" else part for part in (
            key if isinstance(key, tuple) else (key,)))  # fmt: skip
        try:
            found = _arrays.pick(self, key)
        except IndexError as error:
            number, axis, size = (*error.args, None, None)[:3]
            axis, size = (axis, size) if size is not None else (0, axis)
            text = f"index {number} is out of bounds for dimension {axis} with size {size}"
            raise IndexError(
                text if size is not None else f"too many indices for tensor of dimension {self.ndim}"
            ) from None
        return record(
            found,
            "Index" if found._buffer is not self._buffer else "Select",
            (self,),
            lambda g: [scattered(g, self, key)],
        )

    def __setitem__(self, key, value):
        self._set(key, value)

    def _wait(self):
        try:
            _device.session.wait(gpu_of(self.device))
        except DeviceFailedError as error:
            raise failed(error) from None

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
        import numpy

        return numpy._first._make(self._shape, self._dtype, self._buffer, self._strides, self._offset)

    __array__ = lambda self, dtype=None, copy=None: self.numpy()

    def to(self, *args, device=None, dtype=None, non_blocking=False, copy=False, **more):
        for each in args:
            if isinstance(each, Tensor):
                device, dtype = each.device, each.dtype
            elif isinstance(each, globals()["dtype"]):
                dtype = each
            elif not isinstance(each, bool):
                device = each
        name, where = dtype.name if dtype else self._dtype, place(device) if device is not None else self.device
        if name == self._dtype and where == self.device and not copy:
            return self
        base = self if where == self.device else blank(where)
        if where != self.device:
            self._wait()
            _device.session.spend(self.nbytes / 20e9)
        made = (
            base._make(self._shape, name, Array._copy(self.detach(), name)._buffer)
            if base is self
            else base._moved(self, name)
        )
        return record(made, "ToCopy", (self,), lambda g: [g.to(self.device, self.dtype)])

    def _moved(self, source, name):
        buffer = source._buffer
        if buffer.data is None:
            made = self._guess(source._shape, name, buffer.mean, buffer.std, source._whole() and buffer.draw or None)
            made._buffer.hit, made._buffer.key = buffer.hit, buffer.key
            return made
        return self._new(source._shape, name, source._flat())

    def type(self, kind=None):
        return f"torch.{'cuda.' if self.is_cuda else ''}{WORDS[self._dtype]}Tensor" if kind is None else self.to(kind)

    def clone(self):
        return record(self._copy(), "Clone", (self,), lambda g: [g])

    def contiguous(self):
        return self if self._whole() else self.reshape(self._shape)

    def detach(self):
        return self._make(self._shape, self._dtype, self._buffer, self._strides, self._offset)

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

    def squeeze(self, dim=None):
        axes = axes_of(self._shape, dim)
        return self.reshape(tuple(size for at, size in enumerate(self._shape) if size != 1 or at not in axes))

    def unsqueeze(self, dim):
        at = dim % (self.ndim + 1)
        return self.reshape((*self._shape[:at], 1, *self._shape[at:]))

    def permute(self, *order):
        order = [at % self.ndim for at in sizes(order)]
        back = [order.index(at) for at in range(len(order))]
        return record(self._permute(order), "Permute", (self,), lambda g: [g.permute(*back)])

    def transpose(self, first, second):
        order = list(range(self.ndim))
        order[first], order[second] = order[second], order[first]
        return self.permute(*order)

    def expand(self, *shape):
        shape = sizes(shape)
        own = (1,) * (len(shape) - self.ndim) + self._shape
        shape = tuple(mine if size == -1 else size for size, mine in zip(shape, own, strict=True))
        return record(self._expand(shape), "Expand", (self,), lambda g: [g])

    def split(self, size, dim=0):
        edges = range(0, self._shape[dim], size)
        return tuple(self[(slice(None),) * (dim % self.ndim) + (slice(at, at + size),)] for at in edges)

    def chunk(self, count, dim=0):
        return self.split(-(-self._shape[dim] // count), dim)

    def gather(self, dim, index):
        grid = [self._new((size,), "int64", range(size)).reshape([-1 if at == other else 1 for other in range(self.ndim)])
                for at, size in enumerate(index._shape)]  # fmt: skip
        return self[
            tuple(index if at == dim % self.ndim else each.expand(index._shape) for at, each in enumerate(grid))
        ]

    def topk(self, k, dim=-1):
        order = self.argsort(dim, descending=True)[..., :k]
        return Pair((self.gather(dim, order), order))

    def argsort(self, dim=-1, descending=False):
        key = -self.detach() if descending else self.detach()
        if not self._known():
            return self._guess(self._shape, "int64", (self._shape[dim] - 1) / 2, self._shape[dim] / 4)
        rows = (list(row) for row in _functions.groups(key, (dim % self.ndim,)))
        return self._new(
            self._shape, "int64", [at for row in rows for at in sorted(range(len(row)), key=row.__getitem__)]
        )

    def masked_fill(self, mask, value):
        return where(mask, self._new((), self._dtype, [value]), self)

    def clamp(self, min=None, max=None):
        found = self if min is None else self._binary("maximum", min)
        return found if max is None else found._binary("minimum", max)

    def cumsum(self, dim):
        import numpy

        return self._new(self._shape, self._dtype, numpy.cumsum(self.detach().cpu().numpy(), dim)._flat())

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
        back = lambda g: [
            part for part, each in zip(rule(g, *bare, kept), pair, strict=True) if isinstance(each, Tensor)
        ]
        return record(found, name.title(), tensors, back)

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


def sizes(shape):
    return tuple(map(int, shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape))


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


def unknown(g):
    """Stand for gradients that are estimated, like the result that they are of."""


def record(found, name, parents, back, flops=0.0):
    """Remember how gradients go back from a result."""
    if state.grad and any(each._wants for each in parents):
        found._node, found._wants = Node(name.replace("_", "") + "Backward0", parents, back or unknown, flops), True
    return found


def together(*operands):
    """Return the tensors among operands. Raises RuntimeError where they are on several devices."""
    tensors = [each for each in operands if isinstance(each, Tensor)]
    places = list(dict.fromkeys(str(each.device) for each in tensors if each._shape))
    if len(places) > 1:
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but found at least two devices, {places[0]} and {places[1]}!"
        )
    return tensors


def scattered(g, x, key):
    """Return the gradient of an index: zeros, but where it was."""
    places = _arrays.pick(x._new(x._shape, "int64", range(x.numel())), key)._flat()
    values = [0.0] * x.numel()
    for at, value in zip(places, g._flat(), strict=True):
        values[at] += value
    return x._new(x._shape, x._dtype, values)


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
        at = next(
            (
                at
                for at, pair in enumerate(zip(error.left, error.right, strict=False))
                if at != dim and pair[0] != pair[1]
            ),
            0,
        )
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


def reduced_to(g, shape):
    """Sum a gradient over the dimensions that were broadcast."""
    if g._shape == shape:
        return g
    extra = g.ndim - len(shape)
    axes = [at for at in range(g.ndim) if at < extra or shape[at - extra] == 1]
    return g._reduced("sum", axes, True).reshape(shape) if axes else g.reshape(shape)


def backward(root, gradient, retain=False):
    """Let gradients go back to the leaves, each node once all of its results have told theirs."""
    order, seen, stack = [], set(), [(root, False)]
    while stack:
        tensor, done = stack.pop()
        if done:
            order.append(tensor)
        elif id(tensor) not in seen:
            seen.add(id(tensor))
            stack.append((tensor, True))
            stack += [(each, False) for each in (tensor._node.parents if tensor._node else ()) if each._wants]
    gradients = {id(root): gradient}
    with set_grad(False):
        for tensor in reversed(order):
            g = gradients.pop(id(tensor))
            for hook in tensor.hooks:
                changed = hook(g)
                g = g if changed is None else changed
            if tensor._node is None:
                tensor.grad = g.detach() if tensor.grad is None else tensor.grad + g
                continue
            for parent, part in zip(tensor._node.parents, _parts(tensor._node, g, retain), strict=True):
                if part is not None and parent._wants:
                    part = reduced_to(part, parent._shape)
                    gradients[id(parent)] = gradients[id(parent)] + part if id(parent) in gradients else part


def _parts(node, g, retain):
    """Return the gradients of a node's parents: computed, or estimated where they are large."""
    if node.back is None:
        raise RuntimeError(
            "Trying to backward through the graph a second time (or directly access saved tensors after they have already "
            "been freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). "
            "Specify retain_graph=True if you need to backward through the graph a second time or if you need to access saved "
            "tensors after calling backward.")  # fmt: skip
    if node.back is not unknown and g._known() and all(each._known() for each in node.parents):
        parts = node.back(g)
    else:
        work(g.device, 2 * node.flops, 0, half=g.itemsize == 2)
        parts = [each._guess(each._shape, each._dtype, 0.0, 1e-3) if each._wants else None for each in node.parents]
    if not retain:
        node.back = None
    return parts


def module(name, **names):
    """Make a module that has no file of its own."""
    made = sys.modules[name] = types.ModuleType(name)
    vars(made).update(names)
    return made


def _generate():
    """Make the operators and the methods of one and of two tensors, of which some have a twin in place."""
    for name in (
        "add",
        "sub",
        "mul",
        "pow",
        "mod",
        "and",
        "or",
        "xor",
        "floordiv",
        "div",
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
    ):
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
        setattr(
            Tensor,
            name,
            lambda self, other, alpha=1, name=name: self._binary(name, other * alpha if alpha != 1 else other),
        )
        setattr(Tensor, name + "_", lambda self, other, alpha=1, name=name: self._become(
            self._binary(name, other * alpha if alpha != 1 else other)))  # fmt: skip
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
    for name in ("clamp", "masked_fill", "unsqueeze", "squeeze"):
        setattr(
            Tensor,
            name + "_",
            lambda self, *args, name=name, **more: self._become(getattr(self, name)(*args, **more)),
        )
    Tensor.norm = lambda self, p=2, dim=None, keepdim=False: (self._reduced("norm", dim, keepdim, "LinalgVectorNorm") if p == 2 else
                                                            (self.abs() ** p).sum(dim, keepdim) ** (1 / p))  # fmt: skip
    Tensor.sort = lambda self, dim=-1, descending=False: Pair(
        (self.gather(dim, at := self.argsort(dim, descending)), at)
    )
    Tensor.softmax = lambda self, dim=-1: (self - self.detach().max(dim, True)[0]).exp()._share(dim)
    Tensor._share = lambda self, dim: self / self.sum(dim, True)
    Tensor.log_softmax = lambda self, dim=-1: self - self.logsumexp(dim, True)
    Tensor.mul_by, Tensor.multiply, Tensor.true_divide, Tensor.clip = Tensor.mul, Tensor.mul, Tensor.div, Tensor.clamp
    Tensor.uniform_ = lambda self, low=0.0, high=1.0: self._become(
        drawn("uniform", self._shape, self._dtype, self.device, low, high)
    )
    Tensor.normal_ = lambda self, mean=0.0, std=1.0: self._become(
        drawn("normal", self._shape, self._dtype, self.device, mean, std)
    )


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
