"""PyTorch: tensors with gradients, on the devices that the driver gives the container."""

import bisect
import builtins
import contextlib
import itertools
import math
import pickle

import _arrays
import numpy
from _functions import BINARY, UNARY
from _methods import sizes

from torch import _ops, version
from torch._autograd import set_grad
from torch._ops import cat, drawn, generator, matmul
from torch._tensor import Size, Tensor, blank, where
from torch._types import DTYPES, AcceleratorError, OutOfMemoryError, device, dtype, state

__all__ = ["AcceleratorError", "OutOfMemoryError", "Size", "Tensor", "device", "dtype", "where"]
globals().update(DTYPES)
long, int, float, double, half = (DTYPES[each] for each in "int64 int32 float32 float64 float16".split())
inf, nan, pi = math.inf, math.nan, math.pi
mm = bmm = matmul
NAMES = """sum mean prod argmax argmin all any logsumexp median std var max min norm sort softmax log_softmax clamp argsort
topk cumsum flatten reshape squeeze unsqueeze permute transpose t split chunk gather masked_fill numel unique clone dot"""
"""Functions that are methods, like those of the core's tables."""
for name in [*NAMES.split(), *UNARY, *BINARY]:
    if name not in ("and", "or"):
        globals()[name] = lambda x, *args, name=name, **more: getattr(x, name)(*args, **more)


class no_grad(set_grad):
    def __init__(self, mode=True):
        super().__init__(not mode)


inference_mode, enable_grad = no_grad, lambda: set_grad(True)
is_grad_enabled, is_tensor = lambda: state.grad, lambda x: isinstance(x, Tensor)
set_num_threads = set_float32_matmul_precision = lambda wanted: None
_marked = lambda made, wants: made.requires_grad_() if wants else made
compile = lambda model=None, **options: model if model is not None else lambda made: made


def tensor(data, dtype=None, device=None, requires_grad=False, pin_memory=False):
    if hasattr(data, "__array__") and not isinstance(data, Tensor):
        data = as_tensor(data)
    if isinstance(data, Tensor):
        return _marked(data.detach().to(device=device, dtype=dtype, copy=True), requires_grad)
    try:
        shape, values = _arrays.flattened(data)
    except ValueError as error:
        left, right, at = error.args[1:]
        raise ValueError(
            f"expected sequence of length {left[0] if left else 0} at dim 1 (got {right[0] if right else 0})"
        ) from None
    values = [each.item() if isinstance(each, Tensor) else each for each in values]
    name = dtype.name if dtype else _arrays.dtype_of(values, state.default)
    if name in ("str", "object"):
        kind = type(next(each for each in values if not isinstance(each, (builtins.int, builtins.float)))).__name__
        raise TypeError(f"new(): invalid data type '{kind}'" if kind == "str" else f"must be real number, not {kind}")
    return _marked(blank(device)._new(shape, name, values), requires_grad)


def as_tensor(data, dtype=None, device=None):
    if hasattr(data, "__array__") and not isinstance(data, Tensor):
        data = data if isinstance(data, _arrays.Array) else data.__array__()
        data = blank()._make(data._shape, data._dtype, data._buffer, data._strides, data._offset)
    return data.to(device=device, dtype=dtype) if isinstance(data, Tensor) else tensor(data, dtype, device)


from_numpy = as_tensor


def full(shape, fill_value, dtype=None, device=None, requires_grad=False, **more):
    name = dtype.name if dtype else _arrays.dtype_of([fill_value], state.default)
    return _marked(blank(device)._guess(sizes((shape,)), name, fill_value), requires_grad)


def _alike(function):
    def like(x, *args, dtype=None, device=None, **more):
        return function(x._shape, *args, dtype=dtype or x.dtype, device=device or x.device, **more)

    return like


def _random(kind):
    def draw(*shape, dtype=None, device=None, requires_grad=False, **more):
        made = drawn(kind, sizes(shape), dtype.name if dtype else state.default, device, 0.0, 1.0)
        return _marked(made, requires_grad)

    return draw


