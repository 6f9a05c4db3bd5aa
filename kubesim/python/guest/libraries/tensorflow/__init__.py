"""TensorFlow 2, executed eagerly: torch's tensors and gradients by TensorFlow's names, with its words and devices."""

import builtins
import functools
import math as mathematics
import sys
import types

import _arrays
import _device
import numpy as np
import torch
from _arrays import Source, dtype_name, sizes
from machine import start
from torch._tensor import backward

from tensorflow._devices import config, device, errors, test  # noqa: F401

WORDS = {"add": "AddV2", "div": "RealDiv", "floordiv": "FloorDiv"}
TYPES = {"float32": "float", "float64": "double", "float16": "half"}
DTYPES = ("float16", "bfloat16", "float32", "float64", "uint8", "int32", "int64", "bool")
space, tapes = types.SimpleNamespace, []


class DType:
    def __init__(self, name):
        self.name, self._name, self.is_floating, self.as_numpy_dtype = name, name, "float" in name, np.SCALARS[name]

    __repr__, __str__ = lambda self: f"tf.{self.name}", lambda self: f"<dtype: '{self.name}'>"
    __eq__, __hash__ = lambda self, other: self.name == dtype_name(other), lambda self: hash(self.name)


class TensorShape(tuple):
    as_list, rank = lambda self: list(self), property(len)
    __repr__, __str__ = lambda self: f"TensorShape({list(self)})", lambda self: tuple.__repr__(self)


_brackets = lambda shape: str(list(shape)).replace(" ", "")
_type = lambda tensor: TYPES.get(tensor._dtype, tensor._dtype)
_invalid = lambda text: errors.InvalidArgumentError(text)


class Tensor(torch.Tensor):
    __slots__ = ("_at", "name")
    no_length, mixes = "Scalar tensor has no `len()`", True
    errors = {
        **torch.Tensor.errors,
        "broadcast": lambda a, b, error: _invalid(f"Incompatible shapes: {_brackets(a._shape)} vs. {_brackets(b._shape)}"),
        "matmul": lambda a, b: _invalid(
            f"Matrix size-incompatible: In[0]: {_brackets(a._shape)}, In[1]: {_brackets(b._shape)} [Op:MatMul] name: "),
        "index": lambda dims, at, axis=0, size=None: _invalid(f"slice index {at} of dimension {axis} out of bounds."),
        "reshape": lambda count, shape: _invalid(f"Input to reshape is a tensor with {count} values, but the requested shape "
                                                 f"has {mathematics.prod(shape)} [Op:Reshape]"),
    }  # fmt: skip
    shape, dtype = property(lambda self: TensorShape(self._shape)), property(lambda self: DType(self._dtype))
    device, default = property(lambda self: self._at), "float32"
    _in_place = lambda self, *operation: self._binary(*operation)
    _step = lambda self, found, *how: super()._step(found, *how) if tapes else found
    __str__ = lambda self: f"tf.Tensor({self.numpy()!s}, shape={self._shape}, dtype={self._dtype})"
    __repr__ = lambda self: f"<tf.Tensor: shape={self._shape}, dtype={self._dtype}, numpy={self.numpy()!r}>"

    def _home(self, source):
        self._at, found = config.place()
        return found

    def _failed(self, error):
        if isinstance(error, _device.DeviceFailedError):
            return errors.InternalError(f"CUDA error: {error.args[1]}")
        text = f"OOM when allocating tensor with shape{_brackets(self._shape)} and type {_type(self)} on {self._at}"
        return errors.ResourceExhaustedError(f"{text} by allocator GPU_{error.args[0].index}_bfc")

    def numpy(self):
        self._wait()
        return np.asarray(np._first._load(self._shape, self._dtype, self._saved()))[()]

    __array__ = numpy

    def _binary(self, name, other, turned=False):
        if other is None or isinstance(other, str):
            text = f"Attempt to convert a value ({other}) with an unsupported type ({type(other)}) to a Tensor."
            raise ValueError(text)
        other = convert_to_tensor(other, None if isinstance(other, Tensor) else self._dtype)
        left, right = (other, self) if turned else (self, other)
        word = WORDS.get(name, name.title())
        if len({left._dtype, right._dtype} - {"bool"}) > 1:  # gradients multiply by truths
            text = f"cannot compute {word} as input #1(zero-based) was expected to be a {_type(left)} tensor"
            raise _invalid(f"{text} but is a {_type(right)} tensor [Op:{word}] name: ")
        try:
            return super()._binary(name, other, turned)
        except errors.InvalidArgumentError as error:
            node = f"{{{{function_node __wrapped__{word}_device_{self._at}}}}}"
            raise _invalid(f"{node} {error} [Op:{word}] name: ") from None


