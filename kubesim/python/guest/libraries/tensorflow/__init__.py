"""TensorFlow 2, executed eagerly: tensors, gradients, devices. Arrays and their gradients are the core's.

Sources of wordings: tensorflow/python/eager/context.py, framework/ops.py, core/common_runtime/gpu/gpu_device.cc.
"""

import builtins
import contextlib
import datetime
import os
import sys
import types
from collections import namedtuple
from math import prod

import _arrays
import _device
import _functions
import numpy as np
from _arrays import Array, Mismatch, is_float
from machine import start

BFC_SHARE = 0.9965
"""The part of what is free of a device that TensorFlow takes when it makes the device."""
JOB = "/job:localhost/replica:0/task:0/device:"
WORDS = {"add": "AddV2", "div": "RealDiv", "floordiv": "FloorDiv"}
TYPES = {"float32": "float", "float64": "double", "float16": "half"}
space = types.SimpleNamespace
OpError = type("OpError", (Exception,), {"__module__": "tensorflow.python.framework.errors_impl"})
kinds = "InvalidArgumentError ResourceExhaustedError InternalError NotFoundError".split()
errors = space(
    OpError=OpError, **{each: type(each, (OpError,), {"__module__": OpError.__module__}) for each in kinds}
)
PhysicalDevice, LogicalDevice = (namedtuple(f"{each}Device", "name device_type") for each in ("Physical", "Logical"))


class DType:
    def __init__(self, name):
        self.name, self.is_floating, self.as_numpy_dtype = name, is_float(name), np.SCALARS.get(name)

    __repr__, __str__ = lambda self: f"tf.{self.name}", lambda self: f"<dtype: '{self.name}'>"
    __eq__, __hash__ = lambda self, other: self.name == _name(other), lambda self: hash(self.name)


class Context:
    """Devices of the program: what it may see of the machine's, and those that it has made."""

    def __init__(self):
        self.visible = self.gpus = None
        self.growth, self.limits, self.scopes, self.tapes = {}, {}, [], []
        self.flops, self.moved, self.back = 0, 0, False

    def physical(self):
        count = len(_device.session.facts()["gpus"]) if _with_cuda() else 0
        names = [("CPU:0", "CPU"), *((f"GPU:{at}", "GPU") for at in builtins.range(count))]
        return [PhysicalDevice(f"/physical_device:{name}", kind) for name, kind in names]

    def seen(self):
        return self.physical() if self.visible is None else self.visible

    def open(self):
        """Make the devices, which cannot be chosen any more; returns the GPUs."""
        if self.gpus is None:
            self.gpus, problem = [], (_device.session.facts()["problem"] or [35])[0] if _with_cuda() else 35
            if problem != 35:
                text = "NO_DEVICE: no CUDA-capable device is detected" if problem == 100 else "UNKNOWN: unknown error"
                place = "external/local_xla/xla/stream_executor/cuda/cuda_driver.cc:266"
                tell("E", place, f"failed call to cuInit: CUDA_ERROR_{text}")
            for each in _of_kind(self.seen(), "GPU"):
                self.gpus.append(self.make(_device.session.open()[int(each.name.rpartition(":")[2])], each))
        return self.gpus

    def make(self, gpu, physical):
        size = self.limits.get(physical) or int(gpu.reserve(0)["free"] * BFC_SHARE)
        if not self.growth.get(physical):
            gpu.reserve(size)
        major, minor = gpu.about["capability"]
        text = (
            f"Created device {JOB}GPU:{len(self.gpus)} with {size >> 20} MB memory:  -> device: {gpu.index}, name: "
        )
        text += f"{gpu.about['name']}, pci bus id: {gpu.about.get('bus', '')}, compute capability: {major}.{minor}"
        tell("I", "tensorflow/core/common_runtime/gpu/gpu_device.cc:2021", text)
        return gpu

    def place(self):
        """Return the device on which an operation runs: its name and its GPU. Raises InvalidArgumentError."""
        gpus, name = self.open(), self.scopes[-1] if self.scopes else ""
        kind, _, number = name.upper().replace("DEVICE:", "").rpartition("/")[2].partition(":")
        kind, number = kind or ("GPU" if gpus else "CPU"), int(number or 0)
        if kind == "CPU" or kind == "GPU" and number < len(gpus):
            return f"{JOB}{kind}:{number}", gpus[number] if kind == "GPU" else None
        known = ", ".join([f"{JOB}CPU:0", *(f"{JOB}GPU:{at}" for at in builtins.range(len(gpus)))])
        text = f"Could not satisfy device specification '{JOB}{kind}:{number}'. All available devices [{known}]."
        raise errors.InvalidArgumentError(text)


