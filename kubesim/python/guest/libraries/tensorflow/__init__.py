"""TensorFlow 2, executed eagerly: tensors, gradients and functions. Arrays and their gradients are the core's."""

import builtins
import sys
import types
from math import prod

import _arrays
import _device
import _functions
import numpy as np
from _arrays import Mismatch, is_float
from _methods import Common
from machine import start

from tensorflow._devices import config, device, errors, test  # noqa: F401

WORDS = {"add": "AddV2", "div": "RealDiv", "floordiv": "FloorDiv"}
TYPES = {"float32": "float", "float64": "double", "float16": "half"}
DTYPES = ("float16", "bfloat16", "float32", "float64", "uint8", "int32", "int64", "bool")
space = types.SimpleNamespace
tapes = []


class DType:
    def __init__(self, name):
        self.name, self.is_floating, self.as_numpy_dtype = name, is_float(name), np.SCALARS.get(name)

    __repr__, __str__ = lambda self: f"tf.{self.name}", lambda self: f"<dtype: '{self.name}'>"
    __eq__, __hash__ = lambda self, other: self.name == _name(other), lambda self: hash(self.name)


class TensorShape(tuple):
    as_list, rank = lambda self: list(self), property(len)
    __repr__, __str__ = lambda self: f"TensorShape({list(self)})", lambda self: tuple.__repr__(self)


class Tensor(Common):
    __slots__ = ("_at", "name")
    default, word, no_length, __array_priority__ = "float32", "tensor", "Scalar tensor has no `len()`", 100
    shape, dtype = property(lambda self: TensorShape(self._shape)), property(lambda self: DType(self._dtype))
    device, item = property(lambda self: self._at), lambda self: self.numpy().item()
    __hash__, __bool__ = lambda self: id(self), lambda self: builtins.bool(self.item())
    _index_error = lambda self, at, axis=0, size=None: errors.InvalidArgumentError(
        f"{{{{function_node __wrapped__StridedSlice_device_{self._at}}}}} slice index {at} of dimension {axis} out of bounds."
    )
    __matmul__, _in_place = lambda self, other: matmul(self, other), lambda self, *operation: self._binary(*operation)
    __str__ = lambda self: f"tf.Tensor({self.numpy()!s}, shape={self._shape}, dtype={self._dtype})"
    __repr__ = lambda self: f"<tf.Tensor: shape={self._shape}, dtype={self._dtype}, numpy={self.numpy()!r}>"
    _promoted = staticmethod(lambda left, right, a, b: _arrays.promote(left, right, wide=False))

    def _place(self, source):
        buffer, (self._at, gpu) = self._buffer, config.place()
        if buffer.claim is not None:
            return
        size = buffer.size * _arrays.SIZES[self._dtype]
        try:
            buffer.claim = _device.Claim(gpu, size) if size > 4096 else 0
        except _device.DeviceMemoryError:
            text = f"OOM when allocating tensor with shape{_brackets(self)} and type {_type(self)} on {self._at}"
            raise errors.ResourceExhaustedError(f"{text} by allocator GPU_{gpu.index}_bfc") from None
        if gpu or buffer.data is None:
            config.work(gpu, size / 2, 3 * size)

    def numpy(self):
        _device.session.wait(config.place()[1])
        return np.asarray(_moved(np.zeros(()), self))[()]

    __array__ = numpy

    def __getitem__(self, key):
        def back(g):
            made = zeros(self._shape, g._dtype)
            made._set(key, g)
            return (made,)

        return record(self._pick(key), (self,), back)

    def _unary(self, name):
        made, back = _functions.unary(name, self), _functions.UNARY[name][1]
        return record(made, (self,), back and (lambda g: (back(g, self, made),)))

    def _binary(self, name, other, turned=False):
        if other is None or isinstance(other, str):
            text = f"Attempt to convert a value ({other}) with an unsupported type ({type(other)}) to a Tensor."
            raise ValueError(text)
        other = convert_to_tensor(other, None if isinstance(other, Tensor) else self._dtype)
        left, right = (other, self) if turned else (self, other)
        word = WORDS.get(name, name.title())
        if len({left._dtype, right._dtype} - {"bool"}) > 1:  # gradients multiply by truths
            text = f"cannot compute {word} as input #1(zero-based) was expected to be a {_type(left)} tensor"
            raise errors.InvalidArgumentError(f"{text} but is a {_type(right)} tensor [Op:{word}] name: ")
        try:
            made = _functions.binary(name, left, right)
        except Mismatch:
            node = f"{{{{function_node __wrapped__{word}_device_{self._at}}}}}"
            text = f"{node} Incompatible shapes: {_brackets(left)} vs. {_brackets(right)} [Op:{word}] name: "
            raise errors.InvalidArgumentError(text) from None
        back = _functions.BINARY[name][1]
        return record(made, (left, right), back and (lambda g: back(g, left, right, made)))