class Variable(Tensor):
    """A tensor that changes in place."""

    __slots__ = ("trainable",)

    def __new__(cls, initial_value, trainable=True, name=None, dtype=None):
        made = object.__new__(cls)
        made.trainable, made.name = trainable, f"{name or 'Variable'}:0"
        return made._take(convert_to_tensor(initial_value, dtype))

    def _take(self, value):
        for each in ("_buffer", "_dtype", "_offset", "_shape", "_strides", "_at", "_device"):
            setattr(self, each, getattr(value, each))
        self._node, self._wants, self.grad, self.hooks = None, self.trainable and "float" in self._dtype, None, []
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


Tensor.kind = Tensor
_first = object.__new__(Tensor)


def convert_to_tensor(value, dtype=None):
    name = dtype_name(dtype)
    if isinstance(value, Tensor):
        if name not in (None, value._dtype):
            text = f"Tensor conversion requested dtype {name} for Tensor with dtype {value._dtype}: {value!r}"
            raise ValueError(text)
        return value
    if isinstance(value, (list, tuple)) and any(isinstance(each, Tensor) for each in value):
        return stack([convert_to_tensor(each, dtype) for each in value])
    made = np.asarray(value)
    usual = {"float64": "float32", "int64": "int32"} if not isinstance(value, (np.ndarray, np.generic)) else {}
    return _first._load(made._shape, name or usual.get(made._dtype, made._dtype), made._saved())


def constant(value, dtype=None, shape=None, name="Const"):
    made = convert_to_tensor(value, dtype)
    return made if shape is None else broadcast_to(made, shape) if made._count() == 1 else reshape(made, shape)


class GradientTape:
    """Gradients of what is computed while it runs."""

    def __init__(self, persistent=False, watch_accessed_variables=True):
        self.persistent, self.used = persistent, False

    def __enter__(self):
        tapes.append(self)
        return self

    __exit__ = lambda self, *error: tapes.remove(self)
    watch = lambda self, tensor: tensor.requires_grad_() and None

    def gradient(self, target, sources):
        """Return the gradients of a result with respect to what it was made of; None where it was not."""
        if self.used and not self.persistent:
            text = "A non-persistent GradientTape can only be used to compute one set of gradients (or jacobians)"
            raise RuntimeError(text)
        self.used, found, many = True, {}, isinstance(sources, (list, tuple))
        every = sources if many else [sources]
        for each in every:
            each.hooks = [functools.partial(found.__setitem__, id(each))]
        for leaf in backward(target, ones_like(target), self.persistent) if target._wants else ():
            leaf.grad = None
        for each in every:
            each.hooks = []
        return [found.get(id(each)) for each in every] if many else found.get(id(sources))


# Functions, by their names in TensorFlow.


def _pair(core):
    return lambda x, y, name=None: convert_to_tensor(x, getattr(y, "_dtype", None))._binary(core, y)


def _element(core):
    return lambda x, name=None: convert_to_tensor(x)._unary(core)


def _reduction(name):
    def run(input_tensor, axis=None, keepdims=False):
        x = convert_to_tensor(input_tensor)
        whole = name == "mean" and "float" not in x._dtype
        made = (cast(x, "float32") if whole else x)._reduced(name, axis, keepdims)
        return cast(made, x._dtype) if whole or name in ("sum", "prod") else made

    return run


ELEMENTS = "abs exp log sqrt square sin cos tanh sigmoid sign floor round".split()
PAIRS = {"add": "add", "subtract": "sub", "multiply": "mul", "divide": "div", "pow": "pow", "maximum": "maximum",
         "minimum": "minimum", "equal": "eq", "not_equal": "ne", "greater": "gt", "less": "lt"}  # fmt: skip