context = Context()
_with_cuda = lambda: bool(start.get("libraries", {}).get("cuda"))
_of_kind = lambda devices, kind=None: [each for each in devices if kind in (None, each.device_type)]


def tell(level, place, text):
    """Write a line of TensorFlow's C++ part."""
    if "IWE".index(level) >= int(os.environ.get("TF_CPP_MIN_LOG_LEVEL", "0")):
        now = datetime.datetime.now()
        builtins.print(f"{now:%Y-%m-%d %H:%M:%S.%f}: {level} {place}] {text}", file=sys.stderr, flush=True)


def work(gpu, flops, moved):
    """Let an operation take its time on a device; an error of CUDA is the program's."""
    context.flops, context.moved = context.flops + flops, context.moved + moved
    try:
        _device.session.work(gpu, flops, moved)
    except _device.DeviceFailedError as error:
        raise errors.InternalError(f"CUDA error: {error.args[1]}") from None


class TensorShape(tuple):
    as_list, rank = lambda self: list(self), property(len)
    __repr__, __str__ = lambda self: f"TensorShape({list(self)})", lambda self: tuple.__repr__(self)


class Tensor(Array):
    """A tensor, and for a tape what it was made of."""

    __slots__ = ("_at", "_made", "name")
    default, __array_priority__ = "float32", 100
    shape, ndim = property(lambda self: TensorShape(self._shape)), property(lambda self: len(self._shape))
    dtype, device = property(lambda self: DType(self._dtype)), property(lambda self: self._at)
    __hash__, get_shape, __len__ = lambda self: id(self), lambda self: self.shape, lambda self: self._shape[0]
    __float__, __int__ = lambda self: float(self.numpy()), lambda self: int(self.numpy())
    __index__, __bool__ = lambda self: int(self.numpy()), lambda self: bool(self.numpy())
    __iter__ = lambda self: (self[at] for at in builtins.range(self._shape[0]))
    __matmul__, __invert__ = lambda self, other: matmul(self, other), lambda self: self._unary("logical_not")
    __neg__, __abs__ = lambda self: self._unary("neg"), lambda self: self._unary("abs")
    __format__ = lambda self, spec: format(self.numpy(), spec) if spec else str(self)
    __str__ = lambda self: f"tf.Tensor({self.numpy()!s}, shape={self._shape}, dtype={self._dtype})"
    __repr__ = lambda self: f"<tf.Tensor: shape={self._shape}, dtype={self._dtype}, numpy={self.numpy()!r}>"
    _promoted = staticmethod(lambda left, right, a, b: _arrays.promote(left, right, wide=False))
    __array__ = lambda self: self.numpy()

    def _place(self, source):
        self._made, buffer, (self._at, gpu) = None, self._buffer, context.place()
        if buffer.claim is not None:
            return
        size = buffer.size * _arrays.SIZES[self._dtype]
        try:
            buffer.claim = _device.Claim(gpu, size) if size > 4096 else 0
        except _device.DeviceMemoryError:
            shape = str(list(self._shape)).replace(" ", "")
            text = f"OOM when allocating tensor with shape{shape} and type {TYPES.get(self._dtype, self._dtype)} on {self._at}"
            raise errors.ResourceExhaustedError(f"{text} by allocator GPU_{gpu.index}_bfc") from None
        if gpu or buffer.data is None:
            work(gpu, size / 2, 3 * size)

    def numpy(self):
        _device.session.wait(context.place()[1])
        return np._out(_moved(np._first, self))

    def __getitem__(self, key):
        def back(g):
            made = zeros(self._shape, g._dtype)
            made._set(key, g)
            return (made,)

        return record(_arrays.pick(self, key), (self,), back)

    def _unary(self, name):
        made, back = _functions.unary(name, self), _functions.UNARY[name][1]
        return record(made, (self,), lambda g: (back(g, self, made),)) if back else made

    def _binary(self, name, other, turned=False):
        if other is None or isinstance(other, str):
            raise ValueError(
                f"Attempt to convert a value ({other}) with an unsupported type ({type(other)}) to a Tensor."
            )
        other = other if isinstance(other, Tensor) else convert_to_tensor(other, self._dtype)
        left, right = (other, self) if turned else (self, other)
        word = WORDS.get(name, name.title())
        if left._dtype != right._dtype and not context.back:  # gradients multiply by what is true
            want, have = (TYPES.get(each._dtype, each._dtype) for each in (left, right))
            text = f"cannot compute {word} as input #1(zero-based) was expected to be a {want} tensor but is a {have} tensor"
            raise errors.InvalidArgumentError(f"{text} [Op:{word}] name: ")
        try:
            made = _functions.binary(name, left, right)
        except Mismatch:
            shapes = " vs. ".join(str(list(each._shape)).replace(" ", "") for each in (left, right))
            node = f"{{{{function_node __wrapped__{word}_device_{self._at}}}}}"
            raise errors.InvalidArgumentError(f"{node} Incompatible shapes: {shapes} [Op:{word}] name: ") from None
        back = _functions.BINARY[name][1]
        both = lambda g: [fit(*each) for each in zip(back(g, left, right, made), (left, right), strict=True)]
        return record(made, (left, right), both) if back else made


