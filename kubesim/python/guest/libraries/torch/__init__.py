"""PyTorch: tensors with gradients, on the devices that the driver gives the container."""

import builtins
import contextlib
import math
import pickle
import types
from random import Random

import _arrays
import _elements
import numpy
from _arrays import sizes
from _elements import NAMES, accepting, missing, named
from _random_numbers import Source

from torch import _types
from torch._tensor import Size, Tensor, blank, cat, drawn, matmul, set_grad, where
from torch._types import DTYPES, AcceleratorError, OutOfMemoryError, device, dtype, module, state

__all__ = ["AcceleratorError", "OutOfMemoryError", "Size", "Tensor", "cat", "device", "dtype", "matmul", "where"]
globals().update(DTYPES)
long, int, float, double, half = (DTYPES[each] for each in "int64 int32 float32 float64 float16".split())
inf, nan, pi = math.inf, math.nan, math.pi
for name in NAMES["torch"]["methods"].split():
    globals()[name] = lambda x, *args, name=name, **more: getattr(x, name)(*args, **more)


inference_mode = no_grad = lambda mode=True: set_grad(False)(mode) if callable(mode) else set_grad(not mode)
enable_grad = lambda: set_grad(True)
is_grad_enabled, is_tensor = lambda: state.grad, lambda x: isinstance(x, Tensor)
set_num_threads = set_float32_matmul_precision = lambda wanted: None
_marked = lambda made, wants: made.requires_grad_() if wants else made


@accepting(NAMES["ignored"]["compile"])
def compile(model=None):
    return model if model is not None else lambda made: made


def tensor(data, dtype=None, device=None, requires_grad=False):
    if isinstance(data, Tensor):
        return _marked(data.detach().to(device=device, dtype=dtype, copy=True), requires_grad)
    return _marked(_arrays.built(blank(device), data, dtype.name if dtype else None), requires_grad)


def as_tensor(data, dtype=None, device=None):
    if hasattr(data, "__array__") and not isinstance(data, Tensor):
        data = data if isinstance(data, _arrays.Array) else data.__array__()
        data = blank()._make(data._shape, data._dtype, data._buffer, data._strides, data._offset)
    return data.to(device=device, dtype=dtype) if isinstance(data, Tensor) else tensor(data, dtype, device)


from_numpy = as_tensor


def full(shape, fill_value, dtype=None, device=None, requires_grad=False):
    name = dtype.name if dtype else _elements.dtype_of([fill_value], state.default)
    return _marked(blank(device)._guess(sizes((shape,)), name, fill_value), requires_grad)


def _maker(kind, value):
    def made(*size, dtype=None, device=None, requires_grad=False, generator=None, pin_memory=False):
        name = dtype.name if dtype else state.default
        return _marked(drawn(kind, sizes(size), name, device, value, 1.0, generator), requires_grad)

    return made


_like = lambda make: (
    lambda x, *, dtype=None, device=None: make(x._shape, dtype=dtype or x.dtype, device=device or x.device)
)
zeros, ones, rand, randn = (
    named(name, _maker(kind, value))
    for name, kind, value in (("zeros", "all", 0), ("ones", "all", 1), ("rand", "uniform", 0), ("randn", "normal", 0))
)
zeros_like, ones_like, rand_like, randn_like = map(_like, (zeros, ones, rand, randn))
empty, empty_like = zeros, zeros_like
full_like = lambda x, fill_value, dtype=None: full(x._shape, fill_value, dtype or x.dtype, x.device)


def randint(low, high=None, size=None, dtype=None, device=None, generator=None):
    if not isinstance(high, builtins.int):
        low, high, size = 0, low, high if size is None else size
    return drawn("whole", size, (dtype or long).name, device, low, high, generator)


def randperm(n, device=None, generator=None):
    order = list(range(n))
    Random(rand(1, generator=generator).item()).shuffle(order)
    return tensor(order, dtype=long, device=device)