REDUCTIONS = "sum mean max min prod all any".split()
math = space(
    argmax=lambda input, axis=0: convert_to_tensor(input)._reduced("argmax", axis),
    **{name: _element(name) for name in ELEMENTS},
    **{name: _pair(core) for name, core in PAIRS.items()},
    **{f"reduce_{name}": _reduction(name) for name in REDUCTIONS},
)
globals().update({name: each for name, each in vars(math).items() if name != "log"})


def matmul(a, b, transpose_a=False, transpose_b=False):
    a, b = convert_to_tensor(a), convert_to_tensor(b)
    a, b = a.transpose(-1, -2) if transpose_a else a, b.transpose(-1, -2) if transpose_b else b
    if min(a.ndim, b.ndim) < 2:
        raise a.errors["matmul"](a, b)
    return torch.matmul(a, b)


def transpose(a, perm=None):
    x = convert_to_tensor(a)
    return x.permute([*builtins.range(x.ndim)][::-1] if perm is None else [*perm])


def softmax(logits, axis=-1):
    return convert_to_tensor(logits).softmax(axis)


reshape = lambda tensor, shape, name=None: convert_to_tensor(tensor).reshape(sizes((shape,)))
broadcast_to = lambda input, shape: convert_to_tensor(input).expand(sizes((shape,)))
cast = lambda x, dtype, name=None: convert_to_tensor(x).to(torch.DTYPES[dtype_name(dtype)])
concat = lambda values, axis, name=None: torch.cat([convert_to_tensor(each) for each in values], axis)
expand_dims = lambda input, axis: convert_to_tensor(input).unsqueeze(axis)
stack = lambda values, axis=0: concat([expand_dims(each, axis) for each in values], axis)
one_hot = lambda indices, depth, dtype="float32": cast(expand_dims(cast(indices, "int32"), -1) == range(depth), dtype)
squeeze = lambda input, axis=None: convert_to_tensor(input).squeeze(axis)
identity, stop_gradient = (
    lambda input: convert_to_tensor(input).clone(),
    lambda input: convert_to_tensor(input).detach(),
)
fill = lambda dims, value: broadcast_to(value, dims)
zeros, ones = (
    lambda shape, dtype="float32", name=None, *, value=value: _first._guess(sizes((shape,)), dtype_name(dtype), value)
    for value in (0.0, 1.0)
)
zeros_like, ones_like = lambda x: zeros(x._shape, x._dtype), lambda x: ones(x._shape, x._dtype)
eye = lambda n, dtype="float32": convert_to_tensor(np.eye(n), dtype)
shape = lambda input: convert_to_tensor(convert_to_tensor(input)._shape, "int32")
range = lambda *limits, dtype="int32": convert_to_tensor(np.arange(*limits), dtype)
print = lambda *values, **options: builtins.print(
    *(each.numpy() if isinstance(each, Tensor) else each for each in values), file=sys.stderr
)


@_arrays.accepting("jit_compile input_signature reduce_retracing autograph")
def function(func=None):
    return func if callable(func) else lambda each: each


_source = Source()
_draw = lambda kind, a, b, shape, dtype: _source.draw(_first, sizes((shape,)), dtype_name(dtype), kind, a, b)
random = space(
    set_seed=_source.seed,
    normal=lambda shape, mean=0.0, stddev=1.0, dtype="float32", seed=None: _draw("normal", mean, stddev, shape, dtype),
    uniform=lambda shape, minval=0, maxval=1.0, dtype="float32", seed=None: _draw(
        "uniform" if "float" in dtype_name(dtype) else "whole", minval, maxval, shape, dtype),
)  # fmt: skip
nn = space(softmax=softmax, relu=_element("relu"), sigmoid=math.sigmoid, tanh=math.tanh)
linalg = space(matmul=matmul)
globals().update({name: DType(name) for name in DTYPES})


def __getattr__(name):
    if name == "__version__":  # the image's, which is known once the program starts
        return start.get("libraries", {}).get("tensorflow") or "2.17.0"
    raise AttributeError(f"module 'tensorflow' has no attribute {name!r}")