for _each in "add sub mul pow mod and or floordiv div".split():
    _word = {"div": "truediv"}.get(_each, _each)
    setattr(Tensor, f"__{_word}__", lambda self, other, name=_each: self._binary(name, other))
    setattr(Tensor, f"__r{_word}__", lambda self, other, name=_each: self._binary(name, other, turned=True))
for _each in "eq ne lt le gt ge".split():
    setattr(Tensor, f"__{_each}__", lambda self, other, name=_each: self._binary(name, other))
for _each in "sign cos sigmoid log".split():
    setattr(Tensor, _each, lambda self, name=_each: self._unary(name))
Tensor.kind = Tensor
_first = object.__new__(Tensor)


class Variable(Tensor):
    """A tensor that changes in place."""

    __slots__ = ("trainable",)

    def __new__(cls, initial_value, trainable=True, name=None, dtype=None):
        made = object.__new__(cls)
        made._made, made.trainable, made.name = None, trainable, f"{name or 'Variable'}:0"
        return made._take(convert_to_tensor(initial_value, dtype))

    def _take(self, value):
        for each in ("_buffer", "_dtype", "_offset", "_shape", "_strides", "_at"):
            setattr(self, each, getattr(value, each))
        return self

    def assign(self, value):
        value = convert_to_tensor(value, self._dtype)
        if value._shape != self._shape:
            text = f"Cannot assign value to variable '{self.name}': Shape mismatch.The variable shape {self._shape}, and "
            raise ValueError(text + f"the assigned value shape {value._shape} are incompatible.")
        return self._take(value)

    __init__ = lambda self, *args, **more: None
    assign_add, assign_sub = lambda self, by: self.assign(self + by), lambda self, by: self.assign(self - by)
    value = read_value = lambda self: identity(self)
    __str__ = __repr__ = lambda self: (
        f"<tf.Variable '{self.name}' shape={self._shape} dtype={self._dtype}, numpy={self.numpy()!r}>"
    )