class Variable(Tensor):
    """A tensor that changes in place."""

    __slots__ = ("trainable",)

    def __new__(cls, initial_value, trainable=True, name=None, dtype=None):
        made = object.__new__(cls)
        made.trainable, made.name = trainable, f"{name or 'Variable'}:0"
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


def _element(core):
    return lambda x, name=None: convert_to_tensor(x)._unary(core)


for _each in ("sign", "cos", "sin", "log", "sigmoid"):  # as the core's gradients call them
    setattr(Tensor, _each, _element(_each))
Tensor.kind = Tensor
_first = object.__new__(Tensor)
_name = lambda kind: None if kind is None else getattr(kind, "name", None) or np.dtype(kind).name
_type = lambda tensor: TYPES.get(tensor._dtype, tensor._dtype)
_brackets = lambda tensor: str(list(tensor._shape)).replace(" ", "")
_sizes = lambda shape: (shape,) if isinstance(shape, int) else tuple(map(int, shape))


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
    if isinstance(value, (list, tuple)) and any(isinstance(each, Tensor) for each in value):
        return stack([convert_to_tensor(each, dtype) for each in value])
    array, usual = np.asarray(value), {"float64": "float32", "int64": "int32"}
    own = array._dtype if isinstance(value, (np.ndarray, np.generic)) else usual.get(array._dtype)
    return _moved(_first, array, kind or own)


def constant(value, dtype=None, shape=None, name=None):
    made = convert_to_tensor(value, dtype)
    return made if shape is None else broadcast_to(made, shape) if not made._shape else reshape(made, shape)


# Gradients.


def record(made, inputs, back):
    for tape in tapes if back else ():
        tape.records.append((made, inputs, back))
    return made


def fit(g, to):
    """Return a gradient summed over what was broadcast."""
    if g._shape == to._shape:
        return g
    new = g.ndim - to.ndim
    axes = [*builtins.range(new), *(new + at for at, n in enumerate(to._shape) if n == 1 != g._shape[new + at])]
    return reshape(math.reduce_sum(g, axes), to._shape)


class GradientTape:
    """The operations carried out while it runs, and how gradients go back through them."""

    def __init__(self, persistent=False, watch_accessed_variables=True):
        self.persistent, self.records = persistent, []

    def __enter__(self):
        tapes.append(self)
        return self

    __exit__, watch = lambda self, *error: tapes.remove(self), lambda self, tensor: None

    def gradient(self, target, sources):
        """Return the gradients of a result with respect to what it was made of; None where it was not."""
        if self.records is None:
            text = "A non-persistent GradientTape can only be used to compute one set of gradients (or jacobians)"
            raise RuntimeError(text)
        known = {id(target): ones_like(target)}
        for made, inputs, back in reversed(self.records):
            pairs = zip(inputs, back(known[id(made)]), strict=True) if id(made) in known else ()
            for each, g in pairs:
                if g is not None and is_float(each._dtype):
                    known[id(each)] = fit(g, each) + known[id(each)] if id(each) in known else fit(g, each)
        self.records = self.records if self.persistent else None
        many = isinstance(sources, (list, tuple))
        return [known.get(id(each)) for each in sources] if many else known.get(id(sources))


# Functions: those of the core by their names in TensorFlow, and those that change the shape.


def _pair(core):
    return lambda x, y, name=None: convert_to_tensor(x, getattr(y, "_dtype", None))._binary(core, y)


def _reduction(name):
    def run(input_tensor, axis=None, keepdims=False):
        x = convert_to_tensor(input_tensor)
        made = _functions.reduce(name, x, axis, keepdims)
        made = cast(made, x._dtype) if name in ("sum", "prod", "mean") else made
        shape = [1 if at in _functions.axes_of(x._shape, axis) else n for at, n in enumerate(x._shape)]
        whole = lambda g: broadcast_to(reshape(g, shape), x._shape)
        back = {
            "sum": lambda g: (whole(g),),
            "mean": lambda g: (whole(g * (made._count() / x._count())),),
            "max": lambda g: (whole(g) * cast(x == reshape(made, shape), x._dtype),),
        }
        return record(made, (x,), back.get(name))

    return run


ELEMENTS = "abs exp log sqrt square sin cos tanh sigmoid sign floor round relu".split()
PAIRS = {"add": "add", "subtract": "sub", "multiply": "mul", "divide": "div", "pow": "pow", "maximum": "maximum",
         "minimum": "minimum", "equal": "eq", "not_equal": "ne", "greater": "gt", "less": "lt"}  # fmt: skip
REDUCTIONS = "sum mean max min prod all any".split()
math = space(
    argmax=lambda input, axis=0: _functions.reduce("argmax", convert_to_tensor(input), axis),
    **{name: _element(name) for name in ELEMENTS},
    **{name: _pair(core) for name, core in PAIRS.items()},
    **{f"reduce_{name}": _reduction(name) for name in REDUCTIONS},
)
globals().update({name: each for name, each in vars(math).items() if name not in ("log", "relu")})


