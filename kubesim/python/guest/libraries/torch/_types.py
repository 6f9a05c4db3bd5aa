"""Versions of the image's build, types of elements, devices, and the errors that they raise."""

import contextlib
import sys
import types

import _device
import _elements
from _device import DeviceFailedError, DeviceMemoryError
from _elements import error, version

INSUFFICIENT, NO_DEVICE = 35, 100
WORDS = _elements.NAMES["torch"]["types"]
"""What types are called in errors."""
state = types.SimpleNamespace(grad=True, where=None, autocast=None, default="float32", current=0, target=None)
OutOfMemoryError, AcceleratorError = (
    type(name, (RuntimeError,), {"__module__": "torch"}) for name in ("OutOfMemoryError", "AcceleratorError")
)
_elements.EXCEPTIONS["OutOfMemoryError"] = OutOfMemoryError


def module(name, **names):
    """Make a module that has no file of its own."""
    made = sys.modules[name] = types.ModuleType(name)
    parent, _, last = name.rpartition(".")
    vars(sys.modules[parent]).setdefault("__path__", [])
    setattr(sys.modules[parent], last, made)
    vars(made).update(names)
    return made


def numbers(library):
    """Return the version of a library of the image as numbers."""
    return tuple(int(each) for each in version(library).split("+")[0].split(".") if each.isdecimal())


def cudnn_version():
    """Return cuDNN's number, of which the major version has counted 10,000 since 9."""
    major, minor, patch = numbers("cudnn")
    return major * (10000 if major > 8 else 1000) + minor * 100 + patch


class dtype:
    """torch.dtype."""

    def __init__(self, name):
        self.name, self._name, self.itemsize = name, name, _elements.SIZES[name]
        self.is_floating_point = _elements.is_float(name)

    __repr__ = lambda self: f"torch.{self.name}"
    __reduce__ = lambda self: (DTYPES.get, (self.name,))


DTYPES = {name: dtype(name) for name in _elements.CODES}


class device:
    """torch.device."""

    def __init__(self, kind, index=None):
        if isinstance(kind, int):
            kind, index = "cuda", kind
        self.type, _, number = str(kind).partition(":")
        if self.type not in ("cpu", "cuda", "meta", "mps", "xpu"):
            raise error("torch.kind", kind=self.type)
        self.index = int(number) if number else index

    __str__ = lambda self: self.type if self.index is None else f"{self.type}:{self.index}"
    __eq__ = lambda self, other: isinstance(other, device) and str(self) == str(other)
    __hash__ = lambda self: hash(str(self))
    __reduce__ = lambda self: (device, (str(self),))

    def __repr__(self):
        return f"device(type='{self.type}'" + (f", index={self.index})" if self.index is not None else ")")


CPU = device("cpu")
gpu_of = lambda where: _device.session.gpus[where.index] if where.type == "cuda" else None


def gib(size):
    units = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))
    return next((f"{size / factor:.2f} {unit}" for unit, factor in units if size >= factor), f"{size} bytes")


def failed(problem):
    """Return what torch raises for a device that is full, or has failed."""
    if isinstance(problem, DeviceFailedError):
        made = error("torch.failed", text=problem.args[1])
        return AcceleratorError(*made.args) if numbers("torch") >= (2, 8) else made
    gpu, size, about = problem.args
    OutOfMemoryError.__module__ = "torch" if numbers("torch") >= (2, 5) else "torch.cuda"
    used = "".join(f"Process {pid} has {gib(held)} memory in use. " for pid, held in about["holders"])
    sizes = {"size": size, "total": about["total"], "free": about["free"], "allocated": gpu.allocated}
    sizes["rest"] = gpu.reserved - gpu.allocated
    return error("torch.full", gpu=gpu.index, used=used, **{name: gib(each) for name, each in sizes.items()})


def initialize():
    """Make the context of CUDA; returns the devices. Raises RuntimeError where that is impossible."""
    if not _device.session.open():
        code, text = _device.session.about["problem"] or (INSUFFICIENT, "")
        word = {INSUFFICIENT: "no-driver", NO_DEVICE: "no-device"}.get(code, "unexpected")
        raise error(f"torch.{word}", code=code, text=text)
    return _device.session.gpus


def place(where):
    """Return the device of an argument, with its number."""
    where = state.where if where is None else where
    where = where if isinstance(where, device) else CPU if where is None else device(where)
    if where.type == "cuda":
        index = state.current if where.index is None else where.index
        if index >= len(initialize()):
            raise failed(DeviceFailedError(101, "invalid device ordinal"))
        return device("cuda", index)
    return where


@contextlib.contextmanager
def placed(where, kind):
    """Let tensors be made on a device, and of a type, that are not told otherwise."""
    before = state.where, state.default
    state.where, state.default = where or state.where, kind.name if kind else state.default
    try:
        yield
    finally:
        state.where, state.default = before


@contextlib.contextmanager
def device_errors(raised=failed):
    """Raise the library's error for a device that is full, or has failed."""
    try:
        yield
    except (DeviceFailedError, DeviceMemoryError) as problem:
        raise raised(problem) from None


def work(where, flops, moved, half=False):
    with device_errors():
        _device.session.work(gpu_of(where), flops, moved, half)