_name = lambda kind: None if kind is None else getattr(kind, "name", None) or np.dtype(kind).name


def _moved(first, x, kind=None):
    """Return an array as one of another library."""
    if x._known():
        return first._new(x._shape, kind or x._dtype, x._flat())
    made = first._guess(x._shape, kind or x._dtype, *x._statistics())
    made._buffer.hit = x._buffer.hit
    return made


def convert_to_tensor(value, dtype=None, name=None):
    kind = _name(dtype)
    if isinstance(value, Tensor):
        return value if kind in (None, value._dtype) else cast(value, kind)
    if isinstance(value, (list, tuple)) and builtins.any(isinstance(each, Tensor) for each in value):
        return stack([convert_to_tensor(each, dtype) for each in value])
    array, usual = np.asarray(value), {"float64": "float32", "int64": "int32"}
    usual = {} if isinstance(value, (np.ndarray, np.generic)) else usual
    return _moved(_first, array, kind or usual.get(array._dtype))


def constant(value, dtype=None, shape=None, name=None):
    made = convert_to_tensor(value, dtype)
    return made if shape is None else broadcast_to(made, shape) if not made._shape else reshape(made, shape)


# Gradients.


def record(made, inputs, back):
    if context.tapes:
        made._made = (inputs, back)
    return made


def fit(g, to):
    """Sum a gradient over what was broadcast."""
    if g is None or g._shape == to._shape:
        return g
    new = len(g._shape) - len(to._shape)
    axes = [*builtins.range(new), *(new + at for at, n in enumerate(to._shape) if n == 1 != g._shape[new + at])]
    return reshape(reduce_sum(g, axes), to._shape)  # noqa: F821 - made below


class GradientTape:
    def __init__(self, persistent=False, watch_accessed_variables=True):
        self.persistent, self.used = persistent, False

    def __enter__(self):
        context.tapes.append(self)
        return self

    __exit__, watch = lambda self, *error: context.tapes.remove(self), lambda self, tensor: None

    def gradient(self, target, sources):
        if self.used and not self.persistent:
            text = "A non-persistent GradientTape can only be used to compute one set of gradients (or jacobians)"
            raise RuntimeError(text)
        self.used, many = True, isinstance(sources, (list, tuple))
        found = gradients(target, sources if many else [sources])
        return found if many else found[0]


def gradients(target, sources):
    """Return the gradients of a result with respect to what it was made of; None where it was not."""
    order, seen, left = [], set(), [(target, False)]
    while left:
        tensor, done = left.pop()
        if done:
            order.append(tensor)
        elif id(tensor) not in seen:
            seen.add(id(tensor))
            left += [(tensor, True), *((each, False) for each in (tensor._made or ((),))[0])]
    tapes, context.tapes, context.back = context.tapes, [], True
    known = {id(target): ones(target._shape, target._dtype)}
    for tensor in order[::-1]:
        if tensor._made and id(tensor) in known:
            for each, g in zip(tensor._made[0], tensor._made[1](known[id(tensor)]), strict=True):
                if g is not None and is_float(each._dtype):
                    known[id(each)] = known[id(each)] + g if id(each) in known else g
    context.tapes, context.back = tapes, False
    return [known.get(id(each)) for each in sources]


# Functions.


def _reduction(name):
    def run(input_tensor, axis=None, keepdims=False):
        x = convert_to_tensor(input_tensor)
        made = _functions.reduce(name, x, axis, keepdims)
        made = made if is_float(x._dtype) or name not in ("sum", "prod", "mean") else cast(made, x._dtype)
        shape = [1 if at in _functions.axes_of(x._shape, axis) else n for at, n in enumerate(x._shape)]
        whole = lambda g: broadcast_to(reshape(g, shape), x._shape)
        count = x._count() / builtins.max(made._count(), 1)
        back = {
            "sum": lambda g: (whole(g),),
            "mean": lambda g: (whole(g / count),),
            "max": lambda g: (whole(g) * cast(x._binary("eq", reshape(made, shape)), x._dtype),),
        }.get(name)
        return record(made, (x,), back) if back else made

    return run