def arange(first, last=None, step=1, dtype=None, device=None):
    first, last = (0, first) if last is None else (first, last)
    name = dtype.name if dtype else _elements.dtype_of([first, last, step], state.default)
    return as_tensor(numpy.arange(first, last, step), DTYPES[name], device)


def _borrowed(function):
    return lambda *args, dtype=None, device=None: as_tensor(function(*args), dtype or DTYPES[state.default], device)


linspace, eye = _borrowed(numpy.linspace), _borrowed(numpy.eye)


def stack(tensors, dim=0):
    tensors = list(tensors)
    for at, each in enumerate(tensors):
        if each._shape != tensors[0]._shape:
            raise each._error("stack", left=tensors[0]._shape, right=each._shape, at=at)
    return cat([each.unsqueeze(dim) for each in tensors], dim)


def _band(x, wanted):
    rows, columns = x._shape[-2:]
    inside = [[wanted(column - row) for column in range(columns)] for row in range(rows)]
    return where(tensor(inside, device=x.device), x, 0.0)


def multinomial(input, num_samples, replacement=False, generator=None):
    rows, found = input.reshape(-1, input._shape[-1]), []
    for row in rows:
        weights, picked = list(row._flat()), []
        chance = Random(rand(1, generator=generator).item())
        while len(picked) < num_samples:
            picked += chance.choices(range(len(weights)), weights)
            weights[picked[-1]] *= replacement
        found.append(picked)
    return tensor(found, dtype=long, device=input.device).reshape(*input._shape[:-1], num_samples)


tril = lambda x, diagonal=0: _band(x, lambda distance: distance <= diagonal)
triu = lambda x, diagonal=0: _band(x, lambda distance: distance >= diagonal)
equal = lambda a, b: a._shape == b._shape and builtins.bool((a == b).all())
allclose = lambda a, b, rtol=1e-5, atol=1e-8: builtins.bool(((a - b).abs() <= b.abs() * rtol + atol).all())


class Generator(Source):
    device = device("cpu")
    manual_seed = lambda self, seed: self.seed(seed) or self


state.source = Generator()
manual_seed = state.source.manual_seed
_elements.EXCEPTIONS["UnpicklingError"] = pickle.UnpicklingError


class WeightsUnpickler(pickle.Unpickler):
    """Reads tensors in Python's containers and nothing else: a pickle can run what it likes."""

    def find_class(self, module, name):
        if f"{module}.{name}" not in NAMES["torch"]["saved"]:
            raise _elements.error("torch.unsafe", name=f"{module}.{name}")
        return super().find_class(module, name)


def _file(f, mode):
    return open(f, mode) if isinstance(f, (str, bytes)) or hasattr(f, "__fspath__") else contextlib.nullcontext(f)


def save(obj, f):
    """Write what load reads: large tensors without their elements."""
    with _file(f, "wb") as target:
        target.write(pickle.dumps(obj))


@accepting("mmap")
def load(f, map_location=None, weights_only=None):
    only = _types.numbers("torch") >= (2, 6) if weights_only is None else weights_only
    state.target = map_location
    try:
        with _file(f, "rb") as source:
            return (WeightsUnpickler if only else pickle.Unpickler)(source).load()
    finally:
        state.target = None


del name
_own = {"__version__": lambda: _elements.version("torch")}
__getattr__ = missing("torch", **_own)
_own["cuda"] = lambda: ".".join(map(str, _types.numbers("cuda")[:2]))
module("torch.version", __getattr__=missing("torch.version", **_own), debug=False, hip=None)
module(
    "torch.backends",
    cudnn=types.SimpleNamespace(version=_types.cudnn_version, is_available=lambda: True),
    cuda=types.SimpleNamespace(matmul=types.SimpleNamespace(allow_tf32=False), is_built=lambda: True),
    mps=types.SimpleNamespace(is_available=lambda: False, is_built=lambda: False),
)
from torch import cuda, nn, optim, distributed, utils  # noqa: E402, F401, I001

autocast = cuda.autocast