def matmul(a, b, transpose_a=False, transpose_b=False):
    turn = lambda x: transpose(x, [*builtins.range(x.ndim - 2), x.ndim - 1, x.ndim - 2])
    a, b = convert_to_tensor(a), convert_to_tensor(b)
    a, b = turn(a) if transpose_a else a, turn(b) if transpose_b else b
    if min(a.ndim, b.ndim) < 2 or a._shape[-1] != b._shape[-2]:
        text = f"Matrix size-incompatible: In[0]: {_brackets(a)}, In[1]: {_brackets(b)} [Op:MatMul] name: "
        raise errors.InvalidArgumentError(text)
    made, gpu = _functions.multiply(a, b), config.place()[1]
    if gpu or made._buffer.data is None:
        config.work(gpu, 2 * made._count() * a._shape[-1], 0)
    return record(made, (a, b), lambda g: (matmul(g, turn(b)), matmul(turn(a), g)))


def reshape(tensor, shape, name=None):
    x, shape = convert_to_tensor(tensor), _sizes(shape)
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
    return record(x._expand(_sizes(shape))._copy(), (x,), lambda g: (g,))


def cast(x, dtype, name=None):
    x = convert_to_tensor(x)
    return x if x._dtype == _name(dtype) else record(x._copy(_name(dtype)), (x,), lambda g: (g,))


def concat(values, axis, name=None):
    values = [convert_to_tensor(each) for each in values]
    cuts = [sum(each._shape[axis] for each in values[:at]) for at in builtins.range(len(values) + 1)]
    lead = (slice(None),) * (axis % values[0].ndim)
    back = lambda g: [g[(*lead, slice(*pair))] for pair in zip(cuts[:-1], cuts[1:], strict=True)]
    return record(_arrays.join(values, axis), tuple(values), back)


def expand_dims(input, axis):
    x = convert_to_tensor(input)
    at = axis % (x.ndim + 1)
    return reshape(x, (*x._shape[:at], 1, *x._shape[at:]))


def softmax(logits, axis=-1):
    top = math.exp(logits - stop_gradient(math.reduce_max(logits, axis, keepdims=True)))
    return top / math.reduce_sum(top, axis, keepdims=True)


stack = lambda values, axis=0: concat([expand_dims(each, axis) for each in values], axis)
one_hot = lambda indices, depth, dtype="float32": cast(expand_dims(cast(indices, "int32"), -1) == range(depth), dtype)
squeeze = lambda input: reshape(input, [n for n in input._shape if n != 1])
identity = lambda input: reshape(input, convert_to_tensor(input)._shape)
stop_gradient = lambda input: convert_to_tensor(input)._copy()
fill = lambda dims, value: broadcast_to(value, dims)
zeros = lambda shape, dtype="float32", name=None: _first._guess(_sizes(shape), _name(dtype), 0.0)
ones = lambda shape, dtype="float32", name=None: _first._guess(_sizes(shape), _name(dtype), 1.0)
zeros_like, ones_like = lambda x: zeros(x._shape, x._dtype), lambda x: ones(x._shape, x._dtype)
eye = lambda n, dtype="float32": convert_to_tensor(np.eye(n), dtype)
shape = lambda input: convert_to_tensor(convert_to_tensor(input)._shape, "int32")
range = lambda *limits, dtype="int32": convert_to_tensor(np.arange(*limits), dtype)
function = lambda func=None, **options: func if callable(func) else lambda each: each
print = lambda *values, **options: builtins.print(
    *(each.numpy() if isinstance(each, Tensor) else each for each in values), file=sys.stderr
)


def _draw(name, low, high, shape, dtype):
    if not hasattr(random, "generator"):
        random.set_seed(sum(_device.session.facts()["seed"].encode()))
    return convert_to_tensor(getattr(random.generator, name)(low, high, _sizes(shape)), dtype)


random = space(
    set_seed=lambda seed: setattr(random, "generator", np.random.default_rng(seed)),
    normal=lambda shape, mean=0.0, stddev=1.0, dtype="float32", seed=None: _draw("normal", mean, stddev, shape, dtype),
    uniform=lambda shape, minval=0, maxval=1.0, dtype="float32", seed=None: _draw(
        "uniform" if "float" in _name(dtype) else "integers", minval, maxval, shape, dtype),
)  # fmt: skip
nn = space(softmax=softmax, relu=math.relu, sigmoid=math.sigmoid, tanh=math.tanh)
linalg = space(matmul=matmul)
globals().update({name: DType(name) for name in DTYPES})


def __getattr__(name):
    if name == "__version__":  # the image's, which is known once the program starts
        return start.get("libraries", {}).get("tensorflow") or "2.17.0"
    raise AttributeError(f"module 'tensorflow' has no attribute {name!r}")