_unary = lambda word: lambda x, name=None: convert_to_tensor(x)._unary(word)
_binary = lambda word: lambda x, y, name=None: convert_to_tensor(x, getattr(y, "_dtype", None))._binary(word, y)
_made = {name: _unary(name) for name in "abs exp log sqrt square sin cos tanh sigmoid sign floor round rsqrt".split()}
_made |= {word: _binary(name) for word, name in zip(
    "add subtract multiply divide pow maximum minimum equal not_equal greater less".split(),
    "add sub mul div pow maximum minimum eq ne gt lt".split(), strict=True)}  # fmt: skip
_made |= {f"reduce_{name}": _reduction(name) for name in "sum mean max min prod all any".split()}
_made["argmax"] = lambda input, axis=0: _functions.reduce("argmax", convert_to_tensor(input), axis)
globals().update({name: each for name, each in _made.items() if name not in ("log", "rsqrt")})
math = space(**_made)


def matmul(a, b, transpose_a=False, transpose_b=False):
    turn = lambda x: transpose(x, [*builtins.range(x.ndim - 2), x.ndim - 1, x.ndim - 2])
    a, b = convert_to_tensor(a), convert_to_tensor(b)
    a, b = turn(a) if transpose_a else a, turn(b) if transpose_b else b
    if builtins.min(a.ndim, b.ndim) < 2 or a._shape[-1] != b._shape[-2]:
        shapes = ", ".join(f"In[{n}]: {str(list(x._shape)).replace(' ', '')}" for n, x in enumerate((a, b)))
        raise errors.InvalidArgumentError(f"Matrix size-incompatible: {shapes} [Op:MatMul] name: ")
    made, gpu = _functions.multiply(a, b), context.place()[1]
    if gpu or made._buffer.data is None:
        work(gpu, 2 * made._count() * a._shape[-1], 0)
    return record(made, (a, b), lambda g: (fit(matmul(g, turn(b)), a), fit(matmul(turn(a), g), b)))


def reshape(tensor, shape, name=None):
    x, shape = convert_to_tensor(tensor), tuple(map(int, shape))
    try:
        return record(x._reshape(shape), (x,), lambda g: (reshape(g, x._shape),))
    except ValueError:
        text = f"Input to reshape is a tensor with {x._count()} values, but the requested shape has {prod(shape)}"
        raise errors.InvalidArgumentError(f"{text} [Op:Reshape]") from None


def transpose(a, perm=None):
    x = convert_to_tensor(a)
    perm = [*builtins.range(x.ndim)][::-1] if perm is None else [*perm]
    back = lambda g: (transpose(g, [perm.index(at) for at in builtins.range(x.ndim)]),)
    return record(x._permute(perm), (x,), back)


def broadcast_to(input, shape):
    x = convert_to_tensor(input)
    return record(x._expand(tuple(shape))._copy(), (x,), lambda g: (fit(g, x),))


def cast(x, dtype, name=None):
    x = convert_to_tensor(x)
    return record(x._copy(_name(dtype)), (x,), lambda g: (g._copy(x._dtype),))


def concat(values, axis, name=None):
    values = [convert_to_tensor(each) for each in values]
    cuts = [builtins.sum(each._shape[axis] for each in values[:at]) for at in builtins.range(len(values) + 1)]
    lead = (slice(None),) * (axis % values[0].ndim)
    back = lambda g: [g[(*lead, slice(*pair))] for pair in zip(cuts[:-1], cuts[1:], strict=True)]
    return record(_arrays.join(values, axis), tuple(values), back)


