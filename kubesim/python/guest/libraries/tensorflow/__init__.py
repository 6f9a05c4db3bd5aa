"""TensorFlow 2, executed eagerly: torch's tensors by TensorFlow's names, with its words and on its devices.

Sources of wordings: tensorflow/python/eager/context.py, core/common_runtime/gpu/gpu_device.cc.
"""

import builtins
import contextlib
import datetime
import os
import sys
import types
from collections import namedtuple

import _device
import numpy as np
import torch
from _arrays import built, sizes
from _elements import EXCEPTIONS, NAMES, accepting, dtype_name, error, missing, version
from _random_numbers import Source
from machine import start

OWN, space = NAMES["tensorflow"], types.SimpleNamespace
BFC_SHARE = 0.9965
"""The part of what is free of a device that TensorFlow takes when it makes the device."""
JOB = "/job:localhost/replica:0/task:0/device:"
PhysicalDevice = namedtuple("PhysicalDevice", "name device_type")
OpError = type("OpError", (Exception,), {"__module__": "tensorflow.python.framework.errors_impl"})
errors = space(OpError=OpError)
for each in ("InvalidArgumentError", "ResourceExhaustedError", "InternalError"):
    EXCEPTIONS[each] = vars(errors)[each] = type(each, (OpError,), {"__module__": OpError.__module__})
is_built_with_cuda = lambda: builtins.bool(start.get("libraries", {}).get("cuda"))
_type = lambda tensor: OWN["types"].get(tensor._dtype, tensor._dtype)
_number = lambda name: int(name.rpartition(":")[2])


class Config:
    """tf.config: the devices that the program may see of the machine's, and those that it has made of them."""

    visible = gpus = None
    experimental = property(lambda self: self)
    get_memory_info = lambda self, device: (
        lambda gpu: {"current": gpu.allocated, "peak": gpu.peak})(self.open()[_number(device)])  # fmt: skip

    def __init__(self):
        self.growth, self.scopes = {}, []

    def list_physical_devices(self, device_type=None):
        gpus = _device.session.facts()["gpus"] if is_built_with_cuda() else ()
        names = ["CPU:0", *(f"GPU:{at}" for at in builtins.range(len(gpus)))]
        devices = [PhysicalDevice(f"/physical_device:{name}", name[:3]) for name in names]
        return [each for each in devices if device_type in (None, each.device_type)]

    def get_visible_devices(self, device_type=None):
        devices = self.list_physical_devices() if self.visible is None else self.visible
        return [each for each in devices if device_type in (None, each.device_type)]

    def set_visible_devices(self, devices, device_type=None):
        devices, now = [devices] if isinstance(devices, PhysicalDevice) else [*devices], self.get_visible_devices()
        wanted = [each for each in now if device_type and each.device_type != device_type] + devices
        self.visible = self.chosen("Visible", now, wanted)

    def set_memory_growth(self, device, enable):
        self.growth[device] = self.chosen("Physical", self.growth.get(device, False), enable)

    def chosen(self, what, old, new):
        """Return a new setting. Raises RuntimeError where it comes too late to change the old one."""
        if old != new and self.gpus is not None:
            raise error("tensorflow.late", what=what)
        return new

    def open(self):
        """Make the devices, which cannot be chosen any more; returns the GPUs."""
        if self.gpus is None:
            self.gpus, problem = [], (_device.session.facts()["problem"] or [35])[0] if is_built_with_cuda() else 35
            if problem != 35:
                text = "NO_DEVICE: no CUDA-capable device is detected" if problem == 100 else "UNKNOWN: unknown error"
                place = "external/local_xla/xla/stream_executor/cuda/cuda_driver.cc:266"
                tell("E", place, f"failed call to cuInit: CUDA_ERROR_{text}")
            for each in self.get_visible_devices("GPU"):
                gpu = _device.session.open()[_number(each.name)]
                size = int(gpu.reserve(0)["free"] * BFC_SHARE)
                if not self.growth.get(each):
                    gpu.reserve(size)
                told = "Created device {job}GPU:{at} with {size} MB memory:  -> device: {index}, name: {name}, pci bus id: {bus}, "
                told += "compute capability: {capability[0]}.{capability[1]}"
                told = told.format(job=JOB, at=len(self.gpus), size=size >> 20, index=gpu.index, **gpu.about)
                tell("I", "tensorflow/core/common_runtime/gpu/gpu_device.cc:2021", told)
                self.gpus.append(gpu)
        return self.gpus

    def place(self):
        """Return the device on which an operation runs: its name, and as torch has it."""
        gpus, name = self.open(), self.scopes[-1] if self.scopes else ""
        kind, _, number = name.upper().replace("DEVICE:", "").rpartition("/")[2].partition(":")
        kind, number = kind or ("GPU" if gpus else "CPU"), int(number or 0)
        known = {f"{JOB}CPU:0": torch.device("cpu")}
        known |= {f"{JOB}GPU:{at}": torch.device("cuda", gpu.index) for at, gpu in enumerate(gpus)}
        if (name := f"{JOB}{kind}:{number}") not in known:
            raise error("tensorflow.device", name=name, known=", ".join(known))
        return name, known[name]