zeros, ones = (
    lambda *shape, dtype=None, value=value, **more: full(sizes(shape), value, dtype or DTYPES[state.default], **more)
    for value in (0, 1)
)
empty, rand, randn = zeros, _random("uniform"), _random("normal")
zeros_like, ones_like, empty_like, full_like, rand_like, randn_like = map(
    _alike, (zeros, ones, empty, full, rand, randn)
)


def randint(low, high=None, size=None, dtype=None, device=None, **more):
    if not isinstance(high, builtins.int):
        low, high, size = 0, low, high if size is None else size
    return drawn("whole", tuple(size), (dtype or long).name, device, low, high)


def randperm(count, device=None, **more):
    order, twister = list(range(count)), generator()
    for at in range(count - 1):
        other = at + twister.bits() % (count - at)
        order[at], order[other] = order[other], order[at]
    return tensor(order, dtype=long, device=device)


def arange(first, last=None, step=1, dtype=None, device=None, **more):
    first, last = (0, first) if last is None else (first, last)
    name = dtype.name if dtype else _arrays.dtype_of([first, last, step], state.default)
    return as_tensor(numpy.arange(first, last, step), device=device).to(DTYPES[name])


def _borrowed(function):
    return lambda *args, dtype=None, device=None: as_tensor(function(*args), dtype or DTYPES[state.default], device)


linspace, eye = _borrowed(numpy.linspace), _borrowed(numpy.eye)


def stack(tensors, dim=0):
    tensors = list(tensors)
    for at, each in enumerate(tensors):
        if each._shape != tensors[0]._shape:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(tensors[0]._shape)} at entry 0 and "
                f"{list(each._shape)} at entry {at}"
            )
    return cat([each.unsqueeze(dim) for each in tensors], dim)


def _band(x, wanted):
    rows, columns = x._shape[-2:]
    inside = [[wanted(column - row) for column in range(columns)] for row in range(rows)]
    return where(tensor(inside, device=x.device), x, 0.0)


def multinomial(input, num_samples, replacement=False, **more):
    rows, found = input.reshape(-1, input._shape[-1]), []
    for row in range(rows.size(0)):
        weights = list(rows[row]._flat())
        for _ in range(num_samples):
            sums = list(itertools.accumulate(weights))
            at = bisect.bisect(sums, rand(1).item() * sums[-1], hi=len(sums) - 1)
            found.append(at)
            weights[at] *= replacement
    return tensor(found, dtype=long, device=input.device).reshape(*input._shape[:-1], num_samples)


tril = lambda x, diagonal=0: _band(x, lambda distance: distance <= diagonal)
triu = lambda x, diagonal=0: _band(x, lambda distance: distance >= diagonal)
equal = lambda a, b: a._shape == b._shape and builtins.bool((a == b).all())
allclose = lambda a, b, rtol=1e-5, atol=1e-8: builtins.bool(((a - b).abs() <= b.abs() * rtol + atol).all())


class Generator:
    device = device("cpu")
    manual_seed = lambda self, seed: manual_seed(seed) and self


def manual_seed(seed):
    _ops.seed(seed)
    return Generator()


def _file(f, mode):
    return open(f, mode) if isinstance(f, (str, bytes)) or hasattr(f, "__fspath__") else contextlib.nullcontext(f)


def save(obj, f, **options):
    """Write what load reads: large tensors without their elements."""
    with _file(f, "wb") as target:
        target.write(pickle.dumps(obj))


def load(f, map_location=None, **options):
    state.target = map_location
    try:
        with _file(f, "rb") as source:
            return pickle.loads(source.read())
    finally:
        state.target = None


def __getattr__(name):
    if name == "__version__":
        return version.__version__
    raise AttributeError(f"module 'torch' has no attribute {name!r}")


from torch import amp, backends, cuda, nn, optim, distributed, utils  # noqa: E402, F401, I001

autocast = amp.autocast
del name