def one_hot(indices, depth, dtype="float32"):
    rows = convert_to_tensor(indices)
    if not rows._known():
        return _first._guess((*rows._shape, depth), _name(dtype), 1 / depth, (depth - 1) ** 0.5 / depth)
    values = [at == int(row) for row in rows._flat() for at in builtins.range(depth)]
    return _first._new((*rows._shape, depth), _name(dtype), values)


def expand_dims(input, axis):
    sizes = [*convert_to_tensor(input)._shape]
    sizes.insert(axis % (len(sizes) + 1), 1)
    return reshape(input, sizes)


def softmax(logits, axis=-1):
    top = exp(logits - identity(reduce_max(logits, axis, keepdims=True)))  # noqa: F821 - made above
    return top / reduce_sum(top, axis, keepdims=True)  # noqa: F821


_sizes = lambda shape: (shape,) if isinstance(shape, int) else tuple(map(int, shape))
stack = lambda values, axis=0: concat([expand_dims(each, axis) for each in values], axis)
squeeze = lambda input: reshape(input, [n for n in input._shape if n != 1])
identity = stop_gradient = lambda input: convert_to_tensor(input)._copy()
fill = lambda dims, value: broadcast_to(convert_to_tensor(value), dims)
zeros = lambda shape, dtype="float32", name=None: _first._guess(_sizes(shape), _name(dtype), 0.0)
ones = lambda shape, dtype="float32", name=None: _first._guess(_sizes(shape), _name(dtype), 1.0)
zeros_like, ones_like = lambda x, dtype=None: zeros(x._shape, dtype or x._dtype), lambda x: ones(x._shape, x._dtype)
eye = lambda n, dtype="float32": convert_to_tensor(np.eye(n), dtype)
shape = lambda input: convert_to_tensor(list(convert_to_tensor(input)._shape), "int32")
where = lambda condition, x, y: _arrays.choose(*map(convert_to_tensor, (condition, x, y)))
range = lambda *limits, dtype="int32": convert_to_tensor(np.arange(*limits), dtype)
function = lambda func=None, **options: func if callable(func) else lambda each: each
print = lambda *values, **options: builtins.print(
    *(each.numpy() if isinstance(each, Tensor) else each for each in values), file=sys.stderr
)


@contextlib.contextmanager
def device(name):
    context.scopes.append(name)
    try:
        yield
    finally:
        context.scopes.pop()


def generator():
    if not hasattr(context, "generator"):
        context.generator = np.random.default_rng(sum(_device.session.facts()["seed"].encode()))
    return context.generator


def _uniform(shape, minval=0, maxval=1.0, dtype="float32", seed=None):
    draw = generator().integers if isinstance(maxval, int) and maxval > 1 else generator().uniform
    return convert_to_tensor(draw(minval, maxval, _sizes(shape)), dtype)


random = space(
    normal=lambda shape, mean=0.0, stddev=1.0, dtype="float32", seed=None: convert_to_tensor(
        generator().normal(mean, stddev, _sizes(shape)), dtype
    ),
    uniform=_uniform,
    set_seed=lambda seed: setattr(context, "generator", np.random.default_rng(seed)),
)


nn = space(softmax=softmax, relu=_unary("relu"), sigmoid=_unary("sigmoid"), tanh=_unary("tanh"))
linalg = space(matmul=matmul)
float16, float32, float64, int32, int64, bfloat16, uint8 = (
    DType(each) for each in "float16 float32 float64 int32 int64 bfloat16 uint8".split()
)


from tensorflow._devices import config, test  # noqa: E402, F401


def __getattr__(name):
    if name == "__version__":
        return start.get("libraries", {}).get("tensorflow") or "2.17.0"
    if name == "bool":
        return DType("bool")
    raise AttributeError(f"module 'tensorflow' has no attribute {name!r}")