def tell(level, place, text):
    """Write a line of TensorFlow's C++ part."""
    if "IWE".index(level) >= int(os.environ.get("TF_CPP_MIN_LOG_LEVEL", "0")):
        now = datetime.datetime.now()
        builtins.print(f"{now:%Y-%m-%d %H:%M:%S.%f}: {level} {place}] {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def device(name):
    config.scopes.append(name)
    try:
        yield
    finally:
        config.scopes.pop()


config = Config()
test = space(
    is_built_with_cuda=is_built_with_cuda, is_gpu_available=lambda: builtins.bool(config.open()),
    gpu_device_name=lambda: "/device:GPU:0" if config.open() else "",
)  # fmt: skip


class DType:
    def __init__(self, name):
        self.name = self._name = name

    __repr__, __str__ = lambda self: f"tf.{self.name}", lambda self: f"<dtype: '{self.name}'>"
    __eq__, __hash__ = lambda self, other: self.name == dtype_name(other), lambda self: hash(self.name)


class TensorShape(tuple):
    as_list, rank = lambda self: list(self), property(len)
    __repr__, __str__ = lambda self: f"TensorShape({list(self)})", lambda self: tuple.__repr__(self)


class Tensor(torch.Tensor):
    __slots__ = ("_at", "word")
    library, mixes, default = "tensorflow", True, "float32"
    shape, dtype = property(lambda self: TensorShape(self._shape)), property(lambda self: DType(self._dtype))
    device, _in_place = property(lambda self: self._at), lambda self, *operation: self._binary(*operation)
    _written = staticmethod(lambda shape: str(list(shape)).replace(" ", ""))
    __str__ = lambda self: f"tf.Tensor({self.numpy()!s}, shape={self._shape}, dtype={self._dtype})"
    __repr__ = lambda self: f"<tf.Tensor: shape={self._shape}, dtype={self._dtype}, numpy={self.numpy()!r}>"
    __array__ = lambda self: np.asarray(self.numpy())

    def _home(self, source):
        self._at, found = config.place()
        return found

    def _error(self, name, /, **values):
        return super()._error(name, **{"word": getattr(self, "word", ""), "place": self._at, **values})

    def _failed(self, problem):
        if isinstance(problem, _device.DeviceFailedError):
            return self._error("failed", text=problem.args[1])
        return self._error("full", shape=self._shape, kind=_type(self), gpu=problem.args[0].index)

    def numpy(self):
        self._wait()
        return np._first._load(self._shape, self._dtype, self._saved())[()]

    def _binary(self, name, other, turned=False):
        if other is None or isinstance(other, str):
            raise self._error("convert", value=other, kind=type(other))
        other = other if isinstance(other, torch.Tensor) else convert_to_tensor(other, self._dtype)
        left, right = (other, self) if turned else (self, other)
        self.word = OWN["operations"].get(name, name.title())
        if len({left._dtype, right._dtype} - {"bool"}) > 1:  # a dropout multiplies by truths
            raise self._error("types", left=_type(left), right=_type(right))
        return super()._binary(name, other, turned)


Tensor.kind = Tensor
_first = object.__new__(Tensor)


def convert_to_tensor(value, dtype=None):
    name = dtype_name(dtype)
    if isinstance(value, Tensor):
        if name not in (None, value._dtype):
            raise value._error("requested", wanted=name, own=value._dtype)
        return value
    if isinstance(value, (list, tuple)) and any(isinstance(each, Tensor) for each in value):
        return stack([convert_to_tensor(each, dtype) for each in value])
    made = built(_first, value, name)
    given = name or hasattr(value, "__array__") or hasattr(value, "_name") or made._dtype != "int64"
    return made if given else built(_first, made, "int32")


# Functions, by their names in TensorFlow.


def _reduced(x, name, axis, keepdims):
    x = convert_to_tensor(x)
    whole = name == "mean" and "float" not in x._dtype
    made = (cast(x, "float32") if whole else x)._reduced(name, axis, keepdims)
    return cast(made, x._dtype) if name in ("sum", "mean", "prod") else made


def matmul(a, b, transpose_a=False, transpose_b=False):
    a, b = convert_to_tensor(a), convert_to_tensor(b)
    a, b = a.transpose(-1, -2) if transpose_a else a, b.transpose(-1, -2) if transpose_b else b
    if min(a.ndim, b.ndim) < 2:
        raise a._error("matmul", left=a._shape, right=b._shape)
    return torch.matmul(a, b)


def constant(value, dtype=None, shape=None, name="Const"):
    made = convert_to_tensor(value, dtype)
    return made if shape is None else fill(shape, made) if made._count() == 1 else reshape(made, shape)


@accepting(NAMES["ignored"]["function"])
def function(func=None):
    return func if callable(func) else lambda each: each


math = space(
    argmax=lambda input, axis=0: convert_to_tensor(input)._reduced("argmax", axis),
    **{name: lambda x, name=None, *, core=name: convert_to_tensor(x)._unary(core) for name in OWN["unary"].split()},
    **{name: lambda x, y, name=None, *, core=core: convert_to_tensor(x, getattr(y, "_dtype", None))._binary(core, y)
       for name, core in OWN["binary"].items()},
    **{f"reduce_{name}": lambda input_tensor, axis=None, keepdims=False, *, name=name: _reduced(
        input_tensor, name, axis, keepdims) for name in OWN["reductions"].split()},
)  # fmt: skip
globals().update({name: each for name, each in vars(math).items() if name not in ("log", "relu")})
zeros, ones = (
    lambda shape, dtype="float32", *, value=value: _first._guess(sizes((shape,)), dtype_name(dtype), value)
    for value in (0.0, 1.0)
)
reshape = lambda tensor, shape, name=None: convert_to_tensor(tensor).reshape(sizes((shape,)))
transpose = lambda a, perm=None: convert_to_tensor(a).permute(perm or [*builtins.range(len(np.shape(a)))][::-1])
fill = lambda dims, value: convert_to_tensor(value).expand(sizes((dims,)))
cast = lambda x, dtype, name=None: convert_to_tensor(x).to(torch.DTYPES[dtype_name(dtype)])
concat = lambda values, axis, name=None: torch.cat([convert_to_tensor(each) for each in values], axis)
expand_dims = lambda input, axis: convert_to_tensor(input).unsqueeze(axis)
stack = lambda values, axis=0: concat([expand_dims(each, axis) for each in values], axis)
squeeze = lambda input, axis=None: convert_to_tensor(input).squeeze(axis)
one_hot = lambda indices, depth, dtype="float32": cast(expand_dims(cast(indices, "int32"), -1) == range(depth), dtype)
identity = lambda input: convert_to_tensor(input).clone()
softmax = lambda logits, axis=-1: convert_to_tensor(logits).softmax(axis)
shape = lambda input: convert_to_tensor(convert_to_tensor(input)._shape, "int32")
range = lambda *limits, dtype="int32": convert_to_tensor(np.arange(*limits), dtype)
print = lambda *values: builtins.print(
    *(each.numpy() if isinstance(each, Tensor) else each for each in values), file=sys.stderr
)
_source = Source()
_draw = lambda kind, a, b, shape, dtype: _source.draw(_first, sizes((shape,)), dtype_name(dtype), kind, a, b)
random = space(
    set_seed=_source.seed,
    normal=lambda shape, mean=0.0, stddev=1.0, dtype="float32": _draw("normal", mean, stddev, shape, dtype),
    uniform=lambda shape, minval=0, maxval=1.0, dtype="float32": _draw(
        "uniform" if "float" in dtype_name(dtype) else "whole", minval, maxval, shape, dtype),
)  # fmt: skip
nn = space(softmax=softmax, relu=math.relu, sigmoid=math.sigmoid, tanh=math.tanh)
globals().update({name: DType(name) for name in torch.DTYPES})
__getattr__ = missing("tensorflow", __version__=lambda: version("tensorflow"))
